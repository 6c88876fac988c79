"""Golden sets: the owned questions of one content domain. The format is the contract's "Golden set"."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, Strict, StringConstraints

from app.domain.fingerprint import json_digest
from app.domain.policy import Policy
from app.domain.query import QuerySettings
from app.domain.schema import adapter

NonEmpty = Annotated[str, StringConstraints(pattern=r"\S")]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Evidence as a character range [start, end) of the parent document's text; `text` quotes it."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    document: NonEmpty
    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One line of a golden set (a *topic*). Labels in `answers` name parent documents, never chunks."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    id: NonEmpty
    question: NonEmpty
    answers: tuple[NonEmpty | Annotated[tuple[NonEmpty, ...], Field(min_length=1)], ...]
    require_all: bool = False
    critical: bool = False
    slice: Annotated[tuple[NonEmpty, ...], BeforeValidator(_as_list), Strict(False)] = ()  # noqa: FBT003
    family: NonEmpty | None = None
    filter: str = ""
    forbidden: tuple[NonEmpty, ...] = ()
    owner: str | None = None
    note: str | None = None
    spans: tuple[Span, ...] = ()
    facts: tuple[str, ...] = ()
    reference_answer: str | None = None
    metadata: Mapping[str, Any] | None = None

    @property
    def entries(self) -> tuple[tuple[str, ...], ...]:
        """What must be in context: every entry, each by any one of its documents.

        A plain question is a single entry whose alternatives are all its answers; an unlabelled one has none.
        """
        if not self.answers:
            return ()
        if self.require_all:
            return tuple((entry,) if isinstance(entry, str) else entry for entry in self.answers)
        return (tuple(entry for entry in self.answers if isinstance(entry, str)),)

    @property
    def labelled_documents(self) -> tuple[str, ...]:
        """Every answer document once, in the order of the file."""
        return tuple(dict.fromkeys(document for entry in self.entries for document in entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenTexts:
    """A golden set as it was received: `jsonl` the questions, `toml` the settings beside it, if any."""

    name: str
    jsonl: str
    toml: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSet:
    """A golden set that was read without a fault."""

    name: str
    questions: tuple[Question, ...]
    baseline_query: QuerySettings
    candidate_query: QuerySettings
    policy: Policy
    owner: str | None = None
    review_by: date | None = None
    digest: str


def digest(questions: tuple[Question, ...], settings: Mapping[str, Any]) -> str:
    """`sha256:…` over the content, whatever the files' layout: order of lines and keys, defaults written
    out or not, line ends and BOM make no difference.
    """
    by_id = tuple(sorted(questions, key=lambda question: question.id))
    content = {
        "questions": adapter(tuple[Question, ...]).dump_python(by_id, mode="json", exclude_defaults=True),
        "settings": settings,
    }
    return json_digest(content)
