"""What is live: shown, promoted to, rolled back from, and the audit of all that."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from app.domain.audit import AuditPage, Verification, audit_page
from app.domain.clearance import Clearance
from app.domain.errors import NotFoundError
from app.domain.schema import adapter
from app.gate.clear import clear
from app.gate.control import LiveControl
from app.gate.follow import Followed, followed
from app.gate.live import Live, live
from app.gate.opened import OpenGate
from app.gate.promote import PromoteRequest, Promotion, promote
from app.gate.retire import Retirement, retire
from app.gate.rollback import Rollback, rollback
from app.web.bodies import PromoteBody, RollbackBody, described, read_body
from app.web.caller import actor
from app.web.opened import Gate
from app.web.problems import answers, declared
from app.web.runs import RunId, Wait

_READING = declared(HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE)
_WRITING = declared(
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)

router = APIRouter(prefix="/v1", tags=["live"])


def control_of(gate: OpenGate) -> LiveControl:
    """What the live index is read and changed with; NotFoundError where no setting says where it is kept."""
    if gate.control is None:
        raise NotFoundError(
            "This service is not told where the live index name is kept: set GATE_LIVE_KEY with "
            "GATE_APPCONFIG_ENDPOINT, or GATE_LIVE_ALIAS."
        )
    return gate.control


async def promoted(gate: OpenGate, request: PromoteRequest, by: str | None) -> Promotion:
    """The promotion, made, its watch begun; or, where it was made before and its watch was cut off, begun again."""
    made = await promote(control_of(gate), request, by=by)
    if gate.watches is not None:
        gate.watches.launch(made.record)
    return made


@router.get(
    "/runs/{run_id}/clearance",
    response_description="Every condition of a promotion, with its state",
    responses=answers(Clearance) | _READING,
)
async def get_clearance(run_id: RunId, request: Request, gate: Gate) -> Response:
    """Whether the caller may promote the run now, and if not, what differs and what to do. Nothing is recorded."""
    found = await clear(control_of(gate), run_id, by=actor(request))
    return _json(adapter(Clearance).dump_json(found.clearance))


@router.post(
    "/runs/{run_id}/promote",
    response_description="The promotion; its watch goes on in the background",
    responses=answers(Promotion) | _WRITING,
    openapi_extra=described(PromoteBody),
)
async def promote_run(run_id: RunId, request: Request, gate: Gate) -> Response:
    """Make the run's candidate the live index, where the run is cleared; the same asked twice is one."""
    body = await read_body(request, PromoteBody)
    wanted = PromoteRequest(run_id=run_id, create=body.create, reason=body.reason)
    return _json(adapter(Promotion).dump_json(await promoted(gate, wanted, actor(request))))


@router.get(
    "/runs/{run_id}/promotion",
    response_description="The run's last promotion and its watch",
    responses=answers(Followed)
    | declared(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def get_promotion(run_id: RunId, gate: Gate, wait: Wait = 0) -> Response:
    """What became of the run's promotion, as soon as its watch has ended within `wait` seconds."""
    return _json(adapter(Followed).dump_json(await followed(gate.trail, gate.records, run_id, wait)))


@router.get("/live", response_description="What is live", responses=answers(Live) | _READING)
async def get_live(gate: Gate) -> Response:
    """What is live, since when, by which run, and what could be returned to."""
    return _json(adapter(Live).dump_json(await live(control_of(gate))))


@router.post(
    "/live/rollback",
    response_description="The roll back, made or drilled",
    responses=answers(Rollback) | _WRITING,
    openapi_extra=described(RollbackBody),
)
async def roll_back(request: Request, gate: Gate) -> Response:
    """Make the index live again that was live before. Needs no verdict; a drill does all but the write."""
    body = await read_body(request, RollbackBody)
    made = await rollback(control_of(gate), body.request(), by=actor(request))
    return _json(adapter(Rollback).dump_json(made))


@router.get(
    "/live/retirement",
    response_description="Indexes that are of no use any more, as advice",
    responses=answers(Retirement) | _READING,
)
async def get_retirement(gate: Gate) -> Response:
    """The indexes that are neither live, nor what a roll back goes to, nor recently used. Nothing is deleted."""
    return _json(adapter(Retirement).dump_json(await retire(control_of(gate))))


@router.get(
    "/audit",
    response_description="Records, the newest first",
    responses=answers(AuditPage) | declared(HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def get_audit(
    gate: Gate,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[
        int | None, Query(ge=1, le=10**12, description="Only records with a lower number")
    ] = None,
) -> Response:
    """What was done to the live index, by whom and why: promotions, refusals, watches, roll backs."""
    return _json(adapter(AuditPage).dump_json(audit_page(await gate.trail.records(), limit, before)))


@router.get(
    "/audit/verification",
    response_description="Whether the chain is whole; if not, every broken link",
    responses=answers(Verification) | declared(HTTPStatus.SERVICE_UNAVAILABLE),
)
async def verify_audit(gate: Gate) -> Response:
    """Read the whole audit anew and check every link."""
    return _json(adapter(Verification).dump_json(await gate.trail.verify()))


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
