"""`/v1/golden-sets`: check a golden set before it is used."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import date
from http import HTTPStatus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import Fault, InputError
from app.domain.golden import GoldenSet
from app.domain.reading import read_golden_set
from app.domain.schema import adapter
from app.gate.labels import IndexLabels, check_labels
from app.web.bodies import CheckBody, described, read_body
from app.web.opened import Gate
from app.web.problems import FAULTS_SHOWN, answers, declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a set without a fault holds. `slices`: questions by slice; one question may be in several."""

    name: str
    digest: str
    owner: str | None
    review_by: date | None
    questions: int
    labelled: int
    unlabelled: int
    critical: int
    require_all: int
    forbidden: int
    slices: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The faults of a set, by file and line (the first 1,000 of `fault_count`), or its contents and, for each
    index that was named, the labels that it lacks.
    """

    faults: tuple[Fault, ...] = ()
    fault_count: int = 0
    contents: Contents | None = None
    indexes: tuple[IndexLabels, ...] = ()


_MOST_INDEXES = 10
_SECONDS = 120.0  # for the lookups of one request; what was not looked up by then is told to be unverified

router = APIRouter(prefix="/v1/golden-sets", tags=["golden sets"])


@router.post(
    "/check",
    response_description="What was found, faults or none",
    responses=answers(Checked)
    | declared(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
    openapi_extra=described(CheckBody),
)
async def check_golden_set(request: Request, gate: Gate) -> Response:
    """Read a golden set as a run would, and look its labels up in the indexes if it has no fault.

    What is wrong with the set, or with an index, is a finding and no problem of the request.
    """
    body = await read_body(request, CheckBody)
    names = tuple(dict.fromkeys(body.indexes))
    if len(names) > _MOST_INDEXES:
        message = f"indexes: at most {_MOST_INDEXES} can be checked at once"
        raise InputError([Fault(where="request", message=message)])
    try:
        golden = await asyncio.to_thread(read_golden_set, body.golden.texts())
    except InputError as error:
        checked = Checked(faults=error.faults[:FAULTS_SHOWN], fault_count=len(error.faults))
    else:
        checked = Checked(contents=_contents(golden), indexes=await _labels(golden, names, gate))
    content = await asyncio.to_thread(adapter(Checked).dump_json, checked)
    return Response(content, media_type="application/json")


async def _labels(golden: GoldenSet, names: tuple[str, ...], gate: Gate) -> tuple[IndexLabels, ...]:
    deadline = asyncio.get_running_loop().time() + _SECONDS
    return tuple([await check_labels(golden, name, search=gate.search, deadline=deadline) for name in names])


def _contents(golden: GoldenSet) -> Contents:
    questions = golden.questions
    labelled = sum(bool(question.answers) for question in questions)
    return Contents(
        name=golden.name,
        digest=golden.digest,
        owner=golden.owner,
        review_by=golden.review_by,
        questions=len(questions),
        labelled=labelled,
        unlabelled=len(questions) - labelled,
        critical=sum(question.critical for question in questions),
        require_all=sum(question.require_all for question in questions),
        forbidden=sum(bool(question.forbidden) for question in questions),
        slices=dict(Counter(name for question in questions for name in question.slice)),
    )
