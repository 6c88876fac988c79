"""Turns at one service, for everything in this process that asks it."""

import asyncio
from collections import OrderedDict, deque

from app.adapters.pace import Pace, Sent
from app.gate.ports import ASKING


class HeldBackError(Exception):
    """The service asks to be left alone for longer than the request can wait."""


class Limiter:
    """Lets requests go as the pace allows. Runs take turns, whatever the number of requests that each has waiting;
    the requests of one go in the order in which they came.

    Every `enter` is followed by exactly one of `answered`, `refused` and `left`.
    """

    def __init__(self, *, ceiling: int, share: float = 1.0) -> None:
        self._pace = Pace(ceiling=ceiling, share=share)
        self._under_way = 0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._at_the_gate = False  # one waits for its time to come; nobody goes past it

    async def enter(self, within: float) -> Sent:
        """Take a turn, within so many seconds: TimeoutError or HeldBackError if there is none. Who gives up, or is
        cancelled, has taken none.
        """
        if within <= 0:
            raise TimeoutError
        until = _now() + within
        async with asyncio.timeout_at(until):
            return await self._enter(until)

    async def _enter(self, until: float) -> Sent:
        if self._at_the_gate or self._under_way >= self._pace.most():
            await self._in_line()
        self._at_the_gate = True
        try:
            while (pause := self._pace.pause(_now())) > 0:
                if _now() + pause >= until:
                    raise HeldBackError
                await asyncio.sleep(pause)
            sent = self._pace.sent(_now(), self._under_way, more=bool(self._waiting))
            self._under_way += 1
        finally:
            self._at_the_gate = False
            self._next()
        return sent

    def answered(self, sent: Sent) -> None:
        self._pace.answered(sent, _now())
        self._free()

    def refused(self, sent: Sent, retry_after: float) -> None:
        """The service has too much to do; seconds that it asks to wait."""
        self._pace.refused(sent, _now(), retry_after)
        self._free()

    def left(self) -> None:
        """It ended in a way that says nothing about how much the service can do."""
        self._free()

    @property
    def under_way(self) -> int:
        return self._under_way

    async def _in_line(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        run = ASKING.get()
        self._waiting.setdefault(run, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._withdraw(run, turn)
            else:  # it was just let in
                self._at_the_gate = False
                self._next()
            raise

    def _withdraw(self, run: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting.get(run, deque())
        if turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[run]

    def _free(self) -> None:
        self._under_way -= 1
        self._next()

    def _next(self) -> None:
        """Call the next in line to the gate, if there is room."""
        while self._waiting and not self._at_the_gate and self._under_way < self._pace.most():
            run, line = self._waiting.popitem(last=False)
            turn = line.popleft()
            if line:
                self._waiting[run] = line  # behind the others
            if not turn.done():
                self._at_the_gate = True
                turn.set_result(None)


def _now() -> float:
    return asyncio.get_running_loop().time()
