"""The lists of a run's questions, from their whole evidence and from their outlines."""

from collections.abc import Callable

import pytest

from app.domain.decision import results
from app.domain.outline import outlined
from app.report.junit import junit
from app.report.lists import Lists
from app.report.markdown import markdown
from tests import examples
from tests.examples import Example

EVERY = (
    examples.failing,
    examples.passing,
    examples.measured,
    examples.unmeasured,
    examples.broken,
    examples.empty,
    examples.unlabelled_only,
    examples.stale_critical,
    examples.errors_are_no_losses,
    examples.unsteady,
    examples.forbidden,
    examples.forbidden_today,
    examples.hostile,
    examples.without_passages,
)


def from_outlines(case: Example) -> Lists:
    queries = case.run.query
    cut = (outlined(each, queries) for each in case.results)
    return Lists.of(case.run, results(cut, queries), contexts=0)


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_outlines_make_the_same_lists_as_the_evidence(make: Callable[[], Example]) -> None:
    case = make()
    assert from_outlines(case) == Lists.of(case.run, case.results, contexts=0)


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_outlines_make_the_same_summary_and_test_results(make: Callable[[], Example]) -> None:
    case = make()
    queries = case.run.query
    cut = [outlined(each, queries) for each in case.results]
    assert markdown(case.run, results(cut, queries)) == markdown(case.run, case.results)
    assert junit(case.run, results(cut, queries)) == junit(case.run, case.results)


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_with_the_contexts_of_the_lost_they_are_the_lists_of_the_file(make: Callable[[], Example]) -> None:
    case = make()
    lists = from_outlines(case)
    lost = {card.row.id for card in lists.lost}
    whole = [each for each in case.results if each.id in lost]
    assert lists.with_contexts(case.run, whole) == Lists.of(case.run, case.results, contexts=1_000)


def test_only_the_first_lost_and_all_critical_ones_keep_their_contexts() -> None:
    case = examples.failing()
    lists = Lists.of(case.run, case.results, contexts=1)
    assert [card.contexts is not None for card in lists.critical] == [True] * len(lists.critical)
    assert [card.contexts is not None for card in lists.plain] == [True] + [False] * (len(lists.plain) - 1)
    assert lists.critical
    assert len(lists.plain) > 1
    none = Lists.of(case.run, case.results, contexts=0)
    assert [card.contexts for card in none.lost] == [None] * len(lists.lost)
