"""The limiter before a service that sheds what it cannot take, in virtual time; and its turns."""

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from app.adapters.limiter import HeldBackError, Limiter
from app.adapters.pace import Sent
from app.adapters.retries import FailedAttemptError, Retries
from app.domain.errors import FailureCode
from app.gate.ports import ASKING
from tests.capacity import ASecond, AtOnce, Bucket, Capacity
from tests.shedding import Asked, Change, ask
from tests.virtual_time import in_virtual_time

LATENCY = 0.1
WARM_UP = 2.0
CAPACITIES = [
    pytest.param(kind, limit, id=f"{kind.__name__}-{limit}")
    for kind, limits in ((AtOnce, (2, 4, 16)), (ASecond, (10, 50)), (Bucket, (10, 50)))
    for limit in limits
]
OfLimit = Callable[[int], Capacity]


@pytest.mark.parametrize("jitter", [0.0, 0.1])
@pytest.mark.parametrize(("kind", "limit"), CAPACITIES)
def test_nine_tenths_of_what_is_possible_and_one_in_twenty_shed(
    kind: OfLimit, limit: int, jitter: float
) -> None:
    capacity = kind(limit)
    asked = in_virtual_time(ask(capacity, 1000, latency=LATENCY, jitter=jitter))
    end = asked.answered[-1]
    assert (len(asked.answered), asked.failed) == (1000, 0)
    assert asked.throughput(0, end) >= 0.9 * capacity.possible(LATENCY)
    assert asked.shed_share(WARM_UP, end) < 0.05


@pytest.mark.parametrize("factor", [0.5, 2])
@pytest.mark.parametrize(("kind", "limit"), CAPACITIES)
def test_within_five_seconds_of_a_change_the_new_limit_is_used(
    kind: OfLimit, limit: int, factor: float
) -> None:
    capacity, after = kind(limit), 500
    new = int(limit * factor)
    at_most = int(25 * max(capacity.possible(LATENCY), kind(new).possible(LATENCY)))
    asked = in_virtual_time(
        ask(capacity, after + at_most, latency=LATENCY, jitter=0.02, change=Change(after=after, limit=new))
    )
    start = asked.changed + 5
    assert asked.throughput(start, start + 15) >= 0.9 * capacity.possible(LATENCY)
    assert asked.shed_share(start, start + 15) < 0.05
    assert asked.failed == 0


def test_a_service_that_gives_a_retry_after_is_used_as_much() -> None:
    asked = in_virtual_time(ask(AtOnce(4), 1000, latency=LATENCY, retry_after=1.0))
    assert asked.throughput(0, asked.answered[-100]) >= 0.9 * 40
    assert asked.failed == 0


def test_the_ceiling_is_never_passed_and_a_share_leaves_the_rest_to_others() -> None:
    bounded = in_virtual_time(ask(AtOnce(16), 1000, latency=LATENCY, ceiling=4))
    assert (bounded.highest, bounded.shed) == (4, [])
    assert bounded.throughput(WARM_UP, bounded.answered[-1]) > 39
    half = in_virtual_time(ask(AtOnce(16), 1000, latency=LATENCY, share=0.5))
    assert 0.45 * 160 < half.throughput(WARM_UP, half.answered[-1]) < 0.6 * 160


def test_a_service_that_lets_requests_wait_is_not_asked_for_more_than_makes_it_faster() -> None:
    """It works on two at a time; the others wait, and nothing is ever shed."""

    @dataclass(slots=True)
    class Waiting:
        under_way: int = 0
        most: int = 0
        done: int = 0
        workers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))

    async def main() -> Waiting:
        service, limiter, retries = Waiting(), Limiter(ceiling=64), Retries(attempt_seconds=30)
        deadline = asyncio.get_running_loop().time() + 30

        async def attempt() -> None:
            service.under_way += 1
            if service.done > 100:
                service.most = max(service.most, service.under_way)
            async with service.workers:
                await asyncio.sleep(LATENCY)
            service.under_way -= 1
            service.done += 1

        async def work() -> None:
            while asyncio.get_running_loop().time() < deadline - 10:
                await retries.run(attempt, deadline=deadline, limiter=limiter, telling=True)

        await asyncio.gather(*(work() for _ in range(64)))
        return service

    service = in_virtual_time(main())
    assert service.done >= 0.9 * 20 * 20
    assert service.most <= 6


