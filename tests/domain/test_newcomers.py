"""What took the place of a lost answer."""

from dataclasses import replace

from app.domain.newcomers import Newcomer, newcomers
from app.domain.observation import Hit, Observation
from app.domain.outcome import Observed
from app.domain.query import Queries, QuerySettings
from tests.domain.making import at, chunks

THREE = Queries(baseline=QuerySettings(context_size=3), candidate=QuerySettings(context_size=6))


def seen(*hits: Hit, rank: int | None = None) -> Observation:
    return Observation(rank=rank, elapsed_ms=1.0, attempts=1, hits=hits)


def question(before: tuple[Observation, ...], after: tuple[Observation, ...]) -> Observed:
    return Observed(id="q", question="What?", answers=("d1",), baseline=before, candidate=after)


def test_are_the_documents_that_only_the_candidates_context_shows_in_its_order() -> None:
    """The baseline's context is a, d1, b; c is beyond it. Of the candidate's six, c and d are new, g is beyond."""
    before = seen(*chunks("a", "d1", "b", "c"), rank=2)
    after = seen(*chunks("b", "c", "a", "c", "d", "a", "d1", "g"), rank=7)
    found = newcomers(question((before,), (after,)), THREE)
    assert [(each.rank, each.parent) for each in found.first] == [(2, "c"), (5, "d")]
    assert (found.more, found.returned) == (0, 8)


def test_the_first_three_are_named_and_the_others_counted() -> None:
    after = seen(*chunks("a", "b", "c", "d", "e", "d1"))
    found = newcomers(question((at(1),), (replace(after, rank=None),)), THREE)
    assert [each.parent for each in found.first] == ["a", "b", "c"]
    assert found.more == 2  # d and e; d1 was there


def test_are_those_of_the_first_observation_that_shows_the_loss() -> None:
    inside, outside = seen(*chunks("d1", "x")), seen(*chunks("y", "y", "y", "y", "y", "y", "d1"))
    found = newcomers(question((seen(*chunks("z")), inside), (inside, outside)), THREE)
    assert [each.parent for each in found.first] == ["y"]


def test_chunks_without_a_document_stand_for_themselves() -> None:
    old = Hit(rank=2, key="k1", parent=None)
    same, new = replace(old, rank=1), Hit(rank=2, key="k2", parent=None)
    found = newcomers(question((seen(*chunks("d1"), old),), (seen(same, new),)), THREE)
    assert found.first == (Newcomer(rank=2, key="k2", parent=None),)


def test_where_nothing_was_returned_there_are_none() -> None:
    found = newcomers(question((at(1),), (seen(),)), THREE)
    assert (found.first, found.more, found.returned) == ((), 0, 0)
