"""The fake's own tools: failing when told to, before, within or after the work."""

import pytest

from app.domain.errors import ConflictError, StorageError
from tests.fakes.store import Call, MemoryStore, When


async def test_a_call_fails_before_its_work_and_the_next_does_it() -> None:
    store = MemoryStore()
    store.fail()
    with pytest.raises(StorageError):
        await store.create("a", b"1")
    assert store.documents == {}
    await store.create("a", b"1")
    assert store.documents == {"a": b"1"}


async def test_a_call_fails_after_its_work() -> None:
    store = MemoryStore()
    store.fail(when=When.AFTER)
    with pytest.raises(StorageError):
        await store.append("journal", b"line", 0)
    assert store.documents == {"journal": b"line"}


async def test_an_append_is_torn() -> None:
    store = MemoryStore()
    store.fail(when=When.WITHIN, operation="append")
    await store.create("a", b"1")
    with pytest.raises(StorageError):
        await store.append("journal", b"line", 0)
    assert store.documents == {"a": b"1", "journal": b"li"}


async def test_only_the_nth_call_of_the_kind_and_name_fails() -> None:
    store = MemoryStore()
    store.fail(2, operation="create", name="runs/", error=ConflictError("told to"))
    for name in ("status/1", "runs/1", "status/2"):
        await store.create(name, b"")
    with pytest.raises(ConflictError, match="told to"):
        await store.create("runs/2", b"")
    await store.create("runs/2", b"")
    assert store.calls[-1] == Call("create", "runs/2")
    assert len(store.calls) == 5


async def test_what_is_appended_to_is_never_written_whole_as_in_blob_storage() -> None:
    store = MemoryStore()
    await store.create("a", b"")
    with pytest.raises(StorageError):
        await store.append("a", b"1", 0)
    await store.append("journal", b"1", 0)
    _, etag = await store.read("journal")
    with pytest.raises(StorageError):
        await store.replace("journal", b"", etag)
