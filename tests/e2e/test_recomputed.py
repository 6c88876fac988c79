"""Runs whose record is read by another reader, which comes to the same verdict."""

from typing import Any

from tests.e2e.programs import Gate, ids, outcomes, questions
from tests.e2e.recomputing import recomputed
from tests.scripted import Chunk, Fault, Rows, ScriptedSearch, ranked

IN, OUT, NONE = ranked(2, "d1"), ranked(8, "d1"), ["x"] * 50
LOW = [Chunk(parent="x", reranker_score=3.0), Chunk(parent="d1", reranker_score=0.9)]
TWO = ["x", "d2", "d1", "x", "x", "x"]
ONE = ["x", "d2", "x", "x", "x", "d1"]

# question: keys of its own, the baseline's answers in turn, the candidate's, and the outcome worked out by hand;
# the baseline is observed twice, the candidate again only where it is critical or the first ones differ
STORY: dict[str, tuple[dict[str, Any], list[Rows], list[Rows], str]] = {
    "kept": ({}, [IN], [IN], "kept"),
    "absent": ({}, [OUT], [NONE], "absent"),
    "lost": ({"slice": "table"}, [IN], [OUT], "lost"),
    "lost-2": ({}, [IN], [NONE], "lost"),
    "gained": ({"slice": ["table", "lookup"]}, [NONE], [IN], "gained"),
    "shaky-before": ({}, [IN, OUT], [IN], "noisy"),
    "shaky-after": ({}, [IN], [OUT, IN], "noisy"),
    "critical-kept": ({"critical": True}, [IN], [IN], "kept"),
    "unlabelled": ({"answers": []}, [IN], [IN], "unlabelled"),
    "cut-off": ({}, [IN], [LOW], "lost"),
    "all-kept": ({"answers": ["d1", ["d2", "d3"]], "require_all": True}, [TWO], [TWO], "kept"),
    "all-lost": ({"answers": ["d1", ["d2", "d3"]], "require_all": True}, [TWO], [ONE], "lost"),
    "any": ({"answers": ["d3", "d1"]}, [IN], [ONE], "lost"),
    "hidden": ({"answers": [], "forbidden": ["secret"]}, [["secret"]], [["x"]], "unlabelled"),
}
QUERY = "[query.candidate]\nmin_reranker_score = 1.5\n"
CHANGES: dict[str, tuple[dict[str, tuple[dict[str, Any], list[Rows], list[Rows], str]], str, str]] = {
    "net-loss": ({}, "max_noisy_share = 0.5", "FAIL"),
    "tolerated": ({}, "max_noisy_share = 0.5\nmax_net_loss = 4", "PASS"),
    "too-noisy": ({}, "max_noisy_share = 0.1\nmax_net_loss = 4", "ERROR"),
    "slice": (
        {"lost-3": ({"slice": "table"}, [IN], [OUT], "lost")},
        'max_noisy_share = 0.5\nmax_net_loss = 9\nprotected_slices = ["table"]',
        "FAIL",
    ),
    "destabilised": (
        {},
        "max_noisy_share = 0.5\nmax_net_loss = 4\nconfirm_runs = 2\nmax_net_destabilised = 0",
        "FAIL",
    ),
    "critical": (
        {"critical-shaky": ({"critical": True}, [IN], [IN, OUT], "noisy")},
        "max_noisy_share = 0.5\nmax_net_loss = 9",
        "FAIL",
    ),
    "critical-noise": (
        {"critical-gone": ({"critical": True}, [OUT, IN], [OUT], "noisy")},
        "max_noisy_share = 0.5\nmax_net_loss = 9",
        "FAIL",
    ),
    "forbidden": (
        {"shown": ({"answers": [], "forbidden": ["secret"]}, [["x"]], [["x", "secret"]], "unlabelled")},
        "max_noisy_share = 0.0",
        "FAIL",
    ),
    "errors": ({"rejected": ({}, [IN], [], "error")}, "max_noisy_share = 0.5\nmax_net_loss = 4", "ERROR"),
    "errors-tolerated": (
        {"rejected": ({}, [IN], [], "error")},
        "max_noisy_share = 0.5\nmax_net_loss = 4\nmax_question_errors = 1",
        "PASS",
    ),
    "critical-error": (
        {"rejected": ({"critical": True}, [IN], [], "error")},
        "max_noisy_share = 0.5\nmax_net_loss = 4\nmax_question_errors = 1",
        "ERROR",
    ),
    "single": ({}, "noise_runs = 0\nconfirm_runs = 0\nmax_net_loss = 4", "FAIL"),
}


def scripted(search: ScriptedSearch, part: str, story: dict[str, Any]) -> list[dict[str, Any]]:
    """The questions of the story, which both indexes answer as it says; their texts are of this part alone."""
    for name, (_, before, after, _) in story.items():
        text = f"{part}: {name}"
        for index, answers in (("kb-v1", before), ("kb-v2", after)):
            if answers:
                search.answer(index, text, *answers)
            else:
                search.fault(index, Fault(status=400, message="No."), question=text)
    return [
        {**questions(name)[0], **keys, "question": f"{part}: {name}"}
        for name, (keys, _, _, _) in story.items()
    ]


def test_another_reader_comes_to_the_same_verdicts(gate: Gate) -> None:
    for name, (more, policy, _) in CHANGES.items():
        story = scripted(gate.search, name, {**STORY, **more})
        gate.golden(name, story, f"{QUERY}[policy]\n{policy}\n")
    named = [part for name in CHANGES for part in ("--golden", f"{name}.jsonl")]
    ended = gate.run(*named, "--out", "out")
    assert ended.status == 2, ended.said
    for name, (more, _, expected) in CHANGES.items():
        record = gate.read(f"out/{name}")
        by_hand = recomputed(record)
        assert by_hand["outcomes"] == outcomes(record), name
        assert by_hand["counts"] == {each: record["counts"][each] for each in by_hand["counts"]}, name
        assert by_hand["lost"] == ids(record["lost"]), name
        assert by_hand["gained"] == ids(record["gained"]), name
        assert by_hand["codes"] == set(ids(record["reasons"])), name
        assert by_hand["verdict"] == record["verdict"] == expected, name
        if name != "single":
            told = {each: outcome for each, (*_, outcome) in {**STORY, **more}.items()}
            assert outcomes(record) == told, name


def test_without_further_observations_a_question_is_exactly_two_queries(gate: Gate) -> None:
    story = scripted(gate.search, "single", STORY)
    gate.golden("single", story, f"{QUERY}[policy]\nnoise_runs = 0\nconfirm_runs = 0\n")
    _, record = gate.record("--golden", "single.jsonl", GATE_LEG_PROBES="false")
    assert record["requests"]["comparison"] == 2 * len(story)
    for each in story:
        for index in ("kb-v1", "kb-v2"):
            assert len(gate.search.searches(index, each["question"])) == 1
    first = {
        name: compared(before[0], after[0]) for name, (keys, before, after, _) in STORY.items() if keys == {}
    }
    got = outcomes(record)
    assert {name: got[name] for name in first} == first


def compared(before: Rows, after: Rows) -> str:
    """What one answer of each side gives, for a plain question that the document d1 answers."""
    inside = [
        any(
            row == "d1"
            or (isinstance(row, Chunk) and row.parent == "d1" and (row.reranker_score or 4) >= 1.5)
            for row in rows[:5]
        )
        for rows in (before, after)
    ]
    return {(True, True): "kept", (False, False): "absent", (True, False): "lost", (False, True): "gained"}[
        (inside[0], inside[1])
    ]
