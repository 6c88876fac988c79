"""The service on a loopback port, with runs made by hand, for a browser to look at."""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import uvicorn

from app.domain.decision import decide, decided, results
from app.domain.golden import GoldenTexts
from app.domain.run import State
from app.gate.records import EvidenceWriter, RunRecords
from tests import examples
from tests.examples import Example
from tests.web.served import Service

_SURROGATE = re.compile("[\ud800-\udfff]")
_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A service that runs; `loop` is the one that it runs in."""

    url: str
    service: Service
    loop: asyncio.AbstractEventLoop

    def keep(self, name: str, example: Example) -> str:
        """Keep the example as a run of that id; the address of its page."""
        asyncio.run_coroutine_threadsafe(keep(self.service, name, example), self.loop).result(30)
        return f"{self.url}/runs/{name}"

    def keep_running(self, name: str, example: Example) -> str:
        """Keep the example as a run that is under way; the address of its page."""
        run = replace(example.run, id=name, state=State.RUNNING, verdict=None, reasons=(), headline=None)
        texts = GoldenTexts(name=run.golden_set.name, jsonl="")
        creating = RunRecords(self.service.store).create(run, texts)
        asyncio.run_coroutine_threadsafe(creating, self.loop).result(30)
        return f"{self.url}/runs/{name}"


@contextmanager
def serving(service: Service | None = None) -> Iterator[Served]:
    """The service, from its start to its end."""
    service = service or Service()
    server = uvicorn.Server(
        uvicorn.Config(service.application(), host="127.0.0.1", port=0, log_level="error", ws="none")
    )
    started: list[asyncio.AbstractEventLoop] = []
    ready = threading.Event()

    async def serve() -> None:
        started.append(asyncio.get_running_loop())
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():  # noqa: ASYNC110 — the server tells it no other way
            await asyncio.sleep(0.01)
        ready.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(_START_SECONDS)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(url=f"http://127.0.0.1:{port}", service=service, loop=started[0])
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(_START_SECONDS)


async def keep(service: Service, name: str, example: Example) -> None:
    """Keep the run as one that is done."""
    run = replace(_readable(example.run), id=name, state=State.DONE)
    questions = [_readable(each) for each in example.questions]
    decision = decide(run, results(questions, run.query))
    run = replace(decided(run, decision, on=examples.TODAY), state=State.DONE)
    records = RunRecords(service.store)
    await records.create(run, GoldenTexts(name=run.golden_set.name, jsonl=""))
    writer = EvidenceWriter(run.query)
    for each in results(questions, run.query):
        writer.add(each)
    await records.keep_evidence(run, writer)
    await records.close(name)


def _readable(value: Any) -> Any:
    """The same without halves of surrogate pairs, which no file that is read can hold."""
    match value:
        case str() if type(value) is str:
            return _SURROGATE.sub("?", value)
        case dict():
            return {_readable(key): _readable(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(_readable(each) for each in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            changed = {each.name: _readable(getattr(value, each.name)) for each in fields(value)}
            return replace(value, **changed)
        case _:
            return value
