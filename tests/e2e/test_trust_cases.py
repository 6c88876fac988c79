"""S04, S05, S09 to S11, S19 and S22: a verdict that rests on something measured, or none.

Green over nothing (labels that name nothing, fields that give nothing, an index that is not filled) and red for
what is no regression (a refused identity, noise) are both told for what they are.
"""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.e2e.programs import PLAIN, RUN, SEARCH_KEY, Gate, ids, junit, lines, outcomes, questions
from tests.fakes.listing import Stored
from tests.scripted import Chunk, Fault, Received, Rows, ScriptedSearch, ranked, wizard_definition

POLICY = f"[policy]\n{PLAIN}"
PAY = "https://stcontoso.blob.core.windows.net/docs/pay.pdf"
PAY_ENCODED = "aHR0cHM6Ly9zdGNvbnRvc28uYmxvYi5jb3JlLndpbmRvd3MubmV0L2RvY3MvcGF5LnBkZg2"
LABELS = [PAY, *(f"https://stcontoso.blob.core.windows.net/docs/{place}.pdf" for place in range(1, 10))]


def digit_padded(label: str) -> str:
    """As the indexers encode: the padding's count stands for it."""
    plain = base64.urlsafe_b64encode(label.encode()).decode()
    return f"{plain.rstrip('=')}{plain.count('=')}"


def plainly_padded(label: str) -> str:
    return base64.urlsafe_b64encode(label.encode()).decode()


def chunks(*parents: str) -> list[Stored]:
    return [{"chunk_id": f"{parent}-0", "parent_id": parent, "chunk": "words"} for parent in parents]


def blocking(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [check for check in record["checks"] if check["level"] == "blocking"]


def message(record: dict[str, Any], code: str) -> str:
    return " ".join(check["message"] for check in record["checks"] if check["code"] == code)


def asked(search: ScriptedSearch) -> list[str]:
    """The questions of golden sets that were sent."""
    return [each.question for each in search.searches() if each.question.startswith("about ")]


# S04


def holding_encoded(search: ScriptedSearch, name: str, encode: Callable[[str], str]) -> None:
    """An index whose parents are encoded, each answering its question on rank 1."""
    search.index(name, stored=chunks(*map(encode, LABELS)))
    for place, label in enumerate(LABELS):
        search.answer(name, f"about q{place}", [encode(label), "x"])


def labelled(labels: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"id": f"q{place}", "question": f"about q{place}", "answers": [label]}
        for place, label in enumerate(labels)
    ]


def test_s04_labels_that_are_not_encoded_as_the_parents_are(gate: Gate) -> None:
    assert digit_padded(PAY) == PAY_ENCODED
    for name in ("kb-v1", "kb-v2"):
        holding_encoded(gate.search, name, digit_padded)
    gate.golden("hr", labelled(LABELS), POLICY)
    gate.golden("keys", labelled([f"9d800bdacc0e_{PAY_ENCODED}_pages_2"]), POLICY)
    ended = gate.run("--golden", "hr.jsonl", "--golden", "keys.jsonl", "--out", "out")
    assert ended.status == 2
    assert asked(gate.search) == []
    for name, number in (("hr", 10), ("keys", 1)):
        record = gate.read(f"out/{name}")
        assert record["verdict"] == "ERROR"
        assert ids(record["reasons"])[0] == "nothing-evaluated"
        assert "labels-unresolved" in ids(record["reasons"])
        assert record["lost"] == record["gained"] == []
        said = message(record, "labels-unresolved")
        assert f"0 of {number} answer id" in said
        assert PAY_ENCODED in said, "an id of the index"
        assert record["questions"][0]["answers"][0] in said, "beside a label"
        for document in ("report.html", "report.md", "junit.xml"):
            text = (gate.folder / "out" / name / document).read_text(encoding="utf-8")
            assert "labels-unresolved" in text
            assert PAY_ENCODED in text
    assert 'parent_names = ["base64url"]' in message(gate.read("out/hr"), "labels-unresolved")
    assert "labels name parent documents" in message(gate.read("out/keys"), "labels-unresolved")


def test_s04_decoding_resolves_both_forms_of_padding(gate: Gate) -> None:
    holding_encoded(gate.search, "kb-v1", digit_padded)
    holding_encoded(gate.search, "kb-v2", plainly_padded)
    gate.golden("hr", labelled(LABELS), f'[query]\nparent_names = ["base64url"]\n{POLICY}')
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 0, ended.said
    assert set(outcomes(record).values()) == {"kept"}
    assert record["counts"]["evaluated"] == 10
    first = record["questions"][0]
    assert [first[side][0]["hits"][0]["parent"] for side in ("baseline", "candidate")] == [PAY, PAY]


# S05


