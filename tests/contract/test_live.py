"""What every place that names the live index does, whatever it is made of."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from app.domain.errors import (
    ConflictError,
    InputError,
    LiveError,
    LiveLockedError,
    LiveMovedError,
    LiveUncertainError,
    NotFoundError,
)
from app.gate.ports import LivePointer, LiveValue
from tests import live_places
from tests.fakes.live import FakeLive, When


class Place(Protocol):
    """A place of one kind with the indexes kb-v1, kb-v2, kb-v9. It names kb-v1, until somebody changes that."""

    @property
    def live(self) -> LivePointer: ...

    @property
    def second(self) -> LivePointer:
        """The same place, seen by somebody else."""
        ...

    async def change(self, index: str | None) -> None:
        """By hand; None removes the key or alias."""
        ...

    async def lose(self, *, written: bool) -> None:
        """Let the next write be written or not, its answer be lost, and nothing be read after it until `heal`."""
        ...

    async def heal(self) -> None: ...


@dataclass(frozen=True, slots=True)
class InMemory:
    live: FakeLive

    @property
    def second(self) -> FakeLive:
        return self.live

    async def change(self, index: str | None) -> None:
        self.live.change(index)

    async def lose(self, *, written: bool) -> None:
        self.live.fail(when=When.AFTER if written else When.INSTEAD)

    async def heal(self) -> None:
        return


@asynccontextmanager
async def in_memory(_: Path) -> AsyncIterator[Place]:
    yield InMemory(FakeLive())


OPENERS: dict[str, Callable[[Path], AbstractAsyncContextManager[Place]]] = {
    "fake": in_memory,
    **live_places.OPENERS,
}


@pytest.fixture(params=OPENERS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with OPENERS[request.param](tmp_path) as opened:
        yield opened


def soon() -> float:
    return asyncio.get_running_loop().time() + 60


async def named(live: LivePointer) -> LiveValue:
    value = await live.read(soon())
    assert value is not None
    return value


async def test_it_says_where_it_is_and_how_long_a_change_takes(place: Place) -> None:
    assert place.live.where
    assert place.live.where == place.second.where
    assert place.live.propagation_seconds >= 0


async def test_what_it_names_is_read_the_same_until_it_changes(place: Place) -> None:
    first = await named(place.live)
    assert (first.index, first.locked) == ("kb-v1", False)
    assert await named(place.second) == first


async def test_a_change_is_seen_by_everybody_and_has_another_etag(place: Place) -> None:
    before = await named(place.live)
    after = await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    assert (after.index, after.locked) == ("kb-v2", False)
    assert after.etag != before.etag
    assert await named(place.second) == after


async def test_the_answer_to_a_change_is_good_for_the_next_one(place: Place) -> None:
    value = await named(place.live)
    for index in ("kb-v2", "kb-v9", "kb-v1"):
        value = await place.live.point(index, etag=value.etag, deadline=soon())
    assert (await named(place.live)).index == "kb-v1"


async def test_a_write_of_the_same_name_gives_another_etag_too(place: Place) -> None:
    before = await named(place.live)
    await place.change("kb-v1")
    with pytest.raises(LiveMovedError) as caught:
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    assert caught.value.current == "kb-v1"
    assert (await named(place.live)).index == "kb-v1"


async def test_s24_what_somebody_else_named_in_between_stays(place: Place) -> None:
    before = await named(place.live)
    await place.change("kb-v9")
    with pytest.raises(LiveMovedError, match="kb-v9") as caught:
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    assert caught.value.current == "kb-v9"
    assert (await named(place.live)).index == "kb-v9"


@pytest.mark.parametrize("etag", ["*", "", '"*"', '"0"', "kb-v1"])
async def test_an_etag_that_was_never_read_writes_nothing(place: Place, etag: str) -> None:
    with pytest.raises(LiveMovedError) as caught:
        await place.live.point("kb-v2", etag=etag, deadline=soon())
    assert caught.value.current == "kb-v1"
    assert (await named(place.live)).index == "kb-v1"


async def test_of_many_who_read_the_same_exactly_one_points(place: Place) -> None:
    before = await named(place.live)
    pointers = (place.live, place.second)
    results = await asyncio.gather(
        *(
            pointers[n % 2].point(("kb-v2", "kb-v9")[n % 2], etag=before.etag, deadline=soon())
            for n in range(10)
        ),
        return_exceptions=True,
    )
    won = [result for result in results if isinstance(result, LiveValue)]
    assert len(won) == 1
    assert sum(isinstance(result, LiveMovedError) for result in results) == 9
    assert await named(place.live) == won[0]


async def test_what_is_not_there_is_read_as_nothing(place: Place) -> None:
    await place.change(None)
    assert await place.live.read(soon()) is None


async def test_nothing_is_made_by_pointing(place: Place) -> None:
    before = await named(place.live)
    await place.change(None)
    with pytest.raises(NotFoundError):
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    assert await place.live.read(soon()) is None


async def test_s24_what_is_missing_is_created_once(place: Place) -> None:
    await place.change(None)
    made = await place.live.create("kb-v2", deadline=soon())
    assert made.index == "kb-v2"
    assert await named(place.second) == made
    with pytest.raises(LiveMovedError, match="kb-v2") as caught:
        await place.second.create("kb-v9", deadline=soon())
    assert caught.value.current == "kb-v2"
    assert await named(place.live) == made


async def test_of_many_who_create_exactly_one_does(place: Place) -> None:
    await place.change(None)
    pointers = (place.live, place.second)
    results = await asyncio.gather(
        *(pointers[n % 2].create(("kb-v2", "kb-v9")[n % 2], deadline=soon()) for n in range(10)),
        return_exceptions=True,
    )
    won = [result for result in results if isinstance(result, LiveValue)]
    assert len(won) == 1
    assert sum(isinstance(result, LiveMovedError) for result in results) == 9
    assert await named(place.live) == won[0]


@pytest.mark.parametrize("written", [True, False])
async def test_s24_an_answer_that_stays_lost_leaves_one_of_two_values(place: Place, written: bool) -> None:
    before = await named(place.live)
    await place.lose(written=written)
    with pytest.raises(LiveUncertainError):
        await place.live.point("kb-v2", etag=before.etag, deadline=soon())
    await place.heal()
    after = await named(place.live)
    assert after.index == ("kb-v2" if written else "kb-v1")
    assert (after.etag != before.etag) is written


@pytest.mark.parametrize("written", [True, False])
async def test_a_lost_answer_to_a_creation_leaves_it_made_or_not(place: Place, written: bool) -> None:
    await place.change(None)
    await place.lose(written=written)
    with pytest.raises(LiveUncertainError):
        await place.live.create("kb-v2", deadline=soon())
    await place.heal()
    after = await place.live.read(soon())
    assert (after.index if after else None) == ("kb-v2" if written else None)


@pytest.mark.parametrize("name", ["", "-", "KB-v2", "kb v2", "kb-v2\n", "<b>", "k" * 129, "kb/v2", "ä1"])
async def test_a_name_that_no_index_can_have_is_not_written(place: Place, name: str) -> None:
    before = await named(place.live)
    with pytest.raises(InputError):
        await place.live.point(name, etag=before.etag, deadline=soon())
    with pytest.raises(InputError):
        await place.live.create(name, deadline=soon())
    assert await named(place.live) == before


async def test_nothing_is_done_after_the_deadline(place: Place) -> None:
    before = await named(place.live)
    late = asyncio.get_running_loop().time() - 1
    for call in (
        place.live.read(late),
        place.live.point("kb-v2", etag=before.etag, deadline=late),
        place.live.create("kb-v2", deadline=late),
    ):
        with pytest.raises(LiveError) as caught:
            await call
        assert not isinstance(caught.value, LiveUncertainError)
    assert await named(place.live) == before


async def test_s24_what_is_locked_is_not_changed() -> None:
    live = FakeLive(locked=True)
    before = await named(live)
    assert before.locked
    with pytest.raises(LiveLockedError) as caught:
        await live.point("kb-v2", etag=before.etag, deadline=soon())
    assert isinstance(caught.value, ConflictError)
    assert await named(live) == before
