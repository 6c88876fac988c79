"""Decisions over HTTP: the API, the forms of the pages, and the corrected golden set."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.domain.errors import StorageError
from app.web import bodies
from tests.web.served import Service, body, done, golden, lines, problem

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "sec-fetch-site": "same-origin"}
HOSTILE = "<script>alert(1)</script>\x1b[31m ##vso[task.complete] \u202e"
LOST = ("q1", "q2")


@pytest.fixture
def service() -> Service:
    """The candidate loses questions 1 and 2 of the set, and shows other documents for them."""
    service = Service()
    for number in (1, 2):
        service.search.index("kb-v2").answer(f"question {number}", ("new-a", "new-b", "x", "y", "z", "late"))
    return service


@pytest.fixture
async def run(client: httpx.AsyncClient) -> str:
    found = await done(client)
    assert found["verdict"] == "FAIL"
    assert [each["id"] for each in found["lost"]] == list(LOST)
    return str(found["id"])


async def reviewed(client: httpx.AsyncClient, run: str, **members: Any) -> httpx.Response:
    return await client.post(f"/v1/runs/{run}/reviews", json={"question": "q1", **members})


async def overridden(client: httpx.AsyncClient, run: str, **members: Any) -> httpx.Response:
    whole = {"reason": "bearable", "questions": LOST, "documents": [], "watch": "the smoke test", **members}
    return await client.post(f"/v1/runs/{run}/overrides", json=whole)


async def test_a_decision_is_answered_as_it_was_kept(client: httpx.AsyncClient, run: str) -> None:
    response = await reviewed(
        client, run, decision="acceptable", reason="bearable", expires="2026-12-31", watch="the smoke test"
    )
    assert response.status_code == 201
    kept = response.json()
    assert kept.pop("id").startswith("20261130-120000-")
    assert kept == {
        "question": "q1",
        "decision": "acceptable",
        "reason": "bearable",
        "answers": [],
        "expires": "2026-12-31",
        "watch": "the smoke test",
        "run": run,
        "by": None,
        "at": "2026-11-30T12:00:00Z",
    }
    found = (await client.get(f"/v1/runs/{run}/reviews")).json()
    assert found["reviews"] == [response.json()]
    assert found["standing"] == {"q1": {"review": response.json(), "expired": False}}
    assert found["carried"] == {}


async def test_the_run_stays_as_it_is(client: httpx.AsyncClient, run: str) -> None:
    before = (await client.get(f"/v1/runs/{run}")).json()
    await reviewed(client, run, decision="acceptable", reason="bearable")
    await overridden(client, run)
    assert (await client.get(f"/v1/runs/{run}")).json() == before


async def test_the_file_shows_what_was_decided(client: httpx.AsyncClient, run: str) -> None:
    assert "WAIVED" not in (await client.get(f"/v1/runs/{run}/report.html")).text
    await reviewed(client, run, decision="acceptable", reason="bearable until spring")
    await overridden(client, run, reason="the owner agrees")
    shown = (await client.get(f"/v1/runs/{run}/report.html")).text
    for text in ("bearable until spring", "WAIVED", "the owner agrees"):
        assert text in shown


async def test_the_page_links_label_fixes_where_there_are_some(client: httpx.AsyncClient, run: str) -> None:
    fixes = f"/v1/runs/{run}/golden.patch"
    assert fixes not in (await client.get(f"/runs/{run}", headers=BROWSER)).text
    await reviewed(client, run, decision="label-out-of-date", answers=["new-a"])
    assert fixes in (await client.get(f"/runs/{run}", headers=BROWSER)).text


async def test_a_later_run_shows_the_earlier_decision(client: httpx.AsyncClient, run: str) -> None:
    kept = (await reviewed(client, run, decision="acceptable", reason="bearable")).json()
    again = (await done(client))["id"]
    found = (await client.get(f"/v1/runs/{again}/reviews")).json()
    assert found["reviews"] == []
    assert found["carried"] == {"q1": [{"review": kept, "expired": False}]}


async def test_a_hundred_reviewers_at_once_lose_nothing(client: httpx.AsyncClient, run: str) -> None:
    sent = [f"reviewer {number}" for number in range(100)]
    answers = await asyncio.gather(
        *(reviewed(client, run, decision="real-loss", reason=each) for each in sent)
    )
    assert {each.status_code for each in answers} == {201}
    found = (await client.get(f"/v1/runs/{run}/reviews")).json()["reviews"]
    assert sorted(each["reason"] for each in found) == sorted(sent)


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"decision": "acceptable"}, "reason: is required for acceptable"),
        (
            {"decision": "acceptable", "reason": "x", "expires": "2026-11-29"},
            "expires: 2026-11-29 has passed",
        ),
        ({"decision": "acceptable", "reason": "x", "expires": "tomorrow"}, "expires: "),
        ({"decision": "label-out-of-date"}, "answers: the documents that answer the question now"),
        ({"decision": "label-out-of-date", "answers": ["nowhere"]}, "'nowhere' was shown by no observation"),
        ({"decision": "label-out-of-date", "answers": "new-a"}, "answers: "),
        ({"decision": "label-out-of-date", "answers": [1]}, "answers.0"),
        ({"decision": "fine"}, "decision: "),
        ({"decision": "real-loss", "by": "somebody"}, "by: is not known here"),
        ({"decision": "real-loss", "question": "q3"}, "question: 'q3' is kept"),
        ({"decision": "real-loss", "question": "q9"}, "question: the run has no question 'q9'"),
        ({"decision": "real-loss", "reason": "x" * 4001}, "reason: "),
        ({}, "decision: is required"),
    ],
)
async def test_a_faulty_decision_is_refused_with_its_faults(
    client: httpx.AsyncClient, run: str, members: dict[str, Any], fault: str
) -> None:
    found = problem(await reviewed(client, run, **members), 422)
    assert any(fault in each["message"] for each in found["faults"]), found["faults"]
    assert (await client.get(f"/v1/runs/{run}/reviews")).json()["reviews"] == []


@pytest.mark.parametrize("call", ["reviews", "overrides"])
async def test_who_decides_for_an_unknown_or_running_run_is_told(
    service: Service, client: httpx.AsyncClient, call: str
) -> None:
    whole = {
        "reviews": {"question": "q1", "decision": "real-loss"},
        "overrides": {"reason": "x", "watch": "y"},
    }[call]
    problem(await client.post(f"/v1/runs/nowhere/{call}", json=whole), 404)
    problem(await client.get(f"/v1/runs/nowhere/{call}"), 404)
    service.search.hold()
    running = (await client.post("/v1/runs", json=body())).json()["id"]
    problem(await client.post(f"/v1/runs/{running}/{call}", json=whole), 409)
    assert (await client.get(f"/v1/runs/{running}/{call}")).status_code == 200


@pytest.mark.parametrize("call", ["reviews", "overrides"])
async def test_bodies_are_json_of_a_size(
    client: httpx.AsyncClient, run: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem(await client.post(f"/v1/runs/{run}/{call}", data={"question": "q1"}), 415)
    problem(await client.post(f"/v1/runs/{run}/{call}", json=[]), 422)
    monkeypatch.setattr(bodies, "LARGEST_BODY", 10)
    monkeypatch.setattr(bodies, "LARGEST_SMALL_BODY", 10)
    problem(await client.post(f"/v1/runs/{run}/{call}", json={"question": "q1" * 10}), 413)


async def test_a_store_that_fails_is_told(service: Service, client: httpx.AsyncClient, run: str) -> None:
    service.store.fail(operation="create", name="reviews/", error=StorageError("The store is full."))
    problem(await reviewed(client, run, decision="real-loss"), 503)
    assert (await client.get(f"/v1/runs/{run}/reviews")).json()["reviews"] == []


async def test_hostile_text_comes_back_as_it_was_sent(client: httpx.AsyncClient, run: str) -> None:
    kept = await reviewed(client, run, decision="acceptable", reason=HOSTILE, watch=HOSTILE)
    assert kept.json()["reason"] == HOSTILE.strip()
    assert kept.headers["content-type"] == "application/json"


async def test_half_a_character_is_refused(client: httpx.AsyncClient, run: str) -> None:
    text = '{"question": "q1", "decision": "acceptable", "reason": "\\ud83d"}'
    refused = await client.post(
        f"/v1/runs/{run}/reviews", content=text, headers={"content-type": "application/json"}
    )
    problem(refused, 422)


# overrides -----------------------------------------------------------------------------------------------


async def test_an_override_clears_the_run_and_leaves_its_verdict(client: httpx.AsyncClient, run: str) -> None:
    response = await overridden(client, run)
    assert response.status_code == 201
    found = (await client.get(f"/v1/runs/{run}/overrides")).json()
    assert found == {"overrides": [response.json()], "waived": response.json()}
    assert response.json()["reason"] == "bearable"
    assert response.json()["watch"] == "the smoke test"
    assert (await client.get(f"/v1/runs/{run}")).json()["verdict"] == "FAIL"


async def test_what_is_missing_from_an_override_is_refused_by_name(
    client: httpx.AsyncClient, run: str
) -> None:
    found = problem(await overridden(client, run, questions=["q2"], reason=" ", watch=""), 422)
    assert [each["message"] for each in found["faults"]] == [
        "reason: is required",
        "watch: is required: what will watch for these after the cut-over",
        "questions: 'q1' is missing, named by net-loss",
    ]
    assert (await client.get(f"/v1/runs/{run}/overrides")).json() == {"overrides": [], "waived": None}


async def test_only_a_failure_is_overridden(service: Service, client: httpx.AsyncClient) -> None:
    passed = await done(client, golden_set=None, golden=golden(lines(1, question="another")))
    assert passed["verdict"] == "PASS"
    assert "passed" in problem(await overridden(client, passed["id"]), 422)["detail"]
    empty = await done(client, golden_set=None, golden=golden(""))
    assert empty["verdict"] == "ERROR"
    assert "never overridden" in problem(await overridden(client, empty["id"]), 422)["detail"]
    hidden = golden(lines(2, forbidden=["new-a"]))
    shown = await done(client, golden_set=None, golden=hidden)
    assert shown["verdict"] == "FAIL"
    refused = problem(await overridden(client, shown["id"], documents=["new-a"]), 422)
    assert "forbidden-hit" in refused["detail"]


# the corrected set ---------------------------------------------------------------------------------------


async def test_label_fixes_leave_as_a_patch_that_git_applies(
    client: httpx.AsyncClient, run: str, tmp_path: Path
) -> None:
    received = lines(3)
    same = await client.get(f"/v1/runs/{run}/golden.jsonl")
    assert same.text == received
    assert same.headers["content-type"] == "application/jsonl"
    missing = problem(await client.get(f"/v1/runs/{run}/golden.patch"), 404)
    assert "nothing to correct" in missing["detail"]

    await reviewed(client, run, decision="label-out-of-date", answers=["new-a", "new-b"])
    fixed = (await client.get(f"/v1/runs/{run}/golden.jsonl")).content
    assert fixed.decode() == received.replace('["d1"]', '["new-a", "new-b"]', 1)
    patch = await client.get(f"/v1/runs/{run}/golden.patch")
    assert patch.headers["content-type"] == "text/x-diff; charset=utf-8"
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "hr.jsonl").write_text(received)
    command = ["git", "apply", "-"]
    await asyncio.to_thread(subprocess.run, command, cwd=tmp_path, input=patch.content, check=True)
    assert (tmp_path / "golden" / "hr.jsonl").read_bytes() == fixed


async def test_a_sent_set_is_corrected_as_it_was_sent(client: httpx.AsyncClient) -> None:
    received = "\ufeff" + lines(2).replace("\n", "\r\n") + "\r\n"
    sent = await done(client, golden_set=None, golden=golden(received, name="../x y"))
    await reviewed(client, sent["id"], question="q2", decision="label-out-of-date", answers=["late"])
    fixed = (await client.get(f"/v1/runs/{sent['id']}/golden.jsonl")).content.decode()
    assert fixed == '["late"]'.join(received.rsplit('["d1"]', 1))
    patch = (await client.get(f"/v1/runs/{sent['id']}/golden.patch")).content
    assert b'--- "a/golden/.._x y.jsonl"\n' in patch


async def test_there_is_no_corrected_set_before_the_end(service: Service, client: httpx.AsyncClient) -> None:
    service.search.hold()
    running = (await client.post("/v1/runs", json=body())).json()["id"]
    for name in ("golden.jsonl", "golden.patch"):
        problem(await client.get(f"/v1/runs/{running}/{name}"), 409)
        problem(await client.get(f"/v1/runs/nowhere/{name}"), 404)


# forms ---------------------------------------------------------------------------------------------------


async def submitted(
    client: httpx.AsyncClient, path: str, *, headers: dict[str, str] | None = None, **fields: Any
) -> httpx.Response:
    return await client.post(path, data=fields, headers=BROWSER if headers is None else headers)


async def reviews_of(client: httpx.AsyncClient, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(f"/v1/runs/{run}/reviews")).json()["reviews"]
    return found


async def test_a_form_decides_and_leads_back_to_the_question(client: httpx.AsyncClient, run: str) -> None:
    response = await submitted(
        client,
        f"/runs/{run}/reviews",
        question="q1",
        decision="acceptable",
        reason="Ünlikely & <b>rare</b>",
        expires="2026-12-31",
        watch=" ",
    )
    assert response.status_code == 303
    assert response.headers["location"] == f"/runs/{run}#q-q1"
    (kept,) = await reviews_of(client, run)
    assert (kept["reason"], kept["expires"], kept["watch"]) == ("Ünlikely & <b>rare</b>", "2026-12-31", None)


async def test_a_form_keeps_lines_as_they_were_before_the_browser(client: httpx.AsyncClient) -> None:
    line = json.dumps({"id": "two\nlines", "question": "question 1", "answers": ["d1"]})
    run = (await done(client, golden_set=None, golden=golden(line)))["id"]
    fields: dict[str, Any] = {"question": "two\r\nlines", "decision": "acceptable", "reason": "one\r\ntwo"}
    assert (await submitted(client, f"/runs/{run}/reviews", **fields)).status_code == 303
    (kept,) = await reviews_of(client, run)
    assert (kept["question"], kept["reason"]) == ("two\nlines", "one\ntwo")


async def test_a_form_names_new_answers(client: httpx.AsyncClient, run: str) -> None:
    await submitted(
        client,
        f"/runs/{run}/reviews",
        question="q1",
        decision="label-out-of-date",
        answers=["new-b", "new-a"],
        expires="",
    )
    (kept,) = await reviews_of(client, run)
    assert kept["answers"] == ["new-b", "new-a"]


async def test_a_form_names_entries_with_alternatives(client: httpx.AsyncClient) -> None:
    required = golden(lines(1, answers=["d1", "x"], require_all=True))
    run = (await done(client, golden_set=None, golden=required))["id"]
    fields: dict[str, Any] = {"answers.10": "y", "answers.2": ["new-a", "new-b"], "answers": "x"}
    response = await submitted(
        client, f"/runs/{run}/reviews", question="q1", decision="label-out-of-date", **fields
    )
    assert response.status_code == 303, response.text
    (kept,) = await reviews_of(client, run)
    assert kept["answers"] == [["new-a", "new-b"], "y", "x"]


async def test_a_form_overrides_and_leads_back(client: httpx.AsyncClient, run: str) -> None:
    response = await submitted(
        client, f"/runs/{run}/overrides", reason="bearable", watch="tests", questions=LOST
    )
    assert response.status_code == 303
    assert response.headers["location"] == f"/runs/{run}#override"
    assert (await client.get(f"/v1/runs/{run}/overrides")).json()["waived"]["questions"] == list(LOST)


@pytest.mark.parametrize(
    ("back", "location"),
    [
        ("/runs/{run}/lost?page=2", "/runs/{run}/lost?page=2#q-q1"),
        ("/runs/{run}?slice=a%26b#x", "/runs/{run}?slice=a%26b#q-q1"),
        ("https://evil.example/", "/runs/{run}#q-q1"),
        ("//evil.example/runs/{run}", "/runs/{run}#q-q1"),
        ("/runs/{run}.evil.example", "/runs/{run}#q-q1"),
        ("/\\evil.example", "/runs/{run}#q-q1"),
        ("/runs/{run}?a\r\nSet-Cookie: x=y", "/runs/{run}?a%0ASet-Cookie:%20x=y#q-q1"),
        ("", "/runs/{run}#q-q1"),
    ],
)
async def test_a_form_leads_back_to_pages_of_its_run_only(
    client: httpx.AsyncClient, run: str, back: str, location: str
) -> None:
    response = await submitted(
        client, f"/runs/{run}/reviews", question="q1", decision="real-loss", back=back.format(run=run)
    )
    assert response.headers["location"] == location.format(run=run)
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize("call", ["reviews", "overrides"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site", "origin": "http://gate"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "http://gate.evil.example"},
        {"origin": "http://gate:8081"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://["},
    ],
)
async def test_a_form_of_another_site_decides_nothing(
    client: httpx.AsyncClient, run: str, call: str, headers: dict[str, str]
) -> None:
    fields: dict[str, Any] = {"question": "q1", "decision": "real-loss"}
    if call == "overrides":
        fields = {"reason": "x", "watch": "y", "questions": LOST}
    page = await submitted(
        client, f"/runs/{run}/{call}", headers={"accept": "text/html", **headers}, **fields
    )
    assert page.status_code == 403
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "Only a page of this service" in page.text
    assert (await client.get(f"/v1/runs/{run}/{call}")).json()[call] == []


async def test_an_older_browser_is_known_by_its_origin(client: httpx.AsyncClient, run: str) -> None:
    headers = {"accept": "text/html", "origin": "https://GATE"}  # TLS may end before the service
    response = await submitted(
        client, f"/runs/{run}/reviews", headers=headers, question="q1", decision="real-loss"
    )
    assert response.status_code == 303


async def test_a_refused_form_says_all_that_is_wrong_on_a_page(client: httpx.AsyncClient, run: str) -> None:
    page = await submitted(client, f"/runs/{run}/overrides", reason="x", questions="<i>q9</i>")
    assert page.status_code == 422
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "watch: is required" in page.text
    page = await submitted(client, f"/runs/{run}/overrides", reason="x", watch="y", questions="<i>q9</i>")
    for name in ("q1", "q2", "&lt;i&gt;q9&lt;/i&gt;"):
        assert name in page.text
    assert "<i>" not in page.text


async def test_a_refused_form_of_a_program_is_a_problem_document(client: httpx.AsyncClient, run: str) -> None:
    headers = {"sec-fetch-site": "same-origin"}
    problem(await submitted(client, f"/runs/{run}/reviews", headers=headers, question="q1"), 422)


@pytest.mark.parametrize(
    "content", [b"question=%ff&decision=real-loss", "question=ü".encode(), b"&".join([b"a=1"] * 100_001)]
)
async def test_a_form_that_cannot_be_read_is_refused(
    client: httpx.AsyncClient, run: str, content: bytes
) -> None:
    headers = {**BROWSER, "content-type": "application/x-www-form-urlencoded"}
    page = await client.post(f"/runs/{run}/overrides", content=content, headers=headers)
    assert page.status_code == 422
    assert "is no form that can be read" in page.text


async def test_a_form_is_no_other_kind_of_body(client: httpx.AsyncClient, run: str) -> None:
    page = await client.post(f"/runs/{run}/reviews", json={"question": "q1"}, headers=BROWSER)
    assert page.status_code == 415
    twice = await submitted(client, f"/runs/{run}/reviews", question=["q1", "q2"], decision="real-loss")
    assert twice.status_code == 422
    unknown = await submitted(
        client, f"/runs/{run}/reviews", question="q1", decision="real-loss", by="somebody"
    )
    assert unknown.status_code == 422


async def test_the_form_of_an_unknown_run_is_answered_with_a_page(client: httpx.AsyncClient) -> None:
    page = await submitted(client, "/runs/nowhere/reviews", question="q1", decision="real-loss")
    assert page.status_code == 404
    assert "There is no run" in page.text


async def test_questions_of_any_name_are_decided(client: httpx.AsyncClient, service: Service) -> None:
    name = 'q<1>&"\u202e \n#?'
    line = json.dumps({"id": name, "question": "question 1", "answers": ["d1"]})
    run = (await done(client, golden_set=None, golden=golden(line)))["id"]
    assert (await reviewed(client, run, question=name, decision="real-loss")).status_code == 201
    assert set((await client.get(f"/v1/runs/{run}/reviews")).json()["standing"]) == {name}
