"""Promotions in the real places, App Configuration and an alias, over their official clients and the stand-ins.

What is promised of a place in memory is promised of these: the etag on the wire, lost answers, other people.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from app.adapters.folder import open_folder
from app.domain.audit import Kind, history, open_flip
from app.domain.errors import GateError, LiveMovedError, LiveUncertainError, NotClearedError
from app.gate.audit import AuditTrail
from app.gate.control import LiveControl
from app.gate.flip import settle
from app.gate.live import live
from app.gate.ports import LivePointer, LiveValue
from app.gate.promote import PromoteRequest, promote
from app.gate.rollback import RollbackRequest, rollback
from app.gate.watch import watch
from tests.gate.executing import lines
from tests.gate.promoting import Promoting
from tests.live_places import OPENERS, Fault, Stood

FOREVER = 1e12  # a deadline that never comes


class Placed:
    """The world of the other tests, with a real place."""

    def __init__(self, world: Promoting, stood: Stood) -> None:
        self.world = world
        self.stood = stood

    def control(self, pointer: LivePointer | None = None) -> LiveControl:
        return self.world.control(pointer=pointer or self.stood.live)

    async def promote(
        self, run_id: str = "run-001", *, pointer: LivePointer | None = None, create: bool = False
    ) -> None:
        await promote(self.control(pointer), PromoteRequest(run_id=run_id, create=create), by="ops")

    async def named(self) -> str | None:
        found: LiveValue | None = await self.stood.second.read(FOREVER)
        return found.index if found else None


@pytest.fixture(params=OPENERS)
async def placed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Placed]:
    """kb-v1 is live; run-001 passed for kb-v2, run-002 for kb-v9."""
    async with AsyncExitStack() as stack:
        stood = await stack.enter_async_context(OPENERS[request.param](tmp_path / "place"))
        world = await Promoting.make(lines(2, critical=True))
        await world.run_to("kb-v9")
        world.gate.search.index("live").otherwise = ("x", "d1")  # where the alias is asked
        yield Placed(world, stood)


async def test_a_candidate_is_promoted_watched_shown_and_rolled_back(placed: Placed) -> None:
    control = placed.control()
    made = await promote(control, PromoteRequest(run_id="run-001"), by="ops")
    assert await placed.named() == "kb-v2"
    placed.world.clock.tick(seconds=31)  # longer than either place takes to reach everybody
    watched = await watch(control, made.record)
    assert watched is not None
    assert watched.watch is not None
    assert [each.shown for each in watched.watch.questions] == ["holds", "holds"]
    shown = await live(control)
    assert (shown.index, shown.as_recorded, shown.etag) == ("kb-v2", True, made.record.etag_after)
    await rollback(control, RollbackRequest(confirm_live="kb-v2"), by="ops")
    assert await placed.named() == "kb-v1"
    assert [each.kind for each in history(await placed.world.records())] == [Kind.PROMOTED, Kind.ROLLED_BACK]


async def test_s24_the_write_carries_the_etag_that_was_read(placed: Placed) -> None:
    before = await placed.stood.live.read(FOREVER)
    assert before is not None
    await placed.promote()
    (put,) = placed.stood.wire.writes
    assert put.headers["If-Match"].strip('"') == before.etag.strip('"')


async def test_s24_what_somebody_else_wrote_in_between_stays(placed: Placed) -> None:
    wire = placed.stood.wire
    wire.faults.append(Fault(method="GET"))  # ours; the next reading is that of the write itself
    wire.faults.append(Fault(method="GET", meanwhile=lambda: placed.stood.change("kb-v9")))
    with pytest.raises(LiveMovedError) as caught:
        await placed.promote()
    assert caught.value.current == "kb-v9"
    assert await placed.named() == "kb-v9"
    assert len(wire.writes) == 1  # refused by its etag, and not tried again
    assert await placed.world.kinds() == [Kind.PROMOTING, Kind.CLOSED]


async def test_s24_a_lost_answer_is_one_promotion_and_one_entry(placed: Placed) -> None:
    placed.stood.wire.faults.append(Fault(method="PUT", lost=True))
    await placed.promote()
    assert await placed.named() == "kb-v2"
    assert await placed.world.kinds() == [Kind.PROMOTING, Kind.PROMOTED]


@pytest.mark.parametrize("written", [True, False])
async def test_s24_an_answer_that_is_lost_for_good_is_settled_by_the_next(
    placed: Placed, written: bool
) -> None:
    await placed.stood.lose(written=written)
    with pytest.raises(LiveUncertainError):
        await placed.promote()
    await placed.stood.heal()
    placed.world.clock.tick(seconds=61)
    await settle(placed.control(), "the next one")
    assert await placed.named() == ("kb-v2" if written else "kb-v1")
    assert len(history(await placed.world.records())) == int(written)
    await placed.promote()
    assert await placed.named() == "kb-v2"
    assert len(history(await placed.world.records())) == 1


async def test_s24_what_does_not_exist_is_created_only_with_consent(placed: Placed) -> None:
    await placed.stood.change(None)
    with pytest.raises(NotClearedError, match="does not exist"):
        await placed.promote()
    assert await placed.named() is None
    await placed.promote(create=True)
    assert await placed.named() == "kb-v2"
    (put,) = placed.stood.wire.writes
    assert put.headers["If-None-Match"] == "*"


async def test_the_audit_is_one_chain_in_a_folder_of_two_processes(placed: Placed, tmp_path: Path) -> None:
    async with open_folder(tmp_path / "audit") as one, open_folder(tmp_path / "audit") as two:
        trails = [AuditTrail(one), AuditTrail(two)]
        first, second = (replace(placed.control(), trail=trail) for trail in trails)
        await promote(first, PromoteRequest(run_id="run-001"), by="ops")
        await rollback(second, RollbackRequest(), by="ops")
        assert [each.kind for each in await trails[0].records()] == [
            Kind.PROMOTING,
            Kind.PROMOTED,
            Kind.ROLLING_BACK,
            Kind.ROLLED_BACK,
        ]
        assert (await trails[0].verify()).whole


@pytest.mark.parametrize("seed", range(50))
async def test_two_at_once_with_faults_on_the_wire(placed: Placed, seed: int) -> None:
    """As `test_flip_race`, on the wire: what is live is what the history says, whoever won."""
    random = Random(seed)
    if random.random() < 0.7:
        for _ in range(random.randrange(1, 3)):
            placed.stood.wire.faults.append(Fault(method="PUT", reaches=random.random() < 0.6, lost=True))
    if random.random() < 0.5:
        placed.stood.wire.faults.append(Fault(method="GET", lost=True))

    async def promoter(run_id: str, pointer: LivePointer) -> None:
        await asyncio.sleep(random.choice((0, 0, 0.001, 0.005)))
        try:
            await placed.promote(run_id, pointer=pointer)
        except GateError:
            return

    async def hand() -> None:
        if random.random() < 0.4:
            await asyncio.sleep(random.choice((0, 0.002, 0.01)))
            await placed.stood.change("kb-v1")

    await asyncio.gather(
        promoter("run-001", placed.stood.live), promoter("run-002", placed.stood.second), hand()
    )
    placed.world.clock.tick(seconds=61)
    placed.stood.wire.faults.clear()
    await settle(placed.control(), "the next one")
    records = await placed.world.records()
    flips = history(records)
    assert open_flip(records) is None
    assert len({each.etag_after for each in flips}) == len(flips)
    shown = await live(placed.control())
    if flips and shown.etag == flips[-1].etag_after:
        assert shown.index == flips[-1].after
    else:  # nothing was promoted, or it was changed by hand after that
        assert shown.index == "kb-v1"
