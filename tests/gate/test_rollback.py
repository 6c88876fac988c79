"""Rolling back: where to, when not, and what a drill says."""

import asyncio
from typing import Any

import pytest

from app.domain.audit import Kind, history
from app.domain.errors import (
    BrokenError,
    ConflictError,
    InputError,
    LiveError,
    LiveLockedError,
    LiveMovedError,
)
from tests.fakes.live import When
from tests.gate.promoting import Promoting


async def promoted(*candidates: str) -> Promoting:
    """kb-v1 was live; then each of these was promoted, one after the other."""
    world = await Promoting.make()
    live = "kb-v1"
    for candidate in candidates or ("kb-v2",):
        run = await world.run_to(candidate, baseline=live)
        await world.promote(run.id)
        live = candidate
    return world


async def refusal(world: Promoting, kind: type[ConflictError] = ConflictError, **request: Any) -> str:
    """Why it is refused; live must be untouched, and the attempt recorded."""
    before, flips = world.live.etag, history(await world.records())
    with pytest.raises(kind) as caught:
        await world.rollback(**request)
    assert world.live.etag == before
    last = await world.last()
    assert (last.kind, last.actor) == (Kind.REFUSED, "ops")
    assert str(caught.value) in str(last.reason)
    assert history(await world.records()) == flips
    return str(caught.value)


async def test_it_goes_back_to_what_was_live_before_the_last_promotion_and_is_recorded() -> None:
    world = await promoted()
    made = await world.rollback(reason="users complain")
    assert world.live.index == "kb-v1"
    assert (made.before, made.after, made.documents, made.drill) == ("kb-v2", "kb-v1", 100, False)
    assert made.live is not None
    assert made.live.index == "kb-v1"
    intent, end = (await world.records())[-2:]
    assert (intent.kind, end.kind, end.intent) == (Kind.ROLLING_BACK, Kind.ROLLED_BACK, intent.number)
    assert (end.actor, end.before, end.after, end.etag_before, end.etag_after) == (
        "ops",
        "kb-v2",
        "kb-v1",
        '"2"',
        '"3"',
    )
    assert end.reason == "users complain"
    assert made.record == end


async def test_it_needs_no_verdict() -> None:
    world = await promoted()
    world.clock.tick(days=400)
    world.deploy("hr", None)
    await world.rollback()
    assert world.live.index == "kb-v1"


async def test_two_in_a_row_go_further_back_and_a_third_has_nowhere_to_go() -> None:
    world = await promoted("kb-v2", "kb-v3")
    await world.rollback()
    assert world.live.index == "kb-v2"
    await world.rollback()
    assert world.live.index == "kb-v1"
    assert "nothing further to roll back to" in await refusal(world)


async def test_it_never_goes_forward_again_to_what_was_rolled_back() -> None:
    world = await promoted()
    await world.rollback()
    await refusal(world)
    assert world.live.index == "kb-v1"


async def test_a_repeated_request_that_names_what_was_live_goes_back_once() -> None:
    world = await promoted("kb-v2", "kb-v3")
    first = await world.rollback(confirm_live="kb-v3")
    kept = await world.records()
    for to in (None, "kb-v2"):
        again = await world.rollback(confirm_live="kb-v3", to=to)
        assert again.again
        assert (again.record, again.before, again.after) == (first.record, "kb-v3", "kb-v2")
        assert "it was done before" in again.message
    assert await world.records() == kept
    assert world.live.index == "kb-v2"


async def test_what_is_not_the_same_request_is_not_taken_for_it() -> None:
    world = await promoted("kb-v2", "kb-v3")
    await world.rollback(confirm_live="kb-v3")
    await refusal(world, LiveMovedError, confirm_live="kb-v3", to="kb-v1")
    await refusal(world, LiveMovedError, confirm_live="kb-v3", drill=True)
    world.live.change("kb-v2")  # the same index, by somebody's hand
    await refusal(world, LiveMovedError, confirm_live="kb-v3")


async def test_without_a_promotion_there_is_nothing_to_roll_back_to() -> None:
    world = await Promoting.make()
    assert "No promotion is recorded" in await refusal(world)
    assert "No promotion is recorded" in await refusal(world, to="kb-v2")


async def test_where_nothing_is_live_there_is_nothing_to_roll_back() -> None:
    world = await promoted()
    world.live.index = None
    assert "Nothing is live" in await refusal(world)


# targets


@pytest.mark.parametrize("state", ["gone", "empty"])
async def test_a_target_that_is_gone_or_empty_is_refused_naming_those_that_are_left(state: str) -> None:
    world = await promoted("kb-v2", "kb-v3", "kb-v4")
    if state == "gone":
        del world.gate.search.indexes["kb-v3"]
    else:
        world.gate.search.index("kb-v3").documents = 0
    message = await refusal(world)
    assert f"The index 'kb-v3', which was live before 'kb-v4', is {state}." in message
    assert "left: kb-v2 (100 documents), kb-v1 (100 documents)." in message
    await world.rollback(to="kb-v2")
    assert world.live.index == "kb-v2"
    await world.rollback()
    assert world.live.index == "kb-v1"


async def test_where_no_target_is_left_that_is_said() -> None:
    world = await promoted()
    del world.gate.search.indexes["kb-v1"]
    assert "No index that was live before is left" in await refusal(world)


