"""A service in which nobody signs in answers this machine, and no page that its browsers show."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.main import create_app
from app.settings import Settings
from tests.web.served import Service, body, problem


@pytest.fixture
async def local(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with service.serving(service.application(loopback=True)) as client:
        yield client


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080", "127.8.9.1:1", "[::1]", "[::1]:8080"],
)
async def test_this_machine_is_answered_by_its_names(local: httpx.AsyncClient, host: str) -> None:
    assert (await local.get("/v1/runs", headers={"Host": host})).status_code == 200
    assert (await local.post("/v1/runs", json=body(), headers={"Host": host})).status_code == 202


@pytest.mark.parametrize(
    "host",
    [
        "gate",
        "attacker.example",
        "attacker.example:8080",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example",
        "attacker.example:127.0.0.1",
        "0.0.0.0",  # noqa: S104 — nothing is bound
        "10.0.0.1",
        "[::]",
        "[fe80::1]:80",
        "127.0.0.1:8080:9",
        "",
        "x[::1]",
    ],
)
async def test_a_name_that_somebody_else_makes_point_here_is_not(
    local: httpx.AsyncClient, service: Service, host: str
) -> None:
    for path in ("/", "/healthz", "/v1/runs", "/nowhere"):
        told = problem(await local.get(path, headers={"Host": host}), 403)
        assert "http://localhost" in told["detail"]
    problem(await local.post("/v1/runs", json=body(), headers={"Host": host}), 403)
    assert service.runs_kept == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
async def test_a_form_of_a_page_from_elsewhere_does_nothing(local: httpx.AsyncClient, site: str) -> None:
    here = {"Host": "localhost:8080"}
    run = (await local.post("/v1/runs", json=body(), headers=here)).json()
    path = f"/v1/runs/{run['id']}/cancel"
    told = problem(await local.post(path, headers={**here, "Sec-Fetch-Site": site}), 403)
    assert "Only a page of this service" in told["detail"]
    for own in ("same-origin", "none"):
        assert (await local.post(path, headers={**here, "Sec-Fetch-Site": own})).status_code == 202
    found = await local.get("/", headers={**here, "Sec-Fetch-Site": site})
    assert found.status_code == 200, "a link from elsewhere leads here"


async def test_what_is_refused_carries_the_headers_of_every_answer(local: httpx.AsyncClient) -> None:
    refused = await local.get("/", headers={"Host": "attacker.example"})
    assert refused.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in refused.headers["content-security-policy"]


async def test_the_service_without_sign_in_is_such_a_one(tmp_path: Path) -> None:
    settings = Settings(
        search_endpoint="http://127.0.0.1:1", search_api_key=SecretStr("key"), runs_url=f"file://{tmp_path}"
    )
    transport = httpx.ASGITransport(app=create_app(settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        problem(await client.get("/healthz", headers={"Host": "attacker.example"}), 403)
