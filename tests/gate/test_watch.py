"""Watching what was promoted: until it holds, to the end, and rolled back where that is wanted."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.domain.audit import Kind, Record, history
from app.domain.errors import BrokenError, FailureCode, LiveLockedError, QueryError
from app.domain.overrides import OverrideDraft
from app.domain.review import ReviewDraft, Ruling, Signature
from app.domain.watch import Shown, Watch, Watched
from app.gate.flip import Change, flip
from app.gate.follow import followed
from app.gate.promote import Promotion
from app.gate.reviews import override, review
from app.gate.watch import Watches, take_up, to_watch, watch
from tests.gate.executing import lines
from tests.gate.promoting import TOML, Promoting

AUTOMATIC = TOML.replace("[policy]\n", "[policy]\nauto_rollback = true\n")
CRITICAL = lines(2, critical=True)


async def promoted(jsonl: str = CRITICAL, *, toml: str = TOML, **members: Any) -> tuple[Promoting, Promotion]:
    world = await Promoting.make(jsonl, toml=toml, **members)
    made = await world.promote()
    world.gate.search.asked.clear()
    return world, made


def result(record: Record) -> Watched:
    assert record.kind is Kind.WATCHED
    assert record.watch is not None
    return record.watch


def lose(world: Promoting, question: str = "question 1", index: str = "kb-v2") -> None:
    world.gate.search.index(index).answer(question, ("x", "x"))


def asked(world: Promoting) -> list[tuple[str, str]]:
    return [(each.index, each.text) for each in world.gate.search.asked]


async def test_the_critical_questions_are_asked_of_the_live_index_at_once_and_again() -> None:
    world, made = await promoted()
    found = result(await world.watch(made))
    assert found.state is Watch.HELD
    assert [(each.id, each.shown, each.rank, each.judged, each.tries) for each in found.questions] == [
        ("q1", Shown.HOLDS, 2, 2, 2),
        ("q2", Shown.HOLDS, 2, 2, 2),
    ]
    assert sorted(asked(world)) == [("kb-v2", "question 1")] * 2 + [("kb-v2", "question 2")] * 2


async def test_the_result_is_recorded_and_says_that_applications_refresh_at_their_own_pace() -> None:
    world, made = await promoted()
    record = await world.watch(made)
    assert record == await world.last()
    assert (record.intent, record.run, record.after) == (made.record.number, "run-001", "kb-v2")
    assert "at their own pace" in result(record).note
    assert "2 questions asked of 'kb-v2': 2 hold" in result(record).note


async def test_where_applications_ask_an_alias_the_alias_is_asked() -> None:
    world, made = await promoted()
    world.live.alias = "kb-live"
    world.gate.search.index("kb-live").otherwise = ("d1",)
    found = result(await world.watch(made))
    assert found.asked == "kb-live"
    assert {index for index, _ in asked(world)} == {"kb-live"}


async def test_questions_that_are_not_critical_are_not_asked() -> None:
    world, made = await promoted(lines(2))
    found = result(await world.watch(made))
    assert (found.state, found.questions) == (Watch.NOTHING_TO_ASK, ())
    assert asked(world) == []


async def test_a_question_is_asked_until_it_holds() -> None:
    world, made = await promoted()
    world.gate.search.index("kb-v2").answered["question 1"] = 0
    world.gate.search.index("kb-v2").answer("question 1", ("x",), ("x",), ("d1",), ("d1",))
    found = result(await world.watch(made))
    assert found.state is Watch.HELD
    assert {each.id: each.tries for each in found.questions} == {"q1": 4, "q2": 2}


async def test_a_question_that_never_holds_has_failed_after_a_bounded_number_of_tries() -> None:
    world, made = await promoted()
    lose(world)
    found = result(await world.watch(made))
    assert found.state is Watch.FAILED
    assert [(each.id, each.shown, each.rank, each.judged) for each in found.questions] == [
        ("q1", Shown.FAILED, None, 2),
        ("q2", Shown.HOLDS, 2, 2),
    ]
    assert asked(world).count(("kb-v2", "question 1")) == 2 * world.limits.watch_tries
    assert world.live.index == "kb-v2"  # reported; not rolled back without auto_rollback


async def test_what_holds_at_first_and_not_after_the_propagation_time_has_failed() -> None:
    world, made = await promoted(lines(1, critical=True))
    world.gate.search.index("kb-v2").answered["question 1"] = 0
    world.gate.search.index("kb-v2").answer("question 1", ("d1",), *[("x",)] * 3)
    found = result(await world.watch(made))
    assert found.state is Watch.FAILED
    assert found.questions[0].tries == 4


@pytest.mark.parametrize(("place", "said"), [(30, None), (10, 30)])
async def test_the_propagation_time_is_counted_from_the_flip(
    monkeypatch: pytest.MonkeyPatch, place: float, said: float | None
) -> None:
    """The place's own, unless the limits say another."""
    limits = replace(Promoting().limits, watch_pause_seconds=0, propagation_seconds=said)
    world, made = await promoted(limits=limits)
    world.live.propagation_seconds = place
    world.clock.tick(seconds=12)
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr("app.gate.watch.asyncio.sleep", noted)
    await world.watch(made)
    assert 18 in slept


