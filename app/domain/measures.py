"""How well each side ranks the answers, and how far the two rankings agree.

Measured is the first observation of each side, at that side's context depth (`context_size`). The words:

- **context**: the chunks of rank 1 to `context_size` that are not below the side's score cut-offs;
- **ranked parents**: the parent documents of the context's chunks, each once, at the rank of its first chunk
  there. Ranks keep their gaps: chunks of the parents a, a, b give a rank 1 and b rank 3, as in the context
  that the model reads. A chunk without a parent document takes a rank and adds no parent;
- **wanted**: what should be found. A plain question wants each of its labelled documents, a question with
  `require_all` each of its entries, found at the rank of the first of its alternatives. Documents that are in
  neither index are not wanted.

No measure is above 1, except counts of documents and milliseconds.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import Any

from app.domain.observation import Hit, Observation, in_context, reaches_context
from app.domain.outcome import EVALUATED, Observed, Outcome, QuestionResult, observations
from app.domain.query import Queries, QuerySettings, Side

PERSISTENCE = (
    0.9  # p of rank-biased overlap: the first ten ranks carry 86 % of its weight (Webber et al. 2010)
)
CHURNED_BELOW = 0.5  # overlap of parents under which a kept question counts as churned


# one question


@dataclass(frozen=True, slots=True, kw_only=True)
class SideMeasures:
    """One question on one side, each measure 0..1 unless it says otherwise.

    success: 1 if the question is in context as the outcome has it, else 0. Without `require_all` this is
        Success@k, with it every entry must be there.
    recall: found of wanted (R@k of the labelled documents; with `require_all` of the entries, where one that
        any alternative satisfies counts once).
    reciprocal_rank: 1 / answer rank if in context, else 0 (Voorhees 1999, TREC-8 question answering). With
        `require_all` the answer rank is the rank at which the last entry is found.
    ndcg: binary gains, discounted by log2(1 + rank) (Järvelin & Kekäläinen 2002), against the best list of the
        same depth. With `require_all` an entry gains once, at its first alternative, and entries that one
        document satisfies together are one gain.
    context_precision: share of the context's chunks whose parent is a labelled document; 0 for an empty
        context. This is P@n of the chunks, n being how many there are.
    distinct_parents: parent documents in the context, 0..context_size.
    success_before_ranker: `success` with the same candidates by `@search.score` from high to low, ties as the
        service had them, and without the cut-off on the reranker's score: what the semantic ranker was given
        (with hybrid queries, the order of reciprocal rank fusion). Candidates that the ranker pushed out of the
        list are not seen. On a side without the ranker it is `success`. None where no side uses the ranker,
        or a score is missing.
    """

    success: float
    recall: float
    reciprocal_rank: float
    ndcg: float
    context_precision: float
    distinct_parents: int
    success_before_ranker: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionMeasures:
    """One question on both sides, and how far their ranked parents agree (0..1, symmetric)."""

    baseline: SideMeasures
    candidate: SideMeasures
    overlap: float
    rank_biased_overlap: float


def question_measures(result: QuestionResult, queries: Queries) -> QuestionMeasures | None:
    """The measures of an evaluated question; None for every other."""
    if result.outcome not in EVALUATED:
        return None
    ranker = queries.baseline.semantic or queries.candidate.semantic
    baseline, candidate = result.baseline[0], result.candidate[0]
    there = tuple(parent_ranks(context(baseline, queries.baseline)))
    here = tuple(parent_ranks(context(candidate, queries.candidate)))
    return QuestionMeasures(
        baseline=side_measures(result, baseline, queries.baseline, ranker=ranker),
        candidate=side_measures(result, candidate, queries.candidate, ranker=ranker),
        overlap=overlap(there, here),
        rank_biased_overlap=rank_biased_overlap(there, here),
    )


def side_measures(
    observed: Observed, seen: Observation, query: QuerySettings, *, ranker: bool
) -> SideMeasures:
    """The measures of one answer to a labelled question; `ranker`: a side of the comparison uses the ranker."""
    chunks = context(seen, query)
    parents = parent_ranks(chunks)
    found = found_ranks(observed, parents)
    success = in_context(observed, seen, query) is True
    return SideMeasures(
        success=float(success),
        recall=_share(sum(rank is not None for rank in found), len(found)),
        reciprocal_rank=1 / seen.rank if success and seen.rank else 0.0,
        ndcg=_ndcg(found, query.context_size),
        context_precision=_share(
            sum(chunk.parent in observed.labelled_documents for chunk in chunks), len(chunks)
        ),
        distinct_parents=len(parents),
        success_before_ranker=_before_ranker(observed, seen, query) if ranker else None,
    )


def context(seen: Observation, query: QuerySettings) -> tuple[Hit, ...]:
    """The chunks that the application sends to the model, in rank order."""
    return tuple(hit for hit in seen.hits if reaches_context(hit, query))


def parent_ranks(chunks: Iterable[Hit]) -> dict[str, int]:
    """The ranked parents: each parent document once, in rank order, with the rank of its first chunk."""
    ranks: dict[str, int] = {}
    for chunk in chunks:
        if chunk.parent is not None:
            ranks.setdefault(chunk.parent, chunk.rank)
    return ranks


def wanted(observed: Observed) -> tuple[tuple[str, ...], ...]:
    """What should be found, each by any one of its documents, without those that are in neither index."""
    gone = observed.missing.in_both
    if not observed.require_all:
        return tuple((document,) for document in observed.labelled_documents if document not in gone)
    return tuple(tuple(document for document in entry if document not in gone) for entry in observed.entries)


def found_ranks(observed: Observed, parents: Mapping[str, int]) -> tuple[int | None, ...]:
    """For each wanted thing the smallest rank of its documents, None where none is among the parents."""
    return tuple(
        min((parents[document] for document in each if document in parents), default=None)
        for each in wanted(observed)
    )


def _ndcg(found: Sequence[int | None], depth: int) -> float:
    """Things found at one rank are one gain, so that the best list has no more gains than ranks."""
    gains = {rank for rank in found if rank is not None}
    possible = len(gains) + sum(rank is None for rank in found)
    return _share(_discounted(gains), _discounted(range(1, min(possible, depth) + 1)))


def _discounted(ranks: Iterable[int]) -> float:
    return math.fsum(1 / math.log2(1 + rank) for rank in ranks)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _before_ranker(observed: Observed, seen: Observation, query: QuerySettings) -> float | None:
    if not query.semantic:
        return float(in_context(observed, seen, query) is True)
    scored = [(hit.score, hit.rank, hit.parent) for hit in seen.hits if hit.score is not None]
    if len(scored) < len(seen.hits):
        return None
    scored.sort(key=lambda each: (-each[0], each[1]))
    parents = {parent for score, _, parent in scored[: query.context_size] if score >= query.min_score}
    return float(all(not parents.isdisjoint(entry) for entry in observed.entries))


def overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """Share of the larger set of parents that the other side shows too: |A ∩ B| / max(|A|, |B|), whatever the
    order. 1 for two empty lists, which show the same.
    """
    larger = max(len(first), len(second))
    return len(set(first) & set(second)) / larger if larger else 1.0


def rank_biased_overlap(first: Sequence[str], second: Sequence[str], p: float = PERSISTENCE) -> float:
    """Extrapolated rank-biased overlap of two lists without repetitions, 0..1 (Webber, Moffat & Zobel 2010,
    "A similarity measure for indefinite rankings", ACM TOIS 28(4), equation 32, for lists of uneven length).

    Agreement at the top weighs more than below. 1 for identical lists, and for a list that only goes on where
    the other ends; 0 where nothing is shared, or only one list is empty.
    """
    shorter, longer = sorted((first, second), key=len)
    if not shorter or first == second:
        return float(len(shorter) == len(longer))
    size, depth = len(shorter), len(longer)
    common = tuple(_common(shorter, longer))
    shared, shared_early = common[-1], common[size - 1]
    agreed = math.fsum(count / at * p**at for at, count in enumerate(common, start=1))
    assumed = math.fsum(shared_early * (at - size) / (size * at) * p**at for at in range(size + 1, depth + 1))
    tail = ((shared - shared_early) / depth + shared_early / size) * p**depth
    return min(1.0, (1 - p) / p * (agreed + assumed) + tail)


def _common(shorter: Sequence[str], longer: Sequence[str]) -> Iterator[int]:
    """How many items the two lists share in their first 1, 2, 3 … places, to the end of the longer one."""
    once: set[str] = set()
    twice = 0
    for at, item in enumerate(longer):
        for each in (item, *islice(shorter, at, at + 1)):
            twice += each in once
            once.add(each)
        yield twice


# all questions


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedMean:
    """Means over the same `n` questions on both sides; `difference` is candidate minus baseline, so that above
    0 is more on the candidate. None where n is 0.
    """

    n: int
    baseline: float | None
    candidate: float | None
    difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean over `n` questions; None where n is 0."""

    n: int
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed:
    """Wall time of a query in milliseconds, over the `n` questions, labelled or not, that both sides answered
    at the first observation. `p95` is the nearest-rank 95th percentile: the least time that at least 95 % of
    the queries did not exceed. `median_difference` is the median of candidate minus baseline, question by
    question. None where n is 0.
    """

    n: int
    baseline_median: float | None
    candidate_median: float | None
    median_difference: float | None
    baseline_p95: float | None
    candidate_p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeasures:
    """The measures of a group of questions, each as `SideMeasures` and `QuestionMeasures` define it.

    `questions` is how many of them were evaluated; only those count, except in `elapsed_ms`. Means are 0..1
    (differences -1..1), of `distinct_parents` a number of documents. `success_before_ranker` is over the
    questions for which both sides have it, so its n may be smaller.
    """

    questions: int
    success: PairedMean
    recall: PairedMean
    reciprocal_rank: PairedMean
    ndcg: PairedMean
    context_precision: PairedMean
    distinct_parents: PairedMean
    success_before_ranker: PairedMean
    overlap: Mean
    rank_biased_overlap: Mean
    elapsed_ms: Elapsed


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMeasures(GroupMeasures):
    """The measures of one slice. A question of several slices counts in each."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopScores:
    """An unlabelled question's highest reranker score (0..4) at the first observation of each side; None where
    that side gave none. A rise tempts an application to answer what it should decline.
    """

    id: str
    baseline: float | None
    candidate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The run record's `measures`.

    overall, slices: means over evaluated questions, slices by name.
    churned: ids of kept questions whose `overlap` is under 0.5, in the order of the set: the answer is still
        there, and most of what stands around it is new.
    unlabelled: the top reranker scores of unlabelled questions, where a side gave one, in the order of the set.
    unlabelled_score: their means (0..4), over those with a score on both sides.
    """

    overall: GroupMeasures
    slices: tuple[SliceMeasures, ...]
    churned: tuple[str, ...]
    unlabelled: tuple[TopScores, ...]
    unlabelled_score: PairedMean


