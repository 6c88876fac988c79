"""How far an index differs from itself, which questions stand on the edge, and where the noise may come from.

The noise floor compares the first observation of the baseline with its further ones: the same index, the same
query. What the candidate does beyond that floor is the change's doing. Compared are evaluated questions only.
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import assert_never

from app.domain.observation import Observation, in_context
from app.domain.outcome import EVALUATED, Outcome, QuestionResult
from app.domain.query import Queries, QuerySettings

NEAR = 1  # ranks between an answer and the end of the context that put its question on the watch list
PROBE_REPETITIONS = 3  # how often each variant is asked


# one pair of observations


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The scores of the last chunk that fits into the context and of the first that does not: of ranks
    `context_size` and `context_size` + 1. Reranker scores (0..4), or `@search.score` where the ranker is off.
    """

    last_in: float
    first_out: float

    @property
    def gap(self) -> float:
        """How far apart the two are, at least 0."""
        return abs(self.last_in - self.first_out)

    def moved(self, other: "Boundary") -> float:
        """How far the score of either rank moved, whichever moved more; at least 0."""
        return max(abs(self.last_in - other.last_in), abs(self.first_out - other.first_out))


def boundary(seen: Observation, query: QuerySettings) -> Boundary | None:
    """The boundary of an answer; None where it has no such ranks, or they have no score."""
    size = query.context_size
    scores = {
        hit.rank: hit.reranker_score if query.semantic else hit.score
        for hit in seen.hits
        if size <= hit.rank <= size + 1
    }
    last_in, first_out = scores.get(size), scores.get(size + 1)
    if last_in is None or first_out is None:
        return None
    return Boundary(last_in=last_in, first_out=first_out)


# all questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """How far two observations of the same question lie apart, over pairs of observations.

    pairs: pairs compared. flips: of them, those with the answer in context in one and not in the other;
        flip_share: flips / pairs, 0..1.
    ranked: pairs with an answer rank in both; rank_movement: the mean absolute difference of these ranks.
        appeared: pairs with an answer rank in one only, for which no distance can be given.
    scored: pairs with scores at the boundary in both, of the same kind; score_movement: the mean of
        `Boundary.moved` over them, median_score_movement: its median, both in units of that score.

    None where there is no such pair.
    """

    pairs: int
    flips: int
    flip_share: float | None
    ranked: int
    rank_movement: float | None
    appeared: int
    scored: int
    score_movement: float | None
    median_score_movement: float | None


class WatchReason(StrEnum):
    NEAR_RANK = "near-rank"
    NEAR_SCORES = "near-scores"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A kept, absent or noisy question that a small change may flip.

    reasons: `near-rank`, an answer rank of either side is `context_size` or one beside it; `near-scores`, the
        scores at the boundary of either side's first observation are nearer to each other (`gap`) than scores
        move by themselves (`movement`).
    baseline_ranks, candidate_ranks: the answer rank in each observation, None where it was not a candidate.
    gap: the smaller of both sides' gaps, at least 0. movement: the most that this question's scores at the
        boundary moved between the baseline's first and a further observation, or the set's median of that,
        whichever is larger. None where scores are missing.
    """

    id: str
    outcome: Outcome
    reasons: tuple[WatchReason, ...]
    baseline_ranks: tuple[int | None, ...]
    candidate_ranks: tuple[int | None, ...]
    gap: float | None
    movement: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The run record's `noise`.

    baseline: the noise floor, the baseline's first observation against each of its further ones (no pair
        without `noise_runs`). candidate: the baseline's first against the candidate's first.
    watch: the watch list, in the order of the set.
    """

    baseline: Movement
    candidate: Movement
    watch: tuple[Watched, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What an observation comes down to here; `semantic` says which kind of score the boundary has."""

    inside: bool | None
    rank: int | None
    boundary: Boundary | None
    semantic: bool

    def moved(self, other: "_Seen") -> float | None:
        """How far the scores at the boundary moved; None where either has none, or of another kind."""
        if self.boundary is None or other.boundary is None or self.semantic is not other.semantic:
            return None
        return self.boundary.moved(other.boundary)


