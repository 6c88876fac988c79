"""What a `DocumentStore` promises, held by the fake, by a folder and by blob storage alike."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from app.adapters.blobs import open_blobs
from app.adapters.folder import open_folder
from app.domain.errors import ConflictError, InputError, NotFoundError
from app.gate.ports import DocumentStore
from tests.azurite import KEY
from tests.fakes.store import MemoryStore

T = TypeVar("T")
Stores = tuple[DocumentStore, DocumentStore]

CONTENTS = {
    "empty": b"",
    "unicode": "Größe 📏 — ﷽\r\n".encode(),
    "binary": bytes(range(256)) * 3,
    "gzip": bytes.fromhex("1f8b0800000000000003") + b"\0 not to be unpacked",
    "four MiB, a range's end": b"x" * (4 * 1024 * 1024),
    "20 MB": bytes(range(250)) * 80_000,
}


@pytest.fixture(params=["memory", "folder", "blobs"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    """Two clients of one empty store, as two processes have them."""
    async with AsyncExitStack() as stack:
        one: DocumentStore
        other: DocumentStore
        match request.param:
            case "memory":
                one = other = MemoryStore()
            case "folder":
                one = await stack.enter_async_context(open_folder(tmp_path / "runs"))
                other = await stack.enter_async_context(open_folder(tmp_path / "runs"))
            case _:
                url = request.getfixturevalue("container_url")
                one = await stack.enter_async_context(open_blobs(url, key=KEY))
                other = await stack.enter_async_context(open_blobs(url, key=KEY))
        yield one, other


@pytest.fixture
def store(stores: Stores) -> DocumentStore:
    return stores[0]


async def settled(calls: list[Awaitable[T]]) -> tuple[list[T], list[BaseException]]:
    """All at once; what succeeded and what did not."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [r for r in results if not isinstance(r, BaseException)], [
        r for r in results if isinstance(r, BaseException)
    ]


def are_conflicts(errors: list[BaseException]) -> bool:
    return all(isinstance(error, ConflictError) for error in errors)


async def names(store: DocumentStore, prefix: str = "") -> list[str]:
    return [name async for name in store.names(prefix)]


async def test_a_fresh_store_is_empty(store: DocumentStore) -> None:
    assert await names(store) == []


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
async def test_what_was_created_is_read_by_everybody_with_its_etag(stores: Stores, content: bytes) -> None:
    etag = await stores[0].create("runs/1/run.json.gz", content)
    assert await stores[1].read("runs/1/run.json.gz") == (content, etag)


async def test_creating_what_is_there_conflicts_and_changes_nothing(stores: Stores) -> None:
    etag = await stores[0].create("status/1.json", b"first")
    with pytest.raises(ConflictError, match=r"status/1\.json"):
        await stores[1].create("status/1.json", b"first")  # the same content is no excuse
    assert await stores[0].read("status/1.json") == (b"first", etag)


async def test_of_a_hundred_who_create_one_document_exactly_one_wins(stores: Stores) -> None:
    won, lost = await settled([stores[n % 2].create("keys/a.json", b"by %d" % n) for n in range(100)])
    assert (len(won), len(lost)) == (1, 99)
    assert are_conflicts(lost)
    assert (await stores[0].read("keys/a.json"))[1] == won[0]
    assert await names(stores[0]) == ["keys/a.json"]


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
async def test_a_replaced_document_has_its_new_content_and_a_new_etag(
    store: DocumentStore, content: bytes
) -> None:
    before = await store.create("a", b"before")
    after = await store.replace("a", content, before)
    assert after != before
    assert await store.read("a") == (content, after)


async def test_replacing_by_an_old_etag_conflicts_also_when_the_content_came_back(stores: Stores) -> None:
    first = await stores[0].create("a", b"A")
    second = await stores[1].replace("a", b"B", first)
    third = await stores[1].replace("a", b"A", second)
    assert len({first, second, third}) == 3
    with pytest.raises(ConflictError):
        await stores[0].replace("a", b"C", first)
    assert await stores[0].read("a") == (b"A", third)


async def test_the_etag_of_a_deleted_document_is_not_that_of_its_successor(store: DocumentStore) -> None:
    first = await store.create("a", b"A")
    await store.delete("a")
    second = await store.create("a", b"A")
    with pytest.raises(ConflictError):
        await store.replace("a", b"B", first)
    assert await store.read("a") == (b"A", second)


async def test_replacing_what_is_not_there_conflicts(store: DocumentStore) -> None:
    etag = await store.create("a", b"A")
    await store.delete("a")
    with pytest.raises(ConflictError):
        await store.replace("a", b"B", etag)
    assert await names(store) == []


