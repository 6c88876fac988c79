"""The report as one self-contained HTML page: readable without scripts, styles or a network.

Every value that a template prints passes through `visible`, then through the template engine's escaping.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from app.domain.check import Level
from app.domain.observation import Hit, Observation
from app.domain.outcome import Outcome, QuestionResult, failed
from app.domain.query import QuerySettings, Side
from app.domain.reasons import Verdict
from app.domain.run import Run
from app.domain.wording import sentence, short
from app.report.escaping import clipped, visible
from app.report.evidence import (
    Expected,
    Shown,
    context,
    documents,
    dropped,
    expected,
    failures,
    forbidden_places,
    is_from,
    moved,
    owner,
    place_taken,
    shown,
    stale_in_words,
    where_it_went,
)
from app.report.findings import Findings, Section, changed_in_short, honest, not_evaluated
from app.report.record import facts
from app.report.steps import next_steps

WITH_CONTEXTS = 200  # lost questions that show their contexts; critical ones always do
_PASSAGE_CHARACTERS = 600
_QUESTION_CHARACTERS = 600
_BUFFERED = 20  # pieces of the template joined into one


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _passage(text: str) -> Markup:
    """A text of several lines, escaped, its line ends kept."""
    return escape(visible(text, lines=True))


_TEMPLATES = Environment(
    loader=PackageLoader("app.report"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["passage"] = _passage
_STYLE = _TEMPLATES.get_template("report.css").render()
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
)
"""What the page allows itself: its own style sheet and nothing else. Fit for a response header too."""


def html(run: Run, results: Iterable[QuestionResult]) -> Iterator[str]:
    """The page in pieces. `results` are read once, before the first piece."""
    lists = _Lists.of(run, results)
    page = _TEMPLATES.get_template("report.html").stream(
        run=run,
        style=Markup(_STYLE),  # noqa: S704 — our own file, hashed in the policy
        policy=CONTENT_SECURITY_POLICY,
        verdict=run.verdict,
        tone=_TONES[run.verdict],
        reasons=[(short(reason), sentence(reason, run)) for reason in run.reasons],
        steps=next_steps(run),
        lists=lists,
        findings=lists.sections(),
        not_evaluated=not_evaluated(run),
        changed=changed_in_short(run),
        honest=honest(run),
        checks=[check for level in reversed(Level) for check in run.checks if check.level is level],
        facts=facts(run),
        context_sizes={run.query.baseline.context_size, run.query.candidate.context_size},
        passages_kept=run.policy.evidence_text,
        with_contexts=WITH_CONTEXTS,
    )
    page.enable_buffering(_BUFFERED)
    return iter(page)


_TONES = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.ERROR: "error", None: "open"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A question in one line of a table."""

    id: str
    question: str
    critical: bool
    slice: str
    ranks: str
    note: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """One chunk of a context. `marks` are the words that set it apart."""

    rank: int
    name: str
    parent: str | None
    scores: str
    text: str | None
    fingerprint: str | None
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One side of a lost question. `note` stands in the place of chunks that are not there, `foot` says where
    the answer is if it is not among them.
    """

    title: str
    chunks: tuple[_Chunk, ...]
    note: str
    foot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """A lost question; `columns` are empty where the page would become too large."""

    row: _Row
    unstable: bool
    expected: tuple[Expected, ...]
    where: str
    taken: str
    note: str | None
    columns: tuple[_Column, ...]


@dataclass(slots=True, kw_only=True)
class _Lists:
    """All questions by the section that they stand in, gathered in one pass and cut to what is shown."""

    findings: Findings
    forbidden: list[_Row] = field(default_factory=list)
    forbidden_now: list[_Row] = field(default_factory=list)
    critical: list[_Card] = field(default_factory=list)
    plain: list[_Card] = field(default_factory=list)
    noisy: list[_Row] = field(default_factory=list)
    gained: list[_Row] = field(default_factory=list)
    errors: list[_Row] = field(default_factory=list)
    stale: list[_Row] = field(default_factory=list)
    unlabelled: list[_Row] = field(default_factory=list)
    unchanged: list[_Row] = field(default_factory=list)

    @property
    def lost(self) -> list[_Card]:
        """Critical ones first."""
        return [*self.critical, *self.plain]

    def sections(self) -> tuple[Section, ...]:
        return self.findings.sections()

    @classmethod
    def of(cls, run: Run, results: Iterable[QuestionResult]) -> "_Lists":
        lists = cls(findings=Findings(run))
        for each in results:
            lists._add(each, run)
        return lists

    def _add(self, each: QuestionResult, run: Run) -> None:
        """A question may stand in two lists: what failed, or has a stale label, is always named as such."""
        self.findings.add(each)
        for side, rows in ((Side.CANDIDATE, self.forbidden), (Side.BASELINE, self.forbidden_now)):
            shows = forbidden_places(each, side)
            if shows:
                rows.append(_row(each, run, shows))
        if each.critical_lost:
            self.critical.append(_card(each, run, with_contexts=True))
        elif each.outcome is Outcome.LOST:
            self.plain.append(_card(each, run, with_contexts=len(self.plain) < WITH_CONTEXTS))
        if failed(each):
            self.errors.append(_row(each, run, "; ".join(failures(each))))
        if each.missing.in_both:
            self.stale.append(_row(each, run, stale_in_words(each)))
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


def _row(each: QuestionResult, run: Run, note: str) -> _Row:
    return _Row(
        id=each.id,
        question=clipped(each.question, _QUESTION_CHARACTERS),
        critical=each.critical,
        slice=", ".join(each.slice),
        ranks=moved(each, run.query) if each.answers else "–",
        note=note,
        owner=owner(each, run),
    )


def _card(each: QuestionResult, run: Run, *, with_contexts: bool) -> _Card:
    pair = shown(each, run.query)
    return _Card(
        row=_row(each, run, ""),
        unstable=each.outcome is not Outcome.LOST,
        expected=expected(each, pair),
        where=where_it_went(each, pair.after, run.query.candidate),
        taken=place_taken(pair, run.query),
        note=each.note,
        columns=_columns(each, pair, run) if with_contexts else (),
    )


def _columns(each: QuestionResult, pair: Shown, run: Run) -> tuple[_Column, _Column]:
    queries = run.query
    before, after = context(pair.before, queries.baseline), context(pair.after, queries.candidate)
    gone = tuple(_chunk(each, hit, queries.baseline, _unless(hit, after, "gone")) for hit in before)
    new = tuple(_chunk(each, hit, queries.candidate, _unless(hit, before, "new")) for hit in after)
    where = where_it_went(each, pair.after, queries.candidate)
    return (
        _Column(title=f"Before: {run.baseline.index}", chunks=gone, note=_note(pair.before), foot=""),
        _Column(title=f"After: {run.candidate.index}", chunks=new, note=_note(pair.after), foot=where),
    )


def _unless(hit: Hit, others: tuple[Hit, ...], word: str) -> tuple[str, ...]:
    """The word for a chunk of whose document the other side shows nothing."""
    return () if is_from(hit, documents(others)) else (word,)


def _note(seen: Observation | None) -> str:
    if seen is None:
        return "This side was never asked."
    if seen.error is not None:
        return f"This side could not be measured: {seen.error.message}"
    return "" if seen.hits else "The service returned no chunks."


def _chunk(each: QuestionResult, hit: Hit, query: QuerySettings, marks: tuple[str, ...]) -> _Chunk:
    found = (
        ("answer", hit.parent in each.labelled_documents),
        ("forbidden", hit.parent in each.forbidden),
        ("below cut-off", dropped(hit, query)),
    )
    scores = (("score", hit.score), ("ranker", hit.reranker_score))
    return _Chunk(
        rank=hit.rank,
        name=hit.title or hit.parent or "(no title)",
        parent=hit.parent,
        scores=", ".join(
            f"{word} {value:.4g}" for word, value in scores if value is not None and isfinite(value)
        ),
        text=clipped(hit.text, _PASSAGE_CHARACTERS) if hit.text else None,
        fingerprint=hit.text_sha256[:12] if hit.text_sha256 else None,
        marks=(*(word for word, holds in found if holds), *marks),
    )
