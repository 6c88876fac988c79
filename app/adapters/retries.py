"""The one retry table: which failed requests are sent again, how often and after which pause.

| an attempt fails as | and that is | requests |
| --- | --- | --- |
| throttled | 429, 503 | 4 |
| semantic-partial, semantic-unranked | the semantic ranker gave up, whatever the status | 4 |
| timed-out | no whole answer within the limit of one attempt; 408 | 4 |
| unreachable | no connection, or a dropped one | 4 |
| server-error | 500, 502, 504 and other 5xx | 4 |
| vectorizer-failed | 502 of the index's vectorizer, unless it was refused itself | 4 |
| protocol | an answer that is not what the API promises; a redirect | 2 |
| rejected | 400 and other 4xx | 1 |

401, 402, 403, 404 and the refusals that name a missing field, ranker or vectorizer are raised as
BrokenError and end everything at once, also where they carry a Retry-After.

An observation ends when its n-th request fails as something that allows no more than n. The pause after the
n-th request is drawn evenly from 0 .. min(8, 0.5 * 2^(n-1)) seconds, on top of the service's Retry-After
where it sent one. Nothing is sent, awaited or slept beyond the deadline: a pause that would reach it ends
the observation at once. The SDK's own retries are off, so that 4 is the total.

Each request waits for a turn of its own at the limiter, which learns from how it ended: an answer, or a refusal
(throttled, semantic-partial), or neither.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Generic, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from app.adapters.limiter import HeldBackError, Limiter
from app.adapters.pace import Sent
from app.domain.errors import FailureCode, QueryError

REQUESTS: Mapping[FailureCode, int] = {
    FailureCode.THROTTLED: 4,
    FailureCode.PARTIAL: 4,
    FailureCode.UNRANKED: 4,
    FailureCode.TIMED_OUT: 4,
    FailureCode.UNREACHABLE: 4,
    FailureCode.SERVER_ERROR: 4,
    FailureCode.VECTORIZER: 4,
    FailureCode.PROTOCOL: 2,
    FailureCode.REJECTED: 1,
}
BACKOFF_BASE = 0.5  # seconds
BACKOFF_CAP = 8.0  # seconds

T = TypeVar("T")


class FailedAttemptError(Exception):
    """One request that failed in a way the table knows. `retry_after`: seconds that the service asks for."""

    def __init__(
        self,
        code: FailureCode,
        message: str,
        *,
        retry_after: float = 0.0,
        throttled: bool = False,
    ) -> None:
        self.code = code
        self.retry_after = retry_after
        self.throttled = throttled
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried(Generic[T]):
    """What the last attempt gave, its wall time, the requests sent, how many were answered 429 or 503, and how
    many requests were under way with the last.
    """

    value: T
    elapsed_ms: float
    attempts: int
    throttled: int
    at_once: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Runs attempts by the table. `attempt_seconds` limits one attempt, its whole body included.

    `clock` is the one that deadlines are on (None: the running loop's), `jitter` gives numbers in 0 .. 1.
    """

    attempt_seconds: float
    clock: Callable[[], float] | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def now(self) -> float:
        return self.clock() if self.clock is not None else asyncio.get_running_loop().time()

    async def run(
        self, attempt: Callable[[], Awaitable[T]], *, deadline: float, limiter: Limiter, telling: bool = False
    ) -> Tried[T]:
        """The value of the first attempt that succeeds; QueryError when the table or the deadline ends it.

        `telling`: the time of its answers says how busy the service is. Any other exception of an attempt
        passes through.
        """
        return await _Trial(self, attempt, deadline, limiter, telling=telling).run()


_NEVER_SENT = "the deadline passed before anything was sent"
_HELD_BACK = "the service is too busy, and asks to wait until after the deadline"
_REFUSALS = (FailureCode.THROTTLED, FailureCode.PARTIAL)


