"""The documents of a run: there when it is done, whole, and readable whatever the questions hold."""

import json
import threading
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest

from app.web import downloads
from tests.web.served import Service, body, done, golden, lines, problem

DOCUMENTS = {
    "run.json": "application/json",
    "report.html": "text/html; charset=utf-8",
    "report.md": "text/markdown; charset=utf-8",
    "junit.xml": "application/xml",
}
NASTY = "a\u000b\u001b[31m b ]]> \uffff & <c> <script>alert(1)</script> \u202e \"'`|"


async def fetched(client: httpx.AsyncClient, run_id: str) -> dict[str, str]:
    """All documents as text; each is there, of its type, and valid UTF-8."""
    texts = {}
    for name, media_type in DOCUMENTS.items():
        response = await client.get(f"/v1/runs/{run_id}/{name}")
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == media_type
        texts[name] = response.content.decode("utf-8")
    return texts


def suites(junit: str) -> Any:
    return ET.fromstring(junit)  # noqa: S314 — our own document


async def test_the_record_holds_every_question_with_its_observations(client: httpx.AsyncClient) -> None:
    run = await done(client)
    record = json.loads((await fetched(client, run["id"]))["run.json"])
    questions = record.pop("questions")
    assert record == run
    assert [question["id"] for question in questions] == ["q1", "q2", "q3"]
    assert [len(questions[0][side]) for side in ("baseline", "candidate")] == [2, 1]
    assert questions[0]["baseline"][0]["rank"] == 2
    assert questions[0]["outcome"] == "kept"


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_documents_of_a_run_that_is_not_done_are_refused(
    service: Service, client: httpx.AsyncClient, name: str
) -> None:
    service.search.hold()
    run_id = (await client.post("/v1/runs", json=body())).json()["id"]
    refused = await client.get(f"/v1/runs/{run_id}/{name}")
    assert "done" in problem(refused, 409)["detail"]
    assert refused.headers["retry-after"] == "2"


async def test_s18_questions_that_xml_cannot_hold_are_shown_all_the_same(
    service: Service, client: httpx.AsyncClient
) -> None:
    question = {"id": 'q<1>&"', "question": NASTY, "answers": ["d\t1"], "critical": True, "slice": "<b>&"}
    baseline = service.search.index("kb-v1")
    baseline.answer(NASTY, ["d\t1", "<img src=x onerror=alert(1)>"])
    run = await done(client, golden=golden(json.dumps(question) + "\n" + lines(1)))
    assert run["verdict"] == "FAIL"
    texts = await fetched(client, run["id"])
    cases = suites(texts["junit.xml"]).findall(".//testcase")
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    asked = [case for case in cases if 'q<1>&"' in (case.get("name") or "")]
    assert [case.find("failure") is not None for case in asked] == [True]
    assert r"\u001b" in texts["junit.xml"]
    for name in ("report.html", "report.md"):
        assert texts[name].count("<script") == (name == "report.html")  # our own
        assert "<img" not in texts[name]
        assert "\u001b" not in texts[name]
        assert "\u202e" not in texts[name]
    assert json.loads(texts["run.json"])["questions"][0]["question"] == NASTY


async def test_s18_half_a_surrogate_pair_is_refused_when_it_is_sent(client: httpx.AsyncClient) -> None:
    jsonl = '{"id": "q1", "question": "a \\ud83d b", "answers": ["d1"]}'
    found = problem(await client.post("/v1/runs", json=body(golden=golden(jsonl))), 422)
    assert [(fault["where"], fault["line"]) for fault in found["faults"]] == [("sent.jsonl", 1)]


@pytest.mark.parametrize(
    ("jsonl", "slices", "unlabelled"),
    [
        ("", [], 0),
        ("\n \n\r\n\n", [], 0),
        (lines(12, answers=[]), [], 12),
        (lines(12, slice="lookup"), ["no such slice"], 0),
    ],
    ids=["empty", "blank lines", "all unlabelled", "no question in the slice"],
)
async def test_s19_a_run_that_evaluates_nothing_is_an_error(
    client: httpx.AsyncClient, jsonl: str, slices: list[str], unlabelled: int
) -> None:
    run = await done(client, golden=golden(jsonl), slices=slices)
    assert run["verdict"] == "ERROR"
    assert "nothing-evaluated" in [reason["code"] for reason in run["reasons"]]
    assert "0 of 0 labelled questions evaluated" in run["headline"]
    assert run["counts"]["unlabelled"] == unlabelled
    texts = await fetched(client, run["id"])
    assert suites(texts["junit.xml"]).get("errors") != "0"
    assert len(json.loads(texts["run.json"])["questions"]) == unlabelled


async def test_documents_are_drawn_beside_the_event_loop(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await done(client)
    drawn_in: list[threading.Thread] = []

    def html(*_: object) -> Iterator[str]:
        drawn_in.append(threading.current_thread())
        yield "<p>"

    monkeypatch.setattr(downloads, "whole_page", html)
    assert (await client.get(f"/v1/runs/{run['id']}/report.html")).text == "<p>"
    assert drawn_in != [threading.current_thread()]


async def test_a_large_record_comes_whole(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "PIECE", 100)
    run = await done(client, golden=golden(lines(50)))
    record = json.loads((await fetched(client, run["id"]))["run.json"])
    assert len(record["questions"]) == 50


async def test_damaged_evidence_is_told_before_anything_is_sent(
    service: Service, client: httpx.AsyncClient
) -> None:
    run = await done(client)
    name = f"runs/{run['id']}/evidence.jsonl.gz"
    _, etag = await service.store.read(name)
    await service.store.replace(name, b"not compressed", etag)
    assert name in problem(await client.get(f"/v1/runs/{run['id']}/run.json"), 500)["detail"]
