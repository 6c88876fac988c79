"""What became of a run's promotion: the change, its watch, and whether that was rolled back."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.audit import Kind, Record, history, of_flip, open_flip
from app.domain.run import Run
from app.domain.watch import Watch
from app.gate.audit import AuditTrail
from app.gate.records import RunRecords

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The last promotion of a run. `flip`: its record; None where the run was not promoted, or its promotion has
    no end yet (`under_way`). `watch`: its watch; None until that has ended. `undone`: the next change of the
    live index after it. `refused`: that its roll back after a failed watch was refused. `ended`: nothing more
    is to come of it by itself.
    """

    run: str
    flip: Record | None = None
    under_way: Record | None = None
    watch: Record | None = None
    undone: Record | None = None
    refused: Record | None = None
    ended: bool


async def followed(trail: AuditTrail, records: RunRecords, run_id: str, seconds: float) -> Followed:
    """What became of the run's promotion, as soon as it has ended or as it is after `seconds`.

    NotFoundError for an unknown run.
    """
    run, _ = await records.read(run_id)
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        found = of_run(await trail.records(), run)
        left = until - loop.time()
        if found.ended or left <= 0:
            return found
        await asyncio.sleep(min(left, _POLL_SECONDS))


def of_run(records: Sequence[Record], run: Run) -> Followed:
    """The same from the records of the audit."""
    flips = history(records)
    begun = open_flip(records)
    under_way = begun if begun is not None and begun.run == run.id else None
    place = next((n for n in reversed(range(len(flips))) if _promoted(flips[n], run)), None)
    if place is None:
        return Followed(run=run.id, under_way=under_way, ended=under_way is None)
    watch = of_flip(records, Kind.WATCHED, flips[place])
    undone = flips[place + 1] if place + 1 < len(flips) else None
    refused = of_flip(records, Kind.REFUSED, flips[place])
    told = undone is not None or (watch is not None and (refused is not None or not _goes_back(watch, run)))
    return Followed(
        run=run.id,
        flip=flips[place],
        under_way=under_way,
        watch=watch,
        undone=undone,
        refused=refused,
        ended=told and under_way is None,
    )


def _promoted(flip: Record, run: Run) -> bool:
    return flip.kind is Kind.PROMOTED and flip.run == run.id


def _goes_back(watch: Record, run: Run) -> bool:
    """Whether the promotion is to be rolled back by itself after this watch."""
    failed = watch.watch is not None and watch.watch.state is Watch.FAILED
    return failed and run.policy.auto_rollback
