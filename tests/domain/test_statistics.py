"""What lost and gained prove: reference values of the methods, families, and the sentences."""

import subprocess
import sys
from math import comb, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from app.domain.decision import result
from app.domain.outcome import Observed
from app.domain.query import Queries, QuerySettings
from app.domain.statistics import (
    FEWEST_MOVED,
    GatheredStatistics,
    LossRate,
    Statistics,
    change_interval,
    loss_rate_limit,
    mcnemar_p,
    sentences,
)
from tests.domain.making import absent, asked, erring, gained, kept, lost, noisy, stale, unlabelled

QUERY = QuerySettings(context_size=5)
QUERIES = Queries(baseline=QUERY, candidate=QUERY)


def gathered(*questions: Observed) -> Statistics:
    statistics = GatheredStatistics()
    for each in questions:
        statistics.add(result(each, QUERIES), QUERIES)
    return statistics.summary()


# the methods


def test_mcnemar_equals_a_published_value() -> None:
    # Cavo et al. 2012, 6 against 16 discordant pairs: P = 0.052479 (R package contingencytables, chapter 8)
    assert mcnemar_p(lost=16, gained=6) == pytest.approx(0.052479, abs=5e-7)


@pytest.mark.parametrize(
    ("lost_", "gained_", "expected"),
    [(0, 0, 1), (1, 0, 1), (3, 3, 1), (5, 0, 0.0625), (6, 0, 0.03125), (0, 6, 0.03125), (7, 1, 0.0703125)],
)
def test_mcnemar_by_hand(lost_: int, gained_: int, expected: float) -> None:
    assert mcnemar_p(lost=lost_, gained=gained_) == pytest.approx(expected)


@given(lost_=st.integers(0, 40), gained_=st.integers(0, 40))
def test_mcnemar_is_twice_the_smaller_tail_of_fair_coins(lost_: int, gained_: int) -> None:
    moved = lost_ + gained_
    tail = sum(comb(moved, count) for count in range(min(lost_, gained_) + 1)) / 2**moved
    assert mcnemar_p(lost=lost_, gained=gained_) == pytest.approx(min(1, 2 * tail))
    assert mcnemar_p(lost=lost_, gained=gained_) == mcnemar_p(lost=gained_, gained=lost_)


def test_fewest_moved_is_where_the_exact_test_first_reaches_5_percent() -> None:
    assert mcnemar_p(lost=FEWEST_MOVED, gained=0) < 0.05 < mcnemar_p(lost=FEWEST_MOVED - 1, gained=0)


@pytest.mark.parametrize(
    ("up", "down", "pieces", "low", "high"),
    [
        # Cavo et al. 2012 (59, 6, 16, 80): -0.1240 to -0.0054 (contingencytables, Tango's asymptotic score interval)
        (6, 16, 161, -0.1240, -0.0054),
        # Bentur et al. 2009 (1, 1, 7, 12): -0.517 to -0.026 (Fagerland, Lydersen & Laake 2014)
        (1, 7, 21, -0.517, -0.026),
    ],
)
def test_the_interval_equals_published_examples(
    up: int, down: int, pieces: int, low: float, high: float
) -> None:
    tolerance = 0.00005 if pieces == 161 else 0.0005
    assert change_interval(lost=down, gained=up, pieces=pieces) == pytest.approx((low, high), abs=tolerance)


Z2 = 1.959964**2


@pytest.mark.parametrize("pieces", [1, 5, 20, 1000])
def test_the_interval_has_a_width_where_nothing_moved(pieces: int) -> None:
    # with no discordant pair the score equation solves to z^2 / (n + z^2)
    width = Z2 / (pieces + Z2)
    expected = pytest.approx((-width, width), abs=1e-6)
    assert change_interval(lost=0, gained=0, pieces=pieces) == expected


@pytest.mark.parametrize("pieces", [1, 5, 20])
def test_the_interval_where_everything_was_lost(pieces: int) -> None:
    # with all pairs discordant one way it solves to (n - z^2) / (n + z^2)
    low, high = change_interval(lost=pieces, gained=0, pieces=pieces)
    assert low == -1
    assert high == pytest.approx(-(pieces - Z2) / (pieces + Z2), abs=1e-6)


@given(lost_=st.integers(0, 60), gained_=st.integers(0, 60), rest=st.integers(0, 200))
def test_the_interval_surrounds_the_change_stays_within_1_and_mirrors(
    lost_: int, gained_: int, rest: int
) -> None:
    pieces = max(1, lost_ + gained_ + rest)
    low, high = change_interval(lost=lost_, gained=gained_, pieces=pieces)
    assert -1 <= low <= (gained_ - lost_) / pieces <= high <= 1
    assert low < high
    assert change_interval(lost=gained_, gained=lost_, pieces=pieces) == (-high, -low)


