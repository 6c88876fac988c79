"""Definitions, aliases and statistics over the wire, with their etags and preconditions."""

from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.search.documents.indexes.aio import SearchIndexClient as AsyncSearchIndexClient
from azure.search.documents.indexes.models import SearchAlias

from tests.local.conftest import KEY, VERSION, StandIn, definition


def test_an_index_comes_back_as_the_wizard_shows_it(stand_in: StandIn) -> None:
    with stand_in.index_client() as client:
        index = client.get_index("handbook")
    assert index.e_tag
    assert index.e_tag.startswith('"0x')
    key, vector = index.fields[0], index.fields[-1]
    assert (key.name, key.key, key.retrievable, key.searchable) == ("chunk_id", True, True, True)
    assert (vector.vector_search_dimensions, vector.vector_search_profile_name) == (256, "profile")
    assert index.semantic_search is not None
    assert index.semantic_search.default_configuration_name == "wizard"
    raw = stand_in.call("GET", f"/indexes('handbook')?{VERSION}").json
    assert raw["similarity"] == {"@odata.type": "#Microsoft.Azure.Search.BM25Similarity"}
    hnsw = raw["vectorSearch"]["algorithms"][0]["hnswParameters"]
    assert hnsw == {"metric": "cosine", "m": 4, "efConstruction": 400, "efSearch": 500}
    assert raw["vectorSearch"]["vectorizers"][0]["azureOpenAIParameters"]["apiKey"] == "<redacted>"


def test_properties_we_do_not_know_survive(stand_in: StandIn) -> None:
    body = definition("preview", permissionFilterOption="enabled")
    stand_in.call("PUT", f"/indexes('preview')?{VERSION}", body)
    with stand_in.index_client() as client:
        index = client.get_index("preview")
        assert index.get("permissionFilterOption") == "enabled"
        client.create_or_update_index(index)
        assert client.get_index("preview").get("permissionFilterOption") == "enabled"


def test_put_makes_then_changes_and_each_change_has_a_new_etag(stand_in: StandIn) -> None:
    body = definition("changing")
    path = f"/indexes('changing')?{VERSION}"
    first = stand_in.call("PUT", path, body, Prefer="return=representation")
    second = stand_in.call("PUT", path, body, Prefer="return=representation")
    silent = stand_in.call("PUT", path, body)
    assert (first.status, second.status, silent.status, silent.text) == (201, 200, 204, "")
    current = stand_in.call("GET", path).json["@odata.etag"]
    assert len({first.json["@odata.etag"], second.json["@odata.etag"], current}) == 3
    stand_in.call("DELETE", path)
    made_anew = stand_in.call("PUT", path, body)
    assert made_anew.json["@odata.etag"] not in {first.json["@odata.etag"], current}


def test_a_stale_etag_is_412_and_changes_nothing(stand_in: StandIn) -> None:
    stand_in.call("PUT", f"/indexes('contested')?{VERSION}", definition("contested"))
    with stand_in.index_client() as client:
        mine = client.get_index("contested")
        client.create_or_update_index(client.get_index("contested"))
        now = client.get_index("contested").e_tag
        with pytest.raises(ResourceModifiedError) as caught:
            client.create_or_update_index(mine, match_condition=MatchConditions.IfNotModified)
        assert caught.value.status_code == 412
        assert "evaluated to false" in caught.value.message
        with pytest.raises(ResourceModifiedError):
            client.delete_index(mine, match_condition=MatchConditions.IfNotModified)
        assert client.get_index("contested").e_tag == now
        client.delete_index("contested")
        client.delete_index("contested")
        with pytest.raises(ResourceNotFoundError, match="No index with the name 'contested' was found"):
            client.get_index("contested")


def test_documents_do_not_change_the_etag(stand_in: StandIn) -> None:
    before = stand_in.call("GET", f"/indexes('handbook')?{VERSION}").json["@odata.etag"]
    row = {"@search.action": "mergeOrUpload", "chunk_id": "dental-0", "pages": 7}
    stand_in.call("POST", f"/indexes('handbook')/docs/index?{VERSION}", {"value": [row]})
    assert stand_in.call("GET", f"/indexes('handbook')?{VERSION}").json["@odata.etag"] == before


