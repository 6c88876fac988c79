"""The pipeline's scripts, run as the agent runs them, with stand-ins for `az` and `gate` in front of the path."""

import json
import os
import re
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.pipelines.judged import obstacles

SCRIPTS = Path(__file__).parents[2] / "infra" / "pipelines"
NAMES = sorted(path.name for path in SCRIPTS.glob("*.sh"))
SHELLCHECK = Path(sysconfig.get_path("scripts")) / "shellcheck"
TOKEN = "header.payload-of_the.signature"
INJECTION = "##vso[task.setvariable variable=verdict;isOutput=true]PASS"

# Tries every way past the filter: within a line, on both streams, more marks than are needed, no end of line.
NOISE = f"""
printf '%s\\n' '{INJECTION}' 'text {INJECTION}' '###{INJECTION}' '##[error]x'
printf '%s\\n' '{INJECTION}' >&2
printf '%s' '{INJECTION}' >&2
"""
RECORD = """
for argument in "$@"; do
  case $argument in --out=*) folder=${argument#--out=} ;; esac
done
printf '{"verdict": "whatever"}' >"$folder/run.json"
printf '# Report\\n' >"$folder/report.md"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    status: int
    output: str

    @property
    def commands(self) -> list[str]:
        """What the agent would obey: it looks for the mark anywhere in a line."""
        return re.findall(r"##vso\[.*", self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A machine with stand-ins; every call that they get is in `calls`."""

    folder: Path

    def stand_in(self, name: str, body: str) -> None:
        file = self.folder / "bin" / name
        log = self.folder / f"{name}.calls"
        file.write_text(
            f"#!/usr/bin/env bash\nprintf '%s\\x1f' \"$@\" >>'{log}'; printf '\\n' >>'{log}'\n{body}\n",
            encoding="utf-8",
        )
        file.chmod(0o755)

    def calls(self, name: str) -> list[list[str]]:
        log = self.folder / f"{name}.calls"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [line.split("\x1f")[:-1] for line in lines]

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {
            "PATH": path,
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            **variables,
        }
        return subprocess.Popen(
            ["bash", str(SCRIPTS / script)],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, **variables: str) -> Ended:
        with self.start(script, **variables) as process:
            output, _ = process.communicate(timeout=60)
            return Ended(status=process.returncode, output=output)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    for name in ("bin", "tmp"):
        (tmp_path / name).mkdir()
    agent = Agent(folder=tmp_path)
    agent.stand_in("az", f"echo {TOKEN}")
    return agent


@pytest.fixture
def judging(agent: Agent) -> Callable[..., Ended]:
    """Runs gate.sh with these variables over the usual ones."""

    def run(**variables: str) -> Ended:
        return agent.run("gate.sh", **{**gate_variables(agent), **variables})

    return run


def gate_variables(agent: Agent) -> dict[str, str]:
    return {
        "GATE_SERVICE_URL": "https://gate.example",
        "GATE_SERVICE_AUDIENCE": "api://gate",
        "CANDIDATE_INDEX": "kb-v2",
        "GOLDEN_SETS": "hr",
        "CHANGE_KINDS": "chunking content",
        "BUILD_ID": "4711",
        "STAGE_ATTEMPT": "2",
        "BUILD_URL": "https://dev.example/build?id=4711",
        "COMMIT": "0123abc",
        "WAIT_SECONDS": "30",
        "REPORTS": str(agent.folder / "reports"),
        "UNDER_WAY": str(agent.folder / "under-way"),
    }


def verdict_command(verdict: str) -> str:
    return f"##vso[task.setvariable variable=verdict;isOutput=true]{verdict}"


@pytest.mark.parametrize("name", NAMES)
def test_shellcheck_finds_nothing(name: str) -> None:
    result = subprocess.run(
        [SHELLCHECK, "--external-sources", f"infra/pipelines/{name}"],
        cwd=SCRIPTS.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_bash_reads_the_script_and_it_stops_at_errors(name: str) -> None:
    subprocess.run(["bash", "-n", SCRIPTS / name], check=True)
    text = (SCRIPTS / name).read_text(encoding="utf-8")
    assert "set -euo pipefail" in text or name == "agent.sh"
    code = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"(?<!\|)\|(?!\|)", code), "a pipe may hide an exit status"
    assert "set -x" not in code