def test_s05_a_document_that_is_in_neither_index_guards_nothing(gate: Gate) -> None:
    """And one that only the baseline holds is a real loss."""
    search = gate.search
    for name in ("kb-v1", "kb-v2", "without"):
        search.index(name, stored=chunks("x", "d1", "d2"), otherwise=["x", "d1", "x"])
        search.answer(name, "about q002", ["d2", "x"])
    search.index("without").stored = chunks("x", "d1")
    search.answer("without", "about q002", ["x", "d1"])
    five = questions("q001", "q002", "q003", "q004", "q005")
    five[1]["answers"] = ["d2"]
    five[2] |= {"answers": ["hr-policy-2019"], "critical": True}
    gate.golden("hr", five, POLICY)
    gate.golden("plain", [*five[:2], *five[3:]], POLICY)
    stale, lost = gate.together(
        (*RUN, "--golden", "hr.jsonl", "--out", "stale"),
        ("run", "--baseline", "kb-v1", "--candidate", "without", "--golden", "plain.jsonl", "--out", "lost"),
    )

    assert stale.status == 2
    record = gate.read("stale")
    assert outcomes(record)["q003"] == "stale"
    assert record["lost"] == record["gained"] == []
    assert ids(record["reasons"]) == ["too-few-evaluated", "critical-stale"]
    assert record["reasons"][1]["questions"] == ["q003"]
    assert record["counts"] | {"labelled": 5, "evaluated": 4, "stale": 1, "kept": 4} == record["counts"]
    assert "hr-policy-2019" in message(record, "stale-label")
    assert "1 with stale labels" in stale.last_line
    suite = junit(gate.folder / "stale")
    (case,) = [each for each in suite.iter("testcase") if (each.get("name") or "").startswith("q003")]
    assert [child.tag for child in case if child.tag in {"error", "failure", "skipped"}] in (
        ["error"],
        ["skipped"],
    )
    for document in ("report.html", "report.md"):
        assert "hr-policy-2019" in (gate.folder / "stale" / document).read_text(encoding="utf-8")

    assert lost.status == 1
    record = gate.read("lost")
    (flip,) = record["lost"]
    assert (flip["id"], flip["cause"]) == ("q002", "document-missing")
    assert "stale-label" not in ids(record["checks"])
    assert "d2" in message(record, "document-missing")


# S09


def with_parent(index: str, **attributes: Any) -> dict[str, Any]:
    """The usual definition with another parent field."""
    definition = wizard_definition(index)
    definition["fields"] = [
        {**each, **attributes} if each["name"] == "parent_id" else each for each in definition["fields"]
    ]
    return definition


def test_s09_a_parent_field_that_cannot_be_read_is_one_finding_an_index(gate: Gate) -> None:
    """(a) it has another name, (b) it is not retrievable; and both indexes at once."""
    search, names = gate.search, [f"q{place}" for place in range(20)]
    search.index("renamed", definition=with_parent("renamed", name="parentId"))
    search.index("hidden", definition=with_parent("hidden", retrievable=False))
    search.fault(
        "renamed",
        Fault(status=400, message="Could not find a property named 'parent_id' on type 'search.document'."),
    )
    search.fault("hidden", Fault(status=400, message="The field 'parent_id' is not a retrievable field."))
    one_name = '[query]\nparent_field = "parent_id"\n'
    gate.golden("hr", questions(*names), f"{one_name}{POLICY}")

    def run_of(baseline: str, candidate: str, out: str) -> tuple[str, ...]:
        return ("run", "--baseline", baseline, "--candidate", candidate, "--golden", "hr.jsonl", "--out", out)

    ended = gate.together(
        run_of("kb-v1", "renamed", "a"), run_of("kb-v1", "hidden", "b"), run_of("hidden", "renamed", "both")
    )
    assert [each.status for each in ended] == [2, 2, 2]
    assert search.searches() == [], "before the first question"
    for out, indexes in (("a", ["renamed"]), ("b", ["hidden"]), ("both", ["hidden", "renamed"])):
        record = gate.read(out)
        assert record["verdict"] == "ERROR"
        assert "field-missing" in ids(record["reasons"])
        assert record["counts"]["lost"] == 0
        assert record["lost"] == []
        assert record["requests"]["comparison"] == 0
        found = blocking(record)
        assert [each["index"] for each in found] == indexes
        for each in found:
            assert each["index"] in each["message"]
            assert "'parent_id'" in each["message"]
    assert "parentId" in blocking(gate.read("a"))[0]["message"], "what the index has instead"