def test_post_makes_an_index_once(stand_in: StandIn) -> None:
    body = {"name": "posted", "fields": [{"name": "id", "type": "Edm.String", "key": True}]}
    assert stand_in.call("POST", f"/indexes?{VERSION}", body).status == 201
    with stand_in.index_client() as client, pytest.raises(ResourceExistsError):
        client.create_index(client.get_index("posted"))


def test_indexes_are_listed_with_what_is_selected(stand_in: StandIn) -> None:
    with stand_in.index_client() as client:
        assert "handbook" in list(client.list_index_names())
        assert "handbook" in [index.name for index in client.list_indexes()]
    rows = stand_in.call("GET", f"/indexes?{VERSION}&$select=name").json["value"]
    assert {"name": "handbook"} in rows


def test_fields_may_be_added_but_not_changed_or_dropped(stand_in: StandIn) -> None:
    path, body = f"/indexes('growing')?{VERSION}", definition("growing")
    stand_in.fill(body)
    grown = [*body["fields"], {"name": "language", "type": "Edm.String"}]
    assert stand_in.call("PUT", path, {**body, "fields": grown}).status == 204
    assert stand_in.keys("growing", search="dental") == ["dental-0"]
    dropped = stand_in.call("PUT", path, {**body, "fields": body["fields"][:-1], "vectorSearch": None})
    assert (dropped.status, "cannot be deleted" in dropped.text) == (400, True)
    changed = [{**field, "analyzer": "de.lucene"} if field["name"] == "chunk" else field for field in grown]
    refused = stand_in.call("PUT", path, {**body, "fields": changed})
    assert (refused.status, "cannot be changed" in refused.text) == (400, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Upper"}, "Invalid index name 'Upper'"),
        ({"name": "two--dashes"}, "Invalid index name"),
        ({"fields": []}, "at least one field"),
        ({"fields": [{"name": "a", "type": "Edm.String"}]}, "exactly one key"),
        ({"fields": [{"name": "a", "type": "Edm.Text", "key": True}]}, "unknown type 'Edm.Text'"),
        (
            {"fields": [{"name": "a", "type": "Edm.String", "key": True, "analyzer": "hi.lucene"}]},
            "Not imitated by the local stand-in: the analyzer 'hi.lucene' of field 'a'.",
        ),
        ({"analyzers": [{"name": "mine"}]}, "Not imitated by the local stand-in: custom analyzers"),
        ({"vectorSearch": None}, "the vector search profile 'profile', which does not exist"),
        ({"defaultScoringProfile": "none"}, "Default scoring profile 'none' does not exist"),
        ({"semantic": {"defaultConfiguration": "none"}}, "Default semantic configuration 'none'"),
        ({"semantic": {"configurations": [{}]}}, "in the definition"),
        ({"scoringProfiles": [{"text": {}}]}, "in the definition"),
        ({"vectorSearch": {"algorithms": ["hnsw"]}}, "in the definition"),
        ({"similarity": "BM25"}, "in the definition"),
    ],
)
def test_a_definition_that_cannot_work_is_400(
    stand_in: StandIn, changes: dict[str, Any], message: str
) -> None:
    body = {**definition("broken"), **changes}
    reply = stand_in.call("POST", f"/indexes?{VERSION}", body)
    assert reply.status == 400
    assert message in reply.json["error"]["message"]


def test_a_definition_with_everything_in_it_is_accepted(stand_in: StandIn) -> None:
    body = definition(
        "everything",
        scoringProfiles=[
            {
                "name": "boost",
                "functionAggregation": "sum",
                "text": {"weights": {"title": 3.0}},
                "functions": [
                    {"fieldName": "tags", "interpolation": "linear", "type": "tag", "boost": 2.0, "tag": {}}
                ],
            }
        ],
        corsOptions={"allowedOrigins": ["https://www.example.com"], "maxAgeInSeconds": 10},
        suggesters=[{"name": "sg", "searchMode": "analyzingInfixMatching", "sourceFields": ["title"]}],
        similarity={"@odata.type": "#Microsoft.Azure.Search.BM25Similarity", "k1": 10.0, "b": 0.1},
    )
    body["vectorSearch"]["compressions"] = [{"name": "sq", "kind": "scalarQuantization"}]
    assert stand_in.call("POST", f"/indexes?{VERSION}", body).status == 201
    assert stand_in.search("everything", search="*").status == 200
    refused = stand_in.search("everything", search="words")
    assert refused.status == 400, "other BM25 parameters than ours are refused, not ignored"


