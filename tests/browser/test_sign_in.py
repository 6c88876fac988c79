"""A person signs in with a real browser at a real OpenID provider, decides, and signs out."""

import fcntl
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Page, expect

from tests.azurite import KEY
from tests.directory import CLIENT, SECRET, SESSION_KEY, TENANT
from tests.e2e.programs import SEARCH_KEY, Gate, Served, lines, questions
from tests.scripted import ScriptedSearch

VERSION = "9.13.3"
_HERE = Path(__file__).parent
_HOME = _HERE.parents[1] / ".tools" / "oidc-provider"
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def modules() -> Path:
    """Where oidc-provider is; installed once by npm, in a folder that git ignores."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        _give_up("the OpenID provider needs node and npm on the PATH")
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = _HOME / f"installed-{VERSION}"
        if not done.exists():
            options = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
            command = ["npm", "install", "--prefix", str(_HOME), *options, f"oidc-provider@{VERSION}"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                _give_up(f"oidc-provider cannot be installed: {result.stderr.strip()[-500:]}")
            done.touch()
    return _HOME / "node_modules"


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("CI") or os.environ.get("TF_BUILD"):
        pytest.fail(reason)
    pytest.skip(f"NOT TESTED IN A BROWSER: {reason}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def provider(modules: Path, tmp_path: Path) -> Iterator[tuple[int, str]]:
    """The port that the gate must serve at, and the provider's authority."""
    ours, theirs = _free_port(), _free_port()
    back = f"http://127.0.0.1:{ours}/sign-in/callback"
    program = str(_HERE / "provider.mjs")
    with (
        (tmp_path / "provider-err").open("wb") as said,
        subprocess.Popen(
            ["node", program, str(modules), str(theirs), TENANT, CLIENT, SECRET, back],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("listens "), (tmp_path / "provider-err").read_text()
            yield ours, f"http://127.0.0.1:{theirs}"
        finally:
            process.terminate()


@pytest.fixture
def served(provider: tuple[int, str], azurite_url: str, tmp_path: Path) -> Iterator[tuple[Served, str]]:
    """The service, and the address of a run there that lost a question."""
    port, authority = provider
    with ScriptedSearch(key=SEARCH_KEY) as search:
        search.index("kb-v1", otherwise=["d1"])
        search.index("kb-v2", otherwise=["x"])
        gate = Gate(folder=tmp_path, search=search)
        gate.environment |= {
            "GATE_RUNS_URL": f"{azurite_url}/runs-{uuid.uuid4().hex[:12]}",
            "GATE_RUNS_KEY": KEY,
        }
        golden = gate.golden(
            "hr", lines(questions("q1")), toml='[query]\nmode = "keyword"\nsemantic = false\n'
        )
        ended, record = gate.record("--golden", golden)
        assert ended.status == 1, ended.said
        sign_in = {
            "GATE_AUTH": "entra",
            "GATE_ENTRA_TENANT_ID": TENANT,
            "GATE_ENTRA_AUDIENCE": CLIENT,
            "GATE_ENTRA_AUTHORITY": authority,
            "GATE_ENTRA_CLIENT_SECRET": SECRET,
            "GATE_SESSION_KEYS": SESSION_KEY,
            "GATE_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "GATE_PORT": str(port),
        }
        with gate.serving(**sign_in) as found:
            yield found, f"{found.url}/runs/{record['id']}"


def test_a_person_signs_in_decides_and_signs_out(look: Open, served: tuple[Served, str]) -> None:
    service, address = served
    page = look(f"{address}?text=q1")
    page.locator("input[name=login]").fill("ada")
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(f"{address}?text=q1")
    expect(page.get_by_text("Signed in as Ada Lovelace")).to_be_visible()

    all_cookies = page.context.cookies(service.url)  # the provider's, too: a cookie knows no port
    (cookie,) = [each for each in all_cookies if each["name"].startswith("gate-")]
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("gate-session", True, "Lax")
    assert "gate-" not in page.evaluate("document.cookie")

    page.get_by_label("Real loss").first.check()
    page.get_by_role("button", name="Keep this decision").first.click()
    expect(page.get_by_text("Decided: real loss")).to_be_visible()
    expect(page.get_by_text("Ada Lovelace [object-of-ada]").first).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Signed out")).to_be_visible()
    offered = page.get_by_role("link", name="Sign out there, too").get_attribute("href")
    assert offered is not None
    assert f"/{TENANT}/v2.0/" in offered
    assert page.request.get(f"{service.url}/v1/runs").status == 401
    assert service.client.get("/v1/runs").status_code == 401
    assert "eyJ" not in service.process.err
