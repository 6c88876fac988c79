"""S19 to S21: from what the two indexes showed to the verdict."""

from tests.e2e.programs import DOCUMENTS, PLAIN, RUN, Gate, ids, junit, outcomes, questions
from tests.scripted import Fault, ranked

POLICY = f"[policy]\n{PLAIN}"
REJECTED = Fault(status=400, message="Invalid expression.")
TWELVE = [f"q{place}" for place in range(1, 13)]


def test_s19_nothing_was_evaluated(gate: Gate) -> None:
    """(1) empty, (2) blank lines, (3) no labels, (4) a slice that no question is in, (6) only errors."""
    gate.golden("empty", "", POLICY)
    gate.golden("blank", "\n \n\r\n\n", POLICY)
    gate.golden("unlabelled", questions(*TWELVE, answers=[]), POLICY)
    rejected = questions(*TWELVE)
    for each in rejected:
        each["question"] += " rejected"
        gate.search.fault("kb-v2", REJECTED, question=each["question"])
    gate.golden("rejected", rejected, f"{POLICY}max_question_errors = 12\n")
    sets = ("empty", "blank", "unlabelled", "rejected")
    gate.golden("sliced", questions(*TWELVE, slice="table"), POLICY)
    ended, sliced = gate.together(
        (*RUN, *(part for name in sets for part in ("--golden", f"{name}.jsonl")), "--out", "out"),
        (*RUN, "--golden", "sliced.jsonl", "--slice", "lookup", "--out", "out/sliced"),
    )

    assert [ended.status, sliced.status] == [2, 2]
    last_lines = [*ended.out.splitlines()[-4:], sliced.last_line]
    for line, labelled in zip(last_lines, (0, 0, 0, 12, 0), strict=True):
        assert line.startswith("ERROR: ")
        assert f"0 of {labelled} labelled questions evaluated" in line
    for name, asked in (("empty", 0), ("blank", 0), ("unlabelled", 12), ("rejected", 12), ("sliced", 0)):
        folder = gate.folder / "out" / name
        record = gate.read(f"out/{name}")
        assert record["verdict"] == "ERROR"
        assert "nothing-evaluated" in ids(record["reasons"])
        assert record["counts"]["evaluated"] == 0
        assert record["counts"]["questions"] == len(record["questions"]) == asked
        assert all((folder / document).stat().st_size > 0 for document in DOCUMENTS)
        suite = junit(folder)
        assert suite.get("failures") == "0"
        assert int(suite.get("errors") or 0) > 0
    assert set(outcomes(gate.read("out/unlabelled")).values()) == {"unlabelled"}
    assert set(outcomes(gate.read("out/rejected")).values()) == {"error"}
    assert junit(gate.folder / "out" / "unlabelled").get("skipped") == "12"
    assert "about q12" in (gate.folder / "out" / "unlabelled" / "report.html").read_text()


def test_s19_too_little_was_evaluated(gate: Gate) -> None:
    """(5) eleven of twelve could not be asked; the set tolerates errors, but not so few evaluated."""
    for name in TWELVE[1:]:
        gate.search.fault("kb-v1", REJECTED, question=f"about {name}")
    gate.golden("hr", questions(*TWELVE), f"{POLICY}max_question_errors = 12\n")
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 2
    assert "1 of 12 labelled questions evaluated (11 could not be measured)" in ended.last_line
    assert ids(record["reasons"]) == ["too-few-evaluated"]
    assert record["counts"]["evaluated"] == record["counts"]["kept"] == 1


BOUNDARY = {  # question: answer rank in the baseline, and in the candidate
    "q1": (5, 6),
    "q2": (6, 5),
    "q3": (5, 5),
    "q4": (1, 5),
    "q5": (6, 50),
    "q6": (50, None),
    "q7": (None, 5),
}


