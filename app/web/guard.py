"""What holds for every answer: headers that keep browsers careful, and no trace of an unexpected error."""

import logging

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

log = logging.getLogger(__name__)


class Guard:
    """ASGI middleware. An answer that had begun is broken off, so that nobody takes a part for the whole."""

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        self._headers = HEADERS | (OVER_TLS if tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except Exception as error:
            log.exception("%s %r failed unexpectedly", scope["method"], scope["path"])
            if started:
                raise
            await as_json(refusal(Request(scope), error))(scope, receive, guarded)
