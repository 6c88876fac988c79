"""What it takes to look at a run of 5,000 questions with 300 lost, 50 chunks an observation, kept in a folder.

Each round is a fresh process that has served nothing yet; times are of the answer alone, its start apart.
"""

import asyncio
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from app.adapters.folder import open_folder
from app.domain.decision import decide, decided, results
from app.domain.golden import GoldenTexts
from app.domain.observation import Hit, Observation
from app.domain.outcome import Observed, QuestionResult
from app.gate.records import EvidenceWriter, RunRecords
from app.main import create_app
from app.settings import Settings
from tests import examples

QUESTIONS = 5_000
LOST = 300
WORDS = 150  # of a passage
ROUNDS = 5
RUN = "large"

_LOOKS = (
    ("the page, the first time", f"/runs/{RUN}"),
    ("the page again", f"/runs/{RUN}"),
    ("the page of one slice", f"/runs/{RUN}?slice=slice-3"),
    ("lost questions 251 to 300", f"/runs/{RUN}/lost?page=6"),
    ("to one question", f"/runs/{RUN}/question?id=q04784"),
    ("a decision on one question", ""),
)


def _observed() -> Iterator[Observed]:
    """Every 16th of the first 4,800 lost and asked again, all others kept."""
    chance = random.Random(1)
    words = [f"{chance.choice('bcdfgklmnprst')}{chance.choice('aeiou')}{number:x}" for number in range(8000)]
    passages = [" ".join(chance.choices(words, k=WORDS)) for _ in range(4000)]

    def seen(number: int, rank: int | None) -> Observation:
        others = random.Random(number)
        documents = [number if place == rank else others.randrange(10_000, 14_000) for place in range(1, 51)]
        hits = tuple(
            Hit(
                rank=place,
                key=f"{document * 2654435761 % 2**40:010x}_doc-{document:05}_pages_{place}",
                parent=f"doc-{document:05}",
                score=0.03 / place,
                reranker_score=3.0 - place / 20,
                title=f"Document {document} about {words[document % 8000]}",
                text=passages[document % 4000] if place <= 5 else None,
            )
            for place, document in enumerate(documents, start=1)
        )
        return Observation(rank=rank, elapsed_ms=100 + number % 50, attempts=1, hits=hits)

    for number in range(QUESTIONS):
        lost = number % 16 == 0 and number < 16 * LOST
        after = [seen(number, (9, None, 22)[number % 3])] * 2 if lost else [seen(number, 1 + number % 5)]
        yield Observed(
            id=f"q{number:05}",
            question=f"What is said about {' '.join(words[(number * 7 + n) % 8000] for n in range(8))}?",
            answers=(f"doc-{number:05}",),
            slice=(f"slice-{number % 9}",),
            critical=number % 100 == 0,
            baseline=(seen(number, 1 + number % 4),) * 2,
            candidate=tuple(after),
        )


async def _kept(folder: Path) -> None:
    run = replace(examples.a_run(), id=RUN)
    writer = EvidenceWriter(run.query)

    def written() -> Iterator[QuestionResult]:
        for each in results(_observed(), run.query):
            writer.add(each)
            yield each

    run = decided(run, decide(run, written()), on=examples.TODAY)
    if run.counts.lost != LOST:
        sys.exit(f"the benchmark's own run ended with {run.headline}")
    async with open_folder(folder) as store:
        records = RunRecords(store)
        await records.create(run, GoldenTexts(name=run.golden_set.name, jsonl=""))
        await records.keep_evidence(run, writer)
        await records.close(RUN)


def _look(pipe: Connection, folder: Path) -> None:
    pipe.send(asyncio.run(_looked(folder)))


async def _looked(folder: Path) -> list[tuple[float, float, int]]:
    """Of each look seconds, those of them that the processor worked, and bytes; at last what all took of memory."""
    app = create_app(
        Settings(search_endpoint="http://127.0.0.1:1", search_api_key="bench", runs_url=f"file://{folder}")
    )
    found = []
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:8080") as client,
    ):
        await client.get("/healthz")
        before_all = _most_held()
        for _, path in _LOOKS:
            before, worked = time.perf_counter(), time.process_time()
            if path:
                answer = await client.get(path)
            else:
                decision = {"question": "q04784", "decision": "real-loss"}
                answer = await client.post(f"/v1/runs/{RUN}/reviews", json=decision)
            took = time.perf_counter() - before, time.process_time() - worked
            found.append((*took, len(answer.content)))
            if answer.is_error:
                sys.exit(f"{path}: {answer.status_code} {answer.text}")
        after_all = _most_held()
    return [*found, (0.0, 0.0, after_all - before_all)]


def _most_held() -> int:
    """The most bytes of memory that this process has held so far."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def rows() -> list[tuple[str, ...]]:
    """What, seconds, seconds of the processor, bytes: medians of a few fresh processes."""
    context = multiprocessing.get_context("spawn")
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_kept(Path(folder)))
        for _ in range(ROUNDS):
            pipe, theirs = context.Pipe()
            process = context.Process(target=_look, args=(theirs, Path(folder)), daemon=True)
            process.start()
            rounds.append(pipe.recv())
            process.join(10)
        evidence, outline = (path.stat().st_size for path in sorted(Path(folder).glob(f"runs/{RUN}/*.gz")))
    *looks, memory = zip(*rounds, strict=True)
    found = []
    for (what, _), look in zip(_LOOKS, looks, strict=True):
        seconds, worked, sizes = zip(*look, strict=True)
        times = (f"{statistics.median(each):.2f} s" for each in (seconds, worked))
        found.append((what, *times, f"{max(sizes) / 1000:,.0f} kB"))
    grown = statistics.median(size for *_, size in memory)
    return [
        *found,
        ("what the process grew by, for all of these", "", "", f"{grown / 1e6:,.0f} MB"),
        (
            "the evidence that is kept, and its outline",
            "",
            "",
            f"{evidence / 1e6:.1f} and {outline / 1e6:.1f} MB",
        ),
    ]


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="\t")
