"""`make soak`: the long form of the faults of tests/e2e/test_faults.py, counted.

python -m tests.soak [--share 0.1]      # a tenth of it
"""

import argparse
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.azurite import KEY, emulator
from tests.e2e.programs import SEARCH_KEY, Gate
from tests.e2e.trials import FINAL, RETRYABLE, killed, searched, stopped, stored, undisturbed
from tests.scripted import ScriptedSearch


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials of each kind")
    share = parser.parse_args().share
    print(f"load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with emulator() as account:
        _soak(account, share)
    print(f"load when it ended: {os.getloadavg()[0]:.1f}")


def _soak(account: str, share: float) -> None:
    def times(number: int) -> int:
        return max(1, round(number * share))

    def on_blobs(gate: Gate) -> str:
        url = f"{account}/soak-{uuid.uuid4().hex}"
        gate.environment |= {"GATE_RUNS_URL": url, "GATE_RUNS_KEY": KEY}
        return url

    def kill(how: signal.Signals, *, blobs: bool) -> Callable[[Gate, int, dict[str, Any]], str]:
        def trial(gate: Gate, number: int, expected: dict[str, Any]) -> str:
            if blobs:
                on_blobs(gate)
            ends = killed(gate, number, expected, how=how)
            return f"ended as undisturbed, after {ends} ends"

        return trial

    def stop(gate: Gate, number: int, expected: dict[str, Any]) -> str:
        on_blobs(gate)
        return f"taken up within {max(1, round(stopped(gate, number, expected)))} s of 3"

    def fail(faults: dict[str, Any], part: float) -> Callable[[Gate, int, dict[str, Any]], str]:
        return lambda gate, number, expected: searched(gate, number, expected, faults, part)

    def store(gate: Gate, number: int, expected: dict[str, Any]) -> str:
        return stored(gate, number, expected, on_blobs(gate), 0.05)

    _series("kill -9, folder", times(25), kill(signal.SIGKILL, blobs=False))
    _series("kill -9, Azurite", times(25), kill(signal.SIGKILL, blobs=True))
    _series("SIGTERM, folder", times(20), kill(signal.SIGTERM, blobs=False))
    _series("SIGSTOP, two replicas", times(10), stop)
    _series("20 % of searches fail", times(20), fail(RETRYABLE, 0.2))
    _series("5 % of answers are none", times(20), fail(FINAL, 0.05))
    _series("5 % of storage calls fail", times(20), store)


def _series(name: str, count: int, trial: Callable[[Gate, int, dict[str, Any]], str]) -> None:
    """So many trials, each with a folder of its own; prints what came of them, the failures in full."""
    found, began = Counter[str](), time.monotonic()
    with _gate() as first:
        expected = undisturbed(first)
    for number in range(count):
        with _gate() as gate:
            try:
                found[trial(gate, number, expected)] += 1
            except (AssertionError, subprocess.TimeoutExpired) as error:
                found["FAILED"] += 1
                print(f"{name}, trial {number}: {error}")
    told = "; ".join(f"{times} {what}" for what, times in sorted(found.items()))
    print(f"{name}: {count} trials in {time.monotonic() - began:.0f} s: {told}", flush=True)


@contextmanager
def _gate() -> Iterator[Gate]:
    with tempfile.TemporaryDirectory() as folder, ScriptedSearch(key=SEARCH_KEY) as search:
        for name in ("kb-v1", "kb-v2"):
            search.index(name, otherwise=["x", "d1", "x", "x", "x", "x", "x", "x"])
        yield Gate(folder=Path(folder), search=search, patience=300)


main()
