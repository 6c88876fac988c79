"""What people decide about the questions of a run. A decision changes no verdict, and is never taken back:
a later one stands over it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum

from app.domain.errors import Fault, InputError
from app.domain.fingerprint import json_digest
from app.domain.golden import GoldenTexts, Question
from app.domain.outcome import Outcome, QuestionResult
from app.domain.query import Queries
from app.domain.reading import read_golden_set

Answers = tuple[str | tuple[str, ...], ...]

LONGEST_TEXT = 4000  # characters of a reason, or of what will watch
_REVIEWED = frozenset({Outcome.LOST, Outcome.STALE, Outcome.NOISY})
_PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Ruling(StrEnum):
    """What a reviewer says of a question."""

    REAL_LOSS = "real-loss"  # the candidate is worse
    LABEL_OUT_OF_DATE = "label-out-of-date"  # the set is wrong, other documents answer it
    ACCEPTABLE = "acceptable"  # worse, and bearable


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Who decided, when (with its offset), and a random mark that tells decisions of one moment apart.

    The mark is of `[a-z0-9-]`. `by` is None where nobody is signed in.
    """

    by: str | None
    at: datetime
    mark: str

    @property
    def id(self) -> str:
        """An id of its own; ids sort by time."""
        return f"{self.at.astimezone(UTC):%Y%m%d-%H%M%S-%f}-{self.mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDraft:
    """A decision on one question, before it is checked and signed.

    `answers`: the label's new entries, in the form of a golden set, for `label-out-of-date` only. `expires`:
    the last day on which an acceptance counts, UTC. `watch`: what will watch for it after the cut-over.
    """

    question: str
    decision: Ruling
    reason: str | None = None
    answers: Answers = ()
    expires: date | None = None
    watch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review(ReviewDraft):
    """A decision that was taken."""

    id: str
    run: str
    by: str | None = None
    at: datetime

    def expired(self, on: date) -> bool:
        """Whether it is an acceptance that does not count any more on that day."""
        return self.expires is not None and on > self.expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A decision as it stands on a day. An expired one is shown, and does not count."""

    review: Review
    expired: bool

    @property
    def counts(self) -> bool:
        return not self.expired


def reviewable(result: QuestionResult) -> bool:
    """Whether there is something to decide: lost, stale, noisy, or critical and lost whatever the outcome."""
    return result.critical_lost or result.outcome in _REVIEWED


def reviewed(
    draft: ReviewDraft, result: QuestionResult, queries: Queries, *, run: str, signature: Signature
) -> Review:
    """The decision on a question of a run, signed. InputError with everything that is wrong with it."""
    plain = _without_blanks(draft)
    found = _faults(plain, result, queries, signature.at.astimezone(UTC).date())
    faults = [Fault(where="request", message=message) for message in found]
    if faults:
        raise InputError(faults)
    return Review(
        question=result.id,
        decision=plain.decision,
        reason=plain.reason,
        answers=plain.answers,
        expires=plain.expires,
        watch=plain.watch,
        id=signature.id,
        run=run,
        by=signature.by,
        at=signature.at,
    )


def _without_blanks(draft: ReviewDraft) -> ReviewDraft:
    return ReviewDraft(
        question=draft.question,
        decision=draft.decision,
        reason=written(draft.reason),
        answers=draft.answers,
        expires=draft.expires,
        watch=written(draft.watch),
    )


def written(text: str | None) -> str | None:
    """The text without space around it; None where nothing is left."""
    return (text or "").strip() or None


def text_faults(**texts: str | None) -> Iterator[str]:
    """What makes a text of a reviewer unfit to be kept."""
    for name, text in texts.items():
        if text is not None and len(text) > LONGEST_TEXT:
            yield f"{name}: has {len(text)} characters, and may have {LONGEST_TEXT}"
        if text is not None and not _utf8(text):
            yield f"{name}: holds half of a surrogate pair"


def _utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _faults(draft: ReviewDraft, result: QuestionResult, queries: Queries, today: date) -> Iterator[str]:
    yield from text_faults(reason=draft.reason, watch=draft.watch)
    if not reviewable(result):
        yield (
            f"question: {result.id!r} is {result.outcome.value}: only lost, noisy and stale questions are reviewed"
        )
    if draft.decision is Ruling.ACCEPTABLE:
        if draft.reason is None:
            yield "reason: is required for acceptable"
        if draft.expires is not None and draft.expires < today:
            yield f"expires: {draft.expires} has passed already"
    elif draft.expires is not None:
        yield "expires: only what is acceptable can expire"
    if draft.decision is Ruling.LABEL_OUT_OF_DATE:
        yield from _answer_faults(draft.answers, result, queries)
    elif draft.answers:
        yield "answers: only for label-out-of-date"


def _answer_faults(answers: Answers, result: QuestionResult, queries: Queries) -> Iterator[str]:
    if not answers:
        yield "answers: the documents that answer the question now are required for label-out-of-date"
        return
    if answers == result.answers:
        yield "answers: are those of the golden set already"
    context_size = min(queries.baseline.context_size, queries.candidate.context_size)
    yield from _label_faults(answers, result, context_size)
    known = {*shown_documents(result), *result.labelled_documents}
    for document in dict.fromkeys(documents_of(answers)):
        if document not in known:
            yield f"answers: {document!r} was shown by no observation of this question"


def _label_faults(answers: Answers, question: Question, context_size: int) -> Iterator[str]:
    """What the reader of golden sets would say of the question with these answers."""
    line = {
        "id": question.id,
        "question": question.question,
        "answers": answers,
        "require_all": question.require_all,
        "forbidden": question.forbidden,
    }
    settings = (
        f'[query]\nmode = "keyword"\nsemantic = false\n'
        f"candidates = {context_size}\ncontext_size = {context_size}\n"
    )
    try:
        read_golden_set(GoldenTexts(name="review", jsonl=json.dumps(line), toml=settings))
    except InputError as error:
        yield from (fault.message for fault in error.faults)


def shown_documents(result: QuestionResult) -> tuple[str, ...]:
    """The documents that any observation showed, the candidate's first, each once, in rank order."""
    hits = (hit for each in (*result.candidate, *result.baseline) for hit in each.hits)
    return tuple(dict.fromkeys(hit.parent for hit in hits if hit.parent is not None))


