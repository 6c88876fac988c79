"""Two promoters at once, somebody who changes live by hand, lost answers and deaths, in random order.

Whatever happens: live is a value that somebody legally wrote, the history has exactly the changes that happened,
and nobody's change is overwritten unseen.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest

from app.domain.audit import Kind, Record, history, open_flip
from app.domain.errors import GateError, StorageError
from app.gate.promote import PromoteRequest, promote
from app.gate.rollback import RollbackRequest, rollback
from app.gate.watch import take_up
from tests.fakes.live import When
from tests.fakes.store import When as Stored
from tests.gate.dying import KilledError, Life, dying
from tests.gate.promoting import Promoting, turns

LONG = 120  # turns that a promotion takes at most, more or less


@dataclass(slots=True)
class Race:
    """One world, and who did what in it. Etags are `"1"`, `"2"` … in the order of writes."""

    world: Promoting
    random: Random
    by_hand: set[str] = field(default_factory=set)  # etags
    told: list[Record] = field(default_factory=list)  # changes that a caller was told of
    dead: int = 0

    async def promoter(self, run_id: str, by: str) -> None:
        await turns(self.random.randrange(LONG))
        life = Life(luck=self.random)
        if self.random.random() < 0.25:
            life.dies_at, life.after = self.random.randrange(1, 30), self.random.random() < 0.5
        try:
            made = await promote(dying(self.world, life), PromoteRequest(run_id=run_id), by=by)
            self.told.append(made.record)
        except GateError:
            pass
        except KilledError:
            self.dead += 1

    async def roller(self) -> None:
        await turns(self.random.randrange(2 * LONG))
        try:
            made = await rollback(
                dying(self.world, Life(luck=self.random)), RollbackRequest(), by="night watch"
            )
            self.told.append(made.record)
        except GateError:
            pass

    async def hand(self) -> None:
        for _ in range(self.random.choice((0, 0, 1, 2))):
            await turns(self.random.randrange(LONG))
            self.world.live.change(self.random.choice(("kb-hand", "kb-v1")))
            self.by_hand.add(self.world.live.etag)

    def break_things(self) -> None:
        live, store = self.world.live, self.world.gate.store
        if self.random.random() < 0.5:
            when = self.random.choice(list(When))
            live.fail(self.random.randrange(1, 3), when, operation="point")
        if self.random.random() < 0.3:
            live.fail(self.random.randrange(1, 8), operation="read")
        if self.random.random() < 0.4:
            stored = self.random.choice((Stored.BEFORE, Stored.AFTER))
            store.fail(self.random.randrange(1, 6), stored, operation="create", name="audit/")


async def raced(seed: int) -> Race:
    random = Random(seed)
    world = await Promoting.make()
    other = "run-002" if random.random() < 0.7 else "run-001"
    await world.run_to("kb-v3")
    race = Race(world=world, random=random)
    race.break_things()
    await asyncio.gather(
        race.promoter("run-001", "one"), race.promoter(other, "two"), race.hand(), race.roller()
    )
    return race


async def settle(race: Race) -> None:
    """Starts until one gets through: an injected fault may still lie in wait."""
    for _ in range(5):
        race.world.clock.tick(seconds=61)
        try:
            await take_up(race.world.control())
        except GateError:
            continue
        return
    raise AssertionError("no start got through")


def gates_writes(race: Race) -> list[tuple[str, str]]:
    """What the gate wrote: etag and index, in the order of writes."""
    written = ((f'"{number}"', index) for number, index in enumerate(race.world.live.written, start=2))
    return [(etag, index) for etag, index in written if etag not in race.by_hand]


def before(etag: str | None) -> str:
    return f'"{int(str(etag).strip(chr(34))) - 1}"'


@pytest.mark.parametrize("seed", range(150))
async def test_two_promoters_at_once_whatever_happens_in_between(seed: int) -> None:
    race = await raced(seed)
    await settle(race)
    records = await race.world.records()
    flips = history(records)
    wrote = gates_writes(race)

    assert open_flip(records) is None
    assert (await race.world.control().trail.verify()).whole
    # live is a value that somebody legally wrote
    assert race.world.live.index in {"kb-v1", "kb-v2", "kb-v3", "kb-hand"}
    # every change of the history happened, once, in this order; what is missing was overwritten by hand while
    # it lay open, and its record says that this cannot be told
    recorded = [(str(each.etag_after), str(each.after)) for each in flips]
    assert [each for each in wrote if each in recorded] == recorded
    missing = len(wrote) - len(recorded)
    unknown = [each for each in records if each.kind is Kind.CLOSED and "cannot be told" in str(each.reason)]
    assert missing <= len(unknown)
    assert missing == 0 or race.by_hand
    # nobody's change was overwritten unseen: each was made over exactly what had been read
    assert all(each.etag_before == before(each.etag_after) for each in flips)
    # whoever was told of a change was told the truth
    assert {each.etag_after for each in race.told} <= {each.etag_after for each in flips}
    assert {record.number for record in race.told} <= {each.number for each in flips}


async def test_the_races_above_end_in_every_way() -> None:
    """Some are won, some lost, some die, some are settled either way: else they would show little."""
    seen: set[str] = set()
    for seed in range(150):
        race = await raced(seed)
        seen |= {"somebody died"} if race.dead else set()
        seen |= {"changed by hand"} if race.by_hand else set()
        await settle(race)
        records = await race.world.records()
        seen |= {str(each.kind) for each in records}
        for each in records:
            reason = str(each.reason)
            seen |= {
                text for text in ("Completed by", "did not happen", "by hand", "by now") if text in reason
            }
        if len(history(records)) > 1:
            seen.add("several changes")
    assert seen >= {
        "somebody died",
        "changed by hand",
        "promoted",
        "rolled-back",
        "closed",
        "refused",
        "Completed by",
        "did not happen",
        "by hand",
        "by now",
        "several changes",
    }


async def test_of_many_promoters_of_one_run_all_are_told_of_one_change() -> None:
    for seed in range(20):
        world = await Promoting.make()
        random = Random(seed)
        controls = [dying(world, Life(luck=random)) for _ in range(6)]
        answers = await asyncio.gather(
            *(promote(each, PromoteRequest(run_id="run-001"), by="ops") for each in controls),
            return_exceptions=True,
        )
        made = [each for each in answers if not isinstance(each, BaseException)]
        assert made
        assert len({each.record.number for each in made}) == 1
        assert world.live.written == ["kb-v2"]
        assert not any(isinstance(each, StorageError) for each in answers)
