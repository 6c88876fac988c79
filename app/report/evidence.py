"""What a reader is shown of one question: ranks before and after, where the answer went, what took its place.

Plain text and values; whoever shows them escapes them there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from app.domain import causes, legs
from app.domain.golden import Question
from app.domain.newcomers import Newcomer, Newcomers
from app.domain.observation import Failure, Hit, Observation, context, entry_hits, in_context
from app.domain.outcome import Cause, Observed, Outcome, QuestionResult, first_where, observations, place
from app.domain.query import Queries, QuerySettings, Side
from app.domain.run import Flip, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The pair of observations that a report shows; None where a side was never asked."""

    before: Observation | None
    after: Observation | None


def shown(result: QuestionResult, queries: Queries) -> Shown:
    """The first observations that show the flip; where there is none, the first of each side."""
    gained = result.outcome is Outcome.GAINED
    before = first_where(result, Side.BASELINE, queries.baseline, inside=not gained)
    after = first_where(result, Side.CANDIDATE, queries.candidate, inside=gained)
    return Shown(
        before=before or next(iter(result.baseline), None),
        after=after or next(iter(result.candidate), None),
    )


def moved(result: Observed, queries: Queries) -> str:
    """The answer rank in every observation of both sides: `3, 5 → 6, 6`."""
    before = ranks(result, Side.BASELINE, queries.baseline)
    return f"{before} → {ranks(result, Side.CANDIDATE, queries.candidate)}"


def ranks(result: Observed, side: Side, query: QuerySettings) -> str:
    """The answer rank in every observation of one side."""
    seen = observations(result, side)
    return ", ".join(_rank(result, each, query) for each in seen) if seen else "not asked"


def _rank(result: Observed, seen: Observation, query: QuerySettings) -> str:
    if seen.error is not None:
        return "error"
    if seen.rank is None:
        return "none"
    below = seen.rank <= query.context_size and not in_context(result, seen, query)
    return f"{seen.rank} (below cut-off)" if below else str(seen.rank)


def where_it_went(
    result: Observed, after: Observation | None, query: QuerySettings, returned: int | None
) -> str:
    """Where each answer is in the candidate that is not in its context, in words; empty where that was not measured.
    `returned`: how many chunks came back, None where not known.
    """
    if after is None or after.error is not None:
        return ""
    found = zip(result.entries, entry_hits(result.entries, after.hits), strict=True)
    told = {entry: _where(result, entry, hit, query, returned) for entry, hit in found}
    if len(told) == 1:
        return "".join(told.values())
    return "; ".join(f"{' or '.join(entry)}: {where}" for entry, where in told.items() if where)


