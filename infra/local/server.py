"""The HTTP side: reads requests, hands them to worker threads, adds Azure's headers, and commits faults.

aiohttp rather than an ASGI framework: a fault may have to cut the connection, for which ASGI has no word.
"""

import asyncio
import contextlib
import json
import signal
import socket
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from infra.local import configuration
from infra.local.catalogue import Catalogue
from infra.local.errors import ServiceError, bad_request
from infra.local.faults import Fault, Faults, Journal, Occasion
from infra.local.key_values import KeyValues
from infra.local.models import Models
from infra.local.operations import Answer, Call, Service, question_of, route
from infra.local.search import Searcher
from infra.local.store import FolderTakenError, Store

_LARGEST_BODY = 16 * 1024 * 1024
_WORKERS = 8
_SHUTDOWN_SECONDS = 1.0
_TRICKLE_STEPS_A_SECOND = 10
_SEMANTIC_REASON = "capacityOverloaded"
_SEMANTIC_TYPE = "baseResults"


class CannotStartError(Exception):
    """The port or the folder is somebody else's."""


class Door:
    """Every request comes through `handle`."""

    def __init__(self, service: Service, api_key: str) -> None:
        self._service = service
        self._api_key = api_key
        self._faults = Faults()
        self._journal = Journal()
        self._workers = ThreadPoolExecutor(max_workers=_WORKERS)

    def application(self) -> web.Application:
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_route("*", "/_faults", self._control_faults)
        application.router.add_route("*", "/_requests", self._control_requests)
        application.router.add_get("/_ready", self._ready)
        application.router.add_route("*", "/{path:.*}", self.handle)
        return application

    def stop(self) -> None:
        """Begin nothing more, and break off what takes long."""
        self._service.models.stop()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def wait(self) -> None:
        """Until the last worker is done with the store."""
        self._workers.shutdown(wait=True)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        started = time.perf_counter()
        found = route(request.method, request.path)
        if found is None:
            return _response(request, Answer(status=404, body=_no_such_resource()), started)
        operation, name, key = found
        if request.headers.get("api-key") != self._api_key:
            return _response(request, _no_access(operation), started)
        try:
            call = await _call(request, operation, name, key)
        except ServiceError as error:
            return _response(request, Answer(status=error.status, body=error.body()), started)
        occasion = self._occasion(call)
        self._journal.note(occasion)
        fault = self._faults.take(occasion)
        if fault is None:
            return _response(request, await self._perform(call), started)
        return await self._commit(request, call, fault, started)

    async def _perform(self, call: Call) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._workers, self._service.perform, call)

    def _occasion(self, call: Call) -> Occasion:
        resolved = self._service.catalogue.resolved(call.name)
        names = (call.name,) if resolved == call.name else (call.name, resolved)
        return Occasion(
            operation=call.operation,
            names=names if call.name else (),
            question=question_of(call.operation, call.body),
        )

    async def _commit(
        self, request: web.Request, call: Call, fault: Fault, started: float
    ) -> web.StreamResponse:
        """The request, with the fault's effects in the order in which they would happen."""
        await asyncio.sleep(fault.delay_ms / 1000)
        if fault.drop == "before":
            return _dropped(request)
        if fault.replaces:
            answer = Answer(status=fault.status or 200, body=fault.replacement)
        else:
            keeps_rank = not (fault.unranked or fault.partial)
            answer = _distorted(
                await self._perform(replace(call, ranked_semantically=keeps_rank)), call, fault
            )
        answer = replace(answer, headers={**answer.headers, **fault.headers})
        if fault.drop is None and fault.trickle is None and fault.truncate is None:
            return _response(request, answer, started)
        return await _hampered(request, answer, fault, started)

    async def _control_faults(self, request: web.Request) -> web.Response:
        if request.method == "PUT":
            try:
                given = await _json(request)
                self._faults.arm(
                    [Fault.parse(part) for part in (given if isinstance(given, list) else [given])]
                )
            except ServiceError as error:
                return web.json_response(error.body(), status=error.status)
        elif request.method == "DELETE":
            self._faults.arm([])
        return web.json_response(self._faults.listing())

    async def _control_requests(self, request: web.Request) -> web.Response:
        if request.method == "DELETE":
            self._journal.reset()
        return web.json_response(self._journal.report())

    async def _ready(self, _: web.Request) -> web.Response:
        return web.json_response({"ready": True})


def build_door(folder: Path, *, api_key: str, threads: int) -> tuple[Door, Store]:
    """The service over a folder, and the store to close at the end."""
    store = Store(folder)
    models = Models(threads=threads)
    service = Service(
        catalogue=Catalogue(store), searcher=Searcher(models=models, store=store), models=models
    )
    return Door(service, api_key), store


