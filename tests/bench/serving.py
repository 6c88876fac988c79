"""Programs of their own: how soon they are there, and ten runs at once in one service."""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.bench.processes import KEY, golden, service

ROUNDS = 5
RUNS = 10
QUESTIONS = 60
LATENCY = 0.05
CONCURRENCY = 8


def _seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def _python(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


@contextmanager
def _served(search: str, **settings: str) -> Iterator[httpx.Client]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "GATE_SEARCH_ENDPOINT": search,
            "GATE_SEARCH_API_KEY": KEY,
            "GATE_RUNS_URL": f"file://{folder}/runs",
            "GATE_PORT": str(port),
            "GATE_LOG_LEVEL": "error",
            **settings,
        }
        program = subprocess.Popen(
            [sys.executable, "-m", "app", "serve"], env=environment, stderr=subprocess.DEVNULL
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                _until_alive(client)
                yield client
        finally:
            program.terminate()
            program.wait(30)


def _until_alive(client: httpx.Client) -> None:
    for _ in range(6000):
        try:
            if client.get("/healthz").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.01)
    sys.exit("the service did not start")


def _ready() -> float:
    before = time.perf_counter()
    with _served("http://127.0.0.1:9"):
        return time.perf_counter() - before


def starts() -> Iterator[tuple[str, ...]]:
    """What, measured, against, ratio, goal. The application is compiled, as it is in the image."""
    _python("-m", "compileall", "-q", "app")()
    python, fastapi = _seconds(_python("-c", "pass")), _seconds(_python("-c", "import fastapi"))
    command = _seconds(_python("-m", "app", "--help"))
    served = statistics.median(_ready() for _ in range(ROUNDS))
    for what, seconds, bare, goal in (
        ("gate --help, over a bare Python start", command, python, "≤ 8"),
        ("service ready, over a bare FastAPI import", served, fastapi, "≤ 3"),
    ):
        yield what, f"{seconds:.2f} s", f"{bare:.2f} s", f"{seconds / bare:.1f}", goal


def _asked(client: httpx.Client, *arguments: Any, **options: Any) -> tuple[float, dict[str, Any]]:
    before = time.perf_counter()
    answer = client.request(*arguments, **options)
    answer.raise_for_status()
    return time.perf_counter() - before, answer.json()


def tenfold() -> Iterator[tuple[str, ...]]:
    """What, measured, goal."""
    texts = golden(QUESTIONS)
    body = {
        "candidate_index": "kb-v2",
        "baseline_index": "kb-v1",
        "golden": {"name": texts.name, "jsonl": texts.jsonl},
        "policy": {"noise_runs": 0, "confirm_runs": 0},
    }
    settings = {"GATE_MAX_CONCURRENCY": str(CONCURRENCY), "GATE_SETTLE_SECONDS": "0"}
    with service(LATENCY) as search, _served(search, **settings) as client:
        begun = [_asked(client, "POST", "/v1/runs", json=body) for _ in range(RUNS)]
        posts = [seconds for seconds, _ in begun]
        left = {run["id"] for _, run in begun}
        began, reads, ended = time.perf_counter(), list[float](), list[float]()
        while left:
            for run_id in sorted(left):
                seconds, run = _asked(client, "GET", f"/v1/runs/{run_id}")
                reads.append(seconds)
                if run["state"] == "done":
                    left.discard(run_id)
                    ended.append(time.perf_counter() - began)
            time.sleep(0.02)
    ideal = RUNS * QUESTIONS * 2 * LATENCY / CONCURRENCY
    yield f"{RUNS} runs of {QUESTIONS} questions at once, over the ideal", f"{ended[-1] / ideal:.2f}", ""
    yield "the first that ends, over the last", f"{ended[0] / ended[-1]:.2f}", ""
    for what, times in (("POST /v1/runs", posts), ("GET /v1/runs/{id}", reads)):
        worst = sorted(times)[max(0, -(-len(times) * 99 // 100) - 1)]
        yield f"{what} meanwhile, 99th percentile of {len(times)}", f"{worst * 1000:.0f} ms", "< 50 ms"


if __name__ == "__main__":
    for row in (*starts(), *tenfold()):
        print(*row, sep="\t")
