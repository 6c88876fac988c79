"""The runs that a service executes: begun when they are asked for, and taken up from a process that is gone."""

import asyncio
import logging
from dataclasses import dataclass, field

from app.domain.errors import ConflictError, DamagedError, GateError, NotFoundError, StorageError
from app.domain.run import Run, State
from app.gate.claims import Sightings
from app.gate.execute import Execution
from app.gate.records import RunRecords, Sighting
from app.gate.telemetry import RUN

_POLL_SECONDS = 0.25

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Work:
    task: asyncio.Task[None]
    cancelled: asyncio.Event


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Executes runs in this process, one task each; they share the search service's limiter."""

    records: RunRecords
    execution: Execution
    _working: dict[str, _Work] = field(default_factory=dict)
    _given_up: set[str] = field(default_factory=set)
    _sightings: Sightings = field(default_factory=Sightings)
    _watching: asyncio.Task[None] | None = None
    _let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def resume(self) -> None:
        """Take up every run that nobody executes, now and until `stop`. Called when the service starts."""
        await self._look()
        self._watching = asyncio.create_task(self._watch())

    async def take_up(self, run_id: str) -> None:
        """Execute the run in the background, if nobody does. One whose process is gone is taken up later, by
        whoever finds that out first.
        """
        try:
            seen = await self.records.claim(run_id)
        except StorageError as error:
            log.warning("run %s waits for its store: %s", run_id, error)
        else:
            if seen.untouched:
                self._launch(run_id, seen)

    async def cancel(self, run_id: str) -> Run:
        """Ask for the run's end; it becomes ERROR `cancelled` shortly after. A run that is done stays as it is."""
        run, _ = await self.records.read(run_id)
        if run.state is not State.DONE:
            if run_id in self._working:
                self._working[run_id].cancelled.set()
            await self.records.cancel(run_id)  # for whoever executes it, or takes it up after this process
            await self.take_up(run_id)
        return run

    async def wait(self, run_id: str, seconds: float) -> Run:
        """The run, as soon as it is done, or as it is after `seconds`, or when this process is about to stop.

        Another process may be executing it.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            run, _ = await self.records.read(run_id)
            left = until - loop.time()
            if run.state is State.DONE or left <= 0 or self._let_go.is_set():
                return run
            work = self._working.get(run_id)
            if work is None:
                await asyncio.sleep(min(left, _POLL_SECONDS))
            else:
                await self._either(work.task, left)

    async def _either(self, task: asyncio.Task[None], seconds: float) -> None:
        letting_go = asyncio.create_task(self._let_go.wait())
        try:
            await asyncio.wait({task, letting_go}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            letting_go.cancel()

    def let_go(self) -> None:
        """Answer whoever waits now: they ask again, and find the process that comes after this one."""
        self._let_go.set()

    async def stop(self) -> None:
        """End the work of this process; its runs stay as they are, for others or the next start."""
        tasks = [work.task for work in self._working.values()]
        if self._watching is not None:
            tasks.append(self._watching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.execution.limits.look_every)
            try:
                await self._look()
            except StorageError as error:
                log.warning("runs cannot be looked at: %s", error)

    async def _look(self) -> None:
        """Take up what its holder let go, or gives no sign of life for. A look that fails counts for nothing."""
        active = await self.records.active()
        self._sightings.forget_all_but(active)
        for run_id in active:
            if run_id in self._working or run_id in self._given_up:
                continue
            try:
                seen = await self.records.claim(run_id)
            except (NotFoundError, DamagedError):  # a start cut short; or nothing that could be executed
                continue
            if self._sightings.free(run_id, seen.claim):
                self._launch(run_id, seen)

    def _launch(self, run_id: str, seen: Sighting) -> None:
        if run_id not in self._working:
            cancelled = asyncio.Event()
            task = asyncio.create_task(self._work(run_id, seen, cancelled))
            self._working[run_id] = _Work(task=task, cancelled=cancelled)
            task.add_done_callback(lambda _: self._working.pop(run_id, None))

    async def _work(self, run_id: str, seen: Sighting, cancelled: asyncio.Event) -> None:
        """Execute the run; where it cannot go on for a reason of its own, end it as interrupted."""
        RUN.set(run_id)  # in the context of this task alone
        again = await self._tried(run_id, seen, cancelled, give_up=None)
        if again is not None and await self._tried(run_id, None, cancelled, give_up=again) is not None:
            self._given_up.add(run_id)
            log.error("run %s is given up by this process; the next start takes it up again", run_id)

    async def _tried(
        self, run_id: str, seen: Sighting | None, cancelled: asyncio.Event, *, give_up: str | None
    ) -> str | None:
        """Why the run has to be given up; None: it is done, another process's, or taken up again later."""
        try:
            run = await self.execution.execute(run_id, cancelled=cancelled, give_up=give_up, seen=seen)
        except (ConflictError, NotFoundError) as error:
            log.warning("run %s is left to another process: %s", run_id, error)
        except DamagedError as error:
            self._given_up.add(run_id)
            log.error("run %s cannot be executed: %s", run_id, error)  # noqa: TRY400 — no fault of the code's
        except StorageError as error:
            log.warning("run %s waits for its store: %s", run_id, error)
        except GateError as error:
            log.warning("run %s cannot go on: %s", run_id, error)
            return f"The run cannot go on: {error}"
        except Exception:
            log.exception("run %s failed unexpectedly", run_id)
            return "The run cannot go on: an error in the gate itself, see the service's log."
        else:
            log.info("run %s is done: %s", run_id, run.verdict)
        return None
