"""The report as Markdown for a build summary: what was decided and why, what to do, what was lost.

Azure DevOps takes a summary of at most 1 MB. Under the limit no row is cut: what does not fit is left out
whole, in reading order from the end, and counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.domain.check import Check, Level
from app.domain.outcome import Outcome, QuestionResult, failed
from app.domain.run import Run
from app.domain.wording import sentence, short
from app.report.escaping import markdown_code, markdown_prose
from app.report.evidence import (
    expected_in_words,
    failures,
    forbidden_places,
    moved,
    owner,
    place_taken,
    shown,
    stale_in_words,
    where_it_went,
)
from app.report.record import counts_in_short, facts
from app.report.steps import next_steps

LIMIT_BYTES = 900_000
LEAST_BYTES = 4_000  # room for the verdict and for saying what was left out

_LONG = 2_000
_NOTE_BYTES = 1_200
_TABLE_MARK = " --- |"


def markdown(run: Run, results: Iterable[QuestionResult], *, limit_bytes: int = LIMIT_BYTES) -> str:
    """The report in at most `limit_bytes` of UTF-8 (at least 4,000, else ValueError)."""
    if limit_bytes < LEAST_BYTES:
        raise ValueError(f"a report needs at least {LEAST_BYTES} bytes, not {limit_bytes}")
    lists = _Lists.of(run, results)
    record = _record(run)
    kept_free = _size(record) if _size(record) <= limit_bytes // 3 else 0
    sheet = _Sheet(limit=limit_bytes - _NOTE_BYTES - kept_free)
    sheet.add(f"# {run.verdict or f'No verdict yet ({run.state})'}: {_name(run)}")
    for section in (_top(run), _reasons(run), _steps(run), *lists.sections(), _checks(run.checks)):
        sheet.section(section)
    if kept_free:
        sheet.pieces.append(_text(record))
    else:
        sheet.section(record)
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


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


@dataclass(slots=True)
class _Sheet:
    """The text as it grows under its limit."""

    limit: int
    size: int = 0
    pieces: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    def add(self, line: str) -> bool:
        """Whether the line fitted, with its line end."""
        size = len(line.encode()) + 1
        if self.size + size > self.limit:
            return False
        self.size += size
        self.pieces.append(f"{line}\n")
        return True

    def section(self, section: _Section) -> None:
        """As many rows as fit; once a row did not, none of a later section."""
        if not section.rows:
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


def _text(section: _Section) -> str:
    return section.opening() + "".join(f"{row}\n" for row in section.rows)


def _size(section: _Section) -> int:
    return len(_text(section).encode())


# the sections ----------------------------------------------------------------------------------------------


def _top(run: Run) -> _Section:
    parts = []
    if run.headline:
        parts.append(markdown_prose(run.headline, characters=_LONG))
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


def _steps(run: Run) -> _Section:
    rows = [f"- **{step.role}**: {step.text}" for step in next_steps(run)]
    return _Section(what="next steps", title="What to do next", rows=rows)


@dataclass(slots=True, kw_only=True)
class _Lists:
    """The rows of all questions that are not unchanged, gathered in one pass."""

    critical: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    noisy: list[str] = field(default_factory=list)
    gained: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: Run, results: Iterable[QuestionResult]) -> "_Lists":
        lists = cls()
        for each in results:
            lists._add(each, run)
        return lists

    def _add(self, each: QuestionResult, run: Run) -> None:
        who = markdown_prose(owner(each, run), characters=100)
        if each.forbidden_hits:
            shows = markdown_prose(forbidden_places(each))
            self.forbidden.append(_row((*_question(each), shows, who)))
        if each.critical_lost:
            self.critical.append(_lost(each, run, who))
        elif each.outcome is Outcome.LOST:
            self.lost.append(_lost(each, run, who))
        if failed(each):
            told = "; ".join(markdown_prose(text) for text in failures(each))
            self.errors.append(_row((*_question(each), told)))
        if each.missing.in_both:
            self.stale.append(_row((*_question(each), markdown_prose(stale_in_words(each)), who)))
        if each.outcome is Outcome.NOISY and not each.critical_lost:
            self.noisy.append(_row((*_question(each), moved(each, run.query), who)))
        if each.outcome is Outcome.GAINED:
            self.gained.append(_row((*_question(each), moved(each, run.query))))

    def sections(self) -> Iterator[_Section]:
        """In the order in which they matter."""
        asked = ("id", "question")
        yield _Section(
            what="questions with forbidden documents",
            title=f"Forbidden documents shown ({len(self.forbidden)})",
            intro="The candidate shows these although the question's filter must hide them.",
            head=(*asked, "shown at rank", "owner"),
            rows=self.forbidden,
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


def _question(each: QuestionResult) -> tuple[str, str]:
    return markdown_code(each.id), markdown_prose(each.question, characters=300)


def _lost(each: QuestionResult, run: Run, who: str) -> str:
    pair = shown(each, run.query)
    name, question = _question(each)
    marks = ("**critical**" if each.critical else "", "unsteady" if each.outcome is not Outcome.LOST else "")
    return _row(
        (
            " ".join(part for part in (name, *marks) if part),
            question,
            markdown_prose(", ".join(each.slice), characters=100) if each.slice else "–",
            markdown_prose(expected_in_words(each), characters=300),
            moved(each, run.query),
            markdown_prose(where_it_went(each, pair.after, run.query.candidate) or "unsteady"),
            markdown_prose(place_taken(pair, run.query)),
            who,
        )
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