@given(lost_=st.integers(0, 30), gained_=st.integers(0, 30), rest=st.integers(1, 100))
def test_zero_is_outside_the_interval_where_the_score_exceeds_its_quantile(
    lost_: int, gained_: int, rest: int
) -> None:
    # at a difference of 0 Tango's score is McNemar's: (b - c) / sqrt(b + c)
    score = abs(gained_ - lost_) / sqrt(lost_ + gained_) if lost_ + gained_ else 0
    low, high = change_interval(lost=lost_, gained=gained_, pieces=lost_ + gained_ + rest)
    assert (low > 0 or high < 0) == (score > sqrt(Z2))


@pytest.mark.parametrize("pieces", [1, 30, 100, 1000])
def test_the_loss_rate_with_none_lost_is_near_the_rule_of_three(pieces: int) -> None:
    limit = loss_rate_limit(lost=0, pieces=pieces)
    assert limit == pytest.approx(1 - 0.05 ** (1 / pieces))
    assert limit < 3 / pieces
    assert pieces < 30 or limit == pytest.approx(3 / pieces, rel=0.05)


def test_the_loss_rate_is_what_leaves_5_percent_to_so_few_losses() -> None:
    limit = loss_rate_limit(lost=2, pieces=50)
    as_few = sum(comb(50, lost_) * limit**lost_ * (1 - limit) ** (50 - lost_) for lost_ in range(3))
    assert as_few == pytest.approx(0.05)
    assert loss_rate_limit(lost=50, pieces=50) == 1


# gathering


def test_lost_and_gained_are_counted_over_evaluated_questions() -> None:
    found = gathered(
        kept("k"),
        absent("a"),
        lost("l"),
        lost("m"),
        gained("g"),
        noisy("n"),
        unlabelled("u"),
        stale("s"),
        erring("e"),
    ).overall
    assert (found.questions, found.pieces, found.lost, found.gained) == (6, 6, 2, 1)
    assert found.change == pytest.approx(-1 / 6)
    assert (found.low, found.high) == change_interval(lost=2, gained=1, pieces=6)
    assert found.p_value == 1
    assert (found.could_lose, found.could_gain) == (3, 2)  # k, l, m; a, g


def test_a_family_votes_once_by_the_sign_of_its_net() -> None:
    found = gathered(
        lost("a1", family="a"), lost("a2", family="a"), gained("a3", family="a"),  # lost
        gained("b1", family="b"), kept("b2", family="b"),  # gained
        lost("c1", family="c"), gained("c2", family="c"),  # neither
        lost("d"),
    ).overall  # fmt: skip
    assert (found.questions, found.pieces, found.lost, found.gained) == (8, 4, 2, 1)


def test_families_of_slices_vote_with_the_slices_own_questions() -> None:
    found = gathered(lost("a1", family="a", slice=("table",)), gained("a2", family="a", slice=("lookup",)))
    assert [(each.name, each.lost, each.gained) for each in found.slices] == [
        ("lookup", 0, 1),
        ("table", 1, 0),
    ]
    assert (found.overall.lost, found.overall.gained) == (0, 0)


def test_the_loss_rate_is_of_what_the_baseline_always_had() -> None:
    unsteady = asked("u", [1, 1], [1, 9])  # noisy, but not on the baseline
    found = gathered(kept("k"), lost("l"), unsteady, noisy("n"), absent("a"), gained("g")).loss_rate
    assert (found.questions, found.pieces, found.lost) == (3, 3, 1)
    assert found.upper == loss_rate_limit(lost=1, pieces=3)


def test_the_loss_rate_counts_a_family_once_and_as_lost_if_any_of_it_is() -> None:
    found = gathered(
        kept("a1", family="a"), lost("a2", family="a"), gained("a3", family="a"), kept("b1", family="b")
    ).loss_rate
    assert (found.questions, found.pieces, found.lost) == (3, 2, 1)


def test_a_slice_too_small_to_show_anything_is_marked() -> None:
    few = [kept(f"f{n}", slice=("few",)) for n in range(5)]
    enough = [kept(f"e{n}", slice=("enough",)) for n in range(6)]
    mixed = [kept(f"m{n}", slice=("mixed",)) for n in range(5)] + [
        absent(f"x{n}", slice=("mixed",)) for n in range(5)
    ]
    found = {each.name: each for each in gathered(*few, *enough, *mixed).slices}
    assert {name: each.too_small for name, each in found.items()} == {
        "few": True,
        "enough": False,
        "mixed": True,
    }
    assert (found["enough"].shows_loss, found["enough"].shows_gain) == (True, False)


