"""The noise floor, the watch list and what probes say. Context size 5, so that the boundary is ranks 5 and 6."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from app.domain.decision import result
from app.domain.noise import (
    GatheredNoise,
    Movement,
    Noise,
    ProbeResult,
    Variant,
    WatchReason,
    boundary,
    consistent_with,
    same_context,
    source,
)
from app.domain.observation import Observation
from app.domain.outcome import Observed
from app.domain.query import Queries, QuerySettings
from tests.domain.making import (
    absent,
    asked,
    at,
    broken,
    chunks,
    erring,
    gained,
    hit,
    kept,
    lost,
    stale,
    unlabelled,
)

RANKED = QuerySettings(context_size=5)
PLAIN = QuerySettings(context_size=5, semantic=False)
QUERIES = Queries(baseline=RANKED, candidate=RANKED)


def gathered(*questions: Observed, queries: Queries = QUERIES) -> Noise:
    noise = GatheredNoise()
    for each in questions:
        noise.add(result(each, queries), queries)
    return noise.summary()


def scoring(last_in: float, first_out: float) -> Observation:
    """The answer at rank 1, and these scores at ranks 5 and 6, as reranker scores and a tenth of them as scores."""
    hits = (
        hit(1, "d1"),
        hit(5, "x", reranker=last_in, score=last_in / 10),
        hit(6, "y", reranker=first_out, score=first_out / 10),
    )
    return Observation(rank=1, elapsed_ms=1.0, attempts=1, hits=hits)


def scored(
    name: str, baseline: list[tuple[float, float]], candidate: tuple[float, float] = (2.0, 1.0)
) -> Observed:
    """A kept question with these scores at the boundary of each observation."""
    return replace(
        kept(name), baseline=tuple(scoring(*each) for each in baseline), candidate=(scoring(*candidate),)
    )


STILL = (2.0, 1.0)


# the noise floor


def test_the_floor_compares_the_first_baseline_observation_with_each_further_one() -> None:
    noise = gathered(asked("n", [5, 6, 2], [5]), asked("k", [1, 1, 1], [3]))
    floor = noise.baseline
    assert (floor.pairs, floor.flips, floor.flip_share) == (4, 1, 0.25)
    assert (floor.ranked, floor.rank_movement) == (4, 1)  # 1, 3, 0, 0


def test_beside_it_stands_the_first_of_the_baseline_against_the_first_of_the_candidate() -> None:
    noise = gathered(lost("l"), asked("n", [5, 6], [5, 6]), asked("k", [1, 1], [3]))
    change = noise.candidate
    assert (change.pairs, change.flips) == (3, 1)
    assert (change.ranked, change.rank_movement) == (3, 2)  # 2 to 6, 5 to 5, 1 to 3


def test_an_answer_that_appears_or_vanishes_has_no_distance() -> None:
    noise = gathered(asked("n", [5, None], [None]), absent("a"))
    assert (noise.baseline.pairs, noise.baseline.ranked, noise.baseline.appeared) == (2, 0, 1)
    assert noise.baseline.rank_movement is None
    assert (noise.candidate.appeared, noise.candidate.flips) == (1, 1)


def test_only_evaluated_questions_are_compared() -> None:
    assert gathered(unlabelled("u"), stale("s"), erring("e")).candidate.pairs == 0


def test_without_further_observations_there_is_no_floor() -> None:
    noise = gathered(asked("k", [5], [5]))
    assert noise.baseline == Movement(
        pairs=0,
        flips=0,
        flip_share=None,
        ranked=0,
        rank_movement=None,
        appeared=0,
        scored=0,
        score_movement=None,
        median_score_movement=None,
    )


def test_the_boundary_has_reranker_scores_or_else_scores() -> None:
    seen = scoring(2.0, 1.5)
    ranked, plain = boundary(seen, RANKED), boundary(seen, PLAIN)
    assert ranked is not None
    assert plain is not None
    assert (ranked.last_in, ranked.first_out, ranked.gap) == (2.0, 1.5, 0.5)
    assert (plain.last_in, plain.first_out) == pytest.approx((0.2, 0.15))


def test_a_short_or_unscored_answer_has_no_boundary() -> None:
    assert boundary(at(5), RANKED) is None
    assert boundary(replace(at(1), hits=chunks(*"abcdef")), RANKED) is None


def test_scores_at_the_boundary_move_by_the_larger_of_both_ranks() -> None:
    noise = gathered(
        scored("a", [(2.0, 1.0), (2.25, 1.5)]),  # moved by 0.5
        scored("b", [(2.0, 1.0), (1.75, 1.0)]),  # 0.25
        scored("c", [(2.0, 1.0), (2.0, 1.0)], candidate=(3.0, 1.0)),  # 0, and 1 to the candidate
    )
    assert (noise.baseline.scored, noise.baseline.score_movement) == (3, 0.25)
    assert noise.baseline.median_score_movement == 0.25
    assert noise.candidate.score_movement == pytest.approx(1 / 3)


def test_scores_of_different_kinds_are_not_compared() -> None:
    noise = gathered(scored("a", [STILL, STILL]), queries=Queries(baseline=PLAIN, candidate=RANKED))
    assert (noise.baseline.scored, noise.candidate.scored) == (1, 0)


# the watch list


@pytest.mark.parametrize(
    ("baseline", "candidate", "near"),
    [
        ([3, 3], [3], False),
        ([4, 4], [1], True),
        ([1, 1], [5], True),
        ([6, 6], [None], True),
        ([7, 7], [None], False),
        ([1, 5], [1], True),
        ([None, None], [None], False),
    ],
)
def test_an_answer_rank_within_one_of_the_context_size_is_watched(
    baseline: list[int | None], candidate: list[int | None], near: bool
) -> None:
    watch = gathered(asked("q", baseline, candidate)).watch
    assert [each.reasons for each in watch] == ([(WatchReason.NEAR_RANK,)] if near else [])
    for each in watch:
        assert (each.baseline_ranks, each.candidate_ranks) == (tuple(baseline), tuple(candidate))


def test_each_side_is_measured_by_its_own_context_size() -> None:
    queries = Queries(baseline=QuerySettings(context_size=5), candidate=QuerySettings(context_size=10))
    assert gathered(asked("q", [1, 1], [9]), queries=queries).watch
    assert not gathered(asked("q", [1, 1], [5]), queries=queries).watch


def test_lost_and_gained_questions_are_not_watched() -> None:
    assert gathered(asked("l", [5, 5], [6, 6]), gained("g")).watch == ()


def test_noisy_questions_are_watched_too() -> None:
    assert [each.id for each in gathered(asked("n", [5, 6], [5])).watch] == ["n"]


def test_scores_nearer_than_they_move_are_watched() -> None:
    noise = gathered(
        scored("moves", [(2.0, 1.75), (2.5, 1.75)]),  # a gap of 0.25, moved by 0.5
        scored("steady", [STILL, STILL]),
        scored("quiet", [STILL, STILL]),
    )
    assert noise.baseline.median_score_movement == 0
    (watched,) = noise.watch
    assert (watched.id, watched.reasons) == ("moves", (WatchReason.NEAR_SCORES,))
    assert (watched.gap, watched.movement) == (0.25, 0.5)


def test_where_a_question_did_not_move_the_sets_median_is_its_measure() -> None:
    noise = gathered(
        scored("a", [STILL, (2.5, 1.0)]),
        scored("b", [STILL, (2.5, 1.0)]),
        scored("near", [(2.0, 1.75), (2.0, 1.75)]),
        scored("near-on-candidate", [STILL, STILL], candidate=(2.0, 1.875)),
        scored("c", [STILL, (2.5, 1.0)]),
    )
    assert [(each.id, each.gap, each.movement) for each in noise.watch] == [
        ("near", 0.25, 0.5),
        ("near-on-candidate", 0.125, 0.5),
    ]


def test_a_gap_as_large_as_the_movement_is_not_nearer() -> None:
    assert gathered(scored("q", [(2.0, 1.5), (2.5, 1.5)])).watch == ()


def test_without_scores_or_further_observations_only_ranks_are_watched() -> None:
    noise = gathered(scored("q", [(2.0, 2.0)]), asked("r", [5], [5]))
    assert [(each.id, each.gap, each.movement) for each in noise.watch] == [("r", None, None)]


def test_the_summary_goes_through_json_unchanged() -> None:
    found = gathered(asked("n", [5, None], [5]), scored("s", [(2.0, 1.75), (2.5, 1.75)]))
    adapter = TypeAdapter(Noise)
    assert adapter.validate_json(adapter.dump_json(found)) == found


# probes


def test_repetitions_with_the_same_chunks_in_order_show_the_same_context() -> None:
    seen = replace(at(1), hits=chunks(*"abcdefg"))
    below = replace(at(1), hits=(*chunks(*"abcde"), hit(9, "z")))
    turned = replace(at(1), hits=tuple(replace(each, key=f"c{each.rank}") for each in chunks(*"bacde")))
    assert same_context([seen, below, seen], RANKED) is True
    assert same_context([seen, turned, seen], RANKED) is False


def test_a_failed_or_single_repetition_says_nothing() -> None:
    assert same_context([at(1), broken(), at(1)], RANKED) is None
    assert same_context([at(1)], RANKED) is None


E, S, R = Variant.EXHAUSTIVE, Variant.ONE_SESSION, Variant.NO_RANKER


@pytest.mark.parametrize(
    ("vanished", "words"),
    [
        ({E}, "approximate vector search"),
        ({S}, "replicas that answer differently"),
        ({R}, "the semantic ranker"),
        ({E, S}, "approximate vector search whose graph differs from replica to replica"),
        (
            {S, R},
            "replicas that answer differently or the semantic ranker, which the probe cannot tell apart",
        ),
    ],
)
def test_noise_is_consistent_with_what_removed_it(vanished: set[Variant], words: str) -> None:
    assert source(frozenset(vanished)) == words


def test_noise_that_nothing_removed_has_another_source() -> None:
    assert source(frozenset()).startswith("something else")


def probe(name: str, *vanished: Variant, unchanged: bool | None = None) -> ProbeResult:
    return ProbeResult(
        id=name,
        exhaustive=E in vanished,
        one_session=S in vanished,
        no_ranker=R in vanished,
        unchanged=unchanged,
    )


def test_the_most_frequent_source_is_named_first_with_its_questions() -> None:
    assert consistent_with([probe("a", R), probe("b", E), probe("c", E)]) == (
        "Probed 3 times in each variant, the noise is consistent in 2 questions (b, c) with approximate vector "
        "search; in 1 question (a) with the semantic ranker."
    )


def test_noise_that_did_not_show_again_says_nothing() -> None:
    steady = probe("a", E, S, R, unchanged=True)
    unasked = ProbeResult(id="b", exhaustive=None, one_session=None, no_ranker=None)
    assert consistent_with([steady, unasked]) == (
        "Of 2 questions nothing can be said: the noise did not show again, or no probe ran."
    )


def test_a_variant_that_does_not_apply_is_no_evidence() -> None:
    keyword = ProbeResult(id="a", exhaustive=None, one_session=True, no_ranker=False, unchanged=False)
    assert "replicas that answer differently" in consistent_with([keyword])


def test_no_probe_is_said_to() -> None:
    assert consistent_with([]) == "No noisy question was probed."
