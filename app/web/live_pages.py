"""Pages for operations: what is live and its history, and whether a run may be promoted; with their forms."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.audit import audit_page
from app.domain.caller import Role
from app.gate.clear import clear
from app.gate.follow import of_run
from app.gate.live import live
from app.gate.promote import PromoteRequest
from app.gate.rollback import rollback
from app.report.audit import watch_lines, what, who, why
from app.web.bodies import PromoteBody, RollbackBody, read_form
from app.web.caller import actor, may
from app.web.live import control_of, promoted
from app.web.opened import Gate
from app.web.pages import rendered
from app.web.reviews import own_page
from app.web.runs import RunId

SHOWN = 50  # records on a page

_WORDS = {"what": what, "who": who, "why": why, "watch_lines": watch_lines}

router = APIRouter(include_in_schema=False)
forms = APIRouter(include_in_schema=False, dependencies=[Depends(own_page)])


@router.get("/live")
async def live_page(
    request: Request, gate: Gate, before: Annotated[int | None, Query(ge=1, le=10**12)] = None
) -> Response:
    """What is live, what could be returned to, and everything that was done to it, the newest first."""
    found = await live(control_of(gate))
    page = audit_page(await gate.trail.records(), SHOWN, before)
    return rendered(request, "live.html", live=found, page=page, may=may(request, Role.PROMOTE), say=_WORDS)


@router.get("/runs/{run_id}/promotion")
async def promotion_page(run_id: RunId, request: Request, gate: Gate) -> Response:
    """Whether the run may be promoted now, every condition, and what became of its promotion."""
    found = await clear(control_of(gate), run_id, by=actor(request))
    return rendered(
        request,
        "promotion.html",
        run=found.run,
        candidate=found.run.candidate.index,
        clearance=found.clearance,
        followed=of_run(await gate.trail.records(), found.run),
        may=may(request, Role.PROMOTE),
        say=_WORDS,
    )


@forms.post("/runs/{run_id}/promotion")
async def promotion_form(run_id: RunId, request: Request, gate: Gate) -> Response:
    """The promotion of a form, made; then back to its page."""
    body, _ = await read_form(request, PromoteBody)
    await promoted(gate, PromoteRequest(run_id=run_id, reason=body.reason), actor(request))
    return RedirectResponse(f"/runs/{run_id}/promotion", status_code=HTTPStatus.SEE_OTHER)


@forms.post("/live/rollback")
async def rollback_form(request: Request, gate: Gate) -> Response:
    """The roll back of a form, made or drilled; then back to the page, where its record stands."""
    body, _ = await read_form(request, RollbackBody)
    made = await rollback(control_of(gate), body.request(), by=actor(request))
    return RedirectResponse(f"/live#record-{made.record.number}", status_code=HTTPStatus.SEE_OTHER)
