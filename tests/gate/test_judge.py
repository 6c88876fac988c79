"""Kept runs decided again: the same policy gives the same verdict, another one asks nothing and keeps nothing."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter

from app.domain.errors import BrokenError, ConflictError, FailureCode, InputError, NotFoundError, QueryError
from app.domain.policy import Policy
from app.domain.reasons import Code, Verdict
from app.domain.run import Run
from app.gate.judge import judged, judged_since
from tests.gate.executing import KEYWORD, NOON, PLAIN, Executing, codes, lines
from tests.web.served import Service, body, done, problem
from tests.web.served import lines as served_lines

IN, OUT = ("d1", "x", "x", "x", "x", "x"), ("x", "x", "x", "x", "x", "d1")
_POLICY = TypeAdapter(Policy)


def same_policy(run: Run) -> Mapping[str, Any]:
    settings: dict[str, Any] = _POLICY.dump_python(run.policy, mode="json")
    return {name: value for name, value in settings.items() if value is not None}


# the same policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of run: what the service does, the set, and the verdict that it ends with."""

    prepare: Callable[[Executing], None] = lambda _: None
    jsonl: str = lines(4)
    toml: str = KEYWORD + PLAIN
    request: Mapping[str, Any]
    code: str | None


def kind(code: str | None, prepare: Callable[[Executing], Any] = lambda _: None, **changes: Any) -> Kind:
    known = {name: changes.pop(name) for name in ("jsonl", "toml") if name in changes}
    return Kind(code=code, prepare=prepare, request=changes, **known)


def shows(index: str, *answers: tuple[str, ...]) -> Callable[[Executing], None]:
    return lambda gate: gate.search.index(index).answer("question 1", *answers)


def fails(index: str, error: QueryError | BrokenError) -> Callable[[Executing], None]:
    return lambda gate: gate.search.index(index).fail("question 1", error)


def holds(parent: str) -> Callable[[Executing], None]:
    """Both indexes hold that one document."""

    def prepare(gate: Executing) -> None:
        for name in ("kb-v1", "kb-v2"):
            gate.search.index(name).stored = [{"chunk_id": "1", "parent_id": parent, "chunk": "words"}]

    return prepare


def without_documents(gate: Executing) -> None:
    gate.search.index("kb-v2").documents = 0


REJECTED = QueryError(FailureCode.REJECTED, "Invalid expression.", attempts=1)
KINDS = {
    "pass": kind(None),
    "net loss": kind(Code.NET_LOSS, shows("kb-v2", OUT)),
    "gain": kind(None, shows("kb-v1", OUT)),
    "critical lost": kind(Code.CRITICAL_LOST, shows("kb-v2", OUT), jsonl=lines(4, critical=True)),
    "noisy": kind(None, shows("kb-v1", IN, OUT), toml="[policy]\nmax_noisy_share = 0.5\n"),
    "too noisy": kind(Code.TOO_NOISY, shows("kb-v1", IN, OUT), toml="[policy]\nmax_noisy_share = 0.1\n"),
    "unstable": kind(Code.CRITICAL_LOST, shows("kb-v2", IN, OUT), jsonl=lines(4, critical=True), toml=""),
    "error": kind(Code.TOO_FEW_EVALUATED, fails("kb-v1", REJECTED)),
    "forbidden": kind(Code.FORBIDDEN_HIT, jsonl=lines(2, forbidden=["x"])),
    "critical absent": kind(
        None,
        lambda gate: gate.search.index("kb-v1").answer("question 1", OUT),
        jsonl=lines(4, critical=True),
    ),
    "unlabelled": kind(Code.NOTHING_EVALUATED, jsonl=lines(2, answers=[])),
    "empty": kind(Code.NOTHING_EVALUATED, jsonl=""),
    "unresolved": kind(Code.NOTHING_EVALUATED, holds("other")),
    "critical stale": kind(
        Code.TOO_FEW_EVALUATED,
        holds("d1"),
        jsonl=lines(3) + json.dumps({"id": "s", "question": "?", "answers": ["gone"], "critical": True}),
    ),
    "index empty": kind(Code.NOTHING_EVALUATED, without_documents),
    "same index": kind(Code.NOTHING_EVALUATED, baseline_index="kb-v2"),
    "noise study": kind(None, baseline_index=None, noise_study=True, toml=""),
    "broken": kind(
        Code.TOO_FEW_EVALUATED, fails("kb-v2", BrokenError(Code.UNAUTHORIZED, "403", index="kb-v2"))
    ),
    "rule without input": kind(Code.NOT_EVALUATED, toml=f"{PLAIN}max_lost_documents_share = 0.0\n"),
}


