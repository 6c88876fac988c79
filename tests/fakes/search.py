"""A search service in memory: the SearchService port with scripted answers, faults and latency.

    search = FakeSearch(latency=0.01)
    search.index("kb-v1").answer("How long is the notice?", ["x", "d1"])      # always
    search.index("kb-v2").answer("How long is the notice?", ["d1"], ["x"])    # in turn, over and over
    search.index("kb-v2").fail("How long is the notice?", QueryError(FailureCode.TIMED_OUT, "too slow"), times=1)
    search.index("kb-v2").broken = BrokenError("unauthorized", "403")         # whatever is asked of it
    search.down = BrokenError("unreachable", "no connection")                 # whatever is asked at all
    search.aliases["live"] = "kb-v1"
    search.hold()                                                             # questions wait until release()

A question that nothing is scripted for gets `FakeIndex.otherwise`. Everything may be changed at any time.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from app.domain.errors import BrokenError, FailureCode, GateError, QueryError
from app.domain.index import Definition
from app.domain.reasons import Code
from app.gate.ports import Answer, Ask, Described, Listing, Page, Row, Statistics
from tests.fakes.listing import Stored, listed, stand_ins

DEFINITION: Definition = {
    "fields": [
        {"name": "chunk_id", "type": "Edm.String", "key": True},
        {"name": "parent_id", "type": "Edm.String", "filterable": True},
        {"name": "title", "type": "Edm.String", "searchable": True},
        {"name": "chunk", "type": "Edm.String", "searchable": True},
        {
            "name": "content_vector",
            "type": "Collection(Edm.Single)",
            "dimensions": 3,
            "vectorSearchProfile": "profile",
        },
    ],
    "vectorSearch": {"profiles": [{"name": "profile", "vectorizer": "vectorizer"}]},
    "semantic": {
        "defaultConfiguration": "default",
        "configurations": [
            {
                "name": "default",
                "prioritizedFields": {
                    "titleField": {"fieldName": "title"},
                    "prioritizedContentFields": [{"fieldName": "chunk"}],
                },
            }
        ],
    },
}

_TOO_SLOW = "The service did not answer in time."

Parents = Sequence[str | None]  # of the rows, in the order of ranks; None: a row without a parent


def ranked(rank: int, parent: str, *, of: int = 10) -> tuple[str, ...]:
    """`of` parents with `parent` on that 1-based rank and "x" everywhere else."""
    return tuple(parent if place == rank else "x" for place in range(1, of + 1))


@dataclass(slots=True, kw_only=True)
class _Fault:
    error: GateError
    times: int | None  # how often it is still raised; None: every time


@dataclass(slots=True, kw_only=True)
class FakeIndex:
    """One index. `definition` None: it may not be read. `answered` counts answers by question."""

    definition: Definition | None = field(default_factory=lambda: DEFINITION)
    etag: str | None = "0x1"
    documents: int = 100
    otherwise: Parents = ("x",) * 10
    broken: GateError | None = None
    answers: dict[str, tuple[Parents, ...]] = field(default_factory=dict)
    faults: dict[str, _Fault] = field(default_factory=dict)
    answered: Counter[str] = field(default_factory=Counter)
    stored: list[Stored] | None = None
    statistics: Statistics | None = None

    def documents_stored(self, filter_: str | None) -> list[Stored]:
        """What a listing shows: `stored`, else a chunk of every parent that an answer shows or the filter asks for."""
        if self.stored is not None:
            return self.stored
        shown = [parent for answers in self.answers.values() for parents in answers for parent in parents]
        return stand_ins([*shown, *self.otherwise], filter_)

    def answer(self, question: str, *parents: Parents) -> None:
        """Script the answers to a question; several are given in turn, over and over."""
        self.answers[question] = parents

    def fail(self, question: str, error: GateError, *, times: int | None = None) -> None:
        """Raise `error` for that question, the next `times` times or always."""
        self.faults[question] = _Fault(error=error, times=times)

    def parents(self, question: str) -> Parents:
        """What the question gets now. Raises the fault scripted for it."""
        self._raise_fault(question)
        scripted = self.answers.get(question, (self.otherwise,))
        parents = scripted[self.answered[question] % len(scripted)]
        self.answered[question] += 1
        return parents

    def _raise_fault(self, question: str) -> None:
        fault = self.faults.get(question)
        if fault is None or fault.times == 0:
            return
        if fault.times is not None:
            fault.times -= 1
        raise fault.error


@dataclass(slots=True, kw_only=True)
class FakeSearch:
    """The service. `latency` in seconds passes before each answer; `asked` lists every Ask in order."""

    latency: float = 0.0
    down: GateError | None = None
    indexes: dict[str, FakeIndex] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    asked: list[Ask] = field(default_factory=list)
    described: list[str] = field(default_factory=list)
    listed: list[tuple[str, Listing]] = field(default_factory=list)
    synonyms: Mapping[str, str] | None = None
    listable: bool = True  # whether the identity may list index names
    somebody_asked: asyncio.Event = field(default_factory=asyncio.Event)
    _released: asyncio.Event | None = None

    def index(self, name: str) -> FakeIndex:
        """The index of that name, made where it is not there."""
        return self.indexes.setdefault(name, FakeIndex())

    def hold(self) -> None:
        """Let questions wait from now on."""
        self._released = asyncio.Event()

    def release(self) -> None:
        """Let waiting questions go on."""
        if self._released is not None:
            self._released.set()
        self._released = None

    async def describe(self, name: str, deadline: float) -> Described:
        self.described.append(name)
        await self._pass_time(deadline, BrokenError(Code.TIMED_OUT, _TOO_SLOW))
        concrete = self.aliases.get(name, name)
        found = self._found(concrete)
        return Described(
            name=concrete,
            alias=name if name in self.aliases else None,
            definition=found.definition,
            etag=found.etag if found.definition is not None else None,
        )

    async def document_count(self, index: str, deadline: float) -> int:
        await self._pass_time(deadline, BrokenError(Code.TIMED_OUT, _TOO_SLOW))
        return self._found(index).documents

    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        self.listed.append((index, listing))
        await self._pass_time(deadline, BrokenError(Code.TIMED_OUT, _TOO_SLOW))
        stored = self._found(index).documents_stored(listing.filter)
        found = listed(
            stored, filter=listing.filter, order_by=listing.order_by, skip=listing.skip, top=listing.top
        )
        rows = tuple({name: row.get(name) for name in listing.select} for row in found)
        return Page(rows=rows, complete=len(rows) < listing.top)

    async def statistics(self, index: str, deadline: float) -> Statistics | None:
        await self._pass_time(deadline, BrokenError(Code.TIMED_OUT, _TOO_SLOW))
        return self._found(index).statistics

    async def synonym_maps(self, deadline: float) -> Mapping[str, str] | None:
        await self._pass_time(deadline, BrokenError(Code.TIMED_OUT, _TOO_SLOW))
        return self.synonyms

    async def index_names(self, deadline: float) -> tuple[str, ...] | None:
        await self._pass_time(deadline, BrokenError(Code.TIMED_OUT, _TOO_SLOW))
        if self.down is not None:
            raise self.down
        return tuple(sorted(self.indexes)) if self.listable else None

    async def ask(self, ask: Ask, deadline: float) -> Answer:
        self.asked.append(ask)
        self.somebody_asked.set()
        if self._released is not None:
            await self._released.wait()
        await self._pass_time(deadline, QueryError(FailureCode.TIMED_OUT, _TOO_SLOW))
        parents = self._found(ask.index).parents(ask.text)[: ask.query.candidates]
        rows = tuple(_row(ask, rank, parent) for rank, parent in zip(count(1), parents, strict=False))
        return Answer(rows=rows, elapsed_ms=self.latency * 1000, attempts=1, throttled=0)

    async def _pass_time(self, deadline: float, too_slow: GateError) -> None:
        left = deadline - asyncio.get_running_loop().time()
        await asyncio.sleep(max(min(self.latency, left), 0))
        if self.latency > left:
            raise too_slow

    def _found(self, name: str) -> FakeIndex:
        if self.down is not None:
            raise self.down
        if name not in self.indexes:
            raise BrokenError(Code.INDEX_MISSING, f"There is no index {name!r}.", index=name)
        found = self.indexes[name]
        if found.broken is not None:
            raise found.broken
        return found


def _row(ask: Ask, rank: int, parent: str | None) -> Row:
    """Scores fall with the rank: 1/rank, and from 4 towards 0 for the ranker."""
    return Row(
        key=f"{ask.index}-{rank}",
        parent=parent,
        title=f"About {parent}",
        text=f"Passage {rank} of {parent}",
        score=1 / rank,
        reranker_score=4 / rank if ask.query.semantic else None,
    )
