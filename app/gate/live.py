"""What is live, since when and by whom, and what could be gone back to."""

from dataclasses import dataclass
from datetime import datetime

from app.domain.audit import Kind, Record, history, of_flip, open_flip, targets
from app.domain.errors import BrokenError
from app.gate.control import LiveControl
from app.gate.flip import under_way_message
from app.gate.ports import LiveValue
from app.gate.rollback import good_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """An index that was live, still exists and holds documents. `until`: when it ceased to be live, as far as
    that is recorded.
    """

    index: str
    documents: int
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What is live. `index` None: the place does not exist. `where`: the place, for people.

    `as_recorded`: whether it is what the last change here made it; None where none is recorded. Only then
    `by`, `run` and `flip` tell whose change it was; `since` is the place's own time of its last write where it
    tells one. `previous`: where a roll back may go, the nearest first, at most five; None where the search
    service could not be asked. `under_way`: the intent that has no end yet. `watch`: the result for this flip.
    `message` says all of it to people.
    """

    index: str | None
    where: str
    alias: str | None
    etag: str | None
    locked: bool
    since: datetime | None
    by: str | None
    run: str | None
    as_recorded: bool | None
    flip: Record | None
    previous: tuple[Previous, ...] | None
    under_way: Record | None
    watch: Record | None
    message: str


async def live(control: LiveControl) -> Live:
    """What is live now. Only reads: what a dead process left open is shown, and settled by the next start,
    promotion or roll back. LiveError where the place cannot be read.
    """
    records = await control.trail.records()
    value = await control.live()
    flips = history(records)
    last = flips[-1] if flips else None
    ours = last if value is not None and last is not None and last.after == value.index else None
    under_way = open_flip(records)
    return Live(
        index=value.index if value else None,
        where=control.pointer.where,
        alias=control.pointer.alias,
        etag=value.etag if value else None,
        locked=value.locked if value else False,
        since=(value.modified_at if value else None) or (ours.at if ours else None),
        by=ours.actor if ours else None,
        run=ours.run if ours else None,
        as_recorded=None if last is None else ours is not None,
        flip=ours,
        previous=await _previous(control, flips, value),
        under_way=under_way,
        watch=of_flip(records, Kind.WATCHED, ours) if ours else None,
        message=_message(control, value, last, under_way),
    )


async def _previous(
    control: LiveControl, flips: tuple[Record, ...], value: LiveValue | None
) -> tuple[Previous, ...] | None:
    left = {flip.before: flip.at for flip in flips}
    try:
        found = await good_targets(control, targets(flips, value.index if value else None))
    except BrokenError:
        return None
    return tuple(
        Previous(index=name, documents=documents, until=left.get(name)) for name, documents in found.items()
    )


def _message(
    control: LiveControl, value: LiveValue | None, last: Record | None, under_way: Record | None
) -> str:
    where = control.pointer.where
    told = [
        f"Nothing is live: {where} does not exist."
        if value is None
        else f"Live is {value.index!r} ({where})."
    ]
    if last is None:
        told.append("No change of it is recorded here.")
    elif value is None or value.index != last.after:
        told.append(
            f"It was changed by hand: the last change here, record {last.number}, made it {last.after!r}."
        )
    else:
        how = f"promoted on run {last.run}" if last.kind is Kind.PROMOTED else "rolled back to"
        who = last.actor or "somebody not signed in"
        told.append(f"It was {how} by {who} at {last.at:%Y-%m-%d %H:%M:%S} UTC (record {last.number}).")
        if value.etag != last.etag_after:
            told.append("What names it was written again since, by hand, with the same index.")
    if value is not None and value.locked:
        told.append("It is locked: nothing can be promoted or rolled back until it is unlocked.")
    if under_way is not None:
        told.append(under_way_message(under_way, control))
    return " ".join(told)
