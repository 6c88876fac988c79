"""Disturbed runs, each against an undisturbed one on the same scripted service. CI makes a few of each kind
(tests/e2e/test_faults.py), `make soak` many.

A trial is given its place in the series, from which everything that is random in it follows.
"""

import json
import random
import signal
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.azurite import KEY
from tests.e2e.programs import RUN, Gate, Served, until
from tests.e2e.proxies import Act, Passing, Proxy
from tests.e2e.test_storage_cases import NAMES, POLICY, asked, decided, planned, set_of_thirty, thirty
from tests.scripted import JSON, Fault

GO_ON = {"GATE_LEG_PROBES": "false", "GATE_TAKEOVER_SECONDS": "1", "GATE_RUN_TIMEOUT_SECONDS": "120"}
CONCURRENCY = 4  # of the programs; what is under way when a process is killed

RETRYABLE: dict[str, Fault] = {
    "429": Fault(status=429),
    "429 with Retry-After": Fault(status=429, headers={"Retry-After": "0"}),
    "503": Fault(status=503),
    "500": Fault(status=500),
    "502": Fault(status=502),
    "504": Fault(status=504),
    "408": Fault(status=408),
    "partial answer": Fault(status=206, partial="capacityOverloaded", unranked=True),
    "no ranker scores": Fault(unranked=True),
    "dropped": Fault(drop="before"),
    "dropped mid-body": Fault(drop="mid"),
}
FINAL: dict[str, Fault] = {
    "truncated JSON": Fault(truncated=True),
    "another content type": Fault(body=b"<html>sign in</html>", content_type="text/html"),
    "redirect": Fault(status=302, headers={"Location": "http://127.0.0.1:9/"}),
    "no value": Fault(without_value=True),
    "value of another kind": Fault(body=b'{"value": {"a": 1}}', content_type=JSON),
    "null": Fault(body=b"null", content_type=JSON),
    "trickling": Fault(trickle=0.05),
}


def undisturbed(gate: Gate) -> dict[str, Any]:
    """What the run of thirty questions decides when nothing goes wrong."""
    thirty(gate.search)
    path = gate.golden("thirty", set_of_thirty(), POLICY)
    _, record = gate.record(
        "--golden", path, GATE_RUNS_URL=(gate.folder / "undisturbed").as_uri(), GATE_RUNS_KEY=None
    )
    gate.search.requests.clear()
    return decided(record)


def killed(gate: Gate, number: int, expected: dict[str, Any], *, how: signal.Signals = signal.SIGKILL) -> int:
    """A run whose process is ended at one to three random moments, and which ends as it would have; how many
    processes were ended. A finished observation, one that the journal holds, is not asked again: no more are asked
    twice than can have been under way.
    """
    chance = random.Random(number)
    gate.search.latency, gate.search.on_search = 0.02, None
    gate.search.requests.clear()
    body = {"golden": thirty(gate.search)}
    ends, run_id = 0, ""
    for _ in range(chance.randint(1, 3)):
        with gate.serving(**GO_ON) as service:
            if not run_id:
                run_id = service.start(key=f"trial-{number}-{how}", **body)["id"]
            time.sleep(chance.uniform(0, 1.5))
            ends += service.client.get(f"/v1/runs/{run_id}").json()["state"] != "done"
            service.process.send(how)
            service.process.ended()
    with gate.serving(**GO_ON) as service:
        record = service.done(run_id)
        assert len(service.client.get("/v1/runs").json()["unreadable"]) == 0
    assert decided(record) == expected, f"trial {number}"
    again = asked(gate.search.requests) - planned()
    assert again.total() <= ends * CONCURRENCY * 2, f"trial {number}: {again}"
    return ends


