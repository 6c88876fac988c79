"""Ask both indexes all questions: the passes over the set, bounded concurrency, every observation kept."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from app.domain.errors import BrokenError, FailureCode, QueryError
from app.domain.golden import Question
from app.domain.observation import Failure, Hit, Observation, answer_rank, quotes_held, without_text
from app.domain.query import Embedding, QuerySettings, Session, Side, joined_filter
from app.domain.reasons import Code
from app.domain.run import Run
from app.domain.schedule import planned, shuffled, sides_first
from app.gate.ledger import Ledger
from app.gate.ports import Answer, Ask, Embedder, Row, SearchService
from app.gate.records import Entry, Journal
from app.gate.telemetry import QUESTION, Telemetry, about

GIVE_UP_AFTER = (
    10  # failures of one side in a row, nothing answered in between: the service is out, not a question
)

SERVICE_FAILURES = {
    FailureCode.THROTTLED: Code.THROTTLED,
    FailureCode.PARTIAL: Code.THROTTLED,
    FailureCode.UNRANKED: Code.SEMANTIC_UNAVAILABLE,
    FailureCode.TIMED_OUT: Code.TIMED_OUT,
    FailureCode.UNREACHABLE: Code.UNREACHABLE,
    FailureCode.SERVER_ERROR: Code.UNREACHABLE,
    FailureCode.VECTORIZER: Code.VECTORIZER_FAILED,
    FailureCode.PROTOCOL: Code.UNREACHABLE,
}


OnObserved = Callable[[int, int], None]  # observations made, observations planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One observation to make."""

    question: Question
    side: Side
    number: int


