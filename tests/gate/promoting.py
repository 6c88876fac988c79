"""A world to promote in: runs that were really executed over indexes in memory, a live pointer, and a clock.

world = await Promoting.make()                 # kb-v1 is live, run "run-001" of the set "hr" passed for kb-v2
made = await world.promote()
world.clock.tick(hours=1)
control = world.control()                      # what another process would have
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from app.domain.audit import Kind, Record
from app.domain.clearance import Rules
from app.domain.golden import GoldenTexts
from app.domain.run import Run
from app.gate.audit import AuditTrail
from app.gate.control import FlipLimits, LiveControl
from app.gate.ports import DocumentStore, LivePointer
from app.gate.promote import PromoteRequest, Promotion, promote
from app.gate.records import RunRecords
from app.gate.rollback import Rollback, RollbackRequest, rollback
from app.gate.watch import watch
from tests.fakes.live import FakeLive
from tests.gate.executing import KEYWORD, NOON, PLAIN, Executing, NoEmbedder, lines

LIMITS = FlipLimits(settle_seconds=60, watch_tries=3, watch_pause_seconds=0, look_seconds=30)
TOML = KEYWORD + PLAIN


@dataclass(slots=True)
class Clock:
    """UTC, moved by tests only. It begins when the runs have just ended."""

    now: datetime = NOON + timedelta(hours=1)

    def __call__(self) -> datetime:
        return self.now

    def tick(self, **by: float) -> None:
        self.now += timedelta(**by)


@dataclass(slots=True, kw_only=True)
class Promoting:
    """Both indexes, kb-v1 and kb-v2, show d1 on rank 2 unless a test says otherwise."""

    gate: Executing = field(default_factory=Executing)
    live: FakeLive = field(default_factory=FakeLive)
    clock: Clock = field(default_factory=Clock)
    rules: Rules = field(default_factory=Rules)
    limits: FlipLimits = LIMITS

    @classmethod
    async def make(cls, jsonl: str | None = None, *, toml: str = TOML, **members: Any) -> "Promoting":
        """With a first run of the deployed set, kb-v1 against kb-v2."""
        world = cls(**members)
        world.deploy("hr", jsonl or lines(2), toml)
        await world.run()
        return world

    def deploy(self, name: str, jsonl: str | None, toml: str = TOML) -> None:
        """Deploy a set; `jsonl` None: remove it."""
        if jsonl is None:
            del self.gate.deployed.sets[name]
        else:
            self.gate.deployed.sets[name] = GoldenTexts(name=name, jsonl=jsonl, toml=toml)

    async def run(self, golden_set: str | None = "hr", **request: Any) -> Run:
        """Another run of a deployed set, or of `golden`; it ends when `Executing` says so, an hour after noon."""
        return await self.gate.run("", golden_set=golden_set, **request)

    async def run_to(self, candidate: str, *, baseline: str = "kb-v1") -> Run:
        """A run for another candidate, which is made and shows what the others do."""
        self.gate.search.index(candidate).otherwise = ("x", "d1", "x")
        return await self.run(candidate_index=candidate, baseline_index=baseline)

    def control(
        self, *, store: DocumentStore | None = None, pointer: LivePointer | None = None
    ) -> LiveControl:
        """All that a process that has just started has."""
        kept = store or self.gate.store
        return LiveControl(
            pointer=pointer or self.live,
            trail=AuditTrail(kept),
            records=RunRecords(kept),
            golden_sets=self.gate.deployed,
            search=self.gate.search,
            embedder=NoEmbedder(),
            now=self.clock,
            rules=self.rules,
            limits=self.limits,
        )

    async def promote(self, run_id: str = "run-001", *, by: str | None = "ops", **request: Any) -> Promotion:
        return await promote(self.control(), PromoteRequest(run_id=run_id, **request), by=by)

    async def rollback(self, *, by: str | None = "ops", **request: Any) -> Rollback:
        return await rollback(self.control(), RollbackRequest(**request), by=by)

    async def watch(self, made: Promotion) -> Record:
        record = await watch(self.control(), made.record)
        assert record is not None
        return record

    async def records(self) -> tuple[Record, ...]:
        return await AuditTrail(self.gate.store).records()

    async def kinds(self) -> list[Kind]:
        return [record.kind for record in await self.records()]

    async def last(self) -> Record:
        return (await self.records())[-1]


async def turns(count: int) -> None:
    """Let others have that many turns."""
    for _ in range(count):
        await asyncio.sleep(0)
