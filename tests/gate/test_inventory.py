"""Every way of listing an index reads every row once, and says so; or says that it did not."""

import asyncio
from typing import Any

import pytest

from app.domain.differences import Facts, VectorSample, VectorStorage
from app.domain.errors import BrokenError
from app.domain.index import Fields
from app.domain.inventory import Inventory, Method
from app.domain.query import ParentNames, QuerySettings
from app.domain.reasons import Code
from app.gate.inventory import InventoryLimits, gather_facts, take_inventory
from app.gate.ports import Statistics
from tests.fakes.listing import Stored
from tests.fakes.search import FakeSearch

FIELDS = Fields(key="chunk_id", parent="parent_id", text="chunk")
ALL = frozenset({"key filterable", "key sortable", "parent filterable", "parent sortable"})


def definition(*can: str) -> dict[str, Any]:
    def field(name: str, role: str) -> dict[str, Any]:
        attributes = {each: f"{role} {each}" in can for each in ("filterable", "sortable")}
        return {"name": name, "type": "Edm.String", **attributes}

    return {"fields": [field("chunk_id", "key"), field("parent_id", "parent")]}


def rows(parents: int = 40, each: int = 7, big: int = 130, orphans: int = 3) -> list[Stored]:
    """Keys in no order of the parents; one parent that fills more than a page; rows without a parent."""
    made: list[dict[str, Any]] = [
        {
            "parent_id": f"it's {number % parents:02}",
            "chunk": f"Passage {number} of the handbook, which is long.",
        }
        for number in range(parents * each)
    ]
    made += [{"parent_id": "it's 20 big", "chunk": f"Line {number}"} for number in range(big)]
    made += [{"parent_id": None, "chunk": None}] * orphans
    return [{"chunk_id": f"{place * 7919 % 10007:05}", **row} for place, row in enumerate(made)]


async def take(search: FakeSearch, *can: str, **changes: Any) -> Inventory:
    arguments: dict[str, Any] = {
        "definition": definition(*can),
        "documents": len(search.index("kb").stored or []),
        "limits": InventoryLimits(page=50),
        "query": QuerySettings(),
        **changes,
    }
    definition_, query = arguments.pop("definition"), arguments.pop("query")
    deadline = asyncio.get_running_loop().time() + 30
    return await take_inventory("kb", FIELDS, definition_, query, search, deadline=deadline, **arguments)


@pytest.fixture
def search() -> FakeSearch:
    made = FakeSearch()
    made.index("kb").stored = rows()
    return made


@pytest.mark.parametrize(
    ("can", "method"),
    [
        (ALL, Method.KEY_RANGES),
        ({"key filterable", "key sortable"}, Method.KEY_RANGES),
        ({"key filterable"}, Method.KEY_RANGES),
        ({"key sortable", "parent filterable"}, Method.PARENT_RANGES),
        ({"key sortable", "parent filterable", "parent sortable"}, Method.PARENT_RANGES),
        ({"key sortable"}, Method.SKIP_IN_ORDER),
    ],
)
async def test_every_row_is_read_once(search: FakeSearch, can: set[str], method: Method) -> None:
    found = await take(search, *can)
    assert found.requests == len(search.listed)
    assert (found.method, found.complete, found.note) == (method, True, None)
    assert (found.chunks, found.without_parent, len(found.parents)) == (413, 3, 41)
    assert found.parents["it's 20 big"].chunks == 130
    assert {parent.chunks for name, parent in found.parents.items() if "big" not in name} == {7}
    assert found.digest == (await take(search, *ALL)).digest


@pytest.mark.parametrize("can", [(), ("parent filterable",), ("parent filterable", "parent sortable")])
async def test_pages_without_a_lasting_order_are_not_relied_on(
    search: FakeSearch, can: tuple[str, ...]
) -> None:
    found = await take(search, *can)
    assert found.chunks == 413
    assert not found.complete
    assert "neither filterable nor sortable" in (found.note or "")


async def test_a_small_index_is_one_request_however_it_is_made(search: FakeSearch) -> None:
    search.index("kb").stored = rows(parents=3, each=3, big=0, orphans=1)
    for can in ((), ("key filterable",), ("parent filterable",), tuple(ALL)):
        found = await take(search, *can)
        assert (found.complete, found.chunks, found.requests) == (True, 10, 1)


async def test_only_key_parent_and_text_are_read(search: FakeSearch) -> None:
    await take(search, *ALL)
    assert {listing.select for _, listing in search.listed} == {("chunk_id", "parent_id", "chunk")}


async def test_an_order_is_asked_for_only_by_sortable_fields(search: FakeSearch) -> None:
    await take(search, "parent filterable")
    assert {listing.order_by for _, listing in search.listed} == {None}


