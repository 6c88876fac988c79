"""Plain pages for people: the runs, one run, and what went wrong."""

from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.domain.run import State
from app.report.escaping import visible
from app.web.downloads import page_of
from app.web.listing import Wanted, page
from app.web.opened import Gate
from app.web.problems import Refusal
from app.web.runs import RunId

_REFRESH = 5  # seconds between two looks at a run that is not done


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(time=_time, visible=visible)
    return templates


_TEMPLATES = _templates()

router = APIRouter(include_in_schema=False)


@router.get("/")
async def runs_page(gate: Gate, wanted: Annotated[Wanted, Query()]) -> Response:
    """The runs, the newest first, with the filters of the API."""
    found = await page(gate.records, wanted)
    older = None
    if found.next is not None:
        filters = wanted.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        older = f"/?{urlencode({**filters, 'cursor': found.next})}"
    return _page("runs.html", runs=found.runs, older=older)


@router.get("/runs/{run_id}")
async def run_page(run_id: RunId, gate: Gate) -> Response:
    """The report of a run that is done; until then how far it is, looked up again by itself."""
    run, _ = await gate.records.read(run_id)
    if run.state is State.DONE:
        return await page_of(gate, run_id)
    return _page("running.html", run=run, refresh=_REFRESH)


def wants_page(request: Request) -> bool:
    """Whether a person with a browser asked, for whom a problem should be a page, too."""
    is_page = request.url.path == "/" or request.url.path.startswith("/runs/")
    return is_page and "text/html" in request.headers.get("accept", "")


def problem_page(told: Refusal) -> Response:
    """The problem as a page, with its status and headers."""
    problem = told.problem
    return _page("problem.html", status=problem.status, headers=dict(told.headers), problem=problem)


def _page(
    name: str, *, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None, **values: Any
) -> Response:
    return HTMLResponse(_TEMPLATES.get_template(name).render(values), status_code=status, headers=headers)
