"""Who asks: what a request is signed with when something is decided."""

from starlette.requests import Request

from app.domain.caller import Caller, Role, shown_name
from app.domain.review import Signature
from app.gate.opened import OpenGate
from app.report.reader import Reader


def caller(request: Request) -> Caller | None:
    """Who is signed in; None where nobody signs in."""
    found: Caller | None = getattr(request.state, "caller", None)
    return found


def actor(request: Request) -> str | None:
    """The signature under which the caller is recorded; None where nobody signs in."""
    found = caller(request)
    return found.signature if found else None


def may(request: Request, role: Role) -> bool:
    """Whether a page should offer what needs the role; where nobody signs in, everybody may everything."""
    found = caller(request)
    return found is None or role in found.roles


def signed(request: Request, gate: OpenGate) -> Signature:
    """The signature of who asks, now."""
    return Signature(by=actor(request), at=gate.execution.now(), mark=gate.execution.new_claim())


def reader(request: Request) -> Reader:
    """Who looks at a page, and what it offers to them."""
    found = caller(request)
    if found is None:
        return Reader()
    return Reader(
        name=shown_name(found.name),
        proof=getattr(request.state, "proof", ""),
        may_review=may(request, Role.REVIEW),
    )
