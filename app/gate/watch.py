"""Watch what was promoted: its critical questions asked as applications ask them, until they hold."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import count

from app.domain.audit import Entry, Kind, Record, last_flip, of_flip
from app.domain.errors import GateError, LiveError, NotFoundError, StorageError
from app.domain.observation import Observation, forbidden_hits
from app.domain.outcome import Observed
from app.domain.overrides import waived
from app.domain.query import Session, joined_filter
from app.domain.review import Ruling, standing
from app.domain.run import Run
from app.domain.watch import Shown, Watch, Watched, WatchedQuestion, shown, together
from app.gate.background import Background
from app.gate.compare import observed as observation_of
from app.gate.control import THE_GATE, LiveControl
from app.gate.flip import settle_when_due
from app.gate.ports import Ask
from app.gate.reviews import carried, overrides_of
from app.gate.rollback import RollbackRequest, refusal, rollback
from app.gate.telemetry import RUN

log = logging.getLogger(__name__)

_AT_THEIR_OWN_PACE = (
    "Applications go over to it at their own pace: each when it next refreshes its configuration, or when the "
    "alias has reached every part of the search service. Until then some still ask the index before."
)


async def watch(control: LiveControl, flip: Record) -> Record | None:
    """Watch a promotion (its record, of kind `promoted`) and record the result; the record, of kind `watched`.

    Every watched question is asked until it holds, a bounded number of times, and again after the place's
    propagation time; the second time decides. A failure is rolled back where the run's policy says
    `auto_rollback`; what could not be asked is not a failure, and never rolled back. Done once: what was watched
    is not watched again, and a roll back that a crash cut off is made up for. None where the record is not
    of a promotion, or its run is gone.
    """
    if flip.kind is not Kind.PROMOTED or flip.run is None:
        return None
    done = of_flip(await control.trail.records(), Kind.WATCHED, flip)
    try:
        run, _ = await control.records.read(flip.run)
        if done is None:
            done = await _record(control, flip, await _Watching.begin(control, flip, run))
    except NotFoundError as error:
        log.warning("the promotion of record %d cannot be watched: %s", flip.number, error)
        return done
    if done.watch is not None and done.watch.state is Watch.FAILED and run.policy.auto_rollback:
        await _roll_back(control, flip, done.watch)
    return done


async def _record(control: LiveControl, flip: Record, watching: "_Watching") -> Record:
    result = await watching.result()

    def decide(records: tuple[Record, ...]) -> Entry | None:
        if of_flip(records, Kind.WATCHED, flip) is not None:  # another process watched it, too
            return None
        return Entry(
            kind=Kind.WATCHED,
            at=control.now(),
            actor=flip.actor,
            run=flip.run,
            before=flip.before,
            after=flip.after,
            etag_after=flip.etag_after,
            intent=flip.number,
            watch=result,
            reason=result.note,
        )

    recorded = await control.trail.append(decide)
    found = recorded or of_flip(await control.trail.records(), Kind.WATCHED, flip)
    if found is None:
        raise AssertionError("it is recorded, by this process or another")
    return found


async def _roll_back(control: LiveControl, flip: Record, result: Watched) -> None:
    """Back to the index before, unless that was done, refused, or something else was done since.

    What stands in the way for a while is waited for, a bounded number of times; then that is the refusal, so that
    nobody waits for what does not come.
    """
    failed = ", ".join(each.id for each in result.failed)
    request = RollbackRequest(
        to=flip.before,
        confirm_live=flip.after,
        reason=f"auto_rollback: after the promotion of run {flip.run} these failed: {failed}",
    )
    for tries in count(1):
        failure = await _tried(control, flip, request)
        if failure is None:
            return
        log.error("a promotion that failed its watch was not rolled back: %s", failure)
        if tries >= control.limits.watch_tries:
            await _give_up(control, flip, request, failure)
            return
        await asyncio.sleep(control.limits.watch_pause_seconds)


async def _tried(control: LiveControl, flip: Record, request: RollbackRequest) -> GateError | None:
    """Why it was not rolled back; None: it was, or is not to be any more."""
    try:
        await settle_when_due(control)
        if _stands(await control.trail.records(), flip):
            await rollback(control, request, by=THE_GATE, watched=flip.number)
    except GateError as error:
        return error
    return None


async def _give_up(control: LiveControl, flip: Record, request: RollbackRequest, failure: GateError) -> None:
    refused = refusal(control, request, None, str(failure), by=THE_GATE, watched=flip.number)
    entry = replace(refused, before=flip.after)
    await control.trail.append(lambda records: entry if _stands(records, flip) else None)


def _stands(records: Sequence[Record], flip: Record) -> bool:
    """Whether the change is the last one, and its roll back was not refused."""
    last = last_flip(records)
    return last is not None and last.number == flip.number and of_flip(records, Kind.REFUSED, flip) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watching:
    """One watch: the run's questions to ask, and of which it is accepted that they are lost."""

    control: LiveControl
    flip: Record
    run: Run
    questions: Sequence[Observed]
    accepted: frozenset[str]

    @classmethod
    async def begin(cls, control: LiveControl, flip: Record, run: Run) -> "_Watching":
        accepted = await _accepted(control, run)
        outline = await control.records.outline(run.id)
        wanted = await asyncio.to_thread(
            lambda: [each.id for each in outline if each.critical or each.id in accepted]
        )
        questions = await control.records.questions(run.id, wanted)
        return cls(control=control, flip=flip, run=run, questions=questions, accepted=accepted)

    @property
    def index(self) -> str:
        """What is asked: the alias where applications ask one, else the index that is live."""
        return self.control.pointer.alias or str(self.flip.after)

    async def result(self) -> Watched:
        found: Mapping[str, WatchedQuestion] = {}
        unread: LiveError | None = None
        for wait in (0.0, self._propagation_left()):
            await asyncio.sleep(wait)
            found = await self._until_they_hold(found)
            try:
                live, unread = await self.control.live(), None
            except LiveError as error:
                unread = error
                continue
            if live is None or live.index != self.flip.after:
                now = repr(live.index) if live else "nothing"
                note = f"Live is {now} by now, and no longer {self.flip.after!r}: there is nothing more to watch."
                return Watched(
                    state=Watch.SUPERSEDED, asked=self.index, questions=tuple(found.values()), note=note
                )
        return self._told(tuple(found.values()), unread)

    def _propagation_left(self) -> float:
        age = (self.control.now() - self.flip.at).total_seconds()
        told = self.control.limits.propagation_seconds
        takes = self.control.pointer.propagation_seconds if told is None else told
        return max(takes - age, 0.0)

    async def _until_they_hold(self, before: Mapping[str, WatchedQuestion]) -> Mapping[str, WatchedQuestion]:
        """Every question asked until it holds or is as it was judged, at most `watch_tries` times."""
        found = dict(before)
        left = list(self.questions)
        for tries in count(1):
            for each in await self._ask_all(left, found):
                found[each.id] = each
            left = [each for each in left if found[each.id].shown in (Shown.FAILED, Shown.ERROR)]
            if not left or tries >= self.control.limits.watch_tries:
                return found
            await asyncio.sleep(self.control.limits.watch_pause_seconds)
        raise AssertionError("never reached")

    async def _ask_all(
        self, questions: Sequence[Observed], before: Mapping[str, WatchedQuestion]
    ) -> list[WatchedQuestion]:
        limiter = asyncio.Semaphore(self.control.limits.watch_concurrency)

        async def one(question: Observed) -> WatchedQuestion:
            tries = before[question.id].tries if question.id in before else 0
            async with limiter:
                return await self._ask(question, tries + 1)

        return list(await asyncio.gather(*(one(question) for question in questions)))

    async def _ask(self, question: Observed, tries: int) -> WatchedQuestion:
        judged = question.candidate[0].rank if question.candidate else None
        accepted = question.id in self.accepted
        try:
            seen = await self._observe(question)
        except GateError as error:
            return WatchedQuestion(
                id=question.id,
                shown=Shown.ERROR,
                rank=None,
                judged=judged,
                tries=tries,
                accepted=accepted,
                message=str(error),
            )
        return WatchedQuestion(
            id=question.id,
            shown=shown(question, seen, self.run.query),
            rank=seen.rank,
            judged=judged,
            tries=tries,
            accepted=accepted,
            forbidden=forbidden_hits(question, seen),
        )

    async def _observe(self, question: Observed) -> Observation:
        """One answer, asked with the candidate's query: the one that applications send after the change."""
        query, fields, deadline = self.run.query.candidate, self.run.candidate.fields, self.control.deadline()
        if fields is None:
            raise StorageError(f"The run {self.run.id} does not tell the candidate's fields.")
        vector = None
        if query.embedding is not None:
            vector = await self.control.embedder.embed(query.embedding, question.question, deadline)
        ask = Ask(
            index=self.index,
            text=question.question,
            query=query,
            fields=fields,
            filter=joined_filter(query.filter, question.filter),
            vector=vector,
            session=f"watch-{self.flip.number}" if query.session is Session.RUN else None,
        )
        return observation_of(question, await self.control.search.ask(ask, deadline), query, with_text=False)

    def _told(self, questions: tuple[WatchedQuestion, ...], unread: LiveError | None) -> Watched:
        """`unread`: why it is not known what is live in the end; only a failure outweighs that."""
        state = together(questions)
        named = {each: [q.id for q in questions if q.shown is each] for each in Shown}
        many, good = len(questions), len(named[Shown.HOLDS])
        told = [
            f"{many} question{'' if many == 1 else 's'} asked of {self.index!r}: {good} hold{'s' if good == 1 else ''}."
        ]
        for each, what in (
            (Shown.AS_JUDGED, "are out of context, as they were judged"),
            (Shown.FAILED, "FAILED"),
            (Shown.ERROR, "could not be asked"),
        ):
            if named[each]:
                told.append(f"{len(named[each])} {what}: {', '.join(named[each])}.")
        if not questions:
            told = ["The run has no critical, accepted or overridden question: nothing was asked."]
        if unread is not None:
            state = Watch.FAILED if state is Watch.FAILED else Watch.ERROR
            told.append(f"What is live could not be read: {unread}")
        return Watched(
            state=state, asked=self.index, questions=questions, note=" ".join([*told, _AT_THEIR_OWN_PACE])
        )


