"""Following runs: waiting, cancelling, listing, and going on after a restart."""

from typing import Any

import httpx
import pytest

from app.web import listing
from tests.fakes.search import ranked
from tests.web.served import Service, body, done, golden, lines, problem, waited

HOSTILE_IDS = [
    "run-9999",
    "..%2F..%2Fx",
    "%2e%2e",
    "RUN-0001",
    "run-0001%00",
    "a" * 65,
    "%0d%0aX: y",
    "%F0%9F%92%A5",
]


async def ids(client: httpx.AsyncClient, **filters: Any) -> list[str]:
    response = await client.get("/v1/runs", params=filters)
    assert response.status_code == 200, response.text
    return [run["id"] for run in response.json()["runs"]]


async def test_a_regression_is_told_with_its_reason(service: Service, client: httpx.AsyncClient) -> None:
    service.search.index("kb-v2").answer("question 2", ranked(6, "d1"))
    run = await done(client)
    assert run["verdict"] == "FAIL"
    assert [(reason["code"], reason["questions"]) for reason in run["reasons"]] == [("net-loss", ["q2"])]
    assert [(flip["id"], flip["baseline_rank"], flip["candidate_rank"]) for flip in run["lost"]] == [
        ("q2", 2, 6)
    ]
    assert "questions" not in run


@pytest.mark.parametrize("run_id", HOSTILE_IDS)
@pytest.mark.parametrize("rest", ["", "/run.json", "/report.html", "/report.md", "/junit.xml"])
async def test_an_id_that_is_no_run_is_not_found(client: httpx.AsyncClient, run_id: str, rest: str) -> None:
    found = problem(await client.get(f"/v1/runs/{run_id}{rest}"), 404)
    assert found["instance"].isascii()


@pytest.mark.parametrize("run_id", HOSTILE_IDS)
async def test_what_is_no_run_cannot_be_cancelled(client: httpx.AsyncClient, run_id: str) -> None:
    problem(await client.post(f"/v1/runs/{run_id}/cancel"), 404)


@pytest.mark.parametrize("wait", ["-1", "61", "soon", "nan", "inf", ""])
async def test_a_wait_out_of_range_is_refused(client: httpx.AsyncClient, wait: str) -> None:
    found = problem(await client.get("/v1/runs/run-0001", params={"wait": wait}), 422)
    assert found["faults"][0]["where"] == "query wait"


async def test_a_cancelled_run_ends_as_an_error(service: Service, client: httpx.AsyncClient) -> None:
    service.search.hold()
    started = (await client.post("/v1/runs", json=body())).json()
    cancelled = await client.post(f"/v1/runs/{started['id']}/cancel")
    assert cancelled.status_code == 202
    assert cancelled.json()["id"] == started["id"]
    run = await waited(client, started["id"])
    assert run["verdict"] == "ERROR"
    assert run["reasons"][0]["code"] == "cancelled"


async def test_cancelling_a_run_that_is_done_changes_nothing(client: httpx.AsyncClient) -> None:
    run = await done(client)
    cancelled = await client.post(f"/v1/runs/{run['id']}/cancel")
    assert cancelled.status_code == 202
    assert cancelled.json() == run
    assert await waited(client, run["id"]) == run


async def test_a_restart_takes_up_what_was_not_done(service: Service) -> None:
    service.search.hold()
    async with service.serving() as client:
        started = (await client.post("/v1/runs", json=body())).json()
        await service.search.somebody_asked.wait()
    service.search.release()
    async with service.serving() as client:
        run = await waited(client, started["id"])
    assert run["verdict"] == "PASS"
    assert run["counts"]["kept"] == 3


async def test_a_repeated_request_takes_up_a_run_that_nobody_executes(service: Service) -> None:
    service.search.hold()
    key = {"Idempotency-Key": "k"}
    async with service.serving() as client:
        started = (await client.post("/v1/runs", json=body(), headers=key)).json()
    service.search.release()
    await service.store.delete(f"active/{started['id']}")
    async with service.serving() as client:
        again = await client.post("/v1/runs", json=body(), headers=key)
        assert again.json()["id"] == started["id"]
        assert (await waited(client, started["id"]))["verdict"] == "PASS"


