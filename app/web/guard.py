"""What holds for every answer: headers that keep browsers careful, and no trace of an unexpected error."""

import asyncio
import logging
import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.gate.telemetry import REQUEST, about
from app.report.sheet import SERVICE_POLICY
from app.web.problems import as_json, refusal

HEADERS = {
    "Content-Security-Policy": SERVICE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any a browser says of a form only that its origin is "null"
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",  # for browsers that do not know frame-ancestors
}
OVER_TLS = {"Strict-Transport-Security": "max-age=31536000; includeSubDomains"}

REQUEST_ID = "X-Request-ID"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PROBES = ("/healthz", "/readyz")  # asked every few seconds

log = logging.getLogger(__name__)


class Guard:
    """ASGI middleware. An answer that had begun is broken off, so that nobody takes a part for the whole.

    Every request has an id, its sender's or one of ours, which its answer and all that is logged of it carry.
    """

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        self._headers = HEADERS | (OVER_TLS if tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope))
        with about(REQUEST, request_id):
            await self._guarded(scope, receive, send, request_id)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        loop = asyncio.get_running_loop()
        began, status = loop.time(), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except Exception as error:
            log.exception("%s %r failed unexpectedly", scope["method"], scope["path"])
            if status:
                raise
            await as_json(refusal(Request(scope), error))(scope, receive, guarded)
        finally:
            level = logging.DEBUG if scope["path"] in _PROBES else logging.INFO
            took = (loop.time() - began) * 1000
            log.log(level, "%s %r %s %.0f ms", scope["method"], scope["path"], status or "cut off", took)


def _request_id(headers: Headers) -> str:
    sent = headers.get(REQUEST_ID, "")
    return sent if _REQUEST_ID.fullmatch(sent) else uuid.uuid4().hex