@dataclass(slots=True)
class _Pairs:
    """Numbers of both sides, question by question. Kept, not summed, so that the order makes no difference."""

    baseline: "array[float]" = field(default_factory=lambda: array("d"))
    candidate: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, baseline: float | None, candidate: float | None) -> None:
        """Where a side has no number, there is no pair."""
        if baseline is not None and candidate is not None:
            self.baseline.append(baseline)
            self.candidate.append(candidate)

    def differences(self) -> list[float]:
        return [after - before for before, after in zip(self.baseline, self.candidate, strict=True)]

    def mean(self) -> PairedMean:
        return PairedMean(
            n=len(self.baseline),
            baseline=_mean(self.baseline),
            candidate=_mean(self.candidate),
            difference=_mean(self.differences()),
        )

    def elapsed(self) -> Elapsed:
        return Elapsed(
            n=len(self.baseline),
            baseline_median=_median(self.baseline),
            candidate_median=_median(self.candidate),
            median_difference=_median(self.differences()),
            baseline_p95=_p95(self.baseline),
            candidate_p95=_p95(self.candidate),
        )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _p95(values: Sequence[float]) -> float | None:
    """The nearest-rank percentile: the value at place ⌈0.95 n⌉ from below."""
    return sorted(values)[(95 * len(values) + 99) // 100 - 1] if values else None


_PAIRED = (
    "success",
    "recall",
    "reciprocal_rank",
    "ndcg",
    "context_precision",
    "distinct_parents",
    "success_before_ranker",
)
_BETWEEN = ("overlap", "rank_biased_overlap")


@dataclass(slots=True)
class _Group:
    """The numbers of a group of questions."""

    questions: int = 0
    paired: dict[str, _Pairs] = field(default_factory=lambda: {name: _Pairs() for name in _PAIRED})
    between: "dict[str, array[float]]" = field(
        default_factory=lambda: {name: array("d") for name in _BETWEEN}
    )
    times: _Pairs = field(default_factory=_Pairs)

    def add(self, measured: QuestionMeasures | None, elapsed: tuple[float, float] | None) -> None:
        if elapsed is not None:
            self.times.add(*elapsed)
        if measured is None:
            return
        self.questions += 1
        for name, pairs in self.paired.items():
            pairs.add(getattr(measured.baseline, name), getattr(measured.candidate, name))
        for name, values in self.between.items():
            values.append(getattr(measured, name))

    def summary(self) -> dict[str, Any]:
        """The fields of `GroupMeasures`."""
        return {
            "questions": self.questions,
            **{name: pairs.mean() for name, pairs in self.paired.items()},
            **{name: Mean(n=len(values), mean=_mean(values)) for name, values in self.between.items()},
            "elapsed_ms": self.times.elapsed(),
        }


@dataclass(slots=True)
class GatheredMeasures:
    """Gathers the measures, question by question; of each it keeps numbers and at most its id."""

    _overall: _Group = field(default_factory=_Group)
    _slices: dict[str, _Group] = field(default_factory=dict)
    _churned: list[str] = field(default_factory=list)
    _unlabelled: list[TopScores] = field(default_factory=list)

    def add(self, result: QuestionResult, queries: Queries) -> None:
        measured = question_measures(result, queries)
        elapsed = _elapsed(result)
        groups = [self._overall, *(self._slices.setdefault(name, _Group()) for name in set(result.slice))]
        for group in groups:
            group.add(measured, elapsed)
        if measured and result.outcome is Outcome.KEPT and measured.overlap < CHURNED_BELOW:
            self._churned.append(result.id)
        if result.outcome is Outcome.UNLABELLED:
            self._add_unlabelled(result)

    def _add_unlabelled(self, result: QuestionResult) -> None:
        scores = TopScores(
            id=result.id,
            baseline=_top_score(result, Side.BASELINE),
            candidate=_top_score(result, Side.CANDIDATE),
        )
        if scores.baseline is not None or scores.candidate is not None:
            self._unlabelled.append(scores)

    def summary(self) -> Measures:
        scores = _Pairs()
        for each in self._unlabelled:
            scores.add(each.baseline, each.candidate)
        return Measures(
            overall=GroupMeasures(**self._overall.summary()),
            slices=tuple(
                SliceMeasures(name=name, **group.summary()) for name, group in sorted(self._slices.items())
            ),
            churned=tuple(self._churned),
            unlabelled=tuple(self._unlabelled),
            unlabelled_score=scores.mean(),
        )


def _elapsed(result: QuestionResult) -> tuple[float, float] | None:
    """Milliseconds of the first observation of each side; None where one failed or was not made."""
    first = [observations(result, side)[:1] for side in Side]
    times = [each.elapsed_ms for side in first for each in side if each.error is None]
    return (times[0], times[1]) if len(times) == len(first) else None


def _top_score(result: QuestionResult, side: Side) -> float | None:
    first = observations(result, side)[:1]
    return max(
        (hit.reranker_score for seen in first for hit in seen.hits if hit.reranker_score is not None),
        default=None,
    )