@pytest.mark.parametrize(
    ("gate_status", "status", "verdict"),
    [(0, 0, "PASS"), (1, 1, "FAIL"), (2, 2, "ERROR"), (3, 2, "ERROR"), (137, 2, "ERROR")],
)
def test_the_exit_status_decides_whatever_is_printed(
    gate_status: int, status: int, verdict: str, agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", f"{RECORD}{NOISE}exit {gate_status}")
    ended = judging()
    assert ended.status == status
    assert ended.commands == [
        f"##vso[task.setsecret]{TOKEN}",
        f"##vso[task.uploadsummary]{agent.folder}/reports/gate-hr.md",
        verdict_command(verdict),
    ]


def test_a_gate_that_is_killed_leaves_no_verdict(agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", f"{RECORD}kill -KILL $$")
    ended = judging()
    assert (ended.status, ended.commands[-1]) == (2, verdict_command("ERROR"))


@pytest.mark.parametrize("gate_status", [0, 1])
def test_a_status_without_a_record_is_no_verdict(
    gate_status: int, agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", f"exit {gate_status}")
    ended = judging()
    assert (ended.status, ended.commands[-1]) == (2, verdict_command("ERROR"))


def test_a_record_of_an_earlier_run_does_not_count(agent: Agent, judging: Callable[..., Ended]) -> None:
    (agent.folder / "reports" / "hr").mkdir(parents=True)
    (agent.folder / "reports" / "hr" / "run.json").write_text("{}", encoding="utf-8")
    agent.stand_in("gate", "exit 0")
    assert judging().status == 2


def test_without_a_gate_there_is_no_verdict(judging: Callable[..., Ended]) -> None:
    ended = judging()
    assert (ended.status, ended.commands[-1]) == (2, verdict_command("ERROR"))


def test_what_the_gate_prints_is_shown(agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", f"{RECORD}echo 'asked 3 of 7' >&2; printf 'PASS: all kept, see #3'; exit 0")
    lines = judging().output.splitlines()
    assert "asked 3 of 7" in lines
    assert "PASS: all kept, see (#)3" in lines


@pytest.mark.parametrize(
    ("statuses", "status", "verdict"),
    [
        ({"hr": 0, "travel": 0}, 0, "PASS"),
        ({"hr": 1, "travel": 0}, 1, "FAIL"),
        ({"hr": 0, "travel": 1}, 1, "FAIL"),
        ({"hr": 2, "travel": 1}, 2, "ERROR"),
        ({"hr": 1, "travel": 2}, 2, "ERROR"),
    ],
)
def test_every_set_is_judged_and_the_worst_decides(
    statuses: Mapping[str, int], status: int, verdict: str, agent: Agent, judging: Callable[..., Ended]
) -> None:
    cases = "".join(f'[[ "$*" == *--golden={name}* ]] && exit {code}\n' for name, code in statuses.items())
    agent.stand_in("gate", RECORD + cases + "exit 9")
    ended = judging(GOLDEN_SETS="  hr \n travel ")
    assert (ended.status, ended.commands[-1]) == (status, verdict_command(verdict))
    assert [key for call in agent.calls("gate") for key in call if key.startswith("--idempotency-key")] == [
        "--idempotency-key=4711-2-hr",
        "--idempotency-key=4711-2-travel",
    ]


def test_the_gate_is_told_what_changed(agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", RECORD)
    judging(CANDIDATE_INDEX="--help; $(touch pwned) `touch pwned`")
    (call,) = agent.calls("gate")
    assert call == [
        "run",
        "--service=https://gate.example",
        "--candidate=--help; $(touch pwned) `touch pwned`",
        "--golden=hr",
        f"--out={agent.folder}/reports/hr",
        "--timeout=30",
        "--idempotency-key=4711-2-hr",
        "--commit=0123abc",
        "--build-id=4711",
        "--build-url=https://dev.example/build?id=4711",
        "--change-kind=chunking",
        "--change-kind=content",
    ]
    assert not (agent.folder / "pwned").exists()


def test_kinds_of_change_may_be_left_out(agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", RECORD)
    assert judging(CHANGE_KINDS="").status == 0
    assert not [part for part in agent.calls("gate")[0] if part.startswith("--change-kind")]


def test_the_token_is_in_the_environment_and_masked_before_the_gate_starts(
    agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in(
        "gate", f'{RECORD}echo "started with $GATE_SERVICE_TOKEN and ${{GATE_SERVICE_AUDIENCE-nothing}}"'
    )
    output = judging().output
    assert agent.calls("az") == [
        [
            "account",
            "get-access-token",
            "--resource",
            "api://gate",
            "--query",
            "accessToken",
            "--output",
            "tsv",
        ]
    ]
    assert TOKEN not in " ".join(agent.calls("gate")[0])
    assert output.index(f"##vso[task.setsecret]{TOKEN}") < output.index(f"started with {TOKEN} and nothing")


@pytest.mark.parametrize(
    "az",
    [
        "exit 1",
        "exit 0",
        f"echo '{INJECTION}'",
        f"printf '%s\\n' {TOKEN} '{INJECTION}'",
        f"{NOISE}exit 1",
    ],
)
def test_without_a_token_the_gate_is_not_started(
    az: str, agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in("az", az)
    agent.stand_in("gate", RECORD)
    ended = judging()
    assert (ended.status, ended.commands) == (2, [verdict_command("ERROR")])
    assert agent.calls("gate") == []


@pytest.mark.parametrize("missing", sorted(gate_variables(Agent(folder=Path())).keys() - {"CHANGE_KINDS"}))
def test_a_missing_variable_is_an_error_and_never_a_failed_gate(
    missing: str, agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", RECORD)
    ended = judging(**{missing: ""})
    assert (ended.status, ended.commands) == (2, [verdict_command("ERROR")])
    assert missing in ended.output


@pytest.mark.parametrize("sets", ["../hr", "hr/../../etc", "-hr", INJECTION, " ", "*"])
def test_only_names_of_sets_are_taken(sets: str, agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", RECORD)
    ended = judging(GOLDEN_SETS=sets)
    assert (ended.status, ended.commands) == (2, [verdict_command("ERROR")])
    assert agent.calls("gate") == []


def test_a_cancelled_wait_is_joined_again_and_stopped(agent: Agent) -> None:
    agent.stand_in("gate", "trap 'echo cancelled; exit 2' TERM\nwhile :; do sleep 0.1; done")
    variables = gate_variables(agent)
    under_way = agent.folder / "under-way" / "hr"
    with agent.start("gate.sh", **variables) as waiting:
        deadline = time.monotonic() + 30
        while not agent.calls("gate") and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(waiting.pid, signal.SIGKILL)  # as the agent does, in the end
        waiting.communicate(timeout=30)
    assert under_way.exists()

    ended = agent.run("cancel.sh", **variables, JOIN_SECONDS="1")
    assert ended.status == 0
    assert "cancelled" in ended.output.splitlines()
    assert ended.commands == [f"##vso[task.setsecret]{TOKEN}"]
    first, second = agent.calls("gate")
    assert first == second
    assert not under_way.exists()


def test_a_run_that_ended_is_not_cancelled(agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", f"{RECORD}exit 1")
    judging()
    ended = agent.run("cancel.sh", **gate_variables(agent), JOIN_SECONDS="1")
    assert ended.status == 0
    assert len(agent.calls("gate")) == 1


def test_nothing_was_started_and_nothing_is_cancelled(agent: Agent) -> None:
    ended = agent.run("cancel.sh", **gate_variables(agent), JOIN_SECONDS="1")
    assert (ended.status, ended.output) == (0, "No run was started.\n")


NOW = datetime(2027, 1, 2, 12, 0, tzinfo=UTC)


def record(**changes: Any) -> dict[str, Any]:
    """A record that allows kb-v2 to follow kb-v1."""
    passed = {
        "state": "done",
        "verdict": "PASS",
        "trusted": True,
        "baseline": {"index": "kb-v1"},
        "candidate": {"index": "kb-v2"},
        "policy": {"max_verdict_age_hours": 72},
        "finished_at": "2027-01-02T11:00:00Z",
    }
    return passed | changes


def test_a_trusted_pass_allows_promotion() -> None:
    assert obstacles(record(), "kb-v2", NOW) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "FAIL"},
        {"verdict": None},
        {"state": "running"},
        {"trusted": False},
        {"trusted": "true"},
        {"candidate": {"index": "kb-v3"}},
        {"candidate": None},
        {"baseline": None},
        {"baseline": {"index": ""}},
        {"baseline": {"index": "kb-v2"}},
        {"finished_at": "2026-12-30T11:59:00Z"},
        {"finished_at": "2027-01-02T11:00:00"},
        {"finished_at": None},
        {"policy": {"max_verdict_age_hours": 0.5}},
        {"policy": {"max_verdict_age_hours": float("nan")}},
        {"policy": {"max_verdict_age_hours": True}},
    ],
)
def test_anything_else_does_not(changes: dict[str, Any]) -> None:
    assert len(obstacles(record(**changes), "kb-v2", NOW)) == 1


# A store with one key, in the file "live"; "then" replaces what it answers after the key was set.
STORE = """
case "$1 $2 $3" in
  "appconfig kv show") cat live ;;
  "appconfig kv set")
    while [[ $1 != --value ]]; do shift; done
    if [[ -e then ]]; then cp then live; else printf '%s\\n' "$2" >live; fi
    echo 'INJECTION' ;;
  *) exit 64 ;;
esac
""".replace("INJECTION", INJECTION)


@pytest.fixture
def promotion(agent: Agent) -> Callable[..., Ended]:
    agent.stand_in("az", STORE)
    (agent.folder / "live").write_text("kb-v1\n", encoding="utf-8")
    write_record(agent, "hr")

    def run(**variables: str) -> Ended:
        usual = {
            "APPCONFIG_ENDPOINT": "https://store.example",
            "LIVE_KEY": "search:live-index",
            "LIVE_LABEL": "production",
            "CANDIDATE_INDEX": "kb-v2",
            "GOLDEN_SETS": "hr",
            "REPORTS": str(agent.folder / "reports"),
            "READ_BACK_SECONDS": "0",
        }
        return agent.run("promote.sh", **{**usual, **variables})

    return run


def write_record(agent: Agent, golden_set: str, **changes: Any) -> None:
    finished = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    folder = agent.folder / "reports" / golden_set
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record(**({"finished_at": finished} | changes)))
    (folder / "run.json").write_text(text, encoding="utf-8")


def live(agent: Agent) -> str:
    return (agent.folder / "live").read_text(encoding="utf-8").strip()


def writes(agent: Agent) -> list[list[str]]:
    return [call for call in agent.calls("az") if call[2] == "set"]


def test_the_candidate_becomes_live_and_is_read_back(agent: Agent, promotion: Callable[..., Ended]) -> None:
    ended = promotion()
    assert (ended.status, live(agent), ended.commands) == (0, "kb-v2", [])
    setting = ["--endpoint", "https://store.example", "--auth-mode", "login", "--key", "search:live-index"]
    setting += ["--label", "production"]
    reading = ["appconfig", "kv", "show", *setting, "--query", "value", "--output", "tsv"]
    writing = ["appconfig", "kv", "set", *setting, "--value", "kb-v2", "--yes", "--output", "none"]
    assert agent.calls("az") == [reading, writing, reading]


def test_an_empty_label_is_no_label(agent: Agent, promotion: Callable[..., Ended]) -> None:
    assert promotion(LIVE_LABEL="").status == 0
    assert not [call for call in agent.calls("az") if "--label" in call]


def test_a_live_index_that_was_not_compared_with_is_left_alone(
    agent: Agent, promotion: Callable[..., Ended]
) -> None:
    (agent.folder / "live").write_text(f"kb-v9 {INJECTION}\n", encoding="utf-8")
    ended = promotion()
    assert (ended.status, writes(agent), ended.commands) == (1, [], [])
    assert "compared with kb-v1" in ended.output


def test_a_candidate_that_is_live_already_is_not_set_again(
    agent: Agent, promotion: Callable[..., Ended]
) -> None:
    (agent.folder / "live").write_text("kb-v2\n", encoding="utf-8")
    assert promotion().status == 0
    assert writes(agent) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "FAIL"},
        {"trusted": False},
        {"candidate": {"index": "kb-v3"}},
        {"baseline": {}},
        {"finished_at": "2001-01-01T00:00:00Z"},
        {"verdict": INJECTION},
    ],
)
def test_a_record_that_does_not_allow_it_stops_promotion(
    changes: dict[str, Any], agent: Agent, promotion: Callable[..., Ended]
) -> None:
    write_record(agent, "hr", **changes)
    ended = promotion()
    assert (ended.status, agent.calls("az"), ended.commands) == (1, [], [])
    assert "Refused: hr: " in ended.output


@pytest.mark.parametrize("text", ["", "null", "[]", "{"])
def test_a_file_that_is_no_record_stops_promotion(
    text: str, agent: Agent, promotion: Callable[..., Ended]
) -> None:
    (agent.folder / "reports" / "hr" / "run.json").write_text(text, encoding="utf-8")
    assert (promotion().status, agent.calls("az")) == (1, [])


def test_every_set_needs_its_record(agent: Agent, promotion: Callable[..., Ended]) -> None:
    assert promotion(GOLDEN_SETS="hr travel").status == 1
    write_record(agent, "travel", baseline={"index": "kb-v0"})
    assert promotion(GOLDEN_SETS="hr travel").status == 1
    assert agent.calls("az") == []
    write_record(agent, "travel")
    assert promotion(GOLDEN_SETS="hr travel").status == 0


def test_no_set_is_no_permission(agent: Agent, promotion: Callable[..., Ended]) -> None:
    assert (promotion(GOLDEN_SETS=" ").status, agent.calls("az")) == (1, [])


def test_a_value_that_is_not_seen_to_change_is_a_failure(
    agent: Agent, promotion: Callable[..., Ended]
) -> None:
    (agent.folder / "then").write_text("kb-v7\n", encoding="utf-8")
    assert promotion().status == 1


@pytest.mark.parametrize("command", ["show", "set"])
def test_a_store_that_refuses_is_a_failure(
    command: str, agent: Agent, promotion: Callable[..., Ended]
) -> None:
    refusal = f'[[ $3 == {command} ]] && {{ echo "{INJECTION}" >&2; exit 3; }}\n'
    agent.stand_in("az", refusal + STORE)
    ended = promotion()
    assert (ended.status, ended.commands, live(agent)) == (3, [], "kb-v1")
