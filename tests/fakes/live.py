"""The place that names the live index, in memory, that changes or fails when a test says so."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal

from app.domain.errors import (
    Fault,
    InputError,
    LiveError,
    LiveLockedError,
    LiveMovedError,
    LiveUncertainError,
    NotFoundError,
)
from app.domain.index import is_index_name
from app.gate.ports import LiveValue

Operation = Literal["read", "point", "create"]

_EPOCH = datetime(2026, 11, 30, tzinfo=UTC)


class When(StrEnum):
    BEFORE = "before"  # nothing was done: LiveError
    AFTER = "after"  # it was written, and neither the answer nor a reading came back: LiveUncertainError
    INSTEAD = "instead"  # the same, but it was not written


@dataclass(slots=True)
class _Fault:
    nth: int
    when: When
    operation: Operation | None
    error: Exception | None


@dataclass(slots=True, kw_only=True)
class FakeLive:
    """`LivePointer`. `index` None: the key or alias does not exist. Give it to two users at once to have them
    share it; every call gives others a turn before it acts and before it answers.

    `change` is what somebody else does by hand: it needs no etag and heeds no lock. `before_write` is called
    in each `point` and `create`, before the etag is compared; `after_write` when it was written, before the
    answer. `written` are all indexes that were ever named, in order; `calls` all calls, failed ones included.
    """

    index: str | None = "kb-v1"
    locked: bool = False
    where: str = "the fake"
    alias: str | None = None
    propagation_seconds: float = 0.0
    before_write: Callable[["FakeLive"], None] = lambda _: None
    after_write: Callable[["FakeLive"], None] = lambda _: None
    calls: list[Operation] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    _writes: int = 1
    _faults: list[_Fault] = field(default_factory=list)

    @property
    def etag(self) -> str:
        """Another one after each change."""
        return f'"{self._writes}"'

    def change(self, index: str | None) -> None:
        """Name `index` by hand; None removes the key or alias."""
        self._write(index)

    def fail(
        self,
        nth: int = 1,
        when: When = When.BEFORE,
        *,
        operation: Operation | None = None,
        error: Exception | None = None,
    ) -> None:
        """Let the nth call from now fail, once; 1 is the next one. Only calls of `operation` (any, if None)
        count. A `read` fails before in any case.
        """
        self._faults.append(_Fault(nth, when, operation, error))

    async def read(self, deadline: float) -> LiveValue | None:
        fault = await self._called("read", deadline)
        if fault is not None:
            raise fault.error or LiveError(f"{self.where} does not answer.")
        found = self._value()
        await asyncio.sleep(0)
        return found

    async def point(self, index: str, *, etag: str, deadline: float) -> LiveValue:
        _refuse_other_than_index(index)
        fault = await self._called("point", deadline)
        self._fail_before(fault)
        self.before_write(self)
        if self.index is None:
            raise NotFoundError(f"{self.where} is gone.")
        if etag != self.etag:
            raise LiveMovedError(f"{self.where} names {self.index!r} by now.", current=self.index)
        return await self._written(index, fault)

    async def create(self, index: str, *, deadline: float) -> LiveValue:
        _refuse_other_than_index(index)
        fault = await self._called("create", deadline)
        self._fail_before(fault)
        self.before_write(self)
        if self.index is not None:
            raise LiveMovedError(f"{self.where} names {self.index!r} already.", current=self.index)
        return await self._written(index, fault)

    async def _called(self, operation: Operation, deadline: float) -> _Fault | None:
        await asyncio.sleep(0)
        self.calls.append(operation)
        if deadline <= asyncio.get_running_loop().time():
            raise LiveError(f"{self.where}: the deadline passed before anything was sent.")
        due = None
        for fault in list(self._faults):
            if fault.operation in {None, operation}:
                fault.nth -= 1
                if fault.nth == 0:
                    self._faults.remove(fault)
                    due = due or fault
        return due

    def _fail_before(self, fault: _Fault | None) -> None:
        if fault is not None and fault.when is When.BEFORE:
            raise fault.error or LiveError(f"{self.where} does not answer.")

    async def _written(self, index: str, fault: _Fault | None) -> LiveValue:
        if self.locked:
            raise LiveLockedError(f"{self.where} is locked.")
        if fault is None or fault.when is not When.INSTEAD:
            self._write(index)
        answer = LiveValue(index=index, etag=self.etag, modified_at=self._modified_at)
        self.after_write(self)
        await asyncio.sleep(0)
        if fault is not None:
            raise fault.error or LiveUncertainError(f"{self.where}: the answer was lost.")
        return answer

    def _write(self, index: str | None) -> None:
        self.index = index
        self._writes += 1
        if index is not None:
            self.written.append(index)

    def _value(self) -> LiveValue | None:
        if self.index is None:
            return None
        return LiveValue(index=self.index, etag=self.etag, locked=self.locked, modified_at=self._modified_at)

    @property
    def _modified_at(self) -> datetime:
        return _EPOCH + timedelta(seconds=self._writes)


def _refuse_other_than_index(name: str) -> None:
    if not is_index_name(name):
        raise InputError([Fault(where="index", message="is no name of an index")])
