"""The pages for people."""

import asyncio
from datetime import date
from typing import Any

import httpx
import pytest

from app.web import decisions, listing, progress
from tests.report.reading import Page
from tests.web.served import Service, body, done, golden, lines, problem

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HOSTILE = '<script>alert(1)</script>"\u202e'


async def test_the_first_page_lists_the_runs_with_their_verdicts(
    service: Service, client: httpx.AsyncClient
) -> None:
    passed = await done(client)
    service.search.hold()
    await client.post("/v1/runs", json=body(golden_set="it"))
    response = await client.get("/", headers=BROWSER)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    page = response.text[response.text.index("All runs") :]
    assert page.index("run-0002") < page.index("run-0001")
    assert 'href="/runs/run-0001"' in page
    assert 'href="/v1/runs/run-0001/junit.xml"' in page
    assert 'href="/v1/runs/run-0002/junit.xml"' not in page
    assert passed["headline"] in page
    assert "PASS" in page
    assert "2026-11-30 12:01 UTC" in page
    assert "Older runs" not in page


async def test_without_runs_the_first_page_says_so(client: httpx.AsyncClient) -> None:
    assert "There are no runs" in (await client.get("/")).text


async def test_older_runs_are_a_link_away_and_filters_stay(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await done(client)
    first = (await client.get("/", params={"limit": 2, "golden_set": "hr"})).text
    assert 'href="/?golden_set=hr&amp;limit=2&amp;cursor=run-0002"' in first
    second = (await client.get("/?golden_set=hr&limit=2&cursor=run-0002")).text
    assert "run-0001" in second
    assert "run-0003" not in second


async def test_the_page_of_a_run_that_is_done_is_its_report_with_links_and_forms(
    client: httpx.AsyncClient,
) -> None:
    run = await failed_run(client)
    page = await client.get(f"/runs/{run}", headers=BROWSER)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    found = Page(page.text)
    assert "FAIL" in found.text
    assert "0 of 3 decided." in found.text
    assert [action(values) for tag, values in found.elements if tag == "form"] == [
        f"get /runs/{run}",
        *[f"post /runs/{run}/reviews"] * 3,
        f"post /runs/{run}/overrides",
    ]
    links = {values.get("href") for tag, values in found.elements if tag == "a"}
    assert {
        f"/v1/runs/{run}/{name}" for name in ("run.json", "report.html", "report.md", "junit.xml")
    } <= links
    file = Page((await client.get(f"/v1/runs/{run}/report.html")).text)
    assert [values.get("data-file") for tag, values in file.elements if tag == "form"] == [None]
    assert "Your decision" not in file.text


async def test_a_first_look_reads_the_evidence_of_what_it_shows_alone(
    service: Service, client: httpx.AsyncClient
) -> None:
    run = await failed_run(client, 60)
    shown = {"": 50, "/lost": 50, "/lost?page=2": 10, "?text=question+7": 1, "/unchanged": 0}
    for path, contexts in shown.items():
        async with service.serving() as fresh:
            service.store.calls.clear()
            page = (await fresh.get(f"/runs/{run}{path}")).text
        assert page.count('<div class="sides">') == contexts, path
        evidence = [call.operation for call in service.store.calls if "/evidence" in call.name]
        assert evidence == ["read_part"] * contexts, path


async def test_a_decision_reads_the_evidence_of_its_question_alone(
    service: Service, client: httpx.AsyncClient
) -> None:
    run = await failed_run(client, 60)
    service.store.calls.clear()
    sent = await client.post(f"/v1/runs/{run}/reviews", json={"question": "q7", "decision": "real-loss"})
    assert sent.status_code == 201
    evidence = [call.operation for call in service.store.calls if "/evidence" in call.name]
    assert evidence == ["read_part"]


async def test_without_its_outline_a_run_is_shown_all_the_same(
    service: Service, client: httpx.AsyncClient
) -> None:
    run = await failed_run(client, 60)
    with_outline = (await client.get(f"/runs/{run}")).text
    await service.store.delete(f"runs/{run}/outline-1.jsonl.gz")
    async with service.serving() as fresh:
        assert (await fresh.get(f"/runs/{run}")).text == with_outline


def action(values: dict[str, str | None]) -> str:
    return f"{values['method']} {values['action']}"


async def failed_run(client: httpx.AsyncClient, count: int = 3, **keys: Any) -> str:
    """A run that lost all its questions; the answer `d9` is in the baseline only."""
    run = await done(client, golden=golden(lines(count, answers=["d9"], **keys)))
    assert run["verdict"] == "FAIL"
    return str(run["id"])


@pytest.fixture(autouse=True)
def _lost_answers(service: Service) -> None:
    """Whatever is asked, `d9` is the second in the baseline, and nowhere in the candidate."""
    service.search.index("kb-v1").otherwise = ("x", "d1", "d9")


async def test_a_decision_made_on_the_page_stands_on_it(client: httpx.AsyncClient) -> None:
    run = await failed_run(client)
    fields = {"question": "q2", "decision": "acceptable", "reason": "rare", "watch": "weekly look"}
    own = {"origin": "http://gate", **BROWSER}
    sent = await client.post(f"/runs/{run}/reviews", data=fields, headers=own)
    assert sent.status_code == 303
    assert sent.headers["location"] == f"/runs/{run}#q-q2"
    found = Page((await client.get(f"/runs/{run}", headers=BROWSER)).text)
    assert "1 of 3 decided." in found.text
    assert "Decided: acceptable" in found.text
    assert "weekly look" in found.text


async def test_an_override_made_on_the_page_is_shown_everywhere(client: httpx.AsyncClient) -> None:
    run = await failed_run(client)
    fields = {"reason": "the set is old", "watch": "the help desk", "questions": ["q1", "q2", "q3"]}
    own = {"origin": "http://gate", **BROWSER}
    sent = await client.post(f"/runs/{run}/overrides", data=fields, headers=own)
    assert sent.status_code == 303
    for path in (f"/runs/{run}", "/", f"/runs/{run}/lost", f"/v1/runs/{run}/report.html"):
        text = Page((await client.get(path, headers=BROWSER)).text).text
        assert "FAIL WAIVED" in text
        assert "the set is old" in text
    first = (await client.get("/", headers=BROWSER)).text
    assert '<text class="FAIL" x="6.0" y="58.0" text-anchor="middle">W</text>' in first
    assert "Last: FAIL WAIVED, 3 lost" in Page(first).text
    summary = (await client.get(f"/v1/runs/{run}/report.md")).text
    assert summary.startswith("# FAIL WAIVED: ")
    who = "somebody who was not signed in, 2026-11-30 12:00 UTC"
    assert f"**Waived by**: {who} · **Reason**: the set is old · **Watched by**: the help desk" in summary
    assert "- **Pipeline**: Nothing to switch: this run is not trusted." in summary, "it was sent along"
    results = (await client.get(f"/v1/runs/{run}/junit.xml")).text
    assert 'message="net-loss (3, limit 0), WAIVED"' in results
    assert f"Waived by: {who}\nReason: the set is old\nWatched by: the help desk\n" in results
    assert (await client.get(f"/v1/runs/{run}")).json()["verdict"] == "FAIL"


async def test_a_decision_of_an_earlier_run_stands_beside_the_question(client: httpx.AsyncClient) -> None:
    first = await failed_run(client)
    own = {"origin": "http://gate", **BROWSER}
    await client.post(
        f"/runs/{first}/reviews",
        data={"question": "q1", "decision": "acceptable", "reason": "rare"},
        headers=own,
    )
    second = await failed_run(client)
    text = Page((await client.get(f"/runs/{second}", headers=BROWSER)).text).text
    assert "Decided in an earlier run: acceptable" in text
    assert f"run {first}" in text
    assert "1 of 3 decided." in text


async def test_an_acceptance_that_has_expired_is_shown_as_such_and_counts_no_more(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await failed_run(client)
    accepted = {"question": "q1", "decision": "acceptable", "reason": "rare", "expires": "2026-12-24"}
    assert (await client.post(f"/v1/runs/{first}/reviews", json=accepted)).status_code == 201
    second = await failed_run(client)
    for day, decided in ((24, "1 of 3 decided."), (25, "0 of 3 decided.")):
        monkeypatch.setattr(decisions, "today", lambda _, day=day: date(2026, 12, day))
        for path in (f"/runs/{first}", f"/runs/{second}", f"/v1/runs/{second}/report.html"):
            text = Page((await client.get(path, headers=BROWSER)).text).text
            assert decided in text
            assert ("acceptable expired: does not count" in text) is (day == 25)
            assert "Reason rare" in text


async def test_the_filter_works_by_its_address(client: httpx.AsyncClient) -> None:
    run = await failed_run(client, 12, slice="table")
    for query, count in (
        ({"text": "question 1"}, 4),  # 1, 10, 11, 12
        ({"slice": "table"}, 12),
        ({"slice": "lookup"}, 0),
        ({"cause": "not-retrieved"}, 12),
        ({"cause": "boundary"}, 0),
        ({"owner": "nobody"}, 0),
    ):
        found = Page((await client.get(f"/runs/{run}", params=query, headers=BROWSER)).text)
        assert found.count("article") == count
        assert f"Lost questions ({count} of 12)" in found.text


async def test_lists_have_pages_of_their_own(client: httpx.AsyncClient) -> None:
    run = await failed_run(client, 120)
    first = Page((await client.get(f"/runs/{run}", headers=BROWSER)).text)
    assert first.count("article") == 50
    assert f"/runs/{run}/lost?page=2" in {values.get("href") for _, values in first.elements}
    third = Page((await client.get(f"/runs/{run}/lost?page=3", headers=BROWSER)).text)
    assert third.count("article") == 20
    assert "Lost questions (120), page 3 of 3" in third.text
    back = {values.get("value") for tag, values in third.elements if values.get("name") == "back"}
    assert back == {f"/runs/{run}/lost?page=3"}
    assert (await client.get(f"/runs/{run}/lost?page=4", headers=BROWSER)).status_code == 404
    assert (await client.get(f"/runs/{run}/nothing", headers=BROWSER)).status_code == 404
    assert (await client.get(f"/runs/{run}/unchanged", headers=BROWSER)).status_code == 200
    found = await client.get(f"/runs/{run}/question", params={"id": "q120"})
    assert found.headers["location"] == f"/runs/{run}/lost?page=3#q-q120"
    assert (await client.get(f"/runs/{run}/question", params={"id": "q121"})).status_code == 404


async def test_progress_is_told_until_the_run_is_done(service: Service, client: httpx.AsyncClient) -> None:
    service.search.hold()
    run = (await client.post("/v1/runs", json=body())).json()["id"]
    page = (await client.get(f"/runs/{run}", headers=BROWSER)).text
    assert f'data-events="/runs/{run}/events"' in page
    assert (await client.get(f"/runs/{run}/lost", headers=BROWSER)).status_code == 409
    asyncio.get_running_loop().call_later(0.3, service.search.release)
    told = await client.get(f"/runs/{run}/events")
    assert told.headers["content-type"].startswith("text/event-stream")
    assert told.text.startswith("retry: 1000\n\nevent: progress\n")
    assert told.text.rstrip().splitlines()[-2] == "event: done"


async def test_the_stream_ends_itself_before_a_proxy_cuts_it(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert progress.LONGEST_STREAM < 60
    monkeypatch.setattr(progress, "LONGEST_STREAM", 1.5)
    service.search.hold()
    run = (await client.post("/v1/runs", json=body())).json()["id"]
    told = await client.get(f"/runs/{run}/events")
    assert "event: done" not in told.text
    assert "event: progress" in told.text


async def test_the_first_page_shows_the_trend_of_each_set(client: httpx.AsyncClient) -> None:
    passed, failed = await done(client), await failed_run(client)
    found = Page((await client.get("/", headers=BROWSER)).text)
    titles = [values["aria-label"] or "" for tag, values in found.elements if "aria-label" in values]
    assert [title for title in titles if "PASS: 0 lost" in title]
    assert [title for title in titles if "FAIL: 3 lost, 0 gained, kb-v2" in title]
    links = [values.get("href") for tag, values in found.elements if tag == "a"]
    assert links.count(f"/runs/{failed}") == links.count(f"/runs/{passed['id']}") == 2


async def test_a_trend_holds_the_last_thirty_runs_of_its_set(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "TREND_LOOKED_AT", 31)
    one, other = golden(lines(1), name="one"), golden(lines(1), name="other")
    for _ in range(32):
        await done(client, golden=one)
    for _ in range(2):
        await done(client, golden=other)

    async def drawn(path: str) -> dict[str, int]:
        page = (await client.get(path, headers=BROWSER)).text
        svgs = [each.partition("</svg>")[0] for each in page.split('<svg class="trend"')[1:]]
        return {each.partition("Trend of ")[2].partition('"')[0]: each.count("<a ") for each in svgs}

    assert await drawn("/") == {"other": 2, "one": 29}, "of the newest 31"
    assert await drawn("/?golden_set=one") == {"one": 30}
    assert await drawn("/?golden_set=one&verdict=PASS") == {}


async def test_the_page_of_a_run_that_is_not_done_looks_again_by_itself(
    service: Service, client: httpx.AsyncClient
) -> None:
    service.search.hold()
    run_id = (await client.post("/v1/runs", json=body())).json()["id"]
    page = await client.get(f"/runs/{run_id}", headers=BROWSER)
    assert page.status_code == 200
    assert '<meta http-equiv="refresh" content="5">' in page.text
    assert "kb-v2 against kb-v1" in page.text


async def test_text_from_outside_is_shown_as_text(service: Service, client: httpx.AsyncClient) -> None:
    await done(client, golden=golden(lines(1), name=HOSTILE))
    service.search.hold()
    running = (await client.post("/v1/runs", json=body(golden=golden(lines(1), name=HOSTILE)))).json()["id"]
    for path in ("/", "/runs/run-0001", f"/runs/{running}"):
        page = (await client.get(path, headers=BROWSER)).text
        assert page.count("<script") == (path != "/")  # our own
        assert "\u202e" not in page
        assert "&lt;script&gt;" in page


async def test_a_browser_gets_its_problems_as_a_page(client: httpx.AsyncClient) -> None:
    page = await client.get("/runs/%3Cscript%3E", headers=BROWSER)
    assert page.status_code == 404
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "There is no run" in page.text
    assert "<script" not in page.text


async def test_a_program_gets_problems_of_pages_as_documents(client: httpx.AsyncClient) -> None:
    problem(await client.get("/runs/run-0001"), 404)
    problem(await client.get("/", params={"limit": 0}), 422)


async def test_a_browser_gets_problems_of_the_api_as_documents(client: httpx.AsyncClient) -> None:
    problem(await client.get("/v1/runs/run-0001", headers=BROWSER), 404)
