"""A tenant's directory on loopback: discovery, keys, and tokens of every kind, good and bad.

with Directory() as directory:            # or the fixture `directory`
    token = directory.token("Gate.Run")   # as Entra would give it to an application
    person = directory.token("Gate.Review", name="Ada", oid=…)
    directory.rotate()                    # another key from now on
"""

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from joserfc.jwk import RSAKey

TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
CLIENT = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
SECRET = "client-secret-of-the-tests"
SESSION_KEY = "a-key-of-the-tests-that-signs-cookies"
PIPELINE = "9a7d3d0e-57b8-4b0b-a1cf-1f4d7c9a0001"  # object ids
ADA = "9a7d3d0e-57b8-4b0b-a1cf-1f4d7c9a0002"


class Directory:
    """The directory of one tenant."""

    def __init__(self) -> None:
        self.key = key("first")
        self.published: list[dict[str, Any]] = [public(self.key)]
        self.discovery: dict[str, Any] = {}  # members that differ
        self.codes: dict[str, str] = {}  # id tokens by the codes that they are given for
        self.exchanges: list[dict[str, str]] = []
        self.away = False
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def authority(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def issuer(self) -> str:
        return f"{self.authority}/{TENANT}/v2.0"

    @property
    def keys_read(self) -> int:
        """How often the keys were asked for."""
        return sum(path.endswith("/keys") for path in self.asked)

    @property
    def settings(self) -> dict[str, str]:
        """The environment of a service that lets this tenant sign in."""
        return {
            "GATE_AUTH": "entra",
            "GATE_ENTRA_TENANT_ID": TENANT,
            "GATE_ENTRA_AUDIENCE": CLIENT,
            "GATE_ENTRA_AUTHORITY": self.authority,
            "GATE_ENTRA_CLIENT_SECRET": SECRET,
            "GATE_PUBLIC_URL": "http://127.0.0.1:8080",
            "GATE_SESSION_KEYS": SESSION_KEY,
        }

    def rotate(self) -> None:
        """Another key, as published as the first."""
        self.key = key("second")
        self.published.append(public(self.key))

    def claims(self, *roles: str, **changes: Any) -> dict[str, Any]:
        """What a token says unless `changes` say otherwise; None leaves a claim out."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "tid": TENANT,
            "ver": "2.0",
            "iat": now - 10,
            "nbf": now - 10,
            "exp": now + 3600,
            "oid": PIPELINE,
            "sub": PIPELINE,
            "azp": "6c2f3a7e-0000-4000-8000-000000000003",
            "roles": list(roles),
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, *roles: str, **changes: Any) -> str:
        return self.signed(self.claims(*roles, **changes))

    def signed(self, claims: object, *, key: RSAKey | None = None, **header: Any) -> str:
        """A token of these claims by RS256, whatever `header` says; None leaves a member of the header out."""
        return assembled(self._header(**header), claims, by_rsa(key or self.key))

    def _header(self, **changes: Any) -> dict[str, Any]:
        header = {"alg": "RS256", "typ": "JWT", "kid": self.key.kid, **changes}
        return {name: value for name, value in header.items() if value is not None}


Sign = Callable[[bytes], bytes]


def assembled(header: object, claims: object, sign: Sign) -> str:
    """A token, as wrong as may be: libraries that sign tokens refuse to make bad ones."""
    data = f"{_part(json.dumps(header).encode())}.{_part(json.dumps(claims).encode())}"
    return f"{data}.{_part(sign(data.encode()))}"


def by_rsa(key: RSAKey, digest: hashes.HashAlgorithm | None = None) -> Sign:
    private = key.private_key
    assert private is not None
    return lambda data: private.sign(data, PKCS1v15(), digest or hashes.SHA256())


def by_secret(secret: bytes) -> Sign:
    """HS256."""
    return lambda data: hmac.digest(secret, data, "sha256")


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public(key: RSAKey) -> dict[str, Any]:
    return {**key.as_dict(private=False), "use": "sig"}


@cache
def key(name: str) -> RSAKey:
    """A key of that id; making one takes a while."""
    return RSAKey.generate_key(2048, {"kid": name})


@pytest.fixture(scope="session")
def directory() -> Iterator[Directory]:
    """One for the session; a test that changes it makes its own."""
    with Directory() as found:
        yield found


def _handler(directory: Directory) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            directory.asked.append(self.path)
            if directory.away:
                self.send_error(503)
                return
            root = f"{directory.authority}/{TENANT}"
            documents: dict[str, Any] = {
                f"/{TENANT}/v2.0/.well-known/openid-configuration": {
                    "issuer": directory.issuer,
                    "authorization_endpoint": f"{root}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{root}/oauth2/v2.0/token",
                    "end_session_endpoint": f"{root}/oauth2/v2.0/logout",
                    "jwks_uri": f"{root}/discovery/v2.0/keys",
                    **directory.discovery,
                },
                f"/{TENANT}/discovery/v2.0/keys": {"keys": directory.published},
            }
            if self.path in documents:
                self._answer(200, documents[self.path])
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
            directory.exchanges.append(dict(parse_qsl(sent)))
            token = directory.codes.get(directory.exchanges[-1]["code"])
            if directory.away:
                self.send_error(503)
            elif token is None:
                self._answer(400, {"error": "invalid_grant"})
            else:
                self._answer(200, {"id_token": token, "token_type": "Bearer"})

        def _answer(self, status: int, document: object) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
