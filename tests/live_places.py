"""The real places that name the live index, over the stand-ins in this process, with the wire between in hand.

Each is open with two pointers, as two people have them, and names kb-v1; kb-v2 and kb-v9 are there too.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from azure.core.credentials import AzureKeyCredential

from app.adapters.live_alias import open_live_alias
from app.adapters.live_setting import open_live_setting
from app.gate.ports import LivePointer
from infra.local import configuration
from infra.local.catalogue import Catalogue, Precondition
from infra.local.key_values import KeyValues
from infra.local.server import build_door
from infra.local.store import Store

KEY, LABEL, ALIAS = "search:live-index", "prod", "live"
INDEXES = ("kb-v1", "kb-v2", "kb-v9")
API_KEY = "local-search-key"
WRITES = frozenset({"PUT", "POST", "DELETE"})
ANY = Precondition()


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came over the wire."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str


async def nothing() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to the next request of a method: it reaches the service or not, `meanwhile` happens, and then
    the answer is lost, comes late by `seconds`, or is another one (`status` with `body`).
    """

    method: str
    reaches: bool = True
    meanwhile: Callable[[], Awaitable[None]] = nothing
    lost: bool = False
    seconds: float = 0.0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(slots=True)
class Wire:
    """Between client and service. Faults are met in the order given, each once; `dead`: nothing passes."""

    requests: list[Received] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    dead: bool = False
    dead_after_write: bool = False
    handled: Callable[[], None] = lambda: (
        None
    )  # called when the service has done a request, before it is answered

    @property
    def writes(self) -> list[Received]:
        return [each for each in self.requests if each.method in WRITES]

    async def handle(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        text = await request.text()
        self.requests.append(
            Received(method=request.method, path=request.raw_path, headers=request.headers, body=text)
        )
        if self.dead:
            return _dropped(request)
        fault = next((fault for fault in self.faults if fault.method == request.method), None)
        if fault is None:
            return await self._done(request, handler)
        self.faults.remove(fault)
        if not fault.reaches:
            await fault.meanwhile()
        answer = await self._done(request, handler) if fault.reaches else web.Response(status=500)
        if fault.reaches:
            await fault.meanwhile()
        await asyncio.sleep(fault.seconds)
        if request.method in WRITES and self.dead_after_write:
            self.dead = True
        if fault.lost:
            return _dropped(request)
        if fault.status is None:
            return answer
        return web.Response(status=fault.status, headers=fault.headers, text=fault.body)

    async def _done(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        answer = await handler(request)
        self.handled()
        return answer


def _dropped(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """A place over a stand-in. `put` and `remove` are somebody else's hands, behind the wire."""

    live: LivePointer
    second: LivePointer
    wire: Wire
    put: Callable[[str], Any]
    remove: Callable[[], Any]
    state: Callable[[], tuple[str, str]]  # the index that is named, and the etag without quotes
    url: str
    values: KeyValues | None = None

    async def change(self, index: str | None) -> None:
        if index is None:
            self.remove()
        else:
            self.put(index)

    async def lose(self, *, written: bool) -> None:
        self.wire.faults.append(Fault(method="PUT", reaches=written, lost=True))
        self.wire.dead_after_write = True

    async def heal(self) -> None:
        self.wire.dead = self.wire.dead_after_write = False


@asynccontextmanager
async def served(application: web.Application, wire: Wire) -> AsyncIterator[str]:
    """The address of the application on a free port, behind the wire."""

    @web.middleware
    async def through(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        return await wire.handle(request, handler)

    application.middlewares.append(through)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        await web.SockSite(runner, listener).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await runner.cleanup()


async def at_once(_: float) -> None:
    """A pause of the retry table that takes no time."""
    await asyncio.sleep(0)


def setting_at(url: str, **options: Any) -> AbstractAsyncContextManager[LivePointer]:
    given = {"key": KEY, "label": LABEL, "sleep": at_once, **options}
    if not {"credential", "connection_string"} & given.keys():
        given["connection_string"] = configuration.Account().connection_string(url)
    return open_live_setting(**given)


def alias_at(url: str, **options: Any) -> AbstractAsyncContextManager[LivePointer]:
    given = {"endpoint": url, "credential": AzureKeyCredential(API_KEY), "alias": ALIAS, "sleep": at_once}
    return open_live_alias(**{**given, **options})


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Stood]:
    with closing(Store(folder)) as store:
        values, wire = KeyValues(store), Wire()

        def put(index: str) -> None:
            values.put(KEY, LABEL, {"value": index}, ANY)

        def state() -> tuple[str, str]:
            found = values.get(KEY, LABEL)
            assert found is not None
            return found.value or "", found.etag

        put("kb-v1")
        door = configuration.Door(values, configuration.Account())
        async with (
            served(door.application(), wire) as url,
            setting_at(url) as live,
            setting_at(url) as second,
        ):
            yield Stood(
                live=live,
                second=second,
                wire=wire,
                put=put,
                remove=lambda: values.delete(KEY, LABEL, ANY),
                state=state,
                url=url,
                values=values,
            )


@asynccontextmanager
async def open_alias(folder: Path) -> AsyncIterator[Stood]:
    door, store = build_door(folder, api_key=API_KEY, threads=1)
    with closing(store):
        catalogue: Catalogue = door._service.catalogue
        wire = Wire()
        for index in INDEXES:
            catalogue.create_index(
                {"name": index, "fields": [{"name": "id", "type": "Edm.String", "key": True}]}
            )

        def put(index: str) -> None:
            catalogue.put_alias(ALIAS, {"name": ALIAS, "indexes": [index]}, ANY)

        def state() -> tuple[str, str]:
            found = catalogue.alias(ALIAS)
            return str(found.body["indexes"][0]), found.etag

        put("kb-v1")
        async with (
            served(door.application(), wire) as url,
            alias_at(url) as live,
            alias_at(url) as second,
        ):
            yield Stood(
                live=live,
                second=second,
                wire=wire,
                put=put,
                remove=lambda: catalogue.delete_alias(ALIAS, ANY),
                state=state,
                url=url,
            )
        door.stop()
        door.wait()


OPENERS: Mapping[str, Callable[[Path], AbstractAsyncContextManager[Stood]]] = {
    "setting": open_setting,
    "alias": open_alias,
}
