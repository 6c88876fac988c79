"""Azure App Configuration on this machine, as far as its client asks for it: see `Door`."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from aiohttp import web

from infra.local.catalogue import Precondition
from infra.local.errors import NOT_IMITATED, ServiceError
from infra.local.faults import Fault, Faults, Journal, Occasion
from infra.local.key_values import KeyValue, KeyValues, Refusal, checked_key, checked_label

CREDENTIAL = "local"
SECRET = base64.b64encode(b"the local configuration's secret").decode()  # known to all

_KV = "application/vnd.microsoft.appconfig.kv+json; charset=utf-8"
_SET = "application/vnd.microsoft.appconfig.kvset+json; charset=utf-8"
_PROBLEM = "application/problem+json; charset=utf-8"
_AUTHORIZATION = re.compile(r"HMAC-SHA256 Credential=([^&]+)&SignedHeaders=([^&]+)&Signature=(\S+)")
_SIGNED = ("x-ms-date", "host", "x-ms-content-sha256")
_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%b, %d %Y %H:%M:%S.%f GMT")  # as HTTP has it; as the client writes it
_SKEW = timedelta(minutes=15)
_LONGEST_BODY = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who may sign requests. `secret` is base64, as in a connection string."""

    credential: str = CREDENTIAL
    secret: str = SECRET

    def connection_string(self, endpoint: str) -> str:
        return f"Endpoint={endpoint};Id={self.credential};Secret={self.secret}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    body: Any = None
    kind: str = _KV
    etag: str | None = None


