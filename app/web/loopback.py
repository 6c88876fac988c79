"""Where nobody signs in: only this machine's own requests are answered, though its browsers show others' pages, too."""

from http import HTTPStatus
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.problems import as_json, plain

_OWN = ("same-origin", "none")  # the latter: typed, or a bookmark


class LoopbackOnly:
    """ASGI middleware. A page from elsewhere reaches a loopback address under a name of its own that it makes
    point there, or by a form whose answer it does not need: neither is let through.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = _stranger(scope["method"], Headers(scope=scope)) if scope["type"] == "http" else None
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await as_json(plain(Request(scope), HTTPStatus.FORBIDDEN, refused))(scope, receive, send)


def _stranger(method: str, headers: Headers) -> str | None:
    """Why a request is not one of this machine's own; None: it may be."""
    if not all(_is_loopback(host) for host in headers.getlist("host")):
        return "Nobody signs in here (GATE_AUTH=none): ask by http://localhost or http://127.0.0.1, and its port."
    if method != "GET" and headers.get("sec-fetch-site", "none") not in _OWN:
        return "Only a page of this service may send this. Open it here, and send it from there."
    return None


def _is_loopback(host: str) -> bool:
    """Of a `Host` header: a name or an address, perhaps with a port."""
    before, _, port = host.rpartition(":")
    name = before if port.isdecimal() else host
    try:
        return name.lower() == "localhost" or ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
