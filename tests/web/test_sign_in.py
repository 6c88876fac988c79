"""People with a browser: the way to the directory and back, cookies, forms, and the way out."""

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import itsdangerous
import pytest

from app.web.access import NEEDED, OPEN
from app.web.sessions import LIFETIME, UNDER_WAY
from app.web.sign_in import ours
from tests.directory import ADA, CLIENT, SECRET, TENANT, Directory
from tests.fakes.live import FakeLive
from tests.web.served import Service, done, golden, lines, problem
from tests.web.signing_in import access_of, begun, forms, signed_in

ROOT = Path(__file__).parents[2]
PAGE = {"Accept": "text/html"}
SAME = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def browser(service: Service, directory: Directory) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in front of an application that lets this tenant sign in."""
    async with service.serving(service.application(access_of(directory))) as client:
        client.headers.update(PAGE)
        yield client


@asynccontextmanager
async def lost_run(service: Service, directory: Directory) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A browser, and the page of a run that lost a question."""
    service.search.index("kb-v2").otherwise = ("x",)
    async with service.serving(service.application(access_of(directory))) as client:
        token = {"Authorization": f"Bearer {directory.token('Gate.Run')}"}
        client.headers.update(token)
        run = await done(client, golden=golden(lines(1)))
        del client.headers["authorization"]
        client.headers.update(PAGE)
        yield client, f"/runs/{run['id']}"


async def test_a_page_sends_to_sign_in_and_an_api_call_is_told(browser: httpx.AsyncClient) -> None:
    response = await browser.get("/runs/run-0001?slice=a%20b&text=c")
    assert response.status_code == 303
    place = urlsplit(response.headers["location"])
    assert (place.scheme, place.netloc, place.path) == ("", "", "/sign-in")
    assert parse_qs(place.query) == {"back": ["/runs/run-0001?slice=a%20b&text=c"]}
    for path, accept in (
        ("/v1/runs", "text/html"),
        ("/", "application/json"),
        ("/runs/r/events", "text/event-stream"),
    ):
        problem(await browser.get(path, headers={"Accept": accept}), 401)
    refused = await browser.get("/", headers={"Authorization": "Bearer x"})
    assert refused.status_code == 401, "a token that is no good is told, and no reason to sign in"


async def test_the_way_to_the_directory_and_back(browser: httpx.AsyncClient, directory: Directory) -> None:
    asked = await begun(browser, "/?golden_set=hr")
    assert asked["client_id"] == CLIENT
    assert asked["response_type"] == "code"
    assert asked["redirect_uri"] == "http://gate/sign-in/callback"
    assert asked["code_challenge_method"] == "S256"
    directory.codes["c-1"] = directory.token("Gate.Read", nonce=asked["nonce"], name="Ada <b>", oid=ADA)
    back = await browser.get("/sign-in/callback", params={"state": asked["state"], "code": "c-1"})
    assert (back.status_code, back.headers["location"]) == (303, "/?golden_set=hr")
    sent = directory.exchanges[-1]
    digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
    assert (sent["grant_type"], sent["client_secret"]) == ("authorization_code", SECRET)
    page = (await browser.get("/")).text
    assert "Signed in as <bdi>Ada &lt;b&gt;</bdi>" in page
    again = await browser.get("/sign-in/callback", params={"state": asked["state"], "code": "c-1"})
    assert again.status_code == 401, "a way back is walked once"


async def test_only_the_browser_that_began_comes_back(
    browser: httpx.AsyncClient, directory: Directory
) -> None:
    asked = await begun(browser)
    browser.cookies.clear()
    response = await browser.get("/sign-in/callback", params={"state": asked["state"], "code": "stolen"})
    assert response.status_code == 401
    assert "begin again" in response.text
    assert "gate-session" not in response.headers.get("set-cookie", "")
    other = await begun(browser)
    cookie = browser.cookies[f"gate-sign-in-{other['state']}"]
    browser.cookies.set(f"gate-sign-in-{asked['state']}", cookie)
    response = await browser.get("/sign-in/callback", params={"state": asked["state"], "code": "stolen"})
    assert response.status_code == 401
    assert not any(each["code"] == "stolen" for each in directory.exchanges)


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"nonce": 7},
        {"aud": "another-application"},
        {"tid": "11111111-2222-4333-8444-555555555555"},
        {"exp": 1},
        {"ver": "1.0"},
    ],
)
async def test_what_the_directory_gives_is_validated_as_any_token(
    browser: httpx.AsyncClient, directory: Directory, changes: dict[str, object]
) -> None:
    asked = await begun(browser)
    directory.codes["c-2"] = directory.token("Gate.Read", **{"nonce": asked["nonce"], **changes})
    response = await browser.get("/sign-in/callback", params={"state": asked["state"], "code": "c-2"})
    assert response.status_code == 401
    assert "gate-session" not in browser.cookies


