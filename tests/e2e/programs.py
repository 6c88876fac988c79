"""The gate's programs as processes on loopback, before a scripted search service.

    gate = Gate(folder=tmp_path, search=search)        # fixture `gate`; `search` is a ScriptedSearch
    gate.golden("hr", questions("q1", "q2"), toml=…)   # writes hr.jsonl, and hr.toml; gives the .jsonl's path
    ended = gate.run("--golden", path, …)              # `python -m app run --candidate kb-v2 --baseline kb-v1 …`
    with gate.command("run", …) as process: …          # any command, while it runs
    with gate.serving() as service: …                  # `python -m app serve` on a free port, ready

Every process gets a small environment of its own (`Gate.environment`); keywords set further variables, None
removes one. What a process writes goes to files, so that it can be read at any time.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx

from tests.scripted import ScriptedSearch

ROOT = Path(__file__).parent.parent.parent
SEARCH_KEY = "3fK9sLq2VbN7xTz1Wc8RyPm4JhGd6AeU5oXiQk0BnMvZtSgCw7Df"
PLAIN = "noise_runs = 0\nconfirm_runs = 0\n"  # of [policy]: exactly two comparison queries a question
DOCUMENTS = ("run.json", "report.html", "report.md", "junit.xml")
_SECONDS = 30.0
_RUN = re.compile(r"^run (?P<id>[\w-]+)", re.MULTILINE)

Question = dict[str, Any]


def questions(*ids: str, **keys: Any) -> list[Question]:
    """A question of each id; its text is `about <id>`, its answer the document d1, unless `keys` say otherwise."""
    return [{"id": each, "question": f"about {each}", "answers": ["d1"], **keys} for each in ids]


def lines(of: Sequence[Question]) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in of)


def until(condition: Callable[[], object], what: str, seconds: float = _SECONDS) -> None:
    """Wait for it; fails with `what` when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a process left behind."""

    status: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.out.splitlines()[-1] if self.out else ""

    @property
    def said(self) -> str:
        return self.out + self.err

    def refused(self, *words: str) -> None:
        """It left no verdict, and said what to do: status 2, only `error:` and `warning:` lines, no traceback."""
        assert self.status == 2, self.said
        assert self.out == ""
        assert [line for line in self.err.splitlines() if not line.startswith(("error: ", "warning: "))] == []
        for word in words:
            assert word in self.err


@dataclass(slots=True, kw_only=True)
class Process:
    """A program that runs. `out` and `err` are what it has written so far."""

    popen: subprocess.Popen[bytes]
    out_file: Path
    err_file: Path

    @property
    def out(self) -> str:
        return self.out_file.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self.err_file.read_text(encoding="utf-8")

    @property
    def run_id(self) -> str:
        """The id of the first run that it says it works on; waits until it does."""
        until(
            lambda: _RUN.search(self.err) or self.popen.poll() is not None, "the run's id on standard error"
        )
        found = _RUN.search(self.err)
        assert found, self.err
        return found["id"]

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """As the kernel does when memory is short, or a platform when a host goes away."""
        self.popen.kill()

    def ended(self, seconds: float = _SECONDS) -> Ended:
        """Waits for its end."""
        status = self.popen.wait(seconds)
        return Ended(status=status, out=self.out, err=self.err)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The gate's service, running."""

    process: Process
    url: str
    client: httpx.Client

    @property
    def port(self) -> int:
        port = httpx.URL(self.url).port
        assert port is not None
        return port

    def start(self, key: str | None = None, **body: Any) -> dict[str, Any]:
        """A run, started over HTTP; compares kb-v2 with kb-v1 unless `body` says otherwise."""
        headers = {} if key is None else {"Idempotency-Key": key}
        content = {"candidate_index": "kb-v2", "baseline_index": "kb-v1", **body}
        response = self.client.post("/v1/runs", json=content, headers=headers)
        assert response.status_code == 202, response.text
        started: dict[str, Any] = response.json()
        return started

    def done(self, run_id: str) -> dict[str, Any]:
        """The record of the run, questions and all, when it is done."""
        response = self.client.get(f"/v1/runs/{run_id}", params={"wait": _SECONDS})
        assert response.status_code == 200, response.text
        assert response.json()["state"] == "done"
        record: dict[str, Any] = self.client.get(f"/v1/runs/{run_id}/run.json").json()
        return record


