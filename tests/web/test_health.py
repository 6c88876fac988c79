"""Alive, and ready."""

import httpx
import pytest

from app.domain.errors import BrokenError, LiveError, StorageError
from app.domain.reasons import Code
from app.web import health
from tests.directory import Directory
from tests.fakes.live import FakeLive, When
from tests.web.served import Service, problem
from tests.web.signing_in import access_of


async def test_alive_asks_nobody(service: Service, client: httpx.AsyncClient) -> None:
    service.search.down = BrokenError(Code.UNREACHABLE, "no connection")
    calls = len(service.store.calls)
    response = await client.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "alive"}
    assert len(service.store.calls) == calls


async def test_ready_when_storage_and_search_answer(service: Service, client: httpx.AsyncClient) -> None:
    response = await client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "ready", "components": {"storage": None, "search": None}}
    assert service.search.asked == []


async def test_not_ready_when_storage_fails(service: Service, client: httpx.AsyncClient) -> None:
    service.store.fail(error=StorageError("The container is not there."))
    found = problem(await client.get("/readyz"), 503)
    assert found["components"] == {"storage": "The container is not there.", "search": None}
    assert found["detail"] == "storage: The container is not there."


@pytest.mark.parametrize("code", [Code.UNREACHABLE, Code.UNAUTHORIZED, Code.THROTTLED])
async def test_not_ready_when_search_refuses(service: Service, client: httpx.AsyncClient, code: Code) -> None:
    service.search.down = BrokenError(code, "The service refuses.")
    found = problem(await client.get("/readyz"), 503)
    assert found["components"] == {"storage": None, "search": "The service refuses."}


async def test_not_ready_when_search_hangs(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PATIENCE", 0.05)
    service.search.latency = 60
    assert problem(await client.get("/readyz"), 503)["components"]["search"]


async def test_not_ready_when_what_names_the_live_index_fails() -> None:
    live = FakeLive(index="kb-v1")
    async with Service(live=live).serving() as client:
        assert (await client.get("/readyz")).json()["components"]["live"] is None
        live.fail(1, When.BEFORE, error=LiveError("The store refuses."))
        found = problem(await client.get("/readyz"), 503)
    assert found["components"] == {"storage": None, "search": None, "live": "The store refuses."}


async def test_not_ready_while_nobody_could_sign_in() -> None:
    with Directory() as directory:
        directory.away = True
        async with Service().serving(open_access=access_of(directory)) as client:
            found = problem(await client.get("/readyz"), 503)
            assert directory.issuer in found["components"]["sign-in"]
            assert problem(await client.get("/readyz"), 503)["components"]["sign-in"]
    assert directory.keys_read == 0


async def test_ready_once_the_tenants_keys_were_read() -> None:
    with Directory() as directory:
        async with Service().serving(open_access=access_of(directory)) as client:
            for _ in range(2):
                assert (await client.get("/readyz")).json()["components"]["sign-in"] is None
            directory.away = True  # the keys are used for a day
            assert (await client.get("/readyz")).status_code == 200
    assert directory.keys_read == 1
