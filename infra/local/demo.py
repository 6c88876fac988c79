"""The demo: a corpus, the index users get now, two that might follow it, and the gate's verdict on each.

The gate runs as its users run it, `python -m app run`, with nothing but settings to tell it where it is.
"""

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from infra.local.build import Chunker, Recipe, Target, build, read_corpus

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).with_name("corpus")
GOLDEN = "handbook"

BASELINE = "handbook-v1"
RECIPES: Mapping[str, Recipe] = {
    # what users get now: pages of one length with a quarter of overlap, as the portal's wizard cuts them
    BASELINE: Recipe(
        chunker=Chunker.FIXED, size=256, overlap=64, model="wordllama-256", analyzer="en.lucene"
    ),
    # much shorter chunks for a cheaper prompt, a newer embedding model, and a definition typed anew, its analyzer lost
    "handbook-v2-quick": Recipe(
        chunker=Chunker.FIXED, size=64, overlap=0, model="all-minilm-l6-v2", analyzer="standard.lucene"
    ),
    # sections under their headings, short ones joined; tables with their header; a model made for retrieval; the
    # analyzer kept. The README tells how it came to these numbers
    "handbook-v3-careful": Recipe(
        chunker=Chunker.HEADINGS, size=256, least=64, model="bge-small-en-v1.5", analyzer="en.lucene"
    ),
}

_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_VERDICT_STATUS = (0, 1)  # PASS and FAIL; anything else is no verdict
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class DemoError(Exception):
    """The demo itself did not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the gate ended for one candidate; `run` is its run.json, None where it wrote none."""

    candidate: str
    status: int
    seconds: float
    report: Path
    run: Mapping[str, Any] | None

    def lines(self) -> Iterator[str]:
        if self.run is None:
            yield f"{self.candidate}: no verdict (exit status {self.status})"
            return
        yield f"{self.candidate}: {self.run['verdict']} after {self.seconds:.0f} s"
        yield f"  {self.run['headline']}"
        for each in self.run["lost"]:
            marks = ", ".join([*(["critical"] if each["critical"] else []), *each["slice"]])
            yield f"  lost {each['id']} ({marks}): {each['question']}"
        yield f"  {self.report / 'report.html'}"


def demo(folder: Path) -> int:
    """Exit status 0 when both candidates got a verdict, whichever; 2 otherwise. `BuildError`, `DemoError`.

    `folder` keeps indexes, scores, runs and reports; a second demo over it finds them.
    """
    started = time.monotonic()
    folder = folder.resolve()
    with _ending_by_exception(), _stand_in(folder) as target:
        documents = read_corpus(CORPUS)
        for name, recipe in RECIPES.items():
            build(target, name, documents, recipe, _say)
        endings = [_gated(name, target, folder) for name in RECIPES if name != BASELINE]
    _say("")
    for ending in endings:
        for line in ending.lines():
            print(line)
    print(f"{time.monotonic() - started:.0f} s in all; the runs are kept in {folder / 'runs'}", flush=True)
    return 0 if all(ending.status in _VERDICT_STATUS for ending in endings) else 2


def _gated(candidate: str, target: Target, folder: Path) -> Ending:
    report = folder / "reports" / candidate
    (report / "run.json").unlink(missing_ok=True)  # an earlier demo's must not speak for this run
    command = ["run", "--candidate", candidate, "--baseline", BASELINE, "--golden", GOLDEN]
    _say(f"\n$ python -m app {' '.join(command)}")
    started = time.monotonic()
    status = _run(
        [sys.executable, "-m", "app", *command, "--out", str(report)],
        {
            "GATE_SEARCH_ENDPOINT": target.endpoint,
            "GATE_SEARCH_API_KEY": target.api_key,
            "GATE_RUNS_URL": (folder / "runs").as_uri(),
        },
    )
    try:
        run = json.loads((report / "run.json").read_text("utf-8"))
    except FileNotFoundError:
        run = None
    seconds = time.monotonic() - started
    return Ending(candidate=candidate, status=status, seconds=seconds, report=report, run=run)


def _run(command: Sequence[str], settings: Mapping[str, str]) -> int:
    """The exit status. Of the gate's settings it gets these and no others."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("GATE_")}
    process = subprocess.Popen(command, cwd=ROOT, env={**others, **settings})  # noqa: S603 - our own program
    try:
        return process.wait()
    finally:
        _stop(process)


@contextmanager
def _stand_in(folder: Path) -> Iterator[Target]:
    """The search stand-in on a free port, stopped at the end. Its complaints go to stand-in.log."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        complaints = (folder / "stand-in.log").open("w", encoding="utf-8")
    except OSError as error:
        raise DemoError(f"cannot write to {folder}: {error.strerror}") from error
    key = secrets.token_urlsafe(16)
    command = [
        sys.executable,
        "-m",
        "infra.local",
        "serve",
        "--port",
        "0",
        "--folder",
        str(folder / "search"),
    ]
    with complaints:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            cwd=ROOT,
            env={**os.environ, "LOCAL_SEARCH_API_KEY": key},
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            start_new_session=True,  # Ctrl-C ends the gate first, which may still have a question to ask
        )
        try:
            yield Target(endpoint=_address(process, folder / "stand-in.log"), api_key=key)
        finally:
            _stop(process)
            if process.stdout is not None:
                process.stdout.close()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Where it listens, once it does."""
    if process.stdout is None:
        raise DemoError("the stand-in has no standard output")
    ready, _, _ = select.select([process.stdout], [], [], _READY_SECONDS)
    line = process.stdout.readline() if ready else ""
    if "http://" not in line:
        raise DemoError(f"the search stand-in did not start: {log.read_text('utf-8').strip()[-500:] or log}")
    return line.split()[-1]


def _stop(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _ending_by_exception() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind the demo, so that it stops what it has started."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in _ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
