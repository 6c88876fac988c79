"""The search adapter before a scripted service: what is sent, what is read, and what is refused.

Cases S06, S07, S08, S11 and S20 of the shared failure cases, and every trap of the client that is known.
"""

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any, Self

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.errors import BrokenError, FailureCode, InputError, QueryError
from app.domain.query import (
    FilterMode,
    Mode,
    ParentNames,
    SearchMode,
    Statistics,
    Syntax,
)
from app.domain.reasons import Code
from app.gate.ports import SearchService
from tests.adapters.conftest import KEY, WIZARD, Open, Pauses, ask, soon
from tests.scripted import Chunk, Fault, ScriptedSearch, ranked


async def sent(search: AzureSearch, service: ScriptedSearch, **changes: Any) -> dict[str, Any]:
    """The body of the one request that such a question makes."""
    before = len(service.requests)
    await search.ask(ask(**changes), soon())
    assert len(service.requests) == before + 1
    body = service.requests[-1].body
    assert isinstance(body, dict)
    return body


async def query_error(search: AzureSearch, **changes: Any) -> QueryError:
    with pytest.raises(QueryError) as caught:
        await search.ask(ask(**changes), soon())
    return caught.value


async def broken(search: AzureSearch, **changes: Any) -> BrokenError:
    with pytest.raises(BrokenError) as caught:
        await search.ask(ask(**changes), soon())
    return caught.value


def test_it_is_a_search_service(search: AzureSearch) -> None:
    service: SearchService = search
    assert service is search


# what is sent


