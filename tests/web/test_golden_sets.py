"""Checking a golden set without a run."""

import json

import httpx
import pytest

from tests.web.served import Service, golden, lines, problem


async def test_faults_are_told_by_file_and_line(service: Service, client: httpx.AsyncClient) -> None:
    jsonl = lines(1) + lines(1) + '\n{"id": "q3", "question": "?", "answers": "d1"}\n'
    response = await client.post(
        "/v1/golden-sets/check", json={"golden": golden(jsonl, toml="[query]\ncandidates = 0\n")}
    )
    assert response.status_code == 200
    found = response.json()
    assert sorted((fault["where"], fault["line"]) for fault in found["faults"]) == [
        ("sent.jsonl", 2),
        ("sent.jsonl", 4),
        ("sent.toml", 2),
    ]
    assert found["fault_count"] == 3
    assert found["contents"] is None
    assert service.search.described == []
    assert service.store.documents == {}


async def test_a_set_without_faults_is_counted(client: httpx.AsyncClient) -> None:
    questions = [
        {"id": "q1", "question": "a", "answers": ["d1"], "critical": True, "slice": ["table", "lookup"]},
        {"id": "q2", "question": "b", "answers": [], "forbidden": ["d9"], "slice": "table"},
        {"id": "q3", "question": "c", "answers": ["d1", "d2"], "require_all": True},
    ]
    jsonl = "\n".join(json.dumps(question) for question in questions)
    toml = 'owner = "hr@contoso.example"\nreview_by = 2027-03-01\n'
    response = await client.post("/v1/golden-sets/check", json={"golden": golden(jsonl, toml=toml)})
    assert response.status_code == 200
    found = response.json()
    assert found["faults"] == []
    assert found["fault_count"] == 0
    assert found["contents"].pop("digest").startswith("sha256:")
    assert found["contents"] == {
        "name": "sent",
        "owner": "hr@contoso.example",
        "review_by": "2027-03-01",
        "questions": 3,
        "labelled": 2,
        "unlabelled": 1,
        "critical": 1,
        "require_all": 1,
        "forbidden": 1,
        "slices": {"table": 2, "lookup": 1},
    }


async def test_of_very_many_faults_the_first_thousand_are_listed(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/golden-sets/check", json={"golden": golden("x\n" * 1500)})
    found = response.json()
    assert found["fault_count"] == 1500
    assert [fault["line"] for fault in found["faults"]] == list(range(1, 1001))
    refused = await client.post(
        "/v1/runs",
        json={"candidate_index": "a", "baseline_index": "b", "golden": golden("x\n" * 1500)},
    )
    told = problem(refused, 422)
    assert len(told["faults"]) == 1000
    assert told["detail"].startswith("1500 faults")


async def test_the_labels_that_each_index_lacks(service: Service, client: httpx.AsyncClient) -> None:
    service.search.index("kb-v1").stored = [{"chunk_id": "1", "parent_id": "D1"}]
    service.search.index("kb-v2").stored = [{"chunk_id": "1", "parent_id": "d1"}]
    response = await client.post(
        "/v1/golden-sets/check",
        json={"golden": golden(lines(2)), "indexes": ["kb-v1", "kb-v2", "kb-v9", "kb-v1"]},
    )
    assert response.status_code == 200
    found = response.json()
    assert found["contents"]["questions"] == 2
    first, second, third = found["indexes"]
    assert first["absent"] == [
        {
            "document": "d1",
            "questions": ["q1", "q2"],
            "critical": False,
            "forbidden": False,
            "suggestions": ["D1"],
            "parent_names": None,
            "hint": "did you mean 'D1'? it differs in letter case",
        }
    ]
    assert (second["index"], second["documents"], second["found"], second["absent"]) == ("kb-v2", 1, 1, [])
    assert second["unverified"] == second["checks"] == []
    assert [check["code"] for check in third["checks"]] == ["index-missing"]


async def test_a_set_with_faults_is_not_looked_up(service: Service, client: httpx.AsyncClient) -> None:
    response = await client.post(
        "/v1/golden-sets/check", json={"golden": golden("x\n"), "indexes": ["kb-v1"]}
    )
    assert response.json()["fault_count"] == 1
    assert response.json()["indexes"] == []
    assert service.search.described == []


async def test_very_many_indexes_at_once_are_refused(service: Service, client: httpx.AsyncClient) -> None:
    names = [f"kb-{number}" for number in range(11)]
    refused = await client.post("/v1/golden-sets/check", json={"golden": golden(lines(1)), "indexes": names})
    assert "at most 10" in problem(refused, 422)["detail"]
    assert service.search.described == []


@pytest.mark.parametrize("sent", [{}, {"golden": "hr"}, {"golden": {"name": "x"}}, {"golden": None}])
async def test_a_request_without_a_set_is_refused(client: httpx.AsyncClient, sent: dict[str, object]) -> None:
    found = problem(await client.post("/v1/golden-sets/check", json=sent), 422)
    assert all("golden" in fault["message"] for fault in found["faults"])