def test_s09_a_field_of_its_own_for_each_side_makes_it_run(gate: Gate) -> None:
    search = gate.search
    search.index("kb-v2", definition=with_parent("kb-v2", name="parentId"))

    def renamed(received: Received) -> Rows | None:
        rows = [Chunk(parent=None, fields={"parentId": parent}) for parent in ("x", "d1")]
        return rows if received.index == "kb-v2" else None

    search.on_search = renamed
    toml = f'[query]\nparent_field = "parent_id"\n[query.candidate]\nparent_field = "parentId"\n{POLICY}'
    gate.golden("hr", questions("q1", "q2"), toml)
    search.index("kb-v2").stored = [{"chunk_id": "c1", "parentId": "d1", "chunk": "words"}]
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 0, ended.said
    assert outcomes(record) == {"q1": "kept", "q2": "kept"}
    assert [record[side]["fields"]["parent"] for side in ("baseline", "candidate")] == [
        "parent_id",
        "parentId",
    ]


# S10


def test_s10_a_candidate_that_is_still_being_filled(gate: Gate) -> None:
    """Growing while it is judged, empty, and at six of ten thousand."""
    search = gate.search
    search.index("kb-v1", documents=10_000)
    for name, documents in (("growing", 8_000), ("empty", 0), ("partly", 6_000), ("whole", 10_100)):
        search.index(name, documents=documents, otherwise=["x", "d1", "x"])

    def grow(received: Received) -> None:
        if received.index == "growing" and received.question.startswith("about "):
            search.index("growing").documents = 9_400

    search.on_search = grow
    gate.golden("hr", questions("q1", "q2"), POLICY)
    names = ("growing", "empty", "partly", "whole")
    ended = gate.together(
        *(
            ("run", "--baseline", "kb-v1", "--candidate", name, "--golden", "hr.jsonl", "--out", name)
            for name in names
        )
    )
    assert [each.status for each in ended] == [2, 2, 0, 0]

    record = gate.read("growing")
    counts = [
        (record[side]["documents"], record[side]["documents_at_end"]) for side in ("baseline", "candidate")
    ]
    assert counts == [(10_000, 10_000), (8_000, 9_400)]
    assert ids(record["reasons"]) == ["index-changed"]
    assert record["reasons"][0]["measured"] == 1_400
    assert "changed while it was judged" in (gate.folder / "growing" / "report.md").read_text()

    record = gate.read("empty")
    assert "index-empty" in ids(record["reasons"])
    assert record["requests"]["comparison"] == 0
    assert search.searches("empty") == []

    record = gate.read("partly")
    said = message(record, "fewer-documents")
    assert all(part in said for part in ("'partly' holds 6000", "60%", "10000", "'kb-v1'"))
    assert "fewer-documents: " in ended[2].err, "while it runs"
    for document in ("report.html", "report.md"):
        assert "holds 6000 documents" in (gate.folder / "partly" / document).read_text(encoding="utf-8")
    assert "fewer-documents" not in ids(gate.read("whole")["checks"])


# S11 (the identity's own words: tests/gate/test_preflight_wire.py)


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "5"}])
def test_s11_a_refused_identity_is_told_after_one_query(gate: Gate, headers: dict[str, str]) -> None:
    for on in ("search", "listing"):
        gate.search.fault("kb-v2", Fault(status=403, headers=headers), on=on)
    gate.golden("hr", questions(*(f"q{place}" for place in range(10))), POLICY)
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 2
    assert "unauthorized" in ids(record["reasons"])
    assert record["counts"]["lost"] == 0
    assert asked(gate.search) == []
    posted = [each for each in gate.search.requests if each.index == "kb-v2" and each.method == "POST"]
    assert len(posted) == 1
    (found,) = blocking(record)
    assert found["index"] == "kb-v2"
    for words in ("'kb-v2'", "403", "Search Index Data Reader", "GATE_SEARCH_API_KEY", "allows no keys"):
        assert words in found["message"]
    assert SEARCH_KEY not in json.dumps(record) + ended.said


# S19: what a naive script passes


def test_s19_the_false_passes_of_a_naive_script_are_errors(gate: Gate) -> None:
    """An empty set; indexes that return nothing; a misspelt critical label; errors of the baseline as gains."""
    search = gate.search
    for name in ("silent-1", "silent-2"):
        search.index(name, otherwise=[])
    for name in ("kb-v1", "kb-v2"):
        search.index(name, stored=chunks("x", "d1", "hr-policy-2019"))
    search.index("sick", otherwise=["x", "d1", "x"])
    search.fault("sick", Fault(status=400, message="Invalid expression."), question="about q2")
    misspelt = [*questions("q1"), *questions("q2", answers=["hr-polcy-2019"], critical=True)]
    gate.golden("empty", "", POLICY)
    gate.golden("two", questions("q1", "q2"), POLICY)
    gate.golden("misspelt", misspelt, POLICY)
    runs = {
        "empty": ("kb-v1", "kb-v2", "empty", "nothing-evaluated"),
        "silent": ("silent-1", "silent-2", "two", "nothing-evaluated"),
        "misspelt": ("kb-v1", "kb-v2", "misspelt", "critical-stale"),
        "sick": ("sick", "kb-v2", "two", "question-errors"),
    }
    ended = gate.together(
        *(
            ("run", "--baseline", baseline, "--candidate", candidate, "--golden", f"{of}.jsonl", "--out", out)
            for out, (baseline, candidate, of, _) in runs.items()
        )
    )
    assert [each.status for each in ended] == [2, 2, 2, 2]
    for each, (out, (*_, code)) in zip(ended, runs.items(), strict=True):
        record = gate.read(out)
        assert each.last_line.startswith("ERROR: ")
        assert record["verdict"] == "ERROR"
        assert code in ids(record["reasons"])
        assert record["lost"] == record["gained"] == []
    assert outcomes(gate.read("silent")) == {"q1": "absent", "q2": "absent"}
    assert outcomes(gate.read("sick")) == {"q1": "kept", "q2": "error"}
    assert "did you mean 'hr-policy-2019'?" in message(gate.read("misspelt"), "stale-label")


