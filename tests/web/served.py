"""The application over a store in memory and a fake search service, and what callers send to it."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from fastapi import FastAPI

from app.domain.errors import NotFoundError
from app.domain.golden import GoldenTexts
from app.domain.query import Embedding
from app.gate.audit import AuditTrail
from app.gate.check_build import Callbacks, Checks
from app.gate.control import FlipLimits, LiveControl
from app.gate.execute import Execution, Limits
from app.gate.opened import OpenGate
from app.gate.preflight import PROBE
from app.gate.records import RunRecords
from app.gate.start import Stamp
from app.gate.supervise import Supervisor
from app.gate.watch import Watches
from app.web.access import Access
from app.web.api import create_api
from tests.azure_devops import SECRET
from tests.fakes.live import FakeLive
from tests.fakes.search import FakeSearch
from tests.fakes.store import MemoryStore

OpenAccess = Callable[[], AbstractAsyncContextManager[Access]]

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEYWORD = '[query]\nmode = "keyword"\nsemantic = false\n'


class DeployedSets:
    """Two sets that came with the service."""

    def __init__(self) -> None:
        self.sets = {
            "hr": GoldenTexts(name="hr", jsonl=lines(3), toml=f'owner = "hr@contoso.example"\n{KEYWORD}'),
            "it": GoldenTexts(name="it", jsonl=lines(2), toml=KEYWORD),
        }

    def names(self) -> tuple[str, ...]:
        return tuple(self.sets)

    def texts(self, name: str) -> GoldenTexts:
        if name not in self.sets:
            raise NotFoundError(f"There is no golden set {name!r}; there are: {', '.join(self.names())}.")
        return self.sets[name]


class NoEmbedder:
    """No set of these tests brings its own embeddings."""

    async def embed(self, embedding: Embedding, text: str, deadline: float) -> tuple[float, ...]:
        raise AssertionError("never asked")


def lines(count: int, **keys: Any) -> str:
    """A golden set of questions q1, q2 …, each answered by the document d1 unless `keys` say otherwise."""
    return "".join(
        f"{json.dumps({'id': f'q{n}', 'question': f'question {n}', 'answers': ['d1'], **keys})}\n"
        for n in range(1, count + 1)
    )


def golden(jsonl: str, *, name: str = "sent", toml: str = KEYWORD) -> dict[str, str]:
    return {"name": name, "jsonl": jsonl, "toml": toml}


def body(**members: Any) -> dict[str, Any]:
    """A request to start a run of the deployed set `hr`, unless `members` say otherwise."""
    plain = {"candidate_index": "kb-v2", "baseline_index": "kb-v1"}
    if not {"golden", "golden_set"} & members.keys():
        plain["golden_set"] = "hr"
    return {**plain, **members}


@dataclass(slots=True, kw_only=True)
class Service:
    """What outlives a process: the store, the search service, the ids that were given out, where the live
    index is named, and who is told of checks, if anybody.
    """

    store: MemoryStore = field(default_factory=MemoryStore)
    search: FakeSearch = field(default_factory=FakeSearch)
    golden_sets: DeployedSets = field(default_factory=DeployedSets)
    live: FakeLive | None = None
    callbacks: Callbacks | None = None
    _started: int = 0
    _claims: int = 0

    def __post_init__(self) -> None:
        for name in ("kb-v1", "kb-v2"):
            self.search.index(name).otherwise = ("x", "d1", "x")

    @property
    def questions_asked(self) -> list[tuple[str, str]]:
        """Index and text of every question that was sent."""
        return [(ask.index, ask.text) for ask in self.search.asked if ask.text != PROBE]

    @property
    def runs_kept(self) -> list[str]:
        return [name for name in self.store.documents if name.startswith("status/")]

    def application(
        self,
        open_access: OpenAccess | None = None,
        *,
        starts_per_hour: int | None = None,
        tls: bool = False,
        loopback: bool = False,
    ) -> FastAPI:
        return create_api(
            self.opened,
            version="1.2.3",
            open_access=open_access,
            starts_per_hour=starts_per_hour,
            tls=tls,
            loopback=loopback,
        )

    @asynccontextmanager
    async def serving(
        self, application: FastAPI | None = None, *, open_access: OpenAccess | None = None
    ) -> AsyncIterator[httpx.AsyncClient]:
        """A client of the application, started; it is stopped at the end as a process is. `open_access`: how
        callers sign in; None: nobody does.
        """
        async with AsyncExitStack() as stack:
            api = application or stack.enter_context(_lent(self, open_access))
            yield await stack.enter_async_context(self._started_up(api))

    @asynccontextmanager
    async def _started_up(self, api: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
        async with (
            api.router.lifespan_context(api),
            httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://gate") as client,
        ):
            yield client

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[OpenGate]:
        records = RunRecords(self.store)
        execution = Execution(
            records=records,
            search=self.search,
            embedder=NoEmbedder(),
            limits=Limits(concurrency=2, run_timeout_seconds=60),
            now=lambda: NOON,
            new_claim=self._claim,
        )
        trail = AuditTrail(self.store)
        control = None if self.live is None else self._control(self.live, records, trail)
        yield OpenGate(
            records=records,
            golden_sets=self.golden_sets,
            search=self.search,
            execution=execution,
            supervisor=Supervisor(records=records, execution=execution),
            stamp=self._stamp,
            trail=trail,
            live=self.live,
            control=control,
            watches=None if control is None else Watches(control=control),
            checks=self._checks(control),
        )

    def _checks(self, control: LiveControl | None) -> Checks | None:
        if control is None or self.callbacks is None:
            return None
        return Checks(
            control=control, callbacks=self.callbacks, secret=SECRET, patience_seconds=60, poll_seconds=0
        )

    def _control(self, live: FakeLive, records: RunRecords, trail: AuditTrail) -> LiveControl:
        return LiveControl(
            pointer=live,
            trail=trail,
            records=records,
            golden_sets=self.golden_sets,
            search=self.search,
            embedder=NoEmbedder(),
            now=lambda: NOON,
            limits=FlipLimits(watch_tries=2, watch_pause_seconds=0),
        )

    def _claim(self) -> str:
        self._claims += 1
        return f"claim-{self._claims}"

    def _stamp(self) -> Stamp:
        self._started += 1
        number = self._started
        return Stamp(
            run_id=f"run-{number:04}", now=NOON + timedelta(minutes=number), seed=number, manifest={}
        )


@dataclass(slots=True)
class _Lent:
    """An application, and whom it is lent to: one takes a fifth of a second to make, and thousands of tests
    want one.
    """

    service: Service | None = None
    open_access: OpenAccess | None = None

    def application(self, *, signing_in: bool) -> FastAPI:
        return create_api(self._open, version="1.2.3", open_access=self._open_access if signing_in else None)

    def _open(self) -> AbstractAsyncContextManager[OpenGate]:
        assert self.service is not None
        return self.service.opened()

    def _open_access(self) -> AbstractAsyncContextManager[Access]:
        assert self.open_access is not None
        return self.open_access()


_IDLE: dict[bool, list[tuple[_Lent, FastAPI]]] = {True: [], False: []}


@contextmanager
def _lent(service: Service, open_access: OpenAccess | None) -> Iterator[FastAPI]:
    idle = _IDLE[open_access is not None]
    if idle:
        lent, api = idle.pop()
    else:
        lent = _Lent()
        api = lent.application(signing_in=open_access is not None)
    lent.service, lent.open_access = service, open_access
    yield api
    api.state._state.clear()
    idle.append((lent, api))  # not where a test failed: nobody knows how it was left


async def done(client: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    """A run, started and waited for."""
    started = await client.post("/v1/runs", json=body(**members))
    assert started.status_code == 202, started.text
    return await waited(client, started.json()["id"])


async def waited(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """The run, done."""
    response = await client.get(f"/v1/runs/{run_id}", params={"wait": 30})
    assert response.status_code == 200, response.text
    run: dict[str, Any] = response.json()
    assert run["state"] == "done"
    return run


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of a refusal, checked for what every one must hold."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    assert {"type", "title", "detail", "instance"} <= found.keys()
    assert found["detail"]
    return found
