"""The query that the application sends: what a golden set's `[query]` says, for one side."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StringConstraints

from app.domain.fingerprint import json_digest
from app.domain.schema import adapter

Name = Annotated[str, StringConstraints(pattern=r"\S")]
Score = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]

RANKER_DEPTH = 50  # rows that the semantic ranker looks at (Azure AI Search: semantic-search-overview)


class Mode(StrEnum):
    HYBRID = "hybrid"
    KEYWORD = "keyword"
    VECTOR = "vector"


class SearchMode(StrEnum):
    ANY = "any"
    ALL = "all"


class Syntax(StrEnum):
    SIMPLE = "simple"
    FULL = "full"


class Statistics(StrEnum):
    LOCAL = "local"
    GLOBAL = "global"


class FilterMode(StrEnum):
    PRE = "preFilter"
    POST = "postFilter"
    STRICT_POST = "strictPostFilter"


class Session(StrEnum):
    NONE = "none"
    RUN = "run"


class ParentNames(StrEnum):
    """A decoding of the parent field's value."""

    BASE64URL = "base64url"
    FILE_NAME = "file-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """`[query.embedding]`: where the vectors of an index without a vectorizer come from."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    endpoint: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+")]
    deployment: Name
    dimensions: Count | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """The effective query of one side. Names are the golden file's; None leaves a choice to the index."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    mode: Mode = Mode.HYBRID
    semantic: bool = True
    semantic_configuration: Name | None = None
    key_field: Name | None = None
    parent_field: Name | None = None
    text_field: Name | None = None
    title_field: Name | None = None
    vector_fields: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    parent_names: tuple[ParentNames, ...] = ()
    candidates: Annotated[int, Field(ge=1, le=1000)] = 50
    k: Annotated[int, Field(ge=1, le=10_000)] = 50
    context_size: Count = 5
    min_score: Score = 0.0
    min_reranker_score: Annotated[float, Field(ge=0, le=4, allow_inf_nan=False)] = 0.0
    filter: str = ""
    session: Session = Session.NONE
    search_fields: tuple[Name, ...] = ()
    search_mode: SearchMode | None = None
    syntax: Syntax | None = None
    scoring_profile: Name | None = None
    scoring_parameters: tuple[str, ...] = ()
    scoring_statistics: Statistics | None = None
    exhaustive: bool | None = None
    vector_weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    vector_filter_mode: FilterMode | None = None
    oversampling: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    embedding: Embedding | None = None

    @property
    def by_vector(self) -> bool:
        return self.mode is not Mode.KEYWORD

    @property
    def by_text(self) -> bool:
        return self.mode is not Mode.VECTOR

    def faults(self) -> tuple[str, ...]:
        """What does not go together in these settings, in words."""
        found = []
        if self.context_size > self.candidates:
            found.append(f"context_size ({self.context_size}) is above candidates ({self.candidates})")
        if self.semantic and self.candidates > RANKER_DEPTH:
            found.append(
                f"candidates ({self.candidates}) is above {RANKER_DEPTH}: the semantic ranker scores no more"
            )
        if self.min_reranker_score > 0 and not self.semantic:
            found.append("min_reranker_score needs semantic = true")
        if self.semantic and self.syntax is Syntax.FULL:
            found.append('syntax = "full" does not go with semantic = true: one query has one query type')
        if self.embedding is not None and not self.by_vector:
            found.append('embedding is not used with mode = "keyword"')
        return tuple(found)

    def warnings(self) -> tuple[str, ...]:
        """What works but is rarely meant, in words."""
        if self.by_vector and self.k < self.candidates:
            return (f"k ({self.k}) is below candidates ({self.candidates}): the vector leg is under-fed",)
        return ()


class Side(StrEnum):
    BASELINE = "baseline"
    CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The effective query of each side."""

    baseline: QuerySettings
    candidate: QuerySettings

    def of(self, side: Side) -> QuerySettings:
        return self.baseline if side is Side.BASELINE else self.candidate


def queries_digest(queries: Queries) -> str:
    """`sha256:…` over both sides' queries."""
    return json_digest(adapter(Queries).dump_python(queries, mode="json"))


def joined_filter(of_set: str, of_question: str) -> str | None:
    """The OData filter of one question: `(set's) and (question's)`; None where neither has one."""
    parts = [part for part in (of_set.strip(), of_question.strip()) if part]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)
