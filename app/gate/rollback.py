"""Roll back: make the index live again that was live before. Needs no verdict, and never waits for one."""

from dataclasses import dataclass

from app.domain.audit import Entry, Kind, Record, ever_live, history, last_flip, targets
from app.domain.errors import BrokenError, ConflictError, Fault, InputError, LiveMovedError
from app.domain.reasons import Code
from app.domain.review import text_faults, written
from app.gate.control import THE_GATE, LiveControl
from app.gate.flip import Change, flip, nothing_under_way, settle
from app.gate.ports import LiveValue

NAMED = 5  # targets that are looked up and named to people


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """Where to. `to` None: to what was live before the last promotion, further back each time.

    `confirm_live`: the index that the caller takes to be live. Required where it was changed by hand; given
    in any case it must be what is live, so that a repeated request does not go back twice. `drill`: everything
    but the write.
    """

    to: str | None = None
    confirm_live: str | None = None
    drill: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """A roll back that was made, or drilled. `record`: of kind `rolled-back` or `drilled`. `documents`: what the
    index holds that was gone back to. `live`: what was read back, None where that failed; in a drill what is
    live. `again`: it had been made before, and still is so; nothing was done or recorded this time.
    `message` is for people.
    """

    record: Record
    before: str
    after: str
    documents: int
    live: LiveValue | None
    drill: bool
    again: bool = False
    message: str


async def rollback(
    control: LiveControl, request: RollbackRequest, *, by: str | None, watched: int | None = None
) -> Rollback:
    """Make it live again, by compare-and-swap. `watched`: number of the promotion whose watch asks for this.

    The same asked twice is one, where `confirm_live` says from what to go back.

    Raises, nothing having been written and the refusal recorded: LiveMovedError where `confirm_live` is not
    what is live, ConflictError with what to do where there is nothing good to go back to. Else as `promote`.
    BrokenError where the search service does not tell whether the index is there.
    """
    faults = [Fault(where="request", message=message) for message in text_faults(reason=request.reason)]
    if faults:
        raise InputError(faults)
    await settle(control, by or THE_GATE)
    records = await nothing_under_way(control)
    live = await control.live()
    before = _made(request, records, live)
    if before is not None:
        return await _again(control, before, live)
    try:
        plan = await _plan(control, request, records, live)
    except ConflictError as error:
        await control.trail.add(refusal(control, request, live, str(error), by=by, watched=watched))
        raise
    if request.drill:
        return await _drilled(control, request, plan, by)
    change = Change(
        kind=Kind.ROLLING_BACK,
        actor=by,
        before=plan.live,
        after=plan.target,
        reason=written(request.reason),
    )
    made = await flip(control, change)
    if made is None:
        raise AssertionError("a roll back is begun, or refused")
    return Rollback(
        record=made.record,
        before=plan.live.index,
        after=plan.target,
        documents=plan.documents,
        live=made.live,
        drill=False,
        message=f"Live is {plan.target!r} again, with {plan.documents} documents; it was {plan.live.index!r}.",
    )


def _made(request: RollbackRequest, records: tuple[Record, ...], live: LiveValue | None) -> Record | None:
    """The same roll back, if it was the last change and nobody wrote since; None if not."""
    last = last_flip(records)
    if request.drill or last is None or last.kind is not Kind.ROLLED_BACK:
        return None
    same = request.confirm_live == last.before and request.to in (None, last.after)
    untouched = live is not None and (live.index, live.etag) == (last.after, last.etag_after)
    return last if same and untouched else None


