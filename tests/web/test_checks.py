"""Checks of Azure DevOps over HTTP, called back before an organisation on loopback."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.adapters.azure_devops import open_azure_devops
from app.web.bodies import LARGEST_SMALL_BODY
from tests.azure_devops import SECRET, TOKEN, Organization
from tests.directory import Directory
from tests.fakes.live import FakeLive
from tests.fakes.search import ranked
from tests.fakes.store import MemoryStore
from tests.web.served import Service, body, done, problem, waited
from tests.web.signing_in import access_of

CHECK = "/v1/checks/azure-devops"
BUILD = {"build_id": "417"}


@pytest.fixture
async def service(organization: Organization) -> AsyncIterator[Service]:
    async with open_azure_devops([organization.url], jitter=lambda: 0.01) as azure_devops:
        yield Service(live=FakeLive(), callbacks=azure_devops)


def in_latin_1(headers: dict[str, str]) -> httpx.Headers:
    return httpx.Headers(headers, encoding="latin-1")


async def told(organization: Organization) -> str:
    """The one result that was posted."""
    await asyncio.to_thread(organization.wait_for, 1)
    (result,) = organization.results
    return result


async def checked(client: httpx.AsyncClient, organization: Organization, build_id: str = "417") -> str:
    """The result that a check is called back with."""
    response = await client.post(CHECK, json={"build_id": build_id}, headers=organization.check())
    assert (response.status_code, response.json()) == (200, {"build_id": build_id})
    return await told(organization)


async def test_a_build_whose_run_passed_and_is_cleared_succeeds_and_starts_nothing(
    client: httpx.AsyncClient, service: Service, organization: Organization
) -> None:
    await done(client, change=BUILD)
    assert await checked(client, organization) == "succeeded"
    assert len(service.runs_kept) == 1
    assert service.live is not None
    assert service.live.written == []


async def test_a_build_whose_run_failed_fails(
    client: httpx.AsyncClient, service: Service, organization: Organization
) -> None:
    service.search.index("kb-v2").answer("question 2", ranked(6, "d1"))
    await done(client, change=BUILD)
    assert await checked(client, organization) == "failed"


async def test_a_build_fails_whose_run_passed_before_live_moved(
    client: httpx.AsyncClient, service: Service, organization: Organization
) -> None:
    await done(client, change=BUILD)
    assert service.live is not None
    service.search.index("kb-v9")
    service.live.change("kb-v9")
    assert await checked(client, organization) == "failed"


async def test_a_build_without_a_run_fails(
    client: httpx.AsyncClient, service: Service, organization: Organization
) -> None:
    await done(client)
    assert await checked(client, organization) == "failed"
    assert len(service.runs_kept) == 1


async def test_the_answer_comes_before_the_run_is_done_and_the_result_after(
    client: httpx.AsyncClient, service: Service, organization: Organization
) -> None:
    service.search.hold()
    run = (await client.post("/v1/runs", json=body(change=BUILD))).json()
    response = await client.post(CHECK, json=BUILD, headers=organization.check())
    assert response.status_code == 200
    assert (await client.get(f"/v1/runs/{run['id']}")).json()["state"] != "done"
    assert organization.posted == []
    service.search.release()
    await waited(client, run["id"])
    assert await told(organization) == "succeeded"


class Stalled(MemoryStore):
    """Does not tell which runs there are before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.going = asyncio.Event()

    async def names(self, prefix: str) -> AsyncIterator[str]:
        if prefix == "status/":
            await self.going.wait()
        async for name in super().names(prefix):
            yield name


async def test_the_answer_waits_for_nothing(service: Service, organization: Organization) -> None:
    """However slow the store is, Azure DevOps has its answer within the 3 seconds that it gives."""
    service.store = store = Stalled()
    async with service.serving() as client:
        await done(client, change=BUILD)
        response = await client.post(CHECK, json=BUILD, headers=organization.check())
        assert response.status_code == 200
        assert organization.posted == []
        store.going.set()
        assert await told(organization) == "succeeded"


