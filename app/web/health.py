"""`/healthz` and `/readyz`: alive; able to do its work, and if not, why."""

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import BrokenError, GateError
from app.domain.reasons import Code
from app.gate.ports import SearchService
from app.web.access import Access
from app.web.opened import Gate
from app.web.problems import answers, as_json, declared, plain

PATIENCE = 5.0  # seconds that a component has for its answer
_PROBE = "gate-readiness"  # an index name that nobody uses: "it is not there" is an answer of the service

router = APIRouter(tags=["health"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    status: Literal["alive"] = "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Every component with what is wrong with it; None: nothing."""

    status: Literal["ready"] = "ready"
    components: dict[str, str | None]


@router.get("/healthz", responses=answers(Alive) | declared())
async def healthz() -> Response:
    """The process answers. Nothing else is asked."""
    return Response(json.dumps({"status": "alive"}), media_type="application/json")


@router.get("/readyz", responses=answers(Ready) | declared(HTTPStatus.SERVICE_UNAVAILABLE))
async def readyz(request: Request, gate: Gate) -> Response:
    """Whatever the work needs can be reached; if not, 503 says what cannot, and why."""
    asked: dict[str, Awaitable[object]] = {"storage": gate.records.ready(), "search": _search(gate.search)}
    if gate.live is not None:
        asked["live"] = gate.live.read(asyncio.get_running_loop().time() + PATIENCE)
    access: Access | None = request.app.state.access
    if access is not None:
        asked["sign-in"] = access.tokens.ready()
    components = dict(zip(asked, await asyncio.gather(*map(_wrong, asked.values())), strict=True))
    wrong = [f"{name}: {reason}" for name, reason in components.items() if reason]
    if wrong:
        status = HTTPStatus.SERVICE_UNAVAILABLE
        return as_json(plain(request, status, " ".join(wrong), components=components))
    return Response(json.dumps({"status": "ready", "components": components}), media_type="application/json")


async def _wrong(asking: Awaitable[object]) -> str | None:
    """Why there is no answer; None: there is one."""
    try:
        async with asyncio.timeout(PATIENCE):
            await asking
    except TimeoutError:
        return f"No answer within {PATIENCE:g} seconds."
    except GateError as error:
        return str(error)
    return None


async def _search(search: SearchService) -> None:
    """Raises what keeps the search service from being asked."""
    try:
        await search.describe(_PROBE, asyncio.get_running_loop().time() + PATIENCE)
    except BrokenError as error:
        if error.code != Code.INDEX_MISSING:
            raise
