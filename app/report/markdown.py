"""The report as Markdown for a build summary: what was decided and why, what to do, what was lost, what changed.

Azure DevOps takes a summary of at most 1 MB. Under the limit no row is cut: what does not fit is left out
whole, in reading order from the end, and counted. Room is kept for the record and for the findings beside the
questions, which are short, however many questions were lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.domain.check import Check, Level
from app.domain.outcome import Outcome, QuestionResult, failed
from app.domain.overrides import Override
from app.domain.query import Side
from app.domain.run import Run
from app.domain.wording import sentence, short
from app.report.decisions import waiver
from app.report.escaping import markdown_code, markdown_prose
from app.report.evidence import (
    Loss,
    Losses,
    expected_in_words,
    failures,
    forbidden_places,
    moved,
    owner,
    stale_in_words,
)
from app.report.findings import Findings, Section, Table, not_evaluated
from app.report.record import counts_in_short, facts
from app.report.steps import next_steps

LIMIT_BYTES = 900_000
LEAST_BYTES = 4_000  # room for the verdict and for saying what was left out

_LONG = 2_000
_NOTE_BYTES = 1_200
_TABLE_MARK = " --- |"


def markdown(
    run: Run,
    results: Iterable[QuestionResult],
    waived: Override | None = None,
    *,
    limit_bytes: int = LIMIT_BYTES,
) -> str:
    """The report in at most `limit_bytes` of UTF-8 (at least 4,000, else ValueError). `waived`: the override that
    clears the run.
    """
    if limit_bytes < LEAST_BYTES:
        raise ValueError(f"a report needs at least {LEAST_BYTES} bytes, not {limit_bytes}")
    lists = _Lists.of(run, results)
    record, findings = _record(run), tuple(lists.beside())
    sheet = _Sheet(limit=limit_bytes - _NOTE_BYTES)
    sheet.keep_room((record, *findings), most=limit_bytes // 3)
    verdict = run.verdict or f"No verdict yet ({run.state})"
    sheet.add(f"# {verdict}{' WAIVED' if waived else ''}: {_name(run)}")
    for section in (
        *(_top(run, waived), _reasons(run), _steps(run, waived)),
        *lists.worst(),
        *findings,
        *lists.others(),
        *(_checks(run.checks), record),
    ):
        sheet.section(section)
    return sheet.text()


def _name(run: Run) -> str:
    return markdown_prose(run.golden_set.name, characters=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """Rows under a heading, each a line of its own. `head` is a table's, empty for a list or paragraphs.

    `what` names the rows where some are left out.
    """

    what: str
    title: str = ""
    intro: str = ""
    head: tuple[str, ...] = ()
    rows: Sequence[str] = ()

    def opening(self) -> str:
        blocks = [f"## {self.title}" if self.title else "", self.intro]
        if self.head:
            blocks.append(f"{_row(self.head)}\n|{_TABLE_MARK * len(self.head)}")
        opening = "".join(f"\n{block}\n" for block in blocks if block)
        return opening if self.head else f"{opening}\n"

    def text(self) -> str:
        return self.opening() + "".join(f"{row}\n" for row in self.rows)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


@dataclass(slots=True)
class _Sheet:
    """The text as it grows under its limit."""

    limit: int
    size: int = 0
    pieces: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    def keep_room(self, sections: Iterable["_Section"], *, most: int) -> None:
        """Keep room for those sections that take up at most so many bytes together, in this order."""
        for section in sections:
            text = section.text()
            size = len(text.encode())
            if section.rows and size <= most:
                most -= size
                self.limit -= size
                self.kept[section.what] = text

    def add(self, line: str) -> bool:
        """Whether the line fitted, with its line end."""
        size = len(line.encode()) + 1
        if self.size + size > self.limit:
            return False
        self.size += size
        self.pieces.append(f"{line}\n")
        return True

    def section(self, section: _Section) -> None:
        """As many rows as fit; once a row did not, none of a later section but those that room is kept for."""
        if not section.rows:
            return
        if section.what in self.kept:
            self.pieces.append(self.kept[section.what])
            return
        opening = section.opening()
        for place, row in enumerate(section.rows):
            line = row if place else f"{opening}{row}"
            if self.left_out or not self.add(line):
                self.left_out[section.what] = len(section.rows) - place
                return

    def text(self) -> str:
        if self.left_out:
            missing = ", ".join(f"{number:,} {what}" for what, number in self.left_out.items())
            whole = "Everything is in report.html and run.json."
            self.pieces.append(f"\n**Left out here for size**: {missing}. {whole}\n")
        return "".join(self.pieces)


# the sections ----------------------------------------------------------------------------------------------


def _top(run: Run, waived: Override | None) -> _Section:
    told = waiver(waived)
    parts = [" · ".join(f"**{label}**: {markdown_prose(text)}" for label, text in told)] if told else []
    if run.headline:
        parts.append(markdown_prose(run.headline, characters=_LONG))
    parts.extend(f"**Not evaluated**: {markdown_prose(rule)}" for rule in not_evaluated(run))
    if run.noise_study:
        parts.append("This is a noise study: one index against itself. Nothing can be promoted by it.")
    return _Section(what="lines at the top", rows=("\n\n".join(parts),) if parts else ())


def _reasons(run: Run) -> _Section:
    rows = []
    for place, reason in enumerate(run.reasons, start=1):
        mark = " (this one decides)" if place == 1 else ""
        told = markdown_prose(sentence(reason, run), characters=_LONG)
        rows.append(f"{place}. **{markdown_prose(short(reason))}**{mark}. {told}")
    return _Section(what="reasons", title="Why", rows=rows)


def _steps(run: Run, waived: Override | None) -> _Section:
    steps = next_steps(run, waived=waived is not None)
    rows = [f"- **{step.role}**: {step.text}" for step in steps]
    return _Section(what="next steps", title="What to do next", rows=rows)


@dataclass(slots=True, kw_only=True)
class _Lists:
    """The rows of all questions that are not unchanged, gathered in one pass."""

    findings: Findings
    losses: Losses
    critical: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)
    forbidden_now: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    noisy: list[str] = field(default_factory=list)
    gained: list[str] = field(default_factory=list)
    unlabelled: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: Run, results: Iterable[QuestionResult]) -> "_Lists":
        lists = cls(findings=Findings(run), losses=Losses.of_run(run))
        for each in results:
            lists._add(each, run)
        return lists

    def _add(self, each: QuestionResult, run: Run) -> None:
        self.findings.add(each)
        who = markdown_prose(owner(each, run), characters=100)
        for side, rows in ((Side.CANDIDATE, self.forbidden), (Side.BASELINE, self.forbidden_now)):
            shows = forbidden_places(each, side)
            if shows:
                rows.append(_row((*_question(each), markdown_prose(shows), who)))
        loss = self.losses.of(each)
        if loss is not None:
            rows = self.critical if each.critical_lost else self.lost
            rows.append(_lost(each, loss, run, who))
        if failed(each):
            told = "; ".join(markdown_prose(text) for text in failures(each))
            self.errors.append(_row((*_question(each), told)))
        if each.missing.in_both:
            self.stale.append(_row((*_question(each), markdown_prose(stale_in_words(each)), who)))
        if each.outcome is Outcome.NOISY and not each.critical_lost:
            self.noisy.append(_row((*_question(each), moved(each, run.query), who)))
        if each.outcome is Outcome.GAINED:
            self.gained.append(_row((*_question(each), moved(each, run.query))))
        if each.outcome is Outcome.UNLABELLED:
            self.unlabelled.append(_row((*_question(each), who)))

    def beside(self) -> Iterator[_Section]:
        """The findings beside the questions."""
        for section in self.findings.sections():
            yield from _finding(section)

    def worst(self) -> Iterator[_Section]:
        """What may decide, in the order in which it matters."""
        asked = _ASKED
        yield _Section(
            what="questions with forbidden documents",
            title=f"Forbidden documents shown ({len(self.forbidden)})",
            intro="The candidate shows these although the question's filter must hide them.",
            head=(*asked, "shown at rank", "owner"),
            rows=self.forbidden,
        )
        yield _Section(
            what="questions with forbidden documents in the baseline",
            title=f"Forbidden documents that the baseline shows ({len(self.forbidden_now)})",
            intro="The index in use shows these today, whatever becomes of the candidate: correct its filter field.",
            head=(*asked, "shown at rank", "owner"),
            rows=self.forbidden_now,
        )
        yield _Section(
            what="lost questions",
            title=f"Lost questions ({len(self.critical) + len(self.lost)}, {len(self.critical)} critical)",
            intro="The expected document was among the chunks that the application sends to the model, and no "
            "longer is. Critical ones stand here even if unsteady. Ranks are those of every observation.",
            head=(*asked, "slice", "expected", "rank before → after", "cause", "took its place", "owner"),
            rows=[*self.critical, *self.lost],
        )
        yield _Section(
            what="questions with errors",
            title=f"Not measured ({len(self.errors)})",
            intro="An error is neither a loss nor a gain.",
            head=(*asked, "what happened"),
            rows=self.errors,
        )

    def others(self) -> Iterator[_Section]:
        """The other questions to look at."""
        asked = _ASKED
        yield _Section(
            what="stale labels",
            title=f"Stale labels ({len(self.stale)})",
            intro="The expected document is in neither index: correct the golden set.",
            head=(*asked, "label", "owner"),
            rows=self.stale,
        )
        yield _Section(
            what="noisy questions",
            title=f"Noisy ({len(self.noisy)})",
            intro="The same query gave different answers. These count neither as lost nor as gained. "
            "Critical ones that were lost stand above.",
            head=(*asked, "rank before → after", "owner"),
            rows=self.noisy,
        )
        yield _Section(
            what="gained questions",
            title=f"Gained ({len(self.gained)})",
            head=(*asked, "rank before → after"),
            rows=self.gained,
        )
        yield _Section(
            what="unlabelled questions",
            title=f"Unlabelled ({len(self.unlabelled)})",
            intro="No document is named as their answer, so nothing can be lost.",
            head=(*asked, "owner"),
            rows=self.unlabelled,
        )


_ASKED = ("id", "question")


def _question(each: QuestionResult) -> tuple[str, str]:
    return markdown_code(each.id), markdown_prose(each.question, characters=300)


def _lost(each: QuestionResult, loss: Loss, run: Run, who: str) -> str:
    name, question = _question(each)
    marks = ("**critical**" if each.critical else "", "unsteady" if each.outcome is not Outcome.LOST else "")
    return _row(
        (
            " ".join(part for part in (name, *marks) if part),
            question,
            markdown_prose(", ".join(each.slice), characters=100) if each.slice else "–",
            markdown_prose(expected_in_words(each), characters=300),
            moved(each, run.query),
            " ".join(
                (
                    f"**{loss.cause or 'not known'}**",
                    *(markdown_prose(line, characters=_LONG) for line in loss.why),
                )
            ),
            markdown_prose(loss.taken),
            who,
        )
    )


def _finding(section: Section) -> Iterator[_Section]:
    """A section of findings as a list, then its tables. Sections of one heading are named apart by `what`."""
    rows = [f"- **{each.word}**: {markdown_prose(each.text, characters=_LONG)}" for each in section.notices]
    rows.extend(f"- {markdown_prose(line, characters=_LONG)}" for line in section.lines)
    for group in section.groups:
        more = (f"and {group.more:,} more, which are in run.json",) if group.more else ()
        lines = (f"  - {markdown_prose(line)}" for line in (*group.lines, *more))
        rows.append("\n".join((f"- **{markdown_prose(group.title)}**", *lines)))
    rows.extend(f"- {markdown_prose(line, characters=_LONG)}" for line in section.notes)
    first = f"**{markdown_prose(section.first, characters=_LONG)}**" if section.first else ""
    if first and not rows:
        first, rows = "", [first]
    if rows:
        yield _Section(what=f"lines of “{section.title}”", title=section.title, intro=first, rows=rows)
    for place, table in enumerate(section.tables):
        yield _table(table, section, opens=not rows and place == 0)


def _table(table: Table, section: Section, *, opens: bool) -> _Section:
    return _Section(
        what=f"rows of “{table.caption}”",
        title=section.title if opens else "",
        intro=f"**{markdown_prose(table.title)}**",
        head=tuple(table.head),
        rows=[_row(markdown_prose(cell, characters=300) for cell in row) for row in table.rows],
    )


def _checks(checks: Sequence[Check]) -> _Section:
    order = (Level.BLOCKING, Level.WARNING, Level.INFO)
    rows = [
        f"- **{check.level}** {markdown_code(check.code)}: {markdown_prose(check.message, characters=_LONG)}"
        for level in order
        for check in checks
        if check.level is level
    ]
    return _Section(what="checks", title="Checks", rows=rows)


def _record(run: Run) -> _Section:
    rows = [f"- **Result**: {counts_in_short(run.counts)}"]
    rows.extend(
        f"- **{markdown_prose(fact.label)}**: {markdown_prose(fact.value, characters=1_000)}"
        for fact in facts(run)
    )
    return _Section(what="lines of the record", title="What was compared", rows=rows)
