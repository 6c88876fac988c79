"""The partition of questions into outcomes, and the flag of a lost critical question."""

from itertools import product
from typing import Any

import pytest

from app.domain.observation import Hit
from app.domain.outcome import (
    Cause,
    Missing,
    Observed,
    Outcome,
    critical_lost,
    differ,
    first_where,
    outcome,
    place,
    tally,
)
from app.domain.query import QuerySettings, Side
from tests.domain.making import (
    absent,
    asked,
    erring,
    gained,
    kept,
    lost,
    noisy,
    stale,
    unlabelled,
)

_QUERY = QuerySettings()
_RANK: dict[str, int | str] = {
    "in": 5,
    "out": 6,
    "failed": "!",
}  # either side of the boundary of a context of 5


def outcome_of(observed: Observed) -> Outcome:
    sides = (tally(observed, side, _QUERY) for side in Side)
    return outcome(observed, *sides)


def critical_lost_of(observed: Observed) -> bool:
    sides = (tally(observed, side, _QUERY) for side in Side)
    return critical_lost(observed, *sides)


# every small combination, against the contract's table written down once more

_UP_TO_THREE = [each for size in (1, 2, 3) for each in product(("in", "out", "failed"), repeat=size)]
_COMBINATIONS = list(product(_UP_TO_THREE, _UP_TO_THREE))


def _expected_outcome(baseline: tuple[str, ...], candidate: tuple[str, ...]) -> str:
    every = baseline + candidate
    if "failed" in every:
        return "error"
    if "out" not in every:
        return "kept"  # in context in every observation of both sides
    if "in" not in every:
        return "absent"  # in none
    if set(baseline) == {"in"} and set(candidate) == {"out"}:
        return "lost"  # in every baseline observation, in none of the candidate's
    if set(baseline) == {"out"} and set(candidate) == {"in"}:
        return "gained"  # the reverse
    return "noisy"  # every other mix


def _expected_critical_lost(baseline: tuple[str, ...], candidate: tuple[str, ...]) -> bool:
    """All answers of the failed observations tried out one by one."""
    verdicts = []
    for completed in product(
        *(("in", "out") if each == "failed" else (each,) for each in baseline + candidate)
    ):
        before, after = completed[: len(baseline)], completed[len(baseline) :]
        in_all_but_not_in_all = all(each == "in" for each in before) and any(each == "out" for each in after)
        in_some_but_in_none = any(each == "in" for each in before) and all(each == "out" for each in after)
        verdicts.append(in_all_but_not_in_all or in_some_but_in_none)
    return all(verdicts)


def _observed(baseline: tuple[str, ...], candidate: tuple[str, ...], **keys: Any) -> Observed:
    return asked("q1", [_RANK[each] for each in baseline], [_RANK[each] for each in candidate], **keys)


def test_every_combination_has_the_outcome_of_the_contract() -> None:
    assert len(_COMBINATIONS) == 39 * 39  # 3 + 9 + 27 on each side
    for baseline, candidate in _COMBINATIONS:
        found = outcome_of(_observed(baseline, candidate))
        assert found.value == _expected_outcome(baseline, candidate), (baseline, candidate)


def test_every_combination_has_the_critical_flag_of_the_contract() -> None:
    for baseline, candidate in _COMBINATIONS:
        found = critical_lost_of(_observed(baseline, candidate, critical=True))
        assert found == _expected_critical_lost(baseline, candidate), (baseline, candidate)


def test_a_question_that_is_not_critical_is_never_critical_lost() -> None:
    for baseline, candidate in _COMBINATIONS:
        assert not critical_lost_of(_observed(baseline, candidate))


@pytest.mark.parametrize(
    ("baseline", "candidate", "flagged"),
    [
        ([3, 3], [5, 6], True),  # S22: q08 held by the baseline every time, by the candidate once of twice
        ([5, 6], [6], True),  # S22: q07, if it were critical
        ([5, 6], [5, 6], False),  # as unsteady as before
        ([5, 6], [5], False),
        ([6, 6], [6, 6], False),  # nothing to lose
        ([2], ["!"], False),  # S21: it might have been found
        ([2, "!"], [6, 6], True),  # found once is enough against never
        (["!", "!"], [6, 6], False),  # perhaps there was nothing to lose
        ([2, 2], [6, "!"], True),  # one observation without it is enough against always
        ([2, "!"], [6, "!"], False),  # might be 1 of 2 on both sides
    ],
)
def test_noise_and_failures_do_not_excuse_a_lost_critical_question(
    baseline: list[int | str | None], candidate: list[int | str | None], flagged: bool
) -> None:
    assert critical_lost_of(asked("q1", baseline, candidate, critical=True)) is flagged


# what stands before the observations


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (kept("q"), Outcome.KEPT),
        (absent("q"), Outcome.ABSENT),
        (lost("q"), Outcome.LOST),
        (gained("q"), Outcome.GAINED),
        (noisy("q"), Outcome.NOISY),
        (erring("q"), Outcome.ERROR),
        (stale("q"), Outcome.STALE),
        (unlabelled("q"), Outcome.UNLABELLED),
        (asked("q", [], [1]), Outcome.ERROR),  # a side that was never asked
        (asked("q", [1], []), Outcome.ERROR),
        (asked("q", [], []), Outcome.ERROR),
        (asked("q", ["!"], [1], answers=()), Outcome.UNLABELLED),
        (
            asked("q", ["!"], [1], missing=Missing(baseline=("d1",), candidate=("d1",))),
            Outcome.STALE,
        ),
    ],
)
def test_a_question_has_exactly_one_outcome(observed: Observed, expected: Outcome) -> None:
    assert outcome_of(observed) is expected


