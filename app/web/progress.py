"""`/runs/{id}/events`: how far a run is, as server-sent events, until it is done.

The stream ends itself before a proxy would cut it; a browser then opens the next one by itself.
"""

import asyncio
import json
from collections.abc import AsyncIterator

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from app.domain.run import Run, State
from app.gate.opened import OpenGate
from app.web.opened import Gate
from app.web.runs import RunId

LONGEST_STREAM = 45.0  # seconds; a usual ingress cuts what is silent, or open, for 60
_PAUSE = 1.0  # seconds between two looks
_SILENT = 10.0  # seconds after which a line is sent though nothing moved
_RETRY = 1000  # milliseconds after which a browser opens the next stream

router = APIRouter(include_in_schema=False)


@router.get("/runs/{run_id}/events")
async def events(run_id: RunId, gate: Gate) -> Response:
    """The progress of the run; ends when it is done, or after a while."""
    run, _ = await gate.records.read(run_id)
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(stream(gate, run), media_type="text/event-stream", headers=headers)


async def stream(gate: OpenGate, run: Run) -> AsyncIterator[bytes]:
    """The events, the first at once."""
    clock = asyncio.get_running_loop().time
    ends, said, last = clock() + LONGEST_STREAM, clock(), b""
    yield f"retry: {_RETRY}\n\n".encode()
    while True:
        told = _event(run)
        if told != last:
            yield told
            said, last = clock(), told
        elif clock() - said >= _SILENT:
            yield b": still there\n\n"
            said = clock()
        if run.state is State.DONE or clock() + _PAUSE >= ends:
            return
        looked = clock()
        run = await gate.supervisor.wait(run.id, _PAUSE)
        if run.state is not State.DONE and clock() - looked < _PAUSE / 2:
            return  # this process is about to stop: the next stream finds the one that comes after it


def _event(run: Run) -> bytes:
    name = "done" if run.state is State.DONE else "progress"
    data = {
        "state": run.state,
        "done": run.progress.done,
        "planned": run.progress.planned,
        "verdict": run.verdict,
    }
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
