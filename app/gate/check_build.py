"""Answer a check of an Azure DevOps environment: whether what a build had judged may be promoted."""

import asyncio
import logging
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Protocol

from app.domain.errors import Fault, GateError, InputError
from app.domain.reasons import Verdict
from app.domain.run import Run, State
from app.gate.background import Background
from app.gate.clear import clear
from app.gate.control import LiveControl
from app.gate.records import RunRecords

_NEWEST = 1000  # runs that are looked through for those of a build

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedJob:
    """The job of Azure DevOps that waits for the result, as its check names it.

    `organization`: the address of the organisation. `token` lets its owner act in the organisation for two days:
    it is never written down, neither to a log nor to a store.
    """

    organization: str
    project: str
    hub: str
    plan: str
    job: str
    task: str
    token: str = field(repr=False)


class Callbacks(Protocol):
    """Tells Azure DevOps what came of a check."""

    def knows(self, organization: str) -> bool:
        """Whether it is an organisation that may be told anything."""
        ...

    async def complete(self, job: CheckedJob, *, succeeded: bool) -> None:
        """End the job. GateError where Azure DevOps does not take that."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether the stage may go on, and why."""

    succeeded: bool
    reason: str


async def check_build(control: LiveControl, build_id: str, *, poll_seconds: float = 2.0) -> Decision:
    """Whether the newest run of each set that the build had judged passed and is cleared, once they are done.

    An override does not help here. Errors as for `clear`, or where the runs cannot be read.
    """
    runs = await _done(control.records, build_id, poll_seconds)
    if not runs:
        return Decision(succeeded=False, reason="it had nothing judged")
    found = [await _judged(control, run) for run in runs]
    return Decision(
        succeeded=all(each.succeeded for each in found), reason="; ".join(each.reason for each in found)
    )


async def _judged(control: LiveControl, run: Run) -> Decision:
    told = f"run {run.id} of the set {run.golden_set.name!r}"
    if run.verdict is not Verdict.PASS:
        return Decision(succeeded=False, reason=f"{told} has the verdict {run.verdict}, and must have PASS")
    clearance = (await clear(control, run.id, by=None)).clearance
    if clearance.cleared:
        return Decision(succeeded=True, reason=f"{told} passed and is cleared")
    why = " ".join(condition.message for condition in clearance.failed)
    return Decision(succeeded=False, reason=f"{told} passed and is not cleared: {why}")


async def _done(records: RunRecords, build_id: str, poll_seconds: float) -> list[Run]:
    """The newest run of each set of a build, as soon as all of them are done."""
    while True:
        runs = await _newest(records, build_id)
        if all(run.state is State.DONE for run in runs):
            return runs
        for run in runs:
            await _end(records, run.id, poll_seconds)


async def _end(records: RunRecords, run_id: str, poll_seconds: float) -> None:
    """Until a run is done, in whatever process."""
    while True:
        run, _ = await records.read(run_id)
        if run.state is State.DONE:
            return
        await asyncio.sleep(poll_seconds)


async def _newest(records: RunRecords, build_id: str) -> list[Run]:
    found: dict[str, Run] = {}
    looked_at = 0
    async for run in records.newest_first():
        if run.change is not None and run.change.build_id == build_id:
            found.setdefault(run.golden_set.name, run)
        looked_at += 1
        if looked_at == _NEWEST:
            break
    return list(found.values())


@dataclass(slots=True, kw_only=True)
class Checks:
    """The checks that this process answers, one task each. Those that it leaves undone are lost, the tokens with
    them: Azure DevOps gives up at the check's time limit then, and the stage does not start.

    `secret`: what a check proves with that it may ask. `patience_seconds`: how long the runs of a build may take.
    """

    control: LiveControl
    callbacks: Callbacks
    secret: str = field(repr=False)
    patience_seconds: float
    poll_seconds: float = 2.0
    _work: Background = field(default_factory=Background)

    def admits(self, secret: str) -> bool:
        """Whether it is the secret; how long that takes tells nothing of it."""
        return compare_digest(secret.encode(), self.secret.encode())

    def launch(self, build_id: str, job: CheckedJob) -> None:
        """Answer a check in the background. InputError where its organisation may not be told anything."""
        if not self.callbacks.knows(job.organization):
            raise InputError([Fault(where="PlanUrl", message="is none of GATE_CHECK_ORGANIZATIONS")])
        self._work.begin(self._answer(build_id, job))

    async def done(self) -> None:
        """Until every check of this process is answered."""
        await self._work.done()

    async def stop(self) -> None:
        """End the work of this process."""
        await self._work.stop()

    async def _answer(self, build_id: str, job: CheckedJob) -> None:
        try:
            decision = await self._decision(build_id)
            word = "succeeded" if decision.succeeded else "failed"
            log.info("the check of build %r %s: %r", build_id, word, decision.reason)
            await self.callbacks.complete(job, succeeded=decision.succeeded)
        except GateError as error:
            log.error("Azure DevOps does not know what came of the check of build %r: %s", build_id, error)  # noqa: TRY400
        except Exception:
            log.exception("the check of build %r was not answered", build_id)

    async def _decision(self, build_id: str) -> Decision:
        try:
            async with asyncio.timeout(self.patience_seconds):
                return await check_build(self.control, build_id, poll_seconds=self.poll_seconds)
        except TimeoutError:
            reason = f"its runs were not done within {self.patience_seconds:g} seconds"
        except GateError as error:
            reason = str(error)
        except Exception:
            log.exception("the check of build %r fails", build_id)
            reason = "an error in the gate itself"
        return Decision(succeeded=False, reason=reason)
