"""Compare and swap over a place that may not answer: how the name of the live index is read and changed.

A write carries the etag of what was read, so that sending it again is harmless. After an answer that was lost
(no answer, 408, 5xx) the place is read again before anything is sent:

| it names | with | and that is |
| --- | --- | --- |
| our index | another etag than before | success |
| what it named before | the same etag | sent again, as often as the retry table allows |
| anything else | | LiveMovedError, which says that ours may have stood there in between |
| nothing | where there was something | NotFoundError |
| what cannot be read | | LiveUncertainError |

Somebody else's write of the same name at that moment cannot be told from one's own.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from app.adapters.limiter import Limiter
from app.adapters.retries import FailedAttemptError, Retries
from app.domain.errors import (
    FailureCode,
    Fault,
    GateError,
    InputError,
    LiveError,
    LiveLockedError,
    LiveMovedError,
    LiveUncertainError,
    NotFoundError,
    QueryError,
)
from app.domain.index import is_index_name
from app.domain.labels import quoted
from app.gate.ports import LiveValue

K = TypeVar("K")
T = TypeVar("T")

_AT_ONCE = 4  # requests under way
_KEPT_FOR_READING = 1 / 3  # of a write's time, for finding out what became of it


class RefusedAttemptError(FailedAttemptError):
    """A failed attempt that certainly changed nothing: the service said no."""


class PreconditionError(Exception):
    """What is there is not what was read (412)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[K]):
    """What a place names, and its own record of it, to be sent back with all that it holds."""

    value: LiveValue
    record: K


class Place(Protocol[K]):
    """Single requests to one place. FailedAttemptError for the retry table; a LiveError is final."""

    @property
    def where(self) -> str: ...

    async def fetch(self) -> Found[K] | None:
        """None: it is not there."""
        ...

    async def send(self, index: str, before: Found[K] | None) -> LiveValue:
        """Write on the condition that `before` is what is there. PreconditionError if it is not;
        LiveLockedError.
        """
        ...