async def test_a_refusal_of_the_directory_is_told(browser: httpx.AsyncClient, directory: Directory) -> None:
    asked = await begun(browser)
    for code in ({"code": "unknown"}, {"error": "access_denied"}):
        response = await browser.get("/sign-in/callback", params={"state": asked["state"], **code})
        assert response.status_code == 401
        assert response.headers["content-type"].startswith("text/html")
    problem(await browser.get("/sign-in/callback", headers={"Accept": "*/*"}), 422)


async def test_a_directory_that_is_away_is_told(service: Service) -> None:
    with Directory() as away:
        away.away = True
        async with service.serving(service.application(access_of(away))) as client:
            problem(await client.get("/sign-in"), 503)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "javascript:alert(1)",
        ),
        *("", "runs", "/runs\n//evil", "/\t/evil.example", "/ü", "http:/evil", "///evil.example"),
        "/" + "x" * 2000,
    ],
)
def test_the_way_back_never_leads_elsewhere(address: str) -> None:
    assert ours(address) == "/"


@pytest.mark.parametrize(
    "address", ["/", "/runs/r-1?slice=a%20b&page=2", "/?golden_set=hr", "/runs/a//b", "/" + "x" * 1999]
)
def test_the_way_back_leads_to_our_pages(address: str) -> None:
    assert ours(address) == address


# cookies --------------------------------------------------------------------------------------------------


async def test_cookies_are_for_this_service_only(service: Service, directory: Directory) -> None:
    api = service.application(access_of(directory, tls=True), tls=True)
    async with service.serving(api) as client:
        client.base_url = httpx.URL("https://gate")
        response = await signed_in(client, directory, "Gate.Read")
        cookies = response.headers.get_list("set-cookie")
        assert len(cookies) == 2
        assert cookies[0].startswith("__Host-gate-session=")
        for cookie in cookies:
            parts = {part.strip().lower() for part in cookie.split(";")[1:]}
            assert {"httponly", "secure", "samesite=lax", "path=/"} <= parts
            assert not any(part.startswith("domain") for part in parts)
        assert f"max-age={LIFETIME}" in cookies[0].lower()
        assert (await client.get("/v1/runs")).status_code == 200


