"""What is told of the work while it is done: to whom each line of the log belongs, and how the work went."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

from app.domain.observation import Observation
from app.domain.query import Side
from app.domain.run import Run

RUN: ContextVar[str | None] = ContextVar("run", default=None)
QUESTION: ContextVar[str | None] = ContextVar("question", default=None)
REQUEST: ContextVar[str | None] = ContextVar("request", default=None)  # its id, of the web

Seen = Callable[[Observation], None]


@contextmanager
def about(whose: ContextVar[str | None], value: str) -> Iterator[None]:
    """What is logged in the block, and by tasks that it begins, belongs to that run, question or request."""
    token = whose.set(value)
    try:
        yield
    finally:
        whose.reset(token)


class Telemetry(Protocol):
    """Where the work is measured. Nothing that it does may fail the work."""

    def executing(self, run_id: str) -> AbstractContextManager[None]:
        """Around the execution of a run by this process."""
        ...

    def observing(self, question: str, side: Side, number: int) -> AbstractContextManager[Seen]:
        """Around one observation of a question; it is given what was observed."""
        ...

    def done(self, run: Run) -> None:
        """The run has its verdict."""
        ...


class Silent:
    """Telemetry that goes nowhere."""

    def executing(self, run_id: str) -> AbstractContextManager[None]:
        """See `Telemetry.executing`."""
        del run_id
        return nullcontext()

    def observing(self, question: str, side: Side, number: int) -> AbstractContextManager[Seen]:
        """See `Telemetry.observing`."""
        del question, side, number
        return nullcontext(_unseen)

    def done(self, run: Run) -> None:
        """See `Telemetry.done`."""


def _unseen(observation: Observation) -> None:
    del observation
