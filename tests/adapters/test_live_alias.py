"""What only an alias has: the indexes that it stands for, and the service that both are on."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential

from app.domain.errors import LiveError
from tests.live_places import ALIAS, API_KEY, Fault, Stood, alias_at, open_alias


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Stood]:
    async with open_alias(tmp_path) as opened:
        yield opened


def soon() -> float:
    return asyncio.get_running_loop().time() + 60


def told(**members: Any) -> Fault:
    body = {"@odata.etag": '"0x1"', "name": ALIAS, "indexes": ["kb-v1"], **members}
    return Fault(
        method="GET", status=200, body=json.dumps(body), headers={"Content-Type": "application/json"}
    )


async def test_it_names_alias_and_service_and_no_key(place: Stood) -> None:
    assert place.live.where == f"alias {ALIAS} of {place.url.removeprefix('http://')}"
    assert (place.live.alias, place.live.propagation_seconds) == (ALIAS, 10)


@pytest.mark.parametrize(
    ("indexes", "words"),
    [
        ([], "0 indexes (none)"),
        (["kb-v1", "kb-v2"], "2 indexes ('kb-v1', 'kb-v2')"),
        (None, "0 indexes"),
        (["<b>\u202ekb"], "no name of an index"),
        (["k" * 500], "no name of an index"),
    ],
)
async def test_an_alias_that_does_not_stand_for_one_index_is_refused(
    place: Stood, indexes: list[str] | None, words: str
) -> None:
    place.wire.faults.extend([told(indexes=indexes)] * 2)
    with pytest.raises(LiveError) as caught:
        await place.live.read(soon())
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
    with pytest.raises(LiveError):
        await place.live.point("kb-v2", etag='"0x1"', deadline=soon())
    assert place.wire.writes == []


async def test_properties_that_are_not_known_yet_are_sent_back(place: Stood) -> None:
    before = await place.live.read(soon())
    assert before is not None
    place.wire.faults.append(told(**{"@odata.etag": before.etag, "description": "what applications ask"}))
    await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    (sent,) = place.wire.writes
    body = json.loads(sent.body)
    assert (body["name"], body["indexes"]) == (ALIAS, ["kb-v2"])
    assert body["description"] == "what applications ask"


async def test_without_an_etag_nothing_is_written(place: Stood) -> None:
    place.wire.faults.append(told(**{"@odata.etag": ""}))
    with pytest.raises(LiveError, match="etag"):
        await place.live.point("kb-v2", etag="", deadline=soon())
    assert place.wire.writes == []


async def test_an_index_that_does_not_exist_is_refused_by_the_service(place: Stood) -> None:
    before = await place.live.read(soon())
    assert before is not None
    with pytest.raises(LiveError, match="does not exist"):
        await place.live.point("kb-v3", etag=before.etag, deadline=soon())
    assert len(place.wire.writes) == 1
    assert await place.live.read(soon()) == before


async def test_an_alias_of_an_index_s_name_is_not_created(place: Stood) -> None:
    async with alias_at(place.url, alias="kb-v1") as wrong:
        assert await wrong.read(soon()) is None
        with pytest.raises(LiveError, match="used by an index"):
            await wrong.create("kb-v2", deadline=soon())


async def test_a_key_that_may_not_is_told_to_be_an_admin_key(place: Stood) -> None:
    async with alias_at(place.url, credential=AzureKeyCredential("a-query-key")) as other:
        with pytest.raises(LiveError, match="admin key") as caught:
            await other.read(soon())
    assert "a-query-key" not in str(caught.value)
    assert API_KEY not in str(caught.value)


async def test_without_a_key_the_role_is_named(place: Stood) -> None:
    class Nobody:
        async def get_token(self, *_: str, **__: Any) -> Any:
            raise AssertionError("not over http")

    async with alias_at(place.url, credential=Nobody()) as other:
        answers = other._place._answers  # type: ignore[attr-defined]
        assert "Search Service Contributor" in answers.permission
        with pytest.raises(LiveError):
            await other.read(soon())
    assert place.wire.requests == []
