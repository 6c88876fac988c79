"""A run that names no baseline compares with what is live when it is asked for."""

from collections.abc import AsyncIterator

import httpx
import pytest

from app.domain.errors import LiveError
from tests.fakes.live import FakeLive
from tests.web.served import Service, body, done, problem, waited

KEY = {"Idempotency-Key": "pipeline 4711"}
UNNAMED = body(baseline_index=None)


@pytest.fixture
def live(service: Service) -> FakeLive:
    service.live = FakeLive(where="the setting")
    return service.live


@pytest.fixture
async def client(service: Service, live: FakeLive) -> AsyncIterator[httpx.AsyncClient]:
    async with service.serving() as client:
        yield client


async def test_the_baseline_is_the_index_that_the_setting_names(client: httpx.AsyncClient) -> None:
    run = await done(client, baseline_index=None)
    assert run["verdict"] == "PASS"
    assert run["baseline"]["index"] == run["baseline"]["requested"] == "kb-v1"
    assert run["baseline"]["alias"] is None
    assert run["manifest"]["baseline_from"] == "the setting"


async def test_the_baseline_is_what_the_alias_stands_for(
    service: Service, client: httpx.AsyncClient, live: FakeLive
) -> None:
    live.alias = "live"
    service.search.aliases["live"] = "kb-v1"
    started = await client.post("/v1/runs", json=UNNAMED)
    sides = started.json()["baseline"]
    assert (sides["requested"], sides["alias"], sides["index"]) == ("live", "live", "kb-v1")
    run = await waited(client, started.json()["id"])
    assert run["verdict"] == "PASS"
    sides = run["baseline"]
    assert (sides["requested"], sides["alias"], sides["index"]) == ("live", "live", "kb-v1")


async def test_an_alias_that_is_moved_during_the_run_is_a_changed_index(
    service: Service, client: httpx.AsyncClient, live: FakeLive
) -> None:
    live.alias = "live"
    service.search.aliases["live"] = "kb-v1"
    service.search.index("kb-v9").otherwise = ("x", "d1", "x")
    service.search.hold()
    started = await client.post("/v1/runs", json=UNNAMED)
    await service.search.somebody_asked.wait()
    service.search.aliases["live"] = "kb-v9"
    service.search.release()
    run = await waited(client, started.json()["id"])
    assert run["verdict"] == "ERROR"
    assert "index-changed" in [reason["code"] for reason in run["reasons"]]


async def test_a_named_baseline_is_taken_as_it_is(client: httpx.AsyncClient, live: FakeLive) -> None:
    live.change("kb-v9")
    live.fail()
    run = await done(client)
    assert run["baseline"]["index"] == "kb-v1"
    assert "baseline_from" not in run["manifest"]
    assert live.calls == []


async def test_a_noise_study_needs_nothing_that_is_live(client: httpx.AsyncClient, live: FakeLive) -> None:
    run = await done(client, baseline_index=None, noise_study=True)
    assert run["baseline"]["index"] == "kb-v2"
    assert live.calls == []


async def test_one_key_starts_one_run_whatever_is_live_by_then(
    service: Service, client: httpx.AsyncClient, live: FakeLive
) -> None:
    first = await client.post("/v1/runs", json=UNNAMED, headers=KEY)
    run = await waited(client, first.json()["id"])
    live.change("kb-v9")
    again = await client.post("/v1/runs", json=UNNAMED, headers=KEY)
    live.fail(operation="read")
    unreadable = await client.post("/v1/runs", json=UNNAMED, headers=KEY)
    assert again.json() == unreadable.json() == run
    assert run["baseline"]["index"] == "kb-v1"
    assert len(service.runs_kept) == 1
    other = await client.post("/v1/runs", json=body(), headers=KEY)
    problem(other, 409)


async def test_nothing_is_kept_where_what_is_live_cannot_be_read(
    service: Service, client: httpx.AsyncClient, live: FakeLive
) -> None:
    live.fail(operation="read", error=LiveError("The setting refuses."))
    found = problem(await client.post("/v1/runs", json=UNNAMED, headers=KEY), 503)
    assert found["type"] == "urn:search-index-gate:live-unavailable"
    assert found["detail"] == "The setting refuses."
    assert service.store.documents == {}
    started = await client.post("/v1/runs", json=UNNAMED, headers=KEY)
    assert started.status_code == 202
    assert (await waited(client, started.json()["id"]))["verdict"] == "PASS"


async def test_a_setting_that_names_nothing_yet_needs_a_baseline(
    service: Service, client: httpx.AsyncClient, live: FakeLive
) -> None:
    live.change(None)
    found = problem(await client.post("/v1/runs", json=UNNAMED), 422)
    assert "baseline_index" in found["detail"]
    assert "the setting names no index yet" in found["detail"]
    assert service.store.documents == {}


async def test_without_a_setting_the_baseline_is_needed_and_the_settings_are_named() -> None:
    service = Service()
    async with service.serving() as client:
        found = problem(await client.post("/v1/runs", json=UNNAMED), 422)
    assert "baseline_index" in found["detail"]
    assert "GATE_LIVE_KEY" in found["detail"]
    assert "GATE_LIVE_ALIAS" in found["detail"]
    assert service.store.documents == {}
