"""What is live, over HTTP: cleared, promoted, watched, rolled back, audited; as an API and as pages."""

import httpx
import pytest

from tests.fakes.live import FakeLive
from tests.web.served import Service, done, problem
from tests.web.signing_in import forms

FORM = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
HOSTILE = "<script>alert(1)</script> & \x1b[31m"


@pytest.fixture
def service() -> Service:
    return Service(live=FakeLive())


async def followed(client: httpx.AsyncClient, run_id: str) -> dict[str, object]:
    response = await client.get(f"/v1/runs/{run_id}/promotion", params={"wait": 30})
    assert response.status_code == 200, response.text
    found: dict[str, object] = response.json()
    assert found["ended"]
    return found


async def promoted(client: httpx.AsyncClient) -> str:
    """A run that passed, promoted and watched; its id."""
    run = await done(client)
    assert run["verdict"] == "PASS"
    response = await client.post(f"/v1/runs/{run['id']}/promote", json={})
    assert response.status_code == 200, response.text
    await followed(client, run["id"])
    return str(run["id"])


class TestPromotion:
    async def test_a_cleared_run_is_promoted_watched_and_rolled_back(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        run = await done(client, candidate_index="kb-v2")
        clearance = (await client.get(f"/v1/runs/{run['id']}/clearance")).json()
        assert clearance["cleared"]
        assert {each["code"] for each in clearance["conditions"] if not each["holds"]} == set()
        made = (await client.post(f"/v1/runs/{run['id']}/promote", json={"reason": "release 7"})).json()
        assert (made["record"]["before"], made["record"]["after"]) == ("kb-v1", "kb-v2")
        assert made["record"]["reason"] == "release 7"
        assert service.live is not None
        assert service.live.index == "kb-v2"
        became = await followed(client, run["id"])
        assert became["undone"] is None
        live = (await client.get("/v1/live")).json()
        assert (live["index"], live["run"], live["as_recorded"]) == ("kb-v2", run["id"], True)
        assert [each["index"] for each in live["previous"]] == ["kb-v1"]
        back = (await client.post("/v1/live/rollback", json={"confirm_live": "kb-v2"})).json()
        assert (back["before"], back["after"]) == ("kb-v2", "kb-v1")
        assert service.live.index == "kb-v1"
        undone = (await followed(client, run["id"]))["undone"]
        assert isinstance(undone, dict)
        assert undone["kind"] == "rolled-back"

    async def test_the_same_promotion_sent_twice_is_one(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        run_id = await promoted(client)
        again = (await client.post(f"/v1/runs/{run_id}/promote", json={})).json()
        assert again["again"]
        assert service.live is not None
        assert service.live.written == ["kb-v2"]

    async def test_what_does_not_hold_is_refused_condition_by_condition(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        run = await done(client)
        assert service.live is not None
        service.live.change("kb-v9")
        service.search.index("kb-v9")
        refused = problem(await client.post(f"/v1/runs/{run['id']}/promote", json={}), 409)
        assert refused["type"] == "urn:search-index-gate:not-cleared"
        assert [fault["where"] for fault in refused["faults"]] == ["baseline-live"]
        assert "kb-v9" in refused["detail"]
        assert service.live.written == ["kb-v9"]
        assert [each["kind"] for each in (await client.get("/v1/audit")).json()["records"]] == ["refused"]

    async def test_a_set_sent_along_is_not_promoted(self, client: httpx.AsyncClient) -> None:
        sent = {"name": "easy", "jsonl": '{"id":"q1","question":"a","answers":["d1"]}\n', "toml": None}
        run = await done(client, golden=sent)
        failed = (await client.get(f"/v1/runs/{run['id']}/clearance")).json()
        assert not failed["cleared"]
        assert "trusted" in {each["code"] for each in failed["conditions"] if not each["holds"]}

    async def test_a_body_that_is_not_understood_changes_nothing(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        run = await done(client)
        bodies: tuple[object, ...] = ({"create": "true"}, {"force": True}, {"reason": 7}, [])
        for body in bodies:
            problem(await client.post(f"/v1/runs/{run['id']}/promote", json=body), 422)
        problem(await client.post("/v1/live/rollback", json={"drill": "false"}), 422)
        assert service.live is not None
        assert service.live.written == []

    async def test_an_unknown_run_is_not_found(self, client: httpx.AsyncClient) -> None:
        for path in ("clearance", "promotion"):
            problem(await client.get(f"/v1/runs/run-none/{path}"), 404)
        problem(await client.post("/v1/runs/run-none/promote", json={}), 404)


class TestRollback:
    async def test_a_drill_says_what_would_happen_and_writes_nothing(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        await promoted(client)
        drilled = (await client.post("/v1/live/rollback", json={"drill": True})).json()
        assert drilled["drill"]
        assert "kb-v1" in drilled["message"]
        assert service.live is not None
        assert service.live.index == "kb-v2"

    async def test_a_change_by_hand_is_told_and_must_be_confirmed(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        await promoted(client)
        assert service.live is not None
        service.live.change("kb-v9")
        live = (await client.get("/v1/live")).json()
        assert live["as_recorded"] is False
        assert "by hand" in live["message"]
        assert "kb-v9" in problem(await client.post("/v1/live/rollback", json={}), 409)["detail"]
        made = await client.post("/v1/live/rollback", json={"confirm_live": "kb-v9"})
        assert made.status_code == 200
        assert service.live.index == "kb-v1"


class TestAudit:
    async def test_records_come_the_newest_first_page_by_page(self, client: httpx.AsyncClient) -> None:
        await promoted(client)
        first = (await client.get("/v1/audit", params={"limit": 2})).json()
        assert [each["number"] for each in first["records"]] == [3, 2]
        older = (await client.get("/v1/audit", params={"limit": 2, "before": first["next"]})).json()
        assert [each["kind"] for each in older["records"]] == ["promoting"]
        assert older["next"] is None

    async def test_an_altered_record_is_found(self, client: httpx.AsyncClient, service: Service) -> None:
        await promoted(client)
        assert (await client.get("/v1/audit/verification")).json()["faults"] == []
        data, etag = await service.store.read("audit/00000002.json")
        await service.store.replace("audit/00000002.json", data.replace(b"kb-v2", b"kb-v3"), etag)
        found = (await client.get("/v1/audit/verification")).json()
        altered, after = found["faults"]
        assert (altered["where"], after["where"]) == ("audit/00000002.json", "audit/00000003.json")
        assert "was altered" in altered["message"]
        assert "does not follow" in after["message"]


class TestPages:
    async def test_the_page_of_a_run_promotes_and_then_tells_what_became_of_it(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        run = await done(client)
        page = f"/runs/{run['id']}/promotion"
        before = await client.get(page, headers=FORM)
        assert "Make kb-v2 live" in before.text
        assert "does not hold" not in before.text
        for leading in ("/", f"/runs/{run['id']}"):
            link = page if leading != "/" else "/live"
            assert f'href="{link}"' in (await client.get(leading, headers=FORM)).text
        sent = await client.post(page, headers=FORM, data={"reason": HOSTILE})
        assert (sent.status_code, sent.headers["location"]) == (303, page)
        await followed(client, run["id"])
        assert "promoted: kb-v2 in place of kb-v1" in (await client.get(page, headers=FORM)).text
        history = (await client.get("/live", headers=FORM)).text
        assert "<h1>kb-v2 is live</h1>" in history
        assert "<script>alert" not in history
        assert "\x1b" not in history

    async def test_what_does_not_hold_stands_first_and_there_is_no_button(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        run = await done(client)
        assert service.live is not None
        service.live.change("kb-v9")
        service.search.index("kb-v9")
        page = (await client.get(f"/runs/{run['id']}/promotion", headers=FORM)).text
        assert "Make kb-v2 live" not in page
        assert page.index("What keeps it from going live") < page.index("Baseline live</th>")
        assert page.index("Baseline live</th>") < page.index("Verdict</th>")

    async def test_a_roll_back_and_a_drill_by_form(self, client: httpx.AsyncClient, service: Service) -> None:
        await promoted(client)
        form = {"to": "kb-v1", "confirm_live": "kb-v2"}
        drilled = await client.post("/live/rollback", headers=FORM, data={**form, "drill": "true"})
        assert drilled.status_code == 303
        assert service.live is not None
        assert service.live.index == "kb-v2"
        assert (await client.post("/live/rollback", headers=FORM, data=form)).status_code == 303
        assert service.live.index == "kb-v1"

    async def test_what_was_named_by_hand_is_replaced_only_by_who_says_so(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        await promoted(client)
        (form,) = forms((await client.get("/live")).text)
        assert form.fields["confirm_live"] == "kb-v2"
        assert service.live is not None
        service.live.change("kb-v9")
        page = (await client.get("/live")).text
        (form,) = forms(page)
        assert "confirm_live" not in form.fields, "it is for the reader to fill in"
        assert '<input type="checkbox" name="confirm_live" value="kb-v9" required>' in page
        sent = {**form.fields, "to": "kb-v1"}
        assert (await client.post("/live/rollback", headers=FORM, data=sent)).status_code == 409
        assert service.live.index == "kb-v9"
        sent["confirm_live"] = "kb-v9"
        assert (await client.post("/live/rollback", headers=FORM, data=sent)).status_code == 303
        assert service.live.index == "kb-v1"

    async def test_a_form_of_another_site_is_refused(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        run = await done(client)
        foreign = {"Sec-Fetch-Site": "cross-site"}
        for path in (f"/runs/{run['id']}/promotion", "/live/rollback"):
            assert (await client.post(path, headers=foreign, data={})).status_code == 403
        assert service.live is not None
        assert service.live.written == []

    async def test_a_refusal_is_a_page_for_people(self, client: httpx.AsyncClient, service: Service) -> None:
        refused = await client.post("/live/rollback", headers=FORM, data={"to": "kb-v1"})
        assert refused.status_code == 409
        assert refused.headers["content-type"].startswith("text/html")
        assert "No promotion is recorded" in refused.text


class TestWithoutAPlace:
    async def test_every_call_says_which_setting_is_missing(self) -> None:
        service = Service()
        async with service.serving() as client:
            run = await done(client)
            for path in ("/v1/live", f"/v1/runs/{run['id']}/clearance", "/v1/live/retirement"):
                assert "GATE_LIVE_ALIAS" in problem(await client.get(path), 404)["detail"]
            problem(await client.post(f"/v1/runs/{run['id']}/promote", json={}), 404)
            assert (await client.get("/v1/audit")).json() == {"records": [], "next": None}
            for page in ("/live", f"/runs/{run['id']}/promotion"):
                told = await client.get(page, headers=FORM)
                assert told.status_code == 404
                assert "GATE_LIVE_ALIAS" in told.text
            for page in ("/", f"/runs/{run['id']}"):
                found = await client.get(page, headers=FORM)
                assert found.status_code == 200
                assert "/live" not in found.text
                assert "promotion" not in found.text
