"""The pipelines' scripts, run as the agent runs them, with stand-ins for `az` and `gate` in front of the path. The same
scripts with the real command line, before the running service: tests/e2e/test_pipeline_scripts.py.
"""

import os
import re
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "infra" / "pipelines"
NAMES = sorted(path.name for path in SCRIPTS.glob("*.sh"))
SHELLCHECK = Path(sysconfig.get_path("scripts")) / "shellcheck"
RUN = "20270102-120000-abc123"
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
printf '{"id": "20270102-120000-abc123", "candidate": {"index": "kb-v2"}, "verdict": "whatever"}' >"$folder/run.json"
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
    return Agent(folder=tmp_path)


@pytest.fixture
def judging(agent: Agent) -> Callable[..., Ended]:
    """Runs gate.sh with these variables over the usual ones."""

    def run(**variables: str) -> Ended:
        return agent.run("gate.sh", **{**gate_variables(agent), **variables})

    return run


def gate_variables(agent: Agent) -> dict[str, str]:
    return {
        "GATE_SERVICE_URL": "https://gate.example",
        "GATE_SERVICE_SCOPE": "api://gate/.default",
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


def outputs(verdict: str, *runs: str) -> list[str]:
    """The last commands to the agent."""
    return [
        f"##vso[task.setvariable variable=candidate;isOutput=true]{'kb-v2' if runs else ''}",
        f"##vso[task.setvariable variable=runs;isOutput=true]{' '.join(runs)}",
        f"##vso[task.setvariable variable=verdict;isOutput=true]{verdict}",
    ]


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
        f"##vso[task.uploadsummary]{agent.folder}/reports/gate-hr.md",
        *outputs(verdict, RUN),
    ]


