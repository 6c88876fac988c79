"""The records of what was done to the live index: append-only, numbered from 1, chained by digests.

A change of the live index is two records: an intent before the write, and what became of it after. While an
intent has no end it is open, and no other may begin: so no write is ever taken for somebody else's, and what
a crash left open is found and settled by whoever comes next.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from app.domain.condition import Condition
from app.domain.errors import Fault
from app.domain.fingerprint import json_digest
from app.domain.schema import adapter
from app.domain.watch import Watched


class Kind(StrEnum):
    PROMOTING = "promoting"  # about to write: an intent
    PROMOTED = "promoted"  # it was written
    ROLLING_BACK = "rolling-back"  # an intent, too
    ROLLED_BACK = "rolled-back"
    CLOSED = "closed"  # an intent that came to nothing
    REFUSED = "refused"  # asked for, not begun
    OVERRIDE_USED = "override-used"  # the promotion under way rests on an override
    WATCHED = "watched"  # the critical questions were asked after a promotion
    DRILLED = "drilled"  # a roll back, all but the write


INTENTS = frozenset({Kind.PROMOTING, Kind.ROLLING_BACK})
FLIPS = frozenset({Kind.PROMOTED, Kind.ROLLED_BACK})
_ENDS = FLIPS | {Kind.CLOSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is to be recorded. `before`, `after`: index names; for an intent, what it means to change.

    `etag_before`, `etag_after`: of the place that names the live index. `intent`: number of the record that
    this one belongs to: of an end its intent, of a watch the promotion that was watched, of a refused roll
    back after a watch that promotion. `golden_set`: digest of the set of the run. `reason` is for people.
    `conditions`: of a refusal, those that do not hold.
    """

    kind: Kind
    at: datetime
    actor: str | None
    run: str | None = None
    before: str | None = None
    after: str | None = None
    etag_before: str | None = None
    etag_after: str | None = None
    intent: int | None = None
    override: str | None = None
    golden_set: str | None = None
    conditions: tuple[Condition, ...] = ()
    watch: Watched | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Entry):
    """An entry in its place. `previous`: digest of the record before it, None for the first; `digest`: of all
    else in this one.
    """

    number: int
    previous: str | None
    digest: str


def sealed(entry: Entry, number: int, previous: str | None) -> bytes:
    """The record's document. Half characters, which no document could hold, become question marks."""
    content = {**adapter(Entry).dump_python(entry, mode="json"), "number": number, "previous": previous}
    plain = json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
    return json.dumps({**plain, "digest": json_digest(plain)}, indent=1, sort_keys=True).encode()


def opened(data: bytes) -> Record:
    """The record of a document; ValueError where it is none, or its content does not give its digest."""
    content = _content(data)
    if content.get("digest") != _digest(content):
        raise ValueError("its content does not give the digest that it carries")
    try:
        return adapter(Record).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place}: {first['msg']}") from error


