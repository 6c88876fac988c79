"""Every request has an id, in its answer and in what is logged of it."""

import logging

import httpx
import pytest

from app.adapters.logs import JsonLines
from tests.web.served import Service


async def test_the_senders_id_is_answered(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/runs", headers={"X-Request-ID": "build-7.gate_1"})
    assert response.headers["x-request-id"] == "build-7.gate_1"


@pytest.mark.parametrize("sent", [None, "", "a b", "x" * 65, "a\tb", '"}', "é"])
async def test_an_id_is_made_where_none_can_be_used(client: httpx.AsyncClient, sent: str | None) -> None:
    headers = {} if sent is None else {b"X-Request-ID": sent.encode("latin-1")}
    found = [(await client.get("/nothing", headers=headers)).headers["x-request-id"] for _ in range(2)]
    assert all(len(each) == 32 and each.isalnum() for each in found)
    assert found[0] != found[1]


async def test_an_unexpected_error_is_answered_and_logged_under_the_id(
    service: Service, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonLines(()).format(record))

    handler = Lines()
    logging.getLogger("app.web").addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, "app.web"):
            service.store.fail(error=RuntimeError("secret"))
            response = await client.get("/v1/runs", headers={"X-Request-ID": "r-1"})
    finally:
        logging.getLogger("app.web").removeHandler(handler)
    assert response.status_code == 500
    assert response.headers["x-request-id"] == "r-1"
    assert len(lines) == 2
    assert all('"request": "r-1"' in line for line in lines)
    assert "GET '/v1/runs' 500" in lines[1]


async def test_probes_are_not_logged(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "app.web"):
        await client.get("/healthz")
        assert caplog.records == []
        await client.get("/v1/runs")
    assert [each.levelname for each in caplog.records] == ["INFO"]
