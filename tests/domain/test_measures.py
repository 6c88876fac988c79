"""The measures by hand, question by question and over a set. Context size 5 unless said otherwise."""

from collections.abc import Iterable
from dataclasses import replace
from math import log2
from typing import Any

import pytest
from pydantic import TypeAdapter

from app.domain.decision import result
from app.domain.measures import (
    GatheredMeasures,
    Measures,
    PairedMean,
    QuestionMeasures,
    SideMeasures,
    TopScores,
    overlap,
    question_measures,
    rank_biased_overlap,
)
from app.domain.observation import Hit, Observation, answer_rank
from app.domain.outcome import Missing, Observed, QuestionResult
from app.domain.query import Queries, QuerySettings
from tests.domain.making import asked, broken, chunks, erring, gained, hit, kept, lost, stale, unlabelled

QUERY = QuerySettings(context_size=5)
QUERIES = Queries(baseline=QUERY, candidate=QUERY)
PLAIN = QuerySettings(context_size=5, semantic=False)


def showing(question: Observed, hits: Iterable[Hit], elapsed_ms: float = 10.0) -> Observation:
    hits = tuple(hits)
    return Observation(rank=answer_rank(question, hits), elapsed_ms=elapsed_ms, attempts=1, hits=hits)


def question(baseline: Iterable[Hit], candidate: Iterable[Hit], *, name: str = "q", **keys: Any) -> Observed:
    """A question, answered by a unless `keys` say otherwise, with one observation of these hits on each side."""
    bare = Observed(id=name, question="what?", **{"answers": ("a",), **keys})
    return replace(bare, baseline=(showing(bare, baseline),), candidate=(showing(bare, candidate),))


def judged(each: Observed, queries: Queries = QUERIES) -> QuestionResult:
    return result(each, queries)


def measured(each: Observed, queries: Queries = QUERIES) -> QuestionMeasures:
    found = question_measures(judged(each, queries), queries)
    assert found is not None
    return found


def baseline(hits: Iterable[Hit], query: QuerySettings = QUERY, **keys: Any) -> SideMeasures:
    """What the baseline's list measures."""
    return measured(question(hits, (), **keys), Queries(baseline=query, candidate=query)).baseline


def gathered(*questions: Observed, queries: Queries = QUERIES) -> Measures:
    measures = GatheredMeasures()
    for each in questions:
        measures.add(judged(each, queries), queries)
    return measures.summary()


# one side


def test_a_parent_counts_once_at_the_rank_of_its_first_chunk_and_ranks_keep_their_gaps() -> None:
    found = baseline(chunks("x", "x", "a", "a", "b"), answers=("a", "b", "c"))
    assert found.success == 1
    assert found.recall == pytest.approx(2 / 3)
    assert found.reciprocal_rank == pytest.approx(1 / 3)
    best = 1 + 1 / log2(3) + 1 / log2(4)
    assert found.ndcg == pytest.approx((1 / log2(4) + 1 / log2(6)) / best)
    assert found.context_precision == pytest.approx(3 / 5)
    assert found.distinct_parents == 3


def test_only_chunks_within_the_context_count() -> None:
    found = baseline(chunks("x", "y", "z", "x", "y", "a"))
    assert (found.success, found.recall, found.reciprocal_rank, found.ndcg) == (0, 0, 0, 0)
    assert (found.context_precision, found.distinct_parents) == (0, 3)


def test_chunks_below_the_cut_off_are_not_in_the_context() -> None:
    hits = (hit(1, "x", reranker=3), hit(2, "b", reranker=2), hit(3, "a", reranker=1))
    query = QuerySettings(context_size=5, min_reranker_score=2)
    found = baseline(hits, query, answers=("a", "b"))
    assert found.recall == 0.5
    assert found.context_precision == 0.5  # x and b are left
    assert found.distinct_parents == 2


def test_a_chunk_without_a_parent_takes_a_rank_and_is_no_document() -> None:
    found = baseline(chunks(None, "a"))
    assert found.reciprocal_rank == 0.5
    assert found.context_precision == 0.5
    assert found.distinct_parents == 1


def test_an_empty_list_measures_nothing_but_zeros() -> None:
    found = baseline(())
    assert (found.success, found.recall, found.reciprocal_rank, found.ndcg) == (0, 0, 0, 0)
    assert (found.context_precision, found.distinct_parents) == (0, 0)


def test_precision_is_a_share_of_the_chunks_that_are_there() -> None:
    assert baseline(chunks("a", "x")).context_precision == 0.5


def test_documents_that_are_in_neither_index_are_not_wanted() -> None:
    missing = Missing(baseline=("gone", "here"), candidate=("gone",))
    found = baseline(chunks("a"), answers=("a", "gone", "here"), missing=missing)
    assert found.recall == 0.5  # of a and here


# require_all


def all_of(*entries: str | tuple[str, ...]) -> dict[str, Any]:
    return {"answers": entries, "require_all": True}


