"""What callers send: the bodies of requests, read strictly."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import parse_qsl

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
from app.domain.overrides import OverrideDraft
from app.domain.review import LONGEST_TEXT, ReviewDraft, Ruling
from app.gate.rollback import RollbackRequest
from app.gate.start import StartRequest
from app.web.problems import as_message

PROOF = "proof"  # the field of a form that only a page of ours can fill

_FORM = "application/x-www-form-urlencoded"
LARGEST_BODY = 32 * 1024 * 1024  # bytes
LARGEST_SMALL_BODY = 256 * 1024  # of a body that holds no golden set

_MOST_FIELDS = 100_000  # of a form; an override names every question that failed
_ARRAYS = ("answers", "questions", "documents")  # that a field of a form adds to
_FLAGS = ("create", "drill")  # that a form sets by "true"
_ENTRY = re.compile(r"answers\.[0-9]{1,4}")


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
IndexName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT)]
WebAddress = Annotated[str, StringConstraints(max_length=2000, pattern=r"^https?://[^\s/]+\S*$")]
Kinds = Annotated[
    tuple[Annotated[ChangeKind, Strict(False)], ...],  # noqa: FBT003 — strict otherwise refuses a string
    BeforeValidator(_as_list),
    Strict(False),  # noqa: FBT003 — likewise an array
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    large: ClassVar[bool] = False  # whether a golden set, or the names of all its questions, may be in it


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

    large: ClassVar[bool] = True

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

    large: ClassVar[bool] = True

    golden: GoldenBody
    indexes: tuple[IndexName, ...] = ()


class JudgeBody(_Body):
    """The settings of a policy that are to be replaced."""

    policy: dict[str, JsonValue]


class JudgeSinceBody(JudgeBody):
    """`since`: RFC 3339, with its offset."""

    since: Annotated[AwareDatetime, Strict(False)]  # noqa: FBT003 — strict refuses what JSON has: a string


class ReviewBody(_Body):
    """A decision on one question of a run.

    `reason` is required for `acceptable`, `answers` for `label-out-of-date`: the label's new entries, of
    documents that an observation of the question showed. `expires`: the last day (UTC) on which an
    acceptance counts. `watch`: what will watch for it after the cut-over.
    """

    question: Annotated[str, StringConstraints(pattern=r"\S")]
    decision: Ruling
    reason: Text | None = None
    answers: tuple[str | tuple[str, ...], ...] = ()
    expires: date | None = None
    watch: Text | None = None

    def draft(self) -> ReviewDraft:
        return ReviewDraft(
            question=self.question,
            decision=self.decision,
            reason=self.reason,
            answers=self.answers,
            expires=self.expires,
            watch=self.watch,
        )


class OverrideBody(_Body):
    """An override of a failed run: all questions and documents that its failing reasons name, why they may
    pass, and what will watch for them after the cut-over.
    """

    large: ClassVar[bool] = True

    reason: Text
    questions: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    watch: Text

    def draft(self) -> OverrideDraft:
        return OverrideDraft(
            reason=self.reason, questions=self.questions, documents=self.documents, watch=self.watch
        )


class PromoteBody(_Body):
    """A promotion. `create`: it is agreed to that the key or alias is made where it does not exist yet."""

    create: bool = False
    reason: Text | None = None


class RollbackBody(_Body):
    """A roll back. `to`: another index than the one before the last promotion. `confirm_live`: the index that
    the caller takes to be live; required where it was changed by hand. `drill`: everything but the write.
    """

    to: IndexName | None = None
    confirm_live: IndexName | None = None
    drill: bool = False
    reason: Text | None = None

    def request(self) -> RollbackRequest:
        return RollbackRequest(
            to=self.to, confirm_live=self.confirm_live, drill=self.drill, reason=self.reason
        )


class BuildBody(_Body):
    """A build of Azure DevOps, by its number."""

    build_id: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}$")]


Body = TypeVar("Body", bound=_Body)


async def read_body(request: Request, model: type[Body]) -> Body:
    """The request's body. InputError with all that is wrong with it; 413 and 415 as HTTPException."""
    # the media type also keeps web pages of others out: a browser asks before it sends JSON elsewhere
    _expect(request, "application/json")
    return await asyncio.to_thread(_valid, model, await _limited(request, large=model.large))


async def read_form(request: Request, model: type[Body]) -> tuple[Body, str | None]:
    """The body that a form holds, and its field `back`. Errors as for `read_body`.

    A field may come several times where the body has an array. A blank one is one that was left out. An entry
    of `answers` with alternatives comes as `answers.1`, several times; `answers.2` is the next entry.
    """
    _expect(request, _FORM)
    data = await _limited(request, large=model.large)
    try:
        pairs = await asyncio.to_thread(
            parse_qsl, data.decode("ascii"), max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError as error:
        message = "is no form that can be read"
        raise InputError([Fault(where="request", message=message)]) from error
    return await asyncio.to_thread(_from_form, model, pairs)


def _from_form(model: type[Body], pairs: Sequence[tuple[str, str]]) -> tuple[Body, str | None]:
    fields: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in pairs:
        if value.strip():
            fields[name].append(value.replace("\r\n", "\n"))  # browsers make the one of the other
    back = fields.pop("back", [None])[0]
    fields.pop(PROOF, None)  # looked at before
    entries = sorted((name for name in fields if _ENTRY.fullmatch(name)), key=lambda name: int(name[8:]))
    groups: list[str | list[str]] = [each[0] if len(each) == 1 else each for each in map(fields.pop, entries)]
    members: dict[str, Any] = {
        name: values if name in _ARRAYS or len(values) > 1 else values[0] for name, values in fields.items()
    }
    members.update({name: True for name in _FLAGS if members.get(name) == "true"})
    if groups:
        members["answers"] = [*groups, *fields.get("answers", ())]
    return _valid(model, json.dumps(members).encode()), back


def _expect(request: Request, wanted: str) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != wanted:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send the body as {wanted}.")


def _valid(model: type[Body], data: bytes) -> Body:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise InputError([_fault(each) for each in error.errors(include_url=False)]) from None


async def form_field(request: Request, name: str) -> str | None:
    """The only value of a field of the form that a request holds; None where there is no such form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return None
    data = await _limited(request, large=True)
    try:
        pairs = await asyncio.to_thread(parse_qsl, data.decode("ascii"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        return None
    values = [value for field, value in pairs if field == name]
    return values[0] if len(values) == 1 else None


async def _limited(request: Request, *, large: bool) -> bytes:
    """The request's body, however often it is asked for."""
    most = LARGEST_BODY if large else LARGEST_SMALL_BODY
    received: bytes | None = getattr(request.state, "received", None)
    if received is None:
        request.state.received = received = await _received(request, most)
    if len(received) > most:
        raise _too_large(most)
    return received


async def _received(request: Request, most: int) -> bytes:
    size = request.headers.get("content-length", "")
    if size.isdecimal() and int(size) > most:
        raise _too_large(most)
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > most:
            raise _too_large(most)
    return bytes(data)


def _too_large(most: int) -> HTTPException:
    told = "split the golden set, or deploy it" if most == LARGEST_BODY else "this call takes no more"
    size = f"{most / 1024**2:g} MB" if most >= 1024**2 else f"{most / 1024:g} KB"
    detail = f"A body may hold {size} here: {told}."
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
