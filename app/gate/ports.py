"""What the use cases need from the world, in their own words. Adapters provide it, tests fake it."""

from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from app.domain.index import Definition, Fields
from app.domain.query import Embedding, QuerySettings

# the id of the run that asks, "" for what belongs to none: runs that ask at the same time take turns
ASKING: ContextVar[str] = ContextVar("asking", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One comparison query: a question's text under a side's settings.

    `filter` is the joined OData filter, None for none. `vector` stands for the text in the vector leg where
    the set brings its own embeddings. `session` is the service's sessionId, None for none.
    """

    index: str
    text: str
    query: QuerySettings
    fields: Fields
    filter: str | None = None
    vector: tuple[float, ...] | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One chunk as the service returned it, in the service's order; values are None where it gave none."""

    key: str | None
    parent: str | None
    title: str | None
    text: str | None
    score: float | None
    reranker_score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """At most `candidates` rows. `elapsed_ms`: wall time of the attempt that answered; `attempts`: requests
    sent (>= 1); `throttled`: how many of them were answered 429 or 503; `at_once`: how many requests of this
    process the service had when it got the one that it answered.
    """

    rows: tuple[Row, ...]
    elapsed_ms: float
    attempts: int
    throttled: int
    at_once: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What the service says of an index. `name` is the concrete index, also where an alias was asked for;
    `definition` and `etag` are None where the identity may not read definitions (403).
    """

    name: str
    alias: str | None
    definition: Definition | None
    etag: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Stored documents asked for without a ranking. `order_by` is a field, ascending; `top` is at most 1000,
    `skip` at most 100,000 (limits of the service).
    """

    select: tuple[str, ...]
    filter: str | None = None
    order_by: str | None = None
    skip: int = 0
    top: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The documents of a listing, as JSON objects of the selected fields. `complete`: the listing ends
    with them. Not so where the page is full, or the service cut its answer short.
    """

    rows: tuple[Mapping[str, Any], ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What the service reports of an index, minutes late: documents, and sizes in bytes."""

    documents: int
    storage_bytes: int
    vector_bytes: int | None


class SearchService(Protocol):
    """An Azure AI Search service. Everything that it raises is a GateError.

    `deadline` is a point on the event loop's clock (`loop.time()`), in seconds, after which nothing more is
    sent or awaited.
    """

    async def describe(self, name: str, deadline: float) -> Described:
        """The index or alias of that name. BrokenError index-missing, unauthorized, unreachable …"""
        ...

    async def document_count(self, index: str, deadline: float) -> int:
        """Documents (chunks) that the index holds now."""
        ...

    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        """Stored documents, for audits and inventories. BrokenError; field-missing where a field may not be
        selected, filtered or ordered by.
        """
        ...

    async def statistics(self, index: str, deadline: float) -> Statistics | None:
        """What the service reports of the index; None where the identity may not read it (403)."""
        ...

    async def synonym_maps(self, deadline: float) -> Mapping[str, str] | None:
        """Each synonym map's name and etag; None where the identity may not read them, or there are none such."""
        ...

    async def index_names(self, deadline: float) -> tuple[str, ...] | None:
        """The names of all indexes, sorted; None where the identity may not list them (403)."""
        ...

    async def ask(self, ask: Ask, deadline: float) -> Answer:
        """One observation, repeated by the retry table. QueryError when its attempts are used up, BrokenError
        when no question can be asked (401, 402, 403, missing index, field, ranker or vectorizer).
        """
        ...


class Embedder(Protocol):
    """An embeddings endpoint."""

    async def embed(self, embedding: Embedding, text: str, deadline: float) -> tuple[float, ...]:
        """The vector of `prefix + text`. QueryError or BrokenError, as for `SearchService.ask`."""
        ...


class DocumentStore(Protocol):
    """Named documents with etags: what runs are kept in. Names are `/`-separated, `[a-z0-9._-]` and `/`.

    Raises StorageError where the store does not answer, refuses, or is not there.
    """

    async def create(self, name: str, data: bytes) -> str:
        """Write it if it is not there; the etag. ConflictError if it is (other than by this very call)."""
        ...

    async def replace(self, name: str, data: bytes, etag: str) -> str:
        """Write it if its etag still is `etag`; the new etag. ConflictError if not (other than by this call)."""
        ...

    async def read(self, name: str) -> tuple[bytes, str]:
        """Content and etag. NotFoundError if it is not there."""
        ...

    async def read_part(self, name: str, start: int, length: int) -> bytes:
        """`length` (at least 1) bytes from `start` on: fewer where it ends before, none behind its end.

        NotFoundError if it is not there.
        """
        ...

    async def append(self, name: str, data: bytes, position: int) -> int:
        """Add to the end, creating it at position 0; the new length in bytes.

        ConflictError if its length is not `position`: another writer was there (a lost answer to this very
        call is recognised). Two writers at one position: exactly one succeeds, in other processes too. After
        a crash or a full disk the document may end in a part of `data`; its readers must bear that.
        """
        ...

    async def delete(self, name: str) -> None:
        """Remove it; nothing happens if it is not there."""
        ...

    def names(self, prefix: str) -> AsyncIterator[str]:
        """All names that begin with `prefix`, in lexical order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveValue:
    """What names the live index at this moment. `index` is a concrete index; `etag` changes with every write.
    `modified_at`: when it was last written, None where the place does not tell.
    """

    index: str
    etag: str
    locked: bool = False
    modified_at: datetime | None = None


class LivePointer(Protocol):
    """The one place that names the live index: a key of App Configuration, or an index alias.

    Raises LiveError where the place does not answer, refuses, or holds what is no index name. `deadline` is
    a point on the event loop's clock, in seconds.
    """

    @property
    def where(self) -> str:
        """The place, for people and for the record: `key search:live-index, label prod, of …`."""
        ...

    @property
    def alias(self) -> str | None:
        """The alias that applications ask; None where they are told an index."""
        ...

    @property
    def propagation_seconds(self) -> float:
        """How long after a change applications may still ask the index before, at the least."""
        ...

    async def read(self, deadline: float) -> LiveValue | None:
        """What it names now; None where the key or alias does not exist."""
        ...

    async def point(self, index: str, *, etag: str, deadline: float) -> LiveValue:
        """Name `index` if the etag still is `etag`, else LiveMovedError; everything else that is kept there stays.

        Never a blind write. A lost answer is settled by reading: LiveUncertainError only where that fails, too.
        LiveLockedError where the key is locked; NotFoundError where it is gone.
        """
        ...

    async def create(self, index: str, *, deadline: float) -> LiveValue:
        """Name `index` where the key or alias does not exist yet; LiveMovedError if it does. Else as `point`."""
        ...
