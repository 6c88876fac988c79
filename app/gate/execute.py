"""Execute a kept run to its end: inspect, compare, inspect again, decide. Also goes on where a killed one was."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from app.domain.check import Check, Level, once
from app.domain.decision import decide, decided, result
from app.domain.errors import (
    BrokenError,
    ConflictError,
    DamagedError,
    InputError,
    NotFoundError,
    StorageError,
)
from app.domain.fingerprint import Fingerprint
from app.domain.golden import Question
from app.domain.labels import UNVERIFIED, unguarded, verified
from app.domain.legs import Wanted, may_be_lost, unexplained
from app.domain.outcome import QuestionResult, observations, without_passages
from app.domain.query import Queries, Side
from app.domain.reading import read_golden_set
from app.domain.reasons import Code
from app.domain.run import Progress, Requests, Run, State
from app.gate.changes import Changes, look_for_changes
from app.gate.claims import LOOKS, Hold, held
from app.gate.compare import Comparison, OnObserved
from app.gate.inspect import Inspection, at_end, blocking, changed, fingerprint, inspect
from app.gate.labels import Audit, AuditedIndex, audit
from app.gate.ledger import Ledger
from app.gate.legs import probe_legs
from app.gate.noise import noisy, probe_noise
from app.gate.ports import ASKING, Embedder, SearchService
from app.gate.preflight import Findings, check_filters, cost, cost_check, probe, stand_still
from app.gate.records import Claim, EvidenceWriter, Journal, RunRecords, Sighting
from app.gate.start import asked
from app.gate.telemetry import RUN, Silent, Telemetry, about

OnProgress = Callable[[Run], None]  # the run so far; called often

# blocking for the verdict, but no reason not to ask: the evidence is wanted all the same
P = ParamSpec("P")
T = TypeVar("T")

_GOES_ON = frozenset({Code.CRITICAL_STALE, Code.NOT_EVALUATED, Code.LOST_DOCUMENTS})

MAX_STARTS = 5  # a run that was begun so often without an end is given up as interrupted
KEEP_PROGRESS_EVERY = 2.0  # seconds between two progress notes in the stored status


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use.

    `concurrency`: observations under way at once, at the most. `run_timeout_seconds`: from its (re)start.
    `settle_seconds`: between two counts of an index that must agree. `inventory_rows`: chunks of an index that
    are read at most. `semantic_allowance`: semantic queries a calendar month (UTC) that the runs kept here may
    use; None: any. `leg_probes`: whether lost questions are asked again by each leg of the query.
    `takeover_seconds`: after which a run whose process gives no sign of life is taken up by another one.
    """

    concurrency: int
    run_timeout_seconds: float
    settle_seconds: float = 0.0
    inventory_rows: int = 100_000
    semantic_allowance: int | None = None
    leg_probes: bool = True
    takeover_seconds: float = 15.0

    @property
    def look_every(self) -> float:
        """Seconds between two signs of life, and between two looks for one."""
        return self.takeover_seconds / LOOKS


