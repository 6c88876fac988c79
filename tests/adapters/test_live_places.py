"""The setting and the alias on the wire: conditions that are really sent, answers lost, late, and of no use."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.domain.errors import GateError, LiveError, LiveMovedError, LiveUncertainError, NotFoundError
from app.gate.ports import LivePointer, LiveValue
from infra.local import configuration
from tests.live_places import API_KEY, OPENERS, Fault, Stood, Wire, alias_at, served, setting_at

SECRETS = (configuration.SECRET, API_KEY)
AT = {"setting": setting_at, "alias": alias_at}


@pytest.fixture(params=OPENERS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stood]:
    async with OPENERS[request.param](tmp_path) as opened:
        yield opened


def soon() -> float:
    return asyncio.get_running_loop().time() + 60


async def pointed(place: Stood, index: str = "kb-v2", live: LivePointer | None = None) -> LiveValue:
    """Read, then point; as a promoter does."""
    before = await place.second.read(soon())
    assert before is not None
    place.wire.requests.clear()
    return await (live or place.live).point(index, etag=before.etag, deadline=soon())


async def now(place: Stood) -> str | None:
    place.wire.faults.clear()
    value = await place.second.read(soon())
    return None if value is None else value.index


def conditions(place: Stood) -> list[tuple[str | None, str | None]]:
    return [(each.headers.get("If-Match"), each.headers.get("If-None-Match")) for each in place.wire.writes]


async def test_a_change_carries_the_etag_that_was_read(place: Stood) -> None:
    before = await place.live.read(soon())
    assert before is not None
    await pointed(place)
    etag = before.etag if before.etag.startswith('"') else f'"{before.etag}"'
    assert conditions(place) == [(etag, None)]


async def test_a_creation_says_that_nothing_may_be_there(place: Stood) -> None:
    await place.change(None)
    await place.live.create("kb-v2", deadline=soon())
    assert conditions(place) == [(None, "*")]


async def test_what_is_written_is_read_back(place: Stood) -> None:
    await pointed(place)
    methods = [each.method for each in place.wire.requests]
    assert methods == ["GET", "PUT", "GET"]
    reads = {each.path for each in place.wire.requests}
    assert len(reads) == 1, "the same address each time, the label in it"


async def test_s24_a_change_between_our_read_and_our_write_stays(place: Stood) -> None:
    place.wire.faults.append(Fault(method="GET"))  # the reading of `pointed`
    before = await place.second.read(soon())
    assert before is not None
    place.wire.faults.append(Fault(method="GET", meanwhile=lambda: place.change("kb-v9")))
    with pytest.raises(LiveMovedError) as caught:
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    assert caught.value.current == "kb-v9"
    assert len(place.wire.writes) == 1, "refused with 412, and not sent again"
    assert await now(place) == "kb-v9"


async def test_somebody_else_who_named_the_same_index_first_is_not_taken_for_us(place: Stood) -> None:
    before = await place.live.read(soon())
    assert before is not None
    place.wire.faults.append(Fault(method="GET", meanwhile=lambda: place.change("kb-v2")))
    with pytest.raises(LiveMovedError) as caught:
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    assert caught.value.current == "kb-v2"


async def test_what_is_removed_between_our_read_and_our_write_stays_removed(place: Stood) -> None:
    before = await place.live.read(soon())
    assert before is not None
    place.wire.faults.append(Fault(method="GET", meanwhile=lambda: place.change(None)))
    with pytest.raises(NotFoundError):
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    assert await now(place) is None


@pytest.mark.parametrize(
    "lost",
    [
        Fault(method="PUT", lost=True),
        Fault(method="PUT", status=500),
        Fault(method="PUT", status=503, headers={"Retry-After": "0"}),
        Fault(method="PUT", status=504, body="<html>gateway</html>"),
        Fault(method="PUT", status=408),
        Fault(method="PUT", status=200, body="<html>welcome to the proxy</html>"),
        Fault(method="PUT", status=200, body="{}"),
    ],
)
async def test_s24_a_lost_answer_to_a_write_that_was_made_is_success(place: Stood, lost: Fault) -> None:
    place.wire.faults.append(lost)
    value = await pointed(place)
    assert value.index == "kb-v2"
    assert len(place.wire.writes) == 1, "neither the client nor aiohttp sends it a second time"
    assert await place.second.read(soon()) == value


async def test_s24_a_creation_whose_answer_was_lost_is_success(place: Stood) -> None:
    await place.change(None)
    place.wire.faults.append(Fault(method="PUT", lost=True))
    assert (await place.live.create("kb-v2", deadline=soon())).index == "kb-v2"
    assert len(place.wire.writes) == 1


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_write_that_never_arrived_is_sent_again_with_the_same_etag(place: Stood, times: int) -> None:
    place.wire.faults.extend([Fault(method="PUT", reaches=False, lost=True)] * times)
    assert (await pointed(place)).index == "kb-v2"
    assert len(conditions(place)) == times + 1
    assert len(set(conditions(place))) == 1


async def test_a_write_that_never_arrives_is_given_up_as_not_done(place: Stood) -> None:
    place.wire.faults.extend([Fault(method="PUT", reaches=False, lost=True)] * 9)
    with pytest.raises(LiveError, match="still there") as caught:
        await pointed(place)
    assert not isinstance(caught.value, LiveUncertainError)
    assert len(place.wire.writes) == 4
    assert await now(place) == "kb-v1"


async def test_a_lost_answer_and_somebody_else_is_a_conflict(place: Stood) -> None:
    async def else_() -> None:
        await place.change("kb-v9")

    for reaches in (True, False):
        place.wire.faults.append(Fault(method="PUT", reaches=reaches, lost=True, meanwhile=else_))
        with pytest.raises(LiveMovedError) as caught:
            await pointed(place)
        assert caught.value.current == "kb-v9"
        assert len(place.wire.writes) == 1
        assert await now(place) == "kb-v9"


async def test_a_first_write_that_arrives_late_is_ours(place: Stood) -> None:
    """The second one then meets its etag, and is refused."""
    place.wire.faults.append(Fault(method="PUT", reaches=False, lost=True))
    place.wire.faults.append(
        Fault(method="PUT", reaches=False, meanwhile=lambda: place.change("kb-v2"), status=412)
    )
    assert (await pointed(place)).index == "kb-v2"


async def test_an_answer_that_comes_too_late_is_settled_by_reading(place: Stood) -> None:
    kind = "alias" if place.values is None else "setting"
    place.wire.faults.append(Fault(method="PUT", seconds=1.0))
    async with AT[kind](place.url, attempt_seconds=0.3) as hasty:
        assert (await pointed(place, live=hasty)).index == "kb-v2"
    assert len(place.wire.writes) == 1


async def test_a_service_that_hangs_is_given_up_at_the_deadline(place: Stood) -> None:
    place.wire.faults.append(Fault(method="GET", seconds=30))
    with pytest.raises(LiveError, match="no complete answer within"):
        await place.live.read(asyncio.get_running_loop().time() + 0.2)


async def test_a_service_that_hangs_at_each_write_has_written_nothing(place: Stood) -> None:
    kind = "alias" if place.values is None else "setting"
    place.wire.faults.extend([Fault(method="PUT", reaches=False, seconds=30)] * 4)
    async with AT[kind](place.url, attempt_seconds=0.5) as hasty:
        with pytest.raises(LiveError, match="still there"):
            await pointed(place, live=hasty)
    assert await now(place) == "kb-v1"


async def test_a_success_that_changed_nothing_is_not_believed(place: Stood) -> None:
    before = await place.live.read(soon())
    assert before is not None
    if place.values is None:
        told: dict[str, Any] = {"name": "live", "indexes": ["kb-v2"], "@odata.etag": '"0xF"'}
    else:
        told = {"key": "search:live-index", "label": "prod", "value": "kb-v2", "etag": "F", "locked": False}
    place.wire.faults.append(
        Fault(
            method="PUT",
            reaches=False,
            status=200,
            body=json.dumps(told),
            headers={"Content-Type": "application/json"},
        )
    )
    with pytest.raises(LiveUncertainError, match="still reads as before"):
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())


async def test_a_write_that_was_answered_is_success_even_if_it_cannot_be_read_back(place: Stood) -> None:
    place.wire.faults.append(Fault(method="PUT"))
    place.wire.dead_after_write = True
    assert (await pointed(place)).index == "kb-v2"


async def test_throttling_is_waited_out_for_as_long_as_the_service_asks(place: Stood) -> None:
    slept: list[float] = []

    async def pause(seconds: float) -> None:
        slept.append(seconds)

    kind = "alias" if place.values is None else "setting"
    told = {"retry-after-ms": "2500", "Retry-After": "9"}
    async with AT[kind](place.url, sleep=pause, jitter=lambda: 0.0) as patient:
        place.wire.faults.append(Fault(method="GET", reaches=False, status=429, headers=told))
        assert await patient.read(soon()) is not None
        place.wire.faults.append(Fault(method="PUT", reaches=False, status=429, headers=told))
        assert (await pointed(place, live=patient)).index == "kb-v2"
    assert slept == [2.5, 2.5]


async def test_a_throttled_write_is_known_not_to_be_made(place: Stood) -> None:
    place.wire.faults.extend([Fault(method="PUT", reaches=False, status=429)] * 4)
    with pytest.raises(LiveError, match="429") as caught:
        await pointed(place)
    assert not isinstance(caught.value, LiveUncertainError)


@pytest.mark.parametrize("status", [401, 403])
async def test_who_may_not_is_told_what_is_needed_and_no_secret(place: Stood, status: int) -> None:
    secret = API_KEY if place.values is None else configuration.SECRET
    body = json.dumps({"title": f"no access for {secret}", "detail": "Bearer eyJhbGciOi.x.y"})
    place.wire.faults.append(Fault(method="GET", reaches=False, status=status, body=body))
    with pytest.raises(LiveError) as read:
        await place.live.read(soon())
    place.wire.faults.append(Fault(method="PUT", reaches=False, status=status, body=body))
    with pytest.raises(LiveError) as written:
        await pointed(place)
    for caught in (read, written):
        text = _whole(caught.value)
        assert str(status) in text
        assert "GATE_APPCONFIG_CONNECTION_STRING" in text or "GATE_SEARCH_API_KEY" in text
        assert secret not in text
        assert "eyJhbGciOi" not in text
        assert not isinstance(caught.value, LiveUncertainError)
    assert await now(place) == "kb-v1"


def _whole(error: BaseException) -> str:
    """The text of an error with those of all that it was made of."""
    texts: list[str] = []
    found: BaseException | None = error
    while found is not None:
        texts.append(f"{found!r} {found}")
        found = found.__cause__ or found.__context__
    return "\n".join(texts)


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, "<html>"), (200, "[]"), (200, "{}"), (200, "null"), (302, ""), (404, "<html>"), (400, "")],
)
async def test_an_answer_of_no_use_is_no_value(place: Stood, status: int, body: str) -> None:
    headers = {"Content-Type": "application/json", "Location": "http://127.0.0.1:1/"}
    place.wire.faults.extend(
        [Fault(method="GET", reaches=False, status=status, body=body, headers=headers)] * 4
    )
    if status == 404:
        place.wire.faults.pop()
        if place.values is None:
            assert await place.live.read(soon()) is None
            return
    with pytest.raises(LiveError):
        await place.live.read(soon())


@pytest.mark.parametrize("kind", AT)
async def test_nobody_listening_is_said_with_the_host(kind: str) -> None:
    async with AT[kind]("http://127.0.0.1:9") as live:
        with pytest.raises(LiveError, match=r"127\.0\.0\.1:9") as caught:
            await live.read(soon())
    assert not any(secret in _whole(caught.value) for secret in SECRETS)


@pytest.mark.parametrize("kind", AT)
async def test_nothing_is_sent_before_it_is_asked_for(kind: str) -> None:
    wire, application = Wire(), web.Application()
    async with served(application, wire) as url, AT[kind](url) as live:
        assert live.where
    assert wire.requests == []


async def test_every_write_has_a_condition_whatever_goes_wrong(place: Stood) -> None:
    """Each fault at each of the first two writes, for a change and for a creation."""
    faults = [
        Fault(method="PUT", reaches=reaches, lost=lost, status=status)
        for reaches in (True, False)
        for lost, status in ((True, None), (False, 500), (False, 429), (False, 412), (False, 409))
    ]
    for first in faults:
        for second in faults:
            await place.change("kb-v1")
            place.wire.faults[:] = [first, second]
            for attempt in (pointed(place), _created(place)):
                with suppress(GateError):
                    await attempt
                assert all(match or none_match for match, none_match in conditions(place))


async def _created(place: Stood) -> LiveValue:
    await place.change(None)
    return await place.live.create("kb-v2", deadline=soon())


def random_fault(chance: random.Random) -> Fault:
    method = chance.choice(("GET", "PUT", "PUT"))
    reaches = chance.random() < 0.6
    match chance.randrange(5):
        case 0 | 1:
            return Fault(method=method, reaches=reaches, lost=True)
        case 2:
            return Fault(method=method, reaches=False, status=429)
        case 3:
            return Fault(method=method, reaches=reaches, status=chance.choice((500, 503, 504)))
        case _:
            return Fault(method=method, seconds=0.01)


@pytest.mark.parametrize("seed", range(10))
async def test_s24_two_promoters_and_a_bad_wire_lose_and_invent_nothing(place: Stood, seed: int) -> None:
    """Every value that a promoter was told to have written stood there once, and every one that stood there was
    told to its promoter, or is one of which he was told that he cannot know.
    """
    chance = random.Random(seed)
    history = [place.state()]

    def noted() -> None:
        if place.state() != history[-1]:
            history.append(place.state())

    place.wire.handled = noted
    told: list[tuple[str, str]] = []
    unsure = 0

    async def promote(live: LivePointer, index: str) -> None:
        nonlocal unsure
        try:
            before = await live.read(soon())
            assert before is not None
            await asyncio.sleep(chance.random() / 100)
            value = await live.point(index, etag=before.etag, deadline=soon())
        except LiveMovedError as moved:
            unsure += "may have stood there" in str(moved)
        except LiveUncertainError:
            unsure += 1
        except LiveError:
            return
        else:
            told.append((value.index, value.etag.strip('"')))

    for _ in range(10):
        place.wire.faults[:] = [random_fault(chance) for _ in range(chance.randrange(6))]
        await asyncio.gather(promote(place.live, "kb-v2"), promote(place.second, "kb-v9"))
    assert set(told) <= set(history)
    assert len(set(told)) == len(told)
    assert len(history) - 1 - len(told) <= unsure
    assert all(match and not none_match for match, none_match in conditions(place))
