"""Faults on request: each arrives at the official client as the real one would."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.core.exceptions import (
    DecodeError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceResponseError,
)

from tests.local.conftest import VERSION, StandIn


def ask(stand_in: StandIn, words: str = "dental", **options: Any) -> list[dict[str, Any]]:
    with stand_in.search_client("handbook", retry_total=0) as client:
        return list(client.search(words, **options))


def test_a_status_for_so_many_requests(stand_in: StandIn) -> None:
    stand_in.arm({"operation": "search", "status": 503, "times": 2})
    for _ in range(2):
        with pytest.raises(HttpResponseError) as caught:
            ask(stand_in)
        assert caught.value.status_code == 503
        assert "Reduce the rate of requests" in caught.value.message
    assert len(ask(stand_in)) == 1
    assert stand_in.call("GET", "/_faults").json[0]["taken"] == 2
    assert stand_in.counts() == {"handbook": {"search": 3}}


def test_a_retry_after_is_sent_and_obeyed(stand_in: StandIn) -> None:
    stand_in.arm({"status": 429, "times": 1, "headers": {"Retry-After": "0"}})
    with stand_in.search_client("handbook") as client:
        assert len(list(client.search("dental"))) == 1
    assert stand_in.counts()["handbook"]["search"] == 2


def test_only_the_named_index_and_question_are_hit(stand_in: StandIn) -> None:
    stand_in.arm(
        {"index": "handbook", "question": "dental", "status": 502}, {"index": "other", "status": 500}
    )
    assert ask(stand_in, "glasses")
    with pytest.raises(HttpResponseError):
        ask(stand_in, "the dental plan")
    assert stand_in.call("GET", f"/indexes('handbook')?{VERSION}").status == 200


def test_a_fault_meets_an_index_under_its_alias_too(stand_in: StandIn) -> None:
    stand_in.call("PUT", f"/aliases('faulty')?{VERSION}", {"name": "faulty", "indexes": ["handbook"]})
    stand_in.arm({"index": "handbook", "operation": "count", "status": 503})
    assert stand_in.call("GET", f"/indexes('faulty')/docs/$count?{VERSION}").status == 503
    stand_in.call("DELETE", f"/aliases('faulty')?{VERSION}")


def test_some_requests_may_pass_first(stand_in: StandIn) -> None:
    stand_in.arm({"operation": "count", "skip": 2, "times": 1, "status": 500})
    path = f"/indexes('handbook')/docs/$count?{VERSION}"
    assert [stand_in.call("GET", path).status for _ in range(4)] == [200, 200, 500, 200]


def test_the_first_fault_that_matches_wins(stand_in: StandIn) -> None:
    stand_in.arm({"operation": "search", "status": 402, "times": 1}, {"status": 503})
    path = f"/indexes('handbook')/docs/search?{VERSION}"
    assert [stand_in.call("POST", path, {}).status for _ in range(2)] == [402, 503]


def test_times_hold_when_requests_come_at_once(stand_in: StandIn) -> None:
    stand_in.arm({"operation": "count", "times": 5, "status": 500})
    path = f"/indexes('handbook')/docs/$count?{VERSION}"
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: stand_in.call("GET", path).status, range(40)))
    assert sorted(statuses) == [200] * 35 + [500] * 5
    assert stand_in.counts() == {"handbook": {"count": 40}}


@pytest.mark.parametrize("status", [206, 200])
def test_a_partial_answer_has_base_order_and_a_reason(stand_in: StandIn, status: int) -> None:
    base = stand_in.keys("handbook", search="home")
    stand_in.arm({"partial": {"status": status, "reason": "maxWaitExceeded"}})
    reply = stand_in.search("handbook", search="home", queryType="semantic")
    assert reply.status == status
    assert reply.json["@search.semanticPartialResponseReason"] == "maxWaitExceeded"
    assert reply.json["@search.semanticPartialResponseType"] == "baseResults"
    assert [row["chunk_id"] for row in reply.json["value"]] == base
    assert all(row["@search.reranker_score"] is None for row in ask(stand_in, "home", query_type="semantic"))


def test_an_unranked_answer_says_nothing_of_it(stand_in: StandIn) -> None:
    stand_in.arm({"unranked": True})
    reply = stand_in.search("handbook", search="home", queryType="semantic")
    assert reply.status == 200
    assert "rerankerScore" not in reply.text
    assert "Partial" not in reply.text


def test_a_next_page_makes_the_client_ask_again(stand_in: StandIn) -> None:
    stand_in.arm({"next_page": True, "times": 1})
    with stand_in.search_client("handbook") as client:
        rows = [row["chunk_id"] for row in client.search("*", order_by=["chunk_id"], top=3)]
    assert len(rows) == len(set(rows)) == 6
    assert stand_in.counts()["handbook"]["search"] == 2


def test_a_body_of_ones_own_replaces_the_answer(stand_in: StandIn) -> None:
    stand_in.arm({"status": 200, "body": {"odd": True}})
    with pytest.raises(TypeError):
        ask(stand_in)
    stand_in.arm({"status": 404, "operation": "get", "body": {"error": {"code": "", "message": "gone"}}})
    with stand_in.index_client() as client, pytest.raises(ResourceNotFoundError, match="gone"):
        client.get_index("handbook")


@pytest.mark.parametrize("drop", ["before", "middle"])
def test_a_dropped_connection_is_a_broken_response(stand_in: StandIn, drop: str) -> None:
    stand_in.arm({"drop": drop, "times": 1})
    with pytest.raises((ServiceResponseError, HttpResponseError)):
        ask(stand_in)
    assert len(ask(stand_in)) == 1


def test_a_truncated_body_is_not_json(stand_in: StandIn) -> None:
    stand_in.arm({"truncate": 20})
    with pytest.raises((DecodeError, HttpResponseError)):
        ask(stand_in)


def test_a_delay_is_waited_for_while_others_are_served(stand_in: StandIn) -> None:
    stand_in.arm({"question": "slow", "delay_ms": 700})
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        slow = pool.submit(stand_in.search, "handbook", search="slow")
        assert stand_in.search("handbook", search="fast").status == 200
        assert time.monotonic() - started < 0.6
        assert slow.result().status == 200
        assert time.monotonic() - started >= 0.7


def test_a_trickle_takes_its_time(stand_in: StandIn) -> None:
    stand_in.arm({"trickle": 4000})
    started = time.monotonic()
    reply = stand_in.search("handbook", search="*", select="chunk_id,title")
    assert len(reply.json["value"]) == 8
    assert time.monotonic() - started >= len(reply.text) / 4000 * 0.9


def test_a_vectorizing_endpoint_can_fail_too(stand_in: StandIn) -> None:
    stand_in.arm({"operation": "embeddings", "status": 429, "headers": {"retry-after-ms": "5"}})
    path = "/openai/deployments/wordllama-256/embeddings?api-version=2024-10-21"
    reply = stand_in.call("POST", path, {"input": "one"})
    assert (reply.status, reply.headers["retry-after-ms"]) == (429, "5")


def test_what_was_asked_is_remembered_in_order(stand_in: StandIn) -> None:
    ask(stand_in, "first")
    ask(stand_in, "second")
    report = stand_in.call("GET", "/_requests").json
    assert report["total"] == 2
    assert [entry["question"] for entry in report["recent"]] == ["first", "second"]
    assert stand_in.call("DELETE", "/_requests").json["total"] == 0


def test_a_fault_with_a_word_we_do_not_know_is_refused(stand_in: StandIn) -> None:
    assert stand_in.call("PUT", "/_faults", [{"stauts": 500}]).status == 400
    assert stand_in.call("PUT", "/_faults", [{"status": "500"}]).status == 400
    assert stand_in.call("PUT", "/_faults", b"[").status == 400
