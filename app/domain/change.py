"""Kinds of retrieval change, and what the requester of a run says was changed."""

from dataclasses import dataclass
from enum import StrEnum


class ChangeKind(StrEnum):
    CHUNKING = "chunking"
    EMBEDDING = "embedding"
    SCHEMA = "schema"
    VECTOR_SEARCH = "vector-search"
    QUERY = "query"
    CONTENT = "content"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What the requester says was changed."""

    kind: tuple[ChangeKind, ...] = ()
    summary: str | None = None
    commit: str | None = None
    build_id: str | None = None
    build_url: str | None = None
