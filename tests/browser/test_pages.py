"""The pages as people use them: by keyboard, on a phone, without scripts, with hostile texts."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from app.report.html import html
from app.report.sheet import SERVICE_POLICY
from app.web import progress
from tests import examples
from tests.browser.served import Served
from tests.demo_run import demo_run
from tests.examples import Example
from tests.web.served import body

Open = Callable[..., Page]
EXAMPLES = {
    "failing": examples.failing(),
    "hostile": examples.hostile(),
    "measured": examples.measured(),
    "passing": examples.passing(),
    "unmeasured": examples.unmeasured(),
    "without-passages": examples.without_passages(),
}
PAGES = (
    *("failing", "hostile", "measured", "passing", "unmeasured", "runs", "list", "file", "hostile-file"),
    *("demo", "decided", "decided-file", "running", "hostile-list"),
)


def _decided(served: Served) -> str:
    """A waived run with a question decided twice, and one decided in an earlier run; all the reasons are hostile."""
    reason = f"{examples.SCRIPT}\n{examples.PIPELINE} {examples.MARKDOWN_LINK} {examples.ANSI}"
    earlier, run = (served.keep(f"decided-{at}", _of_set("decided", examples.failing())) for at in (1, 2))
    for of, question, decision in (
        (earlier, "parental-pay", "acceptable"),
        (run, "leave-carry-over", "real-loss"),
        (run, "leave-carry-over", "acceptable"),
    ):
        sent = {"question": question, "decision": decision, "reason": reason, "watch": reason}
        api = of.replace("/runs/", "/v1/runs/")
        assert httpx.post(f"{api}/reviews", json=sent).status_code == 201
    named = [each.get("id") for each in httpx.get(f"{api}/run.json").json()["lost"]]
    given = {"questions": named, "reason": reason, "watch": reason}
    assert httpx.post(f"{api}/overrides", json=given).status_code == 201
    return run


@pytest.fixture(scope="module")
def address(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """From the name of a page to its address."""
    folder = tmp_path_factory.mktemp("files")
    found = {name: served.keep(name, example) for name, example in EXAMPLES.items()}
    found["runs"] = f"{served.url}/"
    found["list"] = f"{found['failing']}/lost"
    found["hostile-list"] = f"{found['hostile']}/lost"
    found["demo"] = served.keep("demo-looked-at", _of_set("looked-at", demo_run()))
    found["decided"] = _decided(served)
    file = folder / "decided-file.html"
    file.write_bytes(httpx.get(f"{found['decided'].replace('/runs/', '/v1/runs/')}/report.html").content)
    found["decided-file"] = file.as_uri()
    found["running"] = served.keep_running("under-way", examples.failing())
    for name, example in (("file", "failing"), ("hostile-file", "hostile")):
        found[name] = _file(folder / f"{name}.html", EXAMPLES[example])
    return found.__getitem__


def _file(path: Path, example: Example) -> str:
    path.write_bytes("".join(html(example.run, example.results)).encode("utf-8"))
    return path.as_uri()


def _of_set(name: str, example: Example) -> Example:
    """The example of a set of its own, so that no decision of another test is carried forward to it."""
    return replace(example, run=replace(example.run, golden_set=replace(example.run.golden_set, name=name)))


# by keyboard -----------------------------------------------------------------------------------------------


def tab_to(page: Page, selector: str, *, most: int = 60) -> None:
    """Press Tab until what the selector names has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"not reached by keyboard: {selector}")


def decide(page: Page, decision: str, reason: str = "") -> None:
    """Make a decision in the form that follows the focus."""
    tab_to(page, "input[name=decision]")
    page.keyboard.press("Space")
    if decision == "label-out-of-date":
        page.keyboard.press("ArrowDown")
        tab_to(page, "input[name=answers]")
        page.keyboard.press("Space")
    if decision == "acceptable":
        page.keyboard.press("ArrowUp")
        tab_to(page, "textarea")
        page.keyboard.type(reason)
    tab_to(page, "button.main")
    with page.expect_navigation():
        page.keyboard.press("Enter")