def test_statistics_count(stand_in: StandIn) -> None:
    with stand_in.index_client() as client:
        one = client.get_index_statistics("handbook")
        assert one.document_count == 8
        assert one.vector_index_size == 8 * 256 * 4
        every = client.get_service_statistics()
        assert every.counters.index_counter.usage == len(list(client.list_index_names()))


def test_an_alias_stands_for_its_index(stand_in: StandIn) -> None:
    stand_in.fill(definition("green"))
    with stand_in.index_client() as client:
        made = client.create_alias(SearchAlias(name="live", indexes=["handbook"]))
        assert client.get_alias("live").indexes == ["handbook"]
        assert client.get_index("live").name == "handbook"
        assert "live" in [alias.name for alias in client.list_aliases()]
        with stand_in.search_client("live") as search:
            assert search.get_document_count() == 8
            assert [row["chunk_id"] for row in search.search("dental")] == ["dental-0"]
        made.indexes = ["green"]
        moved = client.create_or_update_alias(made, match_condition=MatchConditions.IfNotModified)
        assert moved.e_tag != made.e_tag
        assert client.get_index("live").name == "green"
        with pytest.raises(ResourceModifiedError):
            client.create_or_update_alias(made, match_condition=MatchConditions.IfNotModified)
        with pytest.raises(HttpResponseError, match="alias 'live' maps to it") as caught:
            client.delete_index("green")
        assert caught.value.status_code == 400
        client.delete_alias("live")
        client.delete_index("green")
        with pytest.raises(ResourceNotFoundError):
            client.get_alias("live")


@pytest.mark.parametrize("indexes", [["nowhere"], [], ["handbook", "handbook"]])
def test_an_alias_needs_one_index_that_exists(stand_in: StandIn, indexes: list[str]) -> None:
    body = {"name": "dangling", "indexes": indexes}
    assert stand_in.call("POST", f"/aliases?{VERSION}", body).status == 400


async def test_the_asynchronous_client_manages_indexes_and_aliases(stand_in: StandIn) -> None:
    async with AsyncSearchIndexClient(stand_in.url, AzureKeyCredential(KEY)) as client:
        index = await client.get_index("handbook")
        index.name = "copied"
        made = await client.create_or_update_index(index)
        again = await client.create_or_update_index(made, match_condition=MatchConditions.IfNotModified)
        assert again.e_tag != made.e_tag
        alias = await client.create_or_update_alias(SearchAlias(name="late", indexes=["copied"]))
        assert [part.name async for part in client.list_aliases()].count("late") == 1
        assert (await client.get_index_statistics("copied")).document_count == 0
        await client.delete_alias(alias)
        await client.delete_index("copied")


def test_an_alias_made_only_if_there_is_none(stand_in: StandIn) -> None:
    path, body = f"/aliases('once')?{VERSION}", {"name": "once", "indexes": ["handbook"]}
    assert stand_in.call("PUT", path, body, If_None_Match="*").status == 201
    assert stand_in.call("PUT", path, body, If_None_Match="*").status == 412
    assert stand_in.call("DELETE", path).status == 204
    assert stand_in.call("DELETE", path).status == 404


def test_a_request_without_a_version_is_400(stand_in: StandIn) -> None:
    reply = stand_in.call("GET", "/indexes")
    assert reply.status == 400
    assert "api-version" in reply.json["error"]["message"]


def test_a_path_that_is_not_ours_is_404(stand_in: StandIn) -> None:
    assert stand_in.call("GET", f"/indexers?{VERSION}").status == 404
