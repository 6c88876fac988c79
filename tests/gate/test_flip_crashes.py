"""A process that dies at any step of a change of the live index: the next start completes or closes it."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from app.domain.audit import Kind, history, open_flip
from app.domain.errors import ConflictError
from app.domain.watch import Watch
from app.gate.control import LiveControl
from app.gate.promote import PromoteRequest, promote
from app.gate.rollback import RollbackRequest, rollback
from app.gate.watch import take_up, watch
from tests.gate.dying import KilledError, Life, dying
from tests.gate.executing import lines
from tests.gate.promoting import TOML, Promoting

Work = Callable[[LiveControl], Awaitable[object]]


async def promoting(control: LiveControl) -> None:
    made = await promote(control, PromoteRequest(run_id="run-001"), by="ops")
    await watch(control, made.record)


async def rolling_back(control: LiveControl) -> None:
    await rollback(control, RollbackRequest(), by="ops")


async def whole_life(world: Promoting, work: Work) -> Life:
    """The life of a process that does the work without dying."""
    life = Life()
    await work(dying(world, life))
    return life


async def world_to_promote_in() -> Promoting:
    return await Promoting.make(lines(2, critical=True))


async def world_to_roll_back_in() -> Promoting:
    world = await world_to_promote_in()
    made = await world.promote()
    await world.watch(made)
    return world


async def died(world: Promoting, work: Work, step: int, *, after: bool) -> Life:
    life = Life(dies_at=step, after=after)
    with suppress(KilledError):
        await work(dying(world, life))
    return life


async def settled(world: Promoting) -> None:
    """A start, once what was open is old enough; then nothing is open, and history tells what is live."""
    world.clock.tick(seconds=61)
    await take_up(world.control())
    records = await world.records()
    assert open_flip(records) is None
    assert [each.after for each in history(records)] == world.live.written
    assert [each.etag_after for each in history(records)] == [
        f'"{number}"' for number in range(2, 2 + len(world.live.written))
    ]
    assert (await world.control().trail.verify()).whole


@pytest.mark.parametrize("after", [False, True], ids=["before-it-acts", "after-it-acted"])
async def test_a_promotion_that_dies_at_any_call_is_completed_or_closed_by_the_next_start(
    after: bool,
) -> None:
    calls = (await whole_life(await world_to_promote_in(), promoting)).calls
    assert {"point", "create audit/00000001.json", "create audit/00000003.json"} <= set(calls)
    for step in range(1, len(calls) + 1):
        world = await world_to_promote_in()
        life = await died(world, promoting, step, after=after)
        assert life.dead, calls[step - 1]
        assert world.live.index in {"kb-v1", "kb-v2"}
        await settled(world)
        if world.live.index == "kb-v2":  # it was written: recorded, and watched
            assert (await world.last()).kind is Kind.WATCHED
        written = len(world.live.written)
        made = await world.promote()
        assert made.again is (written == 1)
        assert world.live.written == ["kb-v2"]  # whatever happened, there was one change
        assert len(history(await world.records())) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before-it-acts", "after-it-acted"])
async def test_a_roll_back_that_dies_at_any_call_is_completed_or_closed_by_the_next_start(
    after: bool,
) -> None:
    calls = (await whole_life(await world_to_roll_back_in(), rolling_back)).calls
    assert "point" in calls
    for step in range(1, len(calls) + 1):
        world = await world_to_roll_back_in()
        assert (await died(world, rolling_back, step, after=after)).dead
        await settled(world)
        if world.live.index == "kb-v2":
            await world.rollback()
        assert world.live.index == "kb-v1"
        assert world.live.written == ["kb-v2", "kb-v1"]
        with pytest.raises(ConflictError):  # nothing further back, and never forward
            await world.rollback()


@pytest.mark.parametrize("after", [False, True], ids=["before-it-acts", "after-it-acted"])
async def test_a_watch_that_fails_is_rolled_back_once_wherever_the_process_dies(
    after: bool,
) -> None:
    async def failing() -> Promoting:
        toml = TOML.replace("[policy]\n", "[policy]\nauto_rollback = true\n")
        world = await Promoting.make(lines(2, critical=True), toml=toml)
        world.gate.search.index("kb-v2").answer("question 1", ("x", "x"))
        return world

    calls = (await whole_life(await failing(), promoting)).calls
    assert calls.count("point") == 2
    for step in range(1, len(calls) + 1):
        world = await failing()
        assert (await died(world, promoting, step, after=after)).dead
        world.clock.tick(seconds=61)
        await take_up(world.control())
        await settled(world)
        assert world.live.index == "kb-v1"
        assert world.live.written in ([], ["kb-v2", "kb-v1"])
        watched = [each for each in await world.records() if each.kind is Kind.WATCHED]
        assert [each.watch.state for each in watched if each.watch] == [Watch.FAILED] * (
            len(world.live.written) // 2
        )


@pytest.mark.parametrize("hand", ["kb-v9", "kb-v1"])
async def test_what_was_changed_by_hand_while_a_change_lay_open_is_told_and_left(hand: str) -> None:
    for after in (False, True):
        world = await world_to_promote_in()
        calls = (await whole_life(await world_to_promote_in(), promoting)).calls
        await died(world, promoting, calls.index("point") + 1, after=after)
        world.live.change(hand)
        world.clock.tick(seconds=61)
        await take_up(world.control())
        last = await world.last()
        assert last.kind is Kind.CLOSED
        assert "changed by hand" in str(last.reason)
        assert world.live.index == hand


async def test_a_start_waits_until_what_is_open_is_old_enough() -> None:
    world = await world_to_promote_in()
    calls = (await whole_life(await world_to_promote_in(), promoting)).calls
    await died(world, promoting, calls.index("point") + 1, after=True)
    world.clock.tick(seconds=59.95)
    control = world.control()
    ticking = control.now

    def now() -> object:
        world.clock.tick(seconds=0.02)  # time goes on while it waits
        return ticking()

    await take_up(dying(world, Life(), now=now))
    assert await world.kinds() == [Kind.PROMOTING, Kind.PROMOTED, Kind.WATCHED]


async def test_a_change_under_way_in_a_living_process_is_not_settled() -> None:
    world = await world_to_promote_in()
    calls = (await whole_life(await world_to_promote_in(), promoting)).calls
    await died(world, promoting, calls.index("point") + 1, after=False)
    world.clock.tick(seconds=59)
    with pytest.raises(ConflictError, match="under way"):
        await world.promote()
    assert await world.kinds() == [Kind.PROMOTING]
