"""A process that dies at a given call to the world, and does nothing after that."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from app.gate.control import LiveControl
from app.gate.ports import DocumentStore, LivePointer, LiveValue
from tests.gate.promoting import Promoting


class KilledError(BaseException):
    """The process is no more."""


@dataclass(slots=True)
class Life:
    """Ends at the call numbered `dies_at` (1 is the first; None: never), before or `after` the call acts.

    `calls`: what was called, by name. `luck`: gives others some turns at every call, as it falls.
    """

    dies_at: int | None = None
    after: bool = False
    calls: list[str] = field(default_factory=list)
    luck: Random | None = None
    dead: bool = False

    async def begin(self, call: str) -> None:
        if self.luck is not None:
            for _ in range(self.luck.choice((0, 0, 1, 2, 5, 20))):
                await asyncio.sleep(0)
        if self.dead:
            raise KilledError
        self.calls.append(call)
        if not self.after:
            self._die_if_due()

    def end(self) -> None:
        if self.dead:
            raise KilledError
        if self.after:
            self._die_if_due()

    def _die_if_due(self) -> None:
        if self.dies_at is not None and len(self.calls) >= self.dies_at:
            self.dead = True
            raise KilledError


@dataclass(slots=True)
class DyingStore:
    """A store as a process that dies uses it."""

    store: DocumentStore
    life: Life

    async def create(self, name: str, data: bytes) -> str:
        await self.life.begin(f"create {name}")
        etag = await self.store.create(name, data)
        self.life.end()
        return etag

    async def replace(self, name: str, data: bytes, etag: str) -> str:
        await self.life.begin(f"replace {name}")
        new = await self.store.replace(name, data, etag)
        self.life.end()
        return new

    async def read(self, name: str) -> tuple[bytes, str]:
        await self.life.begin(f"read {name}")
        found = await self.store.read(name)
        self.life.end()
        return found

    async def read_part(self, name: str, start: int, length: int) -> bytes:
        await self.life.begin(f"read {name}")
        found = await self.store.read_part(name, start, length)
        self.life.end()
        return found

    async def append(self, name: str, data: bytes, position: int) -> int:
        await self.life.begin(f"append {name}")
        length = await self.store.append(name, data, position)
        self.life.end()
        return length

    async def delete(self, name: str) -> None:
        await self.life.begin(f"delete {name}")
        await self.store.delete(name)
        self.life.end()

    async def names(self, prefix: str) -> AsyncIterator[str]:
        await self.life.begin(f"names {prefix}")
        async for name in self.store.names(prefix):
            yield name


@dataclass(slots=True)
class DyingLive:
    """The place that names the live index, as a process that dies uses it."""

    live: LivePointer
    life: Life

    @property
    def where(self) -> str:
        return self.live.where

    @property
    def alias(self) -> str | None:
        return self.live.alias

    @property
    def propagation_seconds(self) -> float:
        return self.live.propagation_seconds

    async def read(self, deadline: float) -> LiveValue | None:
        await self.life.begin("read live")
        found = await self.live.read(deadline)
        self.life.end()
        return found

    async def point(self, index: str, *, etag: str, deadline: float) -> LiveValue:
        await self.life.begin("point")
        written = await self.live.point(index, etag=etag, deadline=deadline)
        self.life.end()
        return written

    async def create(self, index: str, *, deadline: float) -> LiveValue:
        await self.life.begin("create live")
        written = await self.live.create(index, deadline=deadline)
        self.life.end()
        return written


def dying(world: Promoting, life: Life, **changes: Any) -> LiveControl:
    """What a process of that life has of the world."""
    store, live = DyingStore(world.gate.store, life), DyingLive(world.live, life)
    return replace(world.control(store=store, pointer=live), **changes)
