"""What only a real server shows: pieces on the wire, broken-off answers, and the end of the process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn

from app.domain.errors import StorageError
from app.web import bodies, downloads
from tests.web.served import Service, body, done, golden, lines, problem, waited


@asynccontextmanager
async def listening(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application behind uvicorn, on a free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            service.application(), ws="none", log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            while not server.started:  # noqa: ASYNC110 — uvicorn tells in no other way
                await asyncio.sleep(0.01)
            yield client
        server.should_exit = True
        await serving


async def test_a_document_is_sent_piece_by_piece(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "PIECE", 1000)
    async with listening(service) as client:
        run = await done(client, golden=golden(lines(50)))
        async with client.stream("GET", f"/v1/runs/{run['id']}/run.json") as response:
            assert response.headers["transfer-encoding"] == "chunked"
            await response.aread()
        assert len(response.json()["questions"]) == 50


async def test_a_document_that_cannot_be_finished_is_broken_off(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(*_: object) -> Iterator[str]:
        yield "<p>half of it"
        raise StorageError("The rest is damaged.")

    monkeypatch.setattr(downloads, "PIECE", 1)
    monkeypatch.setattr(downloads, "whole_page", half)
    async with listening(service) as client:
        run = await done(client)
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"/v1/runs/{run['id']}/report.html")
        assert (await client.get("/healthz")).status_code == 200


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "LARGEST_BODY", 1000)
    async with listening(service) as client:
        problem(await client.post("/v1/runs", json=body(golden=golden(lines(100)))), 413)


async def test_a_stopped_process_leaves_its_runs_to_the_next(service: Service) -> None:
    service.search.hold()
    async with listening(service) as client:
        run_id = (await client.post("/v1/runs", json=body())).json()["id"]
        await service.search.somebody_asked.wait()
    service.search.release()
    async with listening(service) as client:
        assert (await waited(client, run_id))["verdict"] == "PASS"


@pytest.mark.parametrize("path", ["/v1/runs/../../x", "/v1/runs/%2e%2e/%2e%2e/x", "/runs/..%2f..%2fx", "//x"])
async def test_a_path_that_climbs_reaches_nothing(service: Service, path: str) -> None:
    async with listening(service) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())  # as it stands
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"application/problem+json" in answer
