"""The demo: a corpus, the index users get now, two that might follow it, the gate's verdict on each, and one that
goes live and back.

The gate runs as its users run it, `python -m app …`, with nothing but settings to tell it where it is.
"""

import json
import os
import re
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

import httpx
from azure.appconfiguration import AzureAppConfigurationClient, ConfigurationSetting
from azure.core.exceptions import ResourceNotFoundError

from infra.local.build import Chunker, Recipe, Target, build, read_corpus
from infra.local.configuration import Account

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

_LIVE_KEY = "search:live-index"
_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_VERDICT_STATUS = (0, 1)  # PASS and FAIL; anything else is no verdict
_DONE, _REFUSED = 0, 1  # exit statuses of the commands of operations
_SERVES = re.compile(r"gate serves (http://[\w.:\[\]]+)")
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
    """Exit status 0 when both candidates got a verdict, whichever, and one of them went live and back as it should;
    2 otherwise. `BuildError`, `DemoError`.

    `folder` keeps indexes, scores, runs and reports; a second demo over it finds them.
    """
    started = time.monotonic()
    folder = folder.resolve()
    with _ending_by_exception(), _stand_in(folder) as (target, configuration):
        documents = read_corpus(CORPUS)
        for name, recipe in RECIPES.items():
            build(target, name, documents, recipe, _say)
        endings = [_gated(name, target, folder) for name in RECIPES if name != BASELINE]
        _say("")
        for ending in endings:
            for line in ending.lines():
                print(line, flush=True)
        judged = all(ending.status in _VERDICT_STATUS for ending in endings)
        released = judged and _released(endings, target, configuration, folder)
    print(f"{time.monotonic() - started:.0f} s in all; the runs are kept in {folder / 'runs'}", flush=True)
    return 0 if released else 2


def _gated(candidate: str, target: Target, folder: Path) -> Ending:
    report = folder / "reports" / candidate
    (report / "run.json").unlink(missing_ok=True)  # an earlier demo's must not speak for this run
    command = ["run", "--candidate", candidate, "--baseline", BASELINE, "--golden", GOLDEN]
    _say(f"\n$ python -m app {' '.join(command)}")
    started = time.monotonic()
    status = _run(
        [sys.executable, "-m", "app", *command, "--out", str(report)],
        _settings(target, folder),
    )
    try:
        run = json.loads((report / "run.json").read_text("utf-8"))
    except FileNotFoundError:
        run = None
    seconds = time.monotonic() - started
    return Ending(candidate=candidate, status=status, seconds=seconds, report=report, run=run)


def _settings(target: Target, folder: Path) -> Mapping[str, str]:
    return {
        "GATE_SEARCH_ENDPOINT": target.endpoint,
        "GATE_SEARCH_API_KEY": target.api_key,
        "GATE_RUNS_URL": (folder / "runs").as_uri(),
    }


def _run(command: Sequence[str], settings: Mapping[str, str]) -> int:
    """The exit status. Of the gate's settings it gets these and no others."""
    process = subprocess.Popen(command, cwd=ROOT, env=_only(settings))  # noqa: S603 - our own program
    try:
        return process.wait()
    finally:
        _stop(process)


