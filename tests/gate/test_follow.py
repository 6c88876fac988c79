"""What became of a run's promotion, from the records of the audit."""

import asyncio
from typing import Any

import pytest

from app.domain.audit import Kind
from app.domain.errors import NotFoundError
from app.gate.audit import AuditTrail
from app.gate.follow import Followed, followed
from app.gate.records import RunRecords
from app.gate.watch import take_up
from tests.fakes.live import When
from tests.gate.executing import lines
from tests.gate.promoting import TOML, Promoting

AUTOMATIC = f"{TOML}auto_rollback = true\n"


async def world_of(**options: Any) -> Promoting:
    return await Promoting.make(lines(1, critical=True), **options)


async def seen(world: Promoting, run_id: str = "run-001", *, seconds: float = 0) -> Followed:
    trail, records = AuditTrail(world.gate.store), RunRecords(world.gate.store)
    return await followed(trail, records, run_id, seconds)


def lose(world: Promoting) -> None:
    """The critical question's answer is gone from the candidate."""
    world.gate.search.index("kb-v2").otherwise = ("x", "x", "x")


async def test_of_a_run_that_was_not_promoted_nothing_is_to_come() -> None:
    assert await seen(await world_of()) == Followed(run="run-001", ended=True)


async def test_an_unknown_run_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        await seen(await world_of(), "run-009")


async def test_it_ends_when_the_watch_holds() -> None:
    world = await world_of()
    made = await world.promote()
    before = await seen(world)
    assert (before.flip, before.watch, before.ended) == (made.record, None, False)
    watched = await world.watch(made)
    after = await seen(world)
    assert (after.watch, after.undone, after.ended) == (watched, None, True)


async def test_a_failed_watch_ends_it_where_nothing_goes_back_by_itself() -> None:
    world = await world_of()
    made = await world.promote()
    lose(world)
    await world.watch(made)
    assert (await seen(world)).ended


async def test_a_failed_watch_that_rolls_back_ends_it_with_the_roll_back_only() -> None:
    world = await world_of(toml=AUTOMATIC)
    made = await world.promote()
    lose(world)
    world.live.before_write = lambda live: (_ for _ in ()).throw(asyncio.CancelledError)  # the process ends
    with pytest.raises(asyncio.CancelledError):
        await world.watch(made)
    halfway = await seen(world)
    assert halfway.watch is not None
    assert (halfway.undone, halfway.ended) == (None, False)
    world.live.before_write = lambda _: None
    world.clock.tick(seconds=61)
    await take_up(world.control())
    after = await seen(world)
    assert after.undone is not None
    assert (after.undone.kind, after.undone.after, after.ended) == (Kind.ROLLED_BACK, "kb-v1", True)


async def test_a_roll_back_that_is_refused_ends_it() -> None:
    world = await world_of(toml=AUTOMATIC)
    made = await world.promote()
    lose(world)
    del world.gate.search.indexes["kb-v1"]
    await world.watch(made)
    found = await seen(world)
    assert found.refused is not None
    assert "is gone" in (found.refused.reason or "")
    assert (found.undone, found.ended) == (None, True)


async def test_the_next_change_ends_it_though_it_was_never_watched() -> None:
    world = await world_of()
    await world.promote()
    back = await world.rollback()
    found = await seen(world)
    assert (found.undone, found.watch, found.ended) == (back.record, None, True)


async def test_a_promotion_that_has_no_end_yet_is_under_way_until_it_is_settled() -> None:
    world = await world_of()
    world.live.fail(operation="point", when=When.AFTER)
    with pytest.raises(Exception, match="lost"):
        await world.promote()
    halfway = await seen(world)
    assert halfway.under_way is not None
    assert (halfway.under_way.kind, halfway.flip, halfway.ended) == (Kind.PROMOTING, None, False)
    world.clock.tick(seconds=61)
    await take_up(world.control())
    after = await seen(world)
    assert (after.under_way, after.ended) == (None, True)
    assert after.flip is not None


async def test_the_last_promotion_of_a_run_counts_and_not_that_of_another() -> None:
    world = await world_of()
    await world.watch(await world.promote())
    await world.rollback()
    again = await world.promote()
    found = await seen(world)
    assert (found.flip, found.watch, found.ended) == (again.record, None, False)
    other = await world.run(candidate_index="kb-v2", baseline_index="kb-v1")
    assert await seen(world, other.id) == Followed(run=other.id, ended=True)


async def test_whoever_waits_is_answered_when_it_ends() -> None:
    world = await world_of()
    made = await world.promote()
    waiting = asyncio.create_task(seen(world, seconds=60))
    await asyncio.sleep(0)
    assert not waiting.done()
    await world.watch(made)
    assert (await waiting).ended
