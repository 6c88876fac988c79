"""Which indexes are of no use any more: advice, and nothing but advice."""

from datetime import timedelta

from app.gate.retire import Retirement, retire
from tests.gate.executing import NOON
from tests.gate.promoting import Promoting


async def advice(world: Promoting) -> Retirement:
    return await retire(world.control())


def names(found: Retirement) -> list[str]:
    return [each.index for each in found.retirable]


async def thrice() -> Promoting:
    """kb-v1, kb-v2 and kb-v3 were live, kb-v4 is; all a month ago."""
    world = await Promoting.make()
    live = "kb-v1"
    for candidate in ("kb-v2", "kb-v3", "kb-v4"):
        run = await world.run_to(candidate, baseline=live)
        await world.promote(run.id)
        live = candidate
    world.clock.tick(days=30)
    return world


async def test_what_is_neither_live_nor_a_roll_back_target_nor_lately_used_is_named() -> None:
    found = await advice(await thrice())
    assert names(found) == ["kb-v1", "kb-v2"]
    assert found.kept == {"kb-v3": "is what a roll back goes to", "kb-v4": "is live"}
    assert found.listed
    assert found.retirable[0].last_used == NOON + timedelta(hours=1)
    assert "last of use at 2026-11-30 13:00 UTC" in found.retirable[0].why


async def test_nothing_is_deleted() -> None:
    world = await thrice()
    before = set(world.gate.search.indexes)
    await advice(world)
    assert set(world.gate.search.indexes) == before


async def test_inside_the_waiting_time_nothing_is_named() -> None:
    world = await thrice()
    world.clock.now = NOON + timedelta(hours=1 + 167)
    found = await advice(world)
    assert names(found) == []
    assert "less than 168 hours ago" in found.kept["kb-v1"]
    world.clock.tick(hours=1)
    assert names(await advice(world)) == ["kb-v1", "kb-v2"]


async def test_a_candidate_that_was_lately_judged_is_waited_for() -> None:
    world = await thrice()
    world.clock.now = NOON + timedelta(hours=1, days=2)
    await world.run_to("kb-v5", baseline="kb-v4")
    assert "kb-v5" in (await advice(world)).kept


async def test_both_indexes_of_a_run_that_is_not_done_are_kept_an_alias_by_what_it_stands_for() -> None:
    world = await thrice()
    world.gate.search.aliases["kb-old"] = "kb-v1"
    await world.gate.start("", golden_set="hr", baseline_index="kb-old", candidate_index="kb-v2")
    found = await advice(world)
    assert names(found) == []
    assert found.kept["kb-v1"] == found.kept["kb-v2"] == "run run-005 is not done"


async def test_where_the_nearest_target_is_gone_the_next_one_is_kept() -> None:
    world = await thrice()
    del world.gate.search.indexes["kb-v3"]
    found = await advice(world)
    assert names(found) == ["kb-v1"]
    assert found.kept["kb-v2"] == "is what a roll back goes to"


async def test_what_was_replaced_by_hand_lately_is_waited_for() -> None:
    world = await thrice()
    world.gate.search.index("kb-hand")
    world.live.change("kb-hand")  # its time is that of the fake, thirty days ago
    found = await advice(world)
    assert "kb-hand" in found.kept
    assert "kb-v3" in found.kept


async def test_an_index_that_nobody_here_knows_is_said_to_be_perhaps_somebody_elses() -> None:
    world = await thrice()
    world.gate.search.index("shop")
    found = await advice(world)
    (shop,) = [each for each in found.retirable if each.index == "shop"]
    assert shop.last_used is None
    assert "may be somebody else's" in shop.why


async def test_where_names_may_not_be_listed_those_that_are_known_are_looked_at() -> None:
    world = await thrice()
    world.gate.search.listable = False
    world.gate.search.index("shop")
    del world.gate.search.indexes["kb-v1"]
    found = await advice(world)
    assert not found.listed
    assert names(found) == ["kb-v2"]


async def test_a_key_that_names_an_alias_keeps_what_it_stands_for() -> None:
    world = await thrice()
    world.gate.search.aliases["kb"] = "kb-v2"
    world.live.index = "kb"
    assert (await advice(world)).kept["kb-v2"] == "is live"
