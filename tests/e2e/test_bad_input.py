"""What cannot be used is refused with one clear message and status 2, and nothing is left half-written."""

import socket
import sys
from pathlib import Path

import pytest

from tests.e2e.programs import DOCUMENTS, PLAIN, RUN, Gate, ids, lines, questions

POLICY = f"[policy]\n{PLAIN}"


@pytest.fixture
def golden(gate: Gate) -> str:
    return gate.golden("hr", questions("q1", "q2"), POLICY)


@pytest.fixture
def no_folder(gate: Gate) -> Path:
    """Where no folder can be made, for root neither: below a file."""
    file = gate.folder / "file"
    file.write_text("not a folder")
    return file / "below"


def test_an_unknown_index(gate: Gate, golden: str) -> None:
    ended, record = gate.record("--golden", golden, "--candidate", "kb-v9")
    assert ended.status == 2
    assert ended.last_line.startswith("ERROR: ")
    assert "index-missing" in ended.last_line
    assert "'kb-v9'" in ended.out
    assert "Traceback" not in ended.said
    assert "index-missing" in ids(record["reasons"])
    assert record["lost"] == record["gained"] == []
    assert gate.search.searches("kb-v1", "about q1") == []


def test_a_search_service_that_cannot_be_reached(gate: Gate, golden: str) -> None:
    ended, record = gate.record("--golden", golden, GATE_SEARCH_ENDPOINT="http://127.0.0.1:9")
    assert ended.status == 2
    assert "unreachable" in ended.last_line
    assert "GATE_SEARCH_ENDPOINT" in ended.out
    assert "Traceback" not in ended.said
    assert "unreachable" in ids(record["reasons"])


def test_a_search_service_that_lets_nobody_in(gate: Gate, golden: str) -> None:
    ended, record = gate.record("--golden", golden, GATE_SEARCH_API_KEY="a-wrong-key")
    assert ended.status == 2
    assert "unauthorized" in ended.last_line
    assert "Traceback" not in ended.said
    assert "unauthorized" in ids(record["reasons"])
    assert record["counts"]["lost"] == 0


def test_golden_files_that_cannot_be_read(gate: Gate) -> None:
    (gate.folder / "folder.jsonl").mkdir()
    (gate.folder / "latin.jsonl").write_bytes(lines(questions("q1")).encode() + b'{"id": "caf\xe9"}\n')
    gate.golden("half", questions("q1"), "[query\n")
    names = ("none", "folder", "latin", "half")
    ended = gate.run(*(part for name in names for part in ("--golden", f"{name}.jsonl")), "--out", "out")
    ended.refused(
        "error: none.jsonl: cannot be read: No such file",
        "error: folder.jsonl: cannot be read: Is a directory",
        "error: latin.jsonl:2: is not UTF-8 (byte 0xe9)",
        "error: half.toml:1: ",
    )
    assert not (gate.folder / "out").exists()
    assert gate.kept == []


def test_all_faults_of_a_golden_set_are_told_at_once(gate: Gate) -> None:
    faulty = [
        '{"id": "q1", "question": "sound", "answers": ["d1"]}',
        '{"id": "q1", "question": "again", "answers": ["d1"]}',
        '{"id": "q3", "question": "", "answers": ["d1"], "critcal": true}',
        '{"id": "q4", "question": "cut off", "answers": ["d1"',
        '{"id": "q5", "question": "both", "answers": ["d1"], "forbidden": ["d1"]}',
        '{"id": "q6", "question": "not a number", "answers": ["d1"], "metadata": {"x": NaN}}',
    ]
    gate.golden("hr", "\n".join(faulty), "[policy]\nmax_net_loss = -1\nnoise_run = 2\n")
    told = ("hr.toml:2: ", "hr.toml:3: ", *(f"hr.jsonl:{line}: " for line in range(2, 7)))
    ended, checked = gate.together((*RUN, "--golden", "hr.jsonl"), ("golden", "check", "hr.jsonl"))
    ended.refused(*told)
    assert checked.err == ended.err
    assert gate.kept == []
    with gate.serving() as service:
        golden = {
            "name": "hr",
            "jsonl": (gate.folder / "hr.jsonl").read_text(),
            "toml": (gate.folder / "hr.toml").read_text(),
        }
        content = {"candidate_index": "kb-v2", "baseline_index": "kb-v1", "golden": golden}
        refused = service.client.post("/v1/runs", json=content)
    assert refused.status_code == 422
    faults = [
        f"error: {each['where']}:{each['line']}: {each['message']}" for each in refused.json()["faults"]
    ]
    assert faults == ended.err.splitlines(), "one reader"
    assert gate.kept == []


def test_all_missing_or_malformed_settings_are_told_at_once(gate: Gate, golden: str) -> None:
    wrong = {
        "GATE_SEARCH_ENDPOINT": "contoso.search.windows.net",
        "GATE_SEARCH_API_KEY": "copied with its line end\n",
        "GATE_RUNS_URL": "https://contoso.blob.core.windows.net",
        "GATE_AUTH": "perhaps",
        "GATE_ENTRA_TENANT_ID": "common",
        "GATE_ENTRA_AUDIENCE": "api://gate",
        "GATE_ENTRA_AUTHORITY": "http://login.example",
        "GATE_PUBLIC_URL": "http://gate.example",
        "GATE_SESSION_KEYS": "short",
        "GATE_STARTS_PER_HOUR": "0",
        "GATE_SERVICE_URL": "http://gate.example:99999",
        "GATE_PORT": "http",
        "GATE_LOG_LEVEL": "loud",
        "GATE_MAX_CONCURRENCY": "0",
        "GATE_QUERY_TIMEOUT_SECONDS": "soon",
    }
    for ended in gate.together((*RUN, "--golden", golden), ("serve",), **wrong):
        ended.refused(*(f"error: {name}: " for name in wrong))
        assert len(ended.err.splitlines()) == len(wrong)
        assert "copied with" not in ended.err
    gate.run("--golden", golden, GATE_SEARCH_ENDPOINT=None).refused("error: GATE_SEARCH_ENDPOINT: is not set")
    gate.run(
        "--golden", golden, GATE_RUNS_URL="http://127.0.0.1:9/account/runs", GATE_RUNS_KEY="nokey!"
    ).refused("error: GATE_RUNS_KEY: ")
    assert gate.search.requests == []


