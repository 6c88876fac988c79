"""Who asks: what a request is signed with when something is decided."""

from starlette.requests import Request

from app.domain.caller import Caller
from app.domain.review import Signature
from app.gate.opened import OpenGate


def caller(request: Request) -> Caller | None:
    """Who is signed in; None where nobody signs in."""
    found: Caller | None = getattr(request.state, "caller", None)
    return found


def actor(request: Request) -> str | None:
    """The signature under which the caller is recorded; None where nobody signs in."""
    found = caller(request)
    return found.signature if found else None


def signed(request: Request, gate: OpenGate) -> Signature:
    """The signature of who asks, now."""
    return Signature(by=actor(request), at=gate.execution.now(), mark=gate.execution.new_claim())