async def test_requests_are_about_twice_the_pages_where_ranges_are_halved(search: FakeSearch) -> None:
    search.index("kb").stored = rows(parents=400, each=5, big=0, orphans=0)
    found = await take(search, "parent filterable", "key sortable")
    assert found.complete
    assert found.requests <= 2.5 * 2000 / 50


async def test_a_large_index_is_a_sample_and_says_so(search: FakeSearch) -> None:
    found = await take(search, *ALL, limits=InventoryLimits(rows=100, page=50))
    assert (found.chunks, found.complete) == (100, False)
    assert found.note == "a sample, the first 100 rows of 413."


async def test_rows_that_the_count_does_not_explain_make_it_incomplete(search: FakeSearch) -> None:
    found = await take(search, *ALL, documents=500)
    assert not found.complete
    assert found.note == "413 rows were listed, and the index counts 500."


async def test_a_service_that_refuses_leaves_it_not_taken_with_the_reason(search: FakeSearch) -> None:
    search.index("kb").broken = BrokenError(Code.UNAUTHORIZED, "Give the identity the role of a reader.")
    found = await take(search, *ALL)
    assert (found.method, found.complete) == (Method.NOT_TAKEN, False)
    assert found.note == "Give the identity the role of a reader."
    assert found.requests == 1


async def test_time_up_leaves_it_not_taken(search: FakeSearch) -> None:
    search.latency = 60
    deadline = asyncio.get_running_loop().time() + 0.01
    found = await take_inventory(
        "kb", FIELDS, definition(*ALL), QuerySettings(), search, documents=413, deadline=deadline
    )
    assert found.method is Method.NOT_TAKEN


async def test_without_a_definition_rows_are_skipped(search: FakeSearch) -> None:
    assert (await take(search, definition=None)).method is Method.SKIP


async def test_parents_are_decoded_by_the_sides_settings(search: FakeSearch) -> None:
    search.index("kb").stored = [
        {"chunk_id": str(place), "parent_id": f"https://x/{name}.md?v={place}", "chunk": name}
        for place, name in enumerate(("leave", "dental"))
    ]
    found = await take(search, *ALL, query=QuerySettings(parent_names=(ParentNames.FILE_NAME,)))
    assert set(found.parents) == {"leave.md", "dental.md"}


async def test_a_parent_inside_a_json_string_is_read_by_skipping(search: FakeSearch) -> None:
    search.index("kb").stored = [{"id": "1", "metadata": '{"source": "leave.md"}', "content": "text"}]
    fields = Fields(key="id", parent="metadata/source", text="content")
    deadline = asyncio.get_running_loop().time() + 30
    found = await take_inventory(
        "kb",
        fields,
        {"fields": [{"name": "metadata", "type": "Edm.String", "filterable": True}]},
        QuerySettings(),
        search,
        documents=1,
        deadline=deadline,
    )
    assert (found.method, set(found.parents)) == (Method.SKIP, {"leave.md"})


async def gathered(search: FakeSearch, vectors: dict[str, Any]) -> tuple[Facts, int]:
    known = {"fields": [*definition(*ALL)["fields"], {"name": "vector", **vectors}]}
    fields = Fields(key="chunk_id", parent="parent_id", text="chunk", vectors=("vector",))
    deadline = asyncio.get_running_loop().time() + 30
    return await gather_facts(
        "kb",
        fields,
        known,
        QuerySettings(),
        search,
        documents=413,
        limits=InventoryLimits(),
        deadline=deadline,
    )


async def test_facts_are_the_inventory_and_the_statistics(search: FakeSearch) -> None:
    search.index("kb").statistics = Statistics(documents=413, storage_bytes=9, vector_bytes=77)
    facts, requests = await gathered(search, {"retrievable": False})
    assert facts.taken.complete
    assert (facts.stored, facts.sample) == (VectorStorage(documents=413, vector_bytes=77), None)
    assert requests == facts.taken.requests + 1


async def test_vectors_that_can_be_read_are_sampled(search: FakeSearch) -> None:
    search.index("kb").stored = [
        {**row, "vector": [1.0] if place % 2 else None} for place, row in enumerate(rows())
    ]
    facts, requests = await gathered(search, {"retrievable": True})
    assert facts.sample == VectorSample(rows=50, missing=25)
    assert requests == facts.taken.requests + 2


async def test_facts_that_cannot_be_read_are_left_out(search: FakeSearch) -> None:
    search.down = BrokenError(Code.UNREACHABLE, "No connection.")
    facts, _ = await gathered(search, {"retrievable": True})
    assert not facts.taken.taken
    assert (facts.stored, facts.sample) == (None, None)
