"""How the audit is kept: a document a record, `audit/<number>.json`, created once, so that it is one chain."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from app.domain.audit import Entry, Record, Verification, document_name, opened, sealed, verify
from app.domain.errors import ConflictError, NotFoundError, StorageError
from app.gate.ports import DocumentStore

_AT_ONCE = 16  # documents that are read at the same time

Decide = Callable[[tuple[Record, ...]], Entry | None]


class AuditTrail:
    """The audit in a document store. Records never change, so that each is read once by this process.

    Raises StorageError where the store fails, or where a record is missing or altered: nothing is decided on
    a broken chain.
    """

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._known: tuple[Record, ...] = ()

    async def records(self) -> tuple[Record, ...]:
        """All records, oldest first."""
        if not self._known:
            self._take(await self._read(range(1, await self._last() + 1)))
        while (following := await self._following()) is not None:
            self._take([following])
        return self._known

    async def append(self, decide: Decide) -> Record | None:
        """Add what `decide` makes of all records there are; None where it makes nothing of them.

        Two writers who decide on the same records: one of them reads on, and decides again. Whatever `decide`
        raises ends it.
        """
        while True:
            records = await self.records()
            entry = decide(records)
            if entry is None:
                return None
            number = len(records) + 1
            data = sealed(entry, number, records[-1].digest if records else None)
            try:
                await self._store.create(document_name(number), data)
            except ConflictError:
                continue
            record = opened(data)
            self._take([record])
            return record

    async def add(self, entry: Entry) -> None:
        """Add the entry whatever the records say."""
        await self.append(lambda _: entry)

    async def verify(self) -> Verification:
        """The whole chain, read anew."""
        numbers = [number async for number in self._numbers()]
        found: dict[int, bytes] = {}
        for start in range(0, len(numbers), _AT_ONCE):
            batch = numbers[start : start + _AT_ONCE]
            contents = await asyncio.gather(*(self._content(number) for number in batch))
            found.update({n: data for n, data in zip(batch, contents, strict=True) if data is not None})
        return verify(found)

    def _take(self, records: Sequence[Record]) -> None:
        """Know these, which follow each other; those that another call has taken meanwhile are passed over."""
        for record in records:
            known = len(self._known)
            if record.number <= known:
                continue
            previous = self._known[-1].digest if self._known else None
            if record.number != known + 1 or record.previous != previous:
                raise _broken(record.number, "it does not follow the record before it")
            self._known = (*self._known, record)

    async def _following(self) -> Record | None:
        number = len(self._known) + 1
        data = await self._content(number)
        return None if data is None else _opened(data, number)

    async def _read(self, numbers: Sequence[int]) -> list[Record]:
        found = []
        for start in range(0, len(numbers), _AT_ONCE):
            batch = numbers[start : start + _AT_ONCE]
            found.extend(await asyncio.gather(*(self._one(number) for number in batch)))
        return found

    async def _one(self, number: int) -> Record:
        data = await self._content(number)
        if data is None:
            raise _broken(number, "it is missing, and later ones are there")
        return _opened(data, number)

    async def _content(self, number: int) -> bytes | None:
        try:
            return (await self._store.read(document_name(number)))[0]
        except NotFoundError:
            return None

    async def _last(self) -> int:
        last = 0
        async for number in self._numbers():
            last = number
        return last

    async def _numbers(self) -> AsyncIterator[int]:
        async for name in self._store.names("audit/"):
            number = name.removeprefix("audit/").removesuffix(".json")
            if number.isdigit():
                yield int(number)


def _opened(data: bytes, number: int) -> Record:
    try:
        record = opened(data)
    except ValueError as error:
        raise _broken(number, str(error)) from error
    if record.number != number:
        raise _broken(number, f"it says that it is record {record.number}")
    return record


def _broken(number: int, what: str) -> StorageError:
    return StorageError(
        f"The audit is broken at {document_name(number)}: {what}. `gate audit verify` lists every broken link; "
        "nothing is changed until it is whole again."
    )
