"""Where the answer stands in one list of chunks, and whether it reaches the model."""

import math

import pytest

from app.domain.golden import Question
from app.domain.observation import Hit, Observation, answer_rank, entry_hits, forbidden_hits, in_context
from app.domain.query import QuerySettings
from tests.domain.making import at, broken, chunks, hit


def plain(*documents: str) -> Question:
    return Question(id="q1", question="how?", answers=documents)


def every(*entries: str | tuple[str, ...]) -> Question:
    return Question(id="q1", question="how?", answers=entries, require_all=True)


def seen(*hits: Hit) -> Observation:
    return Observation(rank=None, elapsed_ms=1.0, attempts=1, hits=hits)


# answer rank


@pytest.mark.parametrize(
    ("question", "parents", "rank"),
    [
        # a plain question: the first chunk of any answer
        (plain("a"), ("x", "x", "a"), 3),
        (plain("a"), ("a", "x", "a"), 1),
        (plain("a", "b"), ("x", "b", "a"), 2),
        (plain("a"), ("x", "x"), None),
        (plain("a"), (), None),
        (plain("a"), ("A", "a "), None),  # names are compared as they are
        # require_all: the entry that comes last
        (every("a", "b"), ("a", "x", "b"), 3),
        (every("a", "b"), ("b", "a", "b"), 2),
        (every("a", "b"), ("a", "x", "x"), None),
        (every("a"), ("x", "a"), 2),
        # alternatives: the better document of each entry
        (every(("a", "b"), "c"), ("c", "b", "a"), 2),
        (every(("a", "b"), ("c", "d")), ("x", "d", "c", "x", "b"), 5),
        (every(("a", "b"), "c"), ("a", "b", "x"), None),
        # one document may satisfy two entries with one chunk
        (every(("a", "b"), ("a", "c")), ("x", "a", "x"), 2),
        # but each entry takes its own best
        (every(("a", "b"), ("a", "c")), ("c", "a", "b"), 2),
        # rows without a parent are chunks like others: they take a rank, and answer nothing
        (plain("a"), (None, None, "a"), 3),
        (plain("None"), (None, "x"), None),
        # unlabelled
        (plain(), ("a",), None),
        (every(), ("a",), None),
    ],
)
def test_the_answer_rank_is_the_worst_entry_at_its_best(
    question: Question, parents: tuple[str | None, ...], rank: int | None
) -> None:
    assert answer_rank(question, chunks(*parents)) == rank


def test_each_entry_names_its_own_first_chunk() -> None:
    found = entry_hits((("a", "b"), ("c",), ("d",)), chunks("x", "b", "a", "d", "d"))
    assert [each and each.rank for each in found] == [2, None, 4]


# in context (S20: ranks start at 1, the last place of the context is inside)


@pytest.mark.parametrize(
    ("rank", "of_5", "of_6", "of_1"),
    [
        (1, True, True, True),
        (2, True, True, False),
        (5, True, True, False),
        (6, False, True, False),
        (7, False, False, False),
        (50, False, False, False),
        (None, False, False, False),
    ],
)
def test_s20_a_rank_is_in_context_up_to_and_including_its_size(
    rank: int | None, of_5: bool, of_6: bool, of_1: bool
) -> None:
    for size, inside in ((5, of_5), (6, of_6), (1, of_1)):
        assert in_context(plain("d1"), at(rank), QuerySettings(context_size=size)) is inside


def test_every_entry_must_be_in_context() -> None:
    hits = seen(*chunks("a", "x", "x", "x", "b", "c"))
    assert in_context(every("a", "b"), hits, QuerySettings())
    assert not in_context(every("a", "c"), hits, QuerySettings())
    assert not in_context(every("a", "missing"), hits, QuerySettings())


def test_a_failed_observation_is_neither_in_nor_out() -> None:
    assert in_context(plain("d1"), broken(), QuerySettings()) is None


def test_an_unlabelled_question_is_never_in_context() -> None:
    assert in_context(plain(), at(1), QuerySettings()) is False


# cut-offs


@pytest.mark.parametrize(
    ("score", "limit", "inside"),
    [
        (1.5, 1.5, True),
        (1.49, 1.5, False),
        (None, 1.5, False),
        (math.nan, 1.5, False),
        (0.0, 0.0, True),  # no cut-off
        (None, 0.0, True),
        (-1.0, 0.0, True),
    ],
)
def test_a_chunk_below_a_cut_off_does_not_reach_the_model(
    score: float | None, limit: float, inside: bool
) -> None:
    by_ranker = QuerySettings(min_reranker_score=limit)
    by_score = QuerySettings(min_score=limit)
    assert in_context(plain("a"), seen(hit(1, "a", reranker=score, score=9.0)), by_ranker) is inside
    assert in_context(plain("a"), seen(hit(1, "a", score=score, reranker=4.0)), by_score) is inside


def test_the_cut_off_is_asked_of_the_chunk_that_gives_the_rank() -> None:
    first_is_weak = seen(hit(1, "a", reranker=1.0), hit(2, "a", reranker=2.0))
    assert not in_context(plain("a"), first_is_weak, QuerySettings(min_reranker_score=1.5))


def test_one_entry_below_the_cut_off_is_enough_to_be_out() -> None:
    hits = seen(hit(1, "a", reranker=2.0), hit(2, "b", reranker=1.0))
    assert not in_context(every("a", "b"), hits, QuerySettings(min_reranker_score=1.5))
    assert in_context(every("a", "b"), hits, QuerySettings(min_reranker_score=1.0))


# forbidden


def test_forbidden_documents_are_found_anywhere_once_each_in_rank_order() -> None:
    question = Question(id="q1", question="how?", answers=("a",), forbidden=("s1", "s2", "s3"))
    parents = ["x"] * 50
    parents[9] = parents[49] = "s2"
    parents[10] = "s1"
    assert forbidden_hits(question, seen(*chunks(*parents))) == ("s2", "s1")
    assert forbidden_hits(question, seen(*chunks("a", None))) == ()
    assert forbidden_hits(question, broken()) == ()
