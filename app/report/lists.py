"""The questions of a run in the lists that a page shows, gathered in one pass and cut to what is shown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from math import isfinite

from markupsafe import Markup

from app.domain.golden import Question
from app.domain.observation import Hit, Observation, source
from app.domain.outcome import Outcome, QuestionResult, failed
from app.domain.query import QuerySettings, Side
from app.domain.review import anchor, reviewable
from app.domain.run import Run
from app.report.escaping import clipped, visible
from app.report.evidence import (
    Expected,
    Loss,
    Losses,
    Shown,
    dropped,
    expected,
    failures,
    forbidden_places,
    in_reach,
    moved,
    owner,
    shown,
    stale_in_words,
    titles,
    where_it_went,
)
from app.report.findings import Findings, Section
from app.report.passages import passage, terms

_QUESTION_CHARACTERS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A question in one line of a table. `before` and `after` are the ranks that the pictures show.

    `home`: whether links to the question lead here; it may stand in other lists too. `offers`: documents that
    a reviewer may name as its new answers; empty where there is nothing to decide. `all`: whether every
    answer must be there.
    """

    id: str
    anchor: str
    question: str
    critical: bool
    slices: tuple[str, ...]
    ranks: str
    note: str
    owner: str
    cause: str
    outcome: Outcome
    before: int | None
    after: int | None
    home: bool
    offers: tuple["Offer", ...]
    all: bool

    @property
    def slice(self) -> str:
        return ", ".join(self.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A document that a reviewer may name as a new answer."""

    document: str
    title: str
    labelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One chunk of a context. `marks` are the words that set it apart."""

    rank: int
    name: str
    parent: str | None
    scores: str
    text: Markup | None
    fingerprint: str | None
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One side of a lost question. `note` stands in the place of chunks that are not there, `foot` says where
    the answer is if it is not among them.
    """

    title: str
    chunks: tuple[Chunk, ...]
    note: str
    foot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A lost question. `contexts`: None where the page would become too large."""

    row: Row
    unstable: bool
    expected: tuple[Expected, ...]
    where: str
    lost: Loss
    note: str | None
    contexts: "Contexts | None"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Both contexts side by side."""
        return _columns(self.contexts, self.where) if self.contexts is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """What the contexts of a lost question are drawn from, when they are shown."""

    question: Question
    pair: Shown
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which questions a reader wants to see; an empty value asks for all."""

    slice: str = ""
    cause: str = ""
    owner: str = ""
    text: str = ""

    @property
    def chosen(self) -> bool:
        return any((self.slice, self.cause, self.owner, self.text))

    def takes(self, row: Row) -> bool:
        return (
            (not self.slice or self.slice in row.slices)
            and self.cause in ("", row.cause)
            and self.owner in ("", row.owner)
            and self.text.casefold() in f"{row.id} {row.question}".casefold()
        )


@dataclass(slots=True, kw_only=True)
class Lists:
    """All questions by the section that they stand in. `times` are those of the first observations, in
    milliseconds, of every question that was answered on both sides.
    """

    findings: Findings
    losses: Losses
    forbidden: list[Row] = field(default_factory=list)
    forbidden_now: list[Row] = field(default_factory=list)
    critical: list[Card] = field(default_factory=list)
    plain: list[Card] = field(default_factory=list)
    noisy: list[Row] = field(default_factory=list)
    gained: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    stale: list[Row] = field(default_factory=list)
    unlabelled: list[Row] = field(default_factory=list)
    unchanged: list[Row] = field(default_factory=list)
    times: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))

    @property
    def lost(self) -> list[Card]:
        """Critical ones first."""
        return [*self.critical, *self.plain]

    @property
    def evaluated(self) -> Iterator[Row]:
        """The questions of which something was measured, each once."""
        yield from (card.row for card in self.lost)
        yield from self.noisy
        yield from self.gained
        yield from self.unchanged

    def sections(self) -> tuple[Section, ...]:
        return self.findings.sections()

    def filtered(self, wanted: Filter) -> "Lists":
        """The same with only the questions that are wanted."""
        if not wanted.chosen:
            return self

        def rows(every: list[Row]) -> list[Row]:
            return [row for row in every if wanted.takes(row)]

        return replace(
            self,
            forbidden=rows(self.forbidden),
            forbidden_now=rows(self.forbidden_now),
            critical=[card for card in self.critical if wanted.takes(card.row)],
            plain=[card for card in self.plain if wanted.takes(card.row)],
            noisy=rows(self.noisy),
            gained=rows(self.gained),
            errors=rows(self.errors),
            stale=rows(self.stale),
            unlabelled=rows(self.unlabelled),
            unchanged=rows(self.unchanged),
        )

    def with_contexts(self, run: Run, results: Iterable[QuestionResult]) -> "Lists":
        """The same with the contexts of these lost questions."""
        found = ((each, self.losses.of(each)) for each in results)
        seen = {each.id: _card(each, run, lost, with_contexts=True) for each, lost in found if lost}

        def cards(every: list[Card]) -> list[Card]:
            return [seen.get(card.row.id, card) for card in every]

        return replace(self, critical=cards(self.critical), plain=cards(self.plain))

    @classmethod
    def of(cls, run: Run, results: Iterable[QuestionResult], *, contexts: int) -> "Lists":
        """`contexts`: how many lost questions keep their contexts beside all critical ones; 0: not one does.
        Without them the outline of each question is enough (`outline.outlined`).
        """
        lists = cls(findings=Findings(run), losses=Losses.of_run(run))
        for each in results:
            lists._add(each, run, contexts)
        return lists

    def _add(self, each: QuestionResult, run: Run, contexts: int) -> None:
        """A question may stand in two lists: what failed, or has a stale label, is always named as such."""
        self.findings.add(each)
        self._time(each)
        for side, rows in ((Side.CANDIDATE, self.forbidden), (Side.BASELINE, self.forbidden_now)):
            shows = forbidden_places(each, side) if each.forbidden else ""
            if shows:
                rows.append(_row(each, run, shows, home=False))
        lost = self.losses.of(each)
        if lost is not None and each.critical_lost:
            self.critical.append(_card(each, run, lost, with_contexts=contexts > 0))
        elif lost is not None:
            self.plain.append(_card(each, run, lost, with_contexts=len(self.plain) < contexts))
        if failed(each):
            home = each.outcome is Outcome.ERROR and not each.critical_lost
            self.errors.append(_row(each, run, "; ".join(failures(each)), home=home))
        if each.missing.in_both:
            home = each.outcome is Outcome.STALE and not each.critical_lost
            self.stale.append(_row(each, run, stale_in_words(each), home=home))
        match each.outcome:
            case Outcome.NOISY if not each.critical_lost:
                self.noisy.append(_row(each, run, ""))
            case Outcome.GAINED:
                self.gained.append(_row(each, run, ""))
            case Outcome.UNLABELLED:
                self.unlabelled.append(_row(each, run, each.note or ""))
            case Outcome.KEPT:
                self.unchanged.append(_row(each, run, "kept"))
            case Outcome.ABSENT:
                self.unchanged.append(_row(each, run, "absent from both contexts"))
            case _:
                pass

    def _time(self, each: QuestionResult) -> None:
        first = (each.baseline[:1], each.candidate[:1])
        if all(side and side[0].error is None and isfinite(side[0].elapsed_ms) for side in first):
            for side, times in zip(first, self.times, strict=True):
                times.append(side[0].elapsed_ms)