def _only(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of a program that gets these of the gate's settings and no others."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("GATE_")}
    return {**others, **settings}


# going live ----------------------------------------------------------------------------------------------


def _released(endings: Sequence[Ending], target: Target, configuration: str, folder: Path) -> bool:
    """Whether all went as it should: a candidate is promoted, what was judged against the index before is refused
    from then on, and a roll back is drilled and done.
    """
    runs = sorted((ending.run for ending in endings if ending.run), key=lambda run: run["verdict"] != "PASS")
    best, *others = runs
    connection = Account().connection_string(configuration)
    _name_live(connection)
    settings = {
        **_settings(target, folder),
        "GATE_APPCONFIG_CONNECTION_STRING": connection,
        "GATE_LIVE_KEY": _LIVE_KEY,
        "GATE_PROPAGATION_SECONDS": "1",
    }
    with _serving(settings, folder / "gate.log") as url:
        if best["verdict"] != "PASS":
            _override(url, best)
        steps = (
            (("live",), _DONE),
            (("promote", best["id"]), _DONE),
            (("live",), _DONE),
            *((("promote", other["id"]), _REFUSED) for other in others),
            (("rollback", "--drill"), _DONE),
            (("rollback", "--reason", "the end of the demo"), _DONE),
            (("live", "--name"), _DONE),
            (("audit", "verify"), _DONE),
        )
        for command, wanted in steps:
            status = _typed(url, *command)
            if status != wanted:
                _say(f"that ended with status {status}, and should have with {wanted}")
                return False
    return True


def _typed(url: str, *command: str) -> int:
    words = " ".join(f'"{word}"' if " " in word else word for word in command)
    _say(f"\n$ python -m app {words} --service {url}")
    return _run([sys.executable, "-m", "app", *command, "--service", url], {})


def _name_live(connection: str) -> None:
    """What somebody did by hand when the baseline was built: the key names it."""
    with AzureAppConfigurationClient.from_connection_string(connection) as client:
        try:
            named = client.get_configuration_setting(_LIVE_KEY)
        except ResourceNotFoundError:
            named = None
        if named is None or named.value != BASELINE:
            client.set_configuration_setting(ConfigurationSetting(key=_LIVE_KEY, value=BASELINE))


def _override(url: str, run: Mapping[str, Any]) -> None:
    """What a person would decide on the run's page: that what it lost may be lost."""
    names = {
        kind: sorted({name for reason in run["reasons"] for name in reason[kind]})
        for kind in ("questions", "documents")
    }
    _say(f"\nno candidate passed: {run['id']} is overridden in all that it lost, for the sake of the demo")
    override = {**names, "reason": "none passed in this demo", "watch": "nobody: it is rolled back at once"}
    answer = httpx.post(f"{url}/v1/runs/{run['id']}/overrides", json=override, trust_env=False)
    if not answer.is_success:
        raise DemoError(f"the override was refused: {answer.text}")


@contextmanager
def _serving(settings: Mapping[str, str], log: Path) -> Iterator[str]:
    """The gate's service on a free port, stopped at the end. What it logs goes to that file."""
    command = [sys.executable, "-m", "app", "serve"]
    _say("\n$ python -m app serve")
    with log.open("wb") as written:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            cwd=ROOT,
            env=_only({**settings, "GATE_PORT": "0"}),
            stdout=written,
            stderr=written,
            start_new_session=True,  # Ctrl-C ends the command first
        )
    try:
        yield _served_at(process, log)
    finally:
        _stop(process)


def _served_at(process: subprocess.Popen[Any], log: Path) -> str:
    until = time.monotonic() + _READY_SECONDS
    while process.poll() is None and time.monotonic() < until:
        found = _SERVES.search(log.read_text("utf-8"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise DemoError(f"the gate's service did not start: {log.read_text('utf-8').strip()[-500:] or log}")


# stand-ins -----------------------------------------------------------------------------------------------


@contextmanager
def _stand_in(folder: Path) -> Iterator[tuple[Target, str]]:
    """The stand-ins on free ports: that of search, and the address of the configuration's. Stopped at the end;
    complaints go to stand-in.log.
    """
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
            searched, configured = _addresses(process, folder / "stand-in.log")
            yield Target(endpoint=searched, api_key=key), configured
        finally:
            _stop(process)
            if process.stdout is not None:
                process.stdout.close()


def _addresses(process: subprocess.Popen[str], log: Path) -> tuple[str, str]:
    """Where search and configuration listen, once they do: a line each, one right after the other."""
    if process.stdout is None:
        raise DemoError("the stand-ins have no standard output")
    ready, _, _ = select.select([process.stdout], [], [], _READY_SECONDS)
    lines = [process.stdout.readline() for _ in range(2)] if ready else []
    if not lines or not all("http://" in line for line in lines):
        raise DemoError(f"the stand-ins did not start: {log.read_text('utf-8').strip()[-500:] or log}")
    searched, configured = (line.split()[-1] for line in lines)
    return searched, configured


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