def test_a_service_that_refuses_one_after_the_other_is_left_alone_for_as_long_as_it_asks() -> None:
    async def main() -> list[float]:
        limiter, loop, entered = Limiter(ceiling=4), asyncio.get_running_loop(), []
        for _ in range(4):
            sent = await limiter.enter(60)
            entered.append(loop.time())
            await asyncio.sleep(0.01)
            limiter.refused(sent, 20)
        with pytest.raises(HeldBackError):
            await limiter.enter(5)
        assert loop.time() == entered[-1] + 0.01, "it is told at once"
        return entered

    first, _, third, fourth = in_virtual_time(main())
    assert third - first < 1
    assert fourth - third >= 20


def test_refusals_that_no_pace_avoids_do_not_slow_it_down_to_a_crawl() -> None:
    """The first two requests of each question are refused, whatever else is asked."""

    async def main() -> float:
        loop, limiter, retries = (
            asyncio.get_running_loop(),
            Limiter(ceiling=8),
            Retries(attempt_seconds=30, jitter=random.Random(0).random),
        )

        async def question() -> int:
            sent = 0

            async def attempt() -> int:
                nonlocal sent
                sent += 1
                await asyncio.sleep(LATENCY)
                if sent <= 2:
                    raise FailedAttemptError(FailureCode.THROTTLED, "busy", throttled=True)
                return sent

            return (
                await retries.run(attempt, deadline=loop.time() + 600, limiter=limiter, telling=True)
            ).value

        async def work(questions: Iterator[int]) -> None:
            for _ in questions:
                assert await question() == 3

        questions = iter(range(40))
        await asyncio.gather(*(work(questions) for _ in range(8)))
        return loop.time()

    one_by_one = 40 * 3 * LATENCY
    assert in_virtual_time(main()) < 2.5 * one_by_one


def test_ten_seconds_after_an_outage_the_service_is_used_as_before() -> None:
    capacity = AtOnce(4)

    async def main() -> Asked:
        async def outage() -> None:
            await asyncio.sleep(5)
            capacity.limit = 0
            await asyncio.sleep(10)
            capacity.limit = 4

        ending = asyncio.create_task(outage())
        asked = await ask(capacity, 1200, latency=LATENCY, jitter=0.1)
        await ending
        return asked

    asked = in_virtual_time(main())
    assert asked.throughput(25, 30) >= 0.9 * 40


async def _entered(limiter: Limiter, run: str, number: int, order: list[str]) -> Sent:
    ASKING.set(run)
    sent = await limiter.enter(60)
    order.append(f"{run}{number}")
    return sent


async def test_runs_take_turns_however_many_requests_each_has_waiting() -> None:
    limiter, order = Limiter(ceiling=1), list[str]()
    first = await limiter.enter(60)
    waiting = [
        asyncio.create_task(_entered(limiter, run, number, order))
        for run, requests in (("a", 5), ("b", 2), ("c", 1))
        for number in range(requests)
    ]
    await asyncio.sleep(0)
    assert (order, limiter.under_way) == ([], 1)
    limiter.answered(first)
    for each in ("a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4"):
        async with asyncio.timeout(5):
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        waiting = [task for task in waiting if not task.done()]
        assert order[-1] == each
        limiter.left()
    assert order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4"]
    assert limiter.under_way == 0


async def test_who_is_cancelled_or_gives_up_in_line_takes_no_turn_from_the_others() -> None:
    limiter, order = Limiter(ceiling=1), list[str]()
    first = await limiter.enter(60)
    lost = asyncio.create_task(_entered(limiter, "a", 0, order))
    let_in = asyncio.create_task(_entered(limiter, "a", 1, order))
    kept = asyncio.create_task(_entered(limiter, "b", 0, order))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await limiter.enter(0.01)
    lost.cancel()
    await asyncio.sleep(0)
    limiter.answered(first)
    let_in.cancel()  # in the moment in which its turn came
    await kept
    assert order == ["b0"]
    assert limiter.under_way == 1
    limiter.left()
    assert (await limiter.enter(1)).place == 1


async def test_who_is_cancelled_before_its_time_has_come_lets_the_next_one_in() -> None:
    limiter = Limiter(ceiling=8)
    for _ in range(3):
        limiter.refused(await limiter.enter(60), 0.5)
        await asyncio.sleep(0.001)
    holding = asyncio.create_task(limiter.enter(60))
    behind = asyncio.create_task(limiter.enter(60))
    await asyncio.sleep(0)
    holding.cancel()
    assert (await behind).place == 1