def documents_of(answers: Answers) -> Iterator[str]:
    """Every document that the entries name, in their order."""
    for entry in answers:
        if isinstance(entry, str):
            yield entry
        else:
            yield from entry


def newest_first(reviews: Iterable[Review]) -> tuple[Review, ...]:
    return tuple(sorted(reviews, key=lambda review: (review.at, review.id), reverse=True))


def standing(reviews: Iterable[Review], on: date) -> dict[str, Standing]:
    """The latest decision on each question, as it stands on that day. A former one never comes back, even
    where the latest has expired.
    """
    latest: dict[str, Review] = {}
    for review in newest_first(reviews):
        latest.setdefault(review.question, review)
    return {question: stands(review, on) for question, review in latest.items()}


def stands(review: Review, on: date) -> Standing:
    return Standing(review=review, expired=review.expired(on))


def subject(set_name: str, question: Question) -> str:
    """What a decision is about, so that a later run finds it: a hexadecimal digest of the set's name and the
    question's id, text and answers. The order of answers, or of alternatives, makes no difference.
    """
    entries = sorted(sorted(entry) for entry in question.entries)
    return json_digest([set_name, question.id, question.question, entries]).removeprefix("sha256:")


def anchor(question: str) -> str:
    """The fragment of a question on a run's page; a digest where the id could not stand in an address."""
    if _PLAIN_ID.fullmatch(question):
        return f"q-{question}"
    return f"x-{hashlib.sha256(question.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