def test_paraphrases_do_not_make_a_slice_large() -> None:
    found = gathered(*(kept(f"q{n}", family="one", slice=("s",)) for n in range(50))).slices[0]
    assert (found.questions, found.could_lose, found.too_small) == (50, 1, True)


def test_nothing_evaluated_says_nothing() -> None:
    found = gathered(unlabelled("u", slice=("no-answer",)))
    assert found.loss_rate == LossRate(questions=0, pieces=0, lost=0, upper=None)
    for change in (found.overall, *found.slices):
        assert (change.change, change.low, change.high, change.p_value) == (None, None, None, None)
        assert change.too_small


def test_the_summary_may_be_made_twice_and_goes_through_json_unchanged() -> None:
    statistics = GatheredStatistics()
    for each in (lost("a1", family="a", slice=("table",)), kept("k"), unlabelled("u", slice=("no-answer",))):
        statistics.add(result(each, QUERIES), QUERIES)
    first = statistics.summary()
    assert statistics.summary() == first
    adapter = TypeAdapter(Statistics)
    assert adapter.validate_json(adapter.dump_json(first)) == first


@given(
    kinds=st.lists(
        st.tuples(st.sampled_from([kept, absent, lost, gained, noisy]), st.sampled_from([None, "a", "b"]))
    ),
    data=st.data(),
)
def test_the_order_of_the_questions_makes_no_difference(
    kinds: list[tuple[Any, str | None]], data: st.DataObject
) -> None:
    questions = [kind(f"q{n}", family=family, slice=("s",)) for n, (kind, family) in enumerate(kinds)]
    assert gathered(*data.draw(st.permutations(questions))) == gathered(*questions)


# in words


def test_the_sentences_of_a_set_without_losses() -> None:
    # 1 - 0.05^(1/118) = 0.0251
    said = sentences(gathered(*(kept(f"k{n}") for n in range(118))))
    assert said == (
        "Of 118 questions, 0 lost and 0 gained: nothing moved.",
        (
            "Of 118 questions that the baseline had in context in every observation, none lost still leaves a "
            "true loss rate of up to 2.5% at 95% confidence, for questions like these."
        ),
    )


def test_the_sentences_of_losses_families_and_slices() -> None:
    questions = [
        *(lost(f"l{n}", slice=("table",)) for n in range(6)),
        kept("k1", family="k", slice=("few",)),
        kept("k2", family="k", slice=("few",)),
    ]
    moved, rate, few, table = sentences(gathered(*questions))
    assert moved == (
        "Of 7 independent questions (8 with paraphrases), 6 lost and 0 gained: "
        "more than chance explains (exact McNemar test, p = 0.031)."
    )
    assert rate.startswith("Of 7 independent questions (8 with paraphrases) that the baseline had")
    assert "6 lost still leaves a true loss rate of up to 99.3%" in rate  # 1 - p^7 = 0.05
    assert few == (
        "Slice few: of 1 independent question (2 with paraphrases), 0 lost and 0 gained, a net change of 0% "
        "(95% interval -79.3% to +79.3%, p = 1.000); too small to show anything: at most 1 could move one way, "
        "and fewer than 6 never reach p < 0.05."
    )
    # (6 - z^2) / (6 + z^2) = 0.219
    assert table == (
        "Slice table: of 6 questions, 6 lost and 0 gained, a net change of -100.0% "
        "(95% interval -100.0% to -21.9%, p = 0.031)."
    )


def test_a_slice_that_can_show_gains_only_is_said_to() -> None:
    questions = [kept("k", slice=("new",)), *(absent(f"a{n}", slice=("new",)) for n in range(6))]
    assert "too small to show a loss: the baseline had only 1 of them" in sentences(gathered(*questions))[2]


def test_the_sentences_where_nothing_was_evaluated() -> None:
    assert sentences(gathered(unlabelled("u", slice=("no-answer",)))) == (
        "No question was evaluated, so nothing can be said of lost against gained.",
        (
            "The baseline had no evaluated question in context in every observation, so nothing can be said of "
            "how much the candidate loses."
        ),
        "Slice no-answer: no question was evaluated, so it shows nothing.",
    )


def test_few_moves_are_too_few_to_tell_from_chance() -> None:
    assert "too few to tell from chance (exact McNemar test, p = 1.000)" in sentences(gathered(lost("l")))[0]


def test_very_small_p_values_are_not_written_out() -> None:
    assert "p < 0.001" in sentences(gathered(*(lost(f"l{n}") for n in range(20))))[0]


def test_scipy_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, app.domain.statistics; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