async def test_a_forbidden_document_fails_the_watch_even_where_the_answer_holds() -> None:
    world, made = await promoted(lines(1, critical=True, forbidden=["secret"]))
    world.gate.search.index("kb-v2").answer("question 1", ("d1", "secret"))
    found = result(await world.watch(made))
    assert found.state is Watch.FAILED
    assert found.questions[0].forbidden == ("secret",)


async def test_what_could_not_be_asked_is_an_error_and_never_rolled_back() -> None:
    world, made = await promoted(toml=AUTOMATIC)
    world.gate.search.index("kb-v2").fail("question 1", QueryError(FailureCode.TIMED_OUT, "too slow"))
    found = result(await world.watch(made))
    assert found.state is Watch.ERROR
    assert [(each.shown, each.message) for each in found.questions] == [
        (Shown.ERROR, "too slow"),
        (Shown.HOLDS, None),
    ]
    assert world.live.index == "kb-v2"


async def test_an_error_that_goes_away_is_none() -> None:
    world, made = await promoted()
    world.gate.search.index("kb-v2").fail(
        "question 1", QueryError(FailureCode.TIMED_OUT, "too slow"), times=2
    )
    assert result(await world.watch(made)).state is Watch.HELD


async def test_an_index_that_cannot_be_asked_at_all_is_an_error() -> None:
    world, made = await promoted()
    world.gate.search.index("kb-v2").broken = BrokenError("field-missing", "no such field")
    assert result(await world.watch(made)).state is Watch.ERROR


# as judged


async def test_a_critical_question_that_was_out_on_both_sides_is_as_it_was_judged() -> None:
    world = Promoting()
    for index in ("kb-v1", "kb-v2"):
        lose(world, index=index)
    world.deploy("hr", CRITICAL, AUTOMATIC)
    await world.run()
    found = result(await world.watch(await world.promote()))
    assert found.state is Watch.HELD
    assert [each.shown for each in found.questions] == [Shown.AS_JUDGED, Shown.HOLDS]
    assert "1 are out of context, as they were judged: q1" in found.note
    assert world.live.index == "kb-v2"


async def overruled(*, toml: str = AUTOMATIC) -> tuple[Promoting, Promotion]:
    """q1 and q2, both critical; the candidate loses q1, which is overridden."""
    world = Promoting()
    lose(world)
    world.deploy("hr", CRITICAL, toml)
    await world.run()
    draft = OverrideDraft(reason="bearable", questions=("q1",), watch="support")
    await override(world.gate.records, "run-001", draft, Signature(by="owner", at=world.clock(), mark="m"))
    made = await world.promote()
    world.gate.search.asked.clear()
    return world, made


async def test_an_overridden_question_that_stays_out_is_reported_and_does_not_fail() -> None:
    world, made = await overruled()
    found = result(await world.watch(made))
    assert found.state is Watch.HELD
    assert [(each.shown, each.accepted) for each in found.questions] == [
        (Shown.AS_JUDGED, True),
        (Shown.HOLDS, False),
    ]
    assert world.live.index == "kb-v2"


async def test_an_overridden_run_fails_its_watch_where_another_question_is_lost() -> None:
    world, made = await overruled()
    lose(world, "question 2")
    found = result(await world.watch(made))
    assert [each.id for each in found.failed] == ["q2"]
    assert world.live.index == "kb-v1"


async def test_a_question_that_a_reviewer_accepted_is_watched_though_it_is_not_critical() -> None:
    world = Promoting()
    lose(world)
    world.deploy("hr", lines(3), AUTOMATIC.replace("[policy]\n", "[policy]\nmax_net_loss = 1\n"))
    await world.run()
    draft = ReviewDraft(question="q1", decision=Ruling.ACCEPTABLE, reason="rarely asked")
    await review(world.gate.records, "run-001", draft, Signature(by="owner", at=world.clock(), mark="m"))
    found = result(await world.watch(await world.promote()))
    assert [(each.id, each.shown, each.accepted) for each in found.questions] == [
        ("q1", Shown.AS_JUDGED, True)
    ]


