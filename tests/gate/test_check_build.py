"""Whether a build's stage may go on: only for a PASS with clearance of every set that it had judged."""

import asyncio
from typing import Any

import pytest

from app.domain.change import Change
from app.domain.clearance import Rules
from app.domain.errors import BrokenError, FailureCode, InputError, QueryError
from app.domain.golden import GoldenTexts
from app.domain.overrides import OverrideDraft
from app.domain.reasons import Verdict
from app.domain.review import Signature
from app.gate import check_build as module
from app.gate.check_build import CheckedJob, Checks, Decision, check_build
from app.gate.reviews import override
from tests.azure_devops import SECRET, TOKEN, Told, checked_job
from tests.gate.executing import lines
from tests.gate.promoting import TOML, Promoting

BUILD: dict[str, Any] = {"change": Change(build_id="417")}


async def judged(jsonl: str | None = None, **request: Any) -> Promoting:
    """A world whose first run, of the set hr, is of build 417."""
    world = Promoting()
    world.deploy("hr", jsonl or lines(2))
    await world.run(**{**BUILD, **request})
    return world


async def decided(world: Promoting, build_id: str = "417") -> Decision:
    return await check_build(world.control(), build_id, poll_seconds=0)


def lose(world: Promoting) -> None:
    world.gate.search.index("kb-v2").otherwise = ("x",)


async def test_a_pass_with_clearance_succeeds_and_changes_nothing() -> None:
    world = await judged()
    before = world.gate.store.documents
    found = await decided(world)
    assert found == Decision(succeeded=True, reason="run run-001 of the set 'hr' passed and is cleared")
    assert world.gate.store.documents == before
    assert world.live.written == []


async def test_a_fail_fails() -> None:
    world = Promoting()
    world.deploy("hr", lines(2))
    lose(world)
    run = await world.run(**BUILD)
    assert run.verdict is Verdict.FAIL
    found = await decided(world)
    assert not found.succeeded
    assert "verdict FAIL" in found.reason


async def test_an_error_fails() -> None:
    world = Promoting()
    world.deploy("hr", lines(2))
    world.gate.search.index("kb-v2").broken = BrokenError("index-missing", "It is not there.")
    run = await world.run(**BUILD)
    assert run.verdict is Verdict.ERROR
    found = await decided(world)
    assert not found.succeeded
    assert "verdict ERROR" in found.reason


async def test_a_fail_that_was_overridden_fails_although_it_is_cleared() -> None:
    world = Promoting()
    world.deploy("hr", lines(2))
    lose(world)
    await world.run(**BUILD)
    draft = OverrideDraft(reason="known", questions=("q1", "q2"), watch="support")
    await override(world.gate.records, "run-001", draft, Signature(by="ann", at=world.clock(), mark="m"))
    assert not (await decided(world)).succeeded


async def test_a_build_that_had_nothing_judged_fails() -> None:
    world = await judged()
    await world.run()  # of no build
    for build_id in ("418", "41", "4177", "0417", ""):
        assert await decided(world, build_id) == Decision(succeeded=False, reason="it had nothing judged")


async def test_a_pass_that_is_not_cleared_because_live_moved_fails() -> None:
    world = await judged()
    world.gate.search.index("kb-v9")
    world.live.change("kb-v9")
    found = await decided(world)
    assert not found.succeeded
    assert "live is 'kb-v9' now" in found.reason


async def test_a_pass_whose_candidate_was_changed_since_fails() -> None:
    world = await judged()
    world.gate.search.index("kb-v2").etag = "0x2"
    found = await decided(world)
    assert not found.succeeded
    assert "not what was judged" in found.reason


async def test_a_pass_that_is_too_old_fails() -> None:
    world = await judged()
    world.clock.tick(hours=73)
    assert "max_verdict_age_hours" in (await decided(world)).reason


async def test_a_pass_of_a_set_that_was_sent_along_fails() -> None:
    world = await judged()
    sent = GoldenTexts(name="mine", jsonl=lines(1), toml=TOML)
    await world.run(None, golden=sent, **BUILD)
    found = await decided(world)
    assert not found.succeeded
    assert "not trusted" in found.reason


async def test_the_newest_run_of_a_set_counts_whichever_way_it_went() -> None:
    world = await judged()
    lose(world)
    await world.run(**BUILD)
    assert not (await decided(world)).succeeded
    world.gate.search.index("kb-v2").otherwise = ("x", "d1", "x")
    await world.run(**BUILD)
    found = await decided(world)
    assert found.succeeded
    assert "run-003" in found.reason