def test_a_gate_that_is_killed_leaves_no_verdict(agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", f"{RECORD}kill -KILL $$")
    ended = judging()
    assert (ended.status, ended.commands[-1:]) == (2, outputs("ERROR")[-1:])


@pytest.mark.parametrize("gate_status", [0, 1])
def test_a_status_without_a_record_is_no_verdict(
    gate_status: int, agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", f"exit {gate_status}")
    ended = judging()
    assert (ended.status, ended.commands[-1:]) == (2, outputs("ERROR")[-1:])


def test_a_record_of_an_earlier_run_does_not_count(agent: Agent, judging: Callable[..., Ended]) -> None:
    (agent.folder / "reports" / "hr").mkdir(parents=True)
    (agent.folder / "reports" / "hr" / "run.json").write_text("{}", encoding="utf-8")
    agent.stand_in("gate", "exit 0")
    assert judging().status == 2


def test_without_a_gate_there_is_no_verdict(judging: Callable[..., Ended]) -> None:
    ended = judging()
    assert (ended.status, ended.commands[-1:]) == (2, outputs("ERROR")[-1:])


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
    assert (ended.status, ended.commands[-1:]) == (status, outputs(verdict)[-1:])
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
        "--no-passages",
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


def test_the_command_line_signs_in_as_the_task_and_as_nobody_else(
    agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", f'{RECORD}echo "scope $GATE_SERVICE_SCOPE, by $AZURE_TOKEN_CREDENTIALS"')
    assert "scope api://gate/.default, by AzureCliCredential" in judging().output.splitlines()


@pytest.mark.parametrize("what", [RUN, "kb-v2"])
@pytest.mark.parametrize("text", ["", "a b", "../x", f"x{INJECTION}", "A", "x" * 129])
def test_what_is_no_record_of_a_run_makes_no_link_and_no_verdict(
    what: str, text: str, agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", RECORD.replace(what, text))
    ended = judging()
    assert (ended.status, ended.commands) == (2, outputs("ERROR"))


def test_the_summary_leads_to_the_run_at_the_service(agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", RECORD)
    judging()
    summary = (agent.folder / "reports" / "gate-hr.md").read_text(encoding="utf-8")
    assert summary.startswith("# Report\n\n[This run at the service](https://gate.example/runs/" + RUN + ")")


@pytest.mark.parametrize("missing", sorted(gate_variables(Agent(folder=Path())).keys() - {"CHANGE_KINDS"}))
def test_a_missing_variable_is_an_error_and_never_a_failed_gate(
    missing: str, agent: Agent, judging: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", RECORD)
    ended = judging(**{missing: ""})
    assert (ended.status, ended.commands) == (2, outputs("ERROR"))
    assert missing in ended.output


@pytest.mark.parametrize("sets", ["../hr", "hr/../../etc", "-hr", INJECTION, " ", "*"])
def test_only_names_of_sets_are_taken(sets: str, agent: Agent, judging: Callable[..., Ended]) -> None:
    agent.stand_in("gate", RECORD)
    ended = judging(GOLDEN_SETS=sets)
    assert (ended.status, ended.commands) == (2, outputs("ERROR"))
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
    assert ended.commands == []
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


@pytest.fixture
def promoting(agent: Agent) -> Callable[..., Ended]:
    def run(**variables: str) -> Ended:
        usual = {
            "GATE_SERVICE_URL": "https://gate.example",
            "GATE_SERVICE_SCOPE": "api://gate/.default",
            "RUNS": f"{RUN} other-run",
            "CANDIDATE": "kb-v2",
        }
        return agent.run("promote.sh", **{**usual, **variables})

    return run


PROMOTE = ["promote", RUN, "--service=https://gate.example"]
ROLL_BACK = ["rollback", "--service=https://gate.example", "--confirm-live=kb-v2"]


@pytest.mark.parametrize(
    ("gate", "status", "calls"),
    [
        ("exit 0", 0, [PROMOTE]),
        ("[[ $1 == rollback ]]", 1, [PROMOTE, ROLL_BACK]),
        ("[[ $1 == rollback ]] && exit 2; exit 1", 2, [PROMOTE, ROLL_BACK]),
        ("exit 1", 1, [PROMOTE, ROLL_BACK]),
        ("exit 2", 2, [PROMOTE]),
        ("kill -KILL $$", 2, [PROMOTE]),
    ],
    ids=["held", "the watch failed", "and could not be rolled back", "refused", "not known", "killed"],
)
def test_only_what_was_promoted_and_does_not_hold_is_rolled_back(
    gate: str, status: int, calls: list[list[str]], agent: Agent, promoting: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", f"{NOISE}{gate}")
    ended = promoting()
    assert (ended.status, ended.commands, agent.calls("gate")) == (status, [], calls)


@pytest.mark.parametrize("missing", ["GATE_SERVICE_URL", "GATE_SERVICE_SCOPE", "RUNS", "CANDIDATE"])
def test_nothing_is_promoted_without_a_run(
    missing: str, agent: Agent, promoting: Callable[..., Ended]
) -> None:
    agent.stand_in("gate", "exit 0")
    assert promoting(**{missing: ""}).status != 0
    assert agent.calls("gate") == []


def git(agent: Agent, *arguments: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=agent.folder, check=True, capture_output=True)


@pytest.fixture
def pull_request(agent: Agent) -> Callable[..., Ended]:
    """Checks a pull request that changes these files, merged into its target."""

    def run(*changed: str, **variables: str) -> Ended:
        git(agent, "init", "--quiet", "--initial-branch=main")
        for name in ("golden/hr.jsonl", "golden/hr.toml", "golden/it.jsonl", "README.md"):
            file = agent.folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text("before", encoding="utf-8")
        git(agent, "add", "golden", "README.md")
        git(agent, "commit", "--quiet", "--message=target")
        git(agent, "switch", "--quiet", "--create=change")
        for name in changed:
            (agent.folder / name).write_text("after", encoding="utf-8")
        git(agent, "commit", "--quiet", "--allow-empty", "--all", "--message=change")
        git(agent, "switch", "--quiet", "main")
        git(agent, "merge", "--quiet", "--no-ff", "--message=merged", "change")
        usual = {
            "GATE_SEARCH_ENDPOINT": "https://search.example",
            "APPCONFIG_ENDPOINT": "https://store.example",
            "LIVE_KEY": "search:live-index",
            "LIVE_LABEL": "production",
        }
        return agent.run("golden.sh", **{**usual, **variables})

    agent.stand_in("az", "echo kb-v1")
    agent.stand_in("gate", NOISE)
    return run


def test_golden_sets_that_were_not_touched_are_not_checked(
    agent: Agent, pull_request: Callable[..., Ended]
) -> None:
    ended = pull_request("README.md")
    assert (ended.status, agent.calls("az"), agent.calls("gate")) == (0, [], [])


@pytest.mark.parametrize("file", ["golden/hr.jsonl", "golden/hr.toml"])
def test_a_touched_golden_set_has_all_checked_against_live(
    file: str, agent: Agent, pull_request: Callable[..., Ended]
) -> None:
    ended = pull_request(file)
    assert (ended.status, ended.commands) == (0, [])
    assert agent.calls("gate") == [
        ["golden", "check", "golden/hr.jsonl", "--index=kb-v1"],
        ["golden", "check", "golden/it.jsonl", "--index=kb-v1"],
    ]
    setting = ["--endpoint", "https://store.example", "--auth-mode", "login", "--key", "search:live-index"]
    setting += ["--label", "production"]
    assert agent.calls("az") == [["appconfig", "kv", "show", *setting, "--query", "value", "--output", "tsv"]]


def test_an_empty_label_is_no_label_and_an_alias_needs_no_store(
    agent: Agent, pull_request: Callable[..., Ended]
) -> None:
    assert pull_request("golden/hr.jsonl", LIVE_LABEL="").status == 0
    assert "--label" not in agent.calls("az")[0]


def test_an_alias_is_asked_for_itself(agent: Agent, pull_request: Callable[..., Ended]) -> None:
    assert pull_request("golden/hr.jsonl", LIVE_ALIAS="kb").status == 0
    assert agent.calls("az") == []
    assert agent.calls("gate")[0][-1] == "--index=kb"


@pytest.mark.parametrize("set_", ["hr", "it"])
def test_one_faulty_set_is_a_failure(set_: str, agent: Agent, pull_request: Callable[..., Ended]) -> None:
    agent.stand_in("gate", f"{NOISE}[[ $3 == golden/{set_}.jsonl ]] && exit 2\nexit 0")
    ended = pull_request("golden/hr.jsonl")
    assert (ended.status, ended.commands, len(agent.calls("gate"))) == (2, [], 2)


def test_a_store_that_does_not_answer_is_a_failure(agent: Agent, pull_request: Callable[..., Ended]) -> None:
    agent.stand_in("az", f"{NOISE}exit 3")
    ended = pull_request("golden/hr.jsonl")
    assert (ended.status, ended.commands, agent.calls("gate")) == (2, [], [])


def test_a_checkout_without_the_target_is_a_failure(agent: Agent) -> None:
    agent.stand_in("gate", "exit 0")
    git(agent, "init", "--quiet")
    git(agent, "commit", "--quiet", "--allow-empty", "--message=alone")
    ended = agent.run("golden.sh", GATE_SEARCH_ENDPOINT="https://search.example")
    assert (ended.status, agent.calls("gate")) == (2, [])


DIGEST = f"sha256:{'0a' * 32}"


def test_the_image_is_named_by_what_it_holds(agent: Agent) -> None:
    agent.stand_in("az", f"[[ $2 == repository ]] && echo {DIGEST} && exit 0\n{NOISE}")
    ended = agent.run("image.sh", REGISTRY="contoso", TAG="77")
    assert ended.status == 0
    assert ended.commands == [
        f"##vso[task.setvariable variable=image;isOutput=true]search-index-gate@{DIGEST}"
    ]
    built, shown = agent.calls("az")
    assert built == [
        *("acr", "build", "--registry", "contoso", "--image", "search-index-gate:77"),
        *("--only-show-errors", "."),
    ]
    assert shown[:3] == ["acr", "repository", "show"]


@pytest.mark.parametrize(
    "az", [f"{NOISE}exit 1", f"echo '{INJECTION}'", "exit 0", "[[ $2 == build ]] || exit 1"]
)
def test_an_image_that_was_not_built_has_no_name(az: str, agent: Agent) -> None:
    agent.stand_in("az", az)
    ended = agent.run("image.sh", REGISTRY="contoso", TAG="77")
    assert ended.status != 0
    assert ended.commands == []


DEPLOYED = r"""
case "$2 $3" in
  "group create") printf 'https://gate.example\n/subscriptions/s/app\n' ;;
  "show --ids") [[ -e seen ]] && echo True || { touch seen; echo False; } ;;
esac
"""


def deploy(agent: Agent, az: str, **variables: str) -> Ended:
    agent.stand_in("az", az)
    usual = {"RESOURCE_GROUP": "rg", "PARAMETERS": "infra/main.parameters.json", "IMAGE": f"gate@{DIGEST}"}
    limits = {"BUILD_ID": "77", "READY_SECONDS": "30", "PAUSE_SECONDS": "0"}
    return agent.run("deploy.sh", **{**usual, **limits, **variables})


def test_a_deployment_is_done_when_its_own_revision_is_ready(agent: Agent) -> None:
    ended = deploy(agent, NOISE.replace("printf", "[[ $3 == what-if ]] && printf") + DEPLOYED)
    assert ended.status == 0, ended.output
    assert ended.commands == ["##vso[task.setvariable variable=serviceUrl;isOutput=true]https://gate.example"]
    calls = agent.calls("az")
    assert [call[2] for call in calls[:3]] == ["validate", "what-if", "create"]
    what = ["--resource-group", "rg", "--template-file", "infra/main.bicep"]
    what += ["--parameters", "@infra/main.parameters.json", f"image=gate@{DIGEST}"]
    assert [call[3:10] for call in calls[:3]] == [what] * 3
    assert [call[:4] for call in calls[3:]] == [["resource", "show", "--ids", "/subscriptions/s/app"]] * 2


@pytest.mark.parametrize("failing", ["validate", "what-if", "create"])
def test_a_step_that_fails_ends_the_deployment(failing: str, agent: Agent) -> None:
    ended = deploy(agent, f"[[ $3 == {failing} ]] && {{ echo '{INJECTION}' >&2; exit 1; }}\n{DEPLOYED}")
    assert ended.status == 1
    assert ended.commands == []
    assert agent.calls("az")[-1][2] == failing


@pytest.mark.parametrize(
    "shown", ["echo False", "exit 1", "echo", f"echo '{INJECTION}'"], ids=["never", "refused", "empty", "odd"]
)
def test_a_revision_that_does_not_get_ready_is_a_failure(shown: str, agent: Agent) -> None:
    ended = deploy(agent, f"[[ $1 == resource ]] && {{ {shown}; exit; }}\n{DEPLOYED}", READY_SECONDS="-1")
    assert ended.status == 1
    assert ended.commands == []


@pytest.mark.parametrize("made", ["", "http://gate.example\\n/subscriptions/s", f"{INJECTION}\\n/x"])
def test_an_odd_answer_of_a_deployment_is_a_failure(made: str, agent: Agent) -> None:
    ended = deploy(agent, f"[[ $3 == create ]] && {{ printf '{made}'; exit 0; }}\n{DEPLOYED}")
    assert (ended.status, ended.commands) == (1, [])
