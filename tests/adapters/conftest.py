"""The real adapter before a scripted service, with pauses that are noted instead of slept."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.index import Fields
from app.domain.query import QuerySettings
from app.gate.ports import Ask
from tests.scripted import ScriptedSearch

KEY = "3fK9sLq2VbN7xTz1Wc8RyPm4JhGd6AeU5oXiQk0BnMvZtSgCw7Df"
WIZARD = Fields(
    key="chunk_id",
    parent="parent_id",
    text="chunk",
    title="title",
    vectors=("text_vector",),
    semantic_configuration="default",
)

Open = Callable[..., Any]


class Pauses:
    """A sleep that notes and does not wait."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
async def service() -> AsyncIterator[ScriptedSearch]:
    async with ScriptedSearch() as scripted:
        scripted.index("kb-v1")
        scripted.index("kb-v2")
        yield scripted


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def open_search(service: ScriptedSearch, pauses: Pauses) -> AsyncIterator[Open]:
    """Opens adapters on the service; every parameter may be set."""
    async with AsyncExitStack() as stack:

        async def opened(**changes: Any) -> AzureSearch:
            parameters: dict[str, Any] = {
                "endpoint": service.url,
                "credential": AzureKeyCredential(KEY),
                "limiter": Limiter(ceiling=8),
                "query_timeout_seconds": 5.0,
                "sleep": pauses,
                "jitter": lambda: 0.5,
            }
            return await stack.enter_async_context(AzureSearch(**{**parameters, **changes}))

        yield opened


@pytest.fixture
async def search(open_search: Open) -> AzureSearch:
    opened: AzureSearch = await open_search()
    return opened


def ask(text: str = "q1", index: str = "kb-v1", **changes: Any) -> Ask:
    """A question as a golden set with defaults asks it; `changes` are of the query, or of the Ask."""
    outer = {name: changes.pop(name) for name in ("filter", "vector", "session", "fields") if name in changes}
    if "query_filter" in changes:
        changes["filter"] = changes.pop("query_filter")
    return Ask(
        index=index, text=text, query=QuerySettings(**changes), fields=outer.pop("fields", WIZARD), **outer
    )


def soon(seconds: float = 60.0) -> float:
    return asyncio.get_running_loop().time() + seconds