async def test_a_session_ends_by_itself(
    browser: httpx.AsyncClient, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await signed_in(browser, directory, "Gate.Read")
    later = itsdangerous.TimestampSigner("x").get_timestamp() + LIFETIME + 1
    monkeypatch.setattr(itsdangerous.TimestampSigner, "get_timestamp", lambda _: later)
    assert (await browser.get("/v1/runs")).status_code == 401


async def test_a_sign_in_takes_no_longer_than_its_time(
    browser: httpx.AsyncClient, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await begun(browser)
    later = itsdangerous.TimestampSigner("x").get_timestamp() + UNDER_WAY + 1
    monkeypatch.setattr(itsdangerous.TimestampSigner, "get_timestamp", lambda _: later)
    response = await browser.get("/sign-in/callback", params={"state": asked["state"], "code": "c"})
    assert response.status_code == 401


async def test_a_cookie_that_was_touched_or_is_for_something_else_is_none(
    browser: httpx.AsyncClient, directory: Directory
) -> None:
    await signed_in(browser, directory, "Gate.Read")
    good = browser.cookies["gate-session"]
    asked = await begun(browser)
    for bad in ("", "x.y.z", good[:-1], f"A{good[1:]}", browser.cookies[f"gate-sign-in-{asked['state']}"]):
        browser.cookies.set("gate-session", bad, domain="gate.local", path="/")
        response = await browser.get("/v1/runs", headers={"Cookie": f"gate-session={bad}"})
        assert response.status_code == 401


async def test_keys_are_replaced_in_two_steps(service: Service, directory: Directory) -> None:
    old, new = "o" * 32, "n" * 32
    async with service.serving(service.application(access_of(directory, keys=(old,)))) as client:
        await signed_in(client, directory, "Gate.Read")
        cookie = {"Cookie": f"gate-session={client.cookies['gate-session']}"}
    for keys, status in (((new, old), 200), ((new,), 401)):
        async with service.serving(service.application(access_of(directory, keys=keys))) as client:
            assert (await client.get("/v1/runs", headers=cookie)).status_code == status
            await signed_in(client, directory, "Gate.Read")
            assert (await client.get("/v1/runs")).status_code == 200


# forms ----------------------------------------------------------------------------------------------------


FORMS = sorted(call.partition(" ")[2] for call in NEEDED if call.startswith("POST /") and "/v1/" not in call)


@pytest.mark.parametrize("path", FORMS)
async def test_every_form_must_hold_what_only_its_page_knows(
    browser: httpx.AsyncClient, directory: Directory, path: str
) -> None:
    path = path.format(run_id="run-0001")
    await signed_in(browser, directory, "Gate.Run", "Gate.Review", "Gate.Promote")
    (own,) = [form.fields["proof"] for form in forms((await browser.get("/")).text)]
    browser.cookies.clear()
    await signed_in(browser, directory, "Gate.Run", "Gate.Review", "Gate.Promote")
    for data in ({}, {"proof": ""}, {"proof": "guessed"}, {"proof": own}, {"proof": [own, own]}):
        response = await browser.post(path, data=data, headers=SAME)
        assert response.status_code == 403, "another session's proof is none"
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x"):
        response = await browser.post(path, content=b"{}", headers={**SAME, "Content-Type": kind})
        assert response.status_code == 403
    (now,) = [form.fields["proof"] for form in forms((await browser.get("/")).text)]
    cross = await browser.post(path, data={"proof": now}, headers={"Sec-Fetch-Site": "cross-site"})
    assert cross.status_code == 403, "a page of another site, however it came by the proof"
    good = await browser.post(path, data={"proof": now}, headers=SAME)
    assert good.status_code not in (401, 403, 500)


@pytest.mark.parametrize(
    "call",
    sorted(call for call, needed in NEEDED.items() if call.startswith("POST /v1/") and needed is not OPEN),
)
async def test_a_session_opens_no_api_that_does_something(
    browser: httpx.AsyncClient, directory: Directory, call: str
) -> None:
    await signed_in(browser, directory, "Gate.Run", "Gate.Review", "Gate.Promote")
    path = call.partition(" ")[2].format(run_id="run-0001")
    assert (await browser.post(path, json={})).status_code == 403
    assert (await browser.post(path)).status_code == 403


async def test_who_may_review_decides_by_a_form_and_signs_it(service: Service, directory: Directory) -> None:
    async with lost_run(service, directory) as (browser, page):
        await signed_in(browser, directory, "Gate.Review", oid=ADA, name="Ada")
        for address in (page, f"{page}/lost"):
            found = [form for form in forms((await browser.get(address)).text) if form.method == "post"]
            assert {form.action for form in found} >= {f"{page}/reviews", "/sign-out"}
            assert all(form.fields["proof"] for form in found)
        (form,) = [each for each in found if each.action == f"{page}/reviews"]
        sent = {**form.fields, "decision": "real-loss"}
        response = await browser.post(form.action, data=sent, headers=SAME)
        assert response.status_code == 303, response.text
        kept = (await browser.get(f"/v1{page}/reviews")).json()["reviews"]
        assert [each["by"] for each in kept] == [f"Ada [{ADA}]"]


async def test_who_may_not_review_sees_no_form(service: Service, directory: Directory) -> None:
    async with lost_run(service, directory) as (browser, page):
        await signed_in(browser, directory, "Gate.Read")
        for address in ("/", page, f"{page}/lost"):
            text = (await browser.get(address)).text
            assert {form.action for form in forms(text) if form.method == "post"} == {"/sign-out"}
        proof = forms(text)[0].fields["proof"]
        sent = {"proof": proof, "question": "q1", "decision": "real-loss"}
        response = await browser.post(f"{page}/reviews", data=sent, headers=SAME)
        assert response.status_code == 403
        assert "Gate.Review" in response.text


async def test_a_person_without_a_role_is_told_and_can_sign_out(
    browser: httpx.AsyncClient, directory: Directory
) -> None:
    await signed_in(browser, directory, name="Bob")
    response = await browser.get("/")
    assert response.status_code == 403
    assert "Gate.Read" in response.text
    assert "Signed in as <bdi>Bob</bdi>" in response.text
    assert [form.action for form in forms(response.text)] == ["/sign-out"]


async def test_the_file_of_a_report_knows_nobody(service: Service, directory: Directory) -> None:
    async with lost_run(service, directory) as (browser, page):
        await signed_in(browser, directory, "Gate.Review", name="Ada Lovelace")
        file = (await browser.get(f"/v1{page}/report.html")).text
        assert "Ada Lovelace" not in file
        assert "proof" not in {name for form in forms(file) for name in form.fields}


async def test_who_may_promote_does_it_by_a_form_and_nobody_else_sees_one(directory: Directory) -> None:
    service = Service(live=FakeLive())
    async with service.serving(service.application(access_of(directory))) as browser:
        browser.headers["Authorization"] = f"Bearer {directory.token('Gate.Run')}"
        page = f"/runs/{(await done(browser))['id']}/promotion"
        del browser.headers["Authorization"]
        browser.headers.update(PAGE)
        await signed_in(browser, directory, "Gate.Review")
        assert {form.action for form in forms((await browser.get(page)).text)} == {"/sign-out"}
        await signed_in(browser, directory, "Gate.Promote", oid=ADA, name="Ada")
        (form,) = [each for each in forms((await browser.get(page)).text) if each.action == page]
        assert (await browser.post(page, data={**form.fields, "proof": "x"}, headers=SAME)).status_code == 403
        assert service.live is not None
        assert service.live.index == "kb-v1"
        assert (await browser.post(page, data=form.fields, headers=SAME)).status_code == 303
        assert service.live.index == "kb-v2"
        records = (await browser.get("/v1/audit")).json()["records"]
        assert records[0]["actor"] == f"Ada [{ADA}]"
        (back,) = [
            each for each in forms((await browser.get("/live")).text) if each.action == "/live/rollback"
        ]
        assert back.fields["proof"]


@pytest.mark.parametrize(
    "template", sorted((ROOT / "app").glob("*/templates/*.html")), ids=lambda path: path.name
)
def test_every_form_of_every_template_holds_the_proof(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    for form in re.findall(r"<form[^>]*method=.?post.*?</form>", text, re.DOTALL | re.IGNORECASE):
        assert 'include "proof.html"' in form or "proof(" in form


# the way out ----------------------------------------------------------------------------------------------


async def test_who_signs_out_is_out_and_a_copy_of_the_cookie_too(
    browser: httpx.AsyncClient, directory: Directory
) -> None:
    await signed_in(browser, directory, "Gate.Read")
    copied = {"Cookie": f"gate-session={browser.cookies['gate-session']}"}
    (form,) = forms((await browser.get("/")).text)
    assert (await browser.get("/sign-out")).status_code == 405
    response = await browser.post(form.action, data=form.fields, headers=SAME)
    assert response.status_code == 200
    assert f"{directory.authority}/{TENANT}/oauth2/v2.0/logout" in response.text
    assert "gate-session" not in browser.cookies
    assert (await browser.get("/v1/runs")).status_code == 401
    browser.cookies.clear()
    assert (await browser.get("/v1/runs", headers=copied)).status_code == 401


async def test_the_way_out_does_not_wait_for_the_directory(service: Service) -> None:
    with Directory() as own:
        async with service.serving(service.application(access_of(own))) as client:
            await signed_in(client, own, "Gate.Read")
            headers = {**PAGE, "Cookie": f"gate-session={client.cookies['gate-session']}"}
        async with service.serving(service.application(access_of(own))) as client:  # one that never asked it
            (form,) = forms((await client.get("/", headers=headers)).text)
            own.away = True
            response = await client.post(form.action, data=form.fields, headers={**headers, **SAME})
            assert response.status_code == 200
            assert "signed out of the gate" in response.text
            assert "logout" not in response.text
            assert (await client.get("/v1/runs", headers=headers)).status_code == 401


async def test_where_nobody_signs_in_there_is_no_way_in(client: httpx.AsyncClient) -> None:
    problem(await client.get("/sign-in"), 404)
    assert forms((await client.get("/")).text) == []
