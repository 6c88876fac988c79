"""Work of this process that no caller waits for."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class Background:
    """Its tasks, kept until they end: the event loop alone would let go of them."""

    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def done(self) -> None:
        """Until all that was begun has come to its end."""
        await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        """End all of it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
