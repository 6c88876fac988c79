"""Pages for people: the runs, one run and its lists, and what went wrong."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.domain.decision import results
from app.domain.golden import Question
from app.domain.outcome import Observed, QuestionResult
from app.domain.reasons import Verdict
from app.domain.review import reviewable
from app.domain.run import Run, State
from app.gate.opened import OpenGate
from app.gate.reviews import waivers
from app.report.escaping import visible
from app.report.html import TITLES, first_page, list_page, place_of, shown_lost
from app.report.lists import Filter, Lists
from app.report.pictures import TREND_HIGH, TREND_LINE, Past, Trend, trend
from app.report.reader import Reader
from app.report.sheet import SCRIPT, STYLE
from app.web import progress
from app.web.caller import reader
from app.web.decisions import decisions_of
from app.web.listing import Wanted, page, trends
from app.web.opened import Gate
from app.web.problems import Refusal
from app.web.runs import RETRY_AFTER, RunId

REFRESH = 5  # seconds between two looks at a run that is not done, for browsers without scripts
_TREND_KEYS = {"golden_set", "limit"}  # with any other filter there is no trend
_KEPT = 4  # runs whose lists are kept at hand


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
    templates.globals.update(style=STYLE, script=SCRIPT, line=TREND_LINE, high=TREND_HIGH)
    return templates


_TEMPLATES = _templates()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A run that is done as its pages need it, and its questions that can be reviewed."""

    run: Run
    lists: Lists
    reviewable: tuple[Question, ...]


@dataclass(slots=True)
class _Kept:
    """The runs that were looked at last, without their passages: a run that is done never changes."""

    _runs: OrderedDict[str, _Drawn] = field(default_factory=OrderedDict)

    async def of(self, gate: OpenGate, run: Run) -> _Drawn:
        found = self._runs.get(run.id)
        if found is None:
            found = await asyncio.to_thread(_drawn, run, await gate.records.outline(run.id))
            self._runs[run.id] = found
            while len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
        else:
            self._runs.move_to_end(run.id)
        return found


def _drawn(run: Run, outline: Iterable[Observed]) -> _Drawn:
    found: list[Question] = []

    def seen() -> Iterator[QuestionResult]:
        for each in results(outline, run.query):
            if reviewable(each):
                found.append(
                    Question(
                        id=each.id,
                        question=each.question,
                        answers=each.answers,
                        require_all=each.require_all,
                    )
                )
            yield each

    return _Drawn(run=run, lists=Lists.of(run, seen(), contexts=0), reviewable=tuple(found))


def _kept(request: Request) -> _Kept:
    """What this application keeps at hand."""
    state = request.app.state
    if not hasattr(state, "kept_lists"):
        state.kept_lists = _Kept()
    kept: _Kept = state.kept_lists
    return kept


Kept = Annotated[_Kept, Depends(_kept)]

_Choice = Annotated[str, StringConstraints(max_length=1000)]


class Chosen(BaseModel):
    """Which questions of a run a reader wants to see, and which page of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slice: _Choice = ""
    cause: _Choice = ""
    owner: _Choice = ""
    text: _Choice = ""
    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1

    @property
    def filter(self) -> Filter:
        return Filter(slice=self.slice, cause=self.cause, owner=self.owner, text=self.text.strip())


router = APIRouter(include_in_schema=False)
router.include_router(progress.router)


@router.get("/")
async def runs_page(request: Request, gate: Gate, wanted: Annotated[Wanted, Query()]) -> Response:
    """The runs, the newest first, with the filters of the API, and how each set went lately."""
    found = await page(gate.records, wanted)
    filters = wanted.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    older = f"/?{urlencode({**filters, 'cursor': found.next})}" if found.next is not None else None
    lately = await trends(gate.records, wanted.golden_set) if filters.keys() <= _TREND_KEYS else {}
    waived = await waivers(gate.records, [*found.runs, *(run for runs in lately.values() for run in runs)])
    drawn = [_trend(name, runs, waived) for name, runs in lately.items()]
    return rendered(
        request,
        "runs.html",
        runs=found.runs,
        unreadable=found.unreadable,
        older=older,
        trends=drawn,
        waived=waived,
        has_live=gate.control is not None,
    )


def _trend(name: str, runs: Sequence[Run], waived: Collection[str]) -> Trend:
    """The picture of one set's last runs."""
    return trend(name, [_past(run, waived=run.id in waived) for run in runs if run.verdict is not None])


