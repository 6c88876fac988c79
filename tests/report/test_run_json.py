"""run.json, read by a strict JSON parser."""

import json
from dataclasses import fields
from typing import Any, NoReturn

import pytest
from pydantic import TypeAdapter

from app.domain.decision import decide, results
from app.domain.outcome import Observed
from app.report.run_json import json_chunks, run_json
from tests import examples
from tests.examples import Example
from tests.report.test_junit import EVERY


def refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def read(example: Example) -> dict[str, Any]:
    text = b"".join(json_chunks(example.run, example.results)).decode("utf-8")
    found = json.loads(text, parse_constant=refuse)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("example", EVERY)
def test_holds_the_run_and_every_question_in_order(example: Example) -> None:
    found = read(example)
    assert set(found) == {each.name for each in fields(example.run)} | {"questions"}
    assert found["verdict"] == example.run.verdict
    assert len(found["questions"]) == len(example.questions)
    assert [each["outcome"] for each in found["questions"]] == [each.outcome for each in example.results]


def test_names_are_the_contracts() -> None:
    found = read(examples.failing())
    assert found["reasons"][0] == {
        "code": "critical-lost",
        "measured": 2,
        "limit": 0,
        "setting": None,
        "questions": ["leave-carry-over", "parental-pay"],
        "documents": [],
    }
    assert found["lost"][2] == {
        "id": "visa-letter",
        "question": "Who issues a visa letter?",
        "critical": False,
        "slice": ["lookup"],
        "unstable": False,
        "baseline_rank": 1,
        "candidate_rank": None,
        "cause": "document-missing",
        "also": [],
        "evidence": {
            "documents": ["visa-letters"],
            "rank_before": 1,
            "rank_after": None,
            "context_size": 5,
            "candidates": 50,
            "returned": 10,
            "rank_by_score": None,
            "cut_off": None,
            "crowd": None,
            "twin": None,
            "quote": None,
        },
        "took_its_place": {
            "first": [{"rank": n, "key": f"newer-{n}-{n}", "parent": f"newer-{n}"} for n in (1, 2, 3)],
            "more": 2,
            "returned": 10,
        },
    }
    assert found["counts"]["evaluated"] == 11
    assert found["created_at"] == "2026-11-30T09:00:00Z"
    question = next(each for each in found["questions"] if each["id"] == "leave-carry-over")
    assert question["critical_lost"] is True
    assert question["forbidden_hits"] == []
    assert question["missing"] == {"baseline": [], "candidate": []}
    assert [each["rank"] for each in question["candidate"]] == [9, 9]
    assert question["baseline"][0]["hits"][1] == {
        "rank": 2,
        "key": "leave-policy-2",
        "parent": "leave-policy",
        "score": 0.031,
        "reranker_score": 2.8,
        "title": "Leave policy",
        "text": "Employees may carry over five days of annual leave. They lapse on 31 March.",
        "text_sha256": None,
        "holds": None,
    }


@pytest.mark.parametrize("example", EVERY)
def test_the_record_is_enough_to_decide_again(example: Example) -> None:
    stored = [
        {
            key: value
            for key, value in each.items()
            if key not in ("outcome", "critical_lost", "forbidden_hits")
        }
        for each in read(example)["questions"]
    ]
    again = TypeAdapter(tuple[Observed, ...]).validate_json(json.dumps(stored))
    decision = decide(example.run, results(again, example.run.query))
    assert decision.verdict is example.run.verdict
    assert decision.counts == example.run.counts
    assert [reason.code for reason in decision.reasons] == [reason.code for reason in example.run.reasons]


def test_half_a_surrogate_pair_is_a_visible_escape_and_nan_is_null() -> None:
    found = read(examples.hostile())
    assert found["questions"][0]["question"] == "a\u000b\u001b[31m b \\ud83d ]]> \uffff & <c>"
    assert found["questions"][0]["candidate"][0]["hits"][0]["score"] is None
    assert found["manifest"]["model"] == ["\\ud83d", examples.ANSI, None]


def test_everything_else_is_kept_as_it_was() -> None:
    found = read(examples.hostile())
    assert [each["question"] for each in found["questions"][1:]] == [
        each.question for each in examples.hostile().questions[1:]
    ]
    assert found["questions"][0]["answers"] == ["d\t1"]


def test_the_run_alone_has_no_questions() -> None:
    example = examples.failing()
    whole = read(example)
    del whole["questions"]
    assert json.loads(run_json(example.run)) == whole