def stopped(gate: Gate, number: int, expected: dict[str, Any]) -> float:
    """A run whose process stands still (SIGSTOP) at a random moment and wakes when another one has ended the run:
    seconds until the other one took it up.
    """
    chance = random.Random(number)
    gate.search.latency, gate.search.on_search = 0.05, None
    gate.search.requests.clear()
    golden = thirty(gate.search)
    takeover = {**GO_ON, "GATE_TAKEOVER_SECONDS": "3"}
    with gate.serving(**takeover) as other, gate.serving(**takeover) as first:
        run_id = first.start(golden=golden)["id"]
        until(lambda: asked(gate.search.requests).total() > chance.randint(1, 60), "questions asked")
        first.process.send(signal.SIGSTOP)
        began = time.monotonic()
        until(lambda: status(other, run_id)["manifest"]["starts"] == 2, "the other one takes it up", 30)
        took = time.monotonic() - began
        record = other.done(run_id)
        before = other.client.get(f"/v1/runs/{run_id}/run.json").content
        first.process.send(signal.SIGCONT)
        until(lambda: "is left to another process" in first.process.err, "the old one is refused")
        assert other.client.get(f"/v1/runs/{run_id}/run.json").content == before
        assert first.client.get(f"/v1/runs/{run_id}/run.json").content == before
    assert decided(record) == expected, f"trial {number}"
    return took


def status(service: Served, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = service.client.get(f"/v1/runs/{run_id}").json()
    return found


def searched(
    gate: Gate, number: int, expected: dict[str, Any], faults: dict[str, Fault], share: float
) -> str:
    """A run of which that share of the requests fails, each in a random way of these: its verdict."""
    chance = random.Random(number)
    gate.search.latency, gate.search.on_search = 0.0, None
    gate.search.clear_faults()
    thirty(gate.search)
    path = gate.golden("thirty", set_of_thirty(), POLICY)
    for index in ("kb-v1", "kb-v2"):
        for name in NAMES:
            for nth in range(1, 12):
                if chance.random() < share:
                    fault = replace(chance.choice(list(faults.values())))
                    gate.search.fault(index, fault, question=f"about {name}", nth=nth)
    gate.search._seen.clear()
    ended, record = gate.record(
        "--golden", path, GATE_QUERY_TIMEOUT_SECONDS="1", GATE_MAX_CONCURRENCY="8", **GO_ON
    )
    gate.search.clear_faults()
    assert "Traceback" not in ended.said
    if record["verdict"] != "ERROR":
        kept = {name: decided(record)[name] for name in ("verdict", "reasons", "counts", "lost", "gained")}
        assert kept == {name: expected[name] for name in kept}, f"trial {number}"
    return str(record["verdict"])


def without_parent(gate: Gate) -> str:
    """A run whose candidate's rows lack the parent field: its verdict."""
    thirty(gate.search)
    path = gate.golden("thirty", set_of_thirty(), POLICY)
    rows = [{"chunk_id": f"{n}", "@search.score": 1.0, "@search.rerankerScore": 2.0} for n in range(10)]
    gate.search.fault("kb-v2", Fault(body=json.dumps({"value": rows}).encode()))
    _, record = gate.record("--golden", path, **GO_ON)
    gate.search.clear_faults()
    return str(record["verdict"])


def stored(gate: Gate, number: int, expected: dict[str, Any], container: str, share: float) -> str:
    """A run of whose storage calls that share fails, before or after their effect: its verdict."""
    chance = random.Random(number)
    failed = Counter[Act | int]()

    def decide(_: Passing) -> Act | int:
        if chance.random() >= share:
            return Act.PASS
        choices: list[Act | int] = [Act.LOSE, Act.RESET, 500, 503, 408]
        act = chance.choice(choices)
        failed[act] += 1
        return act

    gate.search.latency, gate.search.on_search = 0.0, None
    thirty(gate.search)
    path = gate.golden("thirty", set_of_thirty(), POLICY)
    with Proxy(container, decide) as proxy:
        ended = gate.ended(
            *RUN,
            "--golden",
            path,
            "--out",
            f"stored-{number}",
            **GO_ON,
            GATE_RUNS_URL=proxy.url,
            GATE_RUNS_KEY=KEY,
        )
        assert "Traceback" not in ended.said
        if not (gate.folder / f"stored-{number}" / "run.json").exists():
            assert ended.status == 2, ended.said
            return "no verdict"
    record = gate.read(f"stored-{number}")
    if record["verdict"] != "ERROR":
        assert decided(record) == expected, f"trial {number}"
    else:
        assert {each["code"] for each in record["reasons"]} & {"storage-unavailable", "interrupted"}, record[
            "reasons"
        ]
    return str(record["verdict"])