async def test_runs_are_listed_newest_first(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await done(client)
    listed = (await client.get("/v1/runs")).json()
    assert [run["id"] for run in listed["runs"]] == ["run-0003", "run-0002", "run-0001"]
    assert listed["next"] is None
    assert all("questions" not in run for run in listed["runs"])


async def test_no_runs_are_an_empty_list(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/runs")).json() == {"runs": [], "unreadable": [], "next": None}


async def test_runs_are_listed_by_what_a_reader_looks_for(
    service: Service, client: httpx.AsyncClient
) -> None:
    service.search.index("kb-v3")  # answers nothing
    service.search.aliases["next"] = "kb-v2"
    await done(client)
    await done(client, golden_set="it")
    await done(client, candidate_index="kb-v3")
    await done(client, candidate_index="next")
    assert await ids(client, golden_set="it") == ["run-0002"]
    assert await ids(client, verdict="FAIL") == ["run-0003"]
    assert await ids(client, verdict="PASS", golden_set="hr") == ["run-0004", "run-0001"]
    assert await ids(client, candidate="kb-v3") == ["run-0003"]
    assert await ids(client, candidate="next") == ["run-0004"]
    assert await ids(client, candidate="kb-v2") == ["run-0004", "run-0002", "run-0001"]
    assert await ids(client, candidate="kb") == []


async def test_a_cursor_goes_on_where_the_page_ended(client: httpx.AsyncClient) -> None:
    for _ in range(5):
        await done(client)
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = (
            await client.get("/v1/runs", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
        ).json()
        seen += [run["id"] for run in page["runs"]]
        cursor, pages = page["next"], pages + 1
        if pages == 1:
            await done(client)  # a newer run does not move what follows
    assert seen == [f"run-000{number}" for number in (5, 4, 3, 2, 1)]
    assert pages == 3


async def test_a_page_looks_at_a_bounded_number_of_runs(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "LOOKED_AT", 2)
    await done(client, golden_set="it")
    for _ in range(2):
        await done(client)
    first = (await client.get("/v1/runs", params={"golden_set": "it"})).json()
    assert first == {"runs": [], "unreadable": [], "next": "run-0002"}
    assert await ids(client, golden_set="it", cursor=first["next"]) == ["run-0001"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "101"),
        ("limit", "x"),
        ("verdict", "GREEN"),
        ("verdct", "PASS"),
        ("cursor", "../x"),
    ],
)
async def test_a_filter_that_cannot_be_meant_is_refused(
    client: httpx.AsyncClient, name: str, value: str
) -> None:
    found = problem(await client.get("/v1/runs", params={name: value}), 422)
    assert found["faults"][0]["where"] == f"query {name}"


async def test_runs_that_are_not_done_are_listed_too(service: Service, client: httpx.AsyncClient) -> None:
    service.search.hold()
    await client.post("/v1/runs", json=body(golden=golden(lines(1))))
    listed = (await client.get("/v1/runs")).json()["runs"]
    assert [(run["state"] in ("queued", "running"), run["verdict"]) for run in listed] == [(True, None)]


@pytest.mark.parametrize("damage", [b"", b'{"id": "run-0002", ', b"\xff\xfe", b"[]", b'{"id": "\\ud83d"}'])
async def test_a_damaged_status_is_listed_by_name_and_hides_no_other(
    service: Service, client: httpx.AsyncClient, damage: bytes
) -> None:
    service.search.index("kb-v2").answer("question 2", ranked(6, "d1"))
    for _ in range(3):
        await done(client)
    _, etag = await service.store.read("status/run-0002.json")
    await service.store.replace("status/run-0002.json", damage, etag)
    listed = (await client.get("/v1/runs")).json()
    assert [run["id"] for run in listed["runs"]] == ["run-0003", "run-0001"]
    assert [each["id"] for each in listed["unreadable"]] == ["run-0002"]
    assert "status/run-0002.json is damaged" in listed["unreadable"][0]["reason"]
    page = (await client.get("/", headers={"accept": "text/html"})).text
    assert page.index("Runs that cannot be read") < page.index("<strong>run-0002</strong>")
    assert 'href="/runs/run-0003"' in page
    assert problem(await client.get("/v1/runs/run-0002"), 500)["type"].endswith(":damaged")
    problem(await client.post("/v1/judge", json={"since": "2026-01-01T00:00:00Z", "policy": {}}), 500)


async def test_a_damaged_override_clears_nothing_and_hides_no_run(
    service: Service, client: httpx.AsyncClient
) -> None:
    service.search.index("kb-v2").answer("question 2", ranked(6, "d1"))
    run = await done(client)
    await service.store.create(f"overrides/{run['id']}/20261130-1.json", b'{"reason": ')
    page = await client.get("/", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert "WAIVED" not in page.text
    problem(await client.get(f"/v1/runs/{run['id']}/overrides"), 500)
