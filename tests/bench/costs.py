"""What a run costs, measured in one go against a scripted service in a process of its own: `make bench`.

Figures are medians of a few rounds; the ratios are what counts, since both sides of each are measured on the
same machine in the same minute.
"""

import asyncio
import base64
import json
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

import httpx
from azure.core.credentials import AzureKeyCredential
from azure.search.documents import SearchClient
from azure.search.documents.aio import SearchClient as AsyncSearchClient
from azure.search.documents.models import VectorizableTextQuery
from rich.console import Console
from rich.table import Table

from app.adapters.search import search_body
from app.domain.query import QuerySettings
from app.domain.run import Run
from app.gate.ports import Ask
from app.gate.start import StartRequest, start
from app.main import open_gate
from app.settings import Settings
from tests.bench import capacity, growth, inventory, pages, serving
from tests.bench.processes import KEY, fields, golden, question, service

T = TypeVar("T")

QUESTIONS = 100
LATENCY = 0.1
JITTER = 0.3
CONCURRENCY = 8
ROUNDS = 3


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
            golden=golden(QUESTIONS),
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


def _ask(number: int) -> Ask:
    return Ask(index="kb-v1", text=question(number), query=QuerySettings(), fields=fields())


def _keywords(number: int) -> dict[str, Any]:
    """The same query in the official client's words."""
    vector = VectorizableTextQuery(text=question(number), k_nearest_neighbors=50, fields="text_vector")
    return {
        "search_text": question(number),
        "select": list(fields().selected),
        "top": 50,
        "query_type": "semantic",
        "semantic_configuration_name": "default",
        "semantic_error_mode": "fail",
        "vector_queries": [vector],
    }


def _serial(url: str) -> int:
    """What a script in a pipeline does: one question after the other, over the same client."""
    clients = [SearchClient(url, name, AzureKeyCredential(KEY)) for name in ("kb-v1", "kb-v2")]
    seen = 0
    for number in range(QUESTIONS):
        for client in clients:
            seen += bool([row["parent_id"] for row in client.search(**_keywords(number))])
    return seen


async def _bare(url: str, searches: int) -> int:
    """The official client alone, with as many at once, its rows read and dropped."""
    numbers = iter(range(searches))
    async with AsyncSearchClient(url, "kb-v1", AzureKeyCredential(KEY)) as client:

        async def work() -> None:
            for number in numbers:
                _ = [row async for row in await client.search(**_keywords(number))]

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return searches


async def _plain(url: str, searches: int) -> int:
    """httpx and json in a loop, which keeps the same evidence: every row's ranks and scores, the first passages,
    compressed, in a file.
    """
    numbers, address = iter(range(searches)), f"{url}/indexes('kb-v1')/docs/search.post.search"
    headers, version = {"api-key": KEY}, {"api-version": "2026-04-01"}
    async with httpx.AsyncClient(headers=headers, params=version) as client:
        with tempfile.TemporaryFile() as file:

            async def work() -> None:
                for number in numbers:
                    answer = await client.post(address, json=search_body(_ask(number)))
                    rows = answer.json()["value"]
                    for row in rows[5:]:
                        del row["chunk"]
                    line = zlib.compress(json.dumps({"question": number, "rows": rows}).encode(), level=1)
                    file.write(base64.b64encode(line) + b"\n")

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
    with service(LATENCY, JITTER) as url:
        observations = asyncio.run(_observations(url, 1))
        noisy = _timed(lambda: asyncio.run(_gate(url, 1)))
        with_noise, asking = _median(noisy), statistics.median(_asking(run) for _, run in noisy)
        without = _median(_timed(lambda: asyncio.run(_gate(url, 0))))
        serial = _median(_timed(lambda: _serial(url)))
    with service(0.0) as url:
        ours = _processor_per_search(lambda: _observations(url, 1))
        bare = _processor_per_search(lambda: _bare(url, 3 * QUESTIONS))
        plain = _processor_per_search(lambda: _plain(url, 3 * QUESTIONS))
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
        "≤ 1.3",
    )
    table.add_row(
        "(c) the same, over httpx and json in a loop that keeps as much",
        f"{ours * 1000:.2f} ms",
        f"{plain * 1000:.2f} ms",
        f"{ours / plain:.2f}",
        "",
    )
    console = Console(width=120)
    console.print(table)
    for title, headings, rows in _further():
        printed = Table(title=title)
        for heading in headings:
            printed.add_column(heading)
        for row in rows:
            printed.add_row(*row)
        console.print(printed)


def _further() -> Iterator[tuple[str, tuple[str, ...], Iterable[tuple[str, ...]]]]:
    """The other tables, measured as they are printed."""
    yield "before the first question: both indexes read", ("what", "measured"), inventory.rows()
    yield (
        "of a service that sheds what it cannot take, 100 ms each, used over 1,000 observations",
        ("limit", "of what is possible", "5 s after doubling", "5 s after halving", "shed", "failed"),
        capacity.rows(),
    )
    yield (
        "runs of any size, service without latency, 2 observations a question",
        (
            "questions",
            "time",
            "a question",
            "memory",
            "status document",
            "progress told",
            "first observation",
        ),
        growth.rows(),
    )
    yield "programs", ("what", "measured", "against", "ratio", "goal"), serving.starts()
    yield "many runs at once in one service", ("what", "measured", "goal"), serving.tenfold()
    yield (
        f"a run of {pages.QUESTIONS:,} questions, {pages.LOST} lost, looked at afresh",
        ("what", "time", "processor", "size"),
        pages.rows(),
    )
