"""Two processes on one store: who executes a run, who takes it up, and who is refused."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.domain.errors import ConflictError, GateError, StorageError
from app.domain.reasons import Code, Verdict
from app.domain.run import Run, State
from app.gate.claims import LOOKS, Hold, Sightings, held, until_free
from app.gate.records import Claim, Entry, RunRecords
from app.gate.supervise import Supervisor
from tests.fakes.search import FakeSearch
from tests.gate.executing import Executing, codes, lines

FAST = 0.2  # seconds after which a silent process counts as gone


@pytest.fixture
def gate() -> Executing:
    gate = Executing()
    gate.limit(takeover_seconds=FAST)
    return gate


@dataclass(slots=True, kw_only=True)
class Replica:
    """A process with its own connection to the search service; the store is `gate`'s."""

    gate: Executing
    search: FakeSearch = field(default_factory=FakeSearch)

    def __post_init__(self) -> None:
        for name in ("kb-v1", "kb-v2"):
            self.search.index(name).otherwise = ("x", "d1", "x")

    def supervisor(self) -> Supervisor:
        return Supervisor(records=self.gate.records, execution=self.gate.execution(self.search))


@dataclass(slots=True)
class Frozen:
    """A store whose calls, from `freeze` to `wake`, wait: what a stopped process's look like to others."""

    store: Any
    awake: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.awake.set()

    def __getattr__(self, name: str) -> Any:
        called = getattr(self.store, name)
        if name == "names":
            return called

        async def wait(*arguments: Any) -> Any:
            await self.awake.wait()
            return await called(*arguments)

        return wait


async def ended(records: RunRecords, run: Run) -> Run:
    async with asyncio.timeout(20):
        while True:
            found, _ = await records.read(run.id)
            if found.state is State.DONE:
                return found
            await asyncio.sleep(0.01)


async def test_a_claim_is_raised_by_one_alone(gate: Executing) -> None:
    run = await gate.start(lines(1))
    seen = await gate.records.claim(run.id)
    assert seen.untouched
    assert seen.claim == Claim()

    async def take(by: str) -> int:
        async with held(gate.records, run.id, seen, by=by, beat_every=60, cancelled=asyncio.Event()) as hold:
            return hold.claim.number

    taken = await asyncio.gather(*(take(f"p{n}") for n in range(5)), return_exceptions=True)
    assert sorted(str(type(each).__name__) for each in taken) == ["ConflictError"] * 4 + ["int"]


def test_a_claim_is_free_after_so_many_looks_at_the_same_beat() -> None:
    seen, claim = Sightings(), Claim(number=1, by="a")
    assert [seen.free("r", claim) for _ in range(LOOKS)] == [False] * LOOKS
    moved = replace(claim, beat=1)
    assert [seen.free("r", moved) for _ in range(LOOKS + 1)] == [False] * LOOKS + [True]
    assert seen.free("s", Claim(number=1, let_go=True)), "its holder said so"


async def test_a_beat_survives_a_store_that_fails_and_tells_of_a_cancellation(gate: Executing) -> None:
    run = await gate.start(lines(1))
    cancelled = asyncio.Event()
    async with held(
        gate.records, run.id, await gate.records.claim(run.id), by="a", beat_every=0.01, cancelled=cancelled
    ) as hold:
        gate.store.fail(operation="replace", name="active/")
        await beaten(hold)
        assert await gate.records.cancel(run.id)
        async with asyncio.timeout(10):
            await cancelled.wait()
        await beaten(hold)
        assert not hold.lost.is_set()


async def beaten(hold: Hold) -> None:
    before = hold.claim.beat
    async with asyncio.timeout(10):
        while hold.claim.beat == before:  # noqa: ASYNC110 — beats tell nobody
            await asyncio.sleep(0.01)


async def test_a_hold_is_lost_with_its_claim(gate: Executing) -> None:
    run = await gate.start(lines(1))
    seen = await gate.records.claim(run.id)
    async with held(gate.records, run.id, seen, by="a", beat_every=0.01, cancelled=asyncio.Event()) as hold:
        await gate.store.delete(f"active/{run.id}")
        async with asyncio.timeout(10):
            await hold.lost.wait()
    assert "active/run-001" not in gate.store.documents, "what is gone is not made again"