async def test_the_token_is_in_no_log_and_no_document(
    client: httpx.AsyncClient,
    service: Service,
    organization: Organization,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await done(client, change=BUILD)
    organization.faults = [500, "drop", 403]
    for name in ("", "httpx", "httpcore"):  # the service itself keeps the libraries quieter
        caplog.set_level(logging.DEBUG, logger=name)
    await client.post(CHECK, json=BUILD, headers=organization.check())
    await asyncio.to_thread(organization.wait_for, 3)
    problem(await client.post(CHECK, json={}, headers=organization.check()), 422)
    problem(await client.post(CHECK, json=BUILD, headers=organization.check(PlanId=TOKEN)), 422)
    problem(await client.post(CHECK, json=BUILD, headers=organization.check(PlanUrl="https://x/")), 422)
    for secret in (TOKEN, SECRET):
        assert secret not in caplog.text
        assert not any(secret.encode() in document for document in service.store.documents.values())
    assert "the check of build '417' succeeded" in caplog.text


@pytest.mark.parametrize("sent", [None, "", "x" * 40, SECRET[:-1], SECRET + "x", SECRET.upper(), "é" * 40])
async def test_without_the_secret_nothing_is_told(
    client: httpx.AsyncClient, organization: Organization, sent: str | None
) -> None:
    headers = organization.check(**{"X-Gate-Check-Secret": sent})
    response = await client.post(CHECK, json={"wrong": 1}, headers=in_latin_1(headers))
    assert SECRET not in str(problem(response, 401))
    assert organization.posted == []


async def test_the_secret_twice_is_none(client: httpx.AsyncClient, organization: Organization) -> None:
    sent = httpx.Headers([*organization.check().items(), ("X-Gate-Check-Secret", SECRET)])
    problem(await client.post(CHECK, json=BUILD, headers=sent), 401)


async def test_a_role_is_no_secret(
    service: Service, organization: Organization, directory: Directory
) -> None:
    async with service.serving(open_access=access_of(directory)) as client:
        roles = directory.token("Gate.Run", "Gate.Read", "Gate.Review", "Gate.Promote")
        headers = organization.check(**{"X-Gate-Check-Secret": None, "Authorization": f"Bearer {roles}"})
        problem(await client.post(CHECK, json=BUILD, headers=headers), 401)
        await client.post(CHECK, json=BUILD, headers=organization.check())
        assert await told(organization) == "failed"
        problem(await client.get("/v1/runs", headers=organization.check()), 401)  # and opens nothing else


GUIDS = ("ProjectId", "PlanId", "JobId", "TaskInstanceId")
HOSTILE = [
    *(
        (name, value)
        for name in GUIDS
        for value in (None, "", "x", "../../..", "0a1b2c3d-0000-4000-8000-00000000000", "{0a1b2c3d}")
    ),
    *((name, "0a1b2c3d-0000-4000-8000-000000000001/../x") for name in GUIDS),
    *(("HubName", value) for value in (None, "", "checks/..", "ch ecks", "checks?x", "x" * 33, "1")),
    *(("AuthToken", value) for value in (None, "", "a b", "a" * 16_001, "é")),
    *(
        ("PlanUrl", value)
        for value in (
            None,
            "",
            "x" * 501,
            "https://dev.azure.com/contoso/",
            "http://169.254.169.254/",
            "<script>alert(1)</script>",
        )
    ),
]


@pytest.mark.parametrize(("name", "value"), HOSTILE)
async def test_a_header_that_is_out_of_the_ordinary_is_named_and_not_quoted(
    client: httpx.AsyncClient, organization: Organization, name: str, value: str | None
) -> None:
    headers = organization.check(**{name: value})
    response = await client.post(CHECK, json=BUILD, headers=in_latin_1(headers))
    (fault,) = problem(response, 422)["faults"]
    assert name in fault["where"]
    assert not value or len(value) < 3 or value not in response.text
    assert TOKEN not in response.text
    assert organization.posted == []


@pytest.mark.parametrize(
    "sent",
    [
        {},
        [],
        {"build_id": 417},
        {"build_id": None},
        {"build_id": ""},
        {"build_id": "$(Build.BuildId)"},
        {"build_id": "417\n"},
        {"build_id": "٤١٧"},
        {"build_id": "4" * 21},
        {"build_id": "417", "result": "succeeded"},
    ],
)
async def test_a_body_that_names_no_build_is_refused(
    client: httpx.AsyncClient, organization: Organization, sent: object
) -> None:
    problem(await client.post(CHECK, json=sent, headers=organization.check()), 422)
    assert organization.posted == []


async def test_other_bodies_are_refused(client: httpx.AsyncClient, organization: Organization) -> None:
    sent: Any = {"content": b'{"build_id": "417"}', "headers": organization.check()}
    problem(await client.post(CHECK, **sent), 415)
    sent = {"json": {"build_id": "4" * LARGEST_SMALL_BODY}, "headers": organization.check()}
    problem(await client.post(CHECK, **sent), 413)
    assert organization.posted == []


@pytest.mark.parametrize("live", [FakeLive(), None])
async def test_where_checks_are_not_set_up_there_are_none(
    live: FakeLive | None, organization: Organization
) -> None:
    async with Service(live=live).serving() as client:
        told = problem(await client.post(CHECK, json=BUILD, headers=organization.check()), 404)
        assert "GATE_CHECK_SECRET" in told["detail"]


async def test_a_service_that_stops_does_not_wait_for_its_checks(
    service: Service, organization: Organization
) -> None:
    service.search.hold()
    async with service.serving() as client:
        await client.post("/v1/runs", json=body(change=BUILD))
        response = await client.post(CHECK, json=BUILD, headers=organization.check())
        assert response.status_code == 200
    assert organization.posted == []
    assert not any("Checks" in repr(task) for task in asyncio.all_tasks())
