"""What the four documents say in the field cases S05, S18, S19, S21 and S22: each list is there in every one of
them, and nothing that was not measured is told as a loss or as a pass.
"""

import json
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from app.report.html import html
from app.report.junit import junit
from app.report.markdown import markdown
from app.report.run_json import json_chunks
from tests import examples
from tests.examples import Example
from tests.report.reading import Page, rows, tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A run in its four documents, each read by a strict reader."""

    record: dict[str, Any]
    page: Page
    text: str
    words: str
    """The Markdown as a reader sees it."""
    cases: dict[str, tuple[str, str, str]]
    """By the question's id: JUnit's element ("passed" where there is none), its message, its text."""

    def outcome(self, name: str) -> str:
        (found,) = [each["outcome"] for each in self.record["questions"] if each["id"] == name]
        return str(found)

    def listed(self, section: str, heading: str) -> list[str]:
        """The ids under the Markdown heading, each also in that section of the page."""
        found = [row[0].split()[0] for row in rows(self.text, heading)]
        assert [name for name in found if f"{name} " not in f"{self.page.section(section)} "] == []
        return found


def told(example: Example) -> Told:
    documents = (
        b"".join(json_chunks(example.run, example.results)),
        "".join(html(example.run, example.results)).encode(),
        markdown(example.run, example.results).encode(),
        junit(example.run, example.results),
    )
    record, page, text, suites = (each.decode("utf-8") for each in documents)
    return Told(
        record=json.loads(record),
        page=Page(page),
        text=text,
        words=" ".join(each.content for each in tokens(text) if each.type in ("text", "code_inline")),
        cases={
            (case.get("name") or "").split(": ")[0]: _kind(case)
            for case in ET.fromstring(suites).iter("testcase")  # noqa: S314 — our own document
        },
    )


def _kind(case: ET.Element) -> tuple[str, str, str]:
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            return child.tag, child.get("message") or "", child.text or ""
    return "passed", "", "".join(case.itertext())


def kinds(found: Told, *names: str) -> list[str]:
    return [found.cases[name][0] for name in names]


def test_s05_a_label_in_neither_index_has_a_list_of_its_own_and_is_no_loss() -> None:
    found = told(examples.stale_critical())
    assert found.record["verdict"] == "ERROR"
    assert found.record["lost"] == found.record["gained"] == []
    assert found.outcome("q003") == "stale"
    assert found.listed("stale", "Stale labels (1)") == ["q003"]
    assert "Lost questions (0)" in found.page.text
    assert "## Lost" not in found.text
    assert kinds(found, "q003", "critical-stale", "q001") == ["skipped", "error", "passed"]
    for document in (found.page.section("stale"), found.words, found.cases["q003"][1]):
        assert "label not in either index: hr-policy-2019" in document


def test_s05_a_document_that_only_the_baseline_has_is_a_loss_with_its_note() -> None:
    found = told(examples.failing())
    (lost,) = [each for each in found.record["lost"] if each["id"] == "visa-letter"]
    assert lost["cause"] == "document-missing"
    assert "visa-letter" in found.listed("lost", "Lost questions (4")
    assert found.cases["visa-letter"][0] == "failure"
    for document in (found.page.section("lost"), found.words, found.cases["visa-letter"][2]):
        assert "document-missing" in document
        assert "The candidate index does not hold visa-letters" in document


def test_s18_what_xml_cannot_hold_is_a_visible_escape_in_every_document() -> None:
    found = told(examples.hostile())
    (asked,) = [each for each in found.record["questions"] if each["id"] == examples.S18_ID]
    assert "\u000b" in asked["question"], "the record keeps what can be kept"
    assert asked["answers"] == ["d\t1"]
    kind, message, text = found.cases[examples.S18_ID]
    assert (kind, message[:5]) == ("failure", "lost:")
    for document in (found.page.text, found.words, text):
        assert "\\u000b" in document
        assert "\\u001b" in document
        assert "d\\t1" in document
        assert not set("\u000b\u001b\uffff\t") & set(document)


@pytest.mark.parametrize("name", ["empty", "unlabelled_only", "unmeasured"])
def test_s19_nothing_evaluated_is_an_error_with_what_was_skipped(name: str) -> None:
    found = told(getattr(examples, name)())
    labelled, unlabelled = {"empty": (0, 0), "unlabelled_only": (0, 12), "unmeasured": (12, 0)}[name]
    asked = [f"q{number}" for number in range(1, 13)]
    assert found.record["verdict"] == "ERROR"
    assert found.record["counts"]["evaluated"] == 0
    for document in (found.record["headline"], found.page.text, found.text):
        assert f"0 of {labelled} labelled questions evaluated" in document
    assert found.cases["nothing-evaluated"][0] == "error"
    assert found.listed("unlabelled", "Unlabelled (12)") == (asked if unlabelled else [])
    assert found.listed("errors", "Not measured (12)") == (asked if labelled else [])
    assert kinds(found, *asked[: labelled + unlabelled]) == ["error"] * labelled + ["skipped"] * unlabelled


def test_s21_an_error_is_an_error_in_every_document() -> None:
    found = told(examples.errors_are_no_losses())
    assert found.record["verdict"] == "ERROR"
    assert found.record["lost"] == found.record["gained"] == []
    assert found.listed("errors", "Not measured (2)") == ["q1", "q2"]
    assert "Lost questions (0)" in found.page.text
    assert found.page.section("gained") == ""
    assert "## Lost" not in found.text
    assert "## Gained" not in found.text
    assert kinds(found, "q1", "q2", "q3", "q4") == ["error", "error", "passed", "passed"]
    assert "timed-out" in found.cases["q2"][1]


def test_s22_a_noisy_question_is_listed_with_its_ranks_and_a_critical_one_is_lost() -> None:
    found = told(examples.unsteady())
    assert found.record["verdict"] == "FAIL"
    assert (found.record["counts"]["lost"], found.record["counts"]["noisy"]) == (0, 2)
    assert found.outcome("q07") == "noisy"
    assert found.listed("noisy", "Noisy (1)") == ["q07"]
    assert "5, 6 → 6, 6" in found.page.section("noisy")
    assert rows(found.text, "Noisy (1)")[0][2] == "5, 6 → 6, 6"
    assert kinds(found, "q07", "q08") == ["passed", "failure"]
    assert "5, 6 → 6, 6" in found.cases["q07"][2]
    assert found.listed("lost", "Lost questions (1, 1 critical)") == ["q08"]
    for document in (found.page.section("lost"), found.text):
        assert "unsteady" in document
    assert found.record["lost"][0] | {"critical": True, "unstable": True} == found.record["lost"][0]
    assert "critical lost: rank 3, 3 → 5, 6" in found.cases["q08"][1]


def test_s22_a_study_of_one_index_by_itself_says_so() -> None:
    run = replace(examples.same_again().run, noise_study=True)
    found = told(examples.example(run, examples.same_again().questions))
    assert found.record["noise_study"]
    for document in (found.page.text, found.text):
        assert "noise study" in document.lower()
        assert "othing can be promoted by it" in document