def test_a_failing_run_is_reviewed_and_overridden_by_keyboard_alone(served: Served, look: Open) -> None:
    page = look(served.keep("by-keyboard", _of_set("keyboard", examples.failing())))
    for number, (name, decision) in enumerate(
        (
            ("leave-carry-over", "label-out-of-date"),
            ("parental-pay", "acceptable"),
            ("expense-limit", "real-loss"),
            ("visa-letter", "acceptable"),
        ),
        start=1,
    ):
        for _ in range(number):
            page.keyboard.press("j")
        assert page.evaluate("document.activeElement.id") == f"q-{name}"
        decide(page, decision, reason=f"reason {number}")
        expect(page.get_by_text(f"{number} of 4 decided.")).to_be_visible()
        assert page.url.endswith(f"/runs/by-keyboard#q-{name}")
        page.goto(page.url.partition("#")[0])
    for name in ("badge-colour", "handbook"):  # noisy, stale
        page.locator(f"#q-{name}").scroll_into_view_if_needed()
        tab_to(page, f"#q-{name} summary", most=200)
        page.keyboard.press("Enter")
        decide(page, "real-loss")
        expect(page.locator(f"#q-{name}")).to_contain_text("Decided: real loss")
        page.goto(page.url.partition("#")[0])
    tab_to(page, "section[aria-labelledby=override] summary", most=200)
    page.keyboard.press("Enter")
    for _ in range(4):  # all questions that fail the run
        tab_to(page, "input[name=questions]")
        page.keyboard.press("Space")
    tab_to(page, "textarea[name=reason]")
    page.keyboard.type("we can bear these")
    tab_to(page, "input[name=watch]")
    page.keyboard.type("the help desk")
    tab_to(page, "button.main")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_have_text("FAIL WAIVED")
    expect(page.locator(".banner")).to_contain_text("we can bear these")


def test_the_demos_failing_run_is_reviewed_by_keyboard_alone(served: Served, look: Open) -> None:
    page = look(served.keep("demo", demo_run()))
    tab_to(page, ".progress a")  # to the first that is open
    page.keyboard.press("Enter")
    reached = []
    for fill in (_real_loss, _acceptable, _real_loss, _label_out_of_date):
        reached.append(page.evaluate("document.activeElement.id"))
        tab_to(page, "input[name=decision]")
        page.keyboard.press("Space")
        fill(page)
        tab_to(page, "button.main")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        expect(page.get_by_text(f"{len(reached)} of 4 decided.")).to_be_visible()
        assert page.evaluate("document.activeElement.id") == reached[-1], "back at the question decided on"
        page.keyboard.press("j")  # to the next
    assert reached == ["q-hb-005", "q-hb-015", "q-hb-025", "q-hb-076"]
    expect(page.locator(".progress a")).to_have_count(0)
    kept = httpx.get(f"{served.url}/v1/runs/demo/reviews").json()["reviews"]
    decided = {each["question"]: {name: each[name] for name in _DECIDED} for each in kept}
    nothing = dict.fromkeys(_DECIDED) | {"answers": []}
    assert len(kept) == len(decided)
    assert decided == {
        "hb-005": {**nothing, "decision": "real-loss"},
        "hb-015": {
            "decision": "acceptable",
            "answers": [],
            "reason": "Purchasing asks its lead first.",
            "expires": "2027-03-31",
            "watch": "the weekly look at gifts",
        },
        "hb-025": {**nothing, "decision": "real-loss"},
        "hb-076": {
            **nothing,
            "decision": "label-out-of-date",
            "answers": ["sick-leave-uk", "sick-leave-germany"],
        },
    }


_DECIDED = ("decision", "answers", "reason", "expires", "watch")


def _real_loss(page: Page) -> None:
    """It is the first choice, which has the focus."""
    expect(page.locator(":focus")).to_be_checked()


