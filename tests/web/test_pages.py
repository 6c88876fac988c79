"""The pages for people."""

import httpx

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
    page = response.text
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


async def test_the_page_of_a_run_that_is_done_is_its_report(client: httpx.AsyncClient) -> None:
    run = await done(client)
    page = await client.get(f"/runs/{run['id']}", headers=BROWSER)
    report = await client.get(f"/v1/runs/{run['id']}/report.html")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.content == report.content


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
        assert "<script" not in page
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
