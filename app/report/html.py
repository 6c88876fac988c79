"""The report as pages: one self-contained file, and what the service serves of it, page by page.

Both are readable without scripts, styles or a network, and say the same in the same order. The file holds every
question; the served pages hold the first of each list, with links to the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup, escape

from app.domain.check import Level
from app.domain.outcome import Outcome, QuestionResult
from app.domain.overrides import ToName, never, to_name
from app.domain.reasons import Verdict
from app.domain.review import Ruling
from app.domain.run import Run
from app.domain.wording import sentence, short
from app.report.decisions import Decisions, waiver
from app.report.escaping import visible
from app.report.findings import changed_in_short, honest, not_evaluated
from app.report.lists import Card, Filter, Lists, Row
from app.report.pictures import (
    TIMES_HIGH,
    TIMES_WIDE,
    WIDE,
    Latency,
    Point,
    Ranks,
    SliceBar,
    latency,
    ranks,
    slice_bars,
)
from app.report.reader import Reader
from app.report.record import day, facts
from app.report.sheet import FILE_POLICY, SCRIPT, STYLE, TEMPLATES
from app.report.steps import next_steps

WITH_CONTEXTS = 200  # lost questions of the file that show their contexts; critical ones always do
LOST_A_PAGE = 50  # lost questions on a served page
ROWS_A_PAGE = 200  # questions of every other list on a page of its own
ROWS_FIRST = 50  # of them on the report's first page
_BUFFERED = 20  # pieces of the template joined into one
_TONES = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.ERROR: "error", None: "open"}
_DOWNLOADS = ("report.html", "report.md", "junit.xml", "run.json")
_LABEL_FIXES = ("golden.jsonl", "golden.patch")  # the set corrected by decisions, and the change alone

TITLES = {
    "forbidden": "Forbidden documents shown",
    "forbidden_now": "Forbidden documents that the baseline shows",
    "lost": "Lost questions",
    "noisy": "Noisy questions",
    "gained": "Gained questions",
    "errors": "Not measured",
    "stale": "Stale labels",
    "unlabelled": "Unlabelled questions",
    "unchanged": "Unchanged questions",
}
"""The lists by their names, in reading order."""


_UNDECIDED = Decisions()
_EVERYTHING = Filter()
_ANYBODY = Reader()


def html(run: Run, results: Iterable[QuestionResult], decisions: Decisions = _UNDECIDED) -> Iterator[str]:
    """The file in pieces. `results` are read once, before the first piece."""
    return whole_page(run, Lists.of(run, results, contexts=WITH_CONTEXTS), decisions)


def passages_of(lists: Lists) -> tuple[str, ...]:
    """The lost questions of which the file shows the contexts."""
    return tuple(card.row.id for card in (*lists.critical, *lists.plain[:WITH_CONTEXTS]))


def whole_page(run: Run, lists: Lists, decisions: Decisions) -> Iterator[str]:
    """The file in pieces; `lists` hold the contexts of `passages_of`."""
    view = View(run=run, lists=lists, every=lists, decisions=decisions)
    page = TEMPLATES.get_template("report.html").stream(**_told(run, decisions), view=view)
    page.enable_buffering(_BUFFERED)
    return iter(page)


def shown_lost(lists: Lists, wanted: Filter, number: int = 1) -> tuple[str, ...]:
    """The lost questions of which a served page shows the contexts: their list's, or the run's own, which
    holds the same as the list's first.
    """
    page = lists.filtered(wanted).lost[(number - 1) * LOST_A_PAGE : number * LOST_A_PAGE]
    return tuple(card.row.id for card in page)


def first_page(
    run: Run,
    lists: Lists,
    decisions: Decisions,
    wanted: Filter,
    reader: Reader = _ANYBODY,
    *,
    promotable: bool = False,
) -> str:
    """The served page of a run: everything but the rest of long lists. `lists` hold the contexts of `shown_lost`.

    `promotable`: it has a page that tells whether the candidate may go live.
    """
    view = View(
        run=run,
        lists=lists.filtered(wanted),
        every=lists,
        decisions=decisions,
        base=f"/runs/{run.id}",
        wanted=wanted,
        reader=reader,
        promotable=promotable,
    )
    return TEMPLATES.get_template("report.html").render(**_told(run, decisions), view=view)


def list_page(
    run: Run,
    lists: Lists,
    decisions: Decisions,
    wanted: Filter,
    reader: Reader = _ANYBODY,
    *,
    name: str,
    number: int,
) -> str | None:
    """A served page of one list, counted from 1; None where there is no such page. `name` is one of `TITLES`;
    for `lost`, `lists` hold the contexts of `shown_lost`.
    """
    view = View(
        run=run,
        lists=lists.filtered(wanted),
        every=lists,
        decisions=decisions,
        base=f"/runs/{run.id}",
        wanted=wanted,
        reader=reader,
        listed=(name, number),
    )
    pages = view.pages(name)
    if not 1 <= number <= pages:
        return None
    return TEMPLATES.get_template("list.html").render(
        run=run,
        style=STYLE,
        script=SCRIPT,
        policy=None,
        tone=_TONES[run.verdict],
        verdict=run.verdict,
        view=view,
        name=name,
        title=TITLES[name],
        number=number,
        pages=pages,
        questions=view.page(name, number),
        passages_kept=run.policy.evidence_text,
    )


def place_of(run: Run, lists: Lists, question_id: str) -> str | None:
    """The address of a question on the served pages, the first list that names it; None where none does."""
    view = View(run=run, lists=lists, every=lists, decisions=_UNDECIDED, base=f"/runs/{run.id}")
    for name in TITLES:
        for index, row in enumerate(view.rows(name)):
            if row.id == question_id and row.home:
                return view.href(name, index, row, page=view.base)
    return None


def _told(run: Run, decisions: Decisions) -> Mapping[str, Any]:
    """What the templates are given of the run itself."""
    return {
        "run": run,
        "style": STYLE,
        "script": SCRIPT,
        "policy": FILE_POLICY,
        "verdict": run.verdict,
        "tone": _TONES[run.verdict],
        "reasons": [(short(reason), sentence(reason, run)) for reason in run.reasons],
        "steps": next_steps(run, waived=decisions.waived is not None),
        "not_evaluated": not_evaluated(run),
        "changed": changed_in_short(run),
        "honest": honest(run),
        "judged": f"{(run.finished_at or run.created_at).astimezone(UTC):%Y-%m-%d %H:%M} UTC, run {run.id}",
        "overdue": run.golden_set.overdue(day(run)),
        "checks": [check for level in reversed(Level) for check in run.checks if check.level is level],
        "facts": facts(run),
        "context_sizes": list(
            dict.fromkeys((run.query.baseline.context_size, run.query.candidate.context_size))
        ),
        "passages_kept": run.policy.evidence_text,
        "with_contexts": WITH_CONTEXTS,
        "sheet": {"wide": WIDE, "times_wide": TIMES_WIDE, "times_high": TIMES_HIGH},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a reader looks at: the lists that the filter leaves of `every`, and where the rest of it is.

    `base` is the address of the run's page on the service, None in the file, which links to itself only.
    `listed` is the list and its page that are looked at, None for the report's own page.
    """

    run: Run
    lists: Lists
    every: Lists
    decisions: Decisions
    base: str | None = None
    wanted: Filter = _EVERYTHING
    listed: tuple[str, int] | None = None
    reader: Reader = _ANYBODY
    promotable: bool = False

    @property
    def served(self) -> bool:
        return self.base is not None

    @property
    def may_review(self) -> bool:
        """Whether the page has forms for decisions."""
        return self.served and self.reader.may_review

    @property
    def downloads(self) -> tuple[tuple[str, str], ...]:
        """Names and addresses of the run's documents."""
        return (*self._documents(_DOWNLOADS), *self.fixes)

    @property
    def fixes(self) -> tuple[tuple[str, str], ...]:
        """The same of the corrected golden set; empty where no label is out of date."""
        wrong = any(
            each.counts and each.review.decision is Ruling.LABEL_OUT_OF_DATE
            for each in self.decisions.standing.values()
        )
        return self._documents(_LABEL_FIXES) if wrong else ()

    def _documents(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        return tuple((name, f"/v1{self.base}/{name}") for name in names) if self.served else ()

    # decisions

    @property
    def decided(self) -> int:
        """How many lost questions have a decision that counts."""
        return sum(self.decisions.decided(card.row.id) for card in self.every.lost)

    @property
    def undecided(self) -> str | None:
        """The address of the first lost question without a decision; None where all have one."""
        for index, card in enumerate(self.lists.lost):
            if not self.decisions.decided(card.row.id):
                return self.href("lost", index, card.row)
        return None

    @property
    def waived(self) -> tuple[tuple[str, str], ...]:
        """Who cleared the run and why, as labelled lines; empty where nobody did."""
        return waiver(self.decisions.waived)

    @property
    def override(self) -> ToName | None:
        """What an override must name; None where the run cannot be overridden."""
        return to_name(self.run) if never(self.run) is None else None

    @property
    def never(self) -> str | None:
        return never(self.run) if self.run.verdict is Verdict.FAIL else None

    # lists and their pages

    @property
    def here(self) -> Markup:
        """The address of this page, to come back to."""
        if self.listed is not None:
            return escape(self.address(*self.listed))
        query = urlencode({key: value for key, value in self.chosen if value}, errors="replace")
        return escape(f"{self.base}" + (f"?{query}" if query else ""))

    def rows(self, name: str) -> Sequence[Row]:
        """The list's questions as rows."""
        if name == "lost":
            return [card.row for card in self.lists.lost]
        rows: list[Row] = getattr(self.lists, name)
        return rows

    def count(self, name: str) -> int:
        return len(self.rows(name))

    def first(self, name: str) -> Sequence[Card | Row]:
        """The questions of a list that stand on the report's own page."""
        whole = self.lists.lost if name == "lost" else self.rows(name)
        return whole[: self._first(name)]

    def _first(self, name: str) -> int | None:
        if not self.served:
            return None
        return {"lost": LOST_A_PAGE, "unchanged": 0}.get(name, ROWS_FIRST)

    def page(self, name: str, number: int) -> Sequence[Card | Row]:
        size = _size(name)
        whole = self.lists.lost if name == "lost" else self.rows(name)
        return whole[(number - 1) * size : number * size]

    def pages(self, name: str) -> int:
        """How many pages of its own a list has; at least one, which may be empty."""
        return max(1, -(-self.count(name) // _size(name)))

    def more(self, name: str) -> tuple[int, str] | None:
        """How many questions of a list are on other pages, and the address of the first of them."""
        shown = self._first(name)
        left = 0 if shown is None else self.count(name) - shown
        if left <= 0:
            return None
        start = shown or 0
        return left, self.address(name, start // _size(name) + 1)

    def address(self, name: str, number: int) -> str:
        """The address of a list's page, with the filter as it is."""
        chosen = {key: value for key, value in self.chosen if value}
        page = {"page": str(number)} if number > 1 else {}
        query = urlencode({**chosen, **page}, errors="replace")
        return f"{self.base}/{name}" + (f"?{query}" if query else "")

    # the filter

    @property
    def chosen(self) -> tuple[tuple[str, str], ...]:
        wanted = self.wanted
        return (
            ("slice", wanted.slice),
            ("cause", wanted.cause),
            ("owner", wanted.owner),
            ("text", wanted.text),
        )

    def chosen_value(self, name: str) -> str:
        return dict(self.chosen)[name]

    def choices(self) -> tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]:
        """What can be chosen: name, label, and values with the words for them.

        In the file the values are short marks, which every question carries.
        """
        return tuple(
            (name, label, tuple((value if self.served else mark, value) for value, mark in marks.items()))
            for name, label, marks in self._facets()
            if len(marks) > 1 or self.chosen_value(name)
        )

    def _facets(self) -> tuple[tuple[str, str, dict[str, str]], ...]:
        found: dict[str, set[str]] = {"slice": set(), "cause": set(), "owner": set()}
        for name in TITLES:
            for row in _rows(self.every, name):
                found["slice"].update(row.slices)
                found["owner"].add(row.owner)
                if name == "lost" and row.cause:
                    found["cause"].add(row.cause)
        labels = {"slice": "Slice", "cause": "Cause", "owner": "Owner"}
        return tuple(
            (name, labels[name], {value: f"{name[0]}{place}" for place, value in enumerate(sorted(values))})
            for name, values in found.items()
        )

    def marker(self) -> Callable[[Row], str]:
        """From a row to the marks by which the file's filter finds it."""
        slices, causes, owners = (marks for _, _, marks in self._facets())

        def marks(row: Row) -> str:
            found = [slices[each] for each in row.slices]
            if row.cause in causes:
                found.append(causes[row.cause])
            return " ".join([*found, owners[row.owner]])

        return marks

    # pictures

    def href(self, name: str, index: int, row: Row, *, page: str | None = "") -> str:
        """Where a question of a list stands; `page` is the address of the report's own page."""
        shown = self._first(name)
        if shown is None or index < shown:
            return f"{page or ''}#{row.anchor}"
        return f"{self.address(name, index // _size(name) + 1)}#{row.anchor}"

    def ranks(self) -> Ranks:
        """The picture of all evaluated questions."""
        points = [
            Point(
                before=row.before,
                after=row.after,
                kind=kind,
                title=visible(f"{row.id}: {row.question} ({kind}, {row.ranks})"),
                href=self.href(name, index, row),
            )
            for name in ("lost", "noisy", "gained", "unchanged")
            for index, row in enumerate(self.rows(name))
            for kind in ["lost" if name == "lost" else row.outcome.value]
        ]
        query = self.run.query
        contexts = (query.baseline.context_size, query.candidate.context_size)
        deepest = max(query.baseline.candidates, query.candidate.candidates)
        return ranks(points, contexts, deepest)

    def slices(self) -> tuple[SliceBar, ...]:
        """Wins and losses of each slice."""
        counted: dict[str, list[int]] = {}
        for row in self.lists.evaluated:
            for name in row.slices:
                counts = counted.setdefault(name, [0, 0, 0])
                counts[0] += 1
                counts[1] += row.outcome is Outcome.LOST
                counts[2] += row.outcome is Outcome.GAINED
        return slice_bars({name: (each[0], each[1], each[2]) for name, each in counted.items()})

    def slice_address(self, name: str) -> str | None:
        """The report of one slice alone; None in the file."""
        return f"{self.base}?{urlencode({'slice': name}, errors='replace')}" if self.served else None

    def latency(self) -> Latency:
        return latency(*self.every.times)


def _size(name: str) -> int:
    return LOST_A_PAGE if name == "lost" else ROWS_A_PAGE


def _rows(lists: Lists, name: str) -> Iterable[Row]:
    return (card.row for card in lists.lost) if name == "lost" else getattr(lists, name)
