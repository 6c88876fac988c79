"""What only a setting has: labels, locks, content types, tags, and values that are anything."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from app.adapters.live_setting import open_live_setting
from app.domain.errors import LiveError, LiveLockedError, LiveUncertainError
from app.gate.ports import LiveValue
from infra.local import configuration
from tests.live_places import ANY, KEY, LABEL, Fault, Stood, at_once, open_setting, setting_at


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Stood]:
    async with open_setting(tmp_path) as opened:
        yield opened


def soon() -> float:
    return asyncio.get_running_loop().time() + 60


def keep(place: Stood, label: str | None = LABEL, key: str = KEY, **body: Any) -> None:
    assert place.values is not None
    place.values.put(key, label, {"value": "kb-v1", **body}, ANY)


def kept(place: Stood, label: str | None = LABEL) -> dict[str, Any]:
    assert place.values is not None
    found = place.values.get(KEY, label)
    assert found is not None
    body = found.body()
    return {name: value for name, value in body.items() if name not in {"etag", "last_modified"}}


async def pointed(place: Stood, index: str = "kb-v2") -> LiveValue:
    before = await place.live.read(soon())
    assert before is not None
    return await place.live.point(index, etag=before.etag, deadline=soon())


def lock(place: Stood, *, locked: bool = True) -> None:
    assert place.values is not None
    place.values.lock(KEY, LABEL, ANY, locked=locked)


async def test_it_names_key_label_and_store_and_no_secret(place: Stood) -> None:
    host = place.url.removeprefix("http://")
    assert place.live.where == f"key {KEY}, label {LABEL}, of {host}"
    async with setting_at(place.url, label=None) as bare:
        assert bare.where == f"key {KEY}, no label, of {host}"
    assert (place.live.alias, place.live.propagation_seconds) == (None, 30)


async def test_when_it_was_written_is_told(place: Stood) -> None:
    assert place.values is not None
    found = place.values.get(KEY, LABEL)
    value = await place.live.read(soon())
    assert value is not None
    assert found is not None
    assert value.modified_at is not None
    assert value.modified_at.isoformat() == found.last_modified


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"content_type": "text/plain", "tags": {"team": "search", "ä": "ü"}},
        {"content_type": "", "description": "what applications ask"},
    ],
)
async def test_s24_everything_else_that_is_kept_there_stays(place: Stood, others: dict[str, Any]) -> None:
    keep(place, **others)
    before = kept(place)
    await pointed(place)
    assert kept(place) == {**before, "value": "kb-v2"}


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON; charset=utf-8", "application/vnd.contoso.name+json"],
)
async def test_a_json_setting_is_read_and_written_as_json(place: Stood, content_type: str) -> None:
    keep(place, value='"kb-v1"', content_type=content_type)
    value = await place.live.read(soon())
    assert value is not None
    assert value.index == "kb-v1"
    await pointed(place)
    assert kept(place)["value"] == '"kb-v2"'
    assert kept(place)["content_type"] == content_type


@pytest.mark.parametrize("value", ["kb-v1", '{"index": "kb-v1"}', "null", "1", '["kb-v1"]', "[" * 5000])
async def test_json_that_is_no_string_is_refused(place: Stood, value: str) -> None:
    keep(place, value=value, content_type="application/json")
    with pytest.raises(LiveError, match="no JSON string") as caught:
        await place.live.read(soon())
    assert KEY in str(caught.value)
    assert LABEL in str(caught.value)


@pytest.mark.parametrize(
    ("content_type", "what"),
    [
        ("application/vnd.microsoft.appconfig.keyvaultref+json;charset=utf-8", "Key Vault"),
        ("application/vnd.microsoft.appconfig.keyvaultref+json", "Key Vault"),
        ("application/vnd.microsoft.appconfig.ff+json;charset=utf-8", "feature flag"),
    ],
)
async def test_references_and_flags_are_refused_and_left_alone(
    place: Stood, content_type: str, what: str
) -> None:
    keep(place, value='{"uri": "https://vault.example/secrets/s"}', content_type=content_type)
    before = kept(place)
    with pytest.raises(LiveError, match=what):
        await place.live.read(soon())
    with pytest.raises(LiveError, match=what):
        await place.live.point("kb-v2", etag="any", deadline=soon())
    assert kept(place) == before


@pytest.mark.parametrize(
    "value",
    [
        "",
        None,
        " kb-v1",
        "kb-v1\n",
        "KB-v1",
        "<script>alert(1)</script>",
        "##vso[task.complete result=Succeeded;]",
        "kb-v1\u202e\u200b\x1b[2J",
        "x" * 9000,
        configuration.SECRET,
    ],
)
async def test_a_value_that_is_no_name_is_told_escaped_and_short(place: Stood, value: str | None) -> None:
    keep(place, value=value)
    with pytest.raises(LiveError, match="no name of an index") as caught:
        await place.live.read(soon())
    text = str(caught.value)
    assert KEY in text
    assert LABEL in text
    assert text.isprintable()
    assert len(text) < 500
    assert configuration.SECRET not in text


async def test_s24_a_locked_setting_is_read_and_not_written(place: Stood) -> None:
    lock(place)
    value = await place.live.read(soon())
    assert value is not None
    assert value.locked
    with pytest.raises(LiveLockedError, match="unlock"):
        await pointed(place)
    assert place.wire.writes == []
    assert kept(place)["value"] == "kb-v1"


async def test_s24_a_lock_that_comes_between_is_told_as_such(place: Stood) -> None:
    """Locking changes the etag, too: whichever the service looks at first, nothing is written."""
    before = await place.live.read(soon())
    assert before is not None
    body = json.dumps(
        {"type": "https://azconfig.io/errors/key-locked", "title": "not allowed", "status": 409}
    )
    place.wire.faults.append(Fault(method="PUT", reaches=False, status=409, body=body))
    with pytest.raises(LiveLockedError, match="unlock"):
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    assert len(place.wire.writes) == 1


async def test_a_missing_key_is_nothing_and_an_unknown_label_is_a_mistake(place: Stood) -> None:
    async with setting_at(place.url, key="search:other") as other:
        assert await other.read(soon()) is None
    keep(place, label=None)
    async with setting_at(place.url, label="prd") as mistyped:
        with pytest.raises(LiveError, match="GATE_LIVE_LABEL") as caught:
            await mistyped.read(soon())
    assert "label prod" in str(caught.value)
    assert "no label" in str(caught.value)


async def test_many_and_hostile_labels_are_told_shortened(place: Stood) -> None:
    for number in range(40):
        keep(place, label=f"<b>\u202e{number}" + "x" * 500)
    async with setting_at(place.url, label="other") as mistyped:
        with pytest.raises(LiveError, match="and 31 more") as caught:
            await mistyped.read(soon())
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2500


async def test_no_label_is_neither_any_label_nor_an_empty_one(place: Stood) -> None:
    keep(place, label=None, value="kb-v9")
    async with setting_at(place.url, label=None) as bare:
        value = await bare.read(soon())
        assert value is not None
        assert value.index == "kb-v9"
        await bare.point("kb-v2", etag=value.etag, deadline=soon())
    assert kept(place, None)["value"] == "kb-v2"
    assert kept(place)["value"] == "kb-v1"
    assert all("label=" not in each.path for each in place.wire.requests)


async def test_the_label_is_in_every_request(place: Stood) -> None:
    await pointed(place)
    assert len(place.wire.requests) == 4
    assert all(f"label={LABEL}" in each.path for each in place.wire.requests)


@pytest.mark.parametrize("key", ["a/b", "search:live index", "Ü%20", "a?b&c=d", "a#b", "+"])
async def test_any_key_and_label_that_a_store_can_have(place: Stood, key: str) -> None:
    keep(place, key=key, label="l/ä b")
    async with setting_at(place.url, key=key, label="l/ä b") as odd:
        value = await odd.read(soon())
        assert value is not None
        assert (await odd.point("kb-v2", etag=value.etag, deadline=soon())).index == "kb-v2"


async def test_an_answer_about_another_label_is_not_taken(place: Stood) -> None:
    told = {"key": KEY, "label": "test", "value": "kb-v9", "etag": "E"}
    fault = Fault(
        method="GET", status=200, body=json.dumps(told), headers={"Content-Type": "application/json"}
    )
    place.wire.faults.extend([fault] * 2)
    with pytest.raises(LiveError, match="another setting"):
        await place.live.read(soon())


@pytest.mark.parametrize("etag", [None, ""])
async def test_without_an_etag_nothing_is_written(place: Stood, etag: str | None) -> None:
    told = {"key": KEY, "label": LABEL, "value": "kb-v1", "etag": etag}
    fault = Fault(
        method="GET", status=200, body=json.dumps(told), headers={"Content-Type": "application/json"}
    )
    place.wire.faults.extend([fault] * 4)
    with pytest.raises(LiveError, match="etag"):
        await place.live.point("kb-v2", etag=etag or "", deadline=soon())
    assert place.wire.writes == []


@pytest.mark.parametrize(
    "given",
    [
        "Endpoint={};Id=local;Secret=b3RoZXI=",
        "Secret=b3RoZXI=; Id=local; Endpoint={}/;",
        "Endpoint={};Id=somebody;Secret=b3RoZXI=",
    ],
)
async def test_a_connection_string_of_another_store_is_refused_and_never_told(
    place: Stood, given: str
) -> None:
    text = given.format(place.url)
    async with setting_at(place.url, connection_string=text) as other:
        with pytest.raises(LiveError, match="GATE_APPCONFIG_CONNECTION_STRING") as caught:
            await other.read(soon())
    assert "b3RoZXI=" not in str(caught.value)
    assert "Secret=" not in str(caught.value)


class Signed:
    """An identity; `refused` says why it gets no token."""

    def __init__(self, refused: str | None = None) -> None:
        self.refused = refused
        self.scopes: list[str] = []

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.scopes.extend(scopes)
        if self.refused:
            raise ClientAuthenticationError(self.refused)
        return AccessToken("eyJhbGciOi.secret.token", 2**31)

    async def close(self) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return


async def test_an_identity_that_gets_no_token_is_said_without_secrets() -> None:
    nobody = Signed("AADSTS700016: client_secret=hunter2hunter2 was refused")
    opened = open_live_setting(
        key=KEY, label=None, endpoint="https://store.azconfig.io", credential=nobody, sleep=at_once
    )
    async with opened as live:
        with pytest.raises(LiveError, match="signed in") as caught:
            await live.read(soon())
    assert "AADSTS700016" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert nobody.scopes == ["https://azconfig.io/.default"]
    assert live.where == f"key {KEY}, no label, of store.azconfig.io"


async def test_a_token_is_not_sent_without_tls(place: Stood) -> None:
    opened = open_live_setting(key=KEY, label=LABEL, endpoint=place.url, credential=Signed(), sleep=at_once)
    async with opened as live:
        with pytest.raises(LiveError) as caught:
            await live.read(soon())
    assert "eyJhbGciOi" not in str(caught.value)
    assert place.wire.requests == []


async def test_a_store_that_refuses_an_identity_names_the_role(place: Stood) -> None:
    """Through the client's own translation; the token goes over http to this machine alone."""
    live_setting = open_live_setting(
        key=KEY, label=LABEL, endpoint=place.url, credential=Signed(), sleep=at_once
    )
    async with live_setting as live:
        client = live._setting._client  # type: ignore[attr-defined]
        asked = client.get_configuration_setting

        async def get(*arguments: Any, **options: Any) -> Any:
            return await asked(*arguments, enforce_https=False, **options)

        client.get_configuration_setting = get
        with pytest.raises(LiveError, match="App Configuration Data Owner") as caught:
            await live.read(soon())
    assert not isinstance(caught.value, LiveUncertainError)
    assert "eyJhbGciOi" not in str(caught.value)
    assert place.wire.requests[0].headers["Authorization"].startswith("Bearer ")
