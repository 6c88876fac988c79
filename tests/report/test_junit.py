"""The JUnit report, read by a strict XML parser."""

from xml.etree import ElementTree as ET

import pytest

from app.domain.outcome import Observed
from app.report.junit import junit
from tests import examples
from tests.examples import Example

EVERY = [
    examples.failing(),
    examples.passing(),
    examples.unmeasured(),
    examples.broken(),
    examples.empty(),
    examples.unlabelled_only(),
    examples.stale_critical(),
    examples.errors_are_no_losses(),
    examples.unsteady(),
    examples.forbidden(),
    examples.hostile(),
    examples.without_passages(),
    examples.same_again(),
    examples.measured(),
    examples.unknown_rule(),
    examples.forbidden_today(),
]
ELEMENTS = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def parsed(example: Example) -> ET.Element:
    document = junit(example.run, example.results)
    document.decode("utf-8")
    return ET.fromstring(document)  # noqa: S314 — our own document


def case(root: ET.Element, name: str) -> ET.Element:
    found = [each for each in root.iter("testcase") if (each.get("name") or "").split(": ")[0] == name]
    assert len(found) == 1
    return found[0]


def kind(root: ET.Element, name: str) -> str | None:
    return next((child.tag for child in case(root, name) if child.tag in ELEMENTS), None)


@pytest.mark.parametrize("example", EVERY)
def test_counts_are_right_on_every_level(example: Example) -> None:
    root = parsed(example)
    assert root.tag == "testsuites"
    for level in (root, *root.iter("testsuite")):
        cases = list(level.iter("testcase"))
        assert level.get("tests") == str(len(cases))
        for element, attribute in ELEMENTS.items():
            holding = [each for each in cases if each.find(element) is not None]
            assert level.get(attribute) == str(len(holding))


@pytest.mark.parametrize("example", EVERY)
def test_every_question_is_one_case_with_a_name_of_its_own(example: Example) -> None:
    root = parsed(example)
    names = [each.get("name") for each in root.iter("testcase")]
    assert all(names)
    assert len(set(names)) == len(names)
    asked = [each for suite in root if suite.get("name") != "verdict" for each in suite]
    assert len(asked) == example.run.counts.questions


@pytest.mark.parametrize("example", EVERY)
def test_only_a_pass_is_all_green(example: Example) -> None:
    root = parsed(example)
    red = root.get("failures") != "0" or root.get("errors") != "0"
    assert red is (example.run.verdict != "PASS")


def test_a_suite_for_the_verdict_and_one_for_each_first_slice() -> None:
    root = parsed(examples.failing())
    suites = [suite.get("name") for suite in root]
    assert suites == ["verdict", "unsliced", "table", "lookup", "exception", "multi-document"]
    assert case(root, "expense-limit").get("classname") == "hr.table"
    assert case(root, "it-hotline").get("classname") == "hr.unsliced"
    assert root[1].get("timestamp") == "2026-11-30T09:00:00"


def test_outcomes_become_the_elements_that_pipelines_know() -> None:
    root = parsed(examples.failing())
    assert {name: kind(root, name) for name in ("leave-carry-over", "parental-pay", "expense-limit")} == {
        "leave-carry-over": "failure",
        "parental-pay": "failure",
        "expense-limit": "failure",
    }
    assert kind(root, "payroll-date") == "error"
    assert kind(root, "handbook") == "skipped"
    assert kind(root, "smalltalk") == "skipped"
    for name in ("it-hotline", "remote-days", "badge-colour", "org-chart", "half-stale", "two-forms"):
        assert kind(root, name) is None
    # 3 reasons and 4 lost questions; 1 failed observation; 1 stale, 1 unlabelled
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == (
        "17",
        "7",
        "1",
        "2",
    )


def test_a_failure_tells_before_after_cause_and_newcomers() -> None:
    failure = case(parsed(examples.failing()), "leave-carry-over").find("failure")
    assert failure is not None
    assert failure.get("type") == "critical-lost"
    assert failure.get("message") == "critical lost: rank 2, 2 → 9, 9; ranked-out"
    lines = (failure.text or "").split("\n")
    assert "expected: leave-policy" in lines
    assert "rank before → after: 2, 2 → 9, 9" in lines
    assert "cause: ranked-out" in lines
    assert "why: Before at 2, now at 9; the context ends at 5." in lines
    assert any(
        line.startswith(
            "why: Keyword rank 2 → none, vector rank 3 → 4, without the ranker rank 2 → 9: keyword"
        )
        for line in lines
    )
    assert "took its place: Leave archive 2019 (leave-archive-2019)" in lines
    assert "before 2: Leave policy (leave-policy)" in lines
    assert "after 1: Leave archive 2019 (leave-archive-2019)" in lines
    assert "owner: hr-content@contoso.example" in lines


