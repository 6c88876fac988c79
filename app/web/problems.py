"""Errors as problem details (RFC 9457): one table from the error tree to what HTTP says."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import (
    BrokenError,
    ConflictError,
    DamagedError,
    DirectoryError,
    Fault,
    ForbiddenError,
    GateError,
    InputError,
    LiveError,
    LiveLockedError,
    LiveMovedError,
    LiveUncertainError,
    NotClearedError,
    NotFoundError,
    QueryError,
    StorageError,
    TokenError,
    UnauthenticatedError,
    UnderWayError,
)

MEDIA_TYPE = "application/problem+json"
FAULTS_SHOWN = 1000  # faults that one answer lists; its detail says how many there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The members of a problem; those that are empty are left out.

    `faults`: what is wrong with the input, or which conditions do not hold. `components`: what is wrong with
    each; None: nothing.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    faults: tuple[Fault, ...] = ()
    components: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A problem with the headers that go with it."""

    problem: Problem
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What all errors of one class have in common."""

    status: HTTPStatus
    name: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict)


KINDS: Mapping[type[GateError], Kind] = {  # the first that fits
    InputError: Kind(
        status=HTTPStatus.UNPROCESSABLE_ENTITY, name="invalid-input", title="The input cannot be used"
    ),
    NotFoundError: Kind(status=HTTPStatus.NOT_FOUND, name="not-found", title="There is no such thing"),
    NotClearedError: Kind(
        status=HTTPStatus.CONFLICT, name="not-cleared", title="The run may not be promoted now"
    ),
    UnderWayError: Kind(
        status=HTTPStatus.CONFLICT, name="under-way", title="A change of the live index is under way"
    ),
    LiveMovedError: Kind(
        status=HTTPStatus.CONFLICT, name="live-moved", title="The live index was changed in between"
    ),
    LiveLockedError: Kind(
        status=HTTPStatus.CONFLICT, name="live-locked", title="What names the live index is locked"
    ),
    ConflictError: Kind(status=HTTPStatus.CONFLICT, name="conflict", title="Something else was there first"),
    DamagedError: Kind(
        status=HTTPStatus.INTERNAL_SERVER_ERROR, name="damaged", title="A kept document cannot be understood"
    ),
    StorageError: Kind(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        name="storage-unavailable",
        title="Runs cannot be read or written now",
        headers={"Retry-After": "5"},
    ),
    TokenError: Kind(
        status=HTTPStatus.UNAUTHORIZED,
        name="invalid-token",
        title="The token cannot be used",
        headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
    ),
    UnauthenticatedError: Kind(
        status=HTTPStatus.UNAUTHORIZED,
        name="unauthenticated",
        title="Nobody is signed in",
        headers={"WWW-Authenticate": "Bearer"},
    ),
    ForbiddenError: Kind(
        status=HTTPStatus.FORBIDDEN,
        name="forbidden",
        title="You may not do this",
        headers={"WWW-Authenticate": 'Bearer error="insufficient_scope"'},
    ),
    DirectoryError: Kind(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        name="directory-unavailable",
        title="Who asks cannot be found out now",
        headers={"Retry-After": "5"},
    ),
    LiveUncertainError: Kind(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        name="live-uncertain",
        title="The live index was perhaps changed: its answer was lost",
        headers={"Retry-After": "5"},
    ),
    LiveError: Kind(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        name="live-unavailable",
        title="What names the live index cannot be read or written now",
        headers={"Retry-After": "5"},
    ),
    QueryError: Kind(
        status=HTTPStatus.BAD_GATEWAY, name="search-failed", title="The search service did not answer"
    ),
    BrokenError: Kind(
        status=HTTPStatus.BAD_GATEWAY, name="search-broken", title="The search service cannot be used"
    ),
    GateError: Kind(
        status=HTTPStatus.INTERNAL_SERVER_ERROR, name="failed", title="The gate could not do this"
    ),
}


def refusal(request: Request, error: Exception) -> Refusal:
    """What to answer to an error. What nobody raised on purpose is told without its text."""
    match error:
        case GateError():
            return _of_gate_error(request, error)
        case RequestValidationError():
            return _of_gate_error(request, InputError([_of_parameter(each) for each in error.errors()]))
        case HTTPException():
            status = HTTPStatus(error.status_code)
            return plain(request, status, _detail(status, error.detail), headers=error.headers)
        case _:
            detail = "An error in the gate itself. The service's log tells more."
            return plain(request, HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def _of_gate_error(request: Request, error: GateError) -> Refusal:
    kind = next(kind for known, kind in KINDS.items() if isinstance(error, known))
    faults = _faults(error)
    problem = Problem(
        type=f"urn:search-index-gate:{kind.name}",
        title=kind.title,
        status=kind.status,
        detail=_told(faults) if faults and isinstance(error, InputError) else str(error),
        instance=_instance(request),
        faults=faults[:FAULTS_SHOWN],
    )
    return Refusal(problem=problem, headers=kind.headers)


def _faults(error: GateError) -> tuple[Fault, ...]:
    match error:
        case InputError():
            return error.faults
        case NotClearedError():
            return tuple(Fault(where=each.code, message=each.message) for each in error.conditions)
        case _:
            return ()


def _of_parameter(details: ErrorDetails) -> Fault:
    return Fault(where=" ".join(str(part) for part in details["loc"]), message=as_message(details))


def plain(
    request: Request,
    status: HTTPStatus,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    components: Mapping[str, str | None] | None = None,
) -> Refusal:
    """A problem that means no more than its status."""
    problem = Problem(
        type="about:blank",
        title=status.phrase,
        status=status,
        detail=detail,
        instance=_instance(request),
        components=components,
    )
    return Refusal(problem=problem, headers=headers or {})


def as_json(told: Refusal) -> Response:
    """The problem document. In ASCII, so that no text from outside can make it unwritable."""
    content = {name: value for name, value in asdict(told.problem).items() if value or name in _ALWAYS}
    return Response(
        json.dumps(content),
        status_code=told.problem.status,
        media_type=MEDIA_TYPE,
        headers=dict(told.headers),
    )


_ALWAYS = ("type", "title", "status", "detail", "instance")


def as_message(details: ErrorDetails) -> str:
    """What pydantic found, in words that go after a place: `is required`."""
    match details["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not known here"
        case _:
            return details["msg"][:1].lower() + details["msg"][1:]


def _detail(status: HTTPStatus, detail: str) -> str:
    """The framework says no more than the status; we do."""
    if detail != status.phrase:
        return detail
    match status:
        case HTTPStatus.NOT_FOUND:
            return "There is nothing at this address."
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return "This address does not take that method."
        case _:
            return detail


def _told(faults: tuple[Fault, ...]) -> str:
    if len(faults) == 1:
        return str(faults[0])
    listed = "" if len(faults) <= FAULTS_SHOWN else f" (the first {FAULTS_SHOWN} are listed)"
    return f"{len(faults)} faults{listed}; the first: {faults[0]}"


def _instance(request: Request) -> str:
    path: str = request.scope["path"]
    return quote(path, errors="replace")


_DESCRIPTIONS = {
    HTTPStatus.UNAUTHORIZED: "Nobody is signed in, or the token is not good",
    HTTPStatus.FORBIDDEN: "Who is signed in lacks the role that is named",
    HTTPStatus.NOT_FOUND: "There is no such run or golden set, or this is not set up",
    HTTPStatus.CONFLICT: "The key was used for another request, the run is not done yet, or what is live forbids it",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not application/json",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The request or the golden set has faults; all are listed",
    HTTPStatus.TOO_MANY_REQUESTS: "The caller started as many runs in the last hour as one may",
    HTTPStatus.BAD_GATEWAY: "The search service did not answer, or cannot be used",
    HTTPStatus.SERVICE_UNAVAILABLE: "Search, storage or what names the live index cannot be reached",
}


def answers(kind: type, status: HTTPStatus = HTTPStatus.OK) -> dict[int | str, dict[str, Any]]:
    """What an operation answers with when all is well, for the OpenAPI document, whose components hold the kinds."""
    reference = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {status.value: {"content": {"application/json": {"schema": reference}}}}


def declared(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """The problems that an operation answers with, for the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    found: dict[int | str, dict[str, Any]] = {
        status.value: {"description": _DESCRIPTIONS[status], "content": content} for status in statuses
    }
    return {**found, "default": {"description": "Any other problem", "content": content}}
