"""Keys and tokens go to whom they are for, and are written nowhere."""

import json
from pathlib import Path

from tests.azurite import KEY as RUNS_KEY
from tests.e2e.programs import PLAIN, RUN, SEARCH_KEY, Gate, lines, questions
from tests.e2e.proxies import Act, Proxy
from tests.scripted import Fault

TOKEN = "svc-9hT4kQ7wXz2LmB8vRc5NpYd3JfGsAe6U"
SECRETS = (SEARCH_KEY, RUNS_KEY, TOKEN)


def leaks(folder: Path) -> list[str]:
    """Files below the folder, reports, runs and all that was printed, that hold a secret."""
    return [
        str(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in SECRETS)
    ]


def test_keys_and_tokens_are_written_nowhere(gate: Gate, container_url: str) -> None:
    """Also where everything is logged, and where the search service itself says the key that it was sent."""
    said = f"Access denied for api-key {SEARCH_KEY} (Authorization: Bearer {TOKEN})."
    gate.search.fault("kb-v2", Fault(status=400, message=said), question="about q2")
    gate.search.index("closed")
    gate.search.fault("closed", Fault(status=403, message=said), on="definition")
    gate.search.fault("closed", Fault(status=403, message=said))
    gate.golden("hr", questions("q1", "q2"), f"[policy]\n{PLAIN}")
    debug = {"GATE_LOG_LEVEL": "debug", "GATE_SERVICE_TOKEN": TOKEN}
    blobs = {"GATE_RUNS_URL": container_url, "GATE_RUNS_KEY": RUNS_KEY}

    run = (*RUN, "--golden", "hr.jsonl", "--out")
    ended = gate.together((*run, "folder"), (*run, "closed", "--candidate", "closed"), **debug)
    assert [each.status for each in ended] == [2, 2]
    assert "[hidden]" in gate.read("folder")["questions"][1]["candidate"][0]["error"]["message"]
    assert gate.run("--golden", "hr.jsonl", "--out", "blobs", **debug, **blobs).status == 2
    refused = gate.run("--golden", "hr.jsonl", **debug, **{**blobs, "GATE_RUNS_KEY": "d3Jvbmc="})
    assert refused.status == 2
    assert "GATE_RUNS_KEY" in refused.err
    with gate.serving(**debug, **blobs) as service, Proxy(service.url, lambda _: Act.PASS) as proxy:
        there = gate.run("--golden", "hr.jsonl", "--out", "there", "--service", proxy.url, **debug)
        service.client.get("/readyz")
        record = service.done(
            service.start(golden={"name": "hr", "jsonl": lines(questions("q1", "q2"))})["id"]
        )
    assert there.status == 2
    assert {each.headers["authorization"] for each in proxy.passed} == {f"Bearer {TOKEN}"}
    assert {each.headers.get("api-key") for each in gate.search.requests} == {SEARCH_KEY}
    logged = [json.loads(line) for line in service.process.err.splitlines()]
    assert {"time", "level", "logger", "message"} <= set.intersection(*map(set, logged))
    assert {each["run"] for each in logged if "run" in each} >= {record["id"]}
    assert len(list(gate.folder.glob("*/run.json"))) == 4
    assert leaks(gate.folder) == []


def test_a_refused_setting_is_named_without_its_value(gate: Gate) -> None:
    wrong = {
        "GATE_SEARCH_API_KEY": f"{SEARCH_KEY} {SEARCH_KEY}",
        "GATE_RUNS_KEY": f"{RUNS_KEY}\n",
        "GATE_SERVICE_TOKEN": f"{TOKEN}\n",
        "GATE_SERVICE_URL": f"https://user:{TOKEN}@gate.example",
        "GATE_RUNS_URL": f"https://contoso.blob.core.windows.net/runs?sig={RUNS_KEY}",
    }
    gate.run(**wrong).refused(*(f"error: {name}: " for name in wrong))
    gate.run("--service", wrong["GATE_SERVICE_URL"], "--golden", "hr").refused("error: --service: ")
    assert leaks(gate.folder) == []
