"""Searches over the wire: what is accepted, how it is answered, how it is ranked."""

import uuid
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.search.documents.aio import SearchClient as AsyncSearchClient
from azure.search.documents.models import VectorizableTextQuery, VectorizedQuery
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.local.conftest import CHUNKS, KEY, VERSION, StandIn, definition

QUESTION = "how long can new mothers stay at home"


def by_text(text: str, **options: Any) -> dict[str, Any]:
    return {"kind": "text", "text": text, "fields": "text_vector", "k": 50, **options}


def test_the_official_client_reads_a_hybrid_semantic_answer(stand_in: StandIn) -> None:
    with stand_in.search_client("handbook") as client:
        found = client.search(
            QUESTION,
            query_type="semantic",
            semantic_configuration_name="wizard",
            query_caption="extractive",
            query_caption_highlight_enabled=True,
            query_answer="extractive",
            vector_queries=[
                VectorizableTextQuery(text=QUESTION, k_nearest_neighbors=50, fields="text_vector")
            ],
            select=["chunk_id", "parent_id"],
            top=50,
            include_total_count=True,
            session_id="gate-1",
            scoring_statistics="global",
            semantic_error_mode="fail",
            semantic_max_wait_in_milliseconds=5000,
            debug="vector",
        )
        rows = list(found)
        assert found.get_count() == 8
        assert found.get_answers() == []
    first = rows[0]
    assert (first["chunk_id"], first["parent_id"]) == ("parental-0", "parental")
    assert set(first) == {
        *("chunk_id", "parent_id", "@search.score", "@search.rerankerScore", "@search.rerankerBoostedScore"),
        *("@search.captions", "@search.documentDebugInfo", "@search.reranker_score", "@search.highlights"),
        *("@search.reranker_boosted_score", "@search.document_debug_info"),
    }
    assert "<em>stay</em> at <em>home</em>" in first["@search.captions"][0].highlights
    subscores = first["@search.document_debug_info"].vectors.subscores
    assert subscores.document_boost == 1.0
    assert 0.333 <= subscores.vectors[0]["text_vector"].search_score <= 1
    scores = [row["@search.reranker_score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 4 for score in scores)


def test_one_search_is_one_request(stand_in: StandIn) -> None:
    with stand_in.search_client("handbook") as client:
        list(client.search("holiday", top=50))
    assert stand_in.counts() == {"handbook": {"search": 1}}


async def test_the_asynchronous_client_gets_the_same_rows(stand_in: StandIn) -> None:
    async with AsyncSearchClient(stand_in.url, "handbook", AzureKeyCredential(KEY)) as client:
        vector = VectorizableTextQuery(text=QUESTION, k_nearest_neighbors=50, fields="text_vector")
        found = await client.search(
            QUESTION, vector_queries=[vector], select=["chunk_id"], query_type="semantic"
        )
        rows = [row["chunk_id"] async for row in found]
        assert await client.get_document_count() == 8
    assert rows == stand_in.keys(
        "handbook",
        search=QUESTION,
        queryType="semantic",
        vectorQueries=[by_text(QUESTION)],
        select="chunk_id",
    )


def test_semantic_ranking_reorders_and_leaves_the_score_alone(stand_in: StandIn) -> None:
    words = "maternity leave"
    body = {"search": words, "select": "chunk_id", "vectorQueries": [by_text(words)]}
    base = stand_in.search("handbook", **body).json["value"]
    ranked = stand_in.search("handbook", **body, queryType="semantic").json["value"]
    assert base[0]["chunk_id"] == "leave-1", "the words say leave"
    assert ranked[0]["chunk_id"] == "parental-0", "the sense says parents"
    scores = {row["chunk_id"]: row["@search.score"] for row in base}
    assert {row["chunk_id"]: row["@search.score"] for row in ranked} == scores


@pytest.mark.parametrize("words", ["*", "", None])
def test_without_words_there_is_no_semantic_ranking(stand_in: StandIn, words: str | None) -> None:
    rows = stand_in.search("handbook", search=words, queryType="semantic").json["value"]
    assert len(rows) == 8
    assert not any("@search.rerankerScore" in row for row in rows)


def test_both_styles_of_url_give_the_same_answer(stand_in: StandIn) -> None:
    body = {"search": "dental plan"}
    quoted = stand_in.call("POST", f"/indexes('handbook')/docs/search.post.search?{VERSION}", body)
    plain = stand_in.call("POST", f"/indexes/handbook/docs/search?{VERSION}", body)
    assert quoted.json == plain.json
    assert stand_in.call("GET", f"/indexes/handbook/docs/$count?{VERSION}").json == 8
    assert stand_in.call("GET", f"/indexes/handbook/stats?{VERSION}").json["documentCount"] == 8
    assert stand_in.call("GET", f"/indexes/handbook/docs/dental-0?{VERSION}").json["pages"] == 7


def test_headers_are_those_of_the_service(stand_in: StandIn) -> None:
    ours = str(uuid.uuid4())
    reply = stand_in.call(
        "POST",
        f"/indexes/handbook/docs/search?{VERSION}",
        {"search": "dental"},
        x_ms_client_request_id=ours,
        Accept="application/json;odata.metadata=none",
    )
    assert reply.headers["request-id"] == ours
    assert int(reply.headers["elapsed-time"]) >= 0
    assert reply.headers["OData-Version"] == "4.0"
    assert (
        reply.headers["Content-Type"]
        == "application/json; odata.metadata=none; odata.streaming=true; charset=utf-8"
    )


def test_a_vector_of_ones_own_finds_what_it_is_the_vector_of(stand_in: StandIn) -> None:
    vector = stand_in.embeddings("wordllama-256", [CHUNKS[-1]["chunk"]])[0]
    with stand_in.search_client("handbook") as client:
        query = VectorizedQuery(
            vector=vector, k_nearest_neighbors=3, fields="text_vector", exhaustive=True, weight=2.0
        )
        rows = list(client.search(None, vector_queries=[query], filter="pages gt 1", search_mode="all"))
    assert rows[0]["chunk_id"] == "security-0"
    assert len(rows) == 3, "vectors always give k rows"
    assert rows[0]["@search.score"] == pytest.approx(1), "one list: the vector's own score, 1/(2 - cosine)"


def test_the_graph_and_the_exact_search_agree_on_eight_rows(stand_in: StandIn) -> None:
    graph = stand_in.search("handbook", vectorQueries=[by_text(QUESTION)]).json["value"]
    exact = stand_in.search("handbook", vectorQueries=[by_text(QUESTION, exhaustive=True)]).json["value"]
    assert [row["chunk_id"] for row in graph] == [row["chunk_id"] for row in exact]


def test_weights_move_the_fusion(stand_in: StandIn) -> None:
    words, sense = "leave forms", "passwords"
    light = stand_in.keys("handbook", search=words, vectorQueries=[by_text(sense, k=1, weight=0.1)])
    heavy = stand_in.keys("handbook", search=words, vectorQueries=[by_text(sense, k=1, weight=10)])
    assert light[0] == "leave-1"
    assert heavy[0] == "security-0"


def test_a_filter_before_the_vectors_fills_k_and_after_them_does_not(stand_in: StandIn) -> None:
    nearest = by_text("passwords", k=2)
    before = stand_in.keys("handbook", vectorQueries=[nearest], filter="tags/any(t: t eq 'health')")
    after = stand_in.keys(
        "handbook",
        vectorQueries=[nearest],
        filter="tags/any(t: t eq 'health')",
        vectorFilterMode="postFilter",
    )
    assert sorted(before) == ["dental-0", "vision-0"]
    assert len(after) < 2


def test_pages_are_cut_by_top_and_skip_and_count_stays(stand_in: StandIn) -> None:
    whole = stand_in.keys("handbook", search="*", orderby="chunk_id")
    page = stand_in.search("handbook", search="*", orderby="chunk_id", top=3, skip=2, count=True).json
    assert [row["chunk_id"] for row in page["value"]] == whole[2:5]
    assert page["@odata.count"] == 8
    assert "@search.nextPageParameters" not in page


@pytest.mark.parametrize(
    ("orderby", "first", "last"),
    [
        ("pages", "remote-0", "security-0"),
        ("pages desc", "security-0", "remote-0"),
        ("changed desc,pages", "security-0", "remote-0"),
        ("search.score() desc,chunk_id desc", "vision-0", "dental-0"),
    ],
)
def test_rows_are_ordered_as_asked_with_nulls_lowest(
    stand_in: StandIn, orderby: str, first: str, last: str
) -> None:
    rows = stand_in.keys("handbook", search="*", orderby=orderby)
    assert (rows[0], rows[-1]) == (first, last)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"search": "dental crowns"}, ["dental-0"]),
        ({"search": "checkups glasses", "searchMode": "any"}, ["vision-0"]),
        ({"search": "dental glasses", "searchMode": "all"}, []),
        ({"search": "second class", "searchMode": "all"}, ["travel-0"]),
        ({"search": '"contact lenses"'}, ["vision-0"]),
        ({"search": '"lenses contact"'}, []),
        ({"search": "passw*"}, ["security-0"]),
        ({"search": "euros -hotels", "searchMode": "all"}, ["vision-0"]),
        ({"search": "dental OR glasses", "queryType": "full"}, ["dental-0", "vision-0"]),
        ({"search": "euros AND hotels", "queryType": "full"}, ["travel-0"]),
        ({"search": "euros NOT hotels", "queryType": "full"}, ["vision-0"]),
        ({"search": "passwords", "searchFields": "chunk"}, ["security-0"]),
        ({"search": "eye", "searchFields": "chunk"}, []),
        ({"search": "the of and"}, []),
        ({"search": "?!"}, []),
    ],
)
def test_words_find_what_they_should(stand_in: StandIn, body: dict[str, Any], found: list[str]) -> None:
    assert sorted(stand_in.keys("handbook", **body)) == found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
    | st.from_regex(r'([a-z]+ ?|AND |NOT |[-+|*"()\[\]{}^~:\\/&#!?.] ?){1,12}', fullmatch=True),
    kind=st.sampled_from(["simple", "full"]),
    mode=st.sampled_from(["any", "all"]),
)
def test_no_text_is_too_odd_to_be_searched(running: StandIn, text: str, kind: str, mode: str) -> None:
    reply = running.search("handbook", search=text, queryType=kind, searchMode=mode)
    assert reply.status == 200, reply.text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"hybridSearch": {}}, "'hybridSearch' is not a valid search parameter"),
        ({"queryLanguage": "en"}, "'queryLanguage' is not a valid search parameter"),
        (
            {"select": "page"},
            "Could not find a property named 'page' on type 'search.document'.\r\nParameter name: $select",
        ),
        ({"select": "secret"}, "Could not find a property named 'secret'"),
        ({"filter": "nothing eq 1"}, "Could not find a property named 'nothing'"),
        ({"filter": "chunk eq 'a'"}, "'chunk' is not a filterable field"),
        ({"filter": "pages eq 'a'"}, "cannot be compared"),
        ({"filter": "pages eq"}, "Invalid expression"),
        ({"filter": "geo.distance(pages, geography'POINT(1 2)') lt 1"}, "Not imitated"),
        ({"orderby": "tags"}, "is not sortable"),
        ({"orderby": "pages", "queryType": "semantic"}, "does not support 'orderBy'"),
        ({"searchFields": "pages"}, "not searchable"),
        ({"queryType": "lucene"}, "Parameter name: queryType"),
        ({"top": 1001}, "Parameter name: top"),
        ({"skip": -1}, "Parameter name: skip"),
        ({"top": "5"}, "Parameter name: top"),
        ({"facets": ["tags"]}, "Not imitated by the local stand-in"),
        ({"scoringProfile": "none"}, "Unknown scoring profile 'none'"),
        ({"vectorQueries": [{"kind": "text", "text": "a", "fields": "chunk"}]}, "not a vector field"),
        (
            {"vectorQueries": [{"kind": "vector", "vector": [0.1, 0.2], "fields": "text_vector"}]},
            "dimensions 256",
        ),
        ({"vectorQueries": [by_text("a", weight=0)]}, "weight"),
        ({"vectorQueries": [by_text("a", threshold={})]}, "'threshold' is not a valid parameter"),
    ],
)
def test_what_azure_refuses_is_refused(stand_in: StandIn, body: dict[str, Any], message: str) -> None:
    reply = stand_in.search("handbook", **{"search": "a", **body})
    assert reply.status == 400
    assert message in reply.json["error"]["message"]