async def _accepted(control: LiveControl, run: Run) -> frozenset[str]:
    """The questions of which a reviewer, or the override that clears the run, says that they may be lost."""
    day = control.now().astimezone(UTC).date()
    own = standing(await control.records.reviews(run.id), day)
    latest = {
        name: each[0] for name, each in (await carried(control.records, run, None, day)).items() if each
    }
    decided = {**latest, **own}
    override = waived(run, await overrides_of(control.records, run.id))
    named = override.questions if override else ()
    accepted = (
        name for name, each in decided.items() if each.counts and each.review.decision is Ruling.ACCEPTABLE
    )
    return frozenset((*accepted, *named))


def to_watch(records: Sequence[Record]) -> Record | None:
    """The promotion that was not watched to its end: it is the last change, and not watched, or its failure
    may still have to be rolled back. None where there is none.
    """
    last = last_flip(records)
    if last is None or last.kind is not Kind.PROMOTED:
        return None
    done = of_flip(records, Kind.WATCHED, last)
    if done is None:
        return last
    failed = done.watch is not None and done.watch.state is Watch.FAILED
    return last if failed and of_flip(records, Kind.REFUSED, last) is None else None


@dataclass(slots=True, kw_only=True)
class Watches:
    """The watches of this process, one task each. What it leaves undone, the next start takes up."""

    control: LiveControl
    _work: Background = field(default_factory=Background)
    _watching: set[int] = field(default_factory=set)

    def launch(self, flip: Record) -> None:
        """Watch a promotion in the background, unless that is under way here."""
        if flip.number not in self._watching:
            self._watching.add(flip.number)
            self._work.begin(self._watch(flip))

    def resume(self) -> None:
        """Take up, in the background, what a process before this one left: an open change, an undone watch.

        Called when the service starts.
        """
        self._work.begin(self._resume())

    async def done(self) -> None:
        """Until every watch of this process has come to its end."""
        await self._work.done()

    async def stop(self) -> None:
        """End the work of this process."""
        await self._work.stop()

    async def _resume(self) -> None:
        try:
            await take_up(self.control)
        except GateError as error:
            log.error("what an earlier process left of a promotion was not taken up: %s", error)  # noqa: TRY400
        except Exception:
            log.exception("what an earlier process left of a promotion was not taken up")

    async def _watch(self, flip: Record) -> None:
        RUN.set(flip.run)  # in the context of this task alone
        try:
            await watch(self.control, flip)
        except GateError as error:
            log.error("the promotion of record %d was not watched: %s", flip.number, error)  # noqa: TRY400
        except Exception:
            log.exception("the promotion of record %d was not watched", flip.number)
        finally:
            self._watching.discard(flip.number)


async def take_up(control: LiveControl) -> None:
    """Settle what a dead process left open, once it is old enough, and watch what was not watched to its end."""
    await settle_when_due(control)
    flip = to_watch(await control.trail.records())
    if flip is not None:
        await watch(control, flip)
