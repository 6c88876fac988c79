"""S15 to S17 by what is shipped: the pipelines' scripts and the README's snippets, run as a build agent runs them, with
the real command line before the running service. Only `az` is a stand-in.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from infra.local import configuration
from tests import live_places
from tests.e2e.programs import DOCUMENTS, PLAIN, ROOT, Gate, Served, junit, questions, until
from tests.e2e.proxies import Proxy
from tests.scripted import Chunk, Fault

SCRIPTS = ROOT / "infra" / "pipelines"
POLICY = f"[policy]\n{PLAIN}"
TOKEN = "header.payload.signature"
STATUS = {"PASS": 0, "FAIL": 1, "ERROR": 2}

# What a step does with a script (or a snippet): runs it, or runs it into a pipe, as templates are often changed to.
PLAINLY = "{}"
INTO_TEE = "set -o pipefail; {} | tee log.txt"
WAYS = (PLAINLY, INTO_TEE)


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
            output, _ = process.communicate(timeout=200)
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


@contextmanager
def serving(gate: Gate, **environment: str) -> Iterator[Served]:
    """The service, with kb-v1 as what is live."""
    gate.search.alias("live", "kb-v1")
    with gate.serving(GATE_LIVE_ALIAS="live", **environment) as service:
        yield service


def make(gate: Gate, verdict: str) -> None:
    """Let a run of the sets come to that verdict."""
    match verdict:
        case "FAIL":
            gate.search.answer("kb-v2", "about q1", ["x"] * 8)
        case "ERROR":
            gate.search.fault("kb-v2", Fault(status=503), question="about q1")


@pytest.mark.parametrize("verdict", STATUS)
def test_s17_the_gate_script_ends_with_the_verdict(deployed: Gate, verdict: str) -> None:
    make(deployed, verdict)
    with serving(deployed) as service:
        agent = Agent(gate=deployed, url=service.url)
        ended, piped = (agent.script("gate.sh", how) for how in WAYS)
    for each in (ended, piped):
        assert each.status == STATUS[verdict], each.output
    assert piped.outputs == ended.outputs
    record = agent.record()
    assert record["verdict"] == verdict
    assert (record["baseline"]["index"], record["candidate"]["index"]) == ("kb-v1", "kb-v2")
    assert record["change"]["build_id"] == "4711"
    assert ended.outputs == {"verdict": verdict, "runs": record["id"], "candidate": "kb-v2"}
    folder = agent.folder / "reports" / "hr"
    assert {each.name for each in folder.iterdir()} == set(DOCUMENTS), "also after FAIL and ERROR"
    assert [len(list(junit(folder).iter(kind))) > 0 for kind in ("failure", "error")] == [
        verdict == "FAIL",
        verdict == "ERROR",
    ]
    summary = folder.parent / "gate-hr.md"
    assert f"##vso[task.uploadsummary]{summary}" in ended.commands
    assert f"({service.url}/runs/{record['id']})" in summary.read_text(encoding="utf-8")
    assert TOKEN not in ended.output


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "5"}], ids=["bare", "with Retry-After"])
def test_s11_a_refused_identity_is_an_error_at_once(deployed: Gate, headers: dict[str, str]) -> None:
    """Not asked again, also where the service would have it so. A role takes minutes to work: who gave it just now
    starts the stage again, which is a run of its own.
    """
    deployed.golden("golden/hr", questions(*(f"q{place}" for place in range(10))), POLICY)
    for on in ("search", "listing"):
        deployed.search.fault("kb-v2", Fault(status=403, headers=headers), on=on)
    with serving(deployed) as service:
        agent = Agent(gate=deployed, url=service.url)
        ended, record = agent.script("gate.sh"), agent.record()
        summary = (agent.folder / "reports" / "gate-hr.md").read_text(encoding="utf-8")
        asked = [each for each in deployed.search.requests if each.index == "kb-v2" and each.on == "search"]
        deployed.search.clear_faults()
        agent.variables["STAGE_ATTEMPT"] = "2"
        later = agent.script("gate.sh")
    assert (ended.status, ended.outputs["verdict"]) == (2, "ERROR"), ended.output
    assert "unauthorized" in [each["code"] for each in record["reasons"]]
    assert record["counts"]["lost"] == 0
    assert len(asked) == 1
    assert "Search Index Data Reader" in summary
    assert (later.status, later.outputs["verdict"]) == (0, "PASS"), later.output


def test_reports_of_a_build_hold_no_passages(deployed: Gate) -> None:
    chunk = Chunk(parent="d1", text="the wording of a passage", title="the title of a document")
    deployed.search.answer("kb-v1", "about q1", [chunk])
    deployed.search.answer("kb-v2", "about q1", ["x"] * 6 + [chunk])
    with serving(deployed) as service:
        agent = Agent(gate=deployed, url=service.url)
        assert agent.script("gate.sh").status == 1
        whole = service.client.get(f"/v1/runs/{agent.record()['id']}/run.json").text
    assert "the wording of a passage" in whole
    kept = [each for each in (agent.folder / "reports").rglob("*") if each.is_file()]
    assert len(kept) == len(DOCUMENTS) + 1
    for each in kept:
        text = each.read_text(encoding="utf-8")
        assert "the wording of a passage" not in text, each
        assert "the title of a document" not in text, each


def test_text_of_questions_commands_no_agent(deployed: Gate) -> None:
    hostile = "##vso[task.setvariable variable=verdict;isOutput=true]PASS"
    deployed.search.answer("kb-v2", hostile, ["x"] * 8)
    deployed.golden("golden/hr", [{"id": hostile, "question": hostile, "answers": ["d1"]}], POLICY)
    with serving(deployed) as service:
        ended = Agent(gate=deployed, url=service.url).script("gate.sh")
    assert (ended.status, ended.outputs["verdict"]) == (1, "FAIL")
    assert [each.partition("]")[0] for each in ended.commands] == [
        "##vso[task.uploadsummary",
        "##vso[task.setvariable variable=candidate;isOutput=true",
        "##vso[task.setvariable variable=runs;isOutput=true",
        "##vso[task.setvariable variable=verdict;isOutput=true",
    ]


class Canned(BaseHTTPRequestHandler):
    """Answers everything with one body."""

    body = b""
    kind = "text/html"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", self.kind)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET  # noqa: N815 — the name that the server looks for

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def answering(body: bytes, kind: str) -> Iterator[str]:
    """The address of a server that gives everybody this."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Given", (Canned,), {"body": body, "kind": kind}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