@dataclass(slots=True, kw_only=True)
class Comparison:
    """The asking of one run. `concurrency` observations are under way at once.

    `deadline` is on the event loop's clock, in seconds.
    """

    run: Run
    questions: Sequence[Question]
    seed: int
    search: SearchService
    embedder: Embedder
    ledger: Ledger
    journal: Journal
    concurrency: int
    deadline: float
    on_observed: OnObserved
    telemetry: Telemetry
    highest: int = 0  # requests of this process that the service had at once, at the most,
    last: int = 0  # and in the end
    _done: int = 0
    _planned: int = 0
    _failures: dict[Side, int] = field(default_factory=dict)
    _vectors: dict[tuple[Embedding, str], asyncio.Task[tuple[float, ...]]] = field(default_factory=dict)
    _kept: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)

    async def make(self) -> None:
        """Make every observation that the ledger lacks.

        Raises BrokenError when the service is out of order or the deadline has passed, StorageError and
        ConflictError when the journal cannot be written. What was observed until then is kept.
        """
        later = range(1, 1 + max(self.run.policy.noise_runs, self.run.policy.confirm_runs))
        self._planned = planned(self.questions, self.run.policy)
        writer = asyncio.create_task(self._write())
        try:
            async with asyncio.timeout_at(self.deadline):
                await self._ask_all(self._first_pass(), writer)
                for number in later:
                    tasks = list(self._later_pass(number))  # now it is known which questions are confirmed
                    self._planned = max(self._planned, self._done + len(tasks))
                    await self._ask_all(iter(tasks), writer)
        except TimeoutError:
            raise BrokenError(
                Code.TIMED_OUT, "The run's time was up before every question was asked."
            ) from None
        finally:
            self._kept.put_nowait(None)
            await writer

    def _first_pass(self) -> Iterator[Task]:
        for question, side in sides_first(self.questions, self.seed):
            yield Task(question=question, side=side, number=0)

    def _later_pass(self, number: int) -> Iterator[Task]:
        """A further look at the baseline, and at the candidate where it has to be confirmed."""
        for question in shuffled(self.questions, self.seed, number):
            if number <= self.run.policy.noise_runs:
                yield Task(question=question, side=Side.BASELINE, number=number)
            if number <= self.run.policy.confirm_runs and self.ledger.must_confirm(question):
                yield Task(question=question, side=Side.CANDIDATE, number=number)

    # asking

    async def _ask_all(self, tasks: Iterator[Task], writer: asyncio.Task[None]) -> None:
        async def work() -> None:
            for task in tasks:
                if writer.done():  # the journal cannot be written: what is asked now would be lost
                    return
                if not self.ledger.has(task.question, task.side, task.number):
                    await self._observe(task)
                self._done += 1
                self.on_observed(self._done, max(self._planned, self._done))

        workers = [asyncio.create_task(work()) for _ in range(self.concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _observe(self, task: Task) -> None:
        of = self.telemetry.observing(task.question.id, task.side, task.number)
        with about(QUESTION, task.question.id), of as seen:
            observation = await self._observation(task)
            seen(observation)
        entry = Entry(question=task.question.id, side=task.side, number=task.number, observation=observation)
        line = self.ledger.add(entry)
        if line is not None:
            self._kept.put_nowait(line)
        self._give_up_if_out(task.side, observation)

    async def _observation(self, task: Task) -> Observation:
        started = asyncio.get_running_loop().time()
        try:
            answer = await self._answer(task)
        except QueryError as error:
            elapsed = asyncio.get_running_loop().time() - started
            return failed(error, elapsed_ms=round(elapsed * 1000, 1))
        self.highest, self.last = max(self.highest, answer.at_once), answer.at_once
        query = self.run.query.of(task.side)
        return observed(task.question, answer, query, with_text=self.run.policy.evidence_text)

    async def _answer(self, task: Task) -> Answer:
        query, side = self.run.query.of(task.side), self.run.side(task.side)
        if side.fields is None:
            raise AssertionError("a side without fields is never asked")
        ask = Ask(
            index=side.index,
            text=task.question.question,
            query=query,
            fields=side.fields,
            filter=joined_filter(query.filter, task.question.filter),
            vector=await self._vector(query, task.question.question),
            session=self.run.id if query.session is Session.RUN else None,
        )
        return await self.search.ask(ask, self.deadline)

    async def _vector(self, query: QuerySettings, text: str) -> tuple[float, ...] | None:
        """The question's vector where the set brings its own embeddings: one request a question and model."""
        if query.embedding is None:
            return None
        key = (query.embedding, text)
        if key not in self._vectors:
            self._vectors[key] = asyncio.create_task(
                self.embedder.embed(query.embedding, text, self.deadline)
            )
        try:
            return await asyncio.shield(self._vectors[key])
        except QueryError:
            self._vectors.pop(key, None)  # the next observation tries again
            raise

    def _give_up_if_out(self, side: Side, observation: Observation) -> None:
        if observation.error is None:
            self._failures[side] = 0
            return
        code = SERVICE_FAILURES.get(observation.error.code)
        if code is None:
            return
        self._failures[side] = self._failures.get(side, 0) + 1
        if self._failures[side] >= GIVE_UP_AFTER:
            index = self.run.side(side).index
            raise BrokenError(
                code,
                f"{GIVE_UP_AFTER} questions in a row could not be asked of index {index!r}; the last one: "
                f"{observation.error.message}",
                index=index,
            )

    # keeping

    async def _write(self) -> None:
        """Append observations to the journal as they come, as many at once as are waiting."""
        while True:
            lines = [await self._kept.get()]
            while not self._kept.empty():
                lines.append(self._kept.get_nowait())
            ready = [line for line in lines if line is not None]
            if ready:
                await self.journal.append(ready)
            if None in lines:
                return


def observed(question: Question, answer: Answer, query: QuerySettings, *, with_text: bool) -> Observation:
    """The observation of an answer; passages of the first `context_size` rows, or their hashes."""
    hits = tuple(
        replace(
            _hit(row, rank, in_reach=rank <= query.context_size, with_text=with_text),
            holds=quotes_held(question, row.text),
        )
        for rank, row in enumerate(answer.rows, start=1)
    )
    return Observation(
        rank=answer_rank(question, hits),
        elapsed_ms=answer.elapsed_ms,
        attempts=answer.attempts,
        throttled=answer.throttled,
        hits=hits,
    )


def _hit(row: Row, rank: int, *, in_reach: bool, with_text: bool) -> Hit:
    hit = Hit(
        rank=rank,
        key=row.key,
        parent=row.parent,
        score=row.score,
        reranker_score=row.reranker_score,
        title=row.title,
        text=row.text if in_reach else None,
    )
    return hit if with_text else without_text(hit)


def failed(error: QueryError, *, elapsed_ms: float) -> Observation:
    """The observation of a question that could not be asked."""
    return Observation(
        rank=None,
        elapsed_ms=elapsed_ms,
        attempts=error.attempts,
        throttled=error.throttled,
        error=Failure(code=error.code, message=str(error)),
    )
