"""Runs whose record is read by another reader, which comes to the same verdict."""

from typing import Any

import pytest

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


def scripted(search: ScriptedSearch, pair: str, story: dict[str, Any]) -> list[dict[str, Any]]:
    """The questions of the story, which the pair's indexes answer as it says."""
    for side in ("a", "b"):
        search.index(f"{pair}-{side}")
    for name, (_, before, after, _) in story.items():
        for side, answers in (("a", before), ("b", after)):
            if answers:
                search.answer(f"{pair}-{side}", f"about {name}", *answers)
            else:
                search.fault(f"{pair}-{side}", Fault(status=400, message="No."), question=f"about {name}")
    return [{**questions(name)[0], **keys} for name, (keys, _, _, _) in story.items()]


@pytest.mark.parametrize("name", CHANGES)
def test_another_reader_comes_to_the_same_verdict(gate: Gate, name: str) -> None:
    more, policy, expected = CHANGES[name]
    story = {**STORY, **more}
    gate.golden(name, scripted(gate.search, name, story), f"{QUERY}[policy]\n{policy}\n")
    _, record = gate.record(
        *("--golden", f"{name}.jsonl", "--baseline", f"{name}-a", "--candidate", f"{name}-b")
    )
    by_hand = recomputed(record)
    assert by_hand["outcomes"] == outcomes(record)
    assert by_hand["counts"] == {each: record["counts"][each] for each in by_hand["counts"]}
    assert by_hand["lost"] == ids(record["lost"])
    assert by_hand["gained"] == ids(record["gained"])
    assert by_hand["codes"] == set(ids(record["reasons"]))
    assert by_hand["verdict"] == record["verdict"] == expected
    if name != "single":
        assert outcomes(record) == {each: outcome for each, (*_, outcome) in story.items()}
    sent = len(record["questions"]) * 2
    if name == "single":
        assert record["requests"]["comparison"] == sent
        for each in story:
            for side in ("a", "b"):
                assert len(gate.search.searches(f"{name}-{side}", f"about {each}")) == 1