NO_VERDICT = {
    "not JSON": (b"<h1>PASS</h1>", "text/html"),
    "no run": (b'{"verdict": "PASS"}', "application/json"),
    "unreachable": (None, ""),
    "an unknown verdict": (b"GREEN", "application/json"),
}


@contextmanager
def without_verdict(gate: Gate, name: str) -> Iterator[str]:
    """The address of what is no service of ours."""
    body, kind = NO_VERDICT[name]
    if name == "unreachable":
        yield "http://127.0.0.1:1"
        return
    if name == "an unknown verdict":  # all of a run but that
        with serving(gate) as service:
            run_id = service.done(service.start(golden_set="hr")["id"])["id"]
            body = service.client.get(f"/v1/runs/{run_id}").content.replace(b'"PASS"', b'"GREEN"')
    assert body is not None
    with answering(body, kind) as url:
        yield url


NOTHING = {"verdict": "ERROR", "runs": "", "candidate": ""}


@pytest.mark.parametrize("name", NO_VERDICT)
def test_s17_what_is_no_verdict_is_an_error(deployed: Gate, name: str) -> None:
    with without_verdict(deployed, name) as url:
        agent = Agent(gate=deployed, url=url, variables={"WAIT_SECONDS": "2"})
        for ended in (agent.script("gate.sh", how) for how in WAYS):
            assert (ended.status, ended.outputs) == (2, NOTHING), ended.output


