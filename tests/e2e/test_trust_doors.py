"""What is seen of the preflight at both doors, runs killed in it, and kept runs judged again by the command."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e.programs import PLAIN, RUN, Gate, ids, outcomes, questions, until
from tests.scripted import Fault, Received, ranked, wizard_definition

POLICY = f"[policy]\n{PLAIN}"


def checks(record: dict[str, Any], code: str) -> list[dict[str, Any]]:
    return [check for check in record["checks"] if check["code"] == code]


# the preflight


def test_an_alias_is_resolved_and_both_names_are_told_at_both_doors(gate: Gate) -> None:
    gate.search.alias("live", "kb-v1")
    gate.golden("hr", questions("q1"), POLICY)
    with gate.serving() as service:
        run = ("run", "--candidate", "kb-v2", "--baseline", "live", "--golden", "hr.jsonl", "--out")
        here, there = gate.together((*run, "here"), (*run, "there", "--service", service.url))
    assert [here.status, there.status] == [0, 0], here.said + there.said
    for out in ("here", "there"):
        baseline = gate.read(out)["baseline"]
        assert (baseline["requested"], baseline["alias"], baseline["index"]) == ("live", "live", "kb-v1")
        report = (gate.folder / out / "report.html").read_text(encoding="utf-8")
        assert "kb-v1" in report
        assert "live" in report


def test_what_keeps_an_index_from_being_judged_is_told_before_the_first_question(gate: Gate) -> None:
    """Access control inside the index, a vectorizer that fails, a ranker that is off, a month that is used up."""
    search = gate.search
    for name in ("guarded", "deaf", "unranked"):
        search.index(name, otherwise=["x", "d1", "x"])
    search.index("guarded", definition={**wizard_definition("guarded"), "permissionFilterOption": "enabled"})
    vectorization = "Vectorization endpoint returned status code '401' (Unauthorized)."
    search.fault("deaf", Fault(status=400, message=vectorization))
    search.fault("unranked", Fault(status=400, message="Semantic search is not enabled for this service."))
    gate.golden("hr", questions(*(f"q{place}" for place in range(20))), POLICY)

    def run_of(candidate: str, out: str) -> tuple[str, ...]:
        named = ("--baseline", "kb-v1", "--candidate", candidate)
        return ("run", *named, "--golden", "hr.jsonl", "--out", out)

    refusals = {
        "guarded": ("access-controlled", "public documents only"),
        "deaf": ("vectorizer-failed", "Check the vectorizer's endpoint and deployment"),
        "unranked": ("semantic-unavailable", "set semantic = false"),
    }
    ended = gate.together(*(run_of(name, name) for name in refusals))
    spent = gate.ended(*run_of("kb-v2", "spent"), GATE_SEMANTIC_ALLOWANCE="39")
    assert [each.status for each in (*ended, spent)] == [2, 2, 2, 2]
    assert [each for each in search.searches() if each.question.startswith("about ")] == []
    for out, (code, words) in {**refusals, "spent": ("quota-exceeded", "the run could not finish")}.items():
        record = gate.read(out)
        (found,) = [check for check in record["checks"] if check["level"] == "blocking"]
        assert found["code"] == code
        assert words in found["message"]
        assert code in ids(record["reasons"])
        assert record["requests"]["comparison"] == 0
        assert record["lost"] == []
    (reason,) = [each for each in gate.read("spent")["reasons"] if each["code"] == "quota-exceeded"]
    assert (reason["measured"], reason["setting"]) == (40, "GATE_SEMANTIC_ALLOWANCE")
    assert reason["limit"] < 40


def test_the_cost_is_said_before_it_is_spent(gate: Gate) -> None:
    gate.search.latency = 0.2
    gate.golden("hr", questions(*(f"q{place}" for place in range(8))), POLICY)
    sent: list[str] = []
    with gate.command(*RUN, "--golden", "hr.jsonl") as process:
        until(lambda: "cost: " in process.err, "the cost")
        sent.extend(each.question for each in gate.search.searches() if each.question.startswith("about "))
        assert process.ended().status == 0
        said = process.err
    assert "cost: At most 16 comparison queries, 16 of them semantic, and 16 embedding calls" in said
    assert len(sent) < 16


def test_a_run_that_was_killed_in_its_preflight_ends_as_one_that_was_not(gate: Gate) -> None:
    gate.search.answer("kb-v2", "about q1", ranked(6, "d1"))
    gate.golden("hr", questions("q1", "q2", "q3"), POLICY)
    whole, expected = gate.record("--golden", "hr.jsonl")
    gate.search.fault("kb-v2", Fault(delay=20), on="listing", nth=(3, 4))
    before = len(gate.search.requests)

    def slow() -> list[Received]:
        return [
            each for each in gate.search.requests[before:] if each.index == "kb-v2" and each.on == "listing"
        ]

    with gate.command(*RUN, "--golden", "hr.jsonl") as process:
        run_id = process.run_id
        until(slow, "the first listing")
        process.kill()
    gate.search.clear_faults()
    again = gate.ended("run", "--resume", run_id, "--out", "again")
    assert (whole.status, again.status) == (1, 1), again.said
    record = gate.read("again")
    assert record["manifest"]["starts"] == 2
    for name in ("verdict", "reasons", "counts", "lost", "gained", "checks", "fingerprint"):
        assert record[name] == expected[name]
    assert record["requests"]["comparison"] == 6


# judging again


def test_kept_runs_are_judged_by_another_policy(gate: Gate) -> None:
    gate.search.answer("kb-v2", "about q1", ranked(6, "d1"))
    gate.golden("hr", questions("q1", "q2"), POLICY)
    gate.golden("it", questions("q2", "q3"), POLICY)
    ended = gate.run("--golden", "hr.jsonl", "--golden", "it.jsonl", "--out", "out")
    assert ended.status == 1
    hr, it = (gate.read(f"out/{name}")["id"] for name in ("hr", "it"))
    (gate.folder / "same.toml").write_text(POLICY, encoding="utf-8")
    (gate.folder / "loose.toml").write_text("[policy]\nmax_net_loss = 1\n", encoding="utf-8")
    (gate.folder / "wrong.toml").write_text("[policy]\nmax_net_los = 1\n", encoding="utf-8")
    sent = len(gate.search.requests)
    kept = {path: path.read_bytes() for path in gate.runs.rglob("*") if path.is_file()}
    today = datetime.now(UTC).date()
    same, loose, since, wrong, none = gate.together(
        ("judge", hr, "--policy", "same.toml"),
        ("judge", hr, "--policy", "loose.toml"),
        ("judge", "--since", str(today - timedelta(days=1)), "--policy", "loose.toml"),
        ("judge", hr, "--policy", "wrong.toml"),
        ("judge", "--since", str(today + timedelta(days=2)), "--policy", "loose.toml"),
    )
    assert same.status == 1
    assert same.last_line == next(line for line in ended.out.splitlines() if line.startswith("FAIL: "))
    assert loose.status == 0
    assert loose.last_line.startswith("PASS: ")
    assert since.status == 0
    listed = [line.split()[:4] for line in since.out.splitlines()]
    assert [each[0] for each in listed] == [it, hr], "the newest first"
    assert listed[1][1:] == ["PASS", "(was", "FAIL)"]
    assert "(was" not in since.out.splitlines()[0]
    wrong.refused("wrong.toml", "max_net_los")
    none.refused("nothing to judge")
    assert len(gate.search.requests) == sent, "without a query"
    assert {path: path.read_bytes() for path in gate.runs.rglob("*") if path.is_file()} == kept


# what the reports tell


def test_forbidden_documents_of_the_baseline_and_critical_questions_that_guard_nothing(gate: Gate) -> None:
    gate.search.answer("kb-v1", "about q1", ["d1", "payroll"])
    gate.search.answer("kb-v1", "about q2", ranked(9, "d1"))
    both = [*questions("q1", forbidden=["payroll"]), *questions("q2", critical=True), *questions("q3")]
    gate.golden("hr", both, POLICY)
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 0, ended.said
    assert outcomes(record) == {"q1": "kept", "q2": "gained", "q3": "kept"}
    assert record["counts"]["forbidden_hits"] == 0
    (found,) = checks(record, "critical-absent")
    assert found["questions"] == ["q2"]
    for document in ("report.html", "report.md"):
        text = (gate.folder / "record-0" / document).read_text(encoding="utf-8")
        assert "orbidden documents that the baseline shows" in text
        assert "payroll" in text
        assert "guard nothing until" in text
