"""The process: what it keeps over a restart, how it ends, and what it says when it cannot begin."""

import os
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest

from infra.local import server
from infra.local.__main__ import serve as serve_command
from infra.local.faults import Fault
from infra.local.models import Models
from tests.local.conftest import KEY, VERSION, StandIn, definition

QUESTION = "how long can new mothers stay at home"


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "infra.local", "serve", "--api-key", KEY, *options],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    body = {
        "search": QUESTION,
        "queryType": "semantic",
        "captions": "extractive",
        "vectorQueries": [{"kind": "text", "text": QUESTION, "fields": "text_vector"}],
    }
    first = StandIn(folder=tmp_path).start()
    first.fill(definition("kept"))
    first.call("PUT", f"/aliases('live')?{VERSION}", {"name": "live", "indexes": ["kept"]})
    before = first.search("live", **body).json
    etags = [
        first.call("GET", f"/{path}?{VERSION}").json["@odata.etag"]
        for path in ("indexes/kept", "aliases/live")
    ]
    assert first.stop() == 0

    second = StandIn(folder=tmp_path).start()
    assert second.search("live", **body).json == before
    assert etags == [
        second.call("GET", f"/{path}?{VERSION}").json["@odata.etag"]
        for path in ("indexes/kept", "aliases/live")
    ]
    second.call("DELETE", f"/aliases('live')?{VERSION}")
    second.call("DELETE", f"/indexes('kept')?{VERSION}")
    second.call("PUT", f"/indexes('kept')?{VERSION}", definition("kept"))
    assert second.keys("kept", search="*") == [], "an index made anew is empty"
    assert second.stop() == 0


def test_it_ends_soon_in_the_middle_of_ranking(tmp_path: Path) -> None:
    stand_in = StandIn(folder=tmp_path).start()
    stand_in.call("POST", f"/indexes?{VERSION}", definition("busy"))
    rows = [{"chunk_id": f"{number}", "chunk": f"{number} words " * 200} for number in range(50)]
    stand_in.call("POST", f"/indexes('busy')/docs/index?{VERSION}", {"value": rows})
    with ThreadPoolExecutor(4) as pool:
        asked = [
            pool.submit(stand_in.search, "busy", search=f"words {number}", queryType="semantic")
            for number in range(4)
        ]
        while stand_in.counts().get("busy", {}).get("search", 0) < 4:
            time.sleep(0.05)
        started = time.monotonic()
        assert stand_in.stop() == 0
        assert time.monotonic() - started < 4, "each of the four would take seconds"
        for question in asked:
            assert isinstance(question.exception(), OSError) or question.result().status == 503


def test_it_listens_soon(tmp_path: Path) -> None:
    started = time.monotonic()
    stand_in = StandIn(folder=tmp_path).start()
    took = time.monotonic() - started
    assert stand_in.call("GET", "/_ready", key=None).status == 200
    assert stand_in.stop() == 0
    assert took < 10, "under two seconds on an idle machine; models load when first used"


def test_a_taken_port_is_one_line_and_exit_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = serve("--port", str(taken.getsockname()[1]), "--folder", str(tmp_path))
    assert ended.returncode == 2
    assert re.fullmatch(r"cannot listen on 127\.0\.0\.1:\d+: [^\n]+\n", ended.stderr)


def test_a_taken_folder_is_one_line_and_exit_2(running: StandIn) -> None:
    ended = serve("--port", "0", "--folder", str(running.folder))
    assert ended.returncode == 2
    assert re.fullmatch(r"cannot use the folder [^\n]+\n", ended.stderr)


def test_the_page_names_every_option_operation_and_fault() -> None:
    page = (Path(server.__file__).parent / "README.md").read_text(encoding="utf-8")
    options = [option for parameter in serve_command.params for option in parameter.opts]
    effects = [part.name for part in fields(Fault)]
    models = Models(threads=1).deployments
    assert [word for word in (*options, *effects, *models) if word not in page] == []


@pytest.mark.parametrize("command", [["--help"], ["serve", "--help"]])
def test_the_command_line_explains_itself(command: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "infra.local", *command],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert "serve" in ended.stdout
