"""What it takes to look at the live index and to change it, opened and limited."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.domain.clearance import Rules
from app.gate.audit import AuditTrail
from app.gate.ports import Embedder, LivePointer, LiveValue, SearchService
from app.gate.records import RunRecords
from app.gate.start import GoldenSets

THE_GATE = "the gate itself"  # the actor of what nobody asked for: settling, and rolling back after a watch


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipLimits:
    """How long things may take.

    `settle_seconds`: an intent that is older without an end is one whose writer died: whoever comes next
    settles it. The writer itself gives up after half of it, so that both never act as long as the clocks of
    processes differ by less than the other half. `look_seconds`: for what
    is asked of the search service and of the place that names the live index. `watch_tries`, at least one, and
    the pause between them: how often a question is asked after a promotion until it holds.
    `propagation_seconds`: until applications ask the new index; None: what the place itself takes.
    `retire_after`: the time since an index was last of use before it is named as one to retire.
    """

    settle_seconds: float = 60.0
    look_seconds: float = 60.0
    watch_tries: int = 5
    watch_pause_seconds: float = 5.0
    watch_concurrency: int = 2
    propagation_seconds: float | None = None
    retire_after: timedelta = timedelta(hours=168)

    @property
    def write_seconds(self) -> float:
        return self.settle_seconds / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveControl:
    """The place that names the live index, its audit, and what a decision about it is taken from.

    `now` is the clock, UTC.
    """

    pointer: LivePointer
    trail: AuditTrail
    records: RunRecords
    golden_sets: GoldenSets
    search: SearchService
    embedder: Embedder
    now: Callable[[], datetime]
    rules: Rules = field(default_factory=Rules)
    limits: FlipLimits = field(default_factory=FlipLimits)

    def deadline(self) -> float:
        """By when something that is looked at now must have answered, on the loop's clock."""
        return asyncio.get_running_loop().time() + self.limits.look_seconds

    async def live(self) -> LiveValue | None:
        """What is named live now; None where the place does not exist. LiveError."""
        return await self.pointer.read(self.deadline())
