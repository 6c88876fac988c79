"""Find out what changed between the two sides, without being told: both read, and compared."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.check import Check, once
from app.domain.difference import Difference
from app.domain.differences import (
    Facts,
    change_checks,
    differences,
    fewer_documents,
    input_limit_checks,
    lost_documents,
)
from app.domain.golden import Question
from app.domain.query import Side
from app.domain.run import Inventories, Run
from app.gate.inspect import Inspection
from app.gate.inventory import InventoryLimits, gather_facts
from app.gate.ports import SearchService


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What differs, what that means, what was read for it, and the requests that it took."""

    differences: tuple[Difference, ...]
    checks: tuple[Check, ...]
    inventories: Inventories
    requests: int


async def look_for_changes(
    run: Run,
    questions: Sequence[Question],
    found: Inspection,
    search: SearchService,
    *,
    rows: int,
    deadline: float,
) -> Changes:
    """Both sides read, at most `rows` chunks of each. What could not be read is not compared, and said."""
    (before, of_before), (after, of_after) = await asyncio.gather(
        *(_facts(run, side, found, search, rows=rows, deadline=deadline) for side in Side)
    )
    named = await asyncio.to_thread(differences, before, after)  # thousands of documents take a while
    checks = [*change_checks(named, run.change.kind if run.change else ())]
    found_fewer = fewer_documents(before, after), lost_documents(before.taken, after.taken, questions)
    checks.extend(each for each in found_fewer if each is not None)
    for facts in (before, after):
        checks.extend((*input_limit_checks(facts), *facts.taken.checks(facts.index)))
    return Changes(
        differences=named,
        checks=once(checks),
        inventories=Inventories(baseline=before.taken.record, candidate=after.taken.record),
        requests=of_before + of_after,
    )


async def _facts(
    run: Run, side: Side, found: Inspection, search: SearchService, *, rows: int, deadline: float
) -> tuple[Facts, int]:
    at = run.side(side)
    if at.fields is None:
        raise AssertionError("a side without fields is blocked before its contents are looked at")
    return await gather_facts(
        at.index,
        at.fields,
        found.definitions[side],
        run.query.of(side),
        search,
        documents=at.documents,
        limits=InventoryLimits(rows=rows),
        deadline=deadline,
    )
