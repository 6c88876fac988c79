"""The measures equal those of ir_measures on rankings of any kind, and hold what must hold of all measures."""

import random
from dataclasses import asdict, replace
from typing import Any

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, P, R, Success, nDCG

from app.domain.decision import result
from app.domain.measures import GatheredMeasures, Measures, overlap, question_measures, rank_biased_overlap
from app.domain.observation import Observation, answer_rank
from app.domain.outcome import Observed
from app.domain.query import Queries, QuerySettings
from tests.domain.making import chunks

_NAMES = st.text("abcdefgh", min_size=1, max_size=1)
_PARENTS = st.lists(st.one_of(_NAMES, st.none()), max_size=12)
_RANKED = st.lists(_NAMES, unique=True, max_size=8)
_ENTRIES = st.lists(
    st.one_of(_NAMES, st.lists(_NAMES, min_size=1, max_size=3).map(tuple)), min_size=1, max_size=3
)


def question(
    answers: tuple[Any, ...],
    baseline: list[str | None],
    candidate: list[str | None],
    *,
    require_all: bool = False,
    name: str = "q",
) -> Observed:
    bare = Observed(id=name, question="what?", answers=answers, require_all=require_all)

    def seen(parents: list[str | None]) -> tuple[Observation, ...]:
        hits = chunks(*parents)
        return (Observation(rank=answer_rank(bare, hits), elapsed_ms=1.0, attempts=1, hits=hits),)

    return replace(bare, baseline=seen(baseline), candidate=seen(candidate))


def queries(depth: int) -> Queries:
    query = QuerySettings(context_size=depth)
    return Queries(baseline=query, candidate=query)


def reference(answers: tuple[str, ...], parents: list[str | None], depth: int) -> dict[str, float]:
    """ir_measures on the list of parents, where a later chunk of a parent is another, irrelevant document."""
    names = [
        parent if parent is not None and parent not in parents[:at] else f"chunk-{at}"
        for at, parent in enumerate(parents)
    ]
    measures = {
        "success": Success @ depth,
        "recall": R @ depth,
        "reciprocal_rank": RR @ depth,
        "ndcg": nDCG @ depth,
    }
    return _calculated(measures, dict.fromkeys(answers, 1), names)


def reference_precision(answers: tuple[str, ...], parents: list[str | None], depth: int) -> float:
    """ir_measures on chunks, relevant where their parent is an answer, at the number of chunks shown."""
    names = [f"chunk-{at}" for at in range(len(parents))]
    labels = {name: int(parent in answers) for name, parent in zip(names, parents, strict=True)}
    shown = min(depth, len(parents))
    return _calculated({"precision": P @ shown}, labels, names)["precision"]


def _calculated(measures: dict[str, Any], labels: dict[str, int], names: list[str]) -> dict[str, float]:
    scores = {name: float(-at) for at, name in enumerate(names)}
    found = ir_measures.calc_aggregate(list(measures.values()), {"q": labels}, {"q": scores})
    return {name: found[measure] for name, measure in measures.items()}


@pytest.mark.parametrize("seed", range(200))
def test_the_measures_equal_those_of_ir_measures(seed: int) -> None:
    draw = random.Random(seed)
    depth = draw.randint(1, 10)
    pool = [*"abcdefghijklmnop", None] if seed % 2 else list("abcdefghijklmnop")
    parents = [draw.choice(pool) for _ in range(draw.randint(1, 15))]
    if seed % 4 == 0:  # one chunk a parent
        parents = draw.sample(pool, draw.randint(1, 15))
    answers = tuple(draw.sample("abcdefghijklmnop", draw.randint(1, 6)))
    asked = queries(depth)
    found = question_measures(result(question(answers, parents, []), asked), asked)
    assert found is not None
    ours = asdict(found.baseline)
    for name, expected in reference(answers, parents, depth).items():
        assert ours[name] == pytest.approx(expected), name
    assert ours["context_precision"] == pytest.approx(reference_precision(answers, parents, depth))


@given(entries=_ENTRIES, baseline=_PARENTS, candidate=_PARENTS, depth=st.integers(1, 8))
def test_no_measure_leaves_0_to_1(
    entries: list[Any], baseline: list[str | None], candidate: list[str | None], depth: int
) -> None:
    asked = queries(depth)
    each = question(tuple(entries), baseline, candidate, require_all=True)
    found = question_measures(result(each, asked), asked)
    assert found is not None
    for side in (found.baseline, found.candidate):
        measures = asdict(side)
        assert 0 <= measures.pop("distinct_parents") <= depth
        assert all(0 <= value <= 1 for value in measures.values() if value is not None)
        assert not side.success or (side.recall == 1 and side.reciprocal_rank >= 1 / depth)
    assert 0 <= found.overlap <= 1
    assert 0 <= found.rank_biased_overlap <= 1


@given(first=_RANKED, second=_RANKED)
def test_agreement_is_symmetric_within_0_and_1_and_full_for_identical_lists(
    first: list[str], second: list[str]
) -> None:
    for measure in (overlap, rank_biased_overlap):
        assert measure(first, second) == measure(second, first)
        assert 0 <= measure(first, second) <= 1
        assert measure(first, first) == 1


@given(lists=st.lists(st.tuples(_PARENTS, _PARENTS), max_size=8), data=st.data())
def test_the_order_of_the_questions_makes_no_difference_to_a_mean(
    lists: list[tuple[list[str | None], list[str | None]]], data: st.DataObject
) -> None:
    questions = [question(("a",), before, after, name=f"q{n}") for n, (before, after) in enumerate(lists)]
    shuffled = data.draw(st.permutations(questions))
    assert _gathered(shuffled).overall == _gathered(questions).overall


@given(lists=st.lists(st.tuples(_PARENTS, _PARENTS), max_size=8))
def test_swapping_the_sides_turns_every_difference_round(
    lists: list[tuple[list[str | None], list[str | None]]],
) -> None:
    there = _gathered([question(("a",), before, after) for before, after in lists]).overall
    back = _gathered([question(("a",), after, before) for before, after in lists]).overall
    for name in ("success", "recall", "reciprocal_rank", "ndcg", "context_precision", "distinct_parents"):
        ours, theirs = getattr(there, name), getattr(back, name)
        assert (ours.n, ours.baseline, ours.candidate) == (theirs.n, theirs.candidate, theirs.baseline)
        assert ours.difference is None or ours.difference == -theirs.difference
    assert (there.overlap, there.rank_biased_overlap) == (back.overlap, back.rank_biased_overlap)


def _gathered(questions: list[Observed]) -> Measures:
    measures = GatheredMeasures()
    for each in questions:
        measures.add(result(each, queries(5)), queries(5))
    return measures.summary()
