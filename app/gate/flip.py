"""One change of the live index: recorded, written by compare-and-swap, read back, recorded; or settled later.

What happens to a process that dies between any two steps:

    before the intent was recorded        nothing was done, nothing is to be settled
    after it, before or after the write   the intent is open: whoever comes next finds out which, by etag
    after the end was recorded            it is done
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from app.domain.audit import (
    FLIPS,
    Entry,
    Kind,
    Record,
    closed,
    ended,
    flipped,
    history,
    open_flip,
    settled,
)
from app.domain.errors import (
    GateError,
    LiveError,
    LiveUncertainError,
    StorageError,
    UnderWayError,
)
from app.gate.control import THE_GATE, LiveControl
from app.gate.ports import LiveValue

_LOOK_AGAIN = 1.0  # seconds

Unless = Callable[[tuple[Record, ...]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be changed: `kind` an intent. `before` None: the place is created, since nothing is named."""

    kind: Kind
    actor: str | None
    before: LiveValue | None
    after: str
    run: str | None = None
    override: str | None = None
    golden_set: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flipped:
    """A change that was made. `live`: what was read back; None where that failed, which undoes nothing."""

    record: Record
    live: LiveValue | None


async def flip(control: LiveControl, change: Change, *, unless: Unless = lambda _: False) -> Flipped | None:
    """Make the change; None where `unless` holds of the records: nothing is begun then.

    UnderWayError where another change is under way. LiveMovedError, LiveLockedError, NotFoundError, LiveError:
    nothing was written, and the record is closed. LiveUncertainError: it is left open, to be settled. StorageError:
    not recorded; where the write was made by then, its message says so, and the next one completes the record.
    """
    began = asyncio.get_running_loop().time()
    intent = await control.trail.append(lambda records: _intent(control, change, records, unless))
    if intent is None:
        return None
    value = await _written(control, change, intent, began + control.limits.write_seconds)
    live, note = await _read_back(control, value)
    entry = flipped(intent, at=control.now(), etag_after=value.etag, reason=_joined(change.reason, note))
    try:
        record = await end(control, intent, entry)
    except StorageError as error:
        raise StorageError(
            f"{change.after!r} is live now, but that could not be recorded: {error} Whoever asks next completes "
            "the record."
        ) from error
    return Flipped(record=record, live=live)


def _intent(
    control: LiveControl, change: Change, records: tuple[Record, ...], unless: Unless
) -> Entry | None:
    _refuse_under_way(control, records)
    if unless(records):
        return None
    return Entry(
        kind=change.kind,
        at=control.now(),
        actor=change.actor,
        run=change.run,
        before=change.before.index if change.before else None,
        after=change.after,
        etag_before=change.before.etag if change.before else None,
        override=change.override,
        golden_set=change.golden_set,
        reason=change.reason,
    )


async def nothing_under_way(control: LiveControl) -> tuple[Record, ...]:
    """All records; UnderWayError where a change is under way, since nothing that is read now would hold."""
    records = await control.trail.records()
    _refuse_under_way(control, records)
    return records


def _refuse_under_way(control: LiveControl, records: tuple[Record, ...]) -> None:
    under_way = open_flip(records)
    if under_way is not None:
        raise UnderWayError(under_way_message(under_way, control))


def under_way_message(intent: Record, control: LiveControl) -> str:
    """Who is changing what since when, and what becomes of it."""
    what = "promotion" if intent.kind is Kind.PROMOTING else "roll back"
    return (
        f"A {what} to {intent.after!r} by {intent.actor or 'somebody not signed in'} is under way since "
        f"{intent.at:%Y-%m-%d %H:%M:%S} UTC (record {intent.number}). Wait for it; one that has died is settled "
        f"{control.limits.settle_seconds:g} seconds after it began."
    )


async def _written(control: LiveControl, change: Change, intent: Record, deadline: float) -> LiveValue:
    """What the write made. Whatever did not write closes the record; what may have, leaves it open."""
    try:
        if change.override is not None:
            await control.trail.add(
                Entry(
                    kind=Kind.OVERRIDE_USED,
                    at=control.now(),
                    actor=change.actor,
                    run=change.run,
                    after=change.after,
                    intent=intent.number,
                    override=change.override,
                )
            )
        if asyncio.get_running_loop().time() >= deadline:
            raise LiveError("Recording it took so long that nothing was written. Ask again.")
        if change.before is None:
            return await control.pointer.create(change.after, deadline=deadline)
        return await control.pointer.point(change.after, etag=change.before.etag, deadline=deadline)
    except LiveUncertainError:
        raise
    except GateError as error:
        with suppress(StorageError):  # it stays open, and is settled by whoever comes next
            await end(
                control, intent, closed(intent, at=control.now(), reason=f"Nothing was written: {error}")
            )
        raise


async def _read_back(control: LiveControl, value: LiveValue) -> tuple[LiveValue | None, str | None]:
    """What is live after the write, and what to say where it is not what was written."""
    try:
        live = await control.live()
    except GateError as error:
        return None, f"It could not be read back: {error}"
    if live is not None and live.etag == value.etag and live.index == value.index:
        return live, None
    found = f"names {live.index!r}" if live else "names nothing"
    return live, f"It was changed again since: {control.pointer.where} {found}."


def _joined(*texts: str | None) -> str | None:
    return " ".join(text for text in texts if text) or None


async def end(control: LiveControl, intent: Record, entry: Entry) -> Record:
    """The record of what became of an intent: this entry, or what somebody else had recorded by then.

    A change that was made is recorded even where somebody had given it up; never twice.
    """

    def decide(records: tuple[Record, ...]) -> Entry | None:
        return entry if _to_record(records, intent, entry) else None

    recorded = await control.trail.append(decide)
    if recorded is not None:
        return recorded
    found = ended(await control.trail.records(), intent)
    if found is None:
        raise AssertionError("only what has ended is not recorded again")
    return found


def _to_record(records: tuple[Record, ...], intent: Record, entry: Entry) -> bool:
    before = ended(records, intent)
    if before is None:
        return True
    made_after_all = entry.kind in FLIPS and before.kind is Kind.CLOSED
    return made_after_all and all(each.etag_after != entry.etag_after for each in history(records))


async def settle(control: LiveControl, by: str) -> Record | None:
    """End what a dead process left open, as far as it is old enough; None where there is nothing to settle.

    Its end is found by reading: the index that was meant, with another etag, was written, and is completed;
    the one before, with the same etag, was not; anything else was changed by hand.
    """
    intent = open_flip(await control.trail.records())
    if intent is None or _age(control, intent) < control.limits.settle_seconds:
        return None
    live = await control.live()
    found = None if live is None else (live.index, live.etag)
    return await end(control, intent, settled(intent, found, at=control.now(), by=by))


async def settle_when_due(control: LiveControl, by: str = THE_GATE) -> Record | None:
    """As `settle`, waiting until what is open has ended or is old enough."""
    while (intent := open_flip(await control.trail.records())) is not None:
        left = control.limits.settle_seconds - _age(control, intent)
        if left <= 0:
            return await settle(control, by)
        await asyncio.sleep(min(left, _LOOK_AGAIN))  # it may end well before
    return None


def _age(control: LiveControl, intent: Record) -> float:
    return (control.now() - intent.at).total_seconds()