@dataclass(slots=True)
class _Moved:
    """Pairs of observations, counted. Movements are kept, not summed, so that the order makes no difference."""

    pairs: int = 0
    flips: int = 0
    appeared: int = 0
    ranks: "array[float]" = field(default_factory=lambda: array("d"))
    scores: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, before: _Seen, after: _Seen) -> None:
        self.pairs += 1
        self.flips += before.inside is not after.inside
        if before.rank is not None and after.rank is not None:
            self.ranks.append(abs(before.rank - after.rank))
        else:
            self.appeared += before.rank is not after.rank
        moved = before.moved(after)
        if moved is not None:
            self.scores.append(moved)

    def summary(self) -> Movement:
        return Movement(
            pairs=self.pairs,
            flips=self.flips,
            flip_share=self.flips / self.pairs if self.pairs else None,
            ranked=len(self.ranks),
            rank_movement=_mean(self.ranks),
            appeared=self.appeared,
            scored=len(self.scores),
            score_movement=_mean(self.scores),
            median_score_movement=median(self.scores) if self.scores else None,
        )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Near:
    """A question that may belong on the watch list, which depends on how far scores of the whole set move."""

    id: str
    outcome: Outcome
    near_rank: bool
    baseline_ranks: tuple[int | None, ...]
    candidate_ranks: tuple[int | None, ...]
    gap: float | None
    movement: float | None

    def watched(self, usual: float | None) -> Watched | None:
        """The entry of the watch list, if there is a reason for one; `usual` is the set's median movement."""
        movement = max((each for each in (self.movement, usual) if each is not None), default=None)
        near_scores = self.gap is not None and movement is not None and self.gap < movement
        held = {WatchReason.NEAR_RANK: self.near_rank, WatchReason.NEAR_SCORES: near_scores}
        if not any(held.values()):
            return None
        return Watched(
            id=self.id,
            outcome=self.outcome,
            reasons=tuple(reason for reason, holds in held.items() if holds),
            baseline_ranks=self.baseline_ranks,
            candidate_ranks=self.candidate_ranks,
            gap=self.gap,
            movement=movement,
        )


_WATCHABLE = frozenset({Outcome.KEPT, Outcome.ABSENT, Outcome.NOISY})


@dataclass(slots=True)
class GatheredNoise:
    """Gathers the noise, question by question; of each it keeps a few numbers and the id."""

    _baseline: _Moved = field(default_factory=_Moved)
    _candidate: _Moved = field(default_factory=_Moved)
    _near: list[_Near] = field(default_factory=list)

    def add(self, result: QuestionResult, queries: Queries) -> None:
        if result.outcome not in EVALUATED:
            return
        baseline = [_seen(result, each, queries.baseline) for each in result.baseline]
        candidate = [_seen(result, each, queries.candidate) for each in result.candidate]
        for further in baseline[1:]:
            self._baseline.add(baseline[0], further)
        self._candidate.add(baseline[0], candidate[0])
        if result.outcome in _WATCHABLE:
            self._near.append(_near(result, queries, baseline, candidate))

    def summary(self) -> Noise:
        floor = self._baseline.summary()
        watched = (each.watched(floor.median_score_movement) for each in self._near)
        return Noise(
            baseline=floor,
            candidate=self._candidate.summary(),
            watch=tuple(each for each in watched if each is not None),
        )


def _seen(result: QuestionResult, seen: Observation, query: QuerySettings) -> _Seen:
    return _Seen(
        inside=in_context(result, seen, query),
        rank=seen.rank,
        boundary=boundary(seen, query),
        semantic=query.semantic,
    )


def _near(
    result: QuestionResult, queries: Queries, baseline: Sequence[_Seen], candidate: Sequence[_Seen]
) -> _Near:
    moved = [each for each in map(baseline[0].moved, baseline[1:]) if each is not None]
    gaps = [each.boundary.gap for each in (baseline[0], candidate[0]) if each.boundary is not None]
    return _Near(
        id=result.id,
        outcome=result.outcome,
        near_rank=_any_near(baseline, queries.baseline) or _any_near(candidate, queries.candidate),
        baseline_ranks=tuple(each.rank for each in baseline),
        candidate_ranks=tuple(each.rank for each in candidate),
        gap=min(gaps, default=None),
        movement=max(moved, default=None),
    )


