"""How the audit is kept: one chain, whoever writes, and read once."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.domain.audit import Entry, Kind, Record, document_name, sealed
from app.domain.errors import ConflictError, StorageError
from app.gate.audit import AuditTrail
from tests.fakes.store import MemoryStore

ENTRY = Entry(kind=Kind.REFUSED, at=datetime(2026, 11, 30, tzinfo=UTC), actor="ops", reason="0")


async def filled(count: int) -> MemoryStore:
    store = MemoryStore()
    trail = AuditTrail(store)
    for number in range(1, count + 1):
        await trail.add(replace(ENTRY, reason=str(number)))
    store.calls.clear()
    return store


async def test_records_are_kept_one_after_the_other_under_their_numbers() -> None:
    store = await filled(3)
    assert list(store.documents) == [document_name(number) for number in (1, 2, 3)]
    assert [each.reason for each in await AuditTrail(store).records()] == ["1", "2", "3"]


async def test_of_many_who_write_at_once_each_gets_a_number_of_its_own() -> None:
    store = MemoryStore()
    await asyncio.gather(*(AuditTrail(store).add(replace(ENTRY, reason=str(n))) for n in range(20)))
    found = await AuditTrail(store).records()
    assert sorted(int(str(each.reason)) for each in found) == list(range(20))
    assert (await AuditTrail(store).verify()).whole


async def test_whoever_comes_second_decides_again_on_all_that_is_there() -> None:
    store = await filled(1)
    seen: list[int] = []

    def only_one_more(records: tuple[Record, ...]) -> Entry | None:
        seen.append(len(records))
        return ENTRY if len(records) == 1 else None

    answers = await asyncio.gather(*(AuditTrail(store).append(only_one_more) for _ in range(3)))
    assert len([each for each in answers if each is not None]) == 1
    assert sorted(seen) == [1, 1, 1, 2, 2]


async def test_what_a_decision_raises_ends_it_and_nothing_is_kept() -> None:
    store = await filled(1)

    def refuse(records: tuple[Record, ...]) -> Entry:
        raise ConflictError(f"{len(records)} are enough")

    with pytest.raises(ConflictError, match="1 are enough"):
        await AuditTrail(store).append(refuse)
    assert len(store.documents) == 1


async def test_records_are_read_once_and_only_new_ones_afterwards() -> None:
    store = await filled(50)
    trail = AuditTrail(store)
    await trail.records()
    assert len(store.calls) == 52  # their names, each of them, and that there is no further one
    store.calls.clear()
    await trail.records()
    assert len(store.calls) == 1
    await AuditTrail(store).add(ENTRY)
    store.calls.clear()
    assert len(await trail.records()) == 51
    assert len(store.calls) == 2


async def test_two_readers_of_one_trail_at_once_see_the_same() -> None:
    store = await filled(5)
    trail = AuditTrail(store)
    reading = [asyncio.create_task(trail.records()) for _ in range(5)]
    await trail.add(ENTRY)
    assert {len(await each) for each in reading} <= {5, 6}
    assert len(await trail.records()) == 6


@pytest.mark.parametrize(
    ("number", "told"),
    [(1, "it does not follow|it is missing"), (3, "it is missing, and later ones are there")],
)
async def test_nothing_is_read_from_a_chain_with_a_missing_link(number: int, told: str) -> None:
    store = await filled(5)
    await store.delete(document_name(number))
    with pytest.raises(StorageError, match=told):
        await AuditTrail(store).records()


async def test_nothing_is_read_from_a_chain_with_an_altered_link() -> None:
    store = await filled(3)
    await store.delete(document_name(2))
    await store.create(document_name(2), sealed(replace(ENTRY, actor="mallory"), 2, None))
    with pytest.raises(StorageError, match=r"broken at audit/00000002.json: it does not follow"):
        await AuditTrail(store).records()
    with pytest.raises(StorageError, match="gate audit verify"):
        await AuditTrail(store).add(ENTRY)


async def test_nothing_is_read_from_a_record_under_another_number() -> None:
    store = await filled(1)
    await store.create(document_name(2), (await store.read(document_name(1)))[0])
    with pytest.raises(StorageError, match="it says that it is record 1"):
        await AuditTrail(store).records()


async def test_verification_reads_anew_and_names_every_broken_link() -> None:
    store = await filled(40)
    trail = AuditTrail(store)
    await trail.records()
    assert (await trail.verify()).records == 40
    await store.delete(document_name(7))
    await store.delete(document_name(20))
    found = await trail.verify()
    assert [fault.where for fault in found.faults] == [document_name(7), document_name(20)]


async def test_a_store_that_fails_is_told() -> None:
    store = await filled(2)
    store.fail(operation="names")
    with pytest.raises(StorageError):
        await AuditTrail(store).records()
