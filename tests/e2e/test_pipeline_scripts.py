"""S15 to S17 by what is shipped: the pipelines' scripts and the README's snippets, run as a build agent runs them, with
the real command line before the running service. Only `az` is a stand-in.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import DOCUMENTS, PLAIN, ROOT, Gate, Served, junit, questions, until
from tests.e2e.proxies import Act, Passing, Proxy
from tests.scripted import Chunk, Fault

SCRIPTS = ROOT / "infra" / "pipelines"
POLICY = f"[policy]\n{PLAIN}"
TOKEN = "header.payload.signature"
STATUS = {"PASS": 0, "FAIL": 1, "ERROR": 2}

# What a step does with a script (or a snippet): runs it, or runs it into a pipe, as templates are often changed to.
PLAINLY = "{}"
INTO_TEE = "set -o pipefail; {} | tee log.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    status: int
    output: str

    @property
    def commands(self) -> list[str]:
        """What the agent would obey."""
        return re.findall(r"##vso\[.*", self.output)

    @property
    def outputs(self) -> dict[str, str]:
        return dict(re.findall(r"##vso\[task.setvariable variable=(\w+);isOutput=true\](.*)", self.output))


@dataclass(slots=True, kw_only=True)
class Agent:
    """A build agent with this repository's `gate`, and an `az` that gives tokens which live so many seconds."""

    gate: Gate
    url: str
    token_seconds: int = 3600
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.program("gate", f'exec "{sys.executable}" -m app "$@"')
        self.program(
            "az",
            f"echo asked >>'{self.folder}/az.calls'\n"
            f'printf \'{{"accessToken": "{TOKEN}", "expires_on": %s}}\' "$(($(date +%s) + {self.token_seconds}))"',
        )

    @property
    def folder(self) -> Path:
        return self.gate.folder

    @property
    def signed_in(self) -> int:
        log = self.folder / "az.calls"
        return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0

    def program(self, name: str, body: str) -> None:
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/usr/bin/env bash\n{body}\n", encoding="utf-8")
        file.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """As the steps of infra/pipelines/gate.yml set it."""
        return {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "GATE_SERVICE_URL": self.url,
            "GATE_SERVICE_SCOPE": "api://gate/.default",
            "CANDIDATE_INDEX": "kb-v2",
            "GOLDEN_SETS": "hr",
            "CHANGE_KINDS": "chunking",
            "BUILD_ID": "4711",
            "STAGE_ATTEMPT": "1",
            "BUILD_URL": "https://dev.example/build?id=4711",
            "COMMIT": "0123abc",
            "WAIT_SECONDS": "60",
            "REPORTS": str(self.folder / "reports"),
            "UNDER_WAY": str(self.folder / "under-way"),
            "JOIN_SECONDS": "3",
            **self.variables,
        }

    def start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> Ended:
        with self.start(command) as process:
            output, _ = process.communicate(timeout=90)
            return Ended(status=process.returncode, output=output)

    def script(self, name: str, how: str = PLAINLY) -> Ended:
        return self.run(how.format(f"'{SCRIPTS / name}'"))

    def record(self, golden_set: str = "hr") -> dict[str, Any]:
        text = (self.folder / "reports" / golden_set / "run.json").read_text(encoding="utf-8")
        record: dict[str, Any] = json.loads(text)
        return record


@pytest.fixture
def deployed(gate: Gate) -> Gate:
    """With two deployed sets; kb-v1, which the scripts leave out, is the baseline that `served` has them say."""
    (gate.folder / "golden").mkdir()
    for name in ("hr", "handbook"):
        gate.golden(f"golden/{name}", questions("q1", "q2"), POLICY)
    return gate
