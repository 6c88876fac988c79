"""`/v1/golden-sets`: check a golden set before it is used."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import date
from http import HTTPStatus

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import Fault, InputError
from app.domain.golden import GoldenSet, GoldenTexts
from app.domain.reading import read_golden_set
from app.web.bodies import CheckBody, described, read_body
from app.web.problems import FAULTS_SHOWN, declared


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
    """The faults of a set, by file and line (the first 1,000 of `fault_count`), or its contents."""

    faults: tuple[Fault, ...] = ()
    fault_count: int = 0
    contents: Contents | None = None


_CHECKED = TypeAdapter(Checked)

router = APIRouter(prefix="/v1/golden-sets", tags=["golden sets"])


@router.post(
    "/check",
    response_model=Checked,
    response_description="What was found, faults or none",
    responses=declared(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.NOT_IMPLEMENTED,
    ),
    openapi_extra=described(CheckBody),
)
async def check_golden_set(request: Request) -> Response:
    """Read a golden set as a run would. Faults of the set are a finding, not a problem of the request."""
    body = await read_body(request, CheckBody)
    if body.indexes:
        detail = "Labels cannot be checked against indexes yet: leave indexes out to check the set alone."
        raise HTTPException(HTTPStatus.NOT_IMPLEMENTED, detail)
    checked = await asyncio.to_thread(_checked, body.golden.texts())
    return Response(_CHECKED.dump_json(checked), media_type="application/json")


def _checked(texts: GoldenTexts) -> Checked:
    try:
        golden = read_golden_set(texts)
    except InputError as error:
        return Checked(faults=error.faults[:FAULTS_SHOWN], fault_count=len(error.faults))
    return Checked(contents=_contents(golden))


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
