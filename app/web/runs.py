"""`/v1/runs`: start, follow, cancel and list runs."""

import json
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from app.domain.run import Run, State
from app.gate.start import start
from app.report.run_json import run_json
from app.web.bodies import StartBody, described, read_body
from app.web.caller import actor
from app.web.listing import RunPage, Wanted, page
from app.web.opened import Gate
from app.web.problems import answers, declared
from app.web.starts import Starts

RETRY_AFTER = "2"  # seconds after which a run that is not done is worth another look
LONGEST_WAIT = 60  # seconds

RunId = Annotated[str, Path(description="The run's id")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[\x20-\x7e]{1,200}$",
        description="1 to 200 printable characters, the same for every repetition of one request: they start "
        "one run. Without it every request starts a run.",
    ),
]
Wait = Annotated[
    float,
    Query(ge=0, le=LONGEST_WAIT, description="Seconds to hold the answer until the run is done"),
]

router = APIRouter(prefix="/v1/runs", tags=["runs"])


@router.post(
    "",
    status_code=HTTPStatus.ACCEPTED,
    response_description="The run, started",
    responses=answers(Run, HTTPStatus.ACCEPTED)
    | declared(
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    ),
    openapi_extra=described(StartBody),
)
async def start_run(request: Request, gate: Gate, idempotency_key: IdempotencyKey = None) -> Response:
    """Start a run; it goes on in the background."""
    body = await read_body(request, StartBody)
    starts: Starts = request.app.state.starts
    who, new = actor(request), False
    counted = starts.admit(who, idempotency_key)
    try:
        run, new = await start(
            body.request(),
            records=gate.records,
            golden_sets=gate.golden_sets,
            stamp=gate.stamp(),
            live=gate.live,
            idempotency_key=idempotency_key,
            requested_by=who,
        )
    finally:
        if counted and not new:
            starts.forget(who, idempotency_key)
    if run.state is not State.DONE:
        await gate.supervisor.take_up(run.id)
    return _answer(run, HTTPStatus.ACCEPTED, {"Location": f"/v1/runs/{run.id}"})


@router.get(
    "",
    response_description="Runs, the newest first",
    responses=answers(RunPage) | declared(HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def list_runs(gate: Gate, wanted: Annotated[Wanted, Query()]) -> Response:
    """List runs, the newest first. A page may hold fewer than `limit` and yet have a `next`."""
    found = await page(gate.records, wanted)
    runs = b",".join(run_json(run) for run in found.runs)
    rest = {"unreadable": [asdict(each) for each in found.unreadable], "next": found.next}
    content = b'{"runs":[' + runs + b"]," + json.dumps(rest).encode().removeprefix(b"{")
    return Response(content, media_type="application/json")


@router.get(
    "/{run_id}",
    response_description="The run without its questions",
    responses=answers(Run)
    | declared(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def get_run(run_id: RunId, gate: Gate, wait: Wait = 0) -> Response:
    """The run as it is now, or as soon as it is done within `wait` seconds."""
    return _answer(await gate.supervisor.wait(run_id, wait), HTTPStatus.OK, {})


@router.post(
    "/{run_id}/cancel",
    status_code=HTTPStatus.ACCEPTED,
    response_description="The run; it ends shortly after",
    responses=answers(Run, HTTPStatus.ACCEPTED)
    | declared(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def cancel_run(run_id: RunId, gate: Gate) -> Response:
    """Cancel a run: it becomes ERROR `cancelled`. One that is done stays as it is."""
    return _answer(await gate.supervisor.cancel(run_id), HTTPStatus.ACCEPTED, {})


def _answer(run: Run, status: HTTPStatus, headers: dict[str, str]) -> Response:
    if run.state is not State.DONE:
        headers = {**headers, "Retry-After": RETRY_AFTER}
    return Response(run_json(run), status_code=status, media_type="application/json", headers=headers)
