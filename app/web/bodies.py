"""What callers send: the bodies of requests, read strictly."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    StringConstraints,
    ValidationError,
)
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request

from app.domain.change import Change, ChangeKind
from app.domain.errors import Fault, InputError
from app.domain.golden import GoldenTexts
from app.gate.start import StartRequest
from app.web.problems import as_message

LARGEST_BODY = 32 * 1024 * 1024  # bytes


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
IndexName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
WebAddress = Annotated[str, StringConstraints(max_length=2000, pattern=r"^https?://[^\s/]+\S*$")]
Kinds = Annotated[
    tuple[Annotated[ChangeKind, Strict(False)], ...],  # noqa: FBT003 — strict otherwise refuses a string
    BeforeValidator(_as_list),
    Strict(False),  # noqa: FBT003 — likewise an array
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class GoldenBody(_Body):
    """A golden set sent along: the files' texts as they are."""

    name: Name
    jsonl: str
    toml: str | None = None

    def texts(self) -> GoldenTexts:
        return GoldenTexts(name=self.name, jsonl=self.jsonl, toml=self.toml)


class ChangeBody(_Body):
    """What the requester says was changed; `kind` is one or several."""

    kind: Kinds = ()
    summary: Annotated[str, Field(max_length=4000)] | None = None
    commit: Name | None = None
    build_id: Name | None = None
    build_url: WebAddress | None = None

    def change(self) -> Change:
        return Change(
            kind=self.kind,
            summary=self.summary,
            commit=self.commit,
            build_id=self.build_id,
            build_url=self.build_url,
        )


class StartBody(_Body):
    """A run to be started: exactly one of `golden_set`, a deployed set's name, and `golden`.

    `slices`: only the questions in any of these; the run cannot be promoted then.
    """

    candidate_index: IndexName
    baseline_index: IndexName | None = None
    golden_set: Name | None = None
    golden: GoldenBody | None = None
    policy: dict[str, JsonValue] | None = None
    noise_study: bool = False
    change: ChangeBody | None = None
    slices: tuple[Name, ...] = ()

    def request(self) -> StartRequest:
        return StartRequest(
            candidate_index=self.candidate_index,
            baseline_index=self.baseline_index,
            golden_set=self.golden_set,
            golden=self.golden.texts() if self.golden else None,
            policy=self.policy or {},
            noise_study=self.noise_study,
            change=self.change.change() if self.change else None,
            slices=self.slices,
        )


class CheckBody(_Body):
    """A golden set to be checked, and the indexes that should hold its labels."""

    golden: GoldenBody
    indexes: tuple[IndexName, ...] = ()


class JudgeBody(_Body):
    """The settings of a policy that are to be replaced."""

    policy: dict[str, JsonValue]


class JudgeSinceBody(JudgeBody):
    """`since`: RFC 3339, with its offset."""

    since: Annotated[AwareDatetime, Strict(False)]  # noqa: FBT003 — strict refuses what JSON has: a string


Body = TypeVar("Body", bound=_Body)


async def read_body(request: Request, model: type[Body]) -> Body:
    """The request's body. InputError with all that is wrong with it; 413 and 415 as HTTPException."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        # also keeps web pages of others from sending one: a browser asks before it sends JSON elsewhere
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send the body as application/json.")
    data = await _limited(request)
    try:
        return await asyncio.to_thread(model.model_validate_json, data)
    except ValidationError as error:
        raise InputError([_fault(each) for each in error.errors(include_url=False)]) from None


async def _limited(request: Request) -> bytes:
    size = request.headers.get("content-length", "")
    if size.isdecimal() and int(size) > LARGEST_BODY:
        raise _too_large()
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > LARGEST_BODY:
            raise _too_large()
    return bytes(data)


def _too_large() -> HTTPException:
    detail = f"A body may hold {LARGEST_BODY // 1024 // 1024} MB: split the golden set, or deploy it."
    return HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)


def _fault(details: ErrorDetails) -> Fault:
    if details["type"] == "json_invalid":
        return Fault(where="request", message=f"is not valid JSON: {details['ctx']['error']}")
    place = ".".join(str(part) for part in details["loc"])
    return Fault(where="request", message=f"{place}: {as_message(details)}" if place else as_message(details))


def described(model: type[_Body]) -> dict[str, Any]:
    """The body for the OpenAPI document, whose components hold the models."""
    reference = {"$ref": f"#/components/schemas/{model.__name__}"}
    content: Mapping[str, Any] = {"application/json": {"schema": reference}}
    return {"requestBody": {"required": True, "content": content}}
