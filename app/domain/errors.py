"""Everything that this program raises on purpose. Adapters translate foreign exceptions into these.

GateError
├── InputError     what was asked for is not usable; carries every fault found
├── NotFoundError  no such run, golden set or document
├── ConflictError  somebody else got there first (create-once, etag, idempotency key, journal position)
│   ├── NotClearedError  a run may not be promoted now; carries the conditions that do not hold
│   ├── UnderWayError    another change of the live index has begun and not ended
│   ├── LiveMovedError   the live index is not the one that was read; nothing was written
│   └── LiveLockedError  the key that names it is locked
├── LiveError      the place that names the live index cannot be read or written now
│   └── LiveUncertainError  a write was sent, and whether it took effect could not be found out
├── StorageError   runs cannot be read or written now
│   └── DamagedError  a document is there, and cannot be understood
├── UnauthenticatedError  nobody is signed in
│   └── TokenError   somebody says to be, with a token that is not good
├── ForbiddenError  who is signed in may not do this
├── DirectoryError  the place that signs people and applications in cannot be asked now
├── QueryError     one observation could not be made; the run goes on
└── BrokenError    the run cannot go on: the reason code says what is broken
"""

from dataclasses import dataclass
from enum import StrEnum

from app.domain.condition import Condition


class GateError(Exception):
    """Base of all of them; the text is for people and names the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with an input: where, and why. `line` is 1-based; None where lines mean nothing."""

    where: str
    line: int | None = None
    message: str

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        return f"{place}: {self.message}"


class InputError(GateError):
    """Input refused as a whole; `faults` lists all that is wrong with it."""

    def __init__(self, faults: list[Fault] | tuple[Fault, ...]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class NotFoundError(GateError):
    """The named thing is not there."""


class ConflictError(GateError):
    """The thing changed, or exists already; nothing was written."""


class NotClearedError(ConflictError):
    """The run may not be promoted now; `conditions` are those that do not hold. Nothing was written."""

    def __init__(self, run_id: str, conditions: tuple[Condition, ...]) -> None:
        self.conditions = conditions
        told = " ".join(condition.message for condition in conditions)
        super().__init__(f"Run {run_id} is not cleared for promotion. {told}")


class UnderWayError(ConflictError):
    """Another change of the live index, or the same one asked before, is under way. Ask again when it has ended."""


class LiveMovedError(ConflictError):
    """The live index was changed in between; `current` is what it is now, None where nothing is named."""

    def __init__(self, message: str, *, current: str | None) -> None:
        self.current = current
        super().__init__(message)


class LiveLockedError(ConflictError):
    """Somebody locked the key that names the live index."""


class LiveError(GateError):
    """The place that names the live index does not answer, refuses, or holds what is no index name."""


class LiveUncertainError(LiveError):
    """A write was sent and its answer lost, and reading afterwards failed as well: either may be true."""


class StorageError(GateError):
    """The place where runs are kept does not answer, or refuses."""


class DamagedError(StorageError):
    """One document holds what cannot be understood; others may be sound."""


class UnauthenticatedError(GateError):
    """Nobody is signed in."""


class TokenError(UnauthenticatedError):
    """A token that is expired, for somebody else, not signed by the tenant …; the text says which."""


class ForbiddenError(GateError):
    """Who is signed in may not do this; the text names the role that is missing."""


class DirectoryError(GateError):
    """The place that signs people and applications in does not answer, or answers what cannot be used."""


class FailureCode(StrEnum):
    """Why one observation could not be made."""

    THROTTLED = "throttled"  # 429, 503
    PARTIAL = "semantic-partial"  # the ranker gave up: 206 or a partial-response reason
    UNRANKED = "semantic-unranked"  # asked for the ranker, no row has its score
    TIMED_OUT = "timed-out"
    UNREACHABLE = "unreachable"  # no connection, or dropped
    SERVER_ERROR = "server-error"  # 500, 502, 504 …
    VECTORIZER = "vectorizer-failed"
    REJECTED = "rejected"  # 400 and other answers that a repetition would not change
    PROTOCOL = "protocol"  # an answer that is not what the API promises


class QueryError(GateError):
    """One observation failed for good.

    `attempts`: requests sent for it (>= 0). `throttled`: how many of them were answered 429 or 503.
    """

    def __init__(self, code: FailureCode, message: str, *, attempts: int = 1, throttled: int = 0) -> None:
        self.code = code
        self.attempts = attempts
        self.throttled = throttled
        super().__init__(message)


class BrokenError(GateError):
    """The run ends here with ERROR. `code` is one of the contract's reason codes (see `reasons.Code`)."""

    def __init__(self, code: str, message: str, *, index: str | None = None) -> None:
        self.code = code
        self.index = index
        super().__init__(message)