class Swap(Generic[K]):
    """`read`, `point` and `create` of `LivePointer` over a place."""

    def __init__(self, place: Place[K], retries: Retries) -> None:
        self._place = place
        self._retries = retries
        self._limiter = Limiter(ceiling=_AT_ONCE)

    async def read(self, deadline: float) -> LiveValue | None:
        found = await self._found(deadline)
        return None if found is None else found.value

    async def point(self, index: str, *, etag: str, deadline: float) -> LiveValue:
        _refuse_other_than_index(index)
        before = await self._found(deadline)
        if before is None:
            raise self._gone()
        if before.value.etag != etag:
            raise self._moved(before)
        if before.value.locked:
            raise LiveLockedError(f"The {self._place.where} is locked: unlock it first.")
        return await self._written(index, before, deadline)

    async def create(self, index: str, *, deadline: float) -> LiveValue:
        _refuse_other_than_index(index)
        return await self._written(index, None, deadline)

    async def ask(self, request: Callable[[], Awaitable[T]], deadline: float) -> T:
        """The answer to a request that changes nothing, by the retry table. LiveError if there is none."""
        try:
            return (await self._retries.run(request, deadline=deadline, limiter=self._limiter)).value
        except QueryError as error:
            raise self._unavailable(error) from error

    async def _found(self, deadline: float) -> Found[K] | None:
        return await self.ask(self._place.fetch, deadline)

    async def _written(self, index: str, before: Found[K] | None, deadline: float) -> LiveValue:
        now = self._retries.now()
        write = _Write(self, index, before)
        until = deadline - (deadline - now) * _KEPT_FOR_READING
        try:
            sent = await self._retries.run(write.attempt, deadline=until, limiter=self._limiter)
        except QueryError as error:
            if not write.lost:
                raise self._unavailable(error) from error
            return await self._settled(write, error, deadline)
        except LiveError as error:
            if write.lost:
                raise self._uncertain(error) from error
            raise
        return await self._read_back(sent.value, before, deadline)

    async def _settled(self, write: "_Write[K]", error: QueryError, deadline: float) -> LiveValue:
        """What became of a write whose last answer was lost."""
        try:
            now = await self._found(deadline)
        except LiveError as unreadable:
            raise self._uncertain(unreadable) from unreadable
        value = write.outcome(now)
        if value is None:
            raise LiveError(f"{self._unavailable(error)} What was there before is still there.") from error
        return value

    async def _read_back(self, written: LiveValue, before: Found[K] | None, deadline: float) -> LiveValue:
        """What is there after a write that was answered: the same, or what somebody made of it since."""
        try:
            now = await self._found(deadline)
        except GateError:  # it was answered: that it cannot be read now changes nothing
            return written
        if _etag(now) == _etag(before):
            raise LiveUncertainError(
                f"The {self._place.where} answered that it was changed, and still reads as before: read it again "
                "before anything else."
            )
        return now.value if now is not None and now.value.etag == written.etag else written

    def _unavailable(self, error: QueryError) -> LiveError:
        return LiveError(f"The {self._place.where} cannot be used: {error} (requests: {error.attempts}).")

    def _uncertain(self, error: LiveError) -> LiveUncertainError:
        return LiveUncertainError(
            f"The answer to a change of the {self._place.where} was lost, and what it names now cannot be read: "
            f"it was changed or not. {error}"
        )

    def _gone(self) -> NotFoundError:
        return NotFoundError(f"The {self._place.where} is not there (any more).")

    def _moved(self, now: Found[K], *, lost: bool = False) -> LiveMovedError:
        current = now.value.index
        message = f"The {self._place.where} was changed by somebody else and names {quoted(current)}."
        if lost:
            message += " The answer to the change asked for was lost: it may have stood there in between."
        return LiveMovedError(message, current=current)

    # for a write

    @property
    def place(self) -> Place[K]:
        return self._place

    def conflict(self, now: Found[K] | None, *, lost: bool) -> GateError:
        """What it means that this is there now, and neither what was read nor what was sent."""
        return self._gone() if now is None else self._moved(now, lost=lost)


class _Write(Generic[K]):
    """One change, however often it is sent. `lost`: something was sent of which nobody knows what became."""

    def __init__(self, swap: Swap[K], index: str, before: Found[K] | None) -> None:
        self._swap = swap
        self._index = index
        self._before = before
        self._refused = False
        self.lost = False

    async def attempt(self) -> LiveValue:
        """The value written, in this or in an earlier attempt. GateError as the table in this module says."""
        if self.lost or self._refused:
            value = self.outcome(await self._swap.place.fetch())
            if value is not None:
                return value
        earlier, self.lost = self.lost, True
        try:
            value = await self._swap.place.send(self._index, self._before)
        except (RefusedAttemptError, LiveError, LiveLockedError):
            self.lost = earlier
            raise
        except PreconditionError:
            self.lost, self._refused = earlier, True
            now = self.outcome(await self._swap.place.fetch())
            if now is None:  # as it was, and yet the condition failed
                message = "the precondition failed, and nothing is changed"
                raise RefusedAttemptError(FailureCode.PROTOCOL, message) from None
            return now
        if value.index != self._index:
            raise FailedAttemptError(FailureCode.PROTOCOL, f"{quoted(value.index)} is said to be written")
        return value

    def outcome(self, now: Found[Any] | None) -> LiveValue | None:
        """Ours; None where all is as before. GateError where somebody else was there."""
        if _etag(now) == _etag(self._before):
            return None
        if now is not None and self.lost and now.value.index == self._index:
            return now.value
        raise self._swap.conflict(now, lost=self.lost)


def _etag(found: Found[Any] | None) -> str | None:
    return None if found is None else found.value.etag


def _refuse_other_than_index(name: str) -> None:
    if not is_index_name(name):
        raise InputError([Fault(where="index", message=f"{quoted(name)} is no name of an index")])