def _row(each: QuestionResult, run: Run, note: str, *, home: bool = True, cause: str = "") -> Row:
    pair = shown(each, run.query)
    return Row(
        id=each.id,
        anchor=anchor(each.id),
        question=clipped(each.question, _QUESTION_CHARACTERS),
        critical=each.critical,
        slices=each.slice,
        ranks=moved(each, run.query) if each.answers else "–",
        note=note,
        owner=owner(each, run),
        cause=cause,
        outcome=each.outcome,
        before=pair.before.rank if pair.before is not None else None,
        after=pair.after.rank if pair.after is not None else None,
        home=home,
        offers=tuple(_offers(each, pair, run)) if reviewable(each) else (),
        all=each.require_all,
    )


def _card(each: QuestionResult, run: Run, lost: Loss, *, with_contexts: bool) -> Card:
    pair = shown(each, run.query)
    return Card(
        row=_row(each, run, "", cause=lost.cause),
        unstable=each.outcome is not Outcome.LOST,
        expected=expected(each, pair),
        where=where_it_went(each, pair.after, run.query.candidate, lost.returned),
        lost=lost,
        note=each.note,
        contexts=_contexts(each, pair, run) if with_contexts else None,
    )


def _contexts(each: QuestionResult, pair: Shown, run: Run) -> Contexts:
    """Nothing but what is shown, so that the lists of a large run fit into memory."""
    return Contexts(
        question=Question(**{key.name: getattr(each, key.name) for key in fields(Question)}),
        pair=Shown(
            before=_to_context(pair.before, run.query.baseline),
            after=_to_context(pair.after, run.query.candidate),
        ),
        run=run,
    )