def _acceptable(page: Page) -> None:
    page.keyboard.press("ArrowUp")  # from the first choice round to the last
    for field, typed in (
        ("textarea[name=reason]", "Purchasing asks its lead first."),
        ("input[name=expires]", "03312027"),  # month, day, year, as this browser's language has them
        ("input[name=watch]", "the weekly look at gifts"),
    ):
        tab_to(page, field)
        page.keyboard.type(typed)


def _label_out_of_date(page: Page) -> None:
    page.keyboard.press("ArrowDown")
    for document in ("sick-leave-uk", "sick-leave-germany"):
        tab_to(page, f"input[name=answers][value={document}]")
        page.keyboard.press("Space")


def test_keys_step_through_lost_questions_and_reach_the_filter(
    look: Open, address: Callable[[str], str]
) -> None:
    for name in ("failing", "file"):
        page = look(address(name))
        seen = []
        for key in ("j", "j", "k", "k", "j", "j", "j", "j", "j"):
            page.keyboard.press(key)
            seen.append(page.evaluate("document.activeElement.id"))
        first, second, third, last = "leave-carry-over", "parental-pay", "expense-limit", "visa-letter"
        expected = [first, second, first, first, second, third, last, last, last]
        assert seen == [f"q-{each}" for each in expected]
        page.keyboard.press("/")
        page.keyboard.type("jk/")
        expect(page.locator("#filter-text")).to_have_value("jk/")


def test_the_file_filters_itself(look: Open, address: Callable[[str], str]) -> None:
    page = look(address("file"))
    cards = page.locator("article.card:visible")
    expect(cards).to_have_count(4)
    page.get_by_role("combobox", name="Slice").select_option(label="lookup")
    expect(cards).to_have_count(3)
    page.get_by_role("combobox", name="Cause").select_option(label="document-missing")
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("Who issues a visa letter?")
    page.get_by_role("button", name="Show all").click()
    expect(cards).to_have_count(4)
    page.get_by_label("Words").fill("AFTER the first YEAR")
    expect(cards).to_have_count(1)


# for everybody ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(
    look: Open, address: Callable[[str], str], axe: str, name: str, scheme: str
) -> None:
    page = look(address(name), bypass_csp=True, color_scheme=scheme)
    for fold in page.locator("details").all():
        fold.evaluate("fold => { fold.open = true }")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [
        (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0]["failureSummary"])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ] == []


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_the_window(
    look: Open, address: Callable[[str], str], name: str, width: int
) -> None:
    page = look(address(name), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for fold in page.locator("details").all():
        fold.evaluate("fold => { fold.open = true }")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_dark_and_light_differ_and_print_is_light(look: Open, address: Callable[[str], str]) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    dark = look(address("failing"), color_scheme="dark")
    light = look(address("failing"), color_scheme="light")
    assert dark.evaluate(background) != light.evaluate(background)
    dark.emulate_media(media="print")
    assert dark.evaluate(background) == "rgb(255, 255, 255)"
    assert not dark.locator("form").first.is_visible()


def test_all_of_it_works_without_scripts(served: Served, look: Open) -> None:
    page = look(
        served.keep("no-scripts", _of_set("no-scripts", examples.failing())), java_script_enabled=False
    )
    expect(page.locator("article.card")).to_have_count(4)
    page.get_by_role("combobox", name="Slice").select_option("lookup")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("article.card")).to_have_count(3)
    card = page.locator("#q-visa-letter")
    card.get_by_label("Real loss").check()
    card.get_by_role("button", name="Keep this decision").click()
    expect(page.locator("#q-visa-letter")).to_contain_text("Decided: real loss")
    assert "slice=lookup" in page.url
    page.get_by_role("link", name="Show all").click()
    expect(page.get_by_text("1 of 4 decided.")).to_be_visible()
    page.goto(f"{served.url}/runs/no-scripts/unchanged")
    expect(page.get_by_text("What is the number of the IT hotline?")).to_be_visible()


