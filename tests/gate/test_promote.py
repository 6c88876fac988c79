"""Promotions: what is written, what is recorded, and what is refused."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.domain.audit import Kind, history
from app.domain.clearance import Rules
from app.domain.condition import Need
from app.domain.errors import (
    BrokenError,
    ConflictError,
    InputError,
    LiveError,
    LiveLockedError,
    LiveMovedError,
    LiveUncertainError,
    NotClearedError,
    NotFoundError,
    StorageError,
)
from app.domain.golden import GoldenTexts
from app.domain.overrides import OverrideDraft
from app.domain.reasons import Verdict
from app.domain.review import Signature
from app.gate.promote import PromoteRequest, promote
from app.gate.reviews import override
from tests.fakes.live import When
from tests.fakes.search import DEFINITION
from tests.fakes.store import When as Stored
from tests.gate.executing import PLAIN, lines
from tests.gate.promoting import TOML, Promoting


async def refused(world: Promoting, run_id: str = "run-001", **request: Any) -> dict[Need, str]:
    """The conditions that do not hold; live must be untouched and the attempt recorded."""
    before, flips = (world.live.index, world.live.etag), history(await world.records())
    with pytest.raises(NotClearedError) as caught:
        await world.promote(run_id, **request)
    assert (world.live.index, world.live.etag) == before
    last = await world.last()
    assert (last.kind, last.run, last.actor) == (Kind.REFUSED, run_id, "ops")
    assert last.conditions == caught.value.conditions
    assert history(await world.records()) == flips
    return {each.code: each.message for each in caught.value.conditions}


# what a promotion is


async def test_a_cleared_candidate_becomes_live_and_both_sides_of_it_are_recorded() -> None:
    world = await Promoting.make()
    made = await world.promote(reason="  the new chunker ")
    assert world.live.index == "kb-v2"
    assert made.live is not None
    assert (made.live.index, made.live.etag, made.again) == ("kb-v2", '"2"', False)
    intent, end = await world.records()
    assert (intent.kind, end.kind, end.intent) == (Kind.PROMOTING, Kind.PROMOTED, intent.number)
    assert (end.actor, end.run, end.before, end.after) == ("ops", "run-001", "kb-v1", "kb-v2")
    assert (end.etag_before, end.etag_after, end.reason) == ('"1"', '"2"', "the new chunker")
    assert made.record == end
    assert made.clearance is not None
    assert made.clearance.cleared
    assert world.live.calls == ["read", "point", "read"]


async def test_the_intent_is_recorded_before_the_write() -> None:
    world = await Promoting.make()
    seen: list[list[str]] = []
    world.live.before_write = lambda _: seen.append([n for n in world.gate.store.documents if "audit/" in n])
    await world.promote()
    assert seen == [["audit/00000001.json"]]


async def test_the_same_promotion_asked_twice_is_one() -> None:
    world = await Promoting.make()
    first = await world.promote()
    again = await world.promote(by="somebody else")
    assert again.again
    assert again.record == first.record
    assert world.live.written == ["kb-v2"]
    assert len(await world.records()) == 2


async def test_the_same_promotion_asked_twice_at_the_same_moment_is_one() -> None:
    world = await Promoting.make()
    answers = await asyncio.gather(*(world.promote() for _ in range(4)), return_exceptions=True)
    assert world.live.written == ["kb-v2"]
    assert len(history(await world.records())) == 1
    made = [each for each in answers if not isinstance(each, BaseException)]
    assert {each.record.number for each in made} == {history(await world.records())[0].number}
    assert [each.again for each in made].count(False) == 1
    assert all(isinstance(each, ConflictError) for each in answers if isinstance(each, BaseException))


async def test_what_was_promoted_and_changed_back_by_hand_can_be_promoted_again() -> None:
    world = await Promoting.make()
    await world.promote()
    world.live.change("kb-v1")
    made = await world.promote()
    assert not made.again
    assert world.live.written == ["kb-v2", "kb-v1", "kb-v2"]
    assert len(history(await world.records())) == 2


async def test_an_unknown_run_is_not_found_and_nothing_is_recorded() -> None:
    world = await Promoting.make()
    with pytest.raises(NotFoundError):
        await world.promote("run-999")
    assert await world.records() == ()


async def test_a_reason_that_no_document_can_hold_is_refused() -> None:
    world = await Promoting.make()
    with pytest.raises(InputError, match="half of a surrogate pair"):
        await world.promote(reason="\ud83d")


async def test_a_run_that_is_not_done_is_refused() -> None:
    world = await Promoting.make()
    await world.gate.start("", golden_set="hr")
    found = await refused(world, "run-002")
    assert found[Need.VERDICT] == "The run is queued: wait until it is done."


# S23: the candidate is not what was judged


async def test_s23_a_candidate_rebuilt_under_the_same_name_is_refused_with_both_etags() -> None:
    world = await Promoting.make()
    world.gate.search.index("kb-v2").etag = "0x2"
    found = await refused(world)
    assert set(found) == {Need.CANDIDATE_UNCHANGED}
    assert "its etag was 0x1 and is 0x2" in found[Need.CANDIDATE_UNCHANGED]
    assert "Run again" in found[Need.CANDIDATE_UNCHANGED]


async def test_s23_a_candidate_of_another_count_only_is_refused_with_both_counts() -> None:
    world = await Promoting.make()
    world.gate.search.index("kb-v2").documents = 101
    found = await refused(world)
    assert set(found) == {Need.CANDIDATE_UNCHANGED}
    assert "it held 100 documents and holds 101" in found[Need.CANDIDATE_UNCHANGED]


async def test_s23_a_candidate_of_another_semantic_configuration_only_is_refused() -> None:
    world = await Promoting.make()
    fewer = {
        "defaultConfiguration": "default",
        "configurations": [{"name": "default", "prioritizedFields": {}}],
    }
    world.gate.search.index("kb-v2").definition = {**DEFINITION, "semantic": fewer}
    found = await refused(world)
    assert set(found) == {Need.CANDIDATE_UNCHANGED}
    assert "its definition was sha256:" in found[Need.CANDIDATE_UNCHANGED]


async def test_s23_a_verdict_of_fourteen_days_ago_is_refused_with_its_age_and_the_limit() -> None:
    world = await Promoting.make()
    world.clock.tick(days=14)
    found = await refused(world)
    assert set(found) == {Need.AGE}
    assert "336.0 hours old; max_verdict_age_hours is 72" in found[Need.AGE]


async def test_s23_a_candidate_that_was_deleted_is_refused() -> None:
    world = await Promoting.make()
    del world.gate.search.indexes["kb-v2"]
    found = await refused(world)
    assert "There is no index 'kb-v2'" in found[Need.CANDIDATE_UNCHANGED]


async def test_s23_what_was_fingerprinted_is_kept_with_the_run() -> None:
    world = await Promoting.make()
    run, _ = await world.gate.records.read("run-001")
    assert run.fingerprint is not None
    assert (run.fingerprint.candidate.etag, run.fingerprint.candidate.documents) == ("0x1", 100)
    assert str(run.fingerprint.candidate.definition_digest).startswith("sha256:")
    assert run.fingerprint.golden_set == run.golden_set.digest


async def test_a_name_that_became_an_alias_of_another_index_is_refused() -> None:
    world = await Promoting.make()
    world.gate.search.index("kb-v7")
    world.gate.search.aliases["kb-v2"] = "kb-v7"
    assert "it is the index 'kb-v7', and was 'kb-v2'" in (await refused(world))[Need.CANDIDATE_UNCHANGED]


async def test_definitions_that_may_not_be_read_any_more_are_refused() -> None:
    world = await Promoting.make()
    world.gate.search.index("kb-v2").definition = None
    assert "could not be read now" in (await refused(world))[Need.CANDIDATE_UNCHANGED]


async def test_a_candidate_judged_without_its_definition_is_refused() -> None:
    world = Promoting()
    world.gate.search.index("kb-v2").definition = None
    named = (
        '[query]\nmode = "keyword"\nsemantic = false\nkey_field = "chunk_id"\nparent_field = "parent_id"\n'
    )
    world.deploy("hr", lines(2), f'{named}text_field = "chunk"\n{PLAIN}')
    run = await world.run()
    assert run.verdict is Verdict.PASS
    assert Need.RECOGNISABLE in await refused(world)


async def test_changed_synonym_maps_are_refused() -> None:
    world = Promoting()
    world.gate.search.synonyms = {"hr": "0x1"}
    world.deploy("hr", lines(2))
    await world.run()
    world.gate.search.synonyms = {"hr": "0x2"}
    assert "synonym maps" in (await refused(world))[Need.CANDIDATE_UNCHANGED]


async def test_a_baseline_that_is_no_longer_live_is_refused_and_both_are_named() -> None:
    world = await Promoting.make()
    world.live.change("kb-v9")
    found = await refused(world)
    assert set(found) == {Need.BASELINE_LIVE}
    assert "compared with 'kb-v1', and live is 'kb-v9'" in found[Need.BASELINE_LIVE]


async def test_a_baseline_that_was_rebuilt_is_refused() -> None:
    world = await Promoting.make()
    world.gate.search.index("kb-v1").etag = "0x9"
    assert set(await refused(world)) == {Need.BASELINE_UNCHANGED}


async def test_a_key_that_names_an_alias_of_the_baseline_names_the_baseline() -> None:
    world = await Promoting.make()
    world.gate.search.aliases["kb"] = "kb-v1"
    world.live.index = "kb"
    await world.promote()
    assert world.live.index == "kb-v2"


# what cannot be promoted


async def test_an_easy_set_sent_along_cannot_be_promoted() -> None:
    world = await Promoting.make()
    easy = GoldenTexts(name="hr", jsonl=lines(1), toml=TOML)
    await world.gate.run("", golden_set=None, golden=easy)
    found = await refused(world, "run-002")
    assert "was sent along, not deployed" in found[Need.TRUSTED]
    assert "is deployed now" in found[Need.SET_CURRENT]


async def test_a_set_sent_along_can_be_where_that_is_admitted_and_is_recorded_by_digest() -> None:
    world = await Promoting.make(rules=Rules(sent_sets=True))
    sent = await world.gate.run(
        "", golden_set=None, golden=GoldenTexts(name="mine", jsonl=lines(1), toml=TOML)
    )
    made = await world.promote("run-002")
    assert made.record.golden_set == sent.golden_set.digest


@pytest.mark.parametrize("sent_sets", [False, True])
async def test_a_looser_policy_cannot_be_promoted(sent_sets: bool) -> None:
    world = await Promoting.make(rules=Rules(sent_sets=sent_sets))
    await world.run(policy={"max_net_loss": 5})
    assert "looser than the set's own in max_net_loss" in (await refused(world, "run-002"))[Need.TRUSTED]


async def test_a_looser_policy_than_that_of_a_set_sent_along_cannot_be_promoted_either() -> None:
    world = await Promoting.make(rules=Rules(sent_sets=True))
    sent = GoldenTexts(name="mine", jsonl=lines(1), toml=TOML)
    await world.gate.run("", golden_set=None, golden=sent, policy={"max_verdict_age_hours": 1000})
    assert "max_verdict_age_hours" in (await refused(world, "run-002"))[Need.TRUSTED]


async def test_a_stricter_policy_can_be_promoted() -> None:
    world = await Promoting.make()
    await world.run(policy={"max_verdict_age_hours": 1})
    await world.promote("run-002")
    assert world.live.index == "kb-v2"


async def test_a_noise_study_cannot_be_promoted() -> None:
    world = await Promoting.make()
    await world.run(candidate_index="kb-v1", baseline_index=None, noise_study=True)
    assert Need.SOMETHING_TO_PROMOTE in await refused(world, "run-002")


async def test_a_set_that_was_changed_since_cannot_be_promoted_on() -> None:
    world = await Promoting.make()
    world.deploy("hr", lines(3))
    assert set(await refused(world)) == {Need.SET_CURRENT}


async def test_a_query_that_was_changed_since_cannot_be_promoted_on() -> None:
    world = await Promoting.make()
    world.deploy("hr", lines(2), TOML.replace("semantic = false", "semantic = false\ncontext_size = 4"))
    assert set(await refused(world)) == {Need.SET_CURRENT, Need.QUERY_CURRENT}


async def test_a_set_that_was_removed_since_cannot_be_promoted_on() -> None:
    world = await Promoting.make()
    world.deploy("hr", None)
    assert set(await refused(world)) == {Need.SET_CURRENT, Need.QUERY_CURRENT}


async def test_a_failed_run_cannot_be_promoted() -> None:
    world = await losing()
    assert set(await refused(world)) == {Need.VERDICT}


# overrides


async def losing(**members: Any) -> Promoting:
    """The candidate loses q1, which is critical."""
    world = Promoting(**members)
    world.gate.search.index("kb-v2").answer("question 1", ("x", "x"))
    world.deploy("hr", lines(2, critical=True))
    run = await world.run()
    assert run.verdict is Verdict.FAIL
    return world


async def overrule(world: Promoting, by: str | None = "owner") -> None:
    draft = OverrideDraft(reason="bearable", questions=("q1",), watch="support")
    await override(world.gate.records, "run-001", draft, Signature(by=by, at=world.clock(), mark="m"))


async def test_an_overridden_run_is_promoted_by_somebody_else_and_its_use_is_recorded() -> None:
    world = await losing()
    await overrule(world)
    with pytest.raises(NotClearedError, match="owner overrode this run"):
        await world.promote(by="owner")
    made = await world.promote(by="ops")
    assert world.live.index == "kb-v2"
    intent, used, end = (await world.records())[1:]
    assert [each.kind for each in (intent, used, end)] == [Kind.PROMOTING, Kind.OVERRIDE_USED, Kind.PROMOTED]
    assert used.intent == intent.number
    assert used.override == intent.override == made.record.override
    assert str(made.record.override).endswith("-m")


# required sets


REQUIRED = Rules(required_sets=("hr", "it"))


async def two_sets() -> Promoting:
    world = Promoting(rules=REQUIRED)
    world.deploy("hr", lines(2))
    world.deploy("it", lines(3))
    await world.run()
    return world


async def test_without_a_run_of_a_required_set_nothing_is_promoted() -> None:
    world = await two_sets()
    found = await refused(world)
    assert set(found) == {Need.REQUIRED_SET}
    assert "'it' has no cleared run: no run of it compared 'kb-v1' with 'kb-v2'" in found[Need.REQUIRED_SET]


async def test_with_a_cleared_run_of_each_required_set_it_is_promoted() -> None:
    world = await two_sets()
    await world.run("it")
    await world.promote()
    assert world.live.index == "kb-v2"


async def test_from_either_of_the_required_sets() -> None:
    world = await two_sets()
    await world.run("it")
    await world.promote("run-002")
    assert world.live.index == "kb-v2"


async def test_a_failed_run_of_a_required_set_says_why() -> None:
    world = await two_sets()
    world.gate.search.index("kb-v2").answer("question 3", ("x",))
    await world.run("it")
    message = (await refused(world))[Need.REQUIRED_SET]
    assert "its newest run run-002: The verdict is FAIL" in message


async def test_an_older_cleared_run_of_a_required_set_does() -> None:
    world = await two_sets()
    await world.run("it")
    await world.run("it", policy={"max_net_loss": 9})  # newer, and not trusted
    await world.promote()
    assert world.live.index == "kb-v2"


@pytest.mark.parametrize(
    "other",
    [
        {"candidate_index": "kb-v3"},
        {"baseline_index": "kb-v3"},
        {"policy": {"max_net_loss": 9}},
        {"golden_set": None, "golden": GoldenTexts(name="it", jsonl=lines(3), toml=TOML)},
    ],
)
async def test_a_run_of_a_required_set_over_something_else_does_not_do(other: dict[str, Any]) -> None:
    world = await two_sets()
    world.gate.search.index("kb-v3").otherwise = ("x", "d1")
    await world.run(**{"golden_set": "it", **other})
    assert set(await refused(world)) == {Need.REQUIRED_SET}


async def test_a_run_of_a_required_set_over_another_build_of_the_candidate_does_not_do() -> None:
    world = await two_sets()
    await world.run("it")
    world.gate.search.index("kb-v2").etag = "0x2"
    await world.run("hr")
    message = (await refused(world, "run-003"))[Need.REQUIRED_SET]
    assert "its etag was 0x1 and is 0x2" in message


async def test_a_run_of_a_required_set_over_other_contents_of_the_candidate_does_not_do() -> None:
    world = Promoting(rules=REQUIRED)
    candidate = world.gate.search.index("kb-v2")
    candidate.documents, candidate.stored = 1, [{"chunk_id": "1", "parent_id": "d1", "chunk": "old"}]
    world.deploy("hr", lines(2))
    world.deploy("it", lines(3))
    await world.run("it")
    candidate.stored = [{"chunk_id": "1", "parent_id": "d1", "chunk": "new"}]  # neither etag nor count tells
    await world.run("hr")
    message = (await refused(world, "run-002"))[Need.REQUIRED_SET]
    assert "judged another candidate of that name: its contents were sha256:" in message


async def test_a_set_sent_along_does_for_no_required_set_even_where_such_are_admitted() -> None:
    world = Promoting(rules=replace(REQUIRED, sent_sets=True))
    world.deploy("hr", lines(2))
    world.deploy("it", lines(3))
    await world.run()
    await world.run(golden_set=None, golden=GoldenTexts(name="it", jsonl=lines(1), toml=TOML))
    assert set(await refused(world)) == {Need.REQUIRED_SET}
    await world.run(golden_set=None, golden=GoldenTexts(name="hr", jsonl=lines(1), toml=TOML))
    await world.run("it")
    await world.promote("run-003")  # with the deployed hr, run-001, beside it

    alone = Promoting(rules=Rules(required_sets=("hr",), sent_sets=True))
    alone.deploy("hr", lines(2))
    await alone.run(golden_set=None, golden=GoldenTexts(name="hr", jsonl=lines(1), toml=TOML))
    assert set(await refused(alone)) == {Need.REQUIRED_SET}


async def test_a_required_set_that_is_not_deployed_is_named() -> None:
    world = await two_sets()
    await world.run("it")
    world.deploy("it", None)
    assert "not deployed" in (await refused(world))[Need.REQUIRED_SET]


async def test_a_required_set_whose_run_is_too_old_is_named() -> None:
    world = await two_sets()
    await world.run("it", policy={"max_verdict_age_hours": 10})
    world.clock.tick(hours=11)
    message = (await refused(world))[Need.REQUIRED_SET]
    assert "11.0 hours old; max_verdict_age_hours is 10" in message


# S24: two flip at once


async def test_s24_a_change_between_our_read_and_our_write_is_not_overwritten() -> None:
    world = await Promoting.make()
    world.live.before_write = lambda live: live.change("kb-v9")
    with pytest.raises(LiveMovedError) as caught:
        await world.promote()
    assert caught.value.current == "kb-v9"
    assert (world.live.index, world.live.written) == ("kb-v9", ["kb-v9"])
    assert world.live.calls.count("point") == 1  # no blind retry
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED]
    assert history(await world.records()) == ()


async def test_s24_a_lost_answer_that_cannot_be_cleared_up_is_one_promotion_in_the_end() -> None:
    world = await Promoting.make()
    world.live.fail(when=When.AFTER, operation="point")
    with pytest.raises(LiveUncertainError):
        await world.promote()
    assert await world.kinds() == [Kind.PROMOTING]
    with pytest.raises(ConflictError, match=r"by ops is under way since .* \(record 1\)"):
        await world.promote(by="other")
    world.clock.tick(seconds=61)
    made = await world.promote(by="other")
    assert made.again
    assert (made.record.actor, made.record.run) == ("ops", "run-001")
    assert "Completed by other" in str(made.record.reason)
    assert await world.kinds() == [Kind.PROMOTING, Kind.PROMOTED]
    assert world.live.written == ["kb-v2"]


async def test_s24_a_lost_request_that_was_never_written_is_closed_and_made_anew() -> None:
    world = await Promoting.make()
    world.live.fail(when=When.INSTEAD, operation="point")
    with pytest.raises(LiveUncertainError):
        await world.promote()
    world.clock.tick(seconds=61)
    made = await world.promote()
    assert not made.again
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED, Kind.PROMOTING, Kind.PROMOTED]
    assert world.live.written == ["kb-v2"]


async def test_s24_a_key_that_does_not_exist_is_created_only_with_consent() -> None:
    world = await Promoting.make()
    world.live.index = None
    assert "does not exist" in (await refused(world))[Need.BASELINE_LIVE]
    made = await world.promote(create=True)
    assert world.live.index == "kb-v2"
    assert (made.record.before, made.record.etag_before) == (None, None)
    assert world.live.calls.count("create") == 1
    assert "point" not in world.live.calls


async def test_s24_a_key_that_somebody_else_creates_meanwhile_is_not_overwritten() -> None:
    world = await Promoting.make()
    world.live.index = None
    world.live.before_write = lambda live: live.change("kb-v9")
    with pytest.raises(LiveMovedError):
        await world.promote(create=True)
    assert world.live.index == "kb-v9"
    assert (await world.last()).kind is Kind.CLOSED


async def test_s24_a_locked_key_is_told_and_left_alone() -> None:
    world = await Promoting.make()
    world.live.locked = True
    with pytest.raises(LiveLockedError):
        await world.promote()
    assert world.live.written == []
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED]
    assert "locked" in str((await world.last()).reason)


async def test_s24_a_key_that_was_removed_meanwhile_is_not_made_again() -> None:
    world = await Promoting.make()
    world.live.before_write = lambda live: live.change(None)
    with pytest.raises(NotFoundError):
        await world.promote()
    assert world.live.index is None
    assert (await world.last()).kind is Kind.CLOSED


async def test_s24_two_who_promote_different_candidates_at_once_make_one_change_each_at_most() -> None:
    world = await Promoting.make()
    await world.run_to("kb-v3")
    answers = await asyncio.gather(world.promote(), world.promote("run-002"), return_exceptions=True)
    made = [each for each in answers if not isinstance(each, BaseException)]
    assert len(made) == 1
    assert world.live.written == [made[0].record.after]
    assert [each.after for each in history(await world.records())] == world.live.written


# when things fail


async def test_a_place_that_does_not_answer_closes_the_record() -> None:
    world = await Promoting.make()
    world.live.fail(operation="point")
    with pytest.raises(LiveError):
        await world.promote()
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED]
    await world.promote()
    assert world.live.index == "kb-v2"


async def test_a_reading_back_that_fails_undoes_nothing() -> None:
    world = await Promoting.make()
    world.live.fail(2, operation="read")
    made = await world.promote()
    assert made.live is None
    assert "could not be read back" in str(made.record.reason)
    assert (await world.last()).kind is Kind.PROMOTED


async def test_what_is_changed_again_right_after_our_write_is_told_and_stays() -> None:
    world = await Promoting.make()
    world.live.after_write = lambda live: live.change("kb-v9")
    made = await world.promote()
    assert made.live is not None
    assert made.live.index == "kb-v9"
    assert (made.record.after, made.record.etag_after) == ("kb-v2", '"2"')
    assert "changed again since" in str(made.record.reason)


async def test_an_intent_that_cannot_be_recorded_means_no_write() -> None:
    world = await Promoting.make()
    world.gate.store.fail(operation="create", name="audit/")
    with pytest.raises(StorageError):
        await world.promote()
    assert "point" not in world.live.calls
    assert await world.records() == ()


async def test_an_end_that_cannot_be_recorded_says_that_it_is_live_and_is_completed_by_the_next() -> None:
    world = await Promoting.make()
    world.gate.store.fail(2, operation="create", name="audit/")
    with pytest.raises(StorageError, match="'kb-v2' is live now, but that could not be recorded"):
        await world.promote()
    world.clock.tick(seconds=61)
    assert (await world.promote()).again
    assert await world.kinds() == [Kind.PROMOTING, Kind.PROMOTED]


async def test_an_override_whose_use_cannot_be_recorded_is_not_used() -> None:
    world = await losing()
    await overrule(world)
    world.gate.store.fail(2, operation="create", name="audit/")
    with pytest.raises(StorageError):
        await world.promote()
    assert "point" not in world.live.calls
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED]


async def test_a_record_whose_answer_is_lost_after_it_was_kept_does_not_hide_it() -> None:
    world = await Promoting.make()
    world.gate.store.fail(operation="create", name="audit/", when=Stored.AFTER)
    with pytest.raises(StorageError):
        await world.promote()
    assert await world.kinds() == [Kind.PROMOTING]
    world.clock.tick(seconds=61)
    await world.promote()
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED, Kind.PROMOTING, Kind.PROMOTED]


async def test_a_writer_that_was_held_up_too_long_does_not_write() -> None:
    world = await Promoting.make(limits=replace(Promoting().limits, settle_seconds=0))
    with pytest.raises(LiveError, match="nothing was written"):
        await world.promote()
    assert "point" not in world.live.calls
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED]


async def test_a_broken_audit_stops_every_promotion() -> None:
    world = await Promoting.make()
    await world.promote()
    await world.gate.store.delete("audit/00000001.json")
    world.live.change("kb-v1")
    with pytest.raises(StorageError, match=r"audit/00000001.json: it is missing"):
        await world.promote()
    assert world.live.index == "kb-v1"


async def test_a_search_service_that_is_down_refuses_with_what_it_says() -> None:
    world = await Promoting.make()
    world.gate.search.down = BrokenError("unreachable", "no connection to the service")
    found = await refused(world)
    assert "no connection" in found[Need.BASELINE_UNCHANGED]
    assert "no connection" in found[Need.CANDIDATE_UNCHANGED]


# a writer that is presumed dead, and is not


async def test_a_write_that_comes_after_it_was_given_up_is_recorded_all_the_same() -> None:
    world = await Promoting.make()
    control = world.control()

    stalled = asyncio.Event()
    go_on = asyncio.Event()
    point = world.live.point

    async def late(index: str, *, etag: str, deadline: float) -> Any:
        stalled.set()
        await go_on.wait()
        return await point(index, etag=etag, deadline=deadline)

    class Stalling:
        def __getattr__(self, name: str) -> Any:
            return late if name == "point" else getattr(world.live, name)

    promoting = asyncio.create_task(
        promote(replace(control, pointer=Stalling()), PromoteRequest(run_id="run-001"), by="ops")
    )
    await stalled.wait()
    world.clock.tick(seconds=61)
    with pytest.raises(NotFoundError):
        await world.promote("run-999", by="other")  # settles what it finds first
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED]
    go_on.set()
    made = await promoting
    assert await world.kinds() == [Kind.PROMOTING, Kind.CLOSED, Kind.PROMOTED]
    assert history(await world.records()) == (made.record,)
