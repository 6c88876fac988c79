"""Which call needs which role: the one table, and the check that stands before every call."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request

from app.domain.caller import Caller, Role
from app.domain.errors import ForbiddenError, TokenError, UnauthenticatedError
from app.web.bodies import PROOF, form_field
from app.web.sessions import Sessions

OPEN = None  # for everybody, signed in or not
SIGNED_IN: frozenset[Role] = frozenset()  # for everybody who is signed in, whatever the roles
ANY = frozenset(Role)  # who may do anything may read what came of it: a pipeline waits for the run it started
RUN = frozenset({Role.RUN})
REVIEW = frozenset({Role.REVIEW})
PROMOTE = frozenset({Role.PROMOTE})

NEEDED: Mapping[
    str, frozenset[Role] | None
] = {  # one of the roles suffices; a call not listed is refused to all
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /openapi.json": ANY,
    "GET /sign-in": OPEN,
    "GET /sign-in/callback": OPEN,
    "POST /sign-out": SIGNED_IN,
    # runs
    "POST /v1/runs": RUN,
    "GET /v1/runs": ANY,
    "GET /v1/runs/{run_id}": ANY,
    "POST /v1/runs/{run_id}/cancel": RUN,
    "POST /v1/runs/{run_id}/judge": RUN,
    "POST /v1/judge": RUN,
    "POST /v1/golden-sets/check": RUN,
    # their documents
    "GET /v1/runs/{run_id}/run.json": ANY,
    "GET /v1/runs/{run_id}/report.html": ANY,
    "GET /v1/runs/{run_id}/report.md": ANY,
    "GET /v1/runs/{run_id}/junit.xml": ANY,
    "GET /v1/runs/{run_id}/golden.jsonl": ANY,
    "GET /v1/runs/{run_id}/golden.patch": ANY,
    # decisions: an override is one on questions, too, and promotes nothing
    "POST /v1/runs/{run_id}/reviews": REVIEW,
    "GET /v1/runs/{run_id}/reviews": ANY,
    "POST /v1/runs/{run_id}/overrides": REVIEW,
    "GET /v1/runs/{run_id}/overrides": ANY,
    # what is live
    "GET /v1/runs/{run_id}/clearance": ANY,
    "POST /v1/runs/{run_id}/promote": PROMOTE,
    "GET /v1/runs/{run_id}/promotion": ANY,
    "GET /v1/live": ANY,
    "POST /v1/live/rollback": PROMOTE,
    "GET /v1/live/retirement": ANY,
    "GET /v1/audit": ANY,
    "GET /v1/audit/verification": ANY,
    "POST /v1/checks/azure-devops": OPEN,  # to whoever has the secret of checks: see checks.py
    # pages and their forms
    "GET /": ANY,
    "GET /runs/{run_id}": ANY,
    "GET /runs/{run_id}/events": ANY,
    "GET /runs/{run_id}/question": ANY,
    "GET /runs/{run_id}/{name}": ANY,
    "POST /runs/{run_id}/reviews": REVIEW,
    "POST /runs/{run_id}/overrides": REVIEW,
    "GET /live": ANY,
    "POST /live/rollback": PROMOTE,
    "GET /runs/{run_id}/promotion": ANY,
    "POST /runs/{run_id}/promotion": PROMOTE,
}


class Tokens(Protocol):
    """Tells callers by their bearer tokens."""

    async def caller(self, token: str) -> Caller:
        """Who sent it. TokenError if it is not good, DirectoryError where that cannot be known now."""
        ...

    async def ready(self) -> None:
        """DirectoryError where no token could be read now."""
        ...


class People(Protocol):
    """Signs people in by the directory's own page. DirectoryError where it does not answer."""

    async def address(self, *, state: str, nonce: str, verifier: str) -> str:
        """Of that page."""
        ...

    async def caller(self, *, code: str, nonce: str, verifier: str) -> Caller:
        """Who came back from it. TokenError where what they brought is no good."""
        ...

    async def sign_out_address(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How callers sign in."""

    tokens: Tokens
    people: People
    sessions: Sessions

    async def caller(self, request: Request) -> Caller:
        """Who asks: by a token, or a browser's session. UnauthenticatedError where nobody is signed in, further
        errors as for a token; HTTPException 403 for what a browser sends that no page of ours made.
        """
        sent = request.headers.getlist("authorization")
        if not sent:
            return await self._by_session(request)
        scheme, _, token = sent[0].partition(" ")
        if len(sent) > 1 or scheme.lower() != "bearer":
            raise TokenError("One authorization header with one bearer token is expected.")
        return await self.tokens.caller(token.strip())

    async def _by_session(self, request: Request) -> Caller:
        session = self.sessions.of(request)
        if session is None:
            raise UnauthenticatedError("Send an access token of the gate's tenant as a bearer token.")
        if request.method != "GET" and not session.proves(await form_field(request, PROOF)):
            detail = (
                "This is no form that the gate made for you. Open its page again, and send it from there."
            )
            raise HTTPException(HTTPStatus.FORBIDDEN, detail)
        request.state.proof = session.proof
        return session.caller


async def admitted(request: Request) -> None:
    """Lets a call pass, and notes who asks. Errors as for `Access.caller`; ForbiddenError for want of a role."""
    call = f"{request.method} {request.scope['route'].path}"
    if call not in NEEDED:
        raise RuntimeError(f"{call} has no entry in the table of roles, app/web/access.py")
    needed = NEEDED[call]
    access: Access | None = request.app.state.access
    if access is None or needed is OPEN:
        return
    request.state.caller = caller = await access.caller(request)
    if needed and not needed & caller.roles:
        raise ForbiddenError(_missing(needed, caller))


def _missing(needed: frozenset[Role], caller: Caller) -> str:
    wanted = " or ".join(role for role in Role if role in needed)
    held = ", ".join(role for role in Role if role in caller.roles) or "none"
    return f"This needs the role {wanted}. The roles of who is signed in: {held}."
