"""Cookies of people who signed in: signed, bounded, and of no use to another site."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

from app.domain.caller import Caller, Role, shown_name

LIFETIME = 4 * 3600  # seconds after which a person signs in again, roles read anew
UNDER_WAY = 600  # seconds that a sign-in may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A person who signed in with a browser. `proof` stands in every form of theirs, and nowhere else."""

    caller: Caller
    proof: str

    def proves(self, sent: str | None) -> bool:
        return sent is not None and compare_digest(sent.encode("utf-8", "replace"), self.proof.encode())


class Sessions:
    """`keys` sign cookies: the first signs, all are accepted, so that one can be replaced in two steps.

    `tls`: whether browsers reach the service by https, where a cookie goes back to this host only.
    """

    def __init__(self, keys: Sequence[str], *, tls: bool) -> None:
        self._sessions = URLSafeTimedSerializer(list(reversed(keys)), salt="session")
        self._sign_ins = URLSafeTimedSerializer(list(reversed(keys)), salt="sign-in")
        self._tls = tls
        self._prefix = "__Host-gate-" if tls else "gate-"
        self._ended: dict[str, float] = {}

    def begin(self, response: Response, caller: Caller) -> None:
        """From now on the browser acts for the caller."""
        content = {
            "id": caller.id,
            "name": shown_name(caller.name),
            "roles": sorted(caller.roles),
            "proof": secrets.token_urlsafe(24),
        }
        self._set(response, "session", self._sessions.dumps(content), LIFETIME)

    def of(self, request: Request) -> Session | None:
        """Who sent the request by a browser; None where nobody is signed in, or not any more."""
        content = self._read(request, self._sessions, "session", LIFETIME)
        if content is None or content["proof"] in self._ended:
            return None
        roles = frozenset(role for role in Role if role.value in content["roles"])
        caller = Caller(id=content["id"], name=content["name"], roles=roles)
        return Session(caller=caller, proof=content["proof"])

    def end(self, request: Request, response: Response) -> None:
        """Signs the browser out; a copy of its cookie is of no use either, in this process."""
        session = self.of(request)
        now = time.monotonic()
        self._ended = {proof: at for proof, at in self._ended.items() if now - at < LIFETIME}
        if session is not None:
            self._ended[session.proof] = now
        self._delete(response, "session")

    def begin_sign_in(self, response: Response, state: str, content: Mapping[str, str]) -> None:
        """Keeps what belongs to a sign-in in the browser that began it, until it comes back."""
        signed = self._sign_ins.dumps({**content, "state": state})
        self._set(response, f"sign-in-{state}", signed, UNDER_WAY)

    def sign_in(self, request: Request, state: str) -> Mapping[str, str] | None:
        """What this browser kept for that sign-in; None where it began none, or too long ago."""
        content = self._read(request, self._sign_ins, f"sign-in-{state}", UNDER_WAY)
        return content if content is not None and content["state"] == state else None

    def end_sign_in(self, response: Response, state: str) -> None:
        self._delete(response, f"sign-in-{state}")

    def _read(
        self, request: Request, serializer: URLSafeTimedSerializer, name: str, lifetime: int
    ) -> Mapping[str, Any] | None:
        try:
            content: Mapping[str, Any] = serializer.loads(
                request.cookies.get(self._prefix + name, ""), max_age=lifetime
            )
        except BadData:
            return None
        return content

    def _set(self, response: Response, name: str, value: str, lifetime: int) -> None:
        # not strict: the way back from the directory's page, and a link in a build, come from another site
        response.set_cookie(
            self._prefix + name, value, max_age=lifetime, httponly=True, samesite="lax", secure=self._tls
        )

    def _delete(self, response: Response, name: str) -> None:
        response.delete_cookie(self._prefix + name, httponly=True, samesite="lax", secure=self._tls)
