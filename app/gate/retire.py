"""Which indexes are of no use any more, as advice. Nothing is ever deleted here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.domain.audit import history, open_flip, targets
from app.domain.errors import BrokenError
from app.domain.reasons import Code
from app.gate.clear import LONGEST_RUN
from app.gate.control import LiveControl
from app.gate.rollback import documents_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirable:
    """An index that could be deleted. `last_used`: when it last became or ceased to be live, or was judged;
    None: it never was live, nor judged of late, and may be somebody else's. `why` is for people.
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
    since = control.now() - control.limits.retire_after
    use = await _uses(control, since)
    names = await control.search.index_names(control.deadline())
    considered = names if names is not None else await _existing(control, use)
    kept = {name: use.kept[name] for name in considered if name in use.kept}
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
        return "no promotion here and no run of late knows it: it may be somebody else's"
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


async def _uses(control: LiveControl, since: datetime) -> _Uses:
    """Of the runs only those that are not done, and those that may have been of use after `since`, are read."""
    use = _Uses(kept={}, last={})
    await _keep_live(control, use)
    for run_id in await control.records.active():
        run, _ = await control.records.read(run_id)
        for side in (run.baseline, run.candidate):
            for name in (side.index, await _concrete(control, side.index)):
                use.keep(name, f"run {run.id} is not done")
    async for run in control.records.newest_first():
        if run.created_at < since - LONGEST_RUN:
            break
        for side in (run.baseline, run.candidate):
            use.used(side.index, run.finished_at or run.started_at or run.created_at)
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


async def _existing(control: LiveControl, use: _Uses) -> tuple[str, ...]:
    known = sorted({*use.kept, *use.last})
    return tuple([name for name in known if await _concrete(control, name) is not None])