# rolling back


async def test_a_failed_watch_is_rolled_back_where_the_set_says_so() -> None:
    world, made = await promoted(toml=AUTOMATIC)
    lose(world)
    record = await world.watch(made)
    assert result(record).state is Watch.FAILED
    assert world.live.index == "kb-v1"
    intent, end = (await world.records())[-2:]
    assert (intent.kind, end.kind, end.actor) == (Kind.ROLLING_BACK, Kind.ROLLED_BACK, "the gate itself")
    assert str(end.reason) == "auto_rollback: after the promotion of run run-001 these failed: q1"


async def test_an_automatic_roll_back_that_is_refused_is_recorded_and_not_tried_again_and_again() -> None:
    world, made = await promoted(toml=AUTOMATIC)
    lose(world)
    del world.gate.search.indexes["kb-v1"]
    await world.watch(made)
    assert world.live.index == "kb-v2"
    last = await world.last()
    assert (last.kind, last.intent) == (Kind.REFUSED, made.record.number)
    assert "is gone" in str(last.reason)
    count = len(await world.records())
    await take_up(world.control())
    assert len(await world.records()) == count


async def test_a_failure_of_long_ago_does_not_roll_back_a_later_promotion_of_the_same_index() -> None:
    world, made = await promoted(toml=AUTOMATIC)
    lose(world)
    await world.watch(made)
    assert world.live.index == "kb-v1"
    world.gate.search.index("kb-v2").answer("question 1", ("d1",))
    again = await world.run()
    await world.promote(again.id)
    await world.watch(made)
    assert world.live.index == "kb-v2"


async def test_what_was_changed_since_is_not_rolled_back() -> None:
    world, made = await promoted(toml=AUTOMATIC)
    lose(world)
    world.live.change("kb-hand")
    found = result(await world.watch(made))
    assert found.state is Watch.SUPERSEDED
    assert "Live is 'kb-hand' by now, and no longer 'kb-v2'" in found.note
    assert world.live.index == "kb-hand"


# taken up again


async def test_a_promotion_is_watched_once() -> None:
    world, made = await promoted()
    first = await world.watch(made)
    world.gate.search.asked.clear()
    assert await world.watch(made) == first
    assert asked(world) == []


async def test_two_processes_that_watch_the_same_promotion_record_one_result() -> None:
    world, made = await promoted(toml=AUTOMATIC)
    lose(world)
    await asyncio.gather(*(watch(world.control(), made.record) for _ in range(3)), return_exceptions=True)
    kinds = await world.kinds()
    assert kinds.count(Kind.WATCHED) == 1
    assert kinds.count(Kind.ROLLED_BACK) == 1
    assert world.live.written == ["kb-v2", "kb-v1"]


async def test_a_start_takes_up_a_watch_that_was_cut_off() -> None:
    world, _ = await promoted()
    assert to_watch(await world.records()) is not None
    await take_up(world.control())
    assert (await world.last()).kind is Kind.WATCHED
    assert to_watch(await world.records()) is None


async def test_a_start_says_that_there_is_nothing_to_watch_where_live_is_something_else() -> None:
    world, _ = await promoted()
    world.live.change("kb-v9")
    await take_up(world.control())
    assert result(await world.last()).state is Watch.SUPERSEDED


async def test_a_start_does_not_watch_what_was_rolled_back() -> None:
    world, _ = await promoted()
    await world.rollback()
    await take_up(world.control())
    assert (await world.last()).kind is Kind.ROLLED_BACK


async def test_a_start_with_nothing_to_take_up_does_nothing() -> None:
    world = await Promoting.make()
    await take_up(world.control())
    assert await world.records() == ()


async def test_a_run_that_is_gone_is_not_watched() -> None:
    world, made = await promoted()
    for name in list(world.gate.store.documents):
        if not name.startswith("audit/"):
            await world.gate.store.delete(name)
    assert await watch(world.control(), made.record) is None


