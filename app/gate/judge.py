"""Decide again on runs that are kept: what another policy would have said, without a query. Never stored."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from app.domain.check import Check, Level
from app.domain.decision import decide, decided, results
from app.domain.errors import ConflictError
from app.domain.outcome import Observed
from app.domain.policy import Policy
from app.domain.reading import overridden
from app.domain.reasons import Code
from app.domain.run import Run, State
from app.gate.records import RunRecords


async def judged(records: RunRecords, run_id: str, policy: Mapping[str, Any]) -> Run:
    """The run as it would have ended under its policy with these settings replaced; not trusted, not kept.

    InputError for a faulty policy, NotFoundError for an unknown run, ConflictError for one that is not done.
    """
    run, _ = await records.read(run_id)
    if run.state is not State.DONE:
        raise ConflictError(f"The run {run_id} is not done yet: there is nothing to judge.")
    return await _again(records, run, policy)


async def judged_since(
    records: RunRecords, since: datetime, policy: Mapping[str, Any]
) -> AsyncIterator[tuple[Run, Run]]:
    """Every run that was created since then and is done, the newest first: as it ended, as it would have."""
    async for run in records.newest_first():
        if run.created_at < since:
            return
        if run.state is State.DONE:
            yield run, await _again(records, run, policy)


async def _again(records: RunRecords, run: Run, policy: Mapping[str, Any]) -> Run:
    judging = overridden(run.policy, policy, "policy")
    asked = replace(run, policy=judging, trusted=False, checks=(*run.checks, *_unseen(run.policy, judging)))
    evidence = await records.evidence(run.id)
    if judging != run.policy:
        evidence = (_fewer(each, judging) for each in evidence)
    day = (run.finished_at or run.created_at).date()
    return decided(asked, decide(asked, results(evidence, run.query)), on=day)


def _fewer(observed: Observed, policy: Policy) -> Observed:
    """The question with no more observations than the policy asks for."""
    return replace(
        observed,
        baseline=observed.baseline[: 1 + policy.noise_runs],
        candidate=observed.candidate[: 1 + policy.confirm_runs],
    )


def _unseen(made: Policy, asked: Policy) -> Iterator[Check]:
    """That the policy asks for more observations than were made."""
    for name in ("noise_runs", "confirm_runs"):
        had, wanted = getattr(made, name), getattr(asked, name)
        if wanted > had:
            message = (
                f"{name} = {wanted}, and the run was made with {had}: what was not observed cannot be judged."
            )
            yield Check(code=Code.NOT_EVALUATED, level=Level.BLOCKING, message=message, setting=name)