def _where(
    result: Observed, entry: tuple[str, ...], hit: Hit | None, query: QuerySettings, returned: int | None
) -> str:
    rank = hit.rank if hit is not None else None
    of = f" of {returned}" if returned is not None else ""
    match place(result, entry, hit, query):
        case Cause.DOCUMENT_MISSING:
            return "not in the candidate index"
        case Cause.FILTERED_OUT:
            return "hidden by the question's filter"
        case Cause.BELOW_CUT_OFF:
            return f"at {rank}{of}, but below the score cut-off"
        case Cause.NOT_RETRIEVED:
            return (
                "not among the chunks that came back"
                if returned is None
                else f"not among the {returned} chunks that came back"
            )
        case Cause.RANKED_OUT:
            return f"at {rank}{of}, and the context ends at {query.context_size}"
        case None:
            return ""
        case unreachable:
            assert_never(unreachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Why a question is lost, in words. `cause`: its code, empty where none is known; `why`: what the evidence
    says of it, further causes that hold, and which leg of the query lost it; `taken`: what took its place;
    `returned`: chunks of the candidate, None where not known.
    """

    cause: str
    why: tuple[str, ...]
    taken: str
    returned: int | None


_NO_TITLES: Mapping[str, str] = {}


def loss(flip: Flip, run: Run, known: Mapping[str, str] = _NO_TITLES) -> Loss:
    """The loss of a question of the run's lost list; `known` are titles of documents, where they may be told."""
    told, new = [], flip.took_its_place
    if flip.cause is not None and flip.evidence is not None:
        told.append(causes.sentence(flip.cause, flip.evidence))
    if flip.also:
        told.append(f"Also: {', '.join(flip.also)}.")
    told.extend(legs.sentence(probe, run.query) for probe in run.legs if probe.id == flip.id)
    return Loss(
        cause=flip.cause or "",
        why=tuple(told),
        taken=_taken(new, known),
        returned=new.returned if new else None,
    )


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses of a run by its questions."""

    _run: Run
    _lost: Mapping[str, Flip]

    @classmethod
    def of_run(cls, run: Run) -> "Losses":
        return cls(run, {flip.id: flip for flip in run.lost})

    def of(self, result: QuestionResult) -> Loss | None:
        """None: the question is not lost."""
        if not result.critical_lost and result.outcome is not Outcome.LOST:
            return None
        kept = self._lost.get(result.id)
        if kept is None:  # not decided yet
            return Loss(cause="", why=(), taken="", returned=None)
        return loss(kept, self._run, titles(shown(result, self._run.query)))


def in_reach(seen: Observation | None, query: QuerySettings) -> tuple[Hit, ...]:
    """The chunks of an observation's context."""
    return context(seen.hits, query) if seen is not None else ()


_ALONE = Question(id="alone", question="alone", answers=("alone",))


def dropped(hit: Hit, query: QuerySettings) -> bool:
    """Whether a chunk of the context is below the cut-offs: alone and wanted, it would not be in context."""
    seen = Observation(rank=None, elapsed_ms=0, attempts=1, hits=(replace(hit, parent="alone"),))
    return not in_context(_ALONE, seen, query)


def _taken(new: Newcomers | None, known: Mapping[str, str]) -> str:
    """What took the answer's place; empty where that was not kept."""
    if new is None:
        return ""
    if not new.first:
        return "nothing new" if new.returned else "nothing: the candidate returned no chunks"
    more = (f"and {new.more} more",) if new.more else ()
    named = (_label(each, known.get(each.parent or "")) for each in new.first)
    return "; ".join((*named, *more))


def label(hit: Hit) -> str:
    """Title and parent document of a chunk."""
    return _label(hit, hit.title)


def _label(chunk: Hit | Newcomer, title: str | None) -> str:
    name = chunk.parent if chunk.parent is not None else f"chunk {chunk.key} without a parent document"
    return f"{title} ({name})" if title and title != chunk.parent else name


def forbidden_places(result: Observed, side: Side) -> str:
    """The forbidden documents that the side showed, each with its best rank; empty where it showed none."""
    best: dict[str, int] = {}
    for hit in (hit for seen in observations(result, side) for hit in seen.hits):
        if hit.parent in result.forbidden:
            best[hit.parent] = min(hit.rank, best.get(hit.parent, hit.rank))
    return ", ".join(f"{document} at {rank}" for document, rank in best.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One entry of the labels: any one of `documents` answers it, by id and title (the id where none is known).
    Ranks are its first chunk's.
    """

    documents: tuple[tuple[str, str], ...]
    before: int | None
    after: int | None


def expected(result: Observed, pair: Shown) -> tuple[Expected, ...]:
    """The label's entries with where each stood in the shown observations."""
    before = _entry_ranks(result, pair.before)
    after = _entry_ranks(result, pair.after)
    known = titles(pair)
    return tuple(
        Expected(documents=tuple((name, known.get(name, name)) for name in entry), before=first, after=then)
        for entry, first, then in zip(result.entries, before, after, strict=True)
    )


def titles(pair: Shown) -> dict[str, str]:
    """The titles of the documents that the observations show, the candidate's where both have one."""
    shown_hits = (hit for seen in (pair.before, pair.after) if seen is not None for hit in seen.hits[::-1])
    return {hit.parent: hit.title for hit in shown_hits if hit.parent is not None and hit.title}


def _entry_ranks(result: Observed, seen: Observation | None) -> tuple[int | None, ...]:
    found = entry_hits(result.entries, seen.hits if seen else ())
    return tuple(hit.rank if hit is not None else None for hit in found)


def expected_in_words(result: Observed) -> str:
    """The labels as one line: alternatives joined by "or", entries that must all be there by "and"."""
    return " and ".join(" or ".join(entry) for entry in result.entries) or "no label"


def failures(result: Observed) -> Iterator[str]:
    """Every different reason why an observation of the question failed, with its side."""
    for side in Side:
        seen = observations(result, side)
        if not seen:
            yield f"{side}: not asked"
        errors = [each.error for each in seen if each.error is not None]
        for error in dict.fromkeys(errors):
            yield f"{side}: {_failure(error, errors.count(error), len(seen))}"


def _failure(error: Failure, times: int, of: int) -> str:
    often = f" ({times} of {of} observations)" if of > 1 else ""
    return f"{error.code}{often}: {error.message}"


def stale_in_words(result: QuestionResult) -> str:
    """Which labels are in neither index, and what that means for the question."""
    gone = ", ".join(name for name in result.labelled_documents if name in result.missing.in_both)
    if result.outcome is Outcome.STALE:
        return f"label not in either index: {gone}; the question cannot be evaluated"
    return f"label not in either index: {gone}; judged by the documents that are left"


def owner(result: Observed, run: Run) -> str:
    """Who decides on the question's label."""
    return result.owner or run.golden_set.owner or "unknown"