def _to_context(seen: Observation | None, query: QuerySettings) -> Observation | None:
    return None if seen is None else replace(seen, hits=in_reach(seen, query))


def _offers(each: QuestionResult, pair: Shown, run: Run) -> Iterator[Offer]:
    """The documents of the candidate's context in their order, then those of the label that are not there."""
    hits = in_reach(pair.after, run.query.candidate)
    labelled, known = each.labelled_documents, titles(pair)
    for document in dict.fromkeys((*(hit.parent for hit in hits if hit.parent is not None), *labelled)):
        yield Offer(document=document, title=known.get(document, document), labelled=document in labelled)


def _columns(shown: Contexts, where: str) -> tuple[Column, Column]:
    run, pair, queries = shown.run, shown.pair, shown.run.query
    before, after = in_reach(pair.before, queries.baseline), in_reach(pair.after, queries.candidate)
    chunks = _Chunks(shown.question, terms(visible(shown.question.question)), kept=run.policy.evidence_text)
    gone = tuple(chunks.of(hit, queries.baseline, _unless(hit, after, "gone")) for hit in before)
    new = tuple(chunks.of(hit, queries.candidate, _unless(hit, before, "new")) for hit in after)
    return (
        Column(title=f"Before: {run.baseline.index}", chunks=gone, note=_note(pair.before), foot=""),
        Column(title=f"After: {run.candidate.index}", chunks=new, note=_note(pair.after), foot=where),
    )


def _unless(hit: Hit, others: tuple[Hit, ...], word: str) -> tuple[str, ...]:
    """The word for a chunk of whose document the other side shows nothing."""
    return () if source(hit) in {source(each) for each in others} else (word,)


def _note(seen: Observation | None) -> str:
    if seen is None:
        return "This side was never asked."
    if seen.error is not None:
        return f"This side could not be measured: {seen.error.message}"
    return "" if seen.hits else "The service returned no chunks."


@dataclass(frozen=True, slots=True)
class _Chunks:
    """Draws chunks of a question; `kept`: whether passages may be shown at all."""

    question: Question
    wanted: frozenset[str]
    kept: bool

    def of(self, hit: Hit, query: QuerySettings, marks: tuple[str, ...]) -> Chunk:
        found = (
            ("answer", hit.parent in self.question.labelled_documents),
            ("forbidden", hit.parent in self.question.forbidden),
            ("below cut-off", dropped(hit, query)),
        )
        scores = (("score", hit.score), ("ranker", hit.reranker_score))
        return Chunk(
            rank=hit.rank,
            name=hit.title or hit.parent or "(no title)",
            parent=hit.parent,
            scores=", ".join(
                f"{word} {_score(value)}" for word, value in scores if value is not None and isfinite(value)
            ),
            text=passage(hit.text, self.wanted) if hit.text and self.kept else None,
            fingerprint=hit.text_sha256[:12] if hit.text_sha256 else None,
            marks=(*(word for word, holds in found if holds), *marks),
        )


_LEAST_SCORE = 0.0001  # a smaller one is told as such


def _score(value: float) -> str:
    if 0 < value < _LEAST_SCORE:
        return f"under {_LEAST_SCORE:.4f}"
    return f"{value:.4f}".rstrip("0").rstrip(".")