def test_an_entry_counts_once_whichever_alternatives_are_there() -> None:
    found = baseline(chunks("a", "a2", "x"), **all_of(("a", "a2"), "b"))
    assert found.success == 0
    assert found.recall == 0.5
    assert found.reciprocal_rank == 0  # not all is there
    assert found.ndcg == pytest.approx(1 / (1 + 1 / log2(3)))
    assert found.context_precision == pytest.approx(2 / 3)


def test_the_reciprocal_rank_is_that_of_the_last_entry() -> None:
    found = baseline(chunks("a", "x", "x", "b"), **all_of(("a", "a2"), "b"))
    assert (found.success, found.recall) == (1, 1)
    assert found.reciprocal_rank == 0.25
    assert found.ndcg == pytest.approx((1 + 1 / log2(5)) / (1 + 1 / log2(3)))


def test_a_document_that_satisfies_two_entries_is_one_gain() -> None:
    found = baseline(chunks("ab", "x"), **all_of(("a", "ab"), ("b", "ab")))
    assert (found.success, found.recall, found.reciprocal_rank, found.ndcg) == (1, 1, 1, 1)


# before the ranker


def test_before_the_ranker_the_same_candidates_stand_by_score() -> None:
    ranked = tuple(hit(rank, f"x{rank}", score=0.02, reranker=3) for rank in range(1, 6))
    hits = (*ranked, hit(6, "a", score=0.03, reranker=1))
    found = baseline(hits)
    assert (found.success, found.success_before_ranker) == (0, 1)


def test_ties_before_the_ranker_stand_as_the_service_had_them() -> None:
    hits = tuple(hit(rank, "a" if rank == 6 else "x", score=0.02, reranker=3) for rank in range(1, 7))
    assert baseline(hits).success_before_ranker == 0


def test_before_the_ranker_its_cut_off_does_not_apply_and_the_other_does() -> None:
    hits = (hit(1, "a", score=0.02, reranker=1),)
    assert baseline(hits, QuerySettings(min_reranker_score=2)).success_before_ranker == 1
    assert baseline(hits, QuerySettings(min_score=0.03)).success_before_ranker == 0


def test_without_a_score_nothing_is_said_of_the_order_before_the_ranker() -> None:
    assert baseline((hit(1, "a", score=0.02), hit(2, "x"))).success_before_ranker is None


def test_without_the_ranker_on_either_side_there_is_no_order_before_it() -> None:
    assert baseline((hit(1, "a", score=0.02),), PLAIN).success_before_ranker is None


def test_on_a_side_without_the_ranker_the_order_before_it_is_the_order() -> None:
    queries = Queries(baseline=PLAIN, candidate=QUERY)
    found = measured(question(chunks("a"), (hit(1, "a", score=1, reranker=2),)), queries)
    assert (found.baseline.success_before_ranker, found.candidate.success_before_ranker) == (1, 1)


# two lists


def test_overlap_is_the_share_of_the_larger_set() -> None:
    assert overlap("abc", "cad") == pytest.approx(2 / 3)
    assert overlap("ab", "abcd") == 0.5
    assert overlap("", "a") == 0
    assert overlap("", "") == 1


def test_rank_biased_overlap_of_the_papers_lists() -> None:
    # Webber et al. 2010, figure 5: agreement 0, 0, 2/3, 2/4, 2/5, 2/6, 2/7; equation 32 with p = 0.9
    agreement = [0, 0, 2 / 3, 2 / 4, 2 / 5, 2 / 6, 2 / 7]
    summed = sum(each * 0.9**depth for depth, each in enumerate(agreement, start=1))
    expected = 0.1 / 0.9 * summed + 2 / 7 * 0.9**7
    assert rank_biased_overlap("abcdefg", "zcavwxy") == pytest.approx(expected)


def test_rank_biased_overlap_of_a_published_example() -> None:
    # https://github.com/b4ny4n/rankmeasures: RBO.eval(List(1,2,3,4,5), List(2,3,4,1,5), 0.9) = 0.828
    assert rank_biased_overlap("12345", "23415") == pytest.approx(0.828, abs=0.0005)


def test_rank_biased_overlap_of_uneven_lists() -> None:
    # by equation 32: l = 3, s = 1; X = 0, 1, 1 at depths 1 to 3
    p = 0.9
    summed = 1 / 2 * p**2 + 1 / 3 * p**3  # X_s = 0, so nothing is assumed beyond s
    expected = (1 - p) / p * summed + (1 - 0) / 3 * p**3
    assert rank_biased_overlap("b", "abc") == pytest.approx(expected)
    # X = 1, 1, 2 at depths 1 to 3; s = 2, X_s = 1
    summed = p + 1 / 2 * p**2 + 2 / 3 * p**3 + 1 * (3 - 2) / (3 * 2) * p**3
    expected = (1 - p) / p * summed + ((2 - 1) / 3 + 1 / 2) * p**3
    assert rank_biased_overlap("ab", "acb") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("", "", 1), ("a", "", 0), ("ab", "cd", 0), ("abc", "abc", 1), ("a", "ab", 1)],
)
def test_rank_biased_overlap_at_its_ends(first: str, second: str, expected: float) -> None:
    assert rank_biased_overlap(first, second) == pytest.approx(expected, abs=1e-15)


