"""Who asks: what a request is signed with when something is decided."""

from starlette.requests import Request

from app.domain.review import Signature
from app.gate.opened import OpenGate


def actor(request: Request) -> str | None:
    """The name under which the caller is recorded; None where nobody signs in."""
    found: str | None = getattr(request.state, "actor", None)
    return found


def signed(request: Request, gate: OpenGate) -> Signature:
    """The signature of who asks, now."""
    return Signature(by=actor(request), at=gate.execution.now(), mark=gate.execution.new_claim())