def test_an_unknown_semantic_configuration_has_azures_body(stand_in: StandIn) -> None:
    with stand_in.search_client("handbook") as client, pytest.raises(HttpResponseError) as caught:
        list(client.search("a", query_type="semantic", semantic_configuration_name="default"))
    assert caught.value.status_code == 400
    assert caught.value.error is not None
    assert caught.value.error.code == "InvalidRequestParameter"
    assert caught.value.error.details[0].code == "UnknownSemanticConfiguration"


def test_a_missing_index_is_404(stand_in: StandIn) -> None:
    with stand_in.search_client("nowhere") as client, pytest.raises(ResourceNotFoundError) as caught:
        list(client.search("a"))
    assert "The index 'nowhere' for service 'local' was not found." in caught.value.message


@pytest.mark.parametrize("key", [None, "wrong"])
def test_without_the_key_there_is_403_and_nothing_else(stand_in: StandIn, key: str | None) -> None:
    reply = stand_in.call("GET", f"/indexes?{VERSION}", key=key)
    assert (reply.status, reply.text) == (403, "")


def test_a_vectorizer_whose_model_is_not_here_fails_the_query_not_the_index(stand_in: StandIn) -> None:
    body = definition("elsewhere", deployment="text-embedding-3-large")
    assert stand_in.call("PUT", f"/indexes('elsewhere')?{VERSION}", body).status == 201
    stand_in.call(
        "POST", f"/indexes('elsewhere')/docs/index?{VERSION}", {"value": [{"chunk_id": "1", "chunk": "one"}]}
    )
    reply = stand_in.search("elsewhere", search="one", vectorQueries=[by_text("one")])
    assert reply.status == 502
    assert reply.json == {
        "error": {
            "code": "",
            "message": "Could not complete vectorization action. "
            "The vectorization endpoint returned status code '404' (NotFound).",
        }
    }
    assert stand_in.keys("elsewhere", search="one") == ["1"]


