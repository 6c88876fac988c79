"""Every refusal is a problem document, and every answer carries the headers that keep browsers careful."""

import logging
from typing import Any

import httpx
import pytest

from app.domain import errors
from app.domain.condition import Condition, Need
from app.domain.errors import NotClearedError, StorageError
from app.web.access import NEEDED, OPEN
from app.web.api import create_api
from app.web.problems import KINDS
from tests.web.served import Service, body, problem


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind, *(each for child in kind.__subclasses__() for each in subclasses(child))}


def test_the_table_knows_the_whole_error_tree() -> None:
    ours = {each for each in subclasses(errors.GateError) if each.__module__ == errors.__name__}
    assert ours == set(KINDS)


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v1/runs/", "/docs", "/redoc", "/v1/runs/run-0001/x", "/runs"]
)
async def test_an_unknown_address_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    assert problem(await client.get(path), 404)["instance"] == path


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/runs/run-0001", "GET"),
        ("GET", "/v1/golden-sets/check", "POST"),
        ("DELETE", "/healthz", "GET"),
    ],
)
async def test_another_method_is_refused_with_those_that_go(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    refused = await client.request(method, path)
    problem(refused, 405)
    assert allowed in refused.headers["allow"]


async def test_a_store_that_fails_is_told_as_such(service: Service, client: httpx.AsyncClient) -> None:
    for request in (
        client.build_request("GET", "/v1/runs"),
        client.build_request("GET", "/v1/runs/run-0001"),
        client.build_request("POST", "/v1/runs", json=body()),
        client.build_request("POST", "/v1/runs/run-0001/cancel"),
        client.build_request("GET", "/v1/runs/run-0001/run.json"),
    ):
        service.store.fail(error=StorageError("The account does not answer."))
        refused = await client.send(request)
        assert problem(refused, 503)["detail"] == "The account does not answer."
        assert refused.headers["retry-after"] == "5"


async def test_a_run_that_is_not_cleared_is_refused_with_every_condition_that_does_not_hold(
    service: Service, client: httpx.AsyncClient
) -> None:
    conditions = (
        Condition(code=Need.AGE, holds=False, message="It is old. Run again."),
        Condition(code=Need.BASELINE_LIVE, holds=False, message="Live is 'kb-v9'."),
    )
    service.store.fail(error=NotClearedError("run-0001", conditions))
    found = problem(await client.get("/v1/runs"), 409)
    assert found["type"] == "urn:search-index-gate:not-cleared"
    assert found["detail"] == (
        "Run run-0001 is not cleared for promotion. It is old. Run again. Live is 'kb-v9'."
    )
    assert [(fault["where"], fault["message"]) for fault in found["faults"]] == [
        ("age", "It is old. Run again."),
        ("baseline-live", "Live is 'kb-v9'."),
    ]


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_an_unexpected_error_is_logged_and_not_told(
    service: Service, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, accept: str
) -> None:
    service.store.fail(error=RuntimeError("secret detail"))
    with caplog.at_level(logging.ERROR):
        refused = await client.get("/v1/runs", headers={"accept": accept})
    found = problem(refused, 500)
    assert "secret" not in refused.text
    assert "log" in found["detail"]
    assert any("secret detail" in (record.exc_text or "") for record in caplog.records)


@pytest.mark.parametrize("path", ["/", "/v1/runs", "/nothing", "/healthz", "/openapi.json", "/runs/run-0001"])
async def test_every_answer_carries_the_careful_headers(client: httpx.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    for rule in (
        "default-src 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
    ):
        assert rule in policy.split("; ")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


async def test_the_careful_headers_are_on_an_unexpected_error_too(
    service: Service, client: httpx.AsyncClient
) -> None:
    service.store.fail(error=RuntimeError("x"))
    assert (await client.get("/v1/runs")).headers["x-content-type-options"] == "nosniff"


def document() -> dict[str, Any]:
    def never() -> Any:
        raise AssertionError("the document needs no open gate")

    return create_api(never, version="1.2.3").openapi()


def operations() -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }


def test_the_openapi_document_names_the_calls_of_the_contract() -> None:
    assert set(operations()) == {
        "POST /v1/runs",
        "GET /v1/runs/{run_id}/clearance",
        "POST /v1/runs/{run_id}/promote",
        "GET /v1/runs/{run_id}/promotion",
        "GET /v1/live",
        "POST /v1/live/rollback",
        "GET /v1/live/retirement",
        "GET /v1/audit",
        "GET /v1/audit/verification",
        "POST /v1/runs/{run_id}/judge",
        "POST /v1/judge",
        "GET /v1/runs",
        "GET /v1/runs/{run_id}",
        "POST /v1/runs/{run_id}/cancel",
        "GET /v1/runs/{run_id}/run.json",
        "GET /v1/runs/{run_id}/report.html",
        "GET /v1/runs/{run_id}/report.md",
        "GET /v1/runs/{run_id}/junit.xml",
        "POST /v1/runs/{run_id}/reviews",
        "GET /v1/runs/{run_id}/reviews",
        "POST /v1/runs/{run_id}/overrides",
        "GET /v1/runs/{run_id}/overrides",
        "GET /v1/runs/{run_id}/golden.jsonl",
        "GET /v1/runs/{run_id}/golden.patch",
        "POST /v1/golden-sets/check",
        "POST /v1/checks/azure-devops",
        "GET /healthz",
        "GET /readyz",
    }
    assert document()["info"]["version"] == "1.2.3"


def test_the_openapi_document_declares_every_refusal_as_a_problem() -> None:
    for name, operation in operations().items():
        for status, response in operation["responses"].items():
            if status == "default" or int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"], (name, status)
    assert "422" not in operations()["GET /v1/runs/{run_id}/reviews"]["responses"]


def test_the_openapi_document_tells_who_may_call_what() -> None:
    for name, operation in operations().items():
        refused = {"401", "403"} & operation["responses"].keys()
        if NEEDED[name] is OPEN:
            assert "403" not in refused
            assert {"entra": []} not in operation.get("security", [])
        else:
            assert refused == {"401", "403"}
            assert operation["security"] == [{"entra": []}, {}]
    promote = operations()["POST /v1/runs/{run_id}/promote"]["description"]
    assert promote.endswith("\n\nNeeds the role Gate.Promote.")


def test_every_reference_in_the_openapi_document_leads_somewhere() -> None:
    whole = document()

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(each) for each in value.values()))
        if isinstance(value, list):
            return set().union(*(references(each) for each in value))
        return set()

    found = references(whole)
    assert found
    assert {name.removeprefix("#/components/schemas/") for name in found} <= set(
        whole["components"]["schemas"]
    )


def test_the_openapi_document_tells_the_body_that_starts_a_run() -> None:
    schema = document()["components"]["schemas"]["StartBody"]
    assert set(schema["properties"]) == {
        "candidate_index",
        "baseline_index",
        "golden_set",
        "golden",
        "policy",
        "noise_study",
        "change",
        "slices",
    }
    assert schema["required"] == ["candidate_index"]
    assert schema["additionalProperties"] is False