def test_a_question_that_was_not_asked_is_not_called_lost() -> None:
    assert not critical_lost_of(asked("q", [], [], critical=True))
    assert not critical_lost_of(asked("q", [1], [], critical=True))
    assert not critical_lost_of(asked("q", [], [6], critical=True))


@pytest.mark.parametrize(
    ("answers", "require_all", "baseline", "candidate", "is_stale"),
    [
        (("a",), False, ("a",), ("a",), True),
        (("a",), False, ("a",), (), False),  # only the baseline lacks it: a gain is possible
        (("a",), False, (), ("a",), False),  # only the candidate lacks it: a real loss
        (("a", "b"), False, ("a",), ("a",), False),  # another answer is left
        (("a", "b"), False, ("a", "b"), ("b", "a"), True),
        (("a", "b"), False, ("a",), ("b",), False),
        (("a", "b"), True, ("a",), ("a",), True),  # every entry is needed, and one is gone
        (("a", "b"), True, ("a",), ("b",), False),
        ((("a", "b"), "c"), True, ("a",), ("a",), False),  # an alternative is left
        ((("a", "b"), "c"), True, ("a", "b"), ("a", "b"), True),
    ],
)
def test_a_question_is_stale_when_it_can_never_be_in_context(
    answers: tuple[str | tuple[str, ...], ...],
    require_all: bool,
    baseline: tuple[str, ...],
    candidate: tuple[str, ...],
    is_stale: bool,
) -> None:
    missing = Missing(baseline=baseline, candidate=candidate)
    observed = asked("q", [None], [None], answers=answers, require_all=require_all, missing=missing)
    assert (outcome_of(observed) is Outcome.STALE) is is_stale


# S20

_S20 = {
    "q1": (5, 6),
    "q2": (6, 5),
    "q3": (5, 5),
    "q4": (1, 5),
    "q5": (6, 50),
    "q6": (50, None),
    "q7": (None, 5),
}


@pytest.mark.parametrize(
    ("context_size", "lost_ids", "gained_ids"),
    [(5, {"q1"}, {"q2", "q7"}), (6, {"q5"}, {"q7"}), (1, {"q4"}, set())],
)
def test_s20_lost_and_gained_at_the_boundary(
    context_size: int, lost_ids: set[str], gained_ids: set[str]
) -> None:
    query = QuerySettings(context_size=context_size)
    found = {}
    for name, (before, after) in _S20.items():
        observed = asked(name, [before], [after])
        found[name] = outcome(observed, *(tally(observed, side, query) for side in Side))
    assert {name for name, each in found.items() if each is Outcome.LOST} == lost_ids
    assert {name for name, each in found.items() if each is Outcome.GAINED} == gained_ids


def test_each_side_is_judged_by_its_own_query() -> None:
    observed = asked("q1", [6], [6])
    baseline = tally(observed, Side.BASELINE, QuerySettings(context_size=6))
    candidate = tally(observed, Side.CANDIDATE, QuerySettings(context_size=5))
    assert outcome(observed, baseline, candidate) is Outcome.LOST


# who is asked again, and which observation shows what


@pytest.mark.parametrize(
    ("baseline", "candidate", "again"),
    [
        (True, False, True),
        (False, True, True),
        (True, True, False),
        (False, False, False),
        (None, True, False),
        (False, None, False),
        (None, None, False),
    ],
)
def test_a_question_is_asked_again_when_its_first_observations_make_it_lost_or_gained(
    baseline: bool | None, candidate: bool | None, again: bool
) -> None:
    assert differ(first_baseline=baseline, first_candidate=candidate) is again


def test_the_first_observation_that_shows_it_is_found() -> None:
    observed = asked("q1", ["!", 7, 4, 2], [9, 3])
    assert first_where(observed, Side.BASELINE, _QUERY, inside=True) is observed.baseline[2]
    assert first_where(observed, Side.BASELINE, _QUERY, inside=False) is observed.baseline[1]
    assert first_where(observed, Side.CANDIDATE, _QUERY, inside=True) is observed.candidate[1]
    assert first_where(asked("q1", [1], ["!"]), Side.CANDIDATE, _QUERY, inside=False) is None


# causes


@pytest.mark.parametrize(
    ("hit", "missing", "expected"),
    [
        (Hit(rank=6, key="k", parent="d1"), (), Cause.RANKED_OUT),
        (Hit(rank=5, key="k", parent="d1"), (), None),
        (None, (), Cause.NOT_RETRIEVED),
        (None, ("d1",), Cause.DOCUMENT_MISSING),
        (None, ("other",), Cause.NOT_RETRIEVED),
    ],
)
def test_an_answer_is_somewhere(hit: Hit | None, missing: tuple[str, ...], expected: Cause | None) -> None:
    observed = asked("q1", [1], [None], missing=Missing(candidate=missing))
    assert place(observed, ("d1",), hit, _QUERY) is expected


def test_an_answer_below_the_cut_off_is_said_to_be() -> None:
    hit = Hit(rank=1, key="k", parent="d1", score=0.4)
    assert place(asked("q1", [1], [1]), ("d1",), hit, QuerySettings(min_score=0.5)) is Cause.BELOW_CUT_OFF


def test_an_alternative_that_is_left_was_not_found_rather_than_missing() -> None:
    missing = Missing(candidate=("d1",))
    observed = asked("q1", [1], [None], missing=missing, answers=("d1", "d2"))
    assert place(observed, ("d1", "d2"), None, _QUERY) is Cause.NOT_RETRIEVED