async def test_a_hybrid_question_with_ranker_and_vectorizer(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    assert await sent(search, service, text="How long?") == {
        "search": "How long?",
        "queryType": "semantic",
        "semanticConfiguration": "default",
        "semanticErrorHandling": "fail",
        "select": "chunk_id,parent_id,chunk,title",
        "top": 50,
        "vectorQueries": [{"kind": "text", "text": "How long?", "k": 50, "fields": "text_vector"}],
    }


async def test_a_keyword_question_has_no_vector_query(search: AzureSearch, service: ScriptedSearch) -> None:
    body = await sent(search, service, mode=Mode.KEYWORD, semantic=False, syntax=Syntax.FULL, candidates=7)
    assert body == {
        "search": "q1",
        "queryType": "full",
        "select": "chunk_id,parent_id,chunk,title",
        "top": 7,
    }


async def test_a_vector_question_sends_its_text_to_the_ranker_apart(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    body = await sent(search, service, mode=Mode.VECTOR)
    assert "search" not in body
    assert body["semanticQuery"] == "q1"
    assert body["vectorQueries"][0]["text"] == "q1"
    plain = await sent(search, service, mode=Mode.VECTOR, semantic=False)
    assert "queryType" not in plain
    assert "semanticQuery" not in plain
    assert "semanticErrorHandling" not in plain


async def test_a_given_vector_stands_for_the_text(search: AzureSearch, service: ScriptedSearch) -> None:
    body = await sent(search, service, vector=(0.25, -0.5), k=30, candidates=30)
    assert body["vectorQueries"] == [
        {"kind": "vector", "vector": [0.25, -0.5], "k": 30, "fields": "text_vector"}
    ]
    assert body["search"] == "q1"


async def test_every_setting_of_the_query_is_sent(search: AzureSearch, service: ScriptedSearch) -> None:
    body = await sent(
        search,
        service,
        fields=replace(WIZARD, vectors=("text_vector", "title_vector")),
        filter="(lang eq 'de') and (dept eq 'hr')",
        session="run-1",
        search_fields=("chunk", "title"),
        search_mode=SearchMode.ALL,
        scoring_profile="fresh",
        scoring_parameters=("here--1,2", "tags-a,b"),
        scoring_statistics=Statistics.GLOBAL,
        exhaustive=True,
        vector_weight=2.0,
        vector_filter_mode=FilterMode.PRE,
        oversampling=4.0,
        k=80,
    )
    assert body["filter"] == "(lang eq 'de') and (dept eq 'hr')"
    assert body["sessionId"] == "run-1"
    assert body["searchFields"] == "chunk,title"
    assert body["searchMode"] == "all"
    assert body["scoringProfile"] == "fresh"
    assert body["scoringParameters"] == ["here--1,2", "tags-a,b"]
    assert body["scoringStatistics"] == "global"
    assert body["vectorFilterMode"] == "preFilter"
    assert body["vectorQueries"] == [
        {
            "kind": "text",
            "text": "q1",
            "k": 80,
            "fields": "text_vector,title_vector",
            "exhaustive": True,
            "weight": 2.0,
            "oversampling": 4.0,
        }
    ]


async def test_the_fields_are_selected_once_each_and_a_path_by_its_field(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    fields = replace(WIZARD, parent="metadata/source", title="chunk")
    service.answer("kb-v1", "q1", [Chunk(parent=None, fields={"metadata": '{"source": "d1"}'})])
    assert (await sent(search, service, fields=fields))["select"] == "chunk_id,metadata,chunk"


async def test_the_key_and_the_user_agent_are_sent_as_headers(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    await search.ask(ask(), soon())
    headers = service.requests[-1].headers
    assert headers["api-key"] == KEY
    assert headers["user-agent"].startswith("search-index-gate ")
    assert "authorization" not in headers


class Tokens:
    """A credential that gives tokens and notes the scopes."""

    token = "eyJ0b2tlbg.e30.c2ln"

    def __init__(self) -> None:
        self.scopes: list[str] = []

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.scopes.extend(scopes)
        return AccessToken(self.token, 4_000_000_000)

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("audience", "scope"),
    [
        (None, "https://search.azure.com/.default"),
        ("https://search.azure.us", "https://search.azure.us/.default"),
    ],
)
async def test_a_token_is_sent_for_the_audience(
    open_search: Open, service: ScriptedSearch, audience: str | None, scope: str
) -> None:
    tokens = Tokens()
    search = await open_search(credential=tokens, audience=audience, enforce_https=False)
    await search.ask(ask(), soon())
    await search.describe("kb-v1", soon())
    assert await search.document_count("kb-v1", soon()) == 1000
    assert {request.headers["authorization"] for request in service.requests} == {f"Bearer {tokens.token}"}
    assert set(tokens.scopes) == {scope}


async def test_a_token_is_not_sent_over_http(open_search: Open) -> None:
    with pytest.raises(InputError, match="https"):
        await open_search(credential=Tokens())


async def test_an_observation_is_exactly_one_request(search: AzureSearch, service: ScriptedSearch) -> None:
    answer = await search.ask(ask(), soon())
    assert len(service.requests) == 1
    assert (answer.attempts, answer.throttled) == (1, 0)
    assert 0 < answer.elapsed_ms < 5000


async def test_a_vector_query_without_a_vector_field_is_not_sent_as_a_keyword_query(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    error = await broken(search, fields=replace(WIZARD, vectors=()))
    assert error.code == Code.FIELD_MISSING
    assert service.requests == []


# what is read


async def test_the_order_of_the_response_is_the_rank_whatever_the_scores(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    rows = [
        Chunk(parent="d1", key="c1", score=0.1, reranker_score=1.5, text="one", title="One"),
        Chunk(parent="d2", key="c2", score=0.9, reranker_score=3.5),
        Chunk(parent=None, key="c3", score=0.5, reranker_score=0.0),
    ]
    service.answer("kb-v1", "q1", rows)
    answer = await search.ask(ask(), soon())
    assert [row.key for row in answer.rows] == ["c1", "c2", "c3"]
    assert [row.parent for row in answer.rows] == ["d1", "d2", None]
    assert [row.score for row in answer.rows] == [0.1, 0.9, 0.5]
    assert [row.reranker_score for row in answer.rows] == [1.5, 3.5, 0.0]
    assert (answer.rows[0].text, answer.rows[0].title) == ("one", "One")


@pytest.mark.parametrize("rank", [1, 5, 6, 50])
async def test_the_row_on_a_rank_stands_there(
    search: AzureSearch, service: ScriptedSearch, rank: int
) -> None:
    service.answer("kb-v1", "q1", ranked(rank, "d1"))
    answer = await search.ask(ask(), soon())
    assert [place for place, row in enumerate(answer.rows, start=1) if row.parent == "d1"] == [rank]


async def test_an_empty_answer_is_an_answer(search: AzureSearch, service: ScriptedSearch) -> None:
    service.answer("kb-v1", "q1", [])
    answer = await search.ask(ask(), soon())
    assert (answer.rows, answer.attempts) == ((), 1)


async def test_parents_are_decoded_as_the_query_says(search: AzureSearch, service: ScriptedSearch) -> None:
    encoded = "aHR0cHM6Ly9zdGNvbnRvc28uYmxvYi5jb3JlLndpbmRvd3MubmV0L2RvY3MvcGF5LnBkZg2"
    service.answer("kb-v1", "q1", [encoded, "plain"])
    names = (ParentNames.BASE64URL, ParentNames.FILE_NAME)
    answer = await search.ask(ask(parent_names=names), soon())
    assert [row.parent for row in answer.rows] == ["pay.pdf", "plain"]


async def test_values_that_are_no_strings_become_strings_and_null_stays(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    fields = {"chunk_id": 7, "title": None, "chunk": ["a", "b"], "parent_id": 12}
    service.answer("kb-v1", "q1", [Chunk(parent="x", fields=fields)])
    row = (await search.ask(ask(), soon())).rows[0]
    assert (row.key, row.title, row.text, row.parent) == ("7", None, '["a", "b"]', "12")


async def test_fields_that_the_side_does_not_have_are_none(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    fields = replace(WIZARD, key=None, text=None, title=None)
    row = (await search.ask(ask(fields=fields), soon())).rows[0]
    assert (row.key, row.text, row.title, row.parent) == (None, None, None, "x")


async def test_further_pages_are_not_followed(search: AzureSearch, service: ScriptedSearch) -> None:
    service.answer("kb-v1", "q1", ranked(3, "d1"))
    service.fault("kb-v1", Fault(next_page=True))
    answer = await search.ask(ask(), soon())
    assert len(answer.rows) == 50
    assert len(service.requests) == 1


async def test_rows_beyond_the_candidates_are_cut(search: AzureSearch, service: ScriptedSearch) -> None:
    row = {"@search.score": 1, "@search.rerankerScore": 2, "parent_id": "x"}
    service.fault("kb-v1", Fault(body=json.dumps({"value": [row] * 60}).encode()))
    assert len((await search.ask(ask(candidates=5), soon())).rows) == 5


async def test_unanswered_scores_are_none(search: AzureSearch, service: ScriptedSearch) -> None:
    body = b'{"value": [{"@search.score": NaN, "parent_id": "x"}, {"@search.score": null, "parent_id": "y"}]}'
    service.fault("kb-v1", Fault(body=body))
    answer = await search.ask(ask(semantic=False), soon())
    assert [(row.parent, row.score) for row in answer.rows] == [("x", None), ("y", None)]


# the ranker gave up


@pytest.mark.parametrize("status", [206, 200])
@pytest.mark.parametrize("reason", ["capacityOverloaded", "CapacityOverloaded", "maxWaitExceeded"])
async def test_a_partial_answer_is_asked_again_and_never_ranked(
    search: AzureSearch, service: ScriptedSearch, status: int, reason: str
) -> None:
    service.answer("kb-v1", "q1", ranked(9, "d1"), ranked(2, "d1"))
    service.fault("kb-v1", Fault(status=status, partial=reason, unranked=True), nth=1)
    answer = await search.ask(ask(), soon())
    assert [row.parent for row in answer.rows].index("d1") == 1
    assert (answer.attempts, answer.throttled) == (2, 0)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=206, partial="capacityOverloaded", unranked=True),
        Fault(status=200, partial="capacityOverloaded", unranked=True),
        Fault(status=206, partial="transient", partial_type="rerankedResults"),
        Fault(status=200, extra={"@search.SemanticPartialResponseType": "baseResults"}),
        Fault(status=206),
    ],
    ids=["206", "200", "206 reranked", "200 type only", "206 without a reason"],
)
async def test_a_lasting_partial_answer_fails_after_four_requests(
    search: AzureSearch, service: ScriptedSearch, fault: Fault
) -> None:
    service.fault("kb-v1", fault)
    error = await query_error(search)
    assert (error.code, error.attempts, error.throttled) == (FailureCode.PARTIAL, 4, 0)
    assert len(service.requests) == 4
    assert (fault.partial or str(fault.status)) in str(error)


async def test_a_partial_answer_fails_a_query_without_ranker_too(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    service.fault("kb-v1", Fault(status=206))
    assert (await query_error(search, semantic=False)).code is FailureCode.PARTIAL


async def test_a_reason_that_is_null_is_no_reason(search: AzureSearch, service: ScriptedSearch) -> None:
    service.fault("kb-v1", Fault(extra={"@search.semanticPartialResponseReason": None}))
    assert (await search.ask(ask(), soon())).attempts == 1


@pytest.mark.parametrize("fault", [Fault(unranked=True), Fault(unranked_from=6)], ids=["all", "some"])
async def test_rows_without_a_reranker_score_are_no_ranking(
    search: AzureSearch, service: ScriptedSearch, fault: Fault
) -> None:
    service.fault("kb-v1", fault)
    error = await query_error(search)
    assert (error.code, error.attempts) == (FailureCode.UNRANKED, 4)
    assert f"from rank {fault.unranked_from or 1} on" in str(error)


async def test_without_the_ranker_no_reranker_score_is_expected(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    answer = await search.ask(ask(semantic=False), soon())
    assert {row.reranker_score for row in answer.rows} == {None}


# throttled, dropped, slow


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (429, FailureCode.THROTTLED),
        (503, FailureCode.THROTTLED),
        (500, FailureCode.SERVER_ERROR),
        (502, FailureCode.SERVER_ERROR),
        (504, FailureCode.SERVER_ERROR),
        (408, FailureCode.TIMED_OUT),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"Retry-After": "1"}], ids=["", "retry-after"])
async def test_a_lasting_fault_takes_four_requests_in_all_with_and_without_retry_after(
    search: AzureSearch,
    service: ScriptedSearch,
    status: int,
    code: FailureCode,
    headers: dict[str, str],
) -> None:
    service.fault("kb-v1", Fault(status=status, headers=headers))
    error = await query_error(search)
    assert (error.code, error.attempts) == (code, 4)
    assert error.throttled == (4 if status in (429, 503) else 0)
    assert len(service.requests) == 4


async def test_twenty_throttled_questions_take_three_requests_each(
    search: AzureSearch, service: ScriptedSearch, pauses: Pauses
) -> None:
    service.fault("kb-v1", Fault(status=429), nth=1)
    service.fault("kb-v1", Fault(status=503, message="Reduce the rate of requests"), nth=2)
    answers = await asyncio.gather(*(search.ask(ask(f"q{n}"), soon()) for n in range(20)))
    assert [(each.attempts, each.throttled) for each in answers] == [(3, 2)] * 20
    assert len(service.requests) == 60
    assert sorted(pauses.taken) == [0.25] * 20 + [0.5] * 20


async def test_pauses_are_jittered(open_search: Open, service: ScriptedSearch, pauses: Pauses) -> None:
    draws = iter([0.0, 0.25, 1.0, 1.0])
    search = await open_search(jitter=lambda: next(draws))
    service.fault("kb-v1", Fault(status=429))
    await query_error(search)
    assert pauses.taken == [0.0, 0.25, 2.0]


@pytest.mark.parametrize(
    "headers", [{"Retry-After": "0.2"}, {"retry-after-ms": "200"}, {"x-ms-retry-after-ms": "200"}]
)
async def test_no_request_is_sent_sooner_than_retry_after(
    open_search: Open, service: ScriptedSearch, headers: dict[str, str]
) -> None:
    search = await open_search(sleep=asyncio.sleep, jitter=lambda: 0.0)
    service.fault("kb-v1", Fault(status=429, headers=headers), nth=1)
    await search.ask(ask(), soon())
    first, second = service.requests
    assert 0.2 <= second.at - first.at < 2


async def test_throttling_lowers_the_number_of_requests_under_way(
    open_search: Open, service: ScriptedSearch
) -> None:
    search = await open_search(limiter=Limiter(ceiling=2), sleep=asyncio.sleep, jitter=lambda: 0.0)
    service.latency = 0.02
    await asyncio.gather(*(search.ask(ask(f"q{n}"), soon()) for n in range(4)))
    assert service.most_under_way == 2
    service.fault("kb-v1", Fault(status=503), question="refused", nth=(1, 2))
    answer = await search.ask(ask("refused"), soon())
    assert (answer.attempts, answer.throttled) == (3, 2)
    service.most_under_way = 0
    await asyncio.gather(*(search.ask(ask(f"q{n}"), soon()) for n in range(2)))
    assert service.most_under_way == 1


async def test_at_most_the_ceiling_is_under_way(open_search: Open, service: ScriptedSearch) -> None:
    search = await open_search(limiter=Limiter(ceiling=3))
    service.latency = 0.01
    asks = [ask(f"q{n}", index) for n in range(10) for index in ("kb-v1", "kb-v2")]
    await asyncio.gather(*(search.ask(each, soon()) for each in asks))
    assert service.most_under_way == 3


async def test_a_retry_after_beyond_the_deadline_ends_the_question_at_once(
    search: AzureSearch, service: ScriptedSearch, pauses: Pauses
) -> None:
    service.fault("kb-v1", Fault(status=503, headers={"Retry-After": "3600"}))
    error = await query_error(search)
    assert (error.code, error.attempts, error.throttled) == (FailureCode.THROTTLED, 1, 1)
    assert pauses.taken == []


@pytest.mark.parametrize("drop", ["before", "mid"])
async def test_a_dropped_connection_is_tried_again(
    search: AzureSearch, service: ScriptedSearch, drop: str
) -> None:
    service.fault("kb-v1", Fault(drop=drop), nth=1)
    answer = await search.ask(ask(), soon())
    assert (answer.attempts, answer.throttled, len(answer.rows)) == (2, 0, 10)
    service.fault("kb-v1", Fault(drop=drop), question="q2")
    error = await query_error(search, text="q2")
    assert (error.code, error.attempts) == (FailureCode.UNREACHABLE, 4)
    assert len(service.searches("kb-v1", "q2")) == 4


@pytest.mark.parametrize("fault", [Fault(trickle=0.02), Fault(delay=60)], ids=["trickle", "silence"])
async def test_a_query_is_cut_at_its_limit_however_the_answer_comes(
    open_search: Open, service: ScriptedSearch, fault: Fault
) -> None:
    search = await open_search(query_timeout_seconds=0.1)
    service.fault("kb-v1", fault)
    loop = asyncio.get_running_loop()
    started = loop.time()
    error = await query_error(search)
    assert (error.code, error.attempts) == (FailureCode.TIMED_OUT, 4)
    assert 0.35 < loop.time() - started < 5
    assert 1 <= len(service.requests) <= 4  # an attempt may be cut before it is sent


async def test_the_connection_of_a_query_that_was_cut_is_closed(
    open_search: Open, service: ScriptedSearch
) -> None:
    search = await open_search(query_timeout_seconds=0.1)
    service.fault("kb-v1", Fault(trickle=0.01))
    await query_error(search)
    for _ in range(500):
        if not service.under_way:
            break
        await asyncio.sleep(0.01)
    assert service.under_way == 0


async def test_a_late_answer_does_not_go_to_the_next_question(
    open_search: Open, service: ScriptedSearch
) -> None:
    search = await open_search(query_timeout_seconds=0.1)
    service.answer("kb-v1", "q1", ["late"])
    service.answer("kb-v1", "q2", ["right"])
    service.fault("kb-v1", Fault(delay=0.15), question="q1")
    answers = await asyncio.gather(
        *(search.ask(ask(text), soon()) for text in ("q1", "q2", "q2")), return_exceptions=True
    )
    assert isinstance(answers[0], QueryError)
    for answer in (*answers[1:], await search.ask(ask("q2"), soon())):
        assert not isinstance(answer, BaseException)
        assert [row.parent for row in answer.rows] == ["right"]


async def test_the_deadline_cuts_a_query_under_way(search: AzureSearch, service: ScriptedSearch) -> None:
    service.fault("kb-v1", Fault(delay=60))
    with pytest.raises(QueryError) as caught:
        await search.ask(ask(), soon(0.1))
    assert (caught.value.code, caught.value.attempts) == (FailureCode.TIMED_OUT, 1)
    assert len(service.requests) == 1


async def test_an_unreachable_service_fails_the_question_and_breaks_the_inspection(
    open_search: Open,
) -> None:
    search = await open_search(endpoint="http://127.0.0.1:9")
    error = await query_error(search)
    assert (error.code, error.attempts) == (FailureCode.UNREACHABLE, 4)
    for call in (search.describe("kb-v1", soon()), search.document_count("kb-v1", soon())):
        with pytest.raises(BrokenError) as caught:
            await call
        assert caught.value.code == Code.UNREACHABLE


async def test_a_name_that_does_not_resolve_is_unreachable(open_search: Open) -> None:
    search = await open_search(endpoint="http://search.invalid")
    assert (await query_error(search)).code is FailureCode.UNREACHABLE


# not what the API promises


@pytest.mark.parametrize(
    "fault",
    [
        Fault(without_value=True),
        Fault(body=b'{"value": null}'),
        Fault(body=b'{"value": 5}'),
        Fault(body=b'{"value": ["x"]}'),
        Fault(body=b"[]"),
        Fault(body=b"null"),
        Fault(body=b""),
        Fault(body=b"\xff\xfe"),
        Fault(truncated=True),
        Fault(content_type="text/html", body=b"<html>sign in</html>"),
        Fault(content_type="text/plain"),
        Fault(content_type="application/octet-stream"),
        Fault(headers={"Content-Encoding": "gzip"}),
        Fault(status=204, body=b""),
        Fault(status=302, headers={"Location": "/elsewhere"}),
        Fault(status=307, headers={"Location": "https://elsewhere.invalid/"}),
    ],
    ids=repr,
)
async def test_an_answer_that_is_none_is_tried_once_more_and_never_ranked(
    search: AzureSearch, service: ScriptedSearch, fault: Fault
) -> None:
    service.fault("kb-v1", fault)
    error = await query_error(search)
    assert (error.code, error.attempts) == (FailureCode.PROTOCOL, 2)
    assert [request.on for request in service.requests] == ["search", "search"]


async def test_an_unreadable_error_keeps_its_status(search: AzureSearch, service: ScriptedSearch) -> None:
    service.fault("kb-v1", Fault(status=503, content_type="application/octet-stream", body=b"busy"))
    assert (await query_error(search)).code is FailureCode.THROTTLED
    service.fault("kb-v2", Fault(status=502, body=b'{"error": {"code'))
    assert (await query_error(search, index="kb-v2")).code is FailureCode.SERVER_ERROR


# refused


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("headers", [{}, {"Retry-After": "5"}], ids=["", "retry-after"])
async def test_a_refused_identity_breaks_the_run_with_one_request(
    search: AzureSearch, service: ScriptedSearch, pauses: Pauses, status: int, headers: dict[str, str]
) -> None:
    service.fault("kb-v2", Fault(status=status, headers=headers))
    await search.ask(ask(), soon())
    error = await broken(search, index="kb-v2")
    assert (error.code, error.index) == (Code.UNAUTHORIZED, "kb-v2")
    assert len(service.searches("kb-v2")) == 1
    assert pauses.taken == []


async def test_the_message_names_index_identity_role_and_key_only_setting(
    open_search: Open, service: ScriptedSearch
) -> None:
    tokens = Tokens()
    search = await open_search(
        credential=tokens, client_id="11111111-2222-3333-4444-555555555555", enforce_https=False
    )
    service.fault("kb-v2", Fault(status=403))
    message = str(await broken(search, index="kb-v2"))
    for part in (
        "kb-v2",
        "11111111-2222-3333-4444-555555555555",
        "Search Index Data Reader",
        "API keys only",
    ):
        assert part in message
    assert tokens.token not in message


async def test_a_bearer_challenge_does_not_repeat_the_request(
    open_search: Open, service: ScriptedSearch
) -> None:
    search = await open_search(credential=Tokens(), enforce_https=False)
    challenge = 'Bearer authorization_uri="https://login.invalid", resource_id="https://search.azure.com"'
    service.fault("kb-v1", Fault(status=401, headers={"WWW-Authenticate": challenge}))
    assert (await broken(search)).code == Code.UNAUTHORIZED
    assert len(service.requests) == 1


async def test_no_token_to_be_had_is_unauthorized(open_search: Open, service: ScriptedSearch) -> None:
    class NoTokens(Tokens):
        async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
            raise ClientAuthenticationError("DefaultAzureCredential failed to retrieve a token")

    search = await open_search(credential=NoTokens(), enforce_https=False)
    error = await broken(search)
    assert error.code == Code.UNAUTHORIZED
    assert "DefaultAzureCredential failed" in str(error)
    assert service.requests == []


UNKNOWN_SEMANTIC = Fault(
    status=400,
    code="InvalidRequestParameter",
    detail="UnknownSemanticConfiguration",
    message="Unknown semantic configuration 'default'.\r\nParameter name: semanticConfiguration",
)
VECTORIZER = "Could not complete vectorization action. The vectorization endpoint returned status code "


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (
            Fault(status=402, message="Free Query Semantic Usage's exceeded for the month."),
            Code.QUOTA_EXCEEDED,
        ),
        (Fault(status=404, message="The index 'kb-v1' for service 's' was not found."), Code.INDEX_MISSING),
        (UNKNOWN_SEMANTIC, Code.SEMANTIC_UNAVAILABLE),
        (replace(UNKNOWN_SEMANTIC, code="", detail=""), Code.SEMANTIC_UNAVAILABLE),
        (
            Fault(
                status=400,
                code="FeatureNotSupportedInService",
                message="Semantic search is not enabled for this service.\r\nParameter name: queryType",
            ),
            Code.SEMANTIC_UNAVAILABLE,
        ),
        (Fault(status=400, detail="SemanticQueriesNotAvailable", message="No."), Code.SEMANTIC_UNAVAILABLE),
        (
            Fault(
                status=400,
                message="Invalid expression: Could not find a property named 'parent_id' on type "
                "'search.document'.\r\nParameter name: $select",
            ),
            Code.FIELD_MISSING,
        ),
        (
            Fault(
                status=400,
                message="Invalid expression: 'parent_id' is not a retrievable field. Only fields marked as "
                "retrievable in the index can be used in $select.",
            ),
            Code.FIELD_MISSING,
        ),
        (
            Fault(status=400, message="The field 'id' in the search field list is not searchable."),
            Code.FIELD_MISSING,
        ),
        (
            Fault(status=400, detail="UnknownField", message="Unknown field 'v' in vector field list."),
            Code.FIELD_MISSING,
        ),
        (
            Fault(status=400, message="The field 'v' in the vector field list is not a vector field."),
            Code.FIELD_MISSING,
        ),
        (
            Fault(
                status=400,
                code="InvalidVectorQuery",
                message="Field 'v' does not have a vectorizer defined in it's vector profile.",
            ),
            Code.NO_VECTORIZER,
        ),
        (Fault(status=502, message=f"{VECTORIZER}'401' (Unauthorized)."), Code.VECTORIZER_FAILED),
        (Fault(status=502, message=f"{VECTORIZER}'403' (Forbidden)."), Code.VECTORIZER_FAILED),
        (Fault(status=502, message=f"{VECTORIZER}'404' (NotFound)."), Code.VECTORIZER_FAILED),
        (
            Fault(
                status=502,
                message="Could not complete vectorization action. The service failed to authenticate to the "
                "vectorization endpoint.",
            ),
            Code.VECTORIZER_FAILED,
        ),
    ],
    ids=lambda value: value.message[:60] if isinstance(value, Fault) else str(value),
)
async def test_what_no_question_can_pass_breaks_the_run_at_once(
    search: AzureSearch, service: ScriptedSearch, fault: Fault, code: Code
) -> None:
    service.fault("kb-v1", replace(fault, headers={"Retry-After": "1"}))
    error = await broken(search)
    assert (error.code, error.index) == (code, "kb-v1")
    assert "kb-v1" in str(error)
    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [400, 405, 409, 413, 414, 415, 422, 428])
