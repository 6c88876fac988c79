"""Promotions: what is written, what is recorded, and what is refused."""

from datetime import timedelta

from app.domain.audit import Kind
from tests.gate.promoting import Promoting


async def test_a_cleared_candidate_becomes_live_and_both_sides_of_it_are_recorded() -> None:
    world = await Promoting.make()
    made = await world.promote()
    assert world.live.index == "kb-v2"
    assert not made.again
    intent, end = await world.records()
    assert (intent.kind, end.kind, end.intent) == (Kind.PROMOTING, Kind.PROMOTED, intent.number)
    assert (end.actor, end.run, end.before, end.after) == ("ops", "run-001", "kb-v1", "kb-v2")
    assert (end.etag_before, end.etag_after) == ('"1"', '"2"')
    assert made.record == end
    assert made.clearance is not None
    assert made.clearance.cleared
    assert timedelta(0) == made.clearance.at - end.at
