"""The short form of `make soak`, and what is done once: processes, networks and stores that fail."""

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.azurite import KEY
from tests.e2e.programs import Gate, until
from tests.e2e.proxies import Act, Passing, Proxy
from tests.e2e.test_storage_cases import asked, thirty
from tests.e2e.trials import (
    FINAL,
    GO_ON,
    RETRYABLE,
    killed,
    searched,
    stopped,
    stored,
    undisturbed,
    without_parent,
)


@pytest.fixture
def expected(gate: Gate) -> dict[str, Any]:
    gate.patience = 100  # where many others work on the same machine
    if not _expected:  # the same for all, as the service's answers are
        _expected.update(undisturbed(gate))
    return _expected


_expected: dict[str, Any] = {}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_whose_process_is_ended_at_any_moment_ends_as_it_would_have(
    gate: Gate, expected: dict[str, Any], how: signal.Signals
) -> None:
    killed(gate, 1, expected, how=how)


def test_a_run_on_blob_storage_whose_process_is_killed_ends_as_it_would_have(
    gate: Gate, expected: dict[str, Any], container_url: str
) -> None:
    gate.environment |= {"GATE_RUNS_URL": container_url, "GATE_RUNS_KEY": KEY}
    killed(gate, 2, expected)


def test_a_replica_takes_up_the_run_of_one_that_stands_still(
    gate: Gate, expected: dict[str, Any], container_url: str
) -> None:
    gate.environment |= {"GATE_RUNS_URL": container_url, "GATE_RUNS_KEY": KEY}
    stopped(gate, 3, expected)


def test_a_hundred_starts_with_one_key_on_two_replicas_are_one_run(gate: Gate, container_url: str) -> None:
    gate.environment |= {"GATE_RUNS_URL": container_url, "GATE_RUNS_KEY": KEY, "GATE_LEG_PROBES": "false"}
    golden = thirty(gate.search)
    with gate.serving() as one, gate.serving() as two, ThreadPoolExecutor(10) as pool:
        started = list(
            pool.map(lambda n: (one, two)[n % 2].start(key="once", golden=golden)["id"], range(100))
        )
        assert len(set(started)) == 1
        record = two.done(started[0])
        assert [each["id"] for each in one.client.get("/v1/runs").json()["runs"]] == started[:1]
    assert (record["verdict"], record["manifest"]["starts"]) == ("PASS", 1)


def test_a_cancellation_at_one_replica_ends_the_run_of_the_other(gate: Gate, container_url: str) -> None:
    gate.environment |= {"GATE_RUNS_URL": container_url, "GATE_RUNS_KEY": KEY}
    gate.search.latency = 0.2
    with gate.serving() as one, gate.serving() as two:
        run_id = one.start(golden=thirty(gate.search))["id"]
        until(lambda: asked(gate.search.requests).total() > 2, "some questions asked")
        two.client.post(f"/v1/runs/{run_id}/cancel").raise_for_status()
        record = two.done(run_id)
    assert (record["reasons"][0]["code"], record["manifest"]["starts"]) == ("cancelled", 1)


def test_a_fifth_of_the_searches_failing_never_makes_another_verdict(
    gate: Gate, expected: dict[str, Any]
) -> None:
    assert searched(gate, 4, expected, RETRYABLE, 0.2) in ("PASS", "ERROR")


def test_answers_that_are_none_never_make_another_verdict(gate: Gate, expected: dict[str, Any]) -> None:
    assert searched(gate, 5, expected, FINAL, 0.05) in ("PASS", "ERROR")


def test_rows_without_a_parent_are_an_error(gate: Gate) -> None:
    assert without_parent(gate) == "ERROR"


def test_one_in_twenty_storage_calls_failing_changes_no_verdict(
    gate: Gate, expected: dict[str, Any], container_url: str
) -> None:
    assert stored(gate, 6, expected, container_url, 0.05) in ("PASS", "ERROR", "no verdict")


@pytest.mark.parametrize("status", [403, 404])
def test_a_store_that_refuses_in_the_middle_is_told_and_gone_on_with_when_it_is_back(
    gate: Gate, expected: dict[str, Any], container_url: str, status: int
) -> None:
    """Its key is revoked, or its address leads nowhere, for a while; nothing that was kept is lost."""
    broken = False

    def decide(_: Passing) -> Act | int:
        return status if broken else Act.PASS

    gate.search.latency = 0.05
    with Proxy(container_url, decide) as proxy:
        gate.environment |= {**GO_ON, "GATE_RUNS_URL": proxy.url, "GATE_RUNS_KEY": KEY}
        with gate.serving() as service:
            run_id = service.start(golden=thirty(gate.search))["id"]
            until(lambda: asked(gate.search.requests).total() > 20, "some questions asked")
            broken = True
            until(lambda: "waits for its store" in service.process.err, "the run waits")
            ready: httpx.Response = service.client.get("/readyz")
            assert ready.status_code == 503
            assert ready.json()["components"]["storage"]
            assert service.client.get(f"/v1/runs/{run_id}").status_code == 503
            broken = False
            record = service.done(run_id)
    assert {name: record[name] for name in ("verdict", "counts", "lost", "gained")} == {
        name: expected[name] for name in ("verdict", "counts", "lost", "gained")
    }