async def test_a_rejected_question_is_not_repeated(
    search: AzureSearch, service: ScriptedSearch, status: int
) -> None:
    message = "Invalid expression: Syntax error at position 3 in 'a b c'.\r\nParameter name: $filter"
    service.fault("kb-v1", Fault(status=status, message=message, headers={"Retry-After": "1"}))
    error = await query_error(search)
    assert (error.code, error.attempts) == (FailureCode.REJECTED, 1)
    assert "Syntax error at position 3 in 'a b c'. Parameter name: $filter" in str(error)


@pytest.mark.parametrize(
    "message",
    [
        f"{VECTORIZER}'429' (TooManyRequests).",
        f"{VECTORIZER}'400' (BadRequest).",
        "Could not complete vectorization action. Could not reach the vectorization endpoint.",
    ],
)
async def test_a_vectorizer_that_fails_is_asked_again_and_then_an_error_of_its_own(
    search: AzureSearch, service: ScriptedSearch, message: str
) -> None:
    service.fault("kb-v1", Fault(status=502, message=message))
    error = await query_error(search)
    assert (error.code, error.attempts) == (FailureCode.VECTORIZER, 4)
    assert message in str(error)


async def test_a_lost_answer_of_another_question_changes_nothing(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    service.fault("kb-v2", Fault(status=503), question="q1")
    answers = await asyncio.gather(
        search.ask(ask("q1"), soon()),
        search.ask(ask("q1", "kb-v2"), soon()),
        search.ask(ask("q2", "kb-v2"), soon()),
        return_exceptions=True,
    )
    assert [type(each).__name__ for each in answers] == ["Answer", "QueryError", "Answer"]


# secrets


async def test_no_secret_is_in_an_error_or_a_log(
    open_search: Open, service: ScriptedSearch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = Tokens()
    leak = (
        f"key {KEY} token Bearer {tokens.token} url https://x.blob.core.windows.net/c?sv=1&sig=a%2Bb%3D "
        "api-key: abcdef123456 \x1b[31mred\x00\u202e " + "long " * 200
    )
    service.fault("kb-v1", Fault(status=400, message=leak))
    service.fault("kb-v2", Fault(status=403, message=leak))
    messages: list[str] = []
    for changes in ({}, {"credential": tokens, "enforce_https": False}):
        search = await open_search(**changes)
        for error in (await query_error(search), await broken(search, index="kb-v2")):
            messages.append(str(error))
            cause: BaseException | None = error
            while cause is not None:
                messages.append(str(cause))
                cause = cause.__cause__ or cause.__context__
    for text in (*messages, caplog.text):
        for secret in (KEY, tokens.token, "a%2Bb%3D", "abcdef123456"):
            assert secret not in text
    for text in messages:
        assert all(character.isprintable() for character in text)
        assert len(text) < 1100


async def test_a_question_is_not_logged(search: AzureSearch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await search.ask(ask("a very private question"), soon())
    assert "a very private question" not in caplog.text


# life


async def test_leaving_closes_the_connections_and_nothing_is_sent_after(
    service: ScriptedSearch, open_search: Open
) -> None:
    search = await open_search()
    async with search:
        await search.ask(ask(), soon())
        await search.ask(ask(index="kb-v2"), soon())
    with pytest.raises(QueryError):
        await search.ask(ask(), soon())
    assert len(service.requests) == 2


async def test_cancelling_a_question_frees_its_turn(open_search: Open, service: ScriptedSearch) -> None:
    search = await open_search(limiter=Limiter(ceiling=1))
    service.fault("kb-v1", Fault(delay=60), question="q1")
    task = asyncio.create_task(search.ask(ask("q1"), soon()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await search.ask(ask("q2"), soon())).attempts == 1