def test_forms_are_taken_without_tls_under_any_name_and_from_no_other_site(
    served: Served, look: Open
) -> None:
    """A browser says where a form comes from in Sec-Fetch-Site only to names that it trusts."""
    run = served.keep("any-name", _of_set("any-name", examples.failing()))
    address = run.replace("127.0.0.1", "gate.test")
    page = look(address)
    sent: list[dict[str, str]] = []
    page.on(
        "request", lambda request: sent.append(request.all_headers()) if request.method == "POST" else None
    )
    card = page.locator("#q-visa-letter")
    card.get_by_label("Real loss").check()
    card.get_by_role("button", name="Keep this decision").click()
    expect(page.locator("#q-visa-letter")).to_contain_text("Decided: real loss")
    assert ["sec-fetch-site" in each for each in sent] == [False]
    form = f"<form method=post action={address}/reviews><input name=question value=expense-limit>"
    form += "<input name=decision value=real-loss><button>win a prize</button></form>"
    page.route("http://other.test/", lambda route: route.fulfill(body=form, content_type="text/html"))
    page.goto("http://other.test/")
    with page.expect_response(f"{address}/reviews") as answered:
        page.get_by_role("button").click()
    assert answered.value.status == 403
    page.goto(address)
    expect(page.get_by_text("1 of 4 decided.")).to_be_visible()


def test_a_point_of_the_picture_leads_to_its_question(look: Open, address: Callable[[str], str]) -> None:
    for name in ("failing", "file"):
        page = look(address(name))
        page.locator("svg.ranks a[aria-label^='visa-letter']").click()
        assert page.url.endswith("#q-visa-letter")
        expect(page.locator("#q-visa-letter")).to_be_in_viewport()


def test_progress_is_live_until_the_report_is_there(served: Served, look: Open) -> None:
    search = served.service.search
    search.hold()
    run = httpx.post(f"{served.url}/v1/runs", json=body()).json()["id"]
    page = look(f"{served.url}/runs/{run}")
    expect(page.locator("[data-told]")).to_contain_text("bservation")
    served.loop.call_soon_threadsafe(search.release)
    expect(page.locator(".verdict")).to_have_text("PASS")


