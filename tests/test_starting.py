"""`gate serve` tells everything that keeps it from starting, in one list."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app import command
from app.domain.errors import InputError
from app.main import starting_faults
from app.settings import read_settings

SETTINGS = {
    "GATE_SEARCH_ENDPOINT": "https://contoso.search.windows.net",
    "GATE_AUTH": "entra",
    "GATE_ENTRA_TENANT_ID": "72f988bf-86f1-41af-91ab-2d7cd011db47",
    "GATE_ENTRA_AUDIENCE": "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    "GATE_PUBLIC_URL": "https://gate.example",
    "GATE_SESSION_KEYS": "k" * 32,
    "GATE_RUNS_URL": "https://contoso.blob.core.windows.net/runs",
}


def told(monkeypatch: pytest.MonkeyPatch, **changes: str | None) -> dict[str, str]:
    """Every fault, by the variable that it names; {} where the service would start."""
    for name in list(os.environ):
        if name.upper().startswith("GATE_"):
            monkeypatch.delenv(name)
    for name, value in {**SETTINGS, **changes}.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    try:
        read_settings(lambda settings: starting_faults(settings, os.environ))
    except InputError as error:
        faults = error.faults
    else:
        return {}
    assert len({fault.where for fault in faults}) == len(faults), "each is told once"
    return {fault.where: fault.message for fault in faults}


def test_what_is_right_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch) == {}


def test_all_that_is_wrong_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hr.jsonl").touch()
    found = told(
        monkeypatch,
        GATE_SEARCH_ENDPOINT="contoso",  # malformed
        GATE_PORT="99999",
        GATE_RUNS_URL="http://127.0.0.1:10000/devstoreaccount1/runs",  # needs a key
        GATE_SERVICE_URL="http://gate.example",  # would carry a token in clear
        GATE_SERVICE_TOKEN="token",
        GATE_ENTRA_TENANT_ID=None,  # missing
        GATE_LIVE_KEY="search:live-index",  # without a store
        GATE_MAX_CONCURENCY="2",  # unknown
        GATE_GOLDEN_DIR=str(tmp_path),
        GATE_REQUIRED_SETS="hr,it",  # not deployed
        APPLICATIONINSIGHTS_CONNECTION_STRING="nonsense",
    )
    assert found.keys() == {
        "GATE_SEARCH_ENDPOINT",
        "GATE_PORT",
        "GATE_RUNS_URL",
        "GATE_SERVICE_URL",
        "GATE_ENTRA_TENANT_ID",
        "GATE_APPCONFIG_ENDPOINT",
        "GATE_MAX_CONCURENCY",
        "GATE_REQUIRED_SETS",
        "APPLICATIONINSIGHTS_CONNECTION_STRING",
    }
    assert found["GATE_MAX_CONCURENCY"].endswith("did you mean GATE_MAX_CONCURRENCY?")
    assert found["GATE_REQUIRED_SETS"].endswith(f"{tmp_path}: it")


@pytest.mark.parametrize("name", ["GATE_SEARCH_ENDPOINT", "GATE_RUNS_URL", "GATE_ENTRA_TENANT_ID"])
def test_what_is_malformed_is_not_told_to_be_missing_as_well(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found = told(monkeypatch, **{name: "x y"})
    assert found.keys() == {name}
    assert "is not set" not in found[name]


def test_the_service_loads_nothing_that_it_does_not_serve_with() -> None:
    unwanted = ("httpx", "rich", "azure.identity", "azure.storage.blob", "azure.appconfiguration", "authlib")
    program = (
        "import sys, app.command, app.web.api; from app.domain import schema; "
        f"print([name for name in {unwanted} if name in sys.modules], schema._made.cache_info().currsize)"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert told.stdout == "[] 0\n"


def test_an_answer_does_not_wait_until_its_caller_acknowledges_the_first_part_of_it() -> None:
    with command._listening("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