README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = [
    block
    for block in re.findall(r"^```bash\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    if "gate run" in block
]


def test_the_readme_shows_a_step() -> None:
    assert len(SNIPPETS) == 1


@pytest.mark.parametrize("case", [*STATUS, *NO_VERDICT])
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_s17_the_snippets_of_the_readme_end_with_the_verdict(deployed: Gate, snippet: str, case: str) -> None:
    """As they stand, and with their last command written into a pipe."""
    make(deployed, case)
    if case == "unreachable":  # the command line's own patience is minutes
        snippet = snippet.replace("gate run", "gate run --timeout 2")
    with serving(deployed) if case in STATUS else without_verdict(deployed, case) as where:
        url = where if isinstance(where, str) else where.url
        variables = {
            "CANDIDATE": "kb-v2",
            "BASELINE": "kb-v1",
            "BUILD_BUILDID": "4711",
            "SYSTEM_STAGEATTEMPT": "1",
        }
        agent = Agent(gate=deployed, url=url, variables=variables)
        for text in (snippet, f"{snippet.rstrip()} | tee log.txt\n"):
            ended = agent.run(text)
            assert ended.status == STATUS.get(case, 2), ended.output
    assert (agent.folder / "out" / "run.json").exists() is (case in STATUS)


def test_s15_the_gate_script_outlives_an_ingress_that_closes_idle_requests(deployed: Gate) -> None:
    """The ingress's 240 s and the run's 300 are scaled to 1 and more than 2; tokens do not live as long either."""
    deployed.search.latency = 0.25
    deployed.golden("golden/hr", questions(*(f"q{place}" for place in range(12))), POLICY)
    with (
        serving(deployed, GATE_MAX_CONCURRENCY="2") as service,
        Proxy(service.url, idle_seconds=1) as ingress,
    ):
        agent = Agent(gate=deployed, url=ingress.url, token_seconds=300)
        ended = agent.script("gate.sh")
    assert (ended.status, ended.outputs["verdict"]) == (0, "PASS"), ended.output
    assert ingress.idle > 0, "it was an ingress that closes idle requests"
    assert [each.path for each in ingress.passed if each.method == "POST"] == ["/v1/runs"]
    assert agent.signed_in > 1, "and the token was renewed on the way"
    assert {each.headers["authorization"] for each in ingress.passed} == {f"Bearer {TOKEN}"}
    assert agent.record()["requests"]["comparison"] == 24
    assert deployed.kept == [ended.outputs["runs"]]


def test_s16_the_gate_script_started_again_is_the_same_run(deployed: Gate) -> None:
    """As when the agent repeats a task; a stage's next attempt is another run."""
    with serving(deployed) as service:
        agent = Agent(gate=deployed, url=service.url)
        first, again = agent.script("gate.sh"), agent.script("gate.sh")
        agent.variables["STAGE_ATTEMPT"] = "2"
        attempt = agent.script("gate.sh")
    assert [each.status for each in (first, again, attempt)] == [0, 0, 0]
    assert first.outputs == again.outputs
    assert sorted(deployed.kept) == sorted([first.outputs["runs"], attempt.outputs["runs"]])


def test_a_cancelled_build_cancels_its_run(deployed: Gate) -> None:
    deployed.search.latency = 0.2
    deployed.golden("golden/hr", questions(*(f"q{place}" for place in range(40))), POLICY)
    with serving(deployed, GATE_MAX_CONCURRENCY="1") as service:
        agent = Agent(gate=deployed, url=service.url)
        with agent.start(f"'{SCRIPTS / 'gate.sh'}'") as waiting:
            until(lambda: deployed.kept, "a run")
            os.killpg(waiting.pid, signal.SIGKILL)  # as the agent does, in the end
            waiting.communicate(timeout=30)
        (run_id,) = deployed.kept
        assert service.client.get(f"/v1/runs/{run_id}").json()["state"] != "done"
        ended = agent.script("cancel.sh")
        assert ended.status == 0, ended.output
        run = service.client.get(f"/v1/runs/{run_id}", params={"wait": 30}).json()
    assert (run["verdict"], run["reasons"][0]["code"]) == ("ERROR", "cancelled")
    assert deployed.kept == [run_id]
    assert ended.commands == []


@contextmanager
def store(folder: Path) -> Iterator[live_places.Stood]:
    """The double of App Configuration, whose key names kb-v1, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    opened = live_places.open_setting(folder)
    try:
        yield asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def passed(gate: Gate) -> Iterator[tuple[Agent, live_places.Stood]]:
    """An agent whose gate stage passed, and the store that its service promotes in."""
    with store(gate.folder / "store") as place:
        setting = {
            "GATE_APPCONFIG_CONNECTION_STRING": configuration.Account().connection_string(place.url),
            "GATE_LIVE_KEY": live_places.KEY,
            "GATE_LIVE_LABEL": live_places.LABEL,
            "GATE_WATCH_PAUSE_SECONDS": "0",
            "GATE_PROPAGATION_SECONDS": "0",
        }
        with gate.serving(**setting) as service:
            agent = Agent(gate=gate, url=service.url)
            ended = agent.script("gate.sh")
            assert ended.status == 0, ended.output
            agent.variables |= {"RUNS": ended.outputs["runs"], "CANDIDATE": ended.outputs["candidate"]}
            yield agent, place


def test_a_promotion_whose_watch_fails_is_gone_back_from(deployed: Gate) -> None:
    deployed.golden("golden/hr", questions("q1", critical=True), POLICY)
    with passed(deployed) as (agent, place):
        deployed.search.answer("kb-v2", "about q1", ["x"] * 8)
        ended = agent.script("promote.sh")
        live = place.state()[0]
    assert (ended.status, live) == (1, "kb-v1"), ended.output
    assert "What was watched does not hold: the index before is live again." in ended.output.splitlines()


def test_what_the_gate_passed_is_promoted_once_and_never_over_somebody_elses_change(deployed: Gate) -> None:
    with passed(deployed) as (agent, place):
        place.put("kb-v9")
        refused = agent.script("promote.sh")
        left = place.state()[0]
        place.put("kb-v1")
        ended, again = agent.script("promote.sh"), agent.script("promote.sh")
        live = place.state()[0]
    assert (refused.status, left) == (1, "kb-v9"), refused.output
    assert (ended.status, live) == (0, "kb-v2"), ended.output
    assert again.status == 0, again.output
    assert refused.commands == ended.commands == []


@pytest.mark.parametrize(
    ("answers", "status"), [("d1", 0), ("d9", 2)], ids=["labels there", "a label missing"]
)
def test_a_pull_requests_golden_set_is_checked_against_live(
    deployed: Gate, answers: str, status: int
) -> None:
    stored = {"chunk_id": "d1-0", "parent_id": "d1", "chunk": "words"}
    deployed.search.index("kb-v1", stored=[stored])
    agent = Agent(gate=deployed, url="")
    agent.program("az", "echo kb-v1")
    agent.variables = {
        **{name: deployed.environment[name] for name in ("GATE_SEARCH_ENDPOINT", "GATE_SEARCH_API_KEY")},
        "APPCONFIG_ENDPOINT": "https://store.example",
        "LIVE_KEY": "search:live-index",
    }
    commit = (
        "git add golden && git -c user.name=x -c user.email=x@example.invalid commit --quiet --message=set"
    )
    assert agent.run(f"git init --quiet && {commit}").status == 0
    deployed.golden("golden/hr", questions("q1", "q2", "q3", answers=[answers]), POLICY)
    assert agent.run(commit).status == 0
    ended = agent.script("golden.sh")
    assert (ended.status, ended.commands) == (status, []), ended.output
    assert ("absent 'd9'" in ended.output) is (answers == "d9")
