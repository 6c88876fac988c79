"""Decisions on a run's questions, overrides of a run, and the corrected golden set; as an API and as forms."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import quote

from fastapi import APIRouter, Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.errors import InputError, NotFoundError
from app.domain.overrides import Override, waived
from app.domain.review import Review, Standing, anchor
from app.domain.schema import adapter
from app.gate.reviews import corrected_set, label_patch, override, overrides_of, review, review_view
from app.web.bodies import OverrideBody, ReviewBody, described, read_body, read_form
from app.web.caller import signed
from app.web.decisions import today
from app.web.opened import Gate
from app.web.pages import problem_page, wants_page
from app.web.problems import answers, declared, refusal
from app.web.runs import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviews:
    """All decisions on a run, newest first.

    `standing`: by question, the latest decision; an acceptance that has expired does not count. `carried`: by
    question, what was decided on it in earlier runs, newest first.
    """

    reviews: tuple[Review, ...]
    standing: Mapping[str, Standing]
    carried: Mapping[str, tuple[Standing, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """All overrides of a run, newest first. `waived`: the one that clears it; its verdict stays FAIL."""

    overrides: tuple[Override, ...]
    waived: Override | None


_READING = declared(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
_DOCUMENTS = declared(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)
_WRITING = declared(
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)

router = APIRouter(prefix="/v1/runs/{run_id}", tags=["decisions"])


@router.post(
    "/reviews",
    status_code=HTTPStatus.CREATED,
    response_description="The decision, kept",
    responses=answers(Review, HTTPStatus.CREATED) | _WRITING,
    openapi_extra=described(ReviewBody),
)
async def review_question(run_id: RunId, request: Request, gate: Gate) -> Response:
    """Decide a lost, noisy or stale question. The run's verdict stays; the latest decision counts."""
    body = await read_body(request, ReviewBody)
    kept = await review(gate.records, run_id, body.draft(), signed(request, gate))
    return _json(adapter(Review).dump_json(kept), HTTPStatus.CREATED)


@router.get("/reviews", response_description="The decisions", responses=answers(Reviews) | _READING)
async def list_reviews(run_id: RunId, gate: Gate) -> Response:
    """The decisions on a run's questions, which of them stand, and those of earlier runs."""
    view = await review_view(gate.records, run_id, today(gate))
    found = Reviews(reviews=view.reviews, standing=view.standing, carried=view.carried)
    return _json(adapter(Reviews).dump_json(found))


@router.post(
    "/overrides",
    status_code=HTTPStatus.CREATED,
    response_description="The override, kept",
    responses=answers(Override, HTTPStatus.CREATED) | _WRITING,
    openapi_extra=described(OverrideBody),
)
async def override_run(run_id: RunId, request: Request, gate: Gate) -> Response:
    """Clear a failed run by name; its verdict stays FAIL. What is missing from the lists is refused by name."""
    body = await read_body(request, OverrideBody)
    kept = await override(gate.records, run_id, body.draft(), signed(request, gate))
    return _json(adapter(Override).dump_json(kept), HTTPStatus.CREATED)


@router.get("/overrides", response_description="The overrides", responses=answers(Overrides) | _READING)
async def list_overrides(run_id: RunId, gate: Gate) -> Response:
    """The overrides of a run, and which of them clears it."""
    run, _ = await gate.records.read(run_id)
    overrides = await overrides_of(gate.records, run_id)
    found = Overrides(overrides=overrides, waived=waived(run, overrides))
    return _json(adapter(Overrides).dump_json(found))


@router.get(
    "/golden.jsonl",
    response_class=Response,
    responses={
        200: {"description": "The corrected set", "content": {"application/jsonl": {}}},
        **_DOCUMENTS,
    },
)
async def corrected_golden_set(run_id: RunId, gate: Gate) -> Response:
    """The run's golden set as it was received, the labels corrected that are out of date."""
    texts = await corrected_set(gate.records, run_id, today(gate))
    return Response(texts.jsonl.encode(), media_type="application/jsonl")


@router.get(
    "/golden.patch",
    response_class=Response,
    responses={200: {"description": "The patch", "content": {"text/x-diff": {}}}, **_DOCUMENTS},
)
async def golden_patch(run_id: RunId, gate: Gate) -> Response:
    """The same as a patch for `git apply`. 404 where no label is out of date."""
    text = await label_patch(gate.records, run_id, today(gate))
    if not text:
        raise NotFoundError(
            "There is nothing to correct: no decision on this run says that a label is out of date."
        )
    return Response(text, headers={"Content-Type": "text/x-diff; charset=utf-8"})


def _json(content: bytes, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(content, status_code=status, media_type="application/json")


# forms of the pages --------------------------------------------------------------------------------------


def own_page(request: Request) -> None:
    """403 unless a page of this service sent the form: others must not decide in a reader's name.

    Browsers that say where a request comes from in `Sec-Fetch-Site` are believed; they leave it out where the
    service is reached without TLS under another name than localhost, and older ones always do. There the
    `Origin` must be the address that was asked.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        own = site == "same-origin"
    else:
        _, _, asked = request.headers.get("origin", "").partition("://")
        own = bool(asked) and asked.lower() == request.headers.get("host", "").lower()
    if not own:
        detail = "Only a page of this service may send this form. Open the run here, and decide on its page."
        raise HTTPException(HTTPStatus.FORBIDDEN, detail)


forms = APIRouter(prefix="/runs/{run_id}", include_in_schema=False, dependencies=[Depends(own_page)])


@forms.post("/reviews")
async def review_form(run_id: RunId, request: Request, gate: Gate) -> Response:
    """The decision of a form, kept; then back to the question on the page."""
    try:
        body, back = await read_form(request, ReviewBody)
        kept = await review(gate.records, run_id, body.draft(), signed(request, gate))
    except InputError as error:
        return _told(request, error)
    return _back(run_id, back, anchor(kept.question))


@forms.post("/overrides")
async def override_form(run_id: RunId, request: Request, gate: Gate) -> Response:
    """The override of a form, kept; then back to the page."""
    try:
        body, back = await read_form(request, OverrideBody)
        await override(gate.records, run_id, body.draft(), signed(request, gate))
    except InputError as error:
        return _told(request, error)
    return _back(run_id, back, "override")


def _back(run_id: str, back: str | None, fragment: str) -> Response:
    """To the page that the form stood on, which is one of this run, or else to the run."""
    own = f"/runs/{run_id}"
    page = (back or own).partition("#")[0]
    if page != own and not page.startswith((f"{own}?", f"{own}/")):
        page = own
    address = f"{quote(page, safe='/?&=%+:,;@!$()*~-._')}#{fragment}"
    return RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER)


def _told(request: Request, error: InputError) -> Response:
    """The refusal of a form, for people with every fault in its text."""
    if not wants_page(request):
        raise error
    told = refusal(request, error)
    detail = " · ".join(fault.message for fault in told.problem.faults)
    return problem_page(request, replace(told, problem=replace(told.problem, detail=detail)))