def test_the_two_sides_are_compared_by_their_ranked_parents() -> None:
    found = measured(question(chunks("a", "a", "b", "c"), chunks("a", "b", "b", "d")))
    assert found.overlap == pytest.approx(2 / 3)
    assert found.rank_biased_overlap == pytest.approx(rank_biased_overlap("abc", "abd"))


# over a set


def test_only_evaluated_questions_are_measured() -> None:
    for each in (unlabelled("u"), stale("s"), erring("e")):
        assert question_measures(judged(each), QUERIES) is None
    assert gathered(kept("k"), lost("l"), unlabelled("u"), stale("s"), erring("e")).overall.questions == 2


def test_means_are_paired_differences() -> None:
    overall = gathered(kept("k"), lost("l"), lost("m"), gained("g")).overall
    # answer ranks 1, 2, 2, 6 against 1, 6, 6, 2
    assert overall.success == PairedMean(n=4, baseline=0.75, candidate=0.5, difference=-0.25)
    assert overall.reciprocal_rank.baseline == pytest.approx((1 + 1 / 2 + 1 / 2) / 4)
    assert overall.reciprocal_rank.difference == pytest.approx((0 - 1 / 2 - 1 / 2 + 1 / 2) / 4)
    assert overall.success_before_ranker.n == 0  # no scores


def test_the_first_observation_is_the_one_that_is_measured() -> None:
    overall = gathered(asked("n", [1, 9], [9, 1])).overall
    assert (overall.success.baseline, overall.success.candidate) == (1, 0)


def test_a_question_counts_in_each_of_its_slices_once() -> None:
    found = gathered(kept("k", slice=("table", "lookup", "table")), lost("l", slice=("table",)), gained("g"))
    assert [(each.name, each.questions) for each in found.slices] == [("lookup", 1), ("table", 2)]
    assert found.slices[1].success.difference == -0.5


def test_a_slice_of_unlabelled_questions_has_no_means() -> None:
    found = gathered(unlabelled("u", slice=("no-answer",)))
    assert found.slices[0].questions == 0
    assert found.slices[0].success == PairedMean(n=0, baseline=None, candidate=None, difference=None)
    assert found.slices[0].overlap.mean is None


def test_an_empty_set_has_no_means() -> None:
    found = gathered()
    assert found.overall.ndcg.n == found.overall.elapsed_ms.n == 0
    assert found.overall.elapsed_ms.baseline_p95 is None


def timed(name: str, before: float, after: float) -> Observed:
    each = kept(name)
    return replace(
        each,
        baseline=(replace(each.baseline[0], elapsed_ms=before),),
        candidate=(replace(each.candidate[0], elapsed_ms=after),),
    )


def test_elapsed_shows_median_and_nearest_rank_percentile() -> None:
    times = gathered(*(timed(f"q{n}", n, 2 * n) for n in range(1, 41))).overall.elapsed_ms
    assert times.n == 40
    assert (times.baseline_median, times.candidate_median, times.median_difference) == (20.5, 41, 20.5)
    assert (times.baseline_p95, times.candidate_p95) == (38, 76)  # 38 of 40 are 95 %


def test_elapsed_is_of_questions_that_both_sides_answered() -> None:
    half = replace(kept("half"), candidate=(broken(),))
    never = replace(kept("never"), candidate=())
    assert gathered(timed("q", 1, 3), unlabelled("u"), half, never).overall.elapsed_ms.n == 2


def test_kept_questions_whose_context_changed_are_churned() -> None:
    half = question(chunks("a", "b"), chunks("a", "c"), name="half")
    third = question(chunks("a", "b", "c"), chunks("a", "d", "e"), name="third")
    gone = question(chunks("a", "b", "c"), chunks("d", "e", "f"), name="gone")  # lost, not kept
    assert gathered(half, third, gone).churned == ("third",)


def test_unlabelled_questions_show_their_top_reranker_scores() -> None:
    risen = question(
        (hit(1, "x", reranker=1.5), hit(2, "y", reranker=1)),
        (hit(1, "x", reranker=2.5),),
        name="risen",
        answers=(),
    )
    silent = question((hit(1, "x", reranker=2),), (), name="silent", answers=())
    off = question(chunks("x"), chunks("x"), name="off", answers=())
    found = gathered(risen, silent, off, question((hit(1, "a", reranker=4),), ()))
    assert found.unlabelled == (
        TopScores(id="risen", baseline=1.5, candidate=2.5),
        TopScores(id="silent", baseline=2, candidate=None),
    )
    assert found.unlabelled_score == PairedMean(n=1, baseline=1.5, candidate=2.5, difference=1)


def test_the_summary_goes_through_json_unchanged() -> None:
    found = gathered(kept("k", slice=("table",)), lost("l"), unlabelled("u"))
    adapter = TypeAdapter(Measures)
    assert adapter.validate_json(adapter.dump_json(found)) == found