def test_s20_the_context_boundary(gate: Gate) -> None:
    for name, ranks in BOUNDARY.items():
        for index, rank in zip(("kb-v1", "kb-v2"), ranks, strict=True):
            gate.search.answer(index, f"about {name}", ranked(rank or 0, "d1"))
    sizes = (5, 6, 1)
    for size in sizes:
        gate.golden(f"context-{size}", questions(*BOUNDARY), f"[query]\ncontext_size = {size}\n{POLICY}")
    named = [part for size in sizes for part in ("--golden", f"context-{size}.jsonl")]
    ended = gate.run(*named, "--out", "out")
    assert ended.status == 1, ended.said
    records = [gate.read(f"out/context-{size}") for size in sizes]
    flips = [(ids(each["lost"]), ids(each["gained"])) for each in records]
    assert flips == [(["q1"], ["q2", "q7"]), (["q5"], ["q7"]), (["q4"], [])]
    assert [each["verdict"] for each in records] == ["PASS", "PASS", "FAIL"]
    for record in records:
        assert {
            each["id"]: (each["baseline"][0]["rank"], each["candidate"][0]["rank"])
            for each in record["questions"]
        } == BOUNDARY
    (lost,) = records[0]["lost"]
    assert (lost["baseline_rank"], lost["candidate_rank"], lost["cause"]) == (
        5,
        6,
        "crowded-out",
    )  # by "x" alone


def test_s20_a_context_that_cannot_be_is_refused(gate: Gate) -> None:
    sizes = ("0", "-1", "51", "5.0", "true")
    for place, size in enumerate(sizes):
        gate.golden(f"hr-{place}", questions(*BOUNDARY), f"[query]\ncontext_size = {size}\n")
    ended = gate.run(*(part for place in range(5) for part in ("--golden", f"hr-{place}.jsonl")))
    ended.refused(*(f"hr-{place}.toml:" for place in range(5)))
    assert ended.err.count("context_size") == len(ended.err.splitlines()) == 5
    assert gate.kept == []


def test_s21_an_error_is_neither_a_loss_nor_a_gain(gate: Gate) -> None:
    """The case and its variants at the same time; the indexes differ, the questions are the same four."""
    search, names = gate.search, ("q1", "q2", "q3", "q4")
    for index in ("good", "slow", "sick", "sick-q4", "worse"):
        search.index(index, otherwise=["x", "d1", "x", "x", "x", "x"])
    search.answer("sick", "about q2", ["d1"])
    search.fault("sick", Fault(status=503), question="about q1")
    search.fault("slow", Fault(delay=2), question="about q2")
    search.fault("sick-q4", Fault(status=503), question="about q4")
    search.fault("worse", Fault(status=503), question="about q4")
    search.answer("worse", "about q1", ["x"])
    four = questions(*names)
    four[0]["critical"] = True
    gate.golden("strict", four, POLICY)
    gate.golden("tolerant", four, f"{POLICY}max_question_errors = 1\nmin_evaluated_share = 0.7\n")

    def started(name: str, golden: str, baseline: str, candidate: str) -> tuple[str, ...]:
        named = ("--baseline", baseline, "--candidate", candidate)
        return ("run", *named, "--golden", f"{golden}.jsonl", "--out", name)

    soon = {"GATE_QUERY_TIMEOUT_SECONDS": "0.4"}
    with (
        gate.command(*started("case", "strict", "slow", "sick"), **soon) as case,
        gate.command(*started("variant", "strict", "good", "sick-q4")) as variant,
        gate.command(*started("tolerated", "tolerant", "good", "sick-q4")) as tolerated,
        gate.command(*started("guarded", "tolerant", "good", "sick")) as guarded,
        gate.command(*started("measured", "strict", "good", "worse")) as measured,
    ):
        ended = [each.ended() for each in (case, variant, tolerated, guarded, measured)]
    assert [each.status for each in ended] == [2, 2, 0, 2, 1]

    record = gate.read("case")
    assert outcomes(record) == {"q1": "error", "q2": "error", "q3": "kept", "q4": "kept"}
    assert record["lost"] == record["gained"] == []
    assert record["questions"][0]["candidate"][0]["error"]["code"] == "throttled"
    assert record["questions"][1]["baseline"][0]["error"]["code"] == "timed-out"
    suite = junit(gate.folder / "case")
    assert list(suite.iter("failure")) == []
    in_error = [case.get("name") or "" for case in suite.iter("testcase") if case.find("error") is not None]
    assert {"q1", "q2"} <= {name.split(": ")[0] for name in in_error}

    assert ids(gate.read("variant")["reasons"])[-1] == "question-errors"
    assert "1 could not be measured" in ended[2].last_line, "a tolerance shows in the headline"
    assert "question-errors" in ids(gate.read("guarded")["reasons"]), "no tolerance for a critical one"
    worse = gate.read("measured")
    assert ids(worse["reasons"])[0] == "critical-lost", "measured, whatever else could not be"
    assert outcomes(worse) == {"q1": "lost", "q2": "kept", "q3": "kept", "q4": "error"}