class Door:
    """The wire protocol over the key-values: `/kv`, `/kv/{key}`, `/locks/{key}`, `/keys`, `/labels`, signed by
    HMAC. `/_faults` and `/_requests` as the search stand-in has them; of a fault count `operation` ("get put
    delete lock unlock list keys labels"), `index` (the key), `status`, `body`, `headers`, `delay_ms`, `drop`,
    `times` and `skip`. `sequence` counts writes, for the sync tokens.
    """

    def __init__(self, values: KeyValues, account: Account) -> None:
        self._values = values
        self._account = account
        self._faults = Faults()
        self._journal = Journal()
        self._sequence = 0

    def application(self) -> web.Application:
        application = web.Application(client_max_size=_LONGEST_BODY)
        application.router.add_route("*", "/_faults", self._control_faults)
        application.router.add_route("*", "/_requests", self._control_requests)
        application.router.add_route("*", "/{path:.*}", self.handle)
        return application

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request: signature, faults, then what it asks for."""
        body = await request.read()
        refused = _unsigned(request, body, self._account)
        if refused is not None:
            return refused
        try:
            operation, key, perform = self._found(request, body)
        except Refusal as error:
            return self._response(_problem(error))
        occasion = Occasion(operation=operation, names=(key,) if key else ())
        self._journal.note(occasion)
        fault = self._faults.take(occasion) or Fault()
        await asyncio.sleep(fault.delay_ms / 1000)
        if fault.drop == "before":
            return _dropped(request)
        if fault.replaces:
            answer = _Answer(status=fault.status or 200, body=fault.replacement, kind=_PROBLEM)
        else:
            answer = _performed(perform)
        if fault.drop == "middle":
            return _dropped(request)
        return self._response(answer, fault.headers)

    def _found(self, request: web.Request, body: bytes) -> tuple[str, str, Callable[[], _Answer]]:
        """The operation, its key, and what it does."""
        query = dict(request.query)
        if not query.pop("api-version", None):
            raise Refusal(400, "API version is not specified", name="api-version")
        condition = Precondition(
            if_match=request.headers.get("If-Match"), if_none_match=request.headers.get("If-None-Match")
        )
        _, room, *rest = request.path.split("/", 2)
        key = checked_key(rest[0]) if rest else ""
        match request.method, room, bool(key):
            case "GET", "kv" | "keys" | "labels", False:
                operation = "list" if room == "kv" else room
                return operation, "", lambda: self._listed(room, query)
            case "GET" | "PUT" | "DELETE", "kv", True:
                label = _only_label(query)
                given = _json(body)
                return (
                    request.method.lower(),
                    key,
                    lambda: self._one(request.method, key, label, given, condition),
                )
            case "PUT" | "DELETE", "locks", True:
                label, locked = _only_label(query), request.method == "PUT"
                return (
                    "lock" if locked else "unlock",
                    key,
                    lambda: self._locked(key, label, condition, locked),
                )
        raise Refusal(404, f"{NOT_IMITATED}{request.method} /{room}")

    def _one(self, method: str, key: str, label: str | None, body: Any, condition: Precondition) -> _Answer:
        match method:
            case "PUT":
                return self._written(self._values.put(key, label, body, condition))
            case "DELETE":
                gone = self._values.delete(key, label, condition)
                return _Answer(status=204) if gone is None else self._written(gone)
        found = self._values.get(key, label)
        if found is None:
            return _Answer(status=404)
        if not condition.holds(found.etag):
            return _Answer(status=304 if condition.if_none_match else 412, etag=found.etag)
        return _told(found)

    def _locked(self, key: str, label: str | None, condition: Precondition, locked: bool) -> _Answer:  # noqa: FBT001
        found = self._values.lock(key, label, condition, locked=locked)
        return _Answer(status=404) if found is None else self._written(found)

    def _listed(self, room: str, query: Mapping[str, str]) -> _Answer:
        known = {"key", "label"} if room == "kv" else {"name"}
        _refuse_unknown(query, known)
        if room == "kv":
            found = self._values.listed(query.get("key"), query.get("label"))
            return _Answer(status=200, body={"items": [each.body() for each in found]}, kind=_SET)
        if room == "keys":
            names: list[str | None] = [each.key for each in self._values.listed(query.get("name"), None)]
        else:
            names = [each.label for each in self._values.listed(None, query.get("name"))]
        distinct = sorted(set(names), key=lambda name: name or "")
        return _Answer(status=200, body={"items": [{"name": name} for name in distinct]}, kind=_SET)

    def _written(self, found: KeyValue) -> _Answer:
        self._sequence += 1
        return _told(found)

    def _response(self, answer: _Answer, headers: Mapping[str, str] | None = None) -> web.Response:
        told = {"Sync-Token": f"local=MQ==;sn={self._sequence}"}
        if answer.etag is not None:
            told["ETag"] = f'"{answer.etag}"'
        if answer.body is not None:
            told["Content-Type"] = answer.kind
        if isinstance(answer.body, dict) and "last_modified" in answer.body:
            told["Last-Modified"] = format_datetime(
                datetime.fromisoformat(answer.body["last_modified"]), usegmt=True
            )
        content = b"" if answer.body is None else json.dumps(answer.body).encode()
        return web.Response(status=answer.status, body=content, headers={**told, **(headers or {})})

    async def _control_faults(self, request: web.Request) -> web.Response:
        if request.method == "PUT":
            try:
                self._faults.arm([Fault.parse(part) for part in await request.json()])
            except ServiceError as error:
                return web.json_response(error.body(), status=error.status)
        elif request.method == "DELETE":
            self._faults.arm([])
        return web.json_response(self._faults.listing())

    async def _control_requests(self, request: web.Request) -> web.Response:
        if request.method == "DELETE":
            self._journal.reset()
        return web.json_response(self._journal.report())


def _performed(perform: Callable[[], _Answer]) -> _Answer:
    try:
        return perform()
    except Refusal as error:
        return _problem(error)


def _problem(error: Refusal) -> _Answer:
    return _Answer(status=error.status, body=error.body(), kind=_PROBLEM)


def _told(found: KeyValue) -> _Answer:
    return _Answer(status=200, body=found.body(), etag=found.etag)


def _only_label(query: Mapping[str, str]) -> str | None:
    _refuse_unknown(query, {"label"})
    return checked_label(query.get("label"))


def _refuse_unknown(query: Mapping[str, str], known: set[str]) -> None:
    for name in query:
        if name not in known:
            raise Refusal(400, f"{NOT_IMITATED}the parameter '{name}'", name=name)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError):
        raise Refusal(400, "The body is not JSON.") from None


def _dropped(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _unsigned(request: web.Request, body: bytes, account: Account) -> web.Response | None:
    """The 401 for a request that the account did not sign, or not just now."""
    why = _fault_of_signature(request, body, account)
    if why is None:
        return None
    challenge = f'HMAC-SHA256 error="invalid_token" error_description="{why}", Bearer'
    return web.Response(status=401, headers={"WWW-Authenticate": challenge})


def _fault_of_signature(request: web.Request, body: bytes, account: Account) -> str | None:
    given = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
    if given is None:
        return "Authorization header is missing or of another scheme"
    credential, names, signature = given.groups()
    signed = names.lower().split(";")
    if credential != account.credential:
        return "Invalid Credential"
    if not set(_SIGNED) <= set(signed):
        return f"{', '.join(_SIGNED)} must be signed"
    if not _is_now(request.headers.get("x-ms-date", "")):
        return "The access token has expired"
    if request.headers.get("x-ms-content-sha256") != _base64(hashlib.sha256(body).digest()):
        return "x-ms-content-sha256 is not the body's"
    values = ";".join(request.headers.get(name, "") for name in signed)
    text = f"{request.method}\n{request.raw_path}\n{values}"
    ours = hmac.new(base64.b64decode(account.secret), text.encode(), hashlib.sha256).digest()
    try:
        theirs = base64.b64decode(signature, validate=True)
    except binascii.Error:
        theirs = b""
    return None if hmac.compare_digest(ours, theirs) else "Invalid Signature"


def _is_now(text: str) -> bool:
    for form in _DATES:
        try:
            said = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return abs(datetime.now(UTC) - said) <= _SKEW
    return False


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
