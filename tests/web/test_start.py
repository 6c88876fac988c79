"""Starting runs: what is taken, what is refused, and one run for one idempotency key."""

import asyncio
import json

import httpx
import pytest

from app.domain.errors import StorageError
from app.web import bodies
from tests.web.served import Service, body, done, golden, lines, problem, waited

KEY = {"Idempotency-Key": "pipeline 4711"}
HR_QUERIES = 9  # three questions: one look at the candidate and two at the baseline, none to be confirmed


async def test_s15_starting_answers_at_once_while_the_run_takes_long(
    service: Service, client: httpx.AsyncClient
) -> None:
    service.search.hold()
    async with asyncio.timeout(5):
        started = await client.post("/v1/runs", json=body())
    assert started.status_code == 202
    assert started.headers["location"] == "/v1/runs/run-0001"
    assert started.headers["retry-after"] == "2"
    assert started.json()["id"] == "run-0001"
    assert started.json()["state"] == "queued"
    assert "questions" not in started.json()

    async with asyncio.timeout(5):  # polls are short, and waiting is no longer than asked
        for wait in ("0", "0.05"):
            polled = await client.get("/v1/runs/run-0001", params={"wait": wait})
            assert polled.status_code == 200
            assert polled.json()["state"] != "done"
            assert polled.headers["retry-after"] == "2"

    held = asyncio.create_task(client.get("/v1/runs/run-0001", params={"wait": 60}))
    await asyncio.sleep(0.05)
    assert not held.done()
    service.search.release()
    async with asyncio.timeout(5):  # and no longer than the run takes
        finished = await held
    assert finished.json()["verdict"] == "PASS"
    assert "retry-after" not in finished.headers


async def test_s16_one_key_starts_one_run(service: Service, client: httpx.AsyncClient) -> None:
    first, second = await asyncio.gather(
        client.post("/v1/runs", json=body(), headers=KEY), client.post("/v1/runs", json=body(), headers=KEY)
    )
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    run = await waited(client, first.json()["id"])
    later = await client.post("/v1/runs", json=body(), headers=KEY)
    assert later.status_code == 202
    assert later.json() == run
    assert service.runs_kept == [f"status/{run['id']}.json"]
    assert len(service.questions_asked) == HR_QUERIES


async def test_s16_layout_and_order_of_members_do_not_make_another_body(client: httpx.AsyncClient) -> None:
    first = await client.post("/v1/runs", json=body(), headers=KEY)
    turned = json.dumps(dict(reversed(body().items())), indent=2)
    headers = {**KEY, "content-type": "application/json; charset=utf-8"}
    second = await client.post("/v1/runs", content=turned, headers=headers)
    assert second.json()["id"] == first.json()["id"]


@pytest.mark.parametrize(
    "other", [{"golden": golden(lines(1))}, {"candidate_index": "kb-v3"}, {"policy": {"max_net_loss": 1}}]
)
async def test_s16_a_key_is_refused_for_another_body(
    service: Service, client: httpx.AsyncClient, other: dict[str, object]
) -> None:
    first = await client.post("/v1/runs", json=body(), headers=KEY)
    refused = await client.post("/v1/runs", json=body(**other), headers=KEY)
    assert first.json()["id"] in problem(refused, 409)["detail"]
    assert len(service.runs_kept) == 1


async def test_s16_without_a_key_every_request_starts_a_run(
    service: Service, client: httpx.AsyncClient
) -> None:
    ids = {(await done(client))["id"] for _ in range(2)}
    assert len(ids) == 2
    assert len(service.questions_asked) == 2 * HR_QUERIES


@pytest.mark.parametrize("step", ["runs/", "active/", "status/"])
async def test_s16_a_repeated_request_completes_a_start_that_was_cut_short(
    service: Service, client: httpx.AsyncClient, step: str
) -> None:
    service.store.fail(operation="create", name=step, error=StorageError("gone"))
    problem(await client.post("/v1/runs", json=body(), headers=KEY), 503)
    again = await client.post("/v1/runs", json=body(), headers=KEY)
    assert again.status_code == 202
    assert (await waited(client, again.json()["id"]))["verdict"] == "PASS"
    assert len(service.runs_kept) == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\tkey", "schlüssel".encode("latin-1")])
async def test_a_key_that_is_not_1_to_200_printable_characters_is_refused(
    service: Service, client: httpx.AsyncClient, key: str | bytes
) -> None:
    headers = {b"Idempotency-Key": key if isinstance(key, bytes) else key.encode()}
    found = problem(await client.post("/v1/runs", json=body(), headers=headers), 422)
    assert found["faults"][0]["where"] == "header Idempotency-Key"
    assert service.runs_kept == []


async def test_everything_that_the_contract_names_is_taken(client: httpx.AsyncClient) -> None:
    change = {
        "kind": ["chunking", "vector-search"],
        "summary": "chunks of 512",
        "commit": "abc123",
        "build_id": "4711",
        "build_url": "https://dev.example/4711",
    }
    run = await done(
        client, golden=golden(lines(2)), policy={"noise_runs": 0, "max_net_loss": 2}, change=change
    )
    assert run["change"] == change
    assert run["policy"]["max_net_loss"] == 2
    assert run["golden_set"]["name"] == "sent"
    assert run["trusted"] is False
    assert run["requested_by"] is None
    assert run["requests"]["comparison"] == 4


