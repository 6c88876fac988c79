"""Take the inventory of an index: read the key, parent and text of all its rows, a page at a time.

By ranges of the key where it is filterable, else by ranges of the parent field, else by skipping rows, which the
service allows up to 100,000. A range is read in the order of its field where that is sortable, each page going
on after the last one's value; where it is not, ranges are halved until each fits into a page.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.differences import Facts, VectorSample, VectorStorage
from app.domain.errors import BrokenError
from app.domain.index import Definition, Fields
from app.domain.inventory import Inventory, Method, Stocktaking, not_taken
from app.domain.parents import as_text, parent_of
from app.domain.query import QuerySettings
from app.gate.ports import Listing, Page, SearchService

MOST_SKIPPED = 100_000  # the service's limit
SAMPLED = 50  # rows whose vectors are looked at, where they can be read
_FULL_ENOUGH = 0.6  # of a page, aimed at when an index is cut into ranges
_MORE_REQUESTS = 64  # beyond eight for each page's worth of rows, ranges are not getting anywhere

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryLimits:
    """Rows: of a larger index, so many are read and the inventory is a sample. A page is at most 1000 rows."""

    rows: int = 200_000
    page: int = 1000


async def gather_facts(
    index: str,
    fields: Fields,
    definition: Definition | None,
    query: QuerySettings,
    search: SearchService,
    *,
    documents: int | None,
    limits: InventoryLimits | None = None,
    deadline: float,
) -> tuple[Facts, int]:
    """All that is known of one side, and how many requests that took. What cannot be read is left out."""
    inventory = await take_inventory(
        index, fields, definition, query, search, documents=documents, limits=limits, deadline=deadline
    )
    stored, sample, requests = None, None, inventory.requests + 1
    try:
        statistics = await search.statistics(index, deadline)
        if statistics is not None:
            stored = VectorStorage(documents=statistics.documents, vector_bytes=statistics.vector_bytes)
        if _retrievable(definition, fields.vectors):
            requests += 1
            sample = await _sample_vectors(index, fields.vectors, search, deadline)
    except BrokenError:
        pass  # what it says of vectors stays unknown
    facts = Facts(
        index=index,
        query=query,
        definition=definition,
        fields=fields,
        documents=documents,
        stored=stored,
        sample=sample,
        inventory=inventory,
    )
    return facts, requests


async def _sample_vectors(
    index: str, vectors: tuple[str, ...], search: SearchService, deadline: float
) -> VectorSample:
    page = await search.list_documents(index, Listing(select=vectors, top=SAMPLED), deadline)
    missing = sum(any(not row.get(name) for name in vectors) for row in page.rows)
    return VectorSample(rows=len(page.rows), missing=missing)


def _retrievable(definition: Definition | None, names: tuple[str, ...]) -> bool:
    """Whether the definition says that all of these can be read."""
    known = {each.get("name"): each for each in (definition or {}).get("fields") or []}
    return bool(names) and all(known.get(name, {}).get("retrievable") is True for name in names)


class _EnoughError(Exception):
    """Rows enough, or none to be had; the text says why the inventory is not complete."""


async def take_inventory(
    index: str,
    fields: Fields,
    definition: Definition | None,
    query: QuerySettings,
    search: SearchService,
    *,
    documents: int | None,
    limits: InventoryLimits | None = None,
    deadline: float,
) -> Inventory:
    """The inventory of a concrete index; not taken, with the reason, where the service refuses.

    `documents`: how many the index is known to hold, against which completeness is judged.
    """
    reader = _Reader(
        index=index,
        fields=fields,
        definition=definition,
        search=search,
        documents=documents,
        limits=limits or InventoryLimits(),
        deadline=deadline,
        stock=Stocktaking(query.parent_names),
    )
    method, read = reader.method()
    note: str | None = None
    try:
        await read()
    except BrokenError as error:
        return not_taken(str(error), reader.requests)
    except _EnoughError as enough:
        note = str(enough)
    note = note or reader.unsure
    if note is None and documents is not None and reader.stock.chunks != documents:
        note = f"{reader.stock.chunks} rows were listed, and the index counts {documents}."
    return reader.stock.inventory(method, complete=note is None, note=note, requests=reader.requests)


@dataclass(slots=True, kw_only=True)
class _Reader:
    index: str
    fields: Fields
    definition: Definition | None
    search: SearchService
    documents: int | None
    limits: InventoryLimits
    deadline: float
    stock: Stocktaking
    requests: int = 0
    unsure: str | None = None

    def method(self) -> tuple[Method, Any]:
        """How the index can be read, and what reads it so."""
        key, parent = self.fields.key, self.fields.parent
        if key is not None and self._is(key, "filterable"):
            if self._is(key, "sortable"):
                return Method.KEY_RANGES, lambda: self._read_in_order(key)
            return Method.KEY_RANGES, lambda: self._read_by_halves(key)
        if self._is(parent, "filterable"):
            if self._is(parent, "sortable"):
                return Method.PARENT_RANGES, self._read_parents_in_order
            return Method.PARENT_RANGES, lambda: self._read_by_halves(parent)
        if self._key_order() is not None:
            return Method.SKIP_IN_ORDER, lambda: self._read_by_skipping(None)
        return Method.SKIP, lambda: self._read_by_skipping(None)

    # ways to read

    async def _read_in_order(self, key: str) -> None:
        """Pages in the key's order, each from behind the last one."""
        last: str | None = None
        while True:
            page = await self._page(_compared(key, "gt", last), order_by=key)
            await self._add(page.rows)
            if page.complete:
                return
            last = self._last(page, key)

    async def _read_parents_in_order(self) -> None:
        """Pages in the parents' order. The last parent of a page may go on, so it begins the next page; one that
        fills a page is read by itself.
        """
        parent = self.fields.parent
        where = _compared(parent, "ge", "")
        while True:
            page = await self._page(where, order_by=parent)
            if page.complete:
                await self._add(page.rows)
                break
            last = self._last(page, parent)
            whole = [row for row in page.rows if self._value(row, parent) != last]
            if whole:
                await self._add(whole)
                where = _compared(parent, "ge", last)
            else:
                await self._read_by_skipping(_compared(parent, "eq", last))
                where = _compared(parent, "gt", last)
        await self._read_rows_without(parent)

    async def _read_by_halves(self, name: str) -> None:
        """Ranges that each fit into a page. What a page shows of a larger one tells where to cut it; in the order
        of the keys it shows some of everything, where keys begin with a hash.
        """
        ranges: list[tuple[str | None, str | None]] = [(None, None)]
        parts = self._parts()
        while ranges:
            low, high = ranges.pop()
            page = await self._page(_joined(low, high), order_by=self._key_order())
            if page.complete:
                await self._add(page.rows)
                continue
            values = sorted({value for row in page.rows if (value := self._value(row, name)) is not None})
            if len(values) > 1:
                cuts = _cuts(values, parts)
                lows = [low, *(_compared(name, "gt", cut) for cut in cuts)]
                highs = [*(_compared(name, "le", cut) for cut in cuts), high]
                ranges.extend(reversed(list(zip(lows, highs, strict=True))))
            elif values:
                await self._read_by_skipping(_compared(name, "eq", values[0]))
                ranges.append((_compared(name, "gt", values[0]), high))
                ranges.append((low, _compared(name, "lt", values[0])))
            else:
                raise _EnoughError(f"the service listed rows without {name} only.")
            parts = 2
        await self._read_rows_without(name)

    async def _read_rows_without(self, name: str) -> None:
        """Rows whose field is null are in no range."""
        if self.documents is not None and self.stock.chunks < self.documents:
            await self._read_by_skipping(f"{name} eq null", without=name)

    async def _read_by_skipping(self, where: str | None, without: str | None = None) -> None:
        skipped = 0
        while True:
            page = await self._page(where, order_by=self._key_order(), skip=skipped)
            await self._add(
                [row for row in page.rows if without is None or self._value(row, without) is None]
            )
            if page.complete:
                break
            skipped += len(page.rows)
            if not page.rows or skipped > MOST_SKIPPED:
                raise _EnoughError(f"the service lists no more than {MOST_SKIPPED} rows without ranges.")
        if skipped and self._key_order() is None:
            self.unsure = (
                "the key is neither filterable nor sortable: pages may repeat rows and leave out others."
            )

    # parts

    async def _page(self, where: str | None, *, order_by: str | None = None, skip: int = 0) -> Page:
        if self.requests >= 8 * (self.documents or MOST_SKIPPED) / self.limits.page + _MORE_REQUESTS:
            raise _EnoughError(f"after {self.requests} requests the rows were still not listed.")
        self.requests += 1
        names = (self.fields.key, self.fields.parent.split("/")[0], self.fields.text)
        listing = Listing(
            select=tuple(dict.fromkeys(name for name in names if name)),
            filter=where,
            order_by=order_by,
            skip=skip,
            top=self.limits.page,
        )
        return await self.search.list_documents(self.index, listing, self.deadline)

    async def _add(self, rows: Rows) -> None:
        """Beside the event loop, since reading the texts takes a while."""
        await asyncio.to_thread(self._add_now, rows)
        if self.stock.chunks >= self.limits.rows and (self.documents or MOST_SKIPPED) > self.stock.chunks:
            raise _EnoughError(f"a sample, the first {self.stock.chunks} rows of {self.documents or 'more'}.")

    def _add_now(self, rows: Rows) -> None:
        for row in rows:
            text = as_text(row.get(self.fields.text)) if self.fields.text else None
            self.stock.add(parent_of(row, self.fields.parent), text)

    def _value(self, row: Mapping[str, Any], name: str) -> str | None:
        return parent_of(row, name)

    def _last(self, page: Page, name: str) -> str:
        value = self._value(page.rows[-1], name) if page.rows else None
        if value is None:
            raise _EnoughError("the service ended a list of rows in its midst.")
        return value

    def _parts(self) -> int:
        """Ranges to begin with, so that most of them fit into a page."""
        pages = (self.documents or 0) / (self.limits.page * _FULL_ENOUGH)
        return max(2, round(pages))

    def _key_order(self) -> str | None:
        key = self.fields.key
        return key if key is not None and self._is(key, "sortable") else None

    def _is(self, path: str, attribute: str) -> bool:
        """Whether the definition says so of this field, and it holds strings."""
        found: Mapping[str, Any] = {"fields": (self.definition or {}).get("fields")}
        for name in path.split("/"):
            found = next((each for each in found.get("fields") or [] if each.get("name") == name), {})
        return found.get("type") == "Edm.String" and found.get(attribute) is True


def _compared(name: str, operator: str, value: str | None) -> str | None:
    if value is None:
        return None
    quoted = value.replace("'", "''")
    return f"{name} {operator} '{quoted}'"


def _joined(*parts: str | None) -> str | None:
    return " and ".join(part for part in parts if part) or None


def _cuts(values: Sequence[str], parts: int) -> list[str]:
    """Where to cut, so that about as many of the values are in each part; never behind the last one."""
    parts = min(parts, len(values))
    return [values[len(values) * place // parts - 1] for place in range(1, parts)]
