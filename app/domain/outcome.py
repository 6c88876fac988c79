"""From the observations of one question to exactly one outcome, and whether a critical one was lost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from app.domain.golden import Question
from app.domain.observation import Hit, Observation, in_context, reaches_context, without_text
from app.domain.query import QuerySettings, Side


class Outcome(StrEnum):
    """See the contract's "Words"; a question has exactly one of these."""

    KEPT = "kept"
    ABSENT = "absent"
    LOST = "lost"
    GAINED = "gained"
    NOISY = "noisy"
    UNLABELLED = "unlabelled"
    STALE = "stale"
    ERROR = "error"


EVALUATED = frozenset({Outcome.KEPT, Outcome.ABSENT, Outcome.LOST, Outcome.GAINED, Outcome.NOISY})


class Cause(StrEnum):
    """Why an answer is not in the candidate's context, in the order of precedence; `causes` has the table."""

    DOCUMENT_MISSING = "document-missing"
    FILTERED_OUT = "filtered-out"
    BOUNDARY = "boundary"
    NEAR_DUPLICATE = "near-duplicate"
    RERANKER = "reranker"
    CROWDED_OUT = "crowded-out"
    NOT_RETRIEVED = "not-retrieved"
    RANKED_OUT = "ranked-out"
    BELOW_CUT_OFF = "below-cut-off"


Place = Literal[  # where an answer went, which its own ranks and the label audit tell
    Cause.DOCUMENT_MISSING,
    Cause.FILTERED_OUT,
    Cause.NOT_RETRIEVED,
    Cause.RANKED_OUT,
    Cause.BELOW_CUT_OFF,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Labelled documents that an index does not hold, by side; empty where all are there or none was asked."""

    baseline: tuple[str, ...] = ()
    candidate: tuple[str, ...] = ()

    @property
    def in_both(self) -> frozenset[str]:
        return frozenset(self.baseline) & frozenset(self.candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(Question):
    """A question with all that was seen of it; the unit of evidence that a run stores.

    `filtered_out`: answer documents that an index holds, but not under the question's filter.
    """

    missing: Missing = Missing()
    filtered_out: Missing = Missing()
    baseline: tuple[Observation, ...] = ()
    candidate: tuple[Observation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionResult(Observed):
    """A question with its evidence and what follows from it. Only `Observed` is stored."""

    outcome: Outcome
    critical_lost: bool
    forbidden_hits: tuple[str, ...] = ()


def without_passages(result: QuestionResult) -> QuestionResult:
    """The question for places that its documents' texts are not meant for: no passage, title or quote."""
    return replace(
        result,
        spans=tuple(replace(each, text=None) for each in result.spans),
        baseline=tuple(_without_text(each) for each in result.baseline),
        candidate=tuple(_without_text(each) for each in result.candidate),
    )


def _without_text(seen: Observation) -> Observation:
    return replace(seen, hits=tuple(without_text(hit) for hit in seen.hits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often the answer was in context on one side; failed observations are neither."""

    inside: int
    outside: int
    failed: int

    @property
    def total(self) -> int:
        return self.inside + self.outside + self.failed

    @property
    def always(self) -> bool:
        return self.total > 0 and self.inside == self.total

    @property
    def never(self) -> bool:
        return self.total > 0 and self.outside == self.total


def tally(observed: Observed, side: Side, query: QuerySettings) -> Tally:
    """The side's observations counted by whether the answer was in context."""
    return counted([in_context(observed, each, query) for each in observations(observed, side)])


def counted(seen: Sequence[bool | None]) -> Tally:
    """Observations by whether the answer was in context; None: failed."""
    return Tally(inside=seen.count(True), outside=seen.count(False), failed=seen.count(None))


def observations(observed: Observed, side: Side) -> tuple[Observation, ...]:
    return observed.baseline if side is Side.BASELINE else observed.candidate


def stale(question: Question, missing: Missing) -> bool:
    """Whether the question can never be in context: all documents of some entry are in neither index."""
    gone = missing.in_both
    return any(all(document in gone for document in entry) for entry in question.entries)


def failed(observed: Observed) -> bool:
    """Whether an observation failed, or a side was never asked."""
    sides = (observed.baseline, observed.candidate)
    return any(not side or any(each.error is not None for each in side) for side in sides)


def outcome(observed: Observed, baseline: Tally, candidate: Tally) -> Outcome:
    """The one outcome. Labels decide first: nothing can be said of an unlabelled or a stale question."""
    if not observed.answers:
        return Outcome.UNLABELLED
    if stale(observed, observed.missing):
        return Outcome.STALE
    if failed(observed):
        return Outcome.ERROR
    match (baseline.always, baseline.never, candidate.always, candidate.never):
        case (True, _, True, _):
            return Outcome.KEPT
        case (_, True, _, True):
            return Outcome.ABSENT
        case (True, _, _, True):
            return Outcome.LOST
        case (_, True, True, _):
            return Outcome.GAINED
        case _:
            return Outcome.NOISY


def critical_lost(observed: Observed, baseline: Tally, candidate: Tally) -> bool:
    """Whether a critical question is lost, noise or failures notwithstanding.

    Lost is: in context in every baseline observation and not in every one of the candidate's, or in some
    baseline observation and in none of the candidate's. With failed observations: only where that holds
    for every answer they might have given.
    """
    if not observed.critical or baseline.total == 0 or candidate.total == 0:
        return False
    return all(
        _is_lost(
            baseline.inside + more_baseline,
            baseline.total,
            candidate.inside + more_candidate,
            candidate.total,
        )
        for more_baseline in range(baseline.failed + 1)
        for more_candidate in range(candidate.failed + 1)
    )


def _is_lost(baseline: int, of_baseline: int, candidate: int, of_candidate: int) -> bool:
    return (baseline == of_baseline and candidate < of_candidate) or (baseline > 0 and candidate == 0)


def first_where(observed: Observed, side: Side, query: QuerySettings, *, inside: bool) -> Observation | None:
    """The first observation whose answer was (not) in context; None if there is none."""
    matching = (each for each in observations(observed, side) if in_context(observed, each, query) is inside)
    return next(matching, None)


def place(observed: Observed, entry: tuple[str, ...], hit: Hit | None, query: QuerySettings) -> Place | None:
    """Where one entry of the labels went, `hit` being its first chunk in the candidate; None: into context."""
    if hit is not None:
        if reaches_context(hit, query):
            return None
        return Cause.RANKED_OUT if hit.rank > query.context_size else Cause.BELOW_CUT_OFF
    if set(entry) <= set(observed.missing.candidate):
        return Cause.DOCUMENT_MISSING
    if set(entry) <= {*observed.missing.candidate, *observed.filtered_out.candidate}:
        return Cause.FILTERED_OUT
    return Cause.NOT_RETRIEVED


def differ(*, first_baseline: bool | None, first_candidate: bool | None) -> bool:
    """Whether a question's first observations differ, so that its candidate is asked again."""
    return {first_baseline, first_candidate} == {True, False}