def serve(
    *, host: str, port: int, folder: Path, api_key: str, threads: int, configuration_port: int | None = None
) -> None:
    """Serve until SIGTERM or SIGINT. Port 0 is any free one; without one the configuration store takes the port
    after the search service's, or any free one beside a free one. `CannotStartError` when a port or the folder
    is taken.
    """
    if configuration_port is None:
        configuration_port = port + 1 if port else 0
    with _listener(host, port) as searched, _listener(host, configuration_port) as configured:
        try:
            door, store = build_door(folder, api_key=api_key, threads=threads)
        except FolderTakenError as error:
            raise CannotStartError(str(error)) from error
        settings = configuration.Door(KeyValues(store), configuration.Account())
        with contextlib.closing(store):
            asyncio.run(_run(door, settings, searched, configured))
            door.wait()


def _listener(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise CannotStartError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


async def _run(
    door: Door, settings: configuration.Door, searched: socket.socket, configured: socket.socket
) -> None:
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    async with contextlib.AsyncExitStack() as stack:
        for application, listener in ((door.application(), searched), (settings.application(), configured)):
            runner = web.AppRunner(
                application, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.SockSite(runner, listener).start()
        print(f"search stand-in listening on {_address(searched)}", flush=True)
        print(f"configuration stand-in listening on {_address(configured)}", flush=True)
        await stopped.wait()
        door.stop()


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}"


async def _call(request: web.Request, operation: str, name: str, key: str) -> Call:
    if not request.query.get("api-version"):
        raise bad_request("The api-version query parameter must be specified.")
    return Call(
        operation=operation,
        name=name,
        key=key,
        query=dict(request.query),
        headers=request.headers,
        body=await _json(request),
    )


async def _json(request: web.Request) -> Any:
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ServiceError(413, "The request is too large.") from error
    if not raw:
        return None
    try:
        body = json.loads(raw)
        if rb"\ud" in raw.lower():
            json.dumps(body, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The request is invalid. Details: the body is not JSON: {error}") from error
    return body


def _distorted(answer: Answer, call: Call, fault: Fault) -> Answer:
    """A good search answer, made partial or given a next page; errors are left alone."""
    if answer.status != 200 or not isinstance(answer.body, dict):
        return answer
    body, status = dict(answer.body), answer.status
    if fault.partial:
        wanted = fault.partial if isinstance(fault.partial, Mapping) else {}
        body["@search.semanticPartialResponseReason"] = wanted.get("reason", _SEMANTIC_REASON)
        body["@search.semanticPartialResponseType"] = wanted.get("type", _SEMANTIC_TYPE)
        status = int(wanted.get("status", fault.status or 206))
    if fault.next_page:
        given = dict(call.body)
        body["@search.nextPageParameters"] = {
            **given,
            "skip": given.get("skip", 0) + len(body.get("value", ())),
        }
        body["@odata.nextLink"] = f"/indexes('{call.name}')/docs/search.post.search"
    return Answer(status=status, body=body)


def _response(request: web.Request, answer: Answer, started: float) -> web.Response:
    return web.Response(
        status=answer.status, body=_payload(answer), headers=_headers(request, answer, started)
    )


def _payload(answer: Answer) -> bytes:
    if answer.body is None:
        return b""
    if isinstance(answer.body, str):
        return answer.body.encode()
    return json.dumps(answer.body, ensure_ascii=False).encode()


def _headers(request: web.Request, answer: Answer, started: float) -> dict[str, str]:
    level = "minimal" if "odata.metadata=minimal" in request.headers.get("Accept", "") else "none"
    headers = {
        "request-id": request.headers.get("x-ms-client-request-id") or str(uuid.uuid4()),
        "elapsed-time": str(round((time.perf_counter() - started) * 1000)),
        "OData-Version": "4.0",
        "Content-Type": f"application/json; odata.metadata={level}; odata.streaming=true; charset=utf-8",
    }
    if request.headers.get("Prefer"):
        headers["Preference-Applied"] = request.headers["Prefer"]
    return {**headers, **answer.headers}


def _dropped(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _hampered(request: web.Request, answer: Answer, fault: Fault, started: float) -> web.StreamResponse:
    """The body slowly, cut short, or broken off half way with the connection."""
    payload = _payload(answer)
    sent = payload if fault.truncate is None else payload[: fault.truncate]
    response = web.StreamResponse(status=answer.status, headers=_headers(request, answer, started))
    response.content_length = len(sent)
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        if fault.drop == "middle":
            await response.write(sent[: len(sent) // 2])
            return _dropped(request)
        await _trickle(response, sent, fault.trickle)
        await response.write_eof()
    return response


async def _trickle(response: web.StreamResponse, payload: bytes, bytes_a_second: float | None) -> None:
    if bytes_a_second is None:
        await response.write(payload)
        return
    step = max(1, round(bytes_a_second / _TRICKLE_STEPS_A_SECOND))
    for start in range(0, len(payload), step):
        await asyncio.sleep(step / bytes_a_second)
        await response.write(payload[start : start + step])


def _no_access(operation: str) -> Answer:
    """Azure AI Search says 403 and nothing else; Azure OpenAI says 401."""
    if operation != "embeddings":
        return Answer(status=403)
    message = "Access denied due to invalid subscription key or wrong API endpoint."
    return Answer(status=401, body={"error": {"code": "401", "message": message}})


def _no_such_resource() -> dict[str, Any]:
    return {"error": {"code": "", "message": "No HTTP resource was found that matches the request URI."}}
