"""Whatever the search service answers, a question gets rows or an error of ours."""

import asyncio
import json
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.errors import GateError
from app.gate.ports import Answer
from tests.adapters.conftest import KEY, ask
from tests.scripted import JSON, Fault, ScriptedSearch

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
_KEYS = st.sampled_from(
    [
        "value",
        "chunk_id",
        "parent_id",
        "chunk",
        "@search.score",
        "@search.rerankerScore",
        "@search.nextPageParameters",
        "@search.semanticPartialResponseReason",
        "error",
    ]
) | st.text(max_size=5)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=12,
)
_ANSWERS = (
    st.binary(max_size=60)
    | _VALUES.map(lambda value: json.dumps(value).encode())
    | st.lists(_VALUES, max_size=3).map(lambda rows: json.dumps({"value": rows}).encode())
    | st.lists(st.dictionaries(_KEYS, _VALUES, max_size=6), max_size=3).map(
        lambda rows: json.dumps({"value": [{"parent_id": "d1", **row} for row in rows]}).encode()
    )
)


@given(
    bodies=st.lists(_ANSWERS, min_size=1, max_size=8),
    status=st.sampled_from([200, 206, 201, 204, 400, 404, 413]),
    content_type=st.sampled_from(
        [JSON, "text/html", "", "application/json; charset=latin-9", "x/y; charset=no"]
    ),
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_answer(bodies: list[bytes], status: int, content_type: str) -> None:
    async def run() -> None:
        async with (
            ScriptedSearch() as service,
            _opened(service) as search,
        ):
            service.index("kb-v1")
            for body in bodies:
                service.clear_faults()
                service.fault("kb-v1", Fault(status=status, body=body, content_type=content_type))
                await _asked(search)
        await asyncio.sleep(0.02)  # closed connections say so in the loop

    asyncio.run(run())


def _opened(service: ScriptedSearch) -> AzureSearch:
    return AzureSearch(
        endpoint=service.url,
        credential=AzureKeyCredential(KEY),
        limiter=Limiter(ceiling=2),
        query_timeout_seconds=5,
    )


async def _asked(search: AzureSearch) -> None:
    deadline = asyncio.get_running_loop().time() + 0.05  # no time for a second request
    for semantic in (True, False):
        found: Any
        try:
            found = await search.ask(ask(semantic=semantic), deadline)
        except GateError as error:
            str(error).encode()
        else:
            assert isinstance(found, Answer)


async def test_a_row_without_the_field_that_was_asked_for_is_no_answer() -> None:
    async with (
        ScriptedSearch() as service,
        _opened(service) as search,
    ):
        body = json.dumps({"value": [{"@search.score": 1.0, "@search.rerankerScore": 2.0}]}).encode()
        service.index("kb-v1")
        service.fault("kb-v1", Fault(body=body))
        with pytest.raises(GateError, match="a row without the field 'parent_id'"):
            await search.ask(ask(), asyncio.get_running_loop().time() + 5)
