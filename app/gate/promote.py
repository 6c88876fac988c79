"""Promote: make a run's candidate the live index, where the run is cleared."""

from dataclasses import dataclass

from app.domain.audit import Entry, Kind, Record, last_flip
from app.domain.clearance import Clearance
from app.domain.errors import Fault, InputError, NotClearedError
from app.domain.review import text_faults, written
from app.gate.clear import Cleared, clear
from app.gate.control import THE_GATE, LiveControl
from app.gate.flip import Change, flip, nothing_under_way, settle
from app.gate.ports import LiveValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteRequest:
    """Which run to promote. `create`: that the key or alias is made where it does not exist is agreed to.
    `reason`: for the record, if there is more to say than the run does.
    """

    run_id: str
    create: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A promotion that was made. `record`: the audit's, of kind `promoted`, with both indexes and etags.

    `live`: what was read back, None where that failed. `again`: it had been made before, and still is live;
    nothing was done or recorded this time, and `clearance` is None.
    """

    record: Record
    live: LiveValue | None
    again: bool
    clearance: Clearance | None


async def promote(control: LiveControl, request: PromoteRequest, *, by: str | None) -> Promotion:
    """Make the candidate live by compare-and-swap; `watch` should follow. The same asked twice is one.

    What a dead process left open is settled first. Raises, nothing having been written:
    NotFoundError for an unknown run; NotClearedError with every condition that does not hold, recorded;
    UnderWayError while another change is under way; LiveMovedError where the live index was changed in
    between, LiveLockedError, LiveError. LiveUncertainError: perhaps it was written, which is settled later.
    """
    reason = _reason(request.reason)
    await settle(control, by or THE_GATE)
    seen = len(await nothing_under_way(control))
    before = await _before(control, request.run_id)
    if before is not None:
        return before
    found = await clear(control, request.run_id, by=by, create=request.create)
    if not found.clearance.cleared:
        await _refuse(control, found, by, reason)
    made = await flip(
        control,
        _change(found, by, reason),
        unless=lambda records: _last_of(records, found.run.id, after=seen),
    )
    if made is not None:
        return Promotion(record=made.record, live=made.live, again=False, clearance=found.clearance)
    again = await _before(control, request.run_id)  # asked twice at the same moment, the other was first
    if again is None:  # and it was changed again since
        return await promote(control, request, by=by)
    return again


def _reason(text: str | None) -> str | None:
    faults = [Fault(where="request", message=message) for message in text_faults(reason=text)]
    if faults:
        raise InputError(faults)
    return written(text)


def _change(found: Cleared, by: str | None, reason: str | None) -> Change:
    override = found.clearance.override
    return Change(
        kind=Kind.PROMOTING,
        actor=by,
        before=found.live,
        after=found.run.candidate.index,
        run=found.run.id,
        override=override.id if override else None,
        golden_set=found.run.golden_set.digest,
        reason=reason,
    )


def _last_of(records: tuple[Record, ...], run_id: str, *, after: int = 0) -> bool:
    """Whether the last change of the live index was the promotion of that run, recorded after that number."""
    last = last_flip(records)
    return last is not None and last.kind is Kind.PROMOTED and last.run == run_id and last.number > after


async def _before(control: LiveControl, run_id: str) -> Promotion | None:
    """The same promotion, if it was the last change and its index is live; None if not."""
    records = await control.trail.records()
    last = last_flip(records)
    if last is None or not _last_of(records, run_id):
        return None
    live = await control.live()
    if live is None or live.index != last.after:
        return None
    return Promotion(record=last, live=live, again=True, clearance=None)


async def _refuse(control: LiveControl, found: Cleared, by: str | None, reason: str | None) -> None:
    failed = found.clearance.failed
    await control.trail.add(
        Entry(
            kind=Kind.REFUSED,
            at=control.now(),
            actor=by,
            run=found.run.id,
            before=found.live.index if found.live else None,
            after=found.run.candidate.index,
            etag_before=found.live.etag if found.live else None,
            golden_set=found.run.golden_set.digest,
            conditions=failed,
            reason=reason,
        )
    )
    raise NotClearedError(found.run.id, failed)
