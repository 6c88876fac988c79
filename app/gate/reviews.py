"""Decisions on the questions of a run, and overrides of a run: taken, kept and found again. Append-only."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date

from app.domain.decision import result, results
from app.domain.errors import ConflictError, DamagedError, Fault, InputError
from app.domain.golden import GoldenTexts, Question
from app.domain.label_fixes import corrected, label_fixes, patch
from app.domain.overrides import Override, OverrideDraft, overridden, waived
from app.domain.reasons import Verdict
from app.domain.review import (
    Review,
    ReviewDraft,
    Signature,
    Standing,
    newest_first,
    reviewable,
    reviewed,
    standing,
    stands,
    subject,
)
from app.domain.run import Run, State
from app.gate.records import Pointer, RunRecords

CARRIED = 5  # earlier decisions that are shown of a question, the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewView:
    """All that was decided on a run, as it stands on a day. Lists are newest first.

    `standing`: the latest decision on each reviewed question. `carried`: by question, decisions that were
    taken on it in earlier runs, at most `CARRIED`. `waived`: the override that clears the run, if one does.
    """

    reviews: tuple[Review, ...]
    standing: Mapping[str, Standing]
    carried: Mapping[str, tuple[Standing, ...]]
    overrides: tuple[Override, ...]
    waived: Override | None

    def of(self, question: str) -> tuple[Review, ...]:
        """Every decision on the question in this run."""
        return tuple(review for review in self.reviews if review.question == question)

    def decision(self, question: str) -> Standing | None:
        """What counts of the question: this run's latest decision, or else the latest of an earlier run; None
        where there is none, or the one there is has expired.
        """
        own = self.standing.get(question)
        latest = own or next(iter(self.carried.get(question, ())), None)
        return latest if latest is not None and latest.counts else None


async def review(records: RunRecords, run_id: str, draft: ReviewDraft, signature: Signature) -> Review:
    """A decision on a question of a run that is done, kept.

    InputError with all that is wrong with it, NotFoundError for an unknown run, ConflictError for one that is
    not done.
    """
    run = await _done(records, run_id)
    found = await records.questions(run_id, [draft.question])
    if not found:
        message = f"question: the run has no question {draft.question!r}"
        raise InputError([Fault(where="request", message=message)])
    observed = found[0]
    decided = reviewed(draft, result(observed, run.query), run.query, run=run.id, signature=signature)
    await records.keep_review(decided, subject(run.golden_set.name, observed), run.golden_set.name)
    return decided


async def override(records: RunRecords, run_id: str, draft: OverrideDraft, signature: Signature) -> Override:
    """An override of a failed run, kept; the run itself stays as it is. Errors as for `review`."""
    run = await _done(records, run_id)
    given = overridden(draft, run, signature)
    await records.keep_override(given)
    return given


async def review_view(
    records: RunRecords, run_id: str, on: date, questions: Iterable[Question] | None = None
) -> ReviewView:
    """All that was decided on a run, as of that day.

    `questions`: those for which earlier decisions are looked up; None: every one of the run that can be
    reviewed.
    """
    run, _ = await records.read(run_id)
    reviews = newest_first(await records.reviews(run_id))
    overrides = await overrides_of(records, run_id)
    return ReviewView(
        reviews=reviews,
        standing=standing(reviews, on),
        carried=await carried(records, run, questions, on),
        overrides=overrides,
        waived=waived(run, overrides),
    )


async def carried(
    records: RunRecords, run: Run, questions: Iterable[Question] | None, on: date
) -> dict[str, tuple[Standing, ...]]:
    """By question, what was decided on it in earlier runs: same set name, id, text and answers. The newest
    first, at most `CARRIED`; questions without any are left out. `questions` as for `review_view`.
    """
    earlier = [each for each in await records.pointers(run.golden_set.name) if each.run < run.id]
    if not earlier:
        return {}
    if questions is None:
        questions = await _reviewable(records, run)
    pointers = list(
        _of_questions(earlier, {subject(run.golden_set.name, each): each.id for each in questions})
    )
    found = await records.pointed([pointer for _, pointer in pointers])
    by_question: defaultdict[str, list[Standing]] = defaultdict(list)
    for (question, _), each in zip(pointers, found, strict=True):
        if each is not None and len(by_question[question]) < CARRIED:
            by_question[question].append(stands(each, on))
    return {question: tuple(standings) for question, standings in by_question.items() if standings}


def _of_questions(pointers: Sequence[Pointer], subjects: Mapping[str, str]) -> Iterator[tuple[str, Pointer]]:
    """The newest pointers to decisions on these subjects, with the question; some to spare for dangling ones."""
    taken: defaultdict[str, int] = defaultdict(int)
    for pointer in sorted(pointers, key=lambda each: each.review, reverse=True):
        if pointer.subject in subjects and taken[pointer.subject] < 2 * CARRIED:
            taken[pointer.subject] += 1
            yield subjects[pointer.subject], pointer


async def _reviewable(records: RunRecords, run: Run) -> list[Question]:
    if run.state is not State.DONE:
        return []
    observed = await records.outline(run.id)
    return await asyncio.to_thread(
        lambda: [each for each in results(observed, run.query) if reviewable(each)]
    )


async def overrides_of(records: RunRecords, run_id: str) -> tuple[Override, ...]:
    """All overrides of a run, newest first."""
    return tuple(reversed(await records.overrides(run_id)))


async def waiver_of(records: RunRecords, run: Run) -> Override | None:
    """The override that clears the run; None where none does."""
    return waived(run, await records.overrides(run.id)) if run.verdict is Verdict.FAIL else None


async def waivers(records: RunRecords, runs: Sequence[Run]) -> dict[str, Override]:
    """Of these runs, each that is cleared, with the override that clears it: for lists of runs."""
    failed = [run for run in runs if run.verdict is Verdict.FAIL]
    if not failed:
        return {}
    named = await records.overridden()
    found = {}
    for run in failed:
        with suppress(DamagedError):  # what cannot be read clears nothing, and hides no other run
            if run.id in named and (cleared := waived(run, await records.overrides(run.id))):
                found[run.id] = cleared
    return found


async def corrected_set(records: RunRecords, run_id: str, on: date) -> GoldenTexts:
    """The run's golden set with every label corrected that is out of date by the decision that stands in this
    run; as it was received where there is none. ConflictError where the run is not done.
    """
    received, fixed = await _both_sets(records, run_id, on)
    return replace(received, jsonl=fixed)


async def label_patch(records: RunRecords, run_id: str, on: date) -> bytes:
    """The same as a patch against the set as it was received; empty where nothing is corrected."""
    received, fixed = await _both_sets(records, run_id, on)
    return await asyncio.to_thread(patch, received.name, received.jsonl, fixed)


async def _both_sets(records: RunRecords, run_id: str, on: date) -> tuple[GoldenTexts, str]:
    run = await _done(records, run_id)
    fixes = label_fixes(standing(await records.reviews(run_id), on))
    received = await records.texts(run)
    return received, await asyncio.to_thread(corrected, received.jsonl, fixes)


async def _done(records: RunRecords, run_id: str) -> Run:
    run, _ = await records.read(run_id)
    if run.state is not State.DONE:
        raise ConflictError(f"The run {run_id} is not done yet: there is nothing to decide.")
    return run