async def test_one_kind_of_change_may_stand_alone(client: httpx.AsyncClient) -> None:
    assert (await done(client, change={"kind": "schema"}))["change"]["kind"] == ["schema"]


async def test_a_noise_study_needs_no_baseline(client: httpx.AsyncClient) -> None:
    members = {"candidate_index": "kb-v2", "golden_set": "hr", "noise_study": True}
    started = await client.post("/v1/runs", json=members)
    run = await waited(client, started.json()["id"])
    assert run["noise_study"] is True
    assert run["baseline"]["index"] == "kb-v2"


async def test_faults_of_a_golden_set_are_told_by_line(service: Service, client: httpx.AsyncClient) -> None:
    jsonl = lines(1) + '{"id": "q2", "question": "?", "answer": ["d1"]}\nnot json\n'
    found = problem(await client.post("/v1/runs", json=body(golden=golden(jsonl))), 422)
    assert {(fault["where"], fault["line"]) for fault in found["faults"]} == {
        ("sent.jsonl", 2),
        ("sent.jsonl", 3),
    }
    assert all(fault["message"] for fault in found["faults"])
    assert service.store.documents == {}


async def test_an_unknown_golden_set_is_refused_with_the_names_that_there_are(
    client: httpx.AsyncClient,
) -> None:
    found = problem(await client.post("/v1/runs", json=body(golden_set="legal")), 404)
    assert "'legal'" in found["detail"]
    assert "hr, it" in found["detail"]


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"golden_set": "hr", "golden": golden(lines(1))}, "golden_set"),
        ({"golden_set": None}, "golden_set"),
        ({"baseline_index": None}, "baseline_index"),
        ({"candidate_index": None}, "candidate_index"),
        ({"candidate_index": 4711}, "candidate_index"),
        ({"candidate_index": "../../indexes"}, "candidate_index"),
        ({"candidat_index": "kb-v2"}, "candidat_index"),
        ({"noise_study": "yes"}, "noise_study"),
        ({"policy": {"max_net_los": 1}}, "max_net_los"),
        ({"policy": {"max_net_loss": -1}}, "max_net_loss"),
        ({"policy": []}, "policy"),
        ({"change": {"kind": ["magic"]}}, "change.kind"),
        ({"change": {"build_url": "javascript:alert(1)"}}, "change.build_url"),
        ({"golden": {"name": "x"}}, "golden.jsonl"),
        ({"golden": {"name": "x", "jsonl": "", "json": ""}}, "golden.json"),
        ({"slices": "lookup"}, "slices"),
    ],
)
async def test_a_fault_of_the_request_names_the_member(
    service: Service, client: httpx.AsyncClient, members: dict[str, object], named: str
) -> None:
    found = problem(await client.post("/v1/runs", json=body(**members)), 422)
    assert any(named in fault["message"] for fault in found["faults"])
    assert {fault["where"] for fault in found["faults"]} == {"request"}
    assert service.store.documents == {}


async def test_all_faults_of_a_request_are_told_at_once(client: httpx.AsyncClient) -> None:
    found = problem(await client.post("/v1/runs", json={"noise_study": 1, "wrong": 2}), 422)
    assert sorted(fault["message"].partition(":")[0] for fault in found["faults"]) == [
        "candidate_index",
        "noise_study",
        "wrong",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe{\x00}\x00",
        b'{"candidate_index": "\xff"}',
        b'{"candidate_index": "\\ud83d"}',
        b'{"policy":' + b"[" * 100_000,
        b'{"candidate_index": NaN}',
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(client: httpx.AsyncClient, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    problem(await client.post("/v1/runs", content=content, headers=headers), 422)


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_a_body_of_another_media_type_is_refused(
    client: httpx.AsyncClient, media_type: str | None
) -> None:
    headers = {"content-type": media_type} if media_type else {}
    refused = await client.post("/v1/runs", content=json.dumps(body()).encode(), headers=headers)
    assert "application/json" in problem(refused, 415)["detail"]


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_that_is_too_large_is_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, *, announced: bool
) -> None:
    monkeypatch.setattr(bodies, "LARGEST_BODY", 1024 * 1024)
    content = json.dumps(body(golden=golden("\n" * 1024 * 1024))).encode()

    async def in_pieces() -> object:
        for start in range(0, len(content), 65_536):
            yield content[start : start + 65_536]

    headers = {"content-type": "application/json"}
    sent = content if announced else in_pieces()
    refused = await client.post("/v1/runs", content=sent, headers=headers)  # type: ignore[arg-type]
    assert "1 MB" in problem(refused, 413)["detail"]


async def test_only_the_slices_that_are_asked_for_are_asked(
    service: Service, client: httpx.AsyncClient
) -> None:
    jsonl = lines(1, slice="table") + lines(3, slice="lookup").partition("\n")[2]
    run = await done(client, golden=golden(jsonl), slices=["lookup"])
    assert run["counts"]["questions"] == 2
    assert {text for _, text in service.questions_asked} == {"question 2", "question 3"}
