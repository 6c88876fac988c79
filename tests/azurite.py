"""Azurite, Microsoft's emulator of blob storage, for the session: `azurite_url` names its account.

Installed once by npm, in a folder that git ignores. Where node is missing its tests are skipped, loudly; in CI
they fail instead.
"""

import fcntl
import os
import queue
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

import pytest

VERSION = "3.37.0"
KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # known to all
)
_ACCOUNT = "devstoreaccount1"
_HOME = Path(__file__).parent.parent / ".tools" / "azurite"
_PACKAGE = _HOME / "node_modules" / "azurite"
_START_SECONDS = 60.0
_LISTENS = "Azurite Blob service successfully listens on "


@pytest.fixture(scope="session")
def azurite_url() -> Iterator[str]:
    """`http://127.0.0.1:<port>/devstoreaccount1`, without a slash at the end; `KEY` opens it."""
    try:
        program = _installed()
    except _UnavailableError as reason:
        _give_up(str(reason))
    with _running(program) as url:
        yield url


@contextmanager
def emulator() -> Iterator[str]:
    """The same for programs that are no tests."""
    with _running(_installed()) as url:
        yield url


@contextmanager
def _running(program: Path) -> Iterator[str]:
    with subprocess.Popen(
        [
            *("node", str(program), "--skipApiVersionCheck", "--disableTelemetry", "--silent"),
            *(
                "--inMemoryPersistence",
                "--extentMemoryLimit",
                "256",
                "--blobHost",
                "127.0.0.1",
                "--blobPort",
                "0",
            ),
        ],
        cwd=_HOME,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield f"{_address(process)}/{_ACCOUNT}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def container_url(azurite_url: str) -> str:
    """A container of the test's own, which is not there yet."""
    return f"{azurite_url}/test-{uuid.uuid4().hex}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say aloud what was skipped; a quiet run would show a letter."""
    for reason in sorted(_given_up):
        terminalreporter.write_line(f"NOT TESTED ON BLOB STORAGE: {reason}", red=True, bold=True)


_given_up: set[str] = set()


class _UnavailableError(Exception):
    pass


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("CI") or os.environ.get("TF_BUILD"):
        pytest.fail(reason)
    _given_up.add(reason)
    pytest.skip(f"NOT TESTED ON BLOB STORAGE: {reason}")


def _installed() -> Path:
    """Its program; installs it first, one process at a time."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise _UnavailableError("Azurite needs node and npm on the PATH")
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = _HOME / f"installed-{VERSION}"
        if not done.exists():
            options = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
            command = ["npm", "install", "--prefix", str(_HOME), *options, f"azurite@{VERSION}"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise _UnavailableError(f"Azurite cannot be installed: {result.stderr.strip()[-500:]}")
            done.touch()
    return _PACKAGE / "dist" / "src" / "blob" / "main.js"


def _address(process: subprocess.Popen[str]) -> str:
    """Where it says that it listens; its output is read on, so that it never waits for a reader."""
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_pass_on, args=(process.stdout, lines), daemon=True).start()
    seen: list[str] = []
    while True:
        try:
            line = lines.get(timeout=_START_SECONDS)
        except queue.Empty:
            line = None
        if line is None:
            pytest.fail(f"Azurite did not start: {''.join(seen)}")
        seen.append(line)
        if line.startswith(_LISTENS):
            return line.removeprefix(_LISTENS).strip()


def _pass_on(output: IO[str], lines: "queue.Queue[str | None]") -> None:
    for line in output:
        lines.put(line)
    lines.put(None)