def test_progress_goes_on_in_the_next_stream(
    served: Served, look: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stream ends itself before an ingress cuts it; the browser opens the next."""
    monkeypatch.setattr(progress, "LONGEST_STREAM", 1.5)
    monkeypatch.setattr(progress, "_RETRY", 100)
    search = served.service.search
    search.hold()
    run = httpx.post(f"{served.url}/v1/runs", json=body()).json()["id"]
    page = look("about:blank")
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if "/events" in request.url else None)
    page.goto(f"{served.url}/runs/{run}")
    with page.expect_request("**/events"):  # the second: the first was asked for while the page was loaded
        expect(page.locator("[data-told]")).to_contain_text("bservation")
    served.loop.call_soon_threadsafe(search.release)
    expect(page.locator(".verdict")).to_have_text("PASS")
    assert len(streams) > 1
    assert set(streams) == {f"{served.url}/runs/{run}/events"}


def test_a_run_under_way_is_told_without_scripts(served: Served, browser: Browser) -> None:
    """In a browser that knows no scripts: one that is told to run none still passes over what is for such."""
    search = served.service.search
    search.hold()
    run = httpx.post(f"{served.url}/v1/runs", json=body()).json()["id"]
    path = os.environ.get("CHROMIUM_PATH", "/usr/bin/chromium")
    options = ["--disable-dev-shm-usage", "--blink-settings=scriptEnabled=false"]
    with browser.browser_type.launch(executable_path=path, args=options) as scriptless:
        page = scriptless.new_page()
        page.goto(f"{served.url}/runs/{run}")
        assert "This page looks again every 5 seconds." in page.locator("main").inner_text()
        served.loop.call_soon_threadsafe(search.release)
        expect(page.locator(".verdict")).to_have_text("PASS", timeout=30_000)


def test_the_file_is_read_without_scripts(look: Open, address: Callable[[str], str]) -> None:
    page = look(address("file"), java_script_enabled=False)
    expect(page.locator("article.card")).to_have_count(4)
    expect(page.locator("form")).to_have_count(1)
    expect(page.locator("form")).not_to_be_visible()  # it filters by script
    page.get_by_text("Show all 5").click()
    expect(page.locator("#unchanged ~ details #q-it-hotline")).to_be_visible()


def test_on_paper_all_that_decides_is_there_and_nothing_to_press(served: Served, look: Open) -> None:
    page = look(served.keep("on-paper", _of_set("on-paper", examples.failing())))
    page.locator("#q-visa-letter").get_by_label("Real loss").check()
    page.locator("#q-visa-letter").get_by_role("button", name="Keep this decision").click()
    expect(page.locator("#q-visa-letter")).to_contain_text("Decided: real loss")
    page.emulate_media(media="print")
    for shown in (
        ".verdict",
        "#q-leave-carry-over .chunk.answer",
        "#q-visa-letter .told",
        "svg.ranks",
        "#record",
    ):
        expect(page.locator(shown).first).to_be_visible()
    for hidden in ("nav", "form", "form button", ".keys"):
        assert [each for each in page.locator(hidden).all() if each.is_visible()] == []
    first, second = (each.bounding_box() for each in page.locator("#q-visa-letter .side").all())
    assert first is not None
    assert second is not None
    assert first["y"] == second["y"], "side by side"
    assert page.evaluate("getComputedStyle(document.querySelector('.banner')).color") == "rgb(0, 0, 0)"
    assert page.pdf()[:5] == b"%PDF-"


# whatever the texts hold -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize(
    "name", ["hostile", "hostile-file", "hostile-list", "decided", "decided-file", "runs"]
)
def test_hostile_texts_run_nothing_and_ask_for_nothing(
    look: Open, address: Callable[[str], str], name: str, *, scripts: bool
) -> None:
    page = look("about:blank", java_script_enabled=scripts)
    asked: list[str] = []
    said: list[str] = []

    def seen(url: str) -> None:
        asked.append(url)

    def refused(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    page.on("request", lambda request: seen(request.url))
    page.on("dialog", refused)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address(name))
    for fold in page.locator("details > summary").all():
        fold.click()
    time.sleep(0.2)
    assert said == []
    assert asked == [address(name)]
    for link in page.locator("a").all():
        href = link.get_attribute("href") or ""
        assert href.startswith(("#", "/")), href
        assert not href.startswith("//")
    assert page.locator("img, iframe, object, embed, link, base").count() == 0


def test_the_policy_is_strict_and_a_foreign_script_does_not_run(
    served: Served, look: Open, address: Callable[[str], str]
) -> None:
    assert "unsafe" not in SERVICE_POLICY
    for path in ("/", "/runs/failing", "/runs/failing/lost", "/runs/nothing", "/v1/runs/failing/report.html"):
        answer = httpx.get(f"{served.url}{path}", headers={"accept": "text/html"})
        assert answer.headers["content-security-policy"] == SERVICE_POLICY
    for name in ("failing", "file"):
        page = look(address(name))
        page.evaluate(
            "() => { const each = document.createElement('script'); each.textContent = 'window.ran = 1';"
            " document.body.append(each); const image = document.createElement('img');"
            " image.setAttribute('onerror', 'window.ran = 2'); image.src = 'http://127.0.0.1:9/x.png';"
            " document.body.append(image); }"
        )
        time.sleep(0.2)
        assert page.evaluate("window.ran") is None


def test_without_evidence_text_no_passage_appears(look: Open, address: Callable[[str], str]) -> None:
    page = look(address("without-passages"))
    text = page.locator("body").inner_text()
    assert not [passage for passage in examples.PASSAGES.values() if passage in text]
    assert "Passage not kept (evidence_text = false)" in text
