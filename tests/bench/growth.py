"""Runs of 100 to 10,000 questions, each in a process of its own: time, memory, the status document, first progress."""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from pydantic import TypeAdapter

from app.domain.run import Run
from app.gate.start import StartRequest, start
from app.main import open_gate
from app.settings import Settings
from tests.bench.processes import KEY, golden, service

SIZES = (100, 1_000, 10_000)
CONCURRENCY = 8


async def _run(url: str, questions: int, folder: str) -> dict[str, float]:
    settings = Settings(
        search_endpoint=url,
        search_api_key=KEY,
        runs_url=f"file://{folder}/runs",
        max_concurrency=CONCURRENCY,
        settle_seconds=0,
    )
    request = StartRequest(
        candidate_index="kb-v2",
        baseline_index="kb-v1",
        golden=golden(questions),
        policy={"noise_runs": 0, "confirm_runs": 0},
    )
    first: list[float] = []
    async with open_gate(settings) as gate:
        began = time.perf_counter()

        def note(run: Run) -> None:
            if run.progress.done and not first:
                first.append(time.perf_counter() - began)

        run, _ = await start(request, records=gate.records, golden_sets=gate.golden_sets, stamp=gate.stamp())
        planned = (await gate.records.read(run.id))[0].progress.planned
        told = time.perf_counter() - began
        run = await gate.execution.execute(run.id, cancelled=asyncio.Event(), on_progress=note)
        took = time.perf_counter() - began
    if planned != 2 * questions or run.counts.questions != questions or run.counts.errors:
        sys.exit(f"the benchmark's own run ended with {run.headline}")
    return {
        "seconds": took,
        "told": told,
        "first": first[0],
        "status": len(TypeAdapter(Run).dump_json(run)),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def rows() -> Iterator[tuple[str, ...]]:
    """Questions; time; time a question; memory at the most; the status document; time until the status says how much is
    planned, and until the first observation.
    """
    with service(0.0) as url:
        for questions in SIZES:
            told = subprocess.run(
                [sys.executable, "-m", "tests.bench.growth", url, str(questions)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            seen = json.loads(told)
            yield (
                f"{questions:,}",
                f"{seen['seconds']:.1f} s",
                f"{seen['seconds'] / questions * 1000:.1f} ms",
                f"{seen['memory'] / 1e6:.0f} MB",
                f"{seen['status'] / 1e3:.1f} kB",
                f"{seen['told']:.2f} s",
                f"{seen['first']:.2f} s",
            )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        json.dump(asyncio.run(_run(sys.argv[1], int(sys.argv[2]), place)), sys.stdout)