async def test_all_sets_of_a_build_must_be_cleared() -> None:
    world = await judged()
    world.deploy("it", lines(1))
    await world.run("it", **BUILD)
    assert (await decided(world)).succeeded
    world.deploy("it", lines(2))  # since then
    found = await decided(world)
    assert not found.succeeded
    assert "'hr' passed and is cleared" in found.reason
    assert "'it' passed and is not cleared" in found.reason


async def test_a_required_set_that_the_build_had_not_judged_fails_it() -> None:
    world = await judged()
    world.deploy("it", lines(1))
    world.rules = Rules(required_sets=("hr", "it"))
    assert "The required set 'it' has no cleared run" in (await decided(world)).reason


async def test_a_run_that_is_not_done_is_waited_for() -> None:
    world = await judged()
    lose(world)
    run = await world.gate.start("", golden_set="hr", **BUILD)
    checking = asyncio.create_task(decided(world))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not checking.done()
    await world.gate.execute(run)
    assert not (await checking).succeeded


async def test_a_run_that_was_begun_while_another_was_waited_for_counts() -> None:
    world = await judged()
    run = await world.gate.start("", golden_set="hr", **BUILD)
    checking = asyncio.create_task(decided(world))
    for _ in range(50):
        await asyncio.sleep(0)
    world.deploy("it", lines(1))
    other = await world.gate.start("", golden_set="it", **BUILD)
    await world.gate.execute(run)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not checking.done()
    lose(world)
    await world.gate.execute(other)
    assert not (await checking).succeeded


async def test_only_the_newest_runs_are_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEWEST", 2)
    world = await judged()
    await world.run()
    assert (await decided(world)).succeeded
    await world.run()
    assert not (await decided(world)).succeeded


# the background


def checks(world: Promoting, told: Told, *, patience_seconds: float = 60) -> Checks:
    return Checks(
        control=world.control(),
        callbacks=told,
        secret=SECRET,
        patience_seconds=patience_seconds,
        poll_seconds=0,
    )


def job(organization: str = "https://dev.azure.com/contoso/") -> CheckedJob:
    return checked_job(organization)


@pytest.mark.parametrize("build_id", ["417", "418"])
async def test_azure_devops_is_told_what_was_decided(build_id: str) -> None:
    told = Told()
    answering = checks(await judged(), told)
    answering.launch(build_id, job())
    await answering.done()
    assert told.results == [build_id == "417"]


async def test_an_organisation_that_is_not_known_is_refused_and_nothing_begun() -> None:
    told = Told()
    answering = checks(await judged(), told)
    with pytest.raises(InputError, match="PlanUrl: is none of GATE_CHECK_ORGANIZATIONS"):
        answering.launch("417", job("https://dev.azure.com/fabrikam/"))
    await answering.done()
    assert told.results == []


async def test_runs_that_are_not_done_in_time_fail() -> None:
    world, told = await judged(), Told()
    await world.gate.start("", golden_set="hr", **BUILD)
    answering = checks(world, told, patience_seconds=0.05)
    answering.launch("417", job())
    await answering.done()
    assert told.results == [False]


@pytest.mark.parametrize("error", [None, RuntimeError("a bug")], ids=["live", "a bug"])
async def test_what_cannot_be_found_out_fails(
    error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    world, told = await judged(), Told()
    world.live.fail(operation="read", error=error)
    answering = checks(world, told)
    with caplog.at_level("INFO"):
        answering.launch("417", job())
        await answering.done()
    assert told.results == [False]
    assert ("an error in the gate itself" if error else "the fake does not answer") in caplog.text
    assert TOKEN not in caplog.text


async def test_runs_that_cannot_be_read_fail() -> None:
    world, told = await judged(), Told()
    world.gate.store.fail(operation="read", name="status/")
    answering = checks(world, told)
    answering.launch("417", job())
    await answering.done()
    assert told.results == [False]


@pytest.mark.parametrize("error", [QueryError(FailureCode.REJECTED, "answered 403"), RuntimeError("a bug")])
async def test_a_result_that_is_not_taken_is_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    answering = checks(await judged(), Told(error))
    answering.launch("417", job())
    await answering.done()
    assert str(error) in caplog.text
    assert TOKEN not in caplog.text


async def test_a_process_that_stops_leaves_its_checks_unanswered() -> None:
    world, told = await judged(), Told()
    await world.gate.start("", golden_set="hr", **BUILD)
    answering = checks(world, told)
    answering.launch("417", job())
    await asyncio.sleep(0)
    await answering.stop()
    await answering.done()
    assert told.results == []


async def test_only_the_whole_secret_admits() -> None:
    answering = checks(await judged(), Told())
    assert answering.admits(SECRET)
    for other in ("", SECRET[:-1], f"{SECRET} ", SECRET.upper(), "é", SECRET + SECRET):
        assert not answering.admits(other)
    assert SECRET not in repr(answering)
