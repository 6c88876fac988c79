"""Which indexes are of no use any more, as advice. Nothing is ever deleted here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.domain.audit import history, open_flip, targets
from app.domain.errors import BrokenError
from app.domain.reasons import Code
from app.domain.run import Run, State
from app.gate.control import LiveControl
from app.gate.rollback import documents_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirable:
    """An index that could be deleted. `last_used`: when it was last live, or last judged, as far as the gate
    knows; None: it knows nothing of this index, which may be somebody else's. `why` is for people.
    """

    index: str
    last_used: datetime | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """The advice, by name. `kept`: the other indexes, each with why it is still of use. `listed` is false
    where the identity may not list the service's indexes: then only those are considered that the gate knows.
    """

    retirable: tuple[Retirable, ...]
    kept: Mapping[str, str]
    listed: bool


async def retire(control: LiveControl) -> Retirement:
    """The indexes that are neither live, nor what a roll back would go to, nor of an undone run, nor inside the
    waiting time since they were last live or last judged. LiveError, BrokenError.
    """
    use = await _uses(control)
    names = await control.search.index_names(control.deadline())
    considered = names if names is not None else await _existing(control, use)
    kept = {name: use.kept[name] for name in considered if name in use.kept}
    since = control.now() - control.limits.retire_after
    retirable = []
    for name in considered:
        if name in kept:
            continue
        last = use.last.get(name)
        if last is not None and last > since:
            hours = control.limits.retire_after.total_seconds() / 3600
            kept[name] = f"was last of use at {last:%Y-%m-%d %H:%M} UTC, less than {hours:g} hours ago"
        else:
            retirable.append(Retirable(index=name, last_used=last, why=_why(last)))
    return Retirement(retirable=tuple(retirable), kept=kept, listed=names is not None)


def _why(last: datetime | None) -> str:
    if last is None:
        return "no run and no promotion here knows it: it may be somebody else's"
    return f"not live, not what a roll back goes to, and last of use at {last:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Uses:
    """By index: why it must stay, and when it was last of use."""

    kept: dict[str, str]
    last: dict[str, datetime]

    def keep(self, name: str | None, why: str) -> None:
        if name is not None:
            self.kept.setdefault(name, why)

    def used(self, name: str | None, at: datetime) -> None:
        if name is not None:
            self.last[name] = max(at, self.last.get(name, at))


async def _uses(control: LiveControl) -> _Uses:
    use = _Uses(kept={}, last={})
    await _keep_live(control, use)
    async for run in control.records.newest_first():
        for side in (run.baseline, run.candidate):
            if run.state is not State.DONE:
                for name in (side.index, await _concrete(control, side.index)):
                    use.keep(name, f"run {run.id} is not done")
            use.used(side.index, _last_seen(run))
    return use


async def _keep_live(control: LiveControl, use: _Uses) -> None:
    records = await control.trail.records()
    value = await control.live()
    if value is not None:
        use.keep(value.index, "is live")
        use.keep(await _concrete(control, value.index), "is live")
    flips = history(records)
    for flip in flips:
        use.used(flip.before, flip.at)
        use.used(flip.after, flip.at)
    if flips and value is not None and value.index != flips[-1].after:
        use.used(flips[-1].after, value.modified_at or control.now())  # until then it was live
    under_way = open_flip(records)
    if under_way is not None:
        use.keep(under_way.before, f"record {under_way.number} is not settled")
        use.keep(under_way.after, f"record {under_way.number} is not settled")
    for name in targets(flips, value.index if value else None):
        if await documents_of(control, name):
            use.keep(name, "is what a roll back goes to")
            return


async def _concrete(control: LiveControl, name: str) -> str | None:
    try:
        return (await control.search.describe(name, control.deadline())).name
    except BrokenError as error:
        if error.code == Code.INDEX_MISSING:
            return None
        raise


def _last_seen(run: Run) -> datetime:
    return run.finished_at or run.started_at or run.created_at


async def _existing(control: LiveControl, use: _Uses) -> tuple[str, ...]:
    known = sorted({*use.kept, *use.last})
    return tuple([name for name in known if await _concrete(control, name) is not None])
