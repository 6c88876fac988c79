"""A headless Chromium, and axe-core, which looks for what keeps people out.

Where either is missing the tests are skipped, loudly; in CI they fail instead.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.served import Served, serving

AXE_VERSION = "4.14.1"
_HOME = Path(__file__).parents[2] / ".tools" / "axe"
_TIME = 15_000  # milliseconds
_NAMES = "MAP *.test 127.0.0.1"  # names that are not localhost, which browsers trust more
_given_up: set[str] = set()

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM_PATH", "/usr/bin/chromium")
    if not Path(path).exists():
        _give_up(f"there is no Chromium at {path}: install it, or name it in CHROMIUM_PATH")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=path, args=["--disable-dev-shm-usage", f"--host-resolver-rules={_NAMES}"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core; installed once by npm, in a folder that git ignores."""
    if shutil.which("npm") is None:
        _give_up("axe-core needs npm on the PATH")
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = _HOME / f"installed-{AXE_VERSION}"
        if not done.exists():
            options = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
            command = ["npm", "install", "--prefix", str(_HOME), *options, f"axe-core@{AXE_VERSION}"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                _give_up(f"axe-core cannot be installed: {result.stderr.strip()[-500:]}")
            done.touch()
    return (_HOME / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as found:
        yield found


@pytest.fixture
def look(browser: Browser) -> Iterator[Open]:
    """Opens an address in a window of its own; the options are those of a browser context."""
    contexts = []

    def opened(address: str, *, width: int = 1440, **options: object) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)  # type: ignore[arg-type] # options of a context, whichever
        contexts.append(context)
        context.set_default_timeout(_TIME)
        page = context.new_page()
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say aloud what was skipped; a quiet run would show a letter."""
    for reason in sorted(_given_up):
        terminalreporter.write_line(f"NOT TESTED IN A BROWSER: {reason}", red=True, bold=True)


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("CI") or os.environ.get("TF_BUILD"):
        pytest.fail(reason)
    _given_up.add(reason)
    pytest.skip(f"NOT TESTED IN A BROWSER: {reason}")