async def test_watches_are_launched_taken_up_and_ended_with_the_process() -> None:
    world, made = await promoted()
    watches = Watches(control=world.control())
    watches.launch(made.record)
    await watches.done()
    assert (await world.last()).kind is Kind.WATCHED
    await watches.stop()

    other, _ = await promoted()
    other.gate.search.hold()
    cut = Watches(control=other.control())
    cut.resume()
    await other.gate.search.somebody_asked.wait()
    await cut.stop()
    assert (await other.last()).kind is Kind.PROMOTED
    other.gate.search.release()
    await take_up(other.control())
    assert (await other.last()).kind is Kind.WATCHED


async def test_a_watch_whose_store_fails_is_left_to_the_next_start(caplog: pytest.LogCaptureFixture) -> None:
    world, made = await promoted()
    world.gate.store.fail(operation="create", name="audit/")
    watches = Watches(control=world.control())
    watches.launch(made.record)
    await watches.done()
    assert "was not watched" in caplog.text
    await take_up(world.control())
    assert (await world.last()).kind is Kind.WATCHED
    assert len(history(await world.records())) == 1


# what stands in the way for a while


async def failed_watch() -> tuple[Promoting, Promotion]:
    """A promotion that is to be rolled back."""
    world, made = await promoted(toml=AUTOMATIC)
    lose(world)
    return world, made


async def test_a_roll_back_waits_for_a_change_that_is_under_way_and_comes_to_nothing() -> None:
    world, made = await failed_watch()
    control = world.control()
    live = await control.live()
    again = Change(kind=Kind.PROMOTING, actor="two", before=live, after="kb-v3")
    world.live.before_write = lambda place: setattr(place, "locked", True)  # so that it comes to nothing
    watching = asyncio.create_task(watch(control, made.record))
    with pytest.raises(LiveLockedError):
        await flip(world.control(), again)
    world.live.before_write = lambda _: None
    world.live.locked = False
    await watching
    assert world.live.index == "kb-v1"
    assert (await world.last()).kind is Kind.ROLLED_BACK


async def test_a_roll_back_that_fails_at_first_is_made_in_the_end() -> None:
    world, made = await failed_watch()
    world.live.fail(operation="point")
    world.live.fail(2, operation="point")
    await world.watch(made)
    assert world.live.index == "kb-v1"
    kinds = await world.kinds()
    assert (kinds.count(Kind.CLOSED), kinds.count(Kind.ROLLED_BACK)) == (2, 1)


async def test_a_roll_back_that_never_succeeds_is_recorded_as_refused_and_ends_the_waiting() -> None:
    world, made = await failed_watch()
    world.live.locked = True
    await world.watch(made)
    last = await world.last()
    assert (last.kind, last.actor, last.intent) == (Kind.REFUSED, "the gate itself", made.record.number)
    assert (last.before, last.after) == ("kb-v2", "kb-v1")
    assert "Roll back refused. " in str(last.reason)
    assert "locked" in str(last.reason)
    assert (await world.kinds()).count(Kind.ROLLING_BACK) == 3, "as often as a question is asked"
    found = await followed(world.control().trail, world.control().records, "run-001", 0)
    assert found.ended
    assert found.refused == last


async def test_where_it_cannot_be_read_what_is_live_the_watch_ends_as_an_error() -> None:
    world, made = await promoted()
    for n in (1, 2):
        world.live.fail(n, operation="read")
    found = result(await world.watch(made))
    assert found.state is Watch.ERROR
    assert "What is live could not be read: the fake does not answer." in found.note
    assert [each.shown for each in found.questions] == [Shown.HOLDS, Shown.HOLDS]


async def test_what_is_live_is_read_again_at_the_end() -> None:
    world, made = await promoted()
    world.live.fail(operation="read")
    assert result(await world.watch(made)).state is Watch.HELD


async def test_a_question_that_failed_is_rolled_back_though_it_cannot_be_read_what_is_live() -> None:
    world, made = await failed_watch()
    for n in (1, 2):
        world.live.fail(n, operation="read")
    assert result(await world.watch(made)).state is Watch.FAILED
    assert world.live.index == "kb-v1"


async def test_a_watch_that_was_cut_off_is_begun_again_by_whoever_asks_again() -> None:
    world, made = await promoted()
    world.gate.store.fail(operation="create", name="audit/")
    watches = Watches(control=world.control())
    watches.launch(made.record)
    await watches.done()
    assert (await world.last()).kind is Kind.PROMOTED
    world.gate.search.asked.clear()
    watches.launch(made.record)
    watches.launch(made.record)
    await watches.done()
    assert (await world.last()).kind is Kind.WATCHED
    assert len(asked(world)) == 4, "two questions, twice each, by one watch"