def _any_near(seen: Sequence[_Seen], query: QuerySettings) -> bool:
    return any(each.rank is not None and abs(each.rank - query.context_size) <= NEAR for each in seen)


# where the noise may come from


class Variant(StrEnum):
    """A change of the query that removes one source of noise. `exhaustive`: every vector is compared, none is
    skipped by the graph. `one-session`: one `session_id`, so that one replica answers as far as it can.
    `no-ranker`: the order before the semantic ranker.
    """

    EXHAUSTIVE = "exhaustive"
    ONE_SESSION = "one-session"
    NO_RANKER = "no-ranker"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """Whether a noisy question's noise vanished in each variant: True if all repetitions showed the same
    context, False if not, None if the variant does not apply (no vectors, no ranker) or failed.
    `unchanged` is the same for the query as it is, where that was repeated too: if its noise vanished by
    itself, the variants prove nothing.
    """

    id: str
    exhaustive: bool | None
    one_session: bool | None
    no_ranker: bool | None
    unchanged: bool | None = None

    def vanished(self) -> frozenset[Variant]:
        """The variants in which the noise vanished."""
        found = {
            Variant.EXHAUSTIVE: self.exhaustive,
            Variant.ONE_SESSION: self.one_session,
            Variant.NO_RANKER: self.no_ranker,
        }
        return frozenset(variant for variant, steady in found.items() if steady)

    @property
    def tells(self) -> bool:
        """Whether anything can be said: some variant was asked, and the noise did not vanish by itself."""
        asked = {self.exhaustive, self.one_session, self.no_ranker} != {None}
        return asked and self.unchanged is not True


def same_context(repetitions: Sequence[Observation], query: QuerySettings) -> bool | None:
    """Whether all repetitions of a query show the same chunks in the same order up to `context_size`; None with
    fewer than two, or where one failed.
    """
    if len(repetitions) < 2 or any(each.error is not None for each in repetitions):  # noqa: PLR2004
        return None
    shown = {tuple(hit.key for hit in each.hits if hit.rank <= query.context_size) for each in repetitions}
    return len(shown) == 1


def consistent_with(probes: Sequence[ProbeResult]) -> str:
    """What the noise of the probed questions is consistent with, in a sentence or two of plain text."""
    if not probes:
        return "No noisy question was probed."
    by_source: dict[str, list[str]] = {}
    for probe in probes:
        if probe.tells:
            by_source.setdefault(source(probe.vanished()), []).append(probe.id)
    silent = len(probes) - sum(map(len, by_source.values()))
    parts = [
        f"{_questions(len(ids))} ({', '.join(ids)}) with {name}"
        for name, ids in sorted(by_source.items(), key=lambda each: -len(each[1]))
    ]
    said = []
    if parts:
        said.append(
            f"Probed {PROBE_REPETITIONS} times in each variant, the noise is consistent in {'; in '.join(parts)}."
        )
    if silent:
        said.append(
            f"Of {_questions(silent)} nothing can be said: the noise did not show again, or no probe ran."
        )
    return " ".join(said)


def source(vanished: frozenset[Variant]) -> str:
    """What noise is consistent with that vanished in these variants and in no other."""
    if vanished == {Variant.EXHAUSTIVE, Variant.ONE_SESSION}:
        return "approximate vector search whose graph differs from replica to replica"
    if not vanished:
        return (
            "something else: embeddings that differ from call to call, an index still being written, or ties"
        )
    return " or ".join(_removed_by(variant) for variant in Variant if variant in vanished) + (
        ", which the probe cannot tell apart" if len(vanished) > 1 else ""
    )


def _removed_by(variant: Variant) -> str:
    match variant:
        case Variant.EXHAUSTIVE:
            return "approximate vector search"
        case Variant.ONE_SESSION:
            return "replicas that answer differently"
        case Variant.NO_RANKER:
            return "the semantic ranker"
        case _:
            assert_never(variant)


def _questions(number: int) -> str:
    return "1 question" if number == 1 else f"{number} questions"
