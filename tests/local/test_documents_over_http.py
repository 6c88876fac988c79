"""Uploads and single documents over the wire."""

from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.search.documents import SearchClient

from tests.local.conftest import VERSION, StandIn

FIELDS = [
    {"name": "id", "type": "Edm.String", "key": True},
    {"name": "text", "type": "Edm.String"},
    {"name": "count", "type": "Edm.Int32"},
    {"name": "day", "type": "Edm.DateTimeOffset"},
    {"name": "tags", "type": "Collection(Edm.String)"},
    {
        "name": "place",
        "type": "Edm.ComplexType",
        "fields": [{"name": "city", "type": "Edm.String"}, {"name": "floor", "type": "Edm.Int32"}],
    },
    {
        "name": "vector",
        "type": "Collection(Edm.Single)",
        "searchable": True,
        "dimensions": 3,
        "vectorSearchProfile": "exact",
    },
]
VECTOR_SEARCH = {
    "algorithms": [{"name": "all", "kind": "exhaustiveKnn"}],
    "profiles": [{"name": "exact", "algorithm": "all"}],
}


@pytest.fixture
def client(stand_in: StandIn) -> Iterator[SearchClient]:
    stand_in.call("DELETE", f"/indexes('letters')?{VERSION}")
    body = {"name": "letters", "fields": FIELDS, "vectorSearch": VECTOR_SEARCH}
    assert stand_in.call("POST", f"/indexes?{VERSION}", body).status == 201
    with stand_in.search_client("letters") as client:
        yield client


def upload(stand_in: StandIn, *rows: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    reply = stand_in.call("POST", f"/indexes('letters')/docs/search.index?{VERSION}", {"value": list(rows)})
    return reply.status, reply.json["value"]


def test_a_new_document_is_201_and_a_replaced_one_200(client: SearchClient, stand_in: StandIn) -> None:
    assert upload(stand_in, {"@search.action": "upload", "id": "a"}, {"id": "a", "count": 1}) == (
        200,
        [
            {"key": "a", "status": True, "errorMessage": None, "statusCode": 201},
            {"key": "a", "status": True, "errorMessage": None, "statusCode": 200},
        ],
    )


def test_one_bad_row_is_207_and_the_others_are_kept(client: SearchClient) -> None:
    results = client.upload_documents(
        [
            {"id": "good"},
            {"id": "bad key"},
            {"id": "long", "vector": [1.0, 2.0]},
            {"id": "unknown", "nothing": 1},
            {"id": "kind", "count": "three"},
            {"id": "huge", "vector": [1e300, 0.0, 0.0]},
            {"id": "day", "day": "2026-02-30T00:00:00Z"},
        ]
    )
    assert [(part.key, part.succeeded, part.status_code) for part in results] == [
        ("good", True, 201),
        ("bad key", False, 400),
        ("long", False, 400),
        ("unknown", False, 400),
        ("kind", False, 400),
        ("huge", False, 400),
        ("day", False, 400),
    ]
    assert "mismatch in vector dimensions" in str(results[2].error_message)
    assert client.get_document_count() == 1


def test_merge_keeps_what_it_does_not_name(client: SearchClient) -> None:
    client.upload_documents([{"id": "a", "text": "one", "count": 1, "vector": [1.0, 0.0, 0.0]}])
    client.merge_documents([{"id": "a", "count": 2}])
    assert client.get_document("a") == {
        "id": "a",
        "text": "one",
        "count": 2,
        "day": None,
        "tags": [],
        "place": None,
        "vector": [1.0, 0.0, 0.0],
    }
    client.merge_or_upload_documents([{"id": "a", "text": None, "vector": None}, {"id": "b"}])
    assert client.get_document("a", selected_fields=["text", "count"]) == {"text": None, "count": 2}
    assert client.get_document_count() == 2
    assert client.merge_documents([{"id": "none", "count": 2}])[0].status_code == 404


def test_upload_replaces_the_whole_document(client: SearchClient) -> None:
    client.upload_documents([{"id": "a", "text": "one", "count": 1}])
    client.upload_documents([{"id": "a", "text": "two"}])
    assert client.get_document("a")["count"] is None


def test_a_deleted_document_is_gone_from_searches(client: SearchClient) -> None:
    client.upload_documents([{"id": "a", "text": "apples"}, {"id": "b", "text": "apples"}])
    assert len(list(client.search("apples"))) == 2
    assert client.delete_documents([{"id": "a"}, {"id": "never"}])[1].succeeded
    assert [row["id"] for row in client.search("apples")] == ["b"]
    with pytest.raises(ResourceNotFoundError):
        client.get_document("a")


def test_parts_of_complex_fields_can_be_selected(client: SearchClient) -> None:
    client.upload_documents([{"id": "a", "place": {"city": "Bern", "floor": 3}}])
    assert client.get_document("a", selected_fields=["id", "place/city"]) == {
        "id": "a",
        "place": {"city": "Bern"},
    }
    assert [row["id"] for row in client.search("bern", filter="place/floor eq 3")] == ["a"]


def test_an_empty_batch_is_400(client: SearchClient, stand_in: StandIn) -> None:
    reply = stand_in.call("POST", f"/indexes('letters')/docs/search.index?{VERSION}", {"value": []})
    assert reply.status == 400


def test_half_a_surrogate_pair_is_no_text(client: SearchClient, stand_in: StandIn) -> None:
    raw = b'{"value": [{"id": "a", "text": "\\ud800"}]}'
    assert stand_in.call("POST", f"/indexes('letters')/docs/search.index?{VERSION}", raw).status == 400


def test_too_large_a_batch_is_413(client: SearchClient, stand_in: StandIn) -> None:
    raw = b'{"value": [{"id": "a", "text": "' + b"a" * (16 * 1024 * 1024) + b'"}]}'
    assert stand_in.call("POST", f"/indexes('letters')/docs/search.index?{VERSION}", raw).status == 413
