"""What a run costs, measured in one go against a scripted service in a process of its own: `make bench`.

Figures are medians of a few rounds; the ratios are what counts, since both sides of each are measured on the
same machine in the same minute.
"""

import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import TypeVar

from azure.core.credentials import AzureKeyCredential
from azure.search.documents import SearchClient
from azure.search.documents.aio import SearchClient as AsyncSearchClient
from rich.console import Console
from rich.table import Table

from app.adapters.search import search_options
from app.domain.golden import GoldenTexts
from app.domain.index import Fields
from app.domain.query import QuerySettings
from app.domain.run import Run
from app.gate.ports import Ask
from app.gate.start import StartRequest, start
from app.main import open_gate
from app.settings import Settings
from tests.bench import inventory, pages
from tests.scripted import ScriptedSearch

T = TypeVar("T")

QUESTIONS = 100
LATENCY = 0.1
JITTER = 0.3
CONCURRENCY = 8
ROUNDS = 3
KEY = "bench"

_FIELDS = Fields(
    key="chunk_id",
    parent="parent_id",
    text="chunk",
    title="title",
    vectors=("text_vector",),
    semantic_configuration="default",
)


def _question(number: int) -> str:
    return f"How many days of notice does rule {number} ask for?"


def _golden() -> GoldenTexts:
    lines = (
        f'{{"id": "q{number:04}", "question": "{_question(number)}", "answers": ["d1"]}}'
        for number in range(QUESTIONS)
    )
    return GoldenTexts(name="bench", jsonl="\n".join(lines))


def _serve(pipe: Connection, latency: float) -> None:
    rows = ["d1", *(f"p{number}" for number in range(49))]
    with ScriptedSearch(latency=latency, jitter=JITTER, key=KEY) as service:
        for name in ("kb-v1", "kb-v2"):
            service.index(name, otherwise=rows)
        pipe.send(service.url)
        pipe.recv()


class Service:
    """The scripted service in its own process, so that its processor time is not counted."""

    def __init__(self, latency: float) -> None:
        self._latency = latency

    def __enter__(self) -> str:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._latency), daemon=True)
        self._process.start()
        return str(self._pipe.recv())

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join(10)


async def _gate(url: str, noise_runs: int) -> Run:
    """One whole run in this process."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            search_endpoint=url,
            search_api_key=KEY,
            runs_url=f"file://{folder}/runs",
            max_concurrency=CONCURRENCY,
            settle_seconds=0,  # a pause, not work: it would be in every figure alike
        )
        request = StartRequest(
            candidate_index="kb-v2",
            baseline_index="kb-v1",
            golden=_golden(),
            policy={"noise_runs": noise_runs, "confirm_runs": 0},
        )
        async with open_gate(settings) as gate:
            run, _ = await start(
                request, records=gate.records, golden_sets=gate.golden_sets, stamp=gate.stamp()
            )
            run = await gate.execution.execute(run.id, cancelled=asyncio.Event())
    if run.verdict != "PASS":
        sys.exit(f"the benchmark's own run ended with {run.headline}")
    return run


async def _observations(url: str, noise_runs: int) -> int:
    return (await _gate(url, noise_runs)).requests.comparison


def _asking(run: Run) -> float:
    """Seconds from the first question to the last."""
    return float(run.manifest["seconds"]["comparison"])


def _ask(index: str, number: int) -> Ask:
    return Ask(index=index, text=_question(number), query=QuerySettings(), fields=_FIELDS)


def _serial(url: str) -> int:
    """What a script in a pipeline does: one question after the other, over the same client."""
    clients = [SearchClient(url, name, AzureKeyCredential(KEY)) for name in ("kb-v1", "kb-v2")]
    seen = 0
    for number in range(QUESTIONS):
        for client in clients:
            found = client.search(_question(number), **search_options(_ask("kb-v1", number)))
            seen += bool([row["parent_id"] for row in found])
    return seen


async def _bare(url: str, searches: int) -> int:
    """The official client alone, with as many at once, its rows read and dropped."""
    numbers = iter(range(searches))
    async with AsyncSearchClient(url, "kb-v1", AzureKeyCredential(KEY)) as client:

        async def work() -> None:
            for number in numbers:
                found = await client.search(_question(number), **search_options(_ask("kb-v1", number)))
                _ = [row async for row in found]

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return searches


def _timed(work: Callable[[], T]) -> list[tuple[float, T]]:
    """A few rounds: seconds, and what came of it."""
    rounds = []
    for _ in range(ROUNDS):
        before = time.perf_counter()
        made = work()
        rounds.append((time.perf_counter() - before, made))
    return rounds


def _median(rounds: list[tuple[float, T]]) -> float:
    return statistics.median(seconds for seconds, _ in rounds)


def _processor_per_search(work: Callable[[], Awaitable[int]]) -> float:
    """Seconds of this process's processor time for one search, the median of a few rounds."""
    times = []
    for _ in range(ROUNDS):
        before = time.process_time()
        made = asyncio.run(_counted(work))
        times.append((time.process_time() - before) / made)
    return statistics.median(times)


async def _counted(work: Callable[[], Awaitable[int]]) -> int:
    return await work()


def main() -> None:
    """Measure and print; the table in the README is this output."""
    with Service(LATENCY) as url:
        observations = asyncio.run(_observations(url, 1))
        noisy = _timed(lambda: asyncio.run(_gate(url, 1)))
        with_noise, asking = _median(noisy), statistics.median(_asking(run) for _, run in noisy)
        without = _median(_timed(lambda: asyncio.run(_gate(url, 0))))
        serial = _median(_timed(lambda: _serial(url)))
    with Service(0.0) as url:
        ours = _processor_per_search(lambda: _observations(url, 1))
        bare = _processor_per_search(lambda: _bare(url, 3 * QUESTIONS))
    ideal = observations * LATENCY / CONCURRENCY
    table = Table(
        title=f"{QUESTIONS} questions, {LATENCY * 1000:.0f} ms ± {JITTER:.0%}, {CONCURRENCY} at once"
    )
    for heading in ("what", "measured", "against", "ratio", "goal"):
        table.add_column(heading)
    for what, seconds in (("asking", asking), ("the whole run", with_noise)):
        table.add_row(
            f"(a) {what}, noise_runs 1, over the ideal",
            f"{seconds:.2f} s",
            f"{ideal:.2f} s",
            f"{seconds / ideal:.2f}",
            "≤ 1.15",
        )
    table.add_row(
        "(b) a serial script over a run without noise runs",
        f"{serial:.2f} s",
        f"{without:.2f} s",
        f"{serial / without:.1f}",
        "≥ 6",
    )
    table.add_row(
        "(c) processor time a search, over the client alone",
        f"{ours * 1000:.2f} ms",
        f"{bare * 1000:.2f} ms",
        f"{ours / bare:.2f}",
        "≤ 1.5",
    )
    console = Console(width=110)
    console.print(table)
    reading = Table(title="before the first question: both indexes read")
    reading.add_column("what")
    reading.add_column("measured")
    for row in inventory.rows():
        reading.add_row(*row)
    console.print(reading)
    looking = Table(title=f"a run of {pages.QUESTIONS:,} questions, {pages.LOST} lost, looked at afresh")
    for heading in ("what", "time", "size"):
        looking.add_column(heading)
    for look in pages.rows():
        looking.add_row(*look)
    console.print(looking)
