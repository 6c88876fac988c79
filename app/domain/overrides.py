"""Clearing a failed run by a named decision. The verdict stays FAIL."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from app.domain.errors import Fault, InputError
from app.domain.reasons import Code, Reason, Verdict, verdict
from app.domain.review import Signature, text_faults, written
from app.domain.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideDraft:
    """What is overridden: everything that the failing reasons name, why, and what will watch for it."""

    reason: str
    questions: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    watch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Override(OverrideDraft):
    """An override that was given."""

    id: str
    run: str
    by: str | None = None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ToName:
    """What an override of a run must name, in the order of its reasons; each once."""

    questions: tuple[str, ...]
    documents: tuple[str, ...]


def to_name(run: Run) -> ToName:
    """The questions and documents that the failing reasons name."""
    failing = [reason for reason in run.reasons if _fails(reason)]
    return ToName(
        questions=tuple(dict.fromkeys(name for reason in failing for name in reason.questions)),
        documents=tuple(dict.fromkeys(name for reason in failing for name in reason.documents)),
    )


def never(run: Run) -> str | None:
    """Why the run cannot be overridden at all; None where it can.

    A reason that alone would be an ERROR stands in the way too: were the failing ones overridden, the run
    would be one that could not be measured.
    """
    match run.verdict:
        case None:
            return "The run is not decided yet: there is nothing to override."
        case Verdict.PASS:
            return "The run passed: there is nothing to override."
        case Verdict.ERROR:
            return "The run is an ERROR, which is never overridden: nothing was measured. Run it again."
    if any(reason.code is Code.FORBIDDEN_HIT for reason in run.reasons):
        return "The candidate shows forbidden documents (forbidden-hit), which is never overridden."
    unmeasured = [reason.code.value for reason in run.reasons if not _fails(reason)]
    if unmeasured:
        return (
            f"The run is also an ERROR ({', '.join(unmeasured)}), which is never overridden: part of it was "
            "not measured. Run it again."
        )
    return None


def overridden(draft: OverrideDraft, run: Run, signature: Signature) -> Override:
    """The override, signed. InputError with everything that is missing from it, by name."""
    reason, watch = written(draft.reason), written(draft.watch)
    refusal = never(run)
    found = [refusal] if refusal else list(_faults(run, draft, reason, watch))
    if found or reason is None or watch is None:
        raise InputError([Fault(where="request", message=message) for message in found])
    return Override(
        reason=reason,
        questions=tuple(dict.fromkeys(draft.questions)),
        documents=tuple(dict.fromkeys(draft.documents)),
        watch=watch,
        id=signature.id,
        run=run.id,
        by=signature.by,
        at=signature.at,
    )


def waived(run: Run, overrides: Iterable[Override]) -> Override | None:
    """The latest override that clears the run: it is shown as WAIVED, with name and reason. None: not cleared.

    Each is judged again, so that a kept one never clears more than could be overridden.
    """
    if never(run):
        return None
    clearing = (
        each
        for each in overrides
        if each.run == run.id and not any(_faults(run, each, written(each.reason), written(each.watch)))
    )
    return max(clearing, key=lambda each: (each.at, each.id), default=None)


def _faults(run: Run, draft: OverrideDraft, reason: str | None, watch: str | None) -> Iterator[str]:
    if reason is None:
        yield "reason: is required"
    if watch is None:
        yield "watch: is required: what will watch for these after the cut-over"
    yield from text_faults(reason=reason, watch=watch)
    named = to_name(run)
    questions, documents = dict.fromkeys(draft.questions), dict.fromkeys(draft.documents)
    for question in named.questions:
        if question not in questions:
            codes = [reason.code.value for reason in run.reasons if question in reason.questions]
            yield f"questions: {question!r} is missing, named by {', '.join(codes)}"
    for document in named.documents:
        if document not in documents:
            codes = [reason.code.value for reason in run.reasons if document in reason.documents]
            yield f"documents: {document!r} is missing, named by {', '.join(codes)}"
    lost = {*named.questions, *(flip.id for flip in run.lost)}
    for question in questions:
        if question not in lost:
            yield f"questions: {question!r} is named by no failing reason and was not lost"
    warned = {*named.documents, *(document for check in run.checks for document in check.documents)}
    for document in documents:
        if document not in warned:
            yield f"documents: {document!r} is named by no failing reason and no check"


def _fails(reason: Reason) -> bool:
    return verdict((reason,)) is Verdict.FAIL
