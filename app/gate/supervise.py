"""The runs that a service executes: begun when they are asked for, and gone on with after a restart."""

import asyncio
import logging
from dataclasses import dataclass, field

from app.domain.errors import ConflictError, GateError, NotFoundError, StorageError
from app.domain.run import Run, State
from app.gate.execute import Execution
from app.gate.records import RunRecords

_RETRY_SECONDS = (1.0, 5.0, 15.0, 60.0)  # pauses before a run whose store failed is taken up again
_POLL_SECONDS = 0.25
LOOK_SECONDS = 3.0  # between two looks for runs that another process has let go of

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
    _let_go: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: asyncio.Task[None] | None = None

    async def resume(self) -> None:
        """Take up every run that is not done, and from now on those that other processes let go of: the process
        that follows another one often starts before that one stops. Called when the service starts.
        """
        for run_id in await self.records.active():
            self.launch(run_id)
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                for run_id in await self.records.left():
                    if await self.records.take_up(run_id, self.execution.new_claim()):
                        log.info("run %s was let go of by another process and is taken up here", run_id)
                        self.launch(run_id)
            except StorageError as error:
                log.warning("runs that another process let go of cannot be looked for: %s", error)

    def launch(self, run_id: str) -> None:
        """Execute the run in the background, if this process does not already."""
        if run_id not in self._working:
            cancelled = asyncio.Event()
            task = asyncio.create_task(self._work(run_id, cancelled))
            self._working[run_id] = _Work(task=task, cancelled=cancelled)
            task.add_done_callback(lambda _: self._working.pop(run_id, None))

    async def cancel(self, run_id: str) -> Run:
        """Ask for the run's end; it becomes ERROR `cancelled` shortly after. A run that is done stays as it is."""
        run, _ = await self.records.read(run_id)
        if run.state is not State.DONE:
            self.launch(run_id)  # nobody executes it here: take it over, so that it can be ended
            self._working[run_id].cancelled.set()
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
        """End the work of this process; its runs stay as they are, for whichever process looks next."""
        tasks = {run_id: work.task for run_id, work in self._working.items()}
        looking = [] if self._looking is None else [self._looking]
        for task in (*looking, *tasks.values()):
            task.cancel()
        await asyncio.gather(*looking, *tasks.values(), return_exceptions=True)
        unfinished = [run_id for run_id, task in tasks.items() if task.cancelled()]
        for run_id, failed in zip(
            unfinished,
            await asyncio.gather(*map(self.records.leave, unfinished), return_exceptions=True),
            strict=True,
        ):
            if failed:
                log.warning("run %s waits for the next start: %s", run_id, failed)

    async def _work(self, run_id: str, cancelled: asyncio.Event) -> None:
        give_up: str | None = None
        for pause in (*_RETRY_SECONDS, None):
            try:
                run = await self.execution.execute(run_id, cancelled=cancelled, give_up=give_up)
            except (ConflictError, NotFoundError) as error:
                log.warning("run %s is left to another process: %s", run_id, error)
                return
            except StorageError as error:
                log.warning("run %s waits for its store: %s", run_id, error)
            except GateError as error:
                give_up = f"The run cannot go on: {error}"
                log.warning("run %s cannot go on: %s", run_id, error)
            except Exception:
                give_up = "The run cannot go on: an error in the gate itself, see the service's log."
                log.exception("run %s failed unexpectedly", run_id)
            else:
                log.info("run %s is done: %s", run_id, run.verdict)
                return
            if pause is not None:
                await asyncio.sleep(pause)
        log.error("run %s is given up by this process; the next start takes it up again", run_id)
