"""Runs that a process lets go of, and who takes them up."""

import asyncio

import pytest

from app.gate.records import RunRecords
from tests.fakes.store import MemoryStore


@pytest.fixture
def records() -> RunRecords:
    return RunRecords(MemoryStore())


async def test_of_several_processes_one_takes_up_a_run_that_was_left(records: RunRecords) -> None:
    await records.leave("run-1")
    await records.leave("run-1")
    assert await records.left() == ["run-1"]
    took = await asyncio.gather(*(records.take_up("run-1", f"claim-{place}") for place in range(5)))
    assert sorted(took) == [False, False, False, False, True]
    assert await records.left() == []


async def test_a_run_that_was_not_left_cannot_be_taken_up(records: RunRecords) -> None:
    assert not await records.take_up("run-1", "claim")