def _content(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 — one error for what is no record
    return content


def _digest(content: Mapping[str, Any]) -> str:
    """Over everything that stands in the document, known to this program or not."""
    return json_digest({key: value for key, value in content.items() if key != "digest"})


# the chain -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Whether the chain is whole. `head`: digest of the last record. That records are gone from the end does
    not show in the chain: it shows where number or digest of the head were noted elsewhere.
    """

    records: int
    head: str | None
    faults: tuple[Fault, ...]

    @property
    def whole(self) -> bool:
        return not self.faults


def document_name(number: int) -> str:
    """Under which a record is kept; names sort as numbers do."""
    return f"audit/{number:08d}.json"


def verify(documents: Mapping[int, bytes]) -> Verification:
    """Every link that is missing, moved or altered, by name. `documents`: by the numbers in their names."""
    faults: list[Fault] = []
    digest: str | None = None
    last = 0
    for number in sorted(documents):
        gap = _missing(last + 1, number)
        if gap is not None:
            faults.append(gap)
        found, content = _link_faults(documents[number], number, None if gap else digest, follows=not gap)
        faults.extend(Fault(where=document_name(number), message=message) for message in found)
        digest = None if content is None else _digest(content)
        last = number
    return Verification(records=len(documents), head=digest, faults=tuple(faults))


def _missing(first: int, number: int) -> Fault | None:
    if first == number:
        return None
    what = document_name(first) if first == number - 1 else f"{document_name(first)} to {number - 1:08d}"
    return Fault(where=what, message="is missing")


def _link_faults(
    data: bytes, number: int, previous: str | None, *, follows: bool
) -> tuple[list[str], dict[str, Any] | None]:
    """What is wrong with one document, and its content where it has any. `follows`: the one before is there,
    and `previous` its digest (None: it is the first, or cannot be read).
    """
    try:
        content = _content(data)
    except ValueError as error:
        return [f"was altered: {error}"], None
    found = []
    if content.get("number") != number:
        found.append(f"was moved: it says that it is record {content.get('number')}")
    try:
        opened(data)
    except ValueError as error:
        found.append(f"was altered: {error}")
    unreadable_before = previous is None and number > 1
    if follows and not unreadable_before and content.get("previous") != previous:
        before = "it is the first" if previous is None else f"record {number - 1} has {previous}"
        found.append(
            f"does not follow the record before it: it names {content.get('previous')}, {before}; "
            "one of the two was altered or replaced"
        )
    return found, content


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Records, the newest first. `next`: older ones have a lower number than this; None: there are none."""

    records: tuple[Record, ...]
    next: int | None


def audit_page(records: Sequence[Record], limit: int, before: int | None) -> AuditPage:
    """At most `limit` of the records with a lower number than `before`; None: from the newest."""
    older = [record for record in reversed(records) if before is None or record.number < before]
    shown = tuple(older[:limit])
    return AuditPage(records=shown, next=shown[-1].number if len(older) > limit else None)


# what happened -------------------------------------------------------------------------------------------


def open_flip(records: Sequence[Record]) -> Record | None:
    """The intent without an end; None where there is none. There is never more than one."""
    ended = set[int]()
    for record in reversed(records):
        if record.kind in _ENDS and record.intent is not None:
            ended.add(record.intent)
        if record.kind in INTENTS:
            return None if record.number in ended else record
    return None


def history(records: Iterable[Record]) -> tuple[Record, ...]:
    """The changes of the live index that happened through the gate, oldest first.

    One that was recorded late, after its intent had been given up, stands before the change that began from
    its etag.
    """
    flips: list[Record] = []
    for record in records:
        if record.kind in FLIPS:
            etag = record.etag_after
            later = (n for n, each in enumerate(flips) if etag is not None and each.etag_before == etag)
            flips.insert(next(later, len(flips)), record)
    return tuple(flips)


def lineage(flips: Iterable[Record]) -> tuple[str, ...]:
    """The indexes that lie under the live one, it itself last: what can be gone back through.

    A promotion puts its index on top. A roll back takes off what lies above its index, so that it is never
    gone forward to again. An index that was not there (named by hand, or explicitly gone to) is put on top.
    """
    found: list[str] = []
    for flip in flips:
        if flip.before is not None and (not found or found[-1] != flip.before):
            _put(found, flip.before)
        if flip.after is not None:
            if flip.kind is Kind.ROLLED_BACK:
                _put(found, flip.after)
            else:
                found.append(flip.after)
    return tuple(found)


def _put(found: list[str], index: str) -> None:
    """Back to the last occurrence of the index, or on top where there is none."""
    if index in found:
        last = len(found) - found[::-1].index(index)
        del found[last:]
    else:
        found.append(index)


def targets(flips: Iterable[Record], live: str | None) -> tuple[str, ...]:
    """Where a roll back from `live` may go by itself, the nearest first; each once, never `live`.

    Where `live` is none of the lineage (it was named by hand): to what lies under the last promotion.
    """
    below = list(lineage(flips))
    if live in below:
        _put(below, str(live))
    under = reversed(below[:-1])
    return tuple(dict.fromkeys(index for index in under if index != live))


def ever_live(flips: Iterable[Record]) -> frozenset[str]:
    """Every index that was live by these records."""
    return frozenset(name for flip in flips for name in (flip.before, flip.after) if name is not None)


def last_flip(records: Sequence[Record]) -> Record | None:
    flips = history(records)
    return flips[-1] if flips else None


def of_flip(records: Sequence[Record], kind: Kind, flip: Record) -> Record | None:
    """The latest record of that kind that belongs to the flip; None where there is none."""
    found = (each for each in reversed(records) if each.kind is kind and each.intent == flip.number)
    return next(found, None)


def ended(records: Sequence[Record], intent: Record) -> Record | None:
    """What became of an intent: the change if it was made, else that it was closed; None while it is open."""
    ends = [each for each in records if each.kind in _ENDS and each.intent == intent.number]
    return next((each for each in ends if each.kind in FLIPS), ends[0] if ends else None)


def flipped(intent: Record, *, at: datetime, etag_after: str, reason: str | None) -> Entry:
    """That what an intent meant was written."""
    kind = Kind.PROMOTED if intent.kind is Kind.PROMOTING else Kind.ROLLED_BACK
    return _end(intent, kind, at, reason, etag_after=etag_after)


def closed(intent: Record, *, at: datetime, reason: str) -> Entry:
    """That an intent came to nothing."""
    return _end(intent, Kind.CLOSED, at, reason)


def settled(intent: Record, found: tuple[str, str] | None, *, at: datetime, by: str) -> Entry:
    """The end of an intent whose writer died, from what is live now: index and etag, None for nothing.

    Somebody who named the same index by hand in the meantime cannot be told from that writer.
    """
    index, etag = found or (None, None)
    if index == intent.after and etag is not None and etag != intent.etag_before:
        reason = f"Completed by {by}: it was written, and whoever wrote it did not come to record that."
        return flipped(intent, at=at, etag_after=etag, reason=reason)
    if (index, etag) == (intent.before, intent.etag_before):
        return closed(intent, at=at, reason=f"Closed by {by}: it did not happen; nothing was written.")
    now = f"{index!r}" if index is not None else "nothing"
    reason = (
        f"Closed by {by}: the live index was changed by hand meanwhile. It was {intent.before!r}, and is {now} "
        f"with another etag; whether {intent.after!r} was live in between cannot be told."
    )
    return closed(intent, at=at, reason=reason)


def _end(
    intent: Record, kind: Kind, at: datetime, reason: str | None, *, etag_after: str | None = None
) -> Entry:
    return Entry(
        kind=kind,
        at=at,
        actor=intent.actor,
        run=intent.run,
        before=intent.before,
        after=intent.after,
        etag_before=intent.etag_before,
        etag_after=etag_after,
        intent=intent.number,
        override=intent.override,
        golden_set=intent.golden_set,
        reason=reason,
    )
