"""Find out what changed between the two sides: definitions, statistics and contents read, and compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.check import Check, once
from app.domain.difference import Difference
from app.domain.differences import (
    Facts,
    VectorSample,
    VectorStorage,
    change_checks,
    differences,
    input_limit_checks,
    lost_documents,
)
from app.domain.errors import BrokenError
from app.domain.golden import Question
from app.domain.inventory import Inventory
from app.domain.query import Side
from app.domain.run import Inventories, Run
from app.gate.inspect import Inspection
from app.gate.inventory import InventoryLimits, take_inventory
from app.gate.ports import Listing, SearchService

_SAMPLED = 200  # rows whose vectors are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What differs, what that means, what was read for it, and the requests that it took."""

    differences: tuple[Difference, ...]
    checks: tuple[Check, ...]
    inventories: Inventories
    requests: int


async def look_for_changes(
    run: Run,
    questions: Sequence[Question],
    found: Inspection,
    search: SearchService,
    *,
    rows: int,
    deadline: float,
) -> Changes:
    """Both sides read, at most `rows` chunks of each. What could not be read is not compared, and said."""
    reading = _Reading(run=run, found=found, search=search, rows=rows, deadline=deadline)
    before = await reading.facts(Side.BASELINE)
    after = await reading.facts(Side.CANDIDATE)
    named = differences(before, after)
    lost = lost_documents(before.taken, after.taken, questions, limit=None)
    checks = [*change_checks(named, run.change.kind if run.change else ()), *([lost] if lost else [])]
    for side in (before, after):
        checks.extend((*input_limit_checks(side), *side.taken.checks(side.index)))
    return Changes(
        differences=named,
        checks=once(checks),
        inventories=Inventories(baseline=before.taken.record, candidate=after.taken.record),
        requests=reading.requests + before.taken.requests + after.taken.requests,
    )


@dataclass(slots=True, kw_only=True)
class _Reading:
    run: Run
    found: Inspection
    search: SearchService
    rows: int
    deadline: float
    requests: int = 0

    async def facts(self, side: Side) -> Facts:
        at, stored = self.run.side(side), await self._stored(self.run.side(side).index)
        sized = stored is not None and stored.vector_bytes is not None
        return Facts(
            index=at.index,
            query=self.run.query.of(side),
            definition=self.found.definitions[side],
            fields=at.fields,
            documents=at.documents,
            stored=stored,
            sample=None if sized else await self._sample(side),
            inventory=await self._inventory(side),
        )

    async def _stored(self, index: str) -> VectorStorage | None:
        self.requests += 1
        try:
            told = await self.search.statistics(index, self.deadline)
        except BrokenError:
            return None
        return (
            None if told is None else VectorStorage(documents=told.documents, vector_bytes=told.vector_bytes)
        )

    async def _sample(self, side: Side) -> VectorSample | None:
        """Some rows' vectors, where they are retrievable; the sizes that the service reports say more."""
        at, definition = self.run.side(side), self.found.definitions[side]
        known = {str(each.get("name")): each for each in (definition or {}).get("fields") or []}
        names = at.fields.vectors if at.fields else ()
        if not names or not all(known.get(name, {}).get("retrievable") for name in names):
            return None
        self.requests += 1
        try:
            page = await self.search.list_documents(
                at.index, Listing(select=names, top=_SAMPLED), self.deadline
            )
        except BrokenError:
            return None
        missing = sum(1 for row in page.rows if not all(row.get(name) for name in names))
        return VectorSample(rows=len(page.rows), missing=missing)

    async def _inventory(self, side: Side) -> Inventory | None:
        at = self.run.side(side)
        if at.fields is None or self.rows == 0:
            return None
        return await take_inventory(
            at.index,
            at.fields,
            self.found.definitions[side],
            self.run.query.of(side),
            self.search,
            documents=at.documents,
            limits=InventoryLimits(rows=self.rows),
            deadline=self.deadline,
        )
