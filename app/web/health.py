"""`/healthz` and `/readyz`: alive; able to do its work, and if not, why."""

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import BrokenError, GateError
from app.domain.reasons import Code
from app.gate.ports import SearchService
from app.gate.records import RunRecords
from app.web.opened import Gate
from app.web.problems import as_json, declared, plain

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


@router.get("/healthz", response_model=Alive, responses=declared())
async def healthz() -> Response:
    """The process answers. Nothing else is asked."""
    return Response(json.dumps({"status": "alive"}), media_type="application/json")


@router.get("/readyz", response_model=Ready, responses=declared(HTTPStatus.SERVICE_UNAVAILABLE))
async def readyz(request: Request, gate: Gate) -> Response:
    """Search and storage can be reached; if not, 503 says which cannot, and why."""
    storage, search = await asyncio.gather(_storage(gate.records), _search(gate.search))
    components = {"storage": storage, "search": search}
    wrong = [f"{name}: {reason}" for name, reason in components.items() if reason]
    if wrong:
        status = HTTPStatus.SERVICE_UNAVAILABLE
        return as_json(plain(request, status, " ".join(wrong), components=components))
    return Response(json.dumps({"status": "ready", "components": components}), media_type="application/json")


async def _storage(records: RunRecords) -> str | None:
    """Why runs cannot be read; None: they can."""
    try:
        async with asyncio.timeout(PATIENCE):
            await records.ready()
    except TimeoutError:
        return f"No answer within {PATIENCE:g} seconds."
    except GateError as error:
        return str(error)
    return None


async def _search(search: SearchService) -> str | None:
    """Why the search service cannot be asked; None: it can."""
    try:
        async with asyncio.timeout(PATIENCE):
            await search.describe(_PROBE, asyncio.get_running_loop().time() + PATIENCE)
    except TimeoutError:
        return f"No answer within {PATIENCE:g} seconds."
    except BrokenError as error:
        return None if error.code == Code.INDEX_MISSING else str(error)
    except GateError as error:
        return str(error)
    return None