@pytest.mark.parametrize("name", KINDS)
async def test_the_same_policy_reproduces_what_is_stored(name: str) -> None:
    of = KINDS[name]
    gate = Executing()
    of.prepare(gate)
    run = await gate.run(of.jsonl, toml=of.toml, **of.request)
    assert next(iter(codes(run)), None) == of.code
    again = await judged(gate.records, run.id, same_policy(run))
    assert again == replace(run, trusted=False)


async def test_a_cancelled_run_is_judged_as_cancelled() -> None:
    gate = Executing()
    gate.search.hold()
    run = await gate.start(lines(4))
    cancelled = asyncio.Event()
    going = asyncio.create_task(gate.execution().execute(run.id, cancelled=cancelled))
    await gate.search.somebody_asked.wait()
    cancelled.set()
    ended = await going
    assert codes(ended)[0] == Code.CANCELLED
    assert await judged(gate.records, run.id, {"max_net_loss": 9}) == replace(
        ended, policy=replace(ended.policy, max_net_loss=9), trusted=False
    )


# another policy


async def test_another_policy_says_what_it_would_have_said_and_leaves_the_run_alone() -> None:
    gate = Executing()
    gate.search.index("kb-v2").answer("question 1", OUT)
    run = await gate.run(lines(4))
    assert run.verdict is Verdict.FAIL
    kept, asked = gate.store.documents, len(gate.search.asked)
    again = await judged(gate.records, run.id, {"max_net_loss": 1})
    assert (again.verdict, again.reasons, again.trusted) == (Verdict.PASS, (), False)
    assert again.policy.max_net_loss == 1
    assert [flip.id for flip in again.lost] == ["q1"]
    assert (gate.store.documents, len(gate.search.asked)) == (kept, asked)
    assert {call.operation for call in gate.store.calls[-2:]} == {"read"}


async def test_a_run_of_a_deployed_set_is_not_trusted_when_it_is_judged() -> None:
    service = Service()
    async with service.serving() as client:
        run = await done(client)
        assert run["trusted"] is True
        answer = await client.post(f"/v1/runs/{run['id']}/judge", json={"policy": {}})
        assert (answer.status_code, answer.json()["trusted"]) == (200, False)
        assert (await client.get(f"/v1/runs/{run['id']}")).json() == run


async def test_fewer_observations_are_judged_as_if_no_more_had_been_made() -> None:
    gate = Executing()
    gate.search.index("kb-v1").answer("question 1", IN, OUT)
    gate.search.index("kb-v2").answer("question 1", OUT)
    run = await gate.run(lines(4), toml="[policy]\nmax_noisy_share = 0.5\n")
    assert (run.verdict, run.counts.noisy) == (Verdict.PASS, 1)
    again = await judged(gate.records, run.id, {"noise_runs": 0, "confirm_runs": 0})
    assert (codes(again), again.counts.lost, again.counts.noisy) == ([Code.NET_LOSS], 1, 0)