# S22

NOISY = f"{POLICY.removesuffix(PLAIN)}noise_runs = 1\nconfirm_runs = 1\n"
TWENTY = [f"q{place:02}" for place in range(1, 21)]


def unsteady(search: ScriptedSearch) -> None:
    search.answer("kb-v1", "about q07", ranked(5, "d1"), ranked(6, "d1"))
    search.answer("kb-v2", "about q07", ranked(6, "d1"))
    search.answer("kb-v1", "about q08", ranked(3, "d1"))
    search.answer("kb-v2", "about q08", ranked(5, "d1"), ranked(6, "d1"))


def test_s22_noise_is_no_loss_and_no_excuse_for_a_critical_question(gate: Gate) -> None:
    unsteady(gate.search)
    twenty = questions(*TWENTY)
    gate.golden("plain", [each for each in twenty if each["id"] != "q08"], NOISY)
    twenty[7]["critical"] = True
    gate.golden("hr", twenty, NOISY)
    ended, innocent = gate.record("--golden", "plain.jsonl")
    assert ended.status == 0, ended.said
    by_id = {each["id"]: each for each in innocent["questions"]}
    assert outcomes(innocent)["q07"] == "noisy"
    assert innocent["counts"] | {"kept": 18, "noisy": 1, "lost": 0, "gained": 0} == innocent["counts"]
    assert [each["rank"] for each in by_id["q07"]["baseline"]] == [5, 6]
    assert {each["rank"] for each in by_id["q07"]["candidate"]} == {6}
    assert innocent["noise"]["baseline"]["flips"] == 1
    assert [each["id"] for each in innocent["noise_probes"]] == ["q07"]
    assert "q07" in (gate.folder / "record-0" / "report.md").read_text(encoding="utf-8")

    gate.search._answered.clear()
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 1
    assert ids(record["reasons"]) == ["critical-lost"]
    assert record["reasons"][0]["questions"] == ["q08"]
    (flip,) = record["lost"]
    assert (flip["id"], flip["critical"], flip["unstable"]) == ("q08", True, True)
    assert outcomes(record)["q08"] == "noisy"
    assert record["counts"]["lost"] == 0
    q08 = next(each for each in record["questions"] if each["id"] == "q08")
    assert [each["rank"] for each in q08["candidate"]] == [5, 6]


def test_s22_sessions_and_the_study_of_an_index_by_itself(gate: Gate) -> None:
    """The set is a deployed one: a run of it may be promoted, a study of noise never."""
    unsteady(gate.search)
    folder = gate.folder / "golden"
    folder.mkdir()
    (folder / "hr.jsonl").write_text(lines(questions(*TWENTY)), encoding="utf-8")
    (folder / "hr.toml").write_text(f'[query]\nsession = "run"\n{NOISY}', encoding="utf-8")
    ordinary, first = gate.record("--golden", "hr")
    sent = len(gate.search.requests)
    study, second = gate.record(
        "--golden", "hr", "--baseline", "kb-v1", "--candidate", "kb-v1", "--noise-study"
    )
    assert (ordinary.status, first["trusted"]) == (0, True), ordinary.said
    assert study.status == 0, study.said

    def sessions(received: Sequence[Received]) -> set[str | None]:
        return {each.body.get("sessionId") for each in received if each.question.startswith("about ")}

    (one,), (other,) = sessions(gate.search.requests[:sent]), sessions(gate.search.requests[sent:])
    assert one != other, "different between runs, the same within one"
    assert not str(one).startswith("_")
    assert not str(other).startswith("_")

    assert (second["noise_study"], second["trusted"]) == (True, False)
    assert "noise study of kb-v1" in study.last_line
    for document in ("report.html", "report.md"):
        assert "noise study" in (gate.folder / "record-2" / document).read_text(encoding="utf-8").lower()
