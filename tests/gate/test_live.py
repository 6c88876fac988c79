"""What is live, as people are told."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.audit import Kind
from app.domain.errors import BrokenError, LiveError
from app.domain.watch import Watch
from app.gate.live import Live, live
from tests.fakes.live import When
from tests.gate.promoting import Promoting


async def told(world: Promoting) -> Live:
    return await live(world.control())


async def twice() -> Promoting:
    """kb-v1, then kb-v2, then kb-v3 were live."""
    world = await Promoting.make()
    await world.promote()
    world.clock.tick(hours=1)
    run = await world.run_to("kb-v3", baseline="kb-v2")
    await world.promote(run.id, by="deputy")
    return world


async def test_what_was_promoted_here_is_told_with_who_when_and_on_which_run() -> None:
    world = await twice()
    found = await told(world)
    assert (found.index, found.where, found.etag, found.locked) == ("kb-v3", "the fake", '"3"', False)
    assert (found.by, found.run, found.as_recorded) == ("deputy", "run-002", True)
    assert found.flip == await world.last()
    assert found.since == datetime(2026, 11, 30, 0, 0, 3, tzinfo=UTC)  # as the place tells
    assert found.message == (
        "Live is 'kb-v3' (the fake). It was promoted on run run-002 by deputy at 2026-11-30 14:00:00 UTC (record 4)."
    )


async def test_previous_ones_that_still_exist_are_told_the_nearest_first() -> None:
    world = await twice()
    found = await told(world)
    assert found.previous is not None
    assert [(each.index, each.documents) for each in found.previous] == [("kb-v2", 100), ("kb-v1", 100)]
    assert [each.until for each in found.previous] == [world.clock(), world.clock() - timedelta(hours=1)]


@pytest.mark.parametrize("state", ["gone", "empty"])
async def test_what_cannot_be_returned_to_is_left_out(state: str) -> None:
    world = await twice()
    if state == "gone":
        del world.gate.search.indexes["kb-v2"]
    else:
        world.gate.search.index("kb-v2").documents = 0
    found = await told(world)
    assert found.previous is not None
    assert [each.index for each in found.previous] == ["kb-v1"]


async def test_what_was_rolled_back_from_is_not_returned_to() -> None:
    world = await twice()
    await world.rollback()
    found = await told(world)
    assert found.previous is not None
    assert [each.index for each in found.previous] == ["kb-v1"]
    assert "It was rolled back to by ops" in found.message


async def test_without_a_record_nothing_is_claimed() -> None:
    found = await told(await Promoting.make())
    assert (found.index, found.by, found.run, found.as_recorded, found.flip) == (
        "kb-v1",
        None,
        None,
        None,
        None,
    )
    assert found.previous == ()
    assert found.message == "Live is 'kb-v1' (the fake). No change of it is recorded here."


async def test_a_change_by_hand_is_said_plainly() -> None:
    world = await twice()
    world.live.change("kb-hand")
    found = await told(world)
    assert (found.as_recorded, found.by, found.run, found.flip, found.watch) == (
        False,
        None,
        None,
        None,
        None,
    )
    assert "It was changed by hand: the last change here, record 4, made it 'kb-v3'." in found.message


async def test_the_same_index_written_again_by_hand_is_told() -> None:
    world = await twice()
    world.live.change("kb-v3")
    found = await told(world)
    assert found.as_recorded is True
    assert "was written again since, by hand, with the same index" in found.message


async def test_where_nothing_is_live_that_is_said() -> None:
    world = await twice()
    world.live.change(None)
    found = await told(world)
    assert (found.index, found.etag, found.as_recorded) == (None, None, False)
    assert found.message.startswith("Nothing is live: the fake does not exist. It was changed by hand")


async def test_a_lock_is_told() -> None:
    world = await twice()
    world.live.locked = True
    found = await told(world)
    assert found.locked
    assert "It is locked" in found.message


async def test_a_change_under_way_is_told_and_left_as_it_is() -> None:
    world = await Promoting.make()
    world.live.fail(operation="point", when=When.AFTER)
    with pytest.raises(LiveError):
        await world.promote()
    world.clock.tick(hours=1)
    found = await told(world)
    assert found.under_way == await world.last()
    assert (
        "A promotion to 'kb-v2' by ops is under way since 2026-11-30 13:00:00 UTC (record 1)."
        in found.message
    )
    assert await world.kinds() == [Kind.PROMOTING]


async def test_the_watch_of_what_is_live_is_told() -> None:
    world = await Promoting.make()
    made = await world.promote()
    assert (await told(world)).watch is None
    await world.watch(made)
    watched = (await told(world)).watch
    assert watched is not None
    assert watched.watch is not None
    assert watched.watch.state is Watch.NOTHING_TO_ASK


async def test_a_search_service_that_is_down_hides_only_what_could_be_returned_to() -> None:
    world = await twice()
    world.gate.search.down = BrokenError("unreachable", "no connection")
    found = await told(world)
    assert (found.index, found.previous) == ("kb-v3", None)


async def test_a_place_that_does_not_answer_is_an_error() -> None:
    world = await twice()
    world.live.fail(operation="read")
    with pytest.raises(LiveError):
        await told(world)
