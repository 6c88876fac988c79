"""Why a verdict is what it is: the contract's reason codes, their order, and what each one means for it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """PASS; FAIL: a regression was measured; ERROR: it could not be measured."""

    PASS = "PASS"  # noqa: S105 — a verdict, not a password
    FAIL = "FAIL"
    ERROR = "ERROR"


class Code(StrEnum):
    """In the order in which they decide."""

    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    FORBIDDEN_HIT = "forbidden-hit"
    INDEX_CHANGED = "index-changed"
    CRITICAL_LOST = "critical-lost"
    NOTHING_EVALUATED = "nothing-evaluated"
    TOO_FEW_EVALUATED = "too-few-evaluated"
    QUESTION_ERRORS = "question-errors"
    TOO_NOISY = "too-noisy"
    CRITICAL_STALE = "critical-stale"
    LABELS_UNRESOLVED = "labels-unresolved"
    PARENT_AMBIGUOUS = "parent-ambiguous"
    SAME_INDEX = "same-index"
    INDEX_MISSING = "index-missing"
    INDEX_EMPTY = "index-empty"
    FIELD_MISSING = "field-missing"
    NO_VECTORIZER = "no-vectorizer"
    VECTORIZER_FAILED = "vectorizer-failed"
    SEMANTIC_UNAVAILABLE = "semantic-unavailable"
    ACCESS_CONTROLLED = "access-controlled"
    QUOTA_EXCEEDED = "quota-exceeded"
    UNAUTHORIZED = "unauthorized"
    UNREACHABLE = "unreachable"
    THROTTLED = "throttled"
    TIMED_OUT = "timed-out"
    NOT_EVALUATED = "not-evaluated"
    STORAGE_UNAVAILABLE = "storage-unavailable"
    NET_LOSS = "net-loss"
    SLICE_LOSS = "slice-loss"
    LOST_DOCUMENTS = "lost-documents"
    DESTABILISED = "destabilised"


_FAILS = frozenset(
    {
        Code.FORBIDDEN_HIT,
        Code.CRITICAL_LOST,
        Code.NET_LOSS,
        Code.SLICE_LOSS,
        Code.LOST_DOCUMENTS,
        Code.DESTABILISED,
    }
)
_ORDER = {code: place for place, code in enumerate(Code)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule that holds: what was measured, against which limit, and the setting that sets it.

    `questions` and `documents` are the ids that the rule names, in the golden set's order.
    """

    code: Code
    measured: Any = None
    limit: Any = None
    setting: str | None = None
    questions: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()


def ordered(reasons: list[Reason]) -> tuple[Reason, ...]:
    """The reasons in the order in which they decide."""
    return tuple(sorted(reasons, key=lambda reason: _ORDER[reason.code]))


def verdict(reasons: tuple[Reason, ...]) -> Verdict:
    """The first reason decides; without one it is PASS. `reasons` are ordered."""
    if not reasons:
        return Verdict.PASS
    return Verdict.FAIL if reasons[0].code in _FAILS else Verdict.ERROR