def test_what_a_run_needs_is_told_at_once(gate: Gate, golden: str) -> None:
    nothing, twice, nowhere, absent = gate.together(
        ("run",),
        (*RUN, "--golden", golden, "--golden", golden),
        (*RUN, "--golden", golden, "--service", "gate.example"),
        (*RUN, "--golden", "absent"),
    )
    nothing.refused("error: --candidate: ", "error: --golden: ")
    twice.refused("--golden", "'hr'")
    nowhere.refused("error: --service: ")
    absent.refused("'absent'")
    assert gate.kept == []


def test_an_unknown_variable_stops_the_service_and_warns_a_run(gate: Gate, golden: str) -> None:
    typo = {"GATE_SERCH_ENDPOINT": "https://contoso.search.windows.net"}
    told = "GATE_SERCH_ENDPOINT: is not a setting; did you mean GATE_SEARCH_ENDPOINT?"
    serving, ended = gate.together(("serve",), (*RUN, "--golden", golden), **typo)
    serving.refused(f"error: {told}")
    assert ended.status == 0
    assert f"warning: {told}\n" in ended.err


def test_an_occupied_port(gate: Gate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = gate.ended("serve", GATE_PORT=str(port))
    ended.refused(f"error: GATE_PORT: 127.0.0.1:{port} ", "Address already in use")
    assert len(ended.err.splitlines()) == 1


def test_an_address_that_others_reach_needs_authentication(gate: Gate) -> None:
    gate.ended("serve", GATE_HOST="0.0.0.0").refused("error: GATE_AUTH: ")  # noqa: S104 — it is refused
    wrong = {"GATE_AUTH": "entra", "GATE_HOST": "0.0.0.0"}  # noqa: S104 — it is refused
    gate.ended("serve", **wrong).refused(
        "error: GATE_ENTRA_TENANT_ID: is not set",
        "error: GATE_ENTRA_AUDIENCE: is not set",
        "error: GATE_PUBLIC_URL: is not set",
        "error: GATE_SESSION_KEYS: is not set",
        "error: GATE_RUNS_URL: is a folder",
    )
    gate.ended("serve", **wrong, GATE_RUNS_URL=None).refused("error: GATE_RUNS_URL: is not set")


def test_a_token_does_not_travel_in_clear(gate: Gate, golden: str) -> None:
    for name in ("GATE_SERVICE_TOKEN", "GATE_SERVICE_SCOPE"):
        gate.run("--golden", golden, GATE_SERVICE_URL="http://gate.example", **{name: "x"}).refused(
            "error: GATE_SERVICE_URL: is http"
        )


def test_a_folder_for_documents_that_cannot_be_written(gate: Gate, golden: str, no_folder: Path) -> None:
    run = (*RUN, "--golden", golden, "--out")
    below, ended = gate.together((*run, str(no_folder)), (*run, str(no_folder.parent)))
    below.refused(f"{no_folder}: cannot be written to")
    assert (ended.status, ended.out) == (2, "")
    assert "is a file" in ended.err
    assert "Traceback" not in ended.err
    assert gate.kept == []
    assert gate.search.requests == [], "told before the first question"


def test_a_folder_for_runs_that_cannot_be_written(gate: Gate, golden: str, no_folder: Path) -> None:
    commands = ((*RUN, "--golden", golden), ("serve",))
    for place in (no_folder, Path("/proc/gate") if sys.platform == "linux" else no_folder.parent):
        for ended in gate.together(*commands, GATE_RUNS_URL=place.as_uri(), GATE_PORT="0"):
            ended.refused(f"error: The folder {place} cannot be used: ")
            assert len(ended.err.splitlines()) == 1
    assert gate.search.requests == []


def test_a_store_that_cannot_be_reached(gate: Gate, golden: str) -> None:
    away = {"GATE_RUNS_URL": "http://127.0.0.1:9/devstoreaccount1/runs", "GATE_RUNS_KEY": "c2VjcmV0"}
    for ended in gate.together((*RUN, "--golden", golden), ("serve",), GATE_PORT="0", **away):
        ended.refused("error: The container runs of 127.0.0.1:9", "does not answer")
        assert len(ended.err.splitlines()) == 1


def test_a_run_that_is_not_there(gate: Gate) -> None:
    names = ("20261130-120000-abcdef", "../../etc/passwd")
    resumed = gate.together(*(("run", "--resume", name, "--out", "out") for name in names))
    for name, ended in zip(names, resumed, strict=True):
        assert (ended.status, ended.out) == (2, "")
        assert f"error: There is no run {name!r}.\n" in ended.err
        assert "Traceback" not in ended.err
        assert not any((gate.folder / "out" / document).exists() for document in DOCUMENTS)
