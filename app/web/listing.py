"""A page of runs, the newest first, by what a reader looks for."""

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.domain.reasons import Verdict
from app.domain.run import Run
from app.gate.records import RunRecords, UnreadableRun

LOOKED_AT = 1000  # runs that one page looks at; a page may come out short, with a cursor to go on
TREND_LOOKED_AT = 200  # runs that the trends look at
TREND_RUNS = 30  # of each set, the newest


class Wanted(BaseModel):
    """Which runs: those that meet every filter, older than `cursor`. Index names as asked for or concrete."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    candidate: str | None = None
    golden_set: str | None = None
    verdict: Verdict | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")] | None = None

    def takes(self, run: Run) -> bool:
        return (
            self.candidate in (None, run.candidate.requested, run.candidate.index)
            and self.golden_set in (None, run.golden_set.name)
            and self.verdict in (None, run.verdict)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Runs without their questions; `next` is the cursor of the page after, None where there is none.
    `unreadable`: those among them whose status is damaged, whatever was looked for.
    """

    runs: tuple[Run, ...]
    unreadable: tuple[UnreadableRun, ...]
    next: str | None


async def page(records: RunRecords, wanted: Wanted) -> RunPage:
    """The page that `wanted` asks for."""
    found: list[Run] = []
    unreadable: list[UnreadableRun] = []
    seen, last, more = 0, wanted.cursor, False
    async for run in records.listed(wanted.cursor):
        if len(found) == wanted.limit or seen == LOOKED_AT:
            more = True
            break
        seen, last = seen + 1, run.id
        if isinstance(run, UnreadableRun):
            unreadable.append(run)
        elif wanted.takes(run):
            found.append(run)
    return RunPage(runs=tuple(found), unreadable=tuple(unreadable), next=last if more else None)


async def trends(records: RunRecords, golden_set: str | None = None) -> dict[str, list[Run]]:
    """The last judged runs of each golden set, or of one, the oldest first; sets by their newest run. Noise
    studies say nothing of a set and are left out. For one set more runs are looked at.
    """
    found: defaultdict[str, list[Run]] = defaultdict(list)
    async for run in _judged(records, TREND_LOOKED_AT if golden_set is None else LOOKED_AT):
        if golden_set in (None, run.golden_set.name):
            runs = found[run.golden_set.name]
            if len(runs) < TREND_RUNS:
                runs.insert(0, run)
            elif golden_set is not None:
                break
    return dict(found)


async def _judged(records: RunRecords, most: int) -> AsyncIterator[Run]:
    looked = 0
    async for run in records.listed():
        if looked == most:
            return
        looked += 1
        if isinstance(run, Run) and run.verdict is not None and not run.noise_study:
            yield run
