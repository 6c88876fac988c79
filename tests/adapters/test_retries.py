"""The retry table on its own, row by row; delays worked by hand."""

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import formatdate

import pytest

from app.adapters.limiter import Limiter
from app.adapters.retries import REQUESTS, FailedAttemptError, Retries, retry_after
from app.domain.errors import BrokenError, FailureCode, QueryError

HALF = 0.5


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def failing(*failures: BaseException) -> Callable[[], Awaitable[str]]:
    """An attempt that fails so, in turn, and then gives "right"."""
    left = list(failures)

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "right"

    return attempt


def failed(code: FailureCode, retry_after: float = 0.0) -> FailedAttemptError:
    return FailedAttemptError(
        code, f"it is {code}", retry_after=retry_after, throttled=code is FailureCode.THROTTLED
    )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def retries(clock: Clock) -> Retries:
    return Retries(attempt_seconds=5, clock=clock, sleep=clock.sleep, jitter=lambda: HALF)


@pytest.fixture
def limiter() -> Limiter:
    return Limiter(ceiling=1)


def test_every_failure_has_its_row_and_none_more_than_four_requests() -> None:
    assert set(REQUESTS) == set(FailureCode)
    assert max(REQUESTS.values()) == 4


@pytest.mark.parametrize(
    ("code", "requests"),
    [
        (FailureCode.THROTTLED, 4),
        (FailureCode.PARTIAL, 4),
        (FailureCode.UNRANKED, 4),
        (FailureCode.TIMED_OUT, 4),
        (FailureCode.UNREACHABLE, 4),
        (FailureCode.SERVER_ERROR, 4),
        (FailureCode.VECTORIZER, 4),
        (FailureCode.PROTOCOL, 2),
        (FailureCode.REJECTED, 1),
    ],
)
async def test_a_lasting_failure_ends_after_the_tables_number_of_requests(
    retries: Retries, limiter: Limiter, code: FailureCode, requests: int
) -> None:
    attempt = failing(*(failed(code) for _ in range(10)))
    with pytest.raises(QueryError) as caught:
        await retries.run(attempt, deadline=2000, limiter=limiter)
    assert caught.value.code is code
    assert caught.value.attempts == requests
    assert caught.value.throttled == (4 if code is FailureCode.THROTTLED else 0)
    assert str(caught.value) == f"it is {code}"


async def test_pauses_double_from_half_a_second_times_the_jitter(
    retries: Retries, clock: Clock, limiter: Limiter
) -> None:
    attempt = failing(*(failed(FailureCode.SERVER_ERROR) for _ in range(3)))
    tried = await retries.run(attempt, deadline=2000, limiter=limiter)
    assert (tried.value, tried.attempts, tried.throttled) == ("right", 4, 0)
    assert clock.slept == [0.25, 0.5, 1.0]


async def test_retry_after_is_the_least_pause_and_jitter_comes_on_top(
    retries: Retries, clock: Clock, limiter: Limiter
) -> None:
    attempt = failing(failed(FailureCode.THROTTLED, 2), failed(FailureCode.THROTTLED))
    tried = await retries.run(attempt, deadline=2000, limiter=limiter)
    assert (tried.attempts, tried.throttled) == (3, 2)
    assert clock.slept == [2.25, 0.5]


async def test_a_pause_that_would_reach_the_deadline_ends_it_at_once(
    retries: Retries, clock: Clock, limiter: Limiter
) -> None:
    attempt = failing(failed(FailureCode.THROTTLED, 3600))
    with pytest.raises(QueryError) as caught:
        await retries.run(attempt, deadline=1030, limiter=limiter)
    assert (caught.value.code, caught.value.attempts) == (FailureCode.THROTTLED, 1)
    assert clock.slept == []


async def test_after_the_deadline_nothing_is_sent(retries: Retries, limiter: Limiter) -> None:
    with pytest.raises(QueryError) as caught:
        await retries.run(failing(), deadline=999, limiter=limiter)
    assert (caught.value.code, caught.value.attempts) == (FailureCode.TIMED_OUT, 0)