def test_time_is_the_candidates_first_observation_in_seconds() -> None:
    root = parsed(examples.failing())
    assert case(root, "remote-days").get("time") == "0.200"
    assert case(root, "payroll-date").get("time") == "30.000"
    assert case(parsed(examples.hostile()), "1. q7").get("time") == "0.250"


def test_a_noisy_question_passes_with_its_ranks_told() -> None:
    root = parsed(examples.unsteady())
    assert kind(root, "q07") is None
    assert "rank before → after: 5, 6 → 6, 6" in (case(root, "q07").findtext("system-out") or "")
    assert kind(root, "q08") == "failure"


def test_a_verdict_without_a_question_is_red() -> None:
    root = parsed(examples.broken())
    assert [suite.get("name") for suite in root] == ["verdict"]
    assert [each.get("name") for each in root.iter("testcase")] == ["nothing-evaluated", "index-missing"]
    assert root.get("errors") == "2"
    assert "Index 'kb-v2' does not exist." in (case(root, "index-missing").findtext("error") or "")


def test_a_reason_names_all_its_questions() -> None:
    failure = case(parsed(examples.hostile()), "net-loss").find("failure")
    assert failure is not None
    assert failure.get("message") == "net-loss (7, limit 0)"
    assert len([line for line in (failure.text or "").split("\n") if line.startswith("question: ")]) == 7


def test_errors_are_errors_and_no_failures() -> None:
    root = parsed(examples.errors_are_no_losses())
    assert [kind(root, name) for name in ("q1", "q2", "q3", "q4")] == ["error", "error", None, None]
    assert root.get("failures") == "0"
    error = case(root, "q1").find("error")
    assert error is not None
    assert error.get("message") == (
        "not measured: candidate: throttled (2 of 2 observations): 503: the service is busy"
    )


def test_a_stale_question_is_skipped_with_its_label_and_the_verdict_is_red() -> None:
    root = parsed(examples.stale_critical())
    skipped = case(root, "q003").find("skipped")
    assert skipped is not None
    assert (skipped.get("message") or "").startswith("label not in either index: hr-policy-2019")
    assert kind(root, "critical-stale") == "error"


def test_forbidden_hits_are_failures_of_unlabelled_questions_too() -> None:
    root = parsed(examples.forbidden())
    assert [kind(root, "q1"), kind(root, "q2")] == ["failure", "failure"]
    failure = case(root, "q2").find("failure")
    assert failure is not None
    assert failure.get("message") == "shows forbidden documents: board-pay at 2"


def test_a_pass_is_a_green_case() -> None:
    root = parsed(examples.passing())
    assert kind(root, "verdict") is None
    assert case(root, "verdict").findtext("system-out") == examples.passing().run.headline


def test_a_run_without_a_verdict_is_red() -> None:
    root = ET.fromstring(junit(examples.a_run(), ()))  # noqa: S314 — our own document
    assert root.get("errors") == "1"


def test_what_xml_cannot_hold_is_a_visible_escape() -> None:
    root = parsed(examples.hostile())
    name = r'q<1>&": a\u000b\u001b[31m b \ud83d ]]> \uffff & <c>'
    found = [each for each in root.iter("testcase") if each.get("name") == name]
    assert len(found) == 1
    assert found[0].get("classname") == r"hr<b>|`x`.a|b\u001b<i>"
    failure = found[0].find("failure")
    assert failure is not None
    assert r"expected: d\t1" in (failure.text or "").split("\n")
    assert r"question: a\u000b\u001b[31m b \ud83d ]]> \uffff & <c>" in (failure.text or "").split("\n")


def test_ids_that_look_alike_once_escaped_stay_apart() -> None:
    alike = [
        examples.asked(Observed(id=name, question="Same?", answers=("d1",)), (1, 1), (1,))
        for name in ("a\u000b", "a\\u000b", "a\\u000b: Same? (2)")
    ]
    root = parsed(examples.example(examples.a_run(), alike))
    names = [each.get("name") for each in root[1]]
    assert names[:2] == [r"a\u000b: Same?", r"a\u000b: Same? (2)"]
    assert len(set(names)) == 3


def test_no_pipeline_command_is_in_the_file() -> None:
    example = examples.hostile()
    document = junit(example.run, example.results)
    assert b"##vso[" not in document
    assert b"##[" not in document