async def test_of_many_who_replace_by_one_etag_exactly_one_wins(stores: Stores) -> None:
    etag = await stores[0].create("a", b"A")
    won, lost = await settled([stores[n % 2].replace("a", b"same", etag) for n in range(50)])
    assert (len(won), len(lost)) == (1, 49)
    assert are_conflicts(lost)
    assert await stores[0].read("a") == (b"same", won[0])


async def test_a_counter_raised_by_many_misses_nobody(stores: Stores) -> None:
    await stores[0].create("counter", b"0")

    async def raise_it(store: DocumentStore) -> None:
        while True:
            data, etag = await store.read("counter")
            try:
                await store.replace("counter", b"%d" % (int(data) + 1), etag)
            except ConflictError:
                continue
            return

    await asyncio.gather(*(raise_it(stores[n % 2]) for n in range(10)))
    assert (await stores[0].read("counter"))[0] == b"10"


async def test_reading_what_is_not_there_is_not_found(store: DocumentStore) -> None:
    with pytest.raises(NotFoundError, match="runs/1"):
        await store.read("runs/1")
    await store.create("runs/1/run.json", b"{}")
    with pytest.raises(NotFoundError, match="runs/1"):
        await store.read("runs/1")
    with pytest.raises(NotFoundError):
        await store.read("runs/1/run.json/x")


async def test_a_part_is_read_as_it_stands_in_the_whole(stores: Stores) -> None:
    whole = bytes(range(250)) * 40_000  # ten million bytes, more than two ranges of blob storage
    await stores[0].create("runs/1/evidence.jsonl.gz", whole)
    for start in (0, 1, 249, 4 * 1024 * 1024 - 1, 5_000_000, 9_999_999):
        for length in (1, 250, 4 * 1024 * 1024, 6_000_000, 20_000_000):
            part = await stores[1].read_part("runs/1/evidence.jsonl.gz", start, length)
            assert part == whole[start : start + length], (start, length)


@pytest.mark.parametrize("start", [3, 4, 1_000_000])
async def test_a_part_behind_the_end_is_empty(store: DocumentStore, start: int) -> None:
    await store.create("a", b"abc")
    await store.append("journal", b"abc", 0)
    assert await store.read_part("a", start, 10) == b""
    assert await store.read_part("journal", start, 10) == b""
    assert await store.read_part("journal", 2, 10) == b"c"


async def test_a_part_of_what_is_not_there_is_not_found(store: DocumentStore) -> None:
    with pytest.raises(NotFoundError, match="runs/1"):
        await store.read_part("runs/1", 0, 1)


async def test_appends_follow_each_other_and_answer_the_new_length(stores: Stores) -> None:
    assert await stores[0].append("runs/1/journal", "één\n".encode(), 0) == 6
    assert await stores[1].append("runs/1/journal", b"\0\xff\n", 6) == 9
    assert (await stores[0].read("runs/1/journal"))[0] == "één\n".encode() + b"\0\xff\n"


async def test_an_append_changes_the_etag(store: DocumentStore) -> None:
    await store.append("journal", b"1", 0)
    _, before = await store.read("journal")
    await store.append("journal", b"2", 1)
    data, after = await store.read("journal")
    assert (data, before != after) == (b"12", True)


async def test_a_large_append_is_whole(store: DocumentStore) -> None:
    content = CONTENTS["20 MB"]
    assert await store.append("journal", b"head", 0) == 4
    assert await store.append("journal", content, 4) == 20_000_004
    assert (await store.read("journal"))[0] == b"head" + content


@pytest.mark.parametrize("position", [0, 2, 4, 1_000_000])
async def test_appending_at_another_position_conflicts_and_writes_nothing(
    stores: Stores, position: int
) -> None:
    await stores[0].append("journal", b"abc", 0)
    with pytest.raises(ConflictError, match="journal"):
        await stores[1].append("journal", b"abc", position)
    assert (await stores[0].read("journal"))[0] == b"abc"


async def test_appending_behind_the_start_of_nothing_conflicts(store: DocumentStore) -> None:
    with pytest.raises(ConflictError, match="journal"):
        await store.append("runs/1/journal", b"abc", 3)
    assert await names(store) == []


async def test_an_empty_append_only_creates_and_checks(store: DocumentStore) -> None:
    assert await store.append("journal", b"", 0) == 0
    assert await names(store) == ["journal"]
    assert await store.append("journal", b"abc", 0) == 3
    assert await store.append("journal", b"", 3) == 3
    with pytest.raises(ConflictError):
        await store.append("journal", b"", 0)
    with pytest.raises(ConflictError):
        await store.append("other", b"", 3)


