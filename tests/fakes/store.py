"""A document store in memory, as strict as the strictest real one, that fails when a test says so."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum

from app.adapters.names import checked_name
from app.domain.errors import ConflictError, NotFoundError, StorageError


class When(StrEnum):
    BEFORE = "before"  # nothing was done
    WITHIN = "within"  # half of an append's bytes were written; for other operations as BEFORE
    AFTER = "after"  # it was done, and the answer lost for good


@dataclass(frozen=True, slots=True)
class Call:
    operation: str
    name: str  # of `names`, its prefix


@dataclass(slots=True)
class _Document:
    data: bytes
    etag: str
    grows: bool  # appended to; never both appended to and written whole, as in blob storage


@dataclass(slots=True)
class _Fault:
    nth: int
    when: When
    operation: str | None
    name: str
    error: Exception


@dataclass(slots=True)
class MemoryStore:
    """`DocumentStore`. `calls` are all that were made, failed ones included. Give it to two users at once to
    have them share a store; every call gives others a turn before it acts and before it answers.
    """

    calls: list[Call] = field(default_factory=list)
    _documents: dict[str, _Document] = field(default_factory=dict)
    _faults: list[_Fault] = field(default_factory=list)
    _writes: int = 0

    def fail(
        self,
        nth: int = 1,
        when: When = When.BEFORE,
        *,
        operation: str | None = None,
        name: str = "",
        error: Exception | None = None,
    ) -> None:
        """Let the nth call from now fail, once; 1 is the next one. Only calls of `operation` (any, if None)
        on names that begin with `name` count.
        """
        self._faults.append(
            _Fault(nth, when, operation, name, error or StorageError("The store was told to fail."))
        )

    @property
    def documents(self) -> dict[str, bytes]:
        """What is kept now, by name."""
        return {name: document.data for name, document in sorted(self._documents.items())}

    async def create(self, name: str, data: bytes) -> str:
        fault = await self._called("create", checked_name(name))
        if name in self._documents:
            raise ConflictError(f"The document {name} exists already.")
        document = self._documents[name] = _Document(bytes(data), self._next_etag(), grows=False)
        etag = document.etag
        await self._answered(fault)
        return etag

    async def replace(self, name: str, data: bytes, etag: str) -> str:
        fault = await self._called("replace", checked_name(name))
        document = self._documents.get(name)
        if document is None or document.etag != etag:
            raise ConflictError(f"The document {name} was changed or removed by somebody else.")
        if document.grows:
            raise StorageError(f"The document {name} is appended to, never replaced.")
        document.data, document.etag = bytes(data), self._next_etag()
        new_etag = document.etag
        await self._answered(fault)
        return new_etag

    async def read(self, name: str) -> tuple[bytes, str]:
        fault = await self._called("read", checked_name(name))
        document = self._documents.get(name)
        if document is None:
            raise NotFoundError(f"There is no document {name}.")
        found = document.data, document.etag
        await self._answered(fault)
        return found

    async def read_part(self, name: str, start: int, length: int) -> bytes:
        fault = await self._called("read_part", checked_name(name))
        document = self._documents.get(name)
        if document is None:
            raise NotFoundError(f"There is no document {name}.")
        found = document.data[start : start + length]
        await self._answered(fault)
        return found

    async def append(self, name: str, data: bytes, position: int) -> int:
        fault = await self._called("append", checked_name(name), data, position)
        self._append(name, data, position)
        await self._answered(fault)
        return position + len(data)

    def _append(self, name: str, data: bytes, position: int) -> None:
        document = self._documents.get(name)
        if document is None and position == 0:
            document = self._documents[name] = _Document(b"", self._next_etag(), grows=True)
        if document is not None and not document.grows:
            raise StorageError(f"The document {name} is written whole, never appended to.")
        if document is None or len(document.data) != position:
            raise ConflictError(f"The length of the document {name} is not {position}.")
        document.data += data
        document.etag = self._next_etag()

    async def delete(self, name: str) -> None:
        fault = await self._called("delete", checked_name(name))
        self._documents.pop(name, None)
        await self._answered(fault)

    async def names(self, prefix: str) -> AsyncIterator[str]:
        fault = await self._called("names", prefix)
        found = sorted(name for name in self._documents if name.startswith(prefix))
        await self._answered(fault)
        for name in found:
            yield name

    async def _called(self, operation: str, name: str, data: bytes = b"", position: int = 0) -> _Fault | None:
        """The fault that this call meets after its work; raises one that it meets before."""
        await asyncio.sleep(0)
        self.calls.append(Call(operation, name))
        due = None
        for fault in list(self._faults):
            if fault.operation in {None, operation} and name.startswith(fault.name):
                fault.nth -= 1
                if fault.nth == 0:
                    self._faults.remove(fault)
                    due = due or fault
        if due is None or due.when is When.AFTER:
            return due
        if due.when is When.WITHIN and operation == "append":
            self._append(name, data[: len(data) // 2], position)
        raise due.error

    async def _answered(self, fault: _Fault | None) -> None:
        await asyncio.sleep(0)
        if fault is not None:
            raise fault.error

    def _next_etag(self) -> str:
        self._writes += 1
        return f'"{self._writes}"'