def test_a_row_without_a_vector_is_found_by_words_only(stand_in: StandIn) -> None:
    stand_in.fill(definition("partly"))
    row = {"@search.action": "upload", "chunk_id": "bare", "chunk": "zebras"}
    assert stand_in.call("POST", f"/indexes('partly')/docs/index?{VERSION}", {"value": [row]}).status == 200
    assert "bare" not in stand_in.keys("partly", vectorQueries=[by_text("zebras")])
    assert "bare" in stand_in.keys("partly", search="zebras", vectorQueries=[by_text("zebras")])


def test_text_weights_of_a_scoring_profile_count(stand_in: StandIn) -> None:
    profiles = [{"name": "titles", "text": {"weights": {"title": 50.0}}}]
    stand_in.fill(definition("weighted", scoringProfiles=profiles))
    plain = stand_in.search("weighted", search="passwords", searchFields="title").json["value"][0]
    heavy = stand_in.search(
        "weighted", search="passwords", searchFields="title", scoringProfile="titles"
    ).json["value"][0]
    assert heavy["@search.score"] == pytest.approx(50 * plain["@search.score"], rel=1e-5)


def test_a_scoring_function_is_refused_rather_than_ignored(stand_in: StandIn) -> None:
    function = {"type": "tag", "fieldName": "tags", "boost": 2, "tag": {"tagsParameter": "t"}}
    stand_in.fill(definition("boosted", scoringProfiles=[{"name": "tagged", "functions": [function]}]))
    reply = stand_in.search("boosted", search="passwords", scoringProfile="tagged")
    assert reply.status == 400
    assert "Not imitated" in reply.json["error"]["message"]