async def _again(control: LiveControl, record: Record, live: LiveValue | None) -> Rollback:
    before, after = str(record.before), str(record.after)
    return Rollback(
        record=record,
        before=before,
        after=after,
        documents=await documents_of(control, after) or 0,
        live=live,
        drill=False,
        again=True,
        message=f"Live is {after!r} again since {record.at:%Y-%m-%d %H:%M:%S} UTC (record {record.number}), in place "
        f"of {before!r}: it was done before, and nothing was changed this time.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    live: LiveValue
    target: str
    documents: int


async def _plan(
    control: LiveControl, request: RollbackRequest, records: tuple[Record, ...], live: LiveValue | None
) -> _Plan:
    """From where to where; ConflictError where that cannot be, with what can."""
    flips = history(records)
    if live is None:
        raise ConflictError(
            f"Nothing is live: {control.pointer.where} does not exist, so that there is nothing to roll back."
        )
    if not flips:
        raise ConflictError("No promotion is recorded here, so that there is nothing to roll back to.")
    _refuse_unconfirmed(flips[-1], live, request.confirm_live)
    if request.to is not None:
        return await _explicit(control, request.to, flips, live)
    near = targets(flips, live.index)
    if not near:
        raise ConflictError(
            f"Nothing was live before {live.index!r} by the audit: there is nothing further to roll back to."
        )
    documents = await documents_of(control, near[0])
    if not documents:
        state = "is gone" if documents is None else "is empty"
        left = await good_targets(control, near[1:])
        raise ConflictError(
            f"The index {near[0]!r}, which was live before {live.index!r}, {state}. {_choices(left)}"
        )
    return _Plan(live=live, target=near[0], documents=documents)


def _refuse_unconfirmed(last: Record, live: LiveValue, confirmed: str | None) -> None:
    if confirmed is not None and confirmed != live.index:
        raise LiveMovedError(
            f"Live is {live.index!r}, and not {confirmed!r} as was said: look at it, and ask again.",
            current=live.index,
        )
    if last.after != live.index and confirmed is None:
        raise ConflictError(
            f"Live was changed by hand: it is {live.index!r}, and the last change here made it {last.after!r}. "
            f"Look at why, and confirm that {live.index!r} is to be replaced by naming it."
        )


async def _explicit(control: LiveControl, to: str, flips: tuple[Record, ...], live: LiveValue) -> _Plan:
    """To a named index, which must have been live: anything else needs a run and a promotion."""
    if to == live.index:
        raise ConflictError(f"The index {to!r} is live already.")
    were = ever_live(flips)
    documents = await documents_of(control, to) if to in were else None
    if documents:
        return _Plan(live=live, target=to, documents=documents)
    if to not in were:
        why = f"The index {to!r} was never live by the audit: what was not is promoted, not rolled back to."
    else:
        why = f"The index {to!r} {'is gone' if documents is None else 'is empty'}."
    left = await good_targets(control, [each for each in targets(flips, live.index) if each != to])
    raise ConflictError(f"{why} {_choices(left)}")


def _choices(left: dict[str, int]) -> str:
    if not left:
        return "No index that was live before is left to go back to."
    listed = ", ".join(f"{name} ({documents} documents)" for name, documents in left.items())
    return f"Name one of those that are left: {listed}."


async def documents_of(control: LiveControl, index: str) -> int | None:
    """How many documents the index holds now; None where there is no such index."""
    try:
        described = await control.search.describe(index, control.deadline())
        return await control.search.document_count(described.name, control.deadline())
    except BrokenError as error:
        if error.code == Code.INDEX_MISSING:
            return None
        raise


async def good_targets(control: LiveControl, names: list[str] | tuple[str, ...]) -> dict[str, int]:
    """Of these the first few that exist and hold documents, with how many."""
    found: dict[str, int] = {}
    for name in names:
        documents = await documents_of(control, name)
        if documents:
            found[name] = documents
        if len(found) == NAMED:
            break
    return found


async def _drilled(control: LiveControl, request: RollbackRequest, plan: _Plan, by: str | None) -> Rollback:
    locked = (
        " It is locked, so that the write would have been refused: unlock it." if plan.live.locked else ""
    )
    message = (
        f"Drill: live would have become {plan.target!r}, with {plan.documents} documents; it is "
        f"{plan.live.index!r}, and stays so.{locked}"
    )
    told = " ".join(text for text in (written(request.reason), message) if text)
    record = await control.trail.append(
        lambda _: Entry(
            kind=Kind.DRILLED,
            at=control.now(),
            actor=by,
            before=plan.live.index,
            after=plan.target,
            etag_before=plan.live.etag,
            reason=told,
        )
    )
    if record is None:
        raise AssertionError("a drill is recorded")
    return Rollback(
        record=record,
        before=plan.live.index,
        after=plan.target,
        documents=plan.documents,
        live=plan.live,
        drill=True,
        message=message,
    )


def refusal(
    control: LiveControl,
    request: RollbackRequest,
    live: LiveValue | None,
    why: str,
    *,
    by: str | None,
    watched: int | None,
) -> Entry:
    """That it was not done. `live`: what was live then, as far as that is known."""
    what = "Drill of a roll back" if request.drill else "Roll back"
    return Entry(
        kind=Kind.REFUSED,
        at=control.now(),
        actor=by,
        before=live.index if live else None,
        after=request.to,
        etag_before=live.etag if live else None,
        intent=watched,
        reason=f"{what} refused. {why}",
    )
