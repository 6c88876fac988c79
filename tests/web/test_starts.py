"""How many runs a caller may start, how large a body may be, and the headers of every answer."""

import httpx
import pytest
from starlette.exceptions import HTTPException

from app.web.bodies import LARGEST_SMALL_BODY
from app.web.starts import WINDOW, Starts
from tests.web.served import Service, body, problem


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(starts: Starts, caller: str | None, key: str | None = None) -> int:
    """Seconds to wait."""
    with pytest.raises(HTTPException) as caught:
        starts.admit(caller, key)
    assert caught.value.status_code == 429
    return int((caught.value.headers or {})["Retry-After"])


def test_a_caller_may_start_so_many_an_hour_and_another_as_many() -> None:
    clock = Clock()
    starts = Starts(2, clock)
    starts.admit("a", None)
    clock.now = 600
    starts.admit("a", None)
    assert refused(starts, "a") == WINDOW - 600
    starts.admit("b", None)
    clock.now = WINDOW
    starts.admit("a", None)
    assert refused(starts, "a") == 600


def test_a_repetition_by_key_counts_once_and_is_never_refused() -> None:
    starts = Starts(1, Clock())
    for _ in range(3):
        starts.admit("a", "build-1")
    refused(starts, "a", "build-2")
    refused(starts, "a")


def test_what_started_nothing_does_not_count() -> None:
    starts = Starts(1, Clock())
    starts.admit("a", "k")
    starts.forget("a", "k")
    starts.forget("a", "k")
    starts.admit("a", "k2")
    refused(starts, "a", "k")


async def test_too_many_starts_are_told_with_a_time(service: Service) -> None:
    async with service.serving(service.application(starts_per_hour=2)) as client:
        problem(await client.post("/v1/runs", json=body(golden_set="absent")), 404)
        problem(await client.post("/v1/runs", json={}), 422)
        for _ in range(3):
            again = await client.post("/v1/runs", json=body(), headers={"Idempotency-Key": "k"})
            assert again.status_code == 202
        assert (await client.post("/v1/runs", json=body())).status_code == 202
        response = await client.post("/v1/runs", json=body())
        assert "GATE_STARTS_PER_HOUR" in problem(response, 429)["detail"]
        assert 0 < int(response.headers["retry-after"]) <= WINDOW
        assert (await client.get("/v1/runs")).status_code == 200
    assert len(service.runs_kept) == 2


@pytest.mark.parametrize("path", ["/v1/runs/run-0001/reviews", "/v1/runs/run-0001/judge", "/v1/judge"])
async def test_a_body_without_a_set_is_small(client: httpx.AsyncClient, path: str) -> None:
    content = b" " * (LARGEST_SMALL_BODY + 1)
    problem(await client.post(path, content=content, headers={"Content-Type": "application/json"}), 413)


async def test_every_answer_keeps_browsers_careful(service: Service) -> None:
    async with service.serving(service.application(tls=True)) as client:
        for path in ("/", "/healthz", "/nothing", "/v1/runs/absent"):
            headers = (await client.get(path)).headers
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["strict-transport-security"].startswith("max-age=31536000")
    async with service.serving() as client:
        assert "strict-transport-security" not in (await client.get("/")).headers
