"""The pages of operations as people use them: what is live, and whether a run may go live."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from playwright.sync_api import Dialog, Page, expect

from app.domain.golden import GoldenTexts
from tests.browser.served import Served, serving
from tests.fakes.live import FakeLive
from tests.web.served import KEYWORD, Service, body

Open = Callable[..., Page]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \"'& https://evil.test/ \x1b[31m \u202e"
PAGES = (
    "cleared",
    "not-cleared",
    "promoted",
    "rolled-back",
    "live",
    "live-by-hand",
    "live-empty",
    "live-hostile",
    "watch-failed",
)


class Site:
    """One service with a place of live, and the run that it was started with."""

    def __init__(self, served: Served, *, question: str = "q1") -> None:
        self.served = served
        golden = {"id": question, "question": "How long is the notice?", "answers": ["d1"], "critical": True}
        served.service.golden_sets.sets["hr"] = GoldenTexts(
            name="hr", jsonl=json.dumps(golden) + "\n", toml=KEYWORD
        )
        self.run = self.post("/v1/runs", body())["id"]
        assert self.get(f"/v1/runs/{self.run}", wait=30)["verdict"] == "PASS"

    @property
    def live(self) -> FakeLive:
        assert self.served.service.live is not None
        return self.served.service.live

    def post(self, path: str, content: dict[str, Any]) -> Any:
        return httpx.post(f"{self.served.url}{path}", json=content).raise_for_status().json()

    def get(self, path: str, **params: Any) -> Any:
        return httpx.get(f"{self.served.url}{path}", params=params, timeout=60).raise_for_status().json()

    def promote(self, reason: str = "release 7") -> None:
        self.post(f"/v1/runs/{self.run}/promote", {"reason": reason})
        assert self.get(f"/v1/runs/{self.run}/promotion", wait=30)["ended"]

    def page(self, path: str = "/live") -> str:
        return f"{self.served.url}{path}"

    @property
    def promotion(self) -> str:
        return self.page(f"/runs/{self.run}/promotion")


@pytest.fixture(scope="module")
def site() -> Iterator[Callable[..., Site]]:
    with ExitStack() as stack:

        def made(**options: Any) -> Site:
            return Site(stack.enter_context(serving(Service(live=FakeLive()))), **options)

        yield made


@pytest.fixture(scope="module")
def address(site: Callable[..., Site]) -> Callable[[str], str]:
    """From the name of a page to its address."""
    cleared, moved, promoted, back, hostile, failed = (
        site(question=HOSTILE if place == 4 else "q1") for place in range(6)
    )
    moved.live.change("kb-v9")
    moved.served.service.search.index("kb-v9")
    for each in (promoted, back):
        each.promote()
    back.post("/v1/live/rollback", {"drill": True})
    back.post("/v1/live/rollback", {"confirm_live": "kb-v2", "reason": "users complain"})
    back.live.change("kb-v9")
    for each in (hostile, failed):
        each.served.service.search.index("kb-v2").otherwise = ("x", "x", "x")
        each.promote(reason=HOSTILE)
    found = {
        "cleared": cleared.promotion,
        "not-cleared": moved.promotion,
        "promoted": promoted.promotion,
        "rolled-back": back.promotion,
        "live": promoted.page(),
        "live-by-hand": back.page(),
        "live-empty": cleared.page(),
        "live-hostile": hostile.page(),
        "watch-failed": hostile.promotion,
    }
    return found.__getitem__


def hold_open(page: Page) -> None:
    for fold in page.locator("details").all():
        fold.evaluate("fold => { fold.open = true }")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(
    look: Open, address: Callable[[str], str], axe: str, name: str, scheme: str
) -> None:
    page = look(address(name), bypass_csp=True, color_scheme=scheme)
    hold_open(page)
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
    hold_open(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["live-hostile", "watch-failed"])
def test_hostile_texts_run_nothing_and_ask_for_nothing(
    look: Open, address: Callable[[str], str], name: str
) -> None:
    page = look("about:blank")
    asked: list[str] = []
    said: list[str] = []

    def refused(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", refused)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address(name))
    expect(page.get_by_text("<script>alert(1)</script>").first).to_be_visible()
    time.sleep(0.2)
    assert said == []
    assert asked == [address(name)]
    for link in page.locator("a").all():
        href = link.get_attribute("href") or ""
        assert href.startswith(("#", "/")), href
        assert not href.startswith("//")
    assert page.locator("img, iframe, object, embed, link, base").count() == 0
    assert page.locator("script").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
def test_a_candidate_goes_live_and_back_from_the_page_of_its_run(
    site: Callable[..., Site], look: Open, *, scripts: bool
) -> None:
    here = site()
    page = look(here.page(f"/runs/{here.run}"), java_script_enabled=scripts)
    page.get_by_role("link", name="May it go live?").click()
    page.get_by_label("Reason").fill("release 7")
    page.get_by_role("button", name="Make kb-v2 live").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("kb-v2 is live")
    assert here.get(f"/v1/runs/{here.run}/promotion", wait=30)["ended"]
    page.reload()
    expect(page.get_by_text("watch: held.")).to_be_visible()
    page.get_by_role("link", name="Go back to what was live before").click()
    page.get_by_role("button", name="Drill: change nothing").click()
    expect(page.locator("tr:target")).to_contain_text("Drill: live would have become 'kb-v1'")
    expect(page.get_by_role("heading", level=1)).to_have_text("kb-v2 is live")
    assert here.live.index == "kb-v2"
    page.get_by_label("Back to").select_option("kb-v1")
    page.get_by_role("button", name="Go back now").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("kb-v1 is live")
    expect(page.locator("tr:target")).to_contain_text("rolled back: kb-v1 in place of kb-v2")
    assert here.live.index == "kb-v1"


def test_what_keeps_a_candidate_from_going_live_stands_first_and_there_is_no_button(
    look: Open, address: Callable[[str], str]
) -> None:
    page = look(address("not-cleared"))
    expect(page.get_by_role("heading", name="What keeps it from going live")).to_be_visible()
    expect(page.get_by_text("live is 'kb-v9' now: run again with it as the baseline.")).to_be_visible()
    expect(page.get_by_text("The verdict is PASS.")).to_be_hidden()
    page.get_by_text("The conditions that hold (10)").click()
    expect(page.get_by_text("The verdict is PASS.")).to_be_visible()
    expect(page.get_by_role("button")).to_have_count(0)