def test_analyzers_differ_as_they_should(stand_in: StandIn) -> None:
    fields = [
        {"name": "id", "type": "Edm.String", "key": True},
        {"name": "none", "type": "Edm.String"},
        *(
            {"name": name, "type": "Edm.String", "analyzer": analyzer}
            for name, analyzer in {
                "en": "en.microsoft",
                "de": "de.lucene",
                "zh": "zh-Hans.lucene",
                "ar": "ar.microsoft",
                "raw": "keyword",
            }.items()
        ),
    ]
    made = stand_in.call("POST", f"/indexes?{VERSION}", {"name": "languages", "fields": fields})
    assert made.status == 201, made.text
    row = {
        "id": "1",
        "none": "Running 你好世界",
        "en": "Running horses",
        "de": "Versicherungen",
        "zh": "你好世界",
        "ar": "الكتاب",
        "raw": "A-1 b",
    }
    stand_in.call("POST", f"/indexes/languages/docs/index?{VERSION}", {"value": [row]})

    def finds(text: str, field: str) -> bool:
        return bool(stand_in.search("languages", search=text, searchFields=field).json["value"])

    assert finds("run", "en")
    assert not finds("run", "none")
    assert finds("Versicherung", "de")
    assert finds("世界", "zh")
    assert not finds("界世", "zh"), "pairs keep the order of two characters"
    assert finds("界世", "none"), "single characters do not"
    assert finds("كتاب", "ar")
    assert finds('"A-1 b"', "raw")
    assert not finds("b", "raw")


def test_two_builds_from_the_same_documents_rank_alike_in_whatever_order_they_came(stand_in: StandIn) -> None:
    stand_in.fill(definition("again"), backwards=True)
    body = {"search": QUESTION, "vectorQueries": [by_text(QUESTION)], "queryType": "semantic"}
    assert stand_in.search("again", **body).json == stand_in.search("handbook", **body).json