class _Trial(Generic[T]):
    """The attempts for one value."""

    def __init__(
        self,
        retries: Retries,
        attempt: Callable[[], Awaitable[T]],
        deadline: float,
        limiter: Limiter,
        *,
        telling: bool,
    ) -> None:
        self._retries = retries
        self._attempt = attempt
        self._deadline = deadline
        self._limiter = limiter
        self._telling = telling
        self._failed: FailedAttemptError | None = None
        self._sent = 0
        self._throttled = 0

    async def run(self) -> Tried[T]:
        retrying = AsyncRetrying(
            sleep=self._retries.sleep,
            retry=retry_if_exception_type(FailedAttemptError),
            wait=self._pause,
            stop=self._is_over,
            reraise=True,
        )
        try:
            return await retrying(self._in_turn)
        except FailedAttemptError as failed:
            raise self._ended(failed.code, str(failed)) from failed

    def _ended(self, code: FailureCode, message: str) -> QueryError:
        return QueryError(code, message, attempts=self._sent, throttled=self._throttled)

    async def _in_turn(self) -> Tried[T]:
        sent = await self._turn()
        told = False
        try:
            tried = await self._timed_attempt(sent)
            if self._telling:
                self._limiter.answered(sent)
                told = True
        except FailedAttemptError as failed:
            self._failed = failed
            if failed.code in _REFUSALS:
                self._limiter.refused(sent, failed.retry_after)
                told = True
            raise
        finally:
            if not told:
                self._limiter.left()
        return tried

    async def _turn(self) -> Sent:
        """A turn at the limiter. Where there is none before the deadline, the last failure stands."""
        try:
            return await self._limiter.enter(self._deadline - self._retries.now())
        except (TimeoutError, HeldBackError) as error:
            if self._failed is not None:
                raise self._ended(self._failed.code, str(self._failed)) from None
            held = isinstance(error, HeldBackError)
            code = FailureCode.THROTTLED if held else FailureCode.TIMED_OUT
            raise self._ended(code, _HELD_BACK if held else _NEVER_SENT) from None

    async def _timed_attempt(self, sent: Sent) -> Tried[T]:
        started = self._retries.now()
        seconds = min(self._retries.attempt_seconds, self._deadline - started)
        self._sent += 1
        try:
            async with asyncio.timeout(seconds):
                value = await self._attempt()
        except FailedAttemptError as failed:
            self._throttled += failed.throttled
            raise
        except TimeoutError:
            # raised below, outside: the context of this exception would keep the answer half read
            pass
        else:
            elapsed = self._retries.now() - started
            return Tried(
                value=value,
                elapsed_ms=elapsed * 1000,
                attempts=self._sent,
                throttled=self._throttled,
                at_once=sent.place,
            )
        message = f"no complete answer within {seconds:.3g} s"
        raise FailedAttemptError(FailureCode.TIMED_OUT, message)

    def _pause(self, state: RetryCallState) -> float:
        failed = _failure(state)
        most: float = min(BACKOFF_CAP, BACKOFF_BASE * 2 ** (state.attempt_number - 1))
        return failed.retry_after + self._retries.jitter() * most

    def _is_over(self, state: RetryCallState) -> bool:
        if state.attempt_number >= REQUESTS[_failure(state).code]:
            return True
        return self._retries.now() + state.upcoming_sleep >= self._deadline


def _failure(state: RetryCallState) -> FailedAttemptError:
    error = state.outcome.exception() if state.outcome is not None else None
    if not isinstance(error, FailedAttemptError):
        raise TypeError("only failed attempts are tried again") from error
    return error


def retry_after(headers: Mapping[str, str], *, wall_clock: Callable[[], float] = time.time) -> float:
    """Seconds that the service asks to wait; 0 where it asks for nothing, or for nothing that makes sense.

    `headers` is read without regard to case. The headers in milliseconds are Azure's, and exact, so they win.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = _seconds(lowered.get(name))
        if milliseconds is not None:
            return milliseconds / 1000
    value = lowered.get("retry-after")
    seconds = _seconds(value)
    if seconds is not None or value is None:
        return seconds or 0.0
    try:
        at = parsedate_to_datetime(value).timestamp()
    except ValueError:
        return 0.0
    return max(0.0, at - wall_clock())


def _seconds(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return max(0.0, number) if number is not None and isfinite(number) else None