async def test_the_run_of_a_silent_process_is_taken_up_and_the_old_one_refused(gate: Executing) -> None:
    """The old process stands still in the middle of its questions, and wakes when all is over."""
    run = await gate.start(lines(6))
    frozen = Frozen(gate.store)
    old = gate.execution()
    old.records = RunRecords(frozen)
    gate.search.hold()
    first = asyncio.create_task(old.execute(run.id, cancelled=asyncio.Event()))
    await gate.search.somebody_asked.wait()
    frozen.awake.clear()
    other = Replica(gate=gate)
    second = other.supervisor()
    await second.resume()
    done = await ended(gate.records, run)
    assert (done.verdict, done.manifest["starts"]) == (Verdict.PASS, 2)
    kept = dict(gate.store.documents)
    gate.search.release()
    frozen.awake.set()
    with pytest.raises(ConflictError):
        await first
    await second.stop()
    assert gate.store.documents == kept, "it wrote nothing"
    assert len(other.search.asked) >= 12


@pytest.mark.parametrize("at", ["status", "journal", "evidence"])
async def test_a_process_that_wakes_at_a_write_is_refused_there(gate: Executing, at: str) -> None:
    """Frozen right before that write of its own, while another one executes the whole run."""
    run = await gate.start(lines(3))
    gate.search.index("kb-v2").answer("question 1", ("x",) * 9)
    held_back, go = asyncio.Event(), asyncio.Event()

    class Late(Frozen):
        def __getattr__(self, name: str) -> Any:
            called = super().__getattr__(name)
            stops = {
                "status": name == "replace" and "status/",
                "journal": name == "append" and "journal",
                "evidence": name == "create" and "evidence",
            }[at]

            async def wait(of: str, *arguments: Any) -> Any:
                if stops and stops in of and not held_back.is_set():
                    held_back.set()
                    await go.wait()
                return await called(of, *arguments)

            return called if name == "names" else wait

    old = gate.execution()
    old.limits = replace(old.limits, takeover_seconds=600)
    old.records = RunRecords(Late(gate.store))
    first = asyncio.create_task(old.execute(run.id, cancelled=asyncio.Event()))
    await held_back.wait()
    done = await gate.execute(run)
    kept = gate.store.documents
    go.set()
    with pytest.raises(ConflictError):
        await first
    left = gate.store.documents
    assert {name for name in left if name not in kept} <= {f"runs/{run.id}/journal"}
    assert {name: left[name] for name in kept} == kept
    assert (done.verdict, codes(done)) == (Verdict.FAIL, [Code.NET_LOSS])
    assert [each.id for each in await gate.evidence(done)] == ["q1", "q2", "q3"]


async def test_partial_evidence_of_a_former_holder_is_written_over(gate: Executing) -> None:
    run = await gate.start(lines(2))
    await gate.store.create(f"runs/{run.id}/evidence.jsonl.gz", b"half of it")
    done = await gate.execute(run)
    assert done.verdict is Verdict.PASS
    assert len(await gate.evidence(done)) == 2


async def test_a_lower_claim_cannot_open_the_journal(gate: Executing) -> None:
    run = await gate.start(lines(1))
    await gate.records.journal(run.id, Claim(number=2, by="new"))
    with pytest.raises(ConflictError):
        await gate.records.journal(run.id, Claim(number=1, by="old"))
    _, entries = await gate.records.journal(run.id, Claim(number=3, by="newest"))
    assert entries == list[Entry]()


async def test_a_living_process_keeps_its_run_whatever_reaches_the_other(gate: Executing) -> None:
    run = await gate.start(lines(4))
    first, other = Replica(gate=gate), Replica(gate=gate)
    one, two = first.supervisor(), other.supervisor()
    await one.resume()
    await two.resume()
    first.search.hold()
    await one.take_up(run.id)
    await first.search.somebody_asked.wait()
    for _ in range(5):
        await two.take_up(run.id)
        await asyncio.sleep(FAST / 2)
    assert other.search.asked == []
    assert (await gate.records.read(run.id))[0].manifest["starts"] == 1
    await two.cancel(run.id)
    done = await ended(gate.records, run)
    assert (done.verdict, codes(done)[0], done.manifest["starts"]) == (Verdict.ERROR, Code.CANCELLED, 1)
    assert other.search.asked == []
    await one.stop()
    await two.stop()


