"""Inventories of two indexes of 10,000 chunks, and what changed between them: time and memory.

The scripted service runs in a process of its own; the memory is the most that Python allocated in this one at
any time, beyond what it had before, measured in a round of its own since tracing slows it down.
"""

import asyncio
import multiprocessing
import random
import sys
import time
import tracemalloc
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from azure.core.credentials import AzureKeyCredential

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.differences import Facts, differences
from app.domain.index import resolve
from app.domain.query import QuerySettings
from app.gate.inventory import take_inventory
from tests.scripted import ScriptedSearch

CHUNKS = 10_000
PARENTS = 1_000
WORDS = 150  # of a chunk
KEY = "bench"
_SECONDS = 300.0


def _stored(*, shift: int) -> list[Mapping[str, Any]]:
    """The same texts in both, cut `shift` words later."""
    chance = random.Random(1)
    vocabulary = [
        f"{chance.choice('bcdfgklmnprst')}{chance.choice('aeiou')}{number:x}" for number in range(8000)
    ]
    rows: list[Mapping[str, Any]] = []
    each = CHUNKS // PARENTS
    for parent in range(PARENTS):
        words = chance.choices(vocabulary, k=WORDS * each)
        starts = [0, *range(WORDS - shift, WORDS * each - shift, WORDS)][:each]
        rows += [
            {
                "chunk_id": f"{chance.randrange(16**10):010x}_{parent}_pages_{place}",
                "parent_id": f"doc-{parent:05}",
                "chunk": " ".join(words[start : starts[place + 1] if place + 1 < len(starts) else None]),
                "title": f"Document {parent}",
            }
            for place, start in enumerate(starts)
        ]
    return rows


def _serve(pipe: Connection) -> None:
    with ScriptedSearch(key=KEY) as service:
        for name, shift in (("kb-v1", 0), ("kb-v2", 40)):
            stored = _stored(shift=shift)
            service.index(name, stored=stored, documents=len(stored))
        pipe.send(service.url)
        pipe.recv()


async def _facts(search: AzureSearch, index: str, deadline: float) -> Facts:
    query = QuerySettings()
    described = await search.describe(index, deadline)
    fields = resolve(described.definition, query, index).fields
    documents = await search.document_count(index, deadline)
    if fields is None:
        sys.exit("the benchmark's own index has no fields")
    inventory = await take_inventory(
        index, fields, described.definition, query, search, documents=documents, deadline=deadline
    )
    if not inventory.complete:
        sys.exit(f"the benchmark's own inventory is not complete: {inventory.note}")
    return Facts(
        index=index,
        query=query,
        definition=described.definition,
        fields=fields,
        documents=documents,
        inventory=inventory,
    )


async def _measured(url: str) -> tuple[float, float, int, int]:
    """Seconds for both inventories, seconds for comparing them, requests, chunks."""
    async with AzureSearch(
        endpoint=url, credential=AzureKeyCredential(KEY), limiter=Limiter(ceiling=2), query_timeout_seconds=60
    ) as search:
        deadline = asyncio.get_running_loop().time() + _SECONDS
        before = time.perf_counter()
        sides = [await _facts(search, name, deadline) for name in ("kb-v1", "kb-v2")]
        taken = time.perf_counter()
        found = differences(*sides)
        compared = time.perf_counter()
        named = {str(each.kind) for each in found}
        if named != {"chunking"}:
            sys.exit(f"the benchmark's own change was taken for {named}")
        one, other = (side.taken for side in sides)
        return taken - before, compared - taken, one.requests + other.requests, one.chunks + other.chunks


def rows() -> list[tuple[str, ...]]:
    """What, measured."""
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    url = str(pipe.recv())
    try:
        taken, compared, requests, chunks = asyncio.run(_measured(url))
        tracemalloc.start()
        asyncio.run(_measured(url))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    finally:
        pipe.send(None)
        process.join(10)
    return [
        (f"inventories of two indexes, {chunks:,} chunks of {WORDS} words", f"{taken:.1f} s"),
        ("their comparison, every document cut anew", f"{compared:.2f} s"),
        ("requests for both", f"{requests}"),
        ("peak memory of it all", f"{peak / 2**20:.0f} MiB"),
    ]


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="\t")