async def test_waiting_for_a_turn_ends_at_the_deadline_and_gives_no_turn_away(
    limiter: Limiter,
) -> None:
    retries = Retries(attempt_seconds=5)
    await limiter.enter(60)
    deadline = asyncio.get_running_loop().time() + 0.05
    with pytest.raises(QueryError) as caught:
        await retries.run(failing(), deadline=deadline, limiter=limiter)
    assert (caught.value.code, caught.value.attempts) == (FailureCode.TIMED_OUT, 0)
    assert limiter.under_way == 1


async def test_one_attempt_is_cut_at_its_limit_and_tried_again(limiter: Limiter) -> None:
    sent = 0

    async def attempt() -> str:
        nonlocal sent
        sent += 1
        if sent == 1:
            await asyncio.sleep(60)
        return "right"

    retries = Retries(attempt_seconds=0.05, jitter=lambda: 0.0)
    tried = await retries.run(attempt, deadline=asyncio.get_running_loop().time() + 5, limiter=limiter)
    assert (tried.value, tried.attempts) == ("right", 2)
    assert tried.elapsed_ms < 50  # the attempt that answered, not the one before it


async def test_a_pause_holds_no_turn_and_each_request_takes_one_of_its_own(limiter: Limiter) -> None:
    held: list[int] = []

    async def sleep(_: float) -> None:
        held.append(limiter.under_way)

    async def attempt() -> str:
        held.append(limiter.under_way)
        return await answer()

    retries = Retries(attempt_seconds=5, sleep=sleep)
    answer = failing(failed(FailureCode.THROTTLED), failed(FailureCode.SERVER_ERROR))
    deadline = asyncio.get_running_loop().time() + 60
    tried = await retries.run(attempt, deadline=deadline, limiter=limiter)
    assert held == [1, 0, 1, 0, 1]
    assert (limiter.under_way, tried.at_once) == (0, 1)


async def test_where_no_turn_comes_before_the_deadline_the_last_failure_stands(
    limiter: Limiter,
) -> None:
    async def sleep(_: float) -> None:
        await limiter.enter(60)  # somebody else takes the turn, and keeps it

    retries = Retries(attempt_seconds=5, sleep=sleep, jitter=lambda: 0.0)
    deadline = asyncio.get_running_loop().time() + 0.05
    with pytest.raises(QueryError) as caught:
        await retries.run(failing(failed(FailureCode.THROTTLED)), deadline=deadline, limiter=limiter)
    assert (caught.value.code, caught.value.attempts, caught.value.throttled) == (
        FailureCode.THROTTLED,
        1,
        1,
    )


async def test_what_breaks_the_run_passes_through_at_once(
    retries: Retries, clock: Clock, limiter: Limiter
) -> None:
    with pytest.raises(BrokenError):
        await retries.run(failing(BrokenError("unauthorized", "no")), deadline=2000, limiter=limiter)
    assert clock.slept == []
    assert limiter.under_way == 0


async def test_cancelling_passes_through_and_releases_the_limiter(limiter: Limiter) -> None:
    async def attempt() -> None:
        await asyncio.sleep(60)

    retries = Retries(attempt_seconds=60)
    deadline = asyncio.get_running_loop().time() + 60
    task = asyncio.create_task(retries.run(attempt, deadline=deadline, limiter=limiter))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert limiter.under_way == 0


NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ms-retry-after-ms": "250", "Retry-After": "1"}, 0.25),
        ({"Retry-After": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"Retry-After": formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
        ({"Retry-After": "nan"}, 0.0),
        ({"Retry-After": "inf"}, 0.0),
        ({"Retry-After": "soon"}, 0.0),
        ({"Retry-After": ""}, 0.0),
        ({"retry-after-ms": "x", "Retry-After": "3"}, 3.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(headers, wall_clock=lambda: NOW) == seconds
