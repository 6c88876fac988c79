"""A proxy on loopback that treats requests as networks and ingresses do: it loses, resets and answers for itself.

    with Proxy(service.url, decide) as proxy: … proxy.url …

`decide` sees each `Passing` and says what becomes of it: PASS; LOSE, handed on, and the answer thrown away;
RESET, not handed on; or a status, with which the proxy itself answers. `proxy.passed` lists them all. With
`idle_seconds` a request whose answer has not begun by then is given up with a 504, as an ingress does; `proxy.idle`
counts them.
"""

import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Act(Enum):
    PASS = "pass"
    LOSE = "lose"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """One request. `path` holds the query string too; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)


Decide = Callable[[Passing], Act | int]


class Proxy:
    """See the module."""

    def __init__(self, target: str, decide: Decide = lambda _: Act.PASS, *, idle_seconds: float = 60) -> None:
        self.passed: list[Passing] = []
        self.idle = 0
        self._idle_seconds = idle_seconds
        self._parts = urlsplit(target)
        self._decide = decide
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Its own address, with the target's path."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}{self._parts.path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                proxy._serve(self)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        passing = Passing(
            method=handler.command,
            path=handler.path,
            headers={name.lower(): value for name, value in handler.headers.items()},
            body=handler.rfile.read(length),
        )
        with self._lock:
            self.passed.append(passing)
            act = self._decide(passing)
        if isinstance(act, int):
            _answer(handler, act, [("Content-Type", "text/html")], b"<h1>Gateway Timeout</h1>")
            return
        if act is Act.RESET:
            _reset(handler)
            return
        try:
            status, headers, body = self._handed_on(passing)
        except TimeoutError:
            self.idle += 1
            _answer(
                handler,
                HTTPStatus.GATEWAY_TIMEOUT,
                [("Content-Type", "text/html")],
                b"<h1>Gateway Timeout</h1>",
            )
            return
        if act is Act.LOSE:
            _reset(handler)
        else:
            _answer(handler, status, headers, body)

    def _handed_on(self, passing: Passing) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = HTTPConnection(self._parts.hostname or "", self._parts.port, timeout=self._idle_seconds)
        try:
            headers = {name: value for name, value in passing.headers.items() if name not in _HOP_BY_HOP}
            connection.request(passing.method, passing.path, passing.body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


def _answer(
    handler: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], body: bytes
) -> None:
    handler.send_response_only(status)
    for name, value in headers:
        if name.lower() not in _HOP_BY_HOP:
            handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    try:
        handler.wfile.write(body)
    except OSError:  # who asked is gone
        handler.close_connection = True


def _reset(handler: BaseHTTPRequestHandler) -> None:
    """Close so that the other end sees a reset, not an end."""
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