@pytest.mark.parametrize("position", [0, 5])
async def test_of_many_who_append_at_one_position_exactly_one_wins(stores: Stores, position: int) -> None:
    await stores[0].append("journal", b"x" * position, 0)
    won, lost = await settled([stores[n % 2].append("journal", b"same\n", position) for n in range(50)])
    assert (won, len(lost)) == ([position + 5], 49)
    assert are_conflicts(lost)
    assert (await stores[0].read("journal"))[0] == b"x" * position + b"same\n"


async def test_of_many_who_begin_a_journal_exactly_one_wins(stores: Stores) -> None:
    won, lost = await settled([stores[n % 2].append("runs/1/journal", b"same\n", 0) for n in range(50)])
    assert (won, len(lost)) == ([5], 49)
    assert are_conflicts(lost)
    assert (await stores[0].read("runs/1/journal"))[0] == b"same\n"


async def test_writers_who_go_on_after_a_conflict_lose_no_line(stores: Stores) -> None:
    async def write(store: DocumentStore, line: bytes) -> None:
        position = 0
        while True:
            try:
                await store.append("journal", line, position)
            except ConflictError:
                position = len((await store.read("journal"))[0])
            else:
                return

    lines = [b"line %d\n" % n for n in range(10)]
    await asyncio.gather(*(write(stores[n % 2], line) for n, line in enumerate(lines)))
    assert sorted((await stores[0].read("journal"))[0].splitlines(keepends=True)) == sorted(lines)


async def test_a_deleted_document_is_gone_and_can_be_created_again(stores: Stores) -> None:
    await stores[0].create("active/1", b"")
    await stores[0].append("runs/1/journal", b"1", 0)
    await stores[1].delete("active/1")
    await stores[1].delete("runs/1/journal")
    with pytest.raises(NotFoundError):
        await stores[0].read("active/1")
    assert await names(stores[0]) == []
    await stores[0].create("active/1", b"again")
    await stores[0].create("runs/1", b"a document, where a folder was")
    assert await names(stores[0]) == ["active/1", "runs/1"]


async def test_deleting_what_is_not_there_does_nothing(store: DocumentStore) -> None:
    await store.create("runs/1/run.json", b"{}")
    for name in ("active/1", "runs/1", "runs/1/run.json/x"):
        await store.delete(name)
    assert await names(store) == ["runs/1/run.json"]


async def test_names_come_in_lexical_order_across_folders(store: DocumentStore) -> None:
    made = ["b", "a/c", "a-b", "a/b/c", "a.b", "a_b", "a0", "ab", "a/b-c", "a/b.json", "z/y/x"]
    for name in made:
        await store.create(name, b"")
    assert await names(store) == [
        *("a-b", "a.b", "a/b-c", "a/b.json", "a/b/c", "a/c", "a0", "a_b", "ab", "b", "z/y/x"),
    ]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("status/", ["status/1.json", "status/12.json"]),
        ("status/1", ["status/1.json", "status/12.json"]),
        ("status/12", ["status/12.json"]),
        ("status/1.json", ["status/1.json"]),
        ("stat", ["status/1.json", "status/12.json", "statusless"]),
        ("runs/1/", ["runs/1/journal", "runs/1/run.json"]),
        ("runs/1/j", ["runs/1/journal"]),
        ("nothing/", []),
        ("status/1.json/", []),
        ("../", []),
        ("Status", []),
        ("/", []),
    ],
)
async def test_names_begin_with_the_prefix(store: DocumentStore, prefix: str, expected: list[str]) -> None:
    for name in ("status/1.json", "status/12.json", "statusless", "runs/1/run.json", "runs/10/run.json"):
        await store.create(name, b"{}")
    await store.append("runs/1/journal", b"1", 0)
    assert await names(store, prefix) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        "..",
        "../a",
        "a/../b",
        "./a",
        "a/.",
        "A",
        "a b",
        "a\\b",
        "a\0",
        "ä",
        "a\n",
        "~lock",
        "a.",
        "a/" + "b" * 201,
        "a/" * 512 + "a",
    ],
)
async def test_a_name_outside_the_rules_is_refused_before_anything_happens(
    store: DocumentStore, name: str
) -> None:
    for call in (
        store.create(name, b""),
        store.replace(name, b"", '"1"'),
        store.read(name),
        store.read_part(name, 0, 1),
        store.append(name, b"", 0),
        store.delete(name),
    ):
        with pytest.raises(InputError):
            await call
    assert await names(store) == []