async def test_observations_that_were_not_made_cannot_be_judged() -> None:
    gate = Executing()
    run = await gate.run(lines(4))
    again = await judged(gate.records, run.id, {"noise_runs": 2, "confirm_runs": 1})
    assert (again.verdict, codes(again)) == (Verdict.ERROR, [Code.NOT_EVALUATED])
    said = [check.message for check in again.checks if check.code == Code.NOT_EVALUATED]
    assert [message.split(",")[0] for message in said] == ["noise_runs = 2", "confirm_runs = 1"]


async def test_what_cannot_be_judged_is_refused() -> None:
    gate = Executing()
    run = await gate.start(lines(1))
    with pytest.raises(ConflictError, match="not done yet"):
        await judged(gate.records, run.id, {})
    with pytest.raises(NotFoundError):
        await judged(gate.records, "run-999", {})
    await gate.execute(run)
    with pytest.raises(InputError, match="max_net_los"):
        await judged(gate.records, run.id, {"max_net_los": 1})
    with pytest.raises(InputError, match="max_net_loss"):
        await judged(gate.records, run.id, {"max_net_loss": -1})


async def test_all_runs_since_a_time_the_newest_first() -> None:
    gate = Executing()
    gate.search.index("kb-v2").answer("question 1", OUT)
    for _ in range(3):
        await gate.run(lines(4))
    await gate.start(lines(1))  # not done
    since = NOON + timedelta(minutes=2)
    found = [each async for each in judged_since(gate.records, since, {"max_net_loss": 1})]
    assert [(before.id, before.verdict, after.verdict) for before, after in found] == [
        ("run-003", Verdict.FAIL, Verdict.PASS),
        ("run-002", Verdict.FAIL, Verdict.PASS),
    ]


# both calls of the API


async def test_one_run_is_judged_over_http() -> None:
    service = Service()
    service.search.index("kb-v2").otherwise = OUT
    async with service.serving() as client:
        run = await done(client)
        kept, asked = service.store.documents, len(service.search.asked)
        answer = await client.post(f"/v1/runs/{run['id']}/judge", json={"policy": {"max_net_loss": 3}})
        assert answer.status_code == 200
        assert (run["verdict"], answer.json()["verdict"]) == ("FAIL", "PASS")
        assert (service.store.documents, len(service.search.asked)) == (kept, asked)
        problem(await client.post("/v1/runs/none/judge", json={"policy": {}}), 404)
        problem(await client.post(f"/v1/runs/{run['id']}/judge", json={"policy": {"max_net_loss": "3"}}), 422)
        problem(await client.post(f"/v1/runs/{run['id']}/judge", json={}), 422)


async def test_a_run_that_is_not_done_is_not_judged_over_http() -> None:
    service = Service()
    service.search.hold()
    async with service.serving() as client:
        started = (await client.post("/v1/runs", json=body())).json()
        problem(await client.post(f"/v1/runs/{started['id']}/judge", json={"policy": {}}), 409)
        service.search.release()


async def test_all_runs_since_a_time_are_judged_over_http() -> None:
    service = Service()
    service.search.index("kb-v2").answer("question 1", OUT)
    async with service.serving() as client:
        for policy in ({}, {"max_net_loss": 1}):
            await done(
                client, golden={"name": "sent", "jsonl": served_lines(4), "toml": KEYWORD}, policy=policy
            )
        request = {"policy": {"max_net_loss": 1}, "since": "2026-11-30T12:00:00Z"}
        answer = await client.post("/v1/judge", json=request)
        assert answer.status_code == 200
        listed = answer.json()
        assert [(each["verdict"], each["judged"]) for each in listed["runs"]] == [
            ("PASS", "PASS"),
            ("FAIL", "PASS"),
        ]
        assert listed["changed"] == 1
        later = {**request, "since": "2026-12-01T00:00:00+00:00"}
        assert (await client.post("/v1/judge", json=later)).json() == {"runs": [], "changed": 0}
        problem(await client.post("/v1/judge", json={**request, "since": "2026-11-30T12:00:00"}), 422)
