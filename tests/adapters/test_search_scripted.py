"""The scripted service keeps its word, so that tests written on it mean what they say."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.scripted import Fault, ScriptedSearch, ranked


def search(service: ScriptedSearch, question: str = "q1", **body: Any) -> httpx.Response:
    url = f"{service.url}/indexes('kb-v1')/docs/search.post.search?api-version=2026-04-01"
    return httpx.post(url, json={"search": question, **body}, timeout=5)


def parents(response: httpx.Response) -> list[str]:
    return [row["parent_id"] for row in response.json()["value"]]


def test_it_serves_from_a_thread_of_its_own_with_the_latency_it_was_given() -> None:
    with ScriptedSearch(latency=0.05) as service:
        service.index("kb-v1")
        started = time.perf_counter()
        assert parents(search(service)) == ["x"] * 10
        assert time.perf_counter() - started >= 0.05
    with pytest.raises(httpx.ConnectError):
        search(service)


def test_answers_come_in_turn_and_a_fault_uses_none_up() -> None:
    with ScriptedSearch() as service:
        service.answer("kb-v1", "q1", ["a"], ["b"])
        service.fault("kb-v1", Fault(status=503), nth=2)
        assert parents(search(service)) == ["a"]
        assert search(service).status_code == 503
        assert [parents(search(service)) for _ in range(2)] == [["b"], ["b"]]
        assert [each.nth for each in service.searches("kb-v1", "q1")] == [1, 2, 3, 4]


def test_both_styles_of_address_and_what_is_not_there() -> None:
    with ScriptedSearch() as service:
        service.alias("live", "kb-v1")
        assert httpx.get(f"{service.url}/indexes/live?api-version=x").json()["name"] == "kb-v1"
        assert httpx.get(f"{service.url}/indexes('kb-v1')/docs/$count").text == "1000"
        assert httpx.get(f"{service.url}/indexes('kb-v1')/docs/%24count").text == "1000"
        assert httpx.post(f"{service.url}/indexes/live/docs/search", json={"search": "q"}).status_code == 200
        assert httpx.get(f"{service.url}/indexes/kb-v9").status_code == 404
        assert httpx.get(f"{service.url}/aliases('kb-v1')").status_code == 404
        assert httpx.get(f"{service.url}/elsewhere").status_code == 404


def test_rows_are_cut_to_top_and_select() -> None:
    with ScriptedSearch() as service:
        service.answer("kb-v1", "q1", ranked(2, "d1"))
        response = search(service, top=2, select="parent_id", queryType="semantic")
        rows = response.json()["value"]
        assert [row["parent_id"] for row in rows] == ["x", "d1"]
        assert set(rows[0]) == {"@search.score", "@search.rerankerScore", "parent_id"}


def test_without_the_key_nothing_is_served() -> None:
    with ScriptedSearch(key="secret") as service:
        service.index("kb-v1")
        assert search(service).status_code == 403
        headers = {"api-key": "secret"}
        assert httpx.get(f"{service.url}/indexes/kb-v1", headers=headers).status_code == 200


async def test_a_hook_sees_each_search_first_and_may_answer_it() -> None:
    async with ScriptedSearch() as service:
        index = service.index("kb-v1")

        def halfway(received: Any) -> list[str] | None:
            index.documents += 1
            return ["hooked"] if received.body.get("filter") else None

        service.on_search = halfway
        first = await asyncio.to_thread(search, service)
        second = await asyncio.to_thread(search, service, filter="lang eq 'de'")
        assert (parents(first)[0], parents(second), index.documents) == ("x", ["hooked"], 1002)