@dataclass(slots=True, kw_only=True)
class Gate:
    """The programs of one test. `folder` is where they are started; runs are kept in its `runs`."""

    folder: Path
    search: ScriptedSearch
    environment: dict[str, str] = field(default_factory=dict)
    patience: float = _SECONDS  # with a command
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "GATE_SEARCH_ENDPOINT": self.search.url,
            "GATE_SEARCH_API_KEY": SEARCH_KEY,
            "GATE_RUNS_URL": self.runs.as_uri(),
            "GATE_MAX_CONCURRENCY": "4",
            "GATE_SETTLE_SECONDS": "0",  # scripted indexes stand still
            **self.environment,
        }

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def kept(self) -> list[str]:
        """Ids of the runs in the folder."""
        return sorted(path.stem for path in self.runs.glob("status/*.json"))

    def read(self, folder: str) -> dict[str, Any]:
        """The record that a run wrote into that folder."""
        record: dict[str, Any] = json.loads((self.folder / folder / "run.json").read_text(encoding="utf-8"))
        return record

    def golden(self, name: str, of: Sequence[Question] | str, toml: str | None = None) -> str:
        """A golden set beside the others; the path of its .jsonl."""
        path = self.folder / f"{name}.jsonl"
        path.write_text(of if isinstance(of, str) else lines(of), encoding="utf-8")
        if toml is not None:
            path.with_suffix(".toml").write_text(toml, encoding="utf-8")
        return str(path)

    @contextmanager
    def command(self, *arguments: str, **environment: str | None) -> Iterator[Process]:
        """`python -m app …`, until the block ends."""
        number = next(self._numbers)
        out_file, err_file = self.folder / f"out-{number}", self.folder / f"err-{number}"
        with out_file.open("wb") as out, err_file.open("wb") as err:
            popen = subprocess.Popen(
                [sys.executable, "-m", "app", *arguments],
                cwd=self.folder,
                env=_changed(self.environment, environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        with popen:
            try:
                yield Process(popen=popen, out_file=out_file, err_file=err_file)
            finally:
                popen.kill()

    def ended(self, *arguments: str, **environment: str | None) -> Ended:
        """`python -m app …`, to its end."""
        with self.command(*arguments, **environment) as process:
            return process.ended(self.patience)

    def together(self, *commands: Sequence[str], **environment: str | None) -> list[Ended]:
        """Several commands at the same time, to their ends."""
        with ExitStack() as stack:
            running = [stack.enter_context(self.command(*each, **environment)) for each in commands]
            return [each.ended() for each in running]

    def run(self, *arguments: str, **environment: str | None) -> Ended:
        """`gate run` of kb-v2 against kb-v1."""
        return self.ended(*RUN, *arguments, **environment)

    def record(self, *arguments: str, **environment: str | None) -> tuple[Ended, dict[str, Any]]:
        """`gate run` with `--out`, and the record that it wrote."""
        out = f"record-{next(self._numbers)}"
        ended = self.run(*arguments, "--out", out, **environment)
        assert (self.folder / out / "run.json").exists(), ended.said
        return ended, self.read(out)

    @contextmanager
    def serving(self, **environment: str | None) -> Iterator[Served]:
        """`gate serve`, ready; on a free port unless GATE_PORT says which."""
        with self.command("serve", **{"GATE_PORT": "0", **environment}) as process:
            until(lambda: "gate serves " in process.err or process.popen.poll() is not None, "the service")
            assert process.popen.poll() is None, process.err
            url = re.findall(r"gate serves (http://[\w.:]+)", process.err)[0]
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                client.get("/healthz").raise_for_status()
                yield Served(process=process, url=url, client=client)


RUN = ("run", "--candidate", "kb-v2", "--baseline", "kb-v1")


def ids(listed: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ids of a lost or gained list, or of reasons' codes."""
    return [each["id"] if "id" in each else each["code"] for each in listed]


def outcomes(record: Mapping[str, Any]) -> dict[str, str]:
    return {each["id"]: each["outcome"] for each in record["questions"]}


def junit(folder: Path) -> ET.Element:
    """The folder's JUnit report, read by a strict parser."""
    return ET.fromstring((folder / "junit.xml").read_bytes())  # noqa: S314 — our own document


def _changed(environment: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**environment, **changes}.items() if value is not None}
