"""How much of a service's capacity the gate uses, over HTTP: a service that takes so many requests at once, or so
many a second, at 100 ms each, and sheds the others.

1,000 observations, then ten seconds of twice the limit, then ten of what it was. The services of a group are asked at
the same time, each by a limiter of its own, since most of it is waiting.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from azure.core.credentials import AzureKeyCredential

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.errors import QueryError
from app.domain.query import QuerySettings
from app.gate.ports import Ask
from tests.bench.processes import KEY, fields
from tests.capacity import ASecond, AtOnce, Capacity
from tests.scripted import ScriptedSearch

OBSERVATIONS = 1000
LATENCY = 0.1
WARM_UP = 2.0
ADAPTED = 5.0  # seconds after a change
WATCHED = 10.0  # seconds after a change
CEILING = 64
GROUPS: tuple[tuple[tuple[Callable[[int], Capacity], int], ...], ...] = (
    ((AtOnce, 2), (AtOnce, 4), (ASecond, 10)),
    ((AtOnce, 16),),
    ((ASecond, 50),),
)


def _serve(pipe: Connection, kinds: tuple[tuple[Callable[[int], Capacity], int], ...]) -> None:
    async def serve() -> None:
        services = [ScriptedSearch(latency=LATENCY, key=KEY) for _ in kinds]
        for service, (kind, limit) in zip(services, kinds, strict=True):
            service.index("kb-v1")
            service.capacity = kind(limit)
            await service.__aenter__()
        pipe.send([service.url for service in services])
        while (change := await asyncio.to_thread(pipe.recv)) is not None:
            number, limit = change
            capacity = services[number].capacity
            if capacity is not None:
                capacity.limit = limit

    asyncio.run(serve())


@dataclass(slots=True)
class _Asked:
    """When observations were made, how many requests were shed before each, and when the limit changed."""

    made: list[tuple[float, int]] = field(default_factory=list)
    failed: int = 0
    changes: list[float] = field(default_factory=list)

    def rate(self, start: float, end: float) -> float:
        return sum(start < at <= end for at, _ in self.made) / (end - start)

    def shed(self, start: float) -> float:
        shed = sum(count for at, count in self.made if start < at <= self.changes[0])
        return shed / (shed + sum(start < at <= self.changes[0] for at, _ in self.made))


async def _ask(url: str, limit: int, change: Callable[[int], None]) -> _Asked:
    asked, clock = _Asked(), time.perf_counter
    async with AzureSearch(
        endpoint=url,
        credential=AzureKeyCredential(KEY),
        limiter=Limiter(ceiling=CEILING),
        query_timeout_seconds=30,
    ) as search:
        began, deadline = clock(), asyncio.get_running_loop().time() + 600

        def numbers() -> Iterator[int]:
            """The questions; the limit changes in between."""
            number = 0
            while not asked.changes or clock() - began < asked.changes[-1] + WATCHED:
                if len(asked.made) >= OBSERVATIONS and not asked.changes:
                    asked.changes.append(clock() - began)
                    change(2 * limit)
                yield (number := number + 1)
            if len(asked.changes) == 1:
                asked.changes.append(clock() - began)
                change(limit)
                while clock() - began < asked.changes[-1] + WATCHED:
                    yield (number := number + 1)

        questions = numbers()

        async def work() -> None:
            for number in questions:
                ask = Ask(index="kb-v1", text=f"Question {number}?", query=QuerySettings(), fields=fields())
                try:
                    answer = await search.ask(ask, deadline)
                except QueryError:
                    asked.failed += 1
                else:
                    asked.made.append((clock() - began, answer.throttled))

        await asyncio.gather(*(work() for _ in range(CEILING)))
    return asked


async def _group(
    urls: list[str], kinds: tuple[tuple[Callable[[int], Capacity], int], ...], pipe: Connection
) -> list[_Asked]:
    def changing(number: int) -> Callable[[int], None]:
        return lambda limit: pipe.send((number, limit))

    return await asyncio.gather(
        *(_ask(url, kinds[number][1], changing(number)) for number, url in enumerate(urls))
    )


def rows() -> Iterator[tuple[str, ...]]:
    """The limit; of what is possible: at first, with the limit doubled, with it halved again; shed; failed."""
    for kinds in GROUPS:
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, kinds), daemon=True)
        process.start()
        try:
            found = asyncio.run(_group(pipe.recv(), kinds, pipe))
        finally:
            pipe.send(None)
            process.join(10)
        for (kind, limit), asked in zip(kinds, found, strict=True):
            whole = kind(limit).possible(LATENCY)
            twice = 2 * whole
            first, second = asked.changes
            yield (
                f"{limit} {'at once' if kind is AtOnce else 'a second'}",
                f"{asked.rate(0, first) / whole:.0%}",
                f"{asked.rate(first + ADAPTED, first + WATCHED) / twice:.0%}",
                f"{asked.rate(second + ADAPTED, second + WATCHED) / whole:.0%}",
                f"{asked.shed(WARM_UP):.1%}",
                str(asked.failed),
            )


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="\t")