async def test_it_goes_to_an_index_that_is_named_and_was_live() -> None:
    world = await promoted("kb-v2", "kb-v3")
    made = await world.rollback(to="kb-v1")
    assert made.after == world.live.index == "kb-v1"


async def test_it_does_not_go_where_nothing_was_ever_live() -> None:
    world = await promoted()
    world.gate.search.index("kb-v9")
    message = await refusal(world, to="kb-v9")
    assert "'kb-v9' was never live by the audit: what was not is promoted" in message
    assert "left: kb-v1" in message


async def test_it_does_not_go_to_what_is_live_already() -> None:
    world = await promoted()
    assert "is live already" in await refusal(world, to="kb-v2")


@pytest.mark.parametrize("state", ["gone", "empty"])
async def test_a_named_index_that_is_gone_or_empty_is_refused(state: str) -> None:
    world = await promoted("kb-v2", "kb-v3")
    if state == "gone":
        del world.gate.search.indexes["kb-v1"]
    else:
        world.gate.search.index("kb-v1").documents = 0
    message = await refusal(world, to="kb-v1")
    assert f"'kb-v1' is {state}. Name one of those that are left: kb-v2" in message


# changed by hand


async def test_what_was_changed_by_hand_is_replaced_only_where_it_is_named() -> None:
    world = await promoted()
    world.live.change("kb-hand")
    message = await refusal(world)
    assert "changed by hand: it is 'kb-hand', and the last change here made it 'kb-v2'" in message
    assert "not 'kb-v2'" in await refusal(world, LiveMovedError, confirm_live="kb-v2")
    made = await world.rollback(confirm_live="kb-hand")
    assert (made.before, world.live.index) == ("kb-hand", "kb-v1")


async def test_what_was_rolled_back_by_hand_is_not_gone_forward_from() -> None:
    world = await promoted("kb-v2", "kb-v3")
    world.live.change("kb-v2")
    await world.rollback(confirm_live="kb-v2")
    assert world.live.index == "kb-v1"


# drills


async def test_a_drill_does_everything_but_the_write_and_says_what_would_have_happened() -> None:
    world = await promoted()
    made = await world.rollback(drill=True)
    assert world.live.index == "kb-v2"
    assert world.live.written == ["kb-v2"]
    assert (
        made.message
        == "Drill: live would have become 'kb-v1', with 100 documents; it is 'kb-v2', and stays so."
    )
    last = await world.last()
    assert (last.kind, last.before, last.after, last.reason) == (Kind.DRILLED, "kb-v2", "kb-v1", made.message)
    assert len(history(await world.records())) == 1
    assert (await world.rollback()).after == "kb-v1"  # a drill changes nothing of what follows


async def test_a_drill_is_refused_as_the_real_thing_would_be() -> None:
    world = await promoted()
    del world.gate.search.indexes["kb-v1"]
    assert "is gone" in await refusal(world, drill=True)
    assert str((await world.last()).reason).startswith("Drill of a roll back refused.")


async def test_a_drill_tells_of_a_lock() -> None:
    world = await promoted()
    world.live.locked = True
    assert "locked" in (await world.rollback(drill=True)).message


# when things fail


async def test_a_change_in_between_is_not_overwritten() -> None:
    world = await promoted()
    world.live.before_write = lambda live: live.change("kb-v9")
    with pytest.raises(LiveMovedError):
        await world.rollback()
    assert world.live.index == "kb-v9"
    assert (await world.last()).kind is Kind.CLOSED


async def test_two_at_once_go_back_once() -> None:
    world = await promoted("kb-v2", "kb-v3")
    answers = await asyncio.gather(world.rollback(), world.rollback(), return_exceptions=True)
    assert world.live.index == "kb-v2"
    assert [isinstance(each, ConflictError) for each in answers].count(True) == 1


async def test_a_locked_key_and_a_silent_place_are_told_and_closed() -> None:
    world = await promoted()
    world.live.locked = True
    with pytest.raises(LiveLockedError):
        await world.rollback()
    world.live.locked = False
    world.live.fail(operation="point", when=When.BEFORE)
    with pytest.raises(LiveError):
        await world.rollback()
    assert (await world.last()).kind is Kind.CLOSED
    await world.rollback()
    assert world.live.index == "kb-v1"


async def test_while_a_change_is_under_way_none_is_begun() -> None:
    world = await promoted()
    world.live.fail(operation="point", when=When.AFTER)
    with pytest.raises(LiveError):
        await world.rollback()
    with pytest.raises(ConflictError, match="A roll back to 'kb-v1' by ops is under way"):
        await world.rollback()
    world.clock.tick(seconds=61)
    with pytest.raises(ConflictError, match="nothing further"):
        await world.rollback()
    assert [each.kind for each in history(await world.records())] == [Kind.PROMOTED, Kind.ROLLED_BACK]


async def test_a_search_service_that_does_not_tell_is_passed_on() -> None:
    world = await promoted()
    world.gate.search.down = BrokenError("unreachable", "no connection")
    with pytest.raises(BrokenError):
        await world.rollback()
    assert world.live.index == "kb-v2"


async def test_a_reason_that_no_document_can_hold_is_refused() -> None:
    world = await promoted()
    with pytest.raises(InputError):
        await world.rollback(reason="x" * 4001)