def _past(run: Run, *, waived: bool) -> Past:
    verdict = f"{run.verdict} (waived)" if waived else f"{run.verdict}"
    told = f"{verdict}: {run.counts.lost} lost, {run.counts.gained} gained, {run.candidate.index}"
    return Past(
        run=run.id,
        verdict=run.verdict or Verdict.ERROR,
        lost=run.counts.lost,
        gained=run.counts.gained,
        title=visible(f"{_time(run.created_at)}, {told}"),
        waived=waived,
    )


@router.get("/runs/{run_id}")
async def run_page(
    run_id: RunId, request: Request, gate: Gate, kept: Kept, chosen: Annotated[Chosen, Query()]
) -> Response:
    """The report of a run that is done; until then how far it is."""
    run, _ = await gate.records.read(run_id)
    if run.state is not State.DONE:
        return rendered(request, "running.html", run=run, refresh=REFRESH)
    drawn = await kept.of(gate, run)
    decisions = await decisions_of(gate, run, drawn.reviewable)
    lists = await _with_contexts(gate, drawn, shown_lost(drawn.lists, chosen.filter))
    drawing = asyncio.to_thread(
        first_page,
        run,
        lists,
        decisions,
        chosen.filter,
        reader(request),
        promotable=gate.control is not None and run.candidate.index != run.baseline.index,
    )
    return HTMLResponse((await drawing).encode())


async def _with_contexts(gate: OpenGate, drawn: _Drawn, shown: Collection[str]) -> Lists:
    """The lists with the contexts of the questions that are shown, which alone are read whole."""
    seen = await gate.records.questions(drawn.run.id, shown) if shown else ()
    return drawn.lists.with_contexts(drawn.run, results(seen, drawn.run.query))


@router.get("/runs/{run_id}/question")
async def question_page(
    run_id: RunId, gate: Gate, kept: Kept, question: Annotated[str, Query(alias="id")]
) -> Response:
    """To a question, wherever it stands."""
    run = await _done(gate, run_id)
    found = place_of(run, (await kept.of(gate, run)).lists, question)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "The run has no such question.")
    return RedirectResponse(found, status_code=HTTPStatus.SEE_OTHER)


@router.get("/runs/{run_id}/{name}")
async def questions_page(
    run_id: RunId, name: str, *, request: Request, gate: Gate, kept: Kept, chosen: Annotated[Chosen, Query()]
) -> Response:
    """One list of a run's questions, page by page."""
    run = await _done(gate, run_id)
    found = None
    if name in TITLES:
        drawn = await kept.of(gate, run)
        decisions = await decisions_of(gate, run, drawn.reviewable)
        shown = shown_lost(drawn.lists, chosen.filter, chosen.page) if name == "lost" else ()
        lists = await _with_contexts(gate, drawn, shown)
        found = await asyncio.to_thread(
            list_page, run, lists, decisions, chosen.filter, reader(request), name=name, number=chosen.page
        )
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "The run has no such page.")
    return HTMLResponse(found.encode())


async def _done(gate: OpenGate, run_id: str) -> Run:
    run, _ = await gate.records.read(run_id)
    if run.state is not State.DONE:
        detail = f"The run is {run.state}: its questions are there when it is done."
        raise HTTPException(HTTPStatus.CONFLICT, detail, headers={"Retry-After": RETRY_AFTER})
    return run


def wants_page(request: Request) -> bool:
    """Whether a person with a browser asked, for whom a problem should be a page, too."""
    path = request.url.path
    is_page = path in ("/", "/live") or path.startswith(("/runs/", "/live/", "/sign-"))
    return is_page and "text/html" in request.headers.get("accept", "")


def problem_page(request: Request, told: Refusal) -> Response:
    """The problem as a page, with its status and headers."""
    problem = told.problem
    return rendered(
        request, "problem.html", status=problem.status, headers=dict(told.headers), problem=problem
    )


def signed_out_page(address: str | None) -> Response:
    """After signing out; `address` is where the directory's own session ends."""
    return HTMLResponse(_TEMPLATES.get_template("signed_out.html").render(address=address, reader=Reader()))


def rendered(
    request: Request,
    name: str,
    *,
    status: int = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
    **values: Any,
) -> Response:
    """A page of this service: the template of that name with these values."""
    content = _TEMPLATES.get_template(name).render(values, reader=reader(request))
    return HTMLResponse(content, status_code=status, headers=headers)
