"""S06 to S08: a search service that gives half an answer, too few answers, or too many rows."""

from collections import defaultdict

from tests.e2e.programs import PLAIN, RUN, Gate, ids, outcomes, questions
from tests.scripted import Fault, Received, ScriptedSearch, ranked

POLICY = f"[policy]\n{PLAIN}"
OVERLOADED = Fault(status=206, partial="capacityOverloaded", unranked=True)


def test_s06_a_partial_answer_is_asked_for_again(gate: Gate) -> None:
    gate.search.fault("kb-v2", OVERLOADED, question="about q002", nth=1)
    gate.search.answer("kb-v2", "about q002", ["x", "d1"])
    gate.golden("hr", questions("q001", "q002"), POLICY)
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 0, ended.said
    assert outcomes(record) == {"q001": "kept", "q002": "kept"}
    assert [each["rank"] for each in record["questions"][1]["candidate"]] == [2]
    assert record["questions"][1]["candidate"][0]["attempts"] == 2
    assert record["requests"]["comparison"] == 4
    assert record["requests"]["retries"] == 1
    sent = gate.search.searches("kb-v2", "about q002")
    assert [each.body["semanticErrorHandling"] for each in sent] == ["fail", "fail"]


def test_s06_what_stays_partial_is_an_error_and_never_a_ranking(gate: Gate) -> None:
    for name, fault in (("q002", OVERLOADED), ("q003", Fault(partial="capacityOverloaded", unranked=True))):
        gate.search.fault("kb-v2", fault, question=f"about {name}")
        gate.search.answer("kb-v2", f"about {name}", ranked(9, "d1"))
    gate.golden("hr", questions("q001", "q002", "q003"), POLICY)
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 2
    assert outcomes(record) == {"q001": "kept", "q002": "error", "q003": "error"}
    assert record["lost"] == record["gained"] == []
    assert "question-errors" in ids(record["reasons"])
    for each in record["questions"][1:]:
        assert each["candidate"][0]["error"]["code"] == "semantic-partial"
        assert "capacityOverloaded" in each["candidate"][0]["error"]["message"]
        assert each["candidate"][0]["rank"] is None
        assert each["candidate"][0]["hits"] == []
    folder = next(gate.folder.glob("record-*"))
    for document in ("report.html", "report.md", "junit.xml"):
        assert "capacityOverloaded" in (folder / document).read_text()


def test_s07_throttled_requests_are_repeated_by_one_table_alone(gate: Gate) -> None:
    """The three variants at the same time, each on indexes of its own."""
    search, names = gate.search, [f"q{place}" for place in range(20)]
    for pair in ("once", "later", "never"):
        for side in ("a", "b"):
            search.index(f"{pair}-{side}", otherwise=["d1"])
    for side in ("a", "b"):
        search.fault(f"once-{side}", Fault(status=429), nth=1)
        search.fault(f"once-{side}", Fault(status=503), nth=2)
        search.fault(f"later-{side}", Fault(status=429, headers={"Retry-After": "2"}), nth=1)
        search.fault(f"never-{side}", Fault(status=503))
    gate.golden("twenty", questions(*names), POLICY)
    gate.golden("two", questions(*names[:2]), POLICY)
    with (
        gate.command(*run_of("once"), "twenty.jsonl", "--out", "once", GATE_MAX_CONCURRENCY="8") as once,
        gate.command(*run_of("later"), "two.jsonl", "--out", "later", GATE_MAX_CONCURRENCY="2") as later,
        gate.command(
            *(*run_of("never"), "twenty.jsonl", "--out", "never"),
            GATE_MAX_CONCURRENCY="8",
            GATE_RUN_TIMEOUT_SECONDS="3",
        ) as never,
    ):
        assert [once.ended().status, later.ended().status, never.ended().status] == [0, 0, 2]

    for side in ("a", "b"):
        for name in names:
            assert len(search.searches(f"once-{side}", f"about {name}")) == 3
            assert len(search.searches(f"never-{side}", f"about {name}")) <= 4
    pauses = [after.at - before.at for before, after in pairs(search, "once", nth=1)]
    assert len(pauses) == 40
    assert len({round(pause, 2) for pause in pauses}) > 10, "jittered"
    waits = [(before.at, after.at) for before, after in pairs(search, "later", nth=1)]
    assert len(waits) == 4
    assert min(after - before for before, after in waits) >= 2
    for moment, _ in waits:
        waiting = sum(before <= moment < after for before, after in waits)
        assert waiting <= 2, "who waits keeps its place, so that less is asked meanwhile"

    record = gate.read("once")
    assert {len(each["baseline"]) for each in record["questions"]} == {1}
    assert {each["baseline"][0]["attempts"] for each in record["questions"]} == {3}
    assert record["requests"]["throttled"] == record["requests"]["retries"] == 80
    failing = gate.read("never")
    assert failing["verdict"] == "ERROR"
    assert failing["lost"] == failing["gained"] == []
    assert {"throttled", "timed-out"} & set(ids(failing["reasons"]))
    attempts = {each["attempts"] for question in failing["questions"] for each in question["candidate"]}
    assert attempts <= {0, 1, 2, 3, 4}


def run_of(pair: str) -> tuple[str, ...]:
    return (*RUN, "--candidate", f"{pair}-b", "--baseline", f"{pair}-a", "--golden")


def pairs(search: ScriptedSearch, pair: str, nth: int) -> list[tuple[Received, Received]]:
    """Each question's nth request and the one that came next."""
    sent = defaultdict[tuple[str, str], list[Received]](list)
    for each in search.searches():
        if each.index.startswith(pair) and each.question.startswith("about "):
            sent[each.index, each.question].append(each)
    return [(each[nth - 1], each[nth]) for each in sent.values()]


def test_s08_one_page_of_as_many_rows_as_were_asked_for(gate: Gate) -> None:
    for name in ("kb-v1", "kb-v2"):
        gate.search.fault(name, Fault(next_page=True))
        for text in ("about one", "about all"):
            # rows 51 to 250 are what further pages would show; d2 stands on row 120
            gate.search.answer(name, text, [*ranked(3, "d1"), *ranked(70, "d2", of=200)])
    both = {"answers": ["d1", "d2"], "require_all": True}
    gate.golden("hr", [*questions("one"), *questions("all", **both)], POLICY)
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 0, ended.said
    for name in ("kb-v1", "kb-v2"):
        for text in ("about one", "about all"):
            (sent,) = gate.search.searches(name, text)
            assert sent.body["top"] == 50
            assert [each["k"] for each in sent.body["vectorQueries"]] == [50]
    assert outcomes(record) == {"one": "kept", "all": "absent"}
    ranks = [[each[side][0]["rank"] for side in ("baseline", "candidate")] for each in record["questions"]]
    assert ranks == [[3, 3], [None, None]]
    assert {len(each["candidate"][0]["hits"]) for each in record["questions"]} == {50}
    assert record["requests"]["comparison"] == 4


def test_s08_k_below_top_is_a_warning_and_top_above_the_rankers_depth_is_refused(gate: Gate) -> None:
    gate.golden("narrow", questions("q1"), f"[query]\nk = 20\n{POLICY}")
    ended, record = gate.record("--golden", "narrow.jsonl")
    assert ended.status == 0
    assert any("k (20) is below candidates (50)" in each["message"] for each in record["checks"])
    gate.golden("deep", questions("q1"), f"[query]\ncandidates = 100\nk = 100\n{POLICY}")
    gate.run("--golden", "deep.jsonl").refused("deep.toml", "candidates (100) is above 50")
