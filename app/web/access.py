"""Which call needs which role: the one table, and the check that stands before every call."""

from collections.abc import Mapping
from typing import Protocol

from starlette.requests import Request

from app.domain.caller import Caller, Role
from app.domain.errors import ForbiddenError, TokenError, UnauthenticatedError

OPEN = None  # for everybody, signed in or not
ANY = frozenset(Role)  # who may do anything may read what came of it: a pipeline waits for the run it started
RUN = frozenset({Role.RUN})
REVIEW = frozenset({Role.REVIEW})

NEEDED: Mapping[
    str, frozenset[Role] | None
] = {  # one of the roles suffices; a call not listed is refused to all
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /openapi.json": ANY,
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
    # pages and their forms
    "GET /": ANY,
    "GET /runs/{run_id}": ANY,
    "GET /runs/{run_id}/events": ANY,
    "GET /runs/{run_id}/question": ANY,
    "GET /runs/{run_id}/{name}": ANY,
    "POST /runs/{run_id}/reviews": REVIEW,
    "POST /runs/{run_id}/overrides": REVIEW,
}


class Tokens(Protocol):
    """Tells callers by their bearer tokens."""

    async def caller(self, token: str) -> Caller:
        """Who sent it. TokenError if it is not good, DirectoryError where that cannot be known now."""
        ...


class Access:
    """How callers sign in."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def caller(self, request: Request) -> Caller:
        """Who asks. UnauthenticatedError where nobody is signed in; further errors as for a token."""
        sent = request.headers.getlist("authorization")
        if not sent:
            raise UnauthenticatedError("Send an access token of the gate's tenant as a bearer token.")
        scheme, _, token = sent[0].partition(" ")
        if len(sent) > 1 or scheme.lower() != "bearer":
            raise TokenError("One authorization header with one bearer token is expected.")
        return await self._tokens.caller(token.strip())


async def admitted(request: Request) -> None:
    """Lets a call pass, and notes who asks. Errors as for `Access.caller`; ForbiddenError for want of a role."""
    call = f"{request.method} {request.scope['route'].path}"
    if call not in NEEDED:
        raise RuntimeError(f"{call} has no entry in the table of roles, app/web/access.py")
    needed = NEEDED[call]
    access: Access | None = request.app.state.access
    if access is None or needed is OPEN:
        return
    caller = await access.caller(request)
    if not needed & caller.roles:
        raise ForbiddenError(_missing(needed, caller))
    request.state.caller = caller


def _missing(needed: frozenset[Role], caller: Caller) -> str:
    wanted = " or ".join(role for role in Role if role in needed)
    held = ", ".join(role for role in Role if role in caller.roles) or "none"
    return f"This needs the role {wanted}. The roles of who is signed in: {held}."
