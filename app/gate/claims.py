"""Who executes a run: a claim beside it in the store, raised by whoever takes it up, replaced by etag.

* The holder raises the claim's beat `LOOKS` times in `takeover_seconds`.
* Others look as often, and take the run up when the claim has not changed at `LOOKS` looks in a row. They count
  their own looks alone: no clock is compared with another one's, and no lease of the store is trusted.
* Whoever takes the run up raises the claim's number. A former holder, woken, is refused wherever it writes: its beat
  and the status by their etags, the journal by the number in its last fence, the evidence by the claim in the
  status.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from app.domain.errors import ConflictError, GateError, StorageError
from app.gate.records import Claim, RunRecords, Sighting

LOOKS = 5  # at an unchanged claim, after which its holder counts as gone
_LET_GO_SECONDS = 5.0  # that a process which stops gives its last write

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Sightings:
    """What one process has seen of claims, look by look."""

    _seen: dict[str, tuple[Claim, int]] = field(default_factory=dict)

    def free(self, run_id: str, claim: Claim) -> bool:
        """Note a look; whether the run may be taken up: its holder let it go, or gives no sign of life."""
        before, times = self._seen.get(run_id, (None, 0))
        times = times + 1 if claim == before else 0
        self._seen[run_id] = claim, times
        return claim.let_go or times >= LOOKS

    def forget_all_but(self, run_ids: list[str]) -> None:
        self._seen = {run_id: self._seen[run_id] for run_id in run_ids if run_id in self._seen}


@dataclass(slots=True, kw_only=True)
class Hold:
    """A claim of this process's own. `cancelled` is set when somebody asks for the run's end, `lost` when
    somebody else has taken the run up.
    """

    records: RunRecords
    run_id: str
    claim: Claim
    etag: str
    cancelled: asyncio.Event
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    async def beat(self, every: float) -> None:
        """Raise the beat again and again, until the hold is lost. That the store fails now is no harm."""
        while not self.lost.is_set():
            await asyncio.sleep(every)
            with suppress(StorageError):
                await self._keep(replace(self.claim, beat=self.claim.beat + 1))

    async def let_go(self) -> None:
        """Tell others that they need not wait; they find out by themselves if they cannot be told."""
        with suppress(GateError, TimeoutError):
            async with asyncio.timeout(_LET_GO_SECONDS):
                await self._keep(replace(self.claim, let_go=True))

    async def _keep(self, wanted: Claim) -> None:
        while not self.lost.is_set():
            try:
                self.etag = await self.records.keep_claim(self.run_id, wanted, self.etag)
            except ConflictError:
                wanted = await self._reconciled(wanted)
            else:
                self.claim = wanted
                return

    async def _reconciled(self, wanted: Claim) -> Claim:
        """What is wanted, after somebody else wrote: asked for the run's end, or took the run up."""
        found = await self.records.claim(self.run_id)
        if found.etag is None or (found.claim.number, found.claim.by) != (wanted.number, wanted.by):
            self.lost.set()
        else:
            self.etag = found.etag
        if found.claim.cancelled:
            self.cancelled.set()
        return replace(wanted, cancelled=found.claim.cancelled)


@asynccontextmanager
async def held(
    records: RunRecords, run_id: str, seen: Sighting, *, by: str, beat_every: float, cancelled: asyncio.Event
) -> AsyncIterator[Hold]:
    """The run, taken up from where it was seen. ConflictError if its claim has changed since.

    It is let go of where the block fails, but for its store: that is tried again no sooner than after a while.
    """
    claim = Claim(number=seen.claim.number + 1, by=by, cancelled=seen.claim.cancelled)
    etag = await records.keep_claim(run_id, claim, seen.etag)
    hold = Hold(records=records, run_id=run_id, claim=claim, etag=etag, cancelled=cancelled)
    if claim.cancelled:
        cancelled.set()
    beating = asyncio.create_task(hold.beat(beat_every))
    try:
        yield hold
    except StorageError:
        await _ended(beating)
        raise
    except BaseException:
        await _ended(beating)
        await hold.let_go()
        raise
    await _ended(beating)


async def _ended(beating: asyncio.Task[None]) -> None:
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)


async def until_free(
    records: RunRecords, run_id: str, *, look_every: float, cancelled: asyncio.Event
) -> Sighting:
    """The run's claim, once nobody executes the run; whoever does is told when `cancelled` is set meanwhile."""
    sightings, told = Sightings(), False
    while True:
        seen = await records.claim(run_id)
        if seen.untouched or sightings.free(run_id, seen.claim):
            return seen
        if cancelled.is_set() and not told:
            told = await records.cancel(run_id)
        await asyncio.sleep(look_every)
