"""A service that takes so many requests at once, or a second, and sheds the rest; asked through the real limiter.

asked = in_virtual_time(ask(AtOnce(4), 1000, change=Change(after=500, limit=8)))
asked.throughput(5, 10)  # answers a second, in that stretch
"""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.adapters.limiter import Limiter
from app.adapters.retries import FailedAttemptError, Retries
from app.domain.errors import FailureCode, QueryError
from tests.capacity import Capacity

SHED_SECONDS = 0.002


@dataclass(slots=True, kw_only=True)
class Asked:
    """When requests were answered and shed, on one clock from 0."""

    answered: list[float] = field(default_factory=list)
    shed: list[float] = field(default_factory=list)
    failed: int = 0
    changed: float = 0.0
    highest: int = 0

    def throughput(self, start: float, end: float) -> float:
        return sum(start < at <= end for at in self.answered) / (end - start)

    def shed_share(self, start: float, end: float) -> float:
        shed = sum(start < at <= end for at in self.shed)
        return shed / (shed + sum(start < at <= end for at in self.answered))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """After so many answers, the capacity's new limit."""

    after: int
    limit: int


async def ask(
    capacity: Capacity,
    observations: int,
    *,
    latency: float = 0.1,
    jitter: float = 0.0,
    retry_after: float = 0.0,
    change: Change | None = None,
    ceiling: int = 64,
    share: float = 1.0,
    seed: int = 0,
) -> Asked:
    """Ask so many questions, as a run does: a worker for each request that the ceiling allows."""
    chance, asked, loop = random.Random(seed), Asked(), asyncio.get_running_loop()
    limiter = Limiter(ceiling=ceiling, share=share)
    retries = Retries(attempt_seconds=30, jitter=chance.random)
    began = loop.time()

    async def attempt() -> None:
        asked.highest = max(asked.highest, limiter.under_way)
        if not capacity.take(loop.time()):
            await asyncio.sleep(SHED_SECONDS)
            asked.shed.append(loop.time() - began)
            raise FailedAttemptError(FailureCode.THROTTLED, "busy", retry_after=retry_after, throttled=True)
        try:
            await asyncio.sleep(latency * (1 + chance.uniform(-jitter, jitter)))
        finally:
            capacity.give_back()
        asked.answered.append(loop.time() - began)
        if change is not None and len(asked.answered) == change.after:
            capacity.limit, asked.changed = change.limit, loop.time() - began

    async def work(numbers: Iterator[int]) -> None:
        for _ in numbers:
            try:
                await retries.run(attempt, deadline=loop.time() + 600, limiter=limiter, telling=True)
            except QueryError:
                asked.failed += 1

    numbers = iter(range(observations))
    await asyncio.gather(*(work(numbers) for _ in range(ceiling)))
    return asked