@dataclass(slots=True, kw_only=True)
class Execution:
    """One run being executed by this process. `now` is the clock, UTC."""

    records: RunRecords
    search: SearchService
    embedder: Embedder
    limits: Limits
    now: Callable[[], datetime]
    new_claim: Callable[[], str]
    telemetry: Telemetry = field(default_factory=Silent)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def execute(
        self,
        run_id: str,
        *,
        cancelled: asyncio.Event,
        on_progress: OnProgress = lambda *_: None,
        give_up: str | None = None,
        seen: Sighting | None = None,
    ) -> Run:
        """The run, done. A run that is done already is returned as it is. `cancelled` asks for its end, and is
        set where another process asks for it.

        `give_up`: why it cannot go on; it ends as interrupted with the observations that it has. `seen`: the claim
        that showed that nobody executes it; None: it is taken from whoever does.

        ConflictError: another process has taken it over. StorageError: its end could not be kept; it can be
        executed again and goes on where it was. Being cancelled as a task leaves it ready for that, too.
        """
        ASKING.set(run_id)
        run, _ = await self.records.read(run_id)
        if run.state is State.DONE:
            await self.records.close(run_id)
            return run
        with about(RUN, run_id), self.telemetry.executing(run_id):
            async with held(
                self.records,
                run_id,
                seen or await self.records.claim(run_id),
                by=self.new_claim(),
                beat_every=self.limits.look_every,
                cancelled=cancelled,
            ) as hold:
                done = await self._executed(hold, on_progress, give_up)
            self.telemetry.done(done)
            return done

    async def _executed(self, hold: Hold, on_progress: OnProgress, give_up: str | None) -> Run:
        run, etag = await self.records.read(hold.run_id)
        keeper = _Keeper(records=self.records, run=run, etag=etag, claim=hold.claim, progress=run.progress)
        try:
            questions = await self._questions(run)
        except (InputError, NotFoundError, DamagedError) as error:
            questions, give_up = (), f"The golden set cannot be read any more: {error}"
        ledger = Ledger(questions, run.query)
        try:
            await keeper.begin(self.now())
            journal, entries = await self.records.journal(run.id, hold.claim)
            for entry in entries:
                ledger.add(entry)
            if give_up is not None:
                keeper.block(Code.INTERRUPTED, give_up)
            if not keeper.blocked:
                gathering = self._gather(keeper, questions, ledger, journal, on_progress)
                if await _cancelled_first(gathering, keeper, hold):
                    keeper.block(Code.CANCELLED, "The run was cancelled.")
        except StorageError as error:
            keeper.block(Code.STORAGE_UNAVAILABLE, str(error))
        except BrokenError as error:
            keeper.add(blocking(error))
        return await self._finish(keeper, questions, ledger)

    async def _questions(self, run: Run) -> tuple[Question, ...]:
        golden = await self._worked_out(read_golden_set, await self.records.texts(run))
        return asked(golden, run.golden_set.slices)

    async def _worked_out(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What takes a while to work out, in a thread; of all runs one after the other, since each such thread would
        take its share of the interpreter from whoever waits for an answer.
        """
        async with self._turn:
            return await asyncio.to_thread(work, *args, **kwargs)

    async def _gather(
        self,
        keeper: "_Keeper",
        questions: tuple[Question, ...],
        ledger: Ledger,
        journal: Journal,
        on_progress: OnProgress,
    ) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + self.limits.run_timeout_seconds
        try:
            async with asyncio.timeout_at(deadline):
                await self._look(keeper, questions, ledger, deadline)
        except TimeoutError:
            raise BrokenError(Code.TIMED_OUT, "The run's time was up before its first question.") from None
        asking = loop.time()
        keeper.took(preflight=asking - began)
        on_progress(keeper.run)
        await keeper.keep()
        if keeper.blocked:
            return
        comparison = Comparison(
            run=keeper.run,
            questions=questions,
            seed=keeper.run.manifest.get("seed", 0),
            search=self.search,
            embedder=self.embedder,
            ledger=ledger,
            journal=journal,
            concurrency=self.limits.concurrency,
            deadline=deadline,
            on_observed=keeper.noting(on_progress),
            telemetry=self.telemetry,
        )
        try:
            await comparison.make()
        finally:
            keeper.took(comparison=loop.time() - asking)
            keeper.reached(highest=comparison.highest, last=comparison.last)
        await self._probe_noise(keeper, questions, ledger, deadline)
        if self.limits.leg_probes:
            await self._probe_legs(keeper, questions, ledger, deadline)
        after = await inspect(keeper.run, self.search, loop.time() + self.limits.run_timeout_seconds)
        keeper.count(other=after.requests)
        keeper.add(*changed(keeper.run, after))
        keeper.run = at_end(keeper.run, after)

    async def _look(
        self, keeper: "_Keeper", questions: tuple[Question, ...], ledger: Ledger, deadline: float
    ) -> None:
        """Everything that is looked at before the first question; where a run is taken up again, only whether
        the indexes are still what they were, and the labels.
        """
        settled = asyncio.get_running_loop().time() + self.limits.settle_seconds
        found = await inspect(keeper.run, self.search, deadline)
        keeper.count(other=found.requests)
        if keeper.run.inspected:
            keeper.add(*changed(keeper.run, found))
            keeper.run = at_end(keeper.run, found)
        else:
            keeper.inspected(found)
        if keeper.blocked:
            return
        known = keeper.run.fingerprint is not None  # taken up again
        if not known:
            await self._try(keeper, questions, found, deadline)
            if keeper.blocked:
                return
        labels = await self._labels(keeper.run, questions, found, deadline)
        ledger.know(missing=labels.missing, filtered_out=labels.filtered_out)
        keeper.count(other=labels.requests)
        if known:
            return
        keeper.add(*labels.checks)
        if keeper.blocked:
            return
        changes = await look_for_changes(
            keeper.run,
            questions,
            found,
            self.search,
            rows=self.limits.inventory_rows,
            deadline=deadline,
        )
        keeper.changes(changes)
        keeper.found(await stand_still(keeper.run, self.search, deadline, at_earliest=settled))
        keeper.run = replace(keeper.run, fingerprint=await self._fingerprint(keeper.run, deadline))

    async def _try(
        self, keeper: "_Keeper", questions: tuple[Question, ...], found: Inspection, deadline: float
    ) -> None:
        """Whether questions can be asked at all, and paid for, at the price of a handful of requests: before
        anything is read at length.
        """
        keeper.add(await self._cost(keeper.run, questions))
        keeper.found(await check_filters(keeper.run, questions, found.definitions, self.search, deadline))
        if not keeper.blocked:
            keeper.found(await probe(keeper.run, self.search, self.embedder, deadline))

    async def _labels(
        self, run: Run, questions: tuple[Question, ...], found: Inspection, deadline: float
    ) -> Audit:
        sides = [_audited(run, side, found) for side in Side]
        return await audit(questions, *sides, search=self.search, deadline=deadline)

    async def _cost(self, run: Run, questions: tuple[Question, ...]) -> Check:
        allowance = self.limits.semantic_allowance
        month = self.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        used = None if allowance is None else await self.records.semantic_since(month)
        return cost_check(cost(run, questions), used=used, allowance=allowance)

    async def _fingerprint(self, run: Run, deadline: float) -> Fingerprint:
        try:
            maps = await self.search.synonym_maps(deadline)
        except BrokenError:
            maps = None
        read = run.inventories
        digests = (
            {}
            if read is None
            else {
                Side.BASELINE: read.baseline.digest,
                Side.CANDIDATE: read.candidate.digest,
            }
        )
        return fingerprint(run, synonym_maps=maps, inventories=digests)

    async def _probe_noise(
        self, keeper: "_Keeper", questions: tuple[Question, ...], ledger: Ledger, deadline: float
    ) -> None:
        chosen = noisy((question, *ledger.tallies(question)) for question in questions)
        if chosen:
            probed = await probe_noise(
                keeper.run, chosen, search=self.search, embedder=self.embedder, deadline=deadline
            )
            keeper.count(other=probed.requests, semantic=probed.semantic)
            keeper.run = replace(keeper.run, noise_probes=probed.results)

    async def _probe_legs(
        self, keeper: "_Keeper", questions: tuple[Question, ...], ledger: Ledger, deadline: float
    ) -> None:
        """Look for the leg that lost a question, where its cause is not plain. No verdict depends on it."""
        wanted = await self._worked_out(_unexplained, keeper.run, questions, ledger)
        if wanted:
            probed = await probe_legs(
                keeper.run,
                wanted,
                search=self.search,
                embedder=self.embedder,
                concurrency=self.limits.concurrency,
                deadline=deadline,
            )
            keeper.count(other=probed.requests, semantic=probed.semantic)
            keeper.run = replace(keeper.run, legs=probed.results)

    async def _finish(self, keeper: "_Keeper", questions: tuple[Question, ...], ledger: Ledger) -> Run:
        finished = replace(keeper.run, finished_at=self.now(), progress=keeper.progress)
        done, writer = await self._worked_out(_decided, finished, questions, ledger)
        keeper.run = done = await self.records.keep_evidence(done, writer)
        await keeper.keep()
        await self.records.close(done.id)
        return done


def _unexplained(run: Run, questions: tuple[Question, ...], ledger: Ledger) -> tuple[Wanted, ...]:
    suspected = (question for question in questions if may_be_lost(*ledger.tallies(question)))
    return unexplained((result(ledger.observed(each), run.query) for each in suspected), run.query)


def _decided(run: Run, questions: tuple[Question, ...], ledger: Ledger) -> tuple[Run, EvidenceWriter]:
    """The run with its decision and its request counts, and its evidence, in one pass over the questions."""
    critical = (ledger.observed(question) for question in questions if question.critical)
    run = replace(run, checks=(*run.checks, *unguarded(critical, run.query.baseline)))
    writer, requests = EvidenceWriter(run.query), _Requests(queries=run.query, beside=run.requests)
    unsure = {name for check in run.checks if check.code == UNVERIFIED for name in check.documents}
    shown: dict[str, set[str]] = {run.side(side).index: set() for side in Side}

    def evidence() -> Iterator[QuestionResult]:
        for question in questions:
            each = result(ledger.observed(question), run.query)
            writer.add(each if run.policy.evidence_text else without_passages(each))
            requests.add(each)
            for side in Side if unsure else ():
                hits = (hit.parent for seen in observations(each, side) for hit in seen.hits)
                shown[run.side(side).index].update(name for name in hits if name in unsure)
            yield each

    decision = decide(run, evidence())
    checks = tuple(verified(run.checks, questions, shown))
    counted = replace(run, requests=requests.counted(), checks=checks)
    day = (run.finished_at or run.created_at).date()
    return decided(counted, decision, on=day), writer


def _audited(run: Run, side: Side, found: Inspection) -> AuditedIndex:
    at = run.side(side)
    if at.fields is None:
        raise AssertionError("a side without fields is blocked before its labels are looked up")
    return AuditedIndex(
        index=at.index, fields=at.fields, query=run.query.of(side), definition=found.definitions[side]
    )


async def _cancelled_first(gathering: Coroutine[Any, Any, None], keeper: "_Keeper", hold: Hold) -> bool:
    """Gather until it is done or the run is cancelled; whether it was cancelled. Keeps progress meanwhile.

    ConflictError if another process has taken the run up.
    """
    working = asyncio.create_task(gathering)
    cancelling, losing = (asyncio.create_task(each.wait()) for each in (hold.cancelled, hold.lost))
    noting, enough = asyncio.create_task(keeper.keep_progress()), keeper.enough
    try:
        await asyncio.wait({working, cancelling, losing}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return False
        if losing.done():
            raise ConflictError(f"The run {keeper.run.id} was taken up by another process.")
        return True
    finally:
        enough.set()
        for task in (working, cancelling, losing):
            task.cancel()
        await asyncio.gather(working, cancelling, losing, noting, return_exceptions=True)


@dataclass(slots=True, kw_only=True)
class _Keeper:
    """The run as it is now, and its place in the store."""

    records: RunRecords
    run: Run
    etag: str
    claim: Claim
    progress: Progress
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    keeping: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def blocked(self) -> bool:
        """Whether a finding keeps the questions from being asked."""
        blocking_checks = (check for check in self.run.checks if check.level is Level.BLOCKING)
        return any(check.code not in _GOES_ON for check in blocking_checks)

    def add(self, *checks: Check) -> None:
        self.run = replace(self.run, checks=once((*self.run.checks, *checks)))

    def block(self, code: Code, message: str) -> None:
        self.add(Check(code=code, level=Level.BLOCKING, message=message))

    def inspected(self, found: Inspection) -> None:
        self.run = replace(
            self.run,
            baseline=found.baseline,
            candidate=found.candidate,
            checks=(*self.run.checks, *found.checks),
        )

    def took(self, **seconds: float) -> None:
        """Note how long a part took, this time: after a restart only what was left of it."""
        noted = {
            **self.run.manifest.get("seconds", {}),
            **{part: round(each, 3) for part, each in seconds.items()},
        }
        self.run = replace(self.run, manifest={**self.run.manifest, "seconds": noted})

    def reached(self, **at_once: int) -> None:
        """Note how many requests the service had at once, this time."""
        self.run = replace(self.run, manifest={**self.run.manifest, "at_once": at_once})

    def found(self, findings: Findings) -> None:
        self.add(*findings.checks)
        self.count(other=findings.requests, semantic=findings.semantic)

    def changes(self, found: Changes) -> None:
        self.add(*found.checks)
        self.count(other=found.requests)
        self.run = replace(self.run, differences=found.differences, inventories=found.inventories)

    def count(self, *, other: int, semantic: int = 0) -> None:
        """Requests beside the comparison's."""
        before = self.run.requests
        counted = replace(before, other=before.other + other, semantic=before.semantic + semantic)
        self.run = replace(self.run, requests=counted)

    def noting(self, on_progress: OnProgress) -> OnObserved:
        def note(done: int, planned: int) -> None:
            self.progress = Progress(done=done, planned=planned)
            on_progress(replace(self.run, progress=self.progress))

        return note

    async def begin(self, now: datetime) -> None:
        """Write the claim into the run's status. ConflictError if one of a higher number is there."""
        while True:
            if self.run.manifest.get("starts", 0) >= self.claim.number or self.run.state is State.DONE:
                raise ConflictError(f"The run {self.run.id} was taken up by another process.")
            begun = replace(
                self.run,
                state=State.RUNNING,
                started_at=self.run.started_at or now,
                manifest={**self.run.manifest, "starts": self.claim.number, "claim": self.claim.by},
            )
            try:
                self.etag = await self.records.replace(begun, self.etag)
            except ConflictError:  # a former holder's last write
                self.run, self.etag = await self.records.read(self.run.id)
            else:
                self.run = begun
                break
        if self.claim.number > MAX_STARTS:
            self.block(Code.INTERRUPTED, f"The run was begun {MAX_STARTS} times without coming to its end.")

    async def keep(self) -> None:
        """Keep the run as it is now. ConflictError if another execution has claimed it."""
        async with self.keeping:
            try:
                self.etag = await self.records.replace(self.run, self.etag)
            except ConflictError:
                stored, etag = await self.records.read(self.run.id)
                if stored.manifest.get("claim") != self.claim.by:
                    raise
                self.etag = await self.records.replace(self.run, etag)  # a write of ours, its answer lost

    async def keep_progress(self) -> None:
        """Until `enough`: note progress in the stored status. That it cannot be noted now is no harm."""
        while not self.enough.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.enough.wait(), KEEP_PROGRESS_EVERY)
            if self.progress != self.run.progress and not self.enough.is_set():
                self.run = replace(self.run, progress=self.progress)
                with suppress(StorageError):
                    await self.keep()


@dataclass(slots=True, kw_only=True)
class _Requests:
    """Requests counted from the observations, on top of those beside them."""

    queries: Queries
    beside: Requests
    comparison: int = 0
    retries: int = 0
    semantic: int = 0
    throttled: int = 0

    def add(self, each: QuestionResult) -> None:
        for side in Side:
            for observation in observations(each, side):
                self.comparison += min(observation.attempts, 1)
                self.retries += max(observation.attempts - 1, 0)
                self.throttled += observation.throttled
                self.semantic += observation.attempts if self.queries.of(side).semantic else 0

    def counted(self) -> Requests:
        return replace(
            self.beside,
            comparison=self.comparison,
            semantic=self.beside.semantic + self.semantic,
            retries=self.retries,
            throttled=self.throttled,
        )