async def test_a_cancellation_that_found_nobody_alive_is_kept_for_whoever_takes_the_run_up(
    gate: Executing,
) -> None:
    run = await gate.start(lines(2))
    dead = await gate.records.claim(run.id)
    await gate.records.keep_claim(run.id, Claim(number=1, by="dead"), dead.etag)
    replica = Replica(gate=gate)
    supervisor = replica.supervisor()
    await supervisor.resume()
    await supervisor.cancel(run.id)
    done = await ended(gate.records, run)
    assert codes(done)[0] == Code.CANCELLED
    assert replica.search.asked == []
    await supervisor.stop()


async def test_a_run_that_was_let_go_is_taken_up_at_once(gate: Executing) -> None:
    run = await gate.start(lines(2))
    gate.limit(takeover_seconds=600)
    first, other = Replica(gate=gate), Replica(gate=gate)
    one, two = first.supervisor(), other.supervisor()
    first.search.hold()
    await one.take_up(run.id)
    await first.search.somebody_asked.wait()
    await one.stop()
    assert (await gate.records.claim(run.id)).claim.let_go
    await two.resume()
    assert (await ended(gate.records, run)).verdict is Verdict.PASS
    await two.stop()


async def test_a_look_that_fails_takes_nothing_up(gate: Executing) -> None:
    run = await gate.start(lines(2))
    seen = await gate.records.claim(run.id)
    await gate.records.keep_claim(run.id, Claim(number=1, by="somebody"), seen.etag)
    supervisor = Replica(gate=gate).supervisor()
    for _ in range(3 * LOOKS):
        gate.store.fail(operation="read", name="active/")
        with suppress(StorageError):
            await supervisor._look()
    assert supervisor._working == {}


async def test_a_start_that_was_cut_short_and_a_damaged_run_do_not_stop_the_others(gate: Executing) -> None:
    broken, sound = await gate.start(lines(1)), await gate.start(lines(1))
    await gate.store.create("active/run-000", b"{}")
    _, etag = await gate.store.read(f"status/{broken.id}.json")
    await gate.store.replace(f"status/{broken.id}.json", b'{"id": ', etag)
    supervisor = Replica(gate=gate).supervisor()
    await supervisor.resume()
    assert (await ended(gate.records, sound)).verdict is Verdict.PASS
    await supervisor.stop()
    assert "active/run-000" in gate.store.documents


@pytest.mark.parametrize("damage", [b"", b"{", b'{"number": "x"}', b"\xff", b'{"number": 1, "more": 2}'])
async def test_a_damaged_claim_does_not_keep_a_run_from_its_end(gate: Executing, damage: bytes) -> None:
    run = await gate.start(lines(2))
    _, etag = await gate.store.read(f"active/{run.id}")
    await gate.store.replace(f"active/{run.id}", damage, etag)
    assert (await gate.execute(run)).verdict is Verdict.PASS


async def test_golden_texts_that_were_damaged_end_the_run(gate: Executing) -> None:
    run = await gate.start(lines(2))
    _, etag = await gate.store.read(f"runs/{run.id}/golden.jsonl")
    await gate.store.replace(f"runs/{run.id}/golden.jsonl", b"\xff\xfe{", etag)
    done = await gate.execute(run)
    assert (done.verdict, codes(done)[0]) == (Verdict.ERROR, Code.INTERRUPTED)
    assert "golden set cannot be read" in next(
        check.message for check in done.checks if check.code == Code.INTERRUPTED
    )


async def test_the_command_line_waits_for_a_living_holder_and_tells_it_of_an_interrupt(
    gate: Executing,
) -> None:
    run = await gate.start(lines(1))
    assert (await until_free(gate.records, run.id, look_every=60, cancelled=asyncio.Event())).untouched
    theirs, ours = asyncio.Event(), asyncio.Event()
    ours.set()
    seen = await gate.records.claim(run.id)
    with suppress(GateError):
        async with held(gate.records, run.id, seen, by="service", beat_every=0.01, cancelled=theirs):
            waiting = asyncio.create_task(until_free(gate.records, run.id, look_every=0.2, cancelled=ours))
            async with asyncio.timeout(10):
                await theirs.wait()
            await asyncio.sleep(0.3)
            assert not waiting.done()
            raise GateError("its process stops")
    async with asyncio.timeout(10):
        assert (await waiting).claim.let_go
