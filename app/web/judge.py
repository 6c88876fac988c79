"""What another policy would have said of runs that are kept: decided again, never stored."""

from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.domain.reasons import Verdict
from app.domain.run import Run
from app.domain.schema import adapter
from app.gate.judge import judged, judged_since
from app.report.run_json import run_json
from app.web.bodies import JudgeBody, JudgeSinceBody, described, read_body
from app.web.opened import Gate
from app.web.problems import answers, declared
from app.web.runs import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """One run's verdict as it is, and as it would have been; the headline is the latter's."""

    id: str
    golden_set: str
    candidate: str
    verdict: Verdict | None
    judged: Verdict | None
    headline: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejudgedRuns:
    """Newest first; `changed`: how many verdicts would have been others."""

    runs: tuple[Rejudged, ...]
    changed: int


_PROBLEMS = (
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)

router = APIRouter(prefix="/v1", tags=["judge"])


@router.post(
    "/runs/{run_id}/judge",
    response_description="The run as it would have ended; not kept, not trusted",
    responses=answers(Run) | declared(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *_PROBLEMS),
    openapi_extra=described(JudgeBody),
)
async def judge_run(run_id: RunId, request: Request, gate: Gate) -> Response:
    """Decide a kept run again, some settings of its policy replaced."""
    body = await read_body(request, JudgeBody)
    run = await judged(gate.records, run_id, body.policy)
    return Response(run_json(run), media_type="application/json")


@router.post(
    "/judge",
    response_description="Each run that was created since then and is done",
    responses=answers(RejudgedRuns) | declared(*_PROBLEMS),
    openapi_extra=described(JudgeSinceBody),
)
async def judge_runs(request: Request, gate: Gate) -> Response:
    """Decide every kept run since a time again, some settings of each one's policy replaced."""
    body = await read_body(request, JudgeSinceBody)
    found = [
        Rejudged(
            id=run.id,
            golden_set=run.golden_set.name,
            candidate=run.candidate.index,
            verdict=run.verdict,
            judged=again.verdict,
            headline=again.headline,
        )
        async for run, again in judged_since(gate.records, body.since, body.policy)
    ]
    changed = sum(1 for each in found if each.verdict is not each.judged)
    answer = RejudgedRuns(runs=tuple(found), changed=changed)
    return Response(adapter(RejudgedRuns).dump_json(answer), media_type="application/json")
