"""A run told in a terminal, in forty lines: verdict, reasons, the lost questions in a table with what took their
place, why each is lost, what changed, and how much of it can be believed. Everything is in the report.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from app.domain.check import Check, Level
from app.domain.overrides import Override
from app.domain.reasons import Code, Verdict
from app.domain.run import Flip, Run
from app.domain.wording import sentence
from app.report.decisions import waiver
from app.report.escaping import clipped, visible
from app.report.evidence import Loss, loss
from app.report.findings import change_checks, changed_in_short, honest, noise_in_short, not_evaluated

_LINES = 39  # the last line follows
_GAINED = 15
_WARNING_CHARACTERS = 240
_QUESTION_CHARACTERS = 50
_TAKEN_CHARACTERS = 40
_STYLES = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.ERROR: "bold yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """How much is told: the most of each kind, and the most characters of a reason and of a lost question's why
    (0: none).
    """

    reasons: int
    reason: int
    rows: int
    why: int
    warnings: int


_DETAILS = (
    _Detail(reasons=6, reason=400, rows=10, why=300, warnings=4),
    _Detail(reasons=6, reason=400, rows=6, why=240, warnings=4),
    _Detail(reasons=6, reason=240, rows=6, why=240, warnings=2),
    _Detail(reasons=6, reason=240, rows=6, why=120, warnings=2),
    _Detail(reasons=5, reason=240, rows=6, why=0, warnings=1),
    _Detail(reasons=3, reason=120, rows=4, why=0, warnings=1),
)
"""The first that fits is told. A lost question stays longer than a warning, and its row longer than its why."""


@dataclass(frozen=True, slots=True)
class _Told:
    run: Run
    waived: Override | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
        parts: list[RenderableType] = []
        for detail in _DETAILS:
            parts = list(_parts(self.run, self.waived, detail))
            if sum(len(console.render_lines(part, options)) for part in parts) <= _LINES:
                break
        return parts


def terminal(run: Run, waived: Override | None = None) -> RenderableType:
    """What a person at the terminal needs to know; text from outside cannot style or command anything.
    `waived`: the override that clears the run.
    """
    return _Told(run, waived)


def last_line(run: Run) -> str:
    """`PASS`, `FAIL` or `ERROR`, a colon and the headline, in one line."""
    return visible(f"{run.verdict}: {run.headline}")


def _parts(run: Run, waived: Override | None, detail: _Detail) -> Iterator[RenderableType]:
    if run.verdict is not None:
        name = f"{visible(run.golden_set.name)} · {visible(run.candidate.index)} against {visible(run.baseline.index)}"
        yield Text.assemble((run.verdict.value, _STYLES[run.verdict]), f"  {name}  (run {run.id})")
    if waived is not None:
        told = ". ".join(f"{label}: {text}" for label, text in waiver(waived))
        yield Text(_line(f"WAIVED. {told}", _WARNING_CHARACTERS), style="bold")
    for reason in run.reasons[: detail.reasons]:
        yield Text(_line(f"· {reason.code}: {sentence(reason, run)}", detail.reason))
    yield from _more(len(run.reasons) - detail.reasons, "reasons")
    unknown = not_evaluated(run)
    for rule in unknown[: detail.warnings]:
        yield Text(_line(f"· not evaluated: {rule}", _WARNING_CHARACTERS), style="bold")
    yield from _more(len(unknown) - detail.warnings, "rules that were not evaluated")
    if run.lost:
        yield from _lost(run, detail)
    if run.gained:
        named = ", ".join(flip.id for flip in run.gained[:_GAINED])
        more = f" and {len(run.gained) - _GAINED} more" if len(run.gained) > _GAINED else ""
        yield Text(_line(f"Gained: {named}{more}", _WARNING_CHARACTERS))
    if run.verdict is not None:
        for label, told in (
            ("Changed", changed_in_short(run)),
            ("Certainty", honest(run)),
            ("Noise", noise_in_short(run)),
        ):
            if told:
                yield Text(visible(f"{label}: {told}"))
    warnings = _warnings(run)
    for check in warnings[: detail.warnings]:
        yield Text(_line(f"· warning: {check.message}", _WARNING_CHARACTERS), style="dim")
    yield from _more(len(warnings) - detail.warnings, "warnings")


def _line(text: str, characters: int) -> str:
    return clipped(visible(text), characters)


def _more(number: int, what: str) -> Iterator[Text]:
    if number > 0:
        yield Text(f"· and {number} more {what}: see the report", style="dim")


def _warnings(run: Run) -> Sequence[Check]:
    """What is said of the change, then all others. Blocking ones, and rules not evaluated, are told above."""
    of_change = {check.code for check in change_checks(run)}
    found = [
        check for check in run.checks if check.level is Level.WARNING and check.code != Code.NOT_EVALUATED
    ]
    return sorted(found, key=lambda check: check.code not in of_change)


def _lost(run: Run, detail: _Detail) -> Iterator[RenderableType]:
    flips = sorted(run.lost, key=lambda flip: not flip.critical)[: detail.rows]
    losses = [loss(flip, run) for flip in flips]
    yield _table(run, flips, losses)
    if detail.why:
        for flip, lost in zip(flips, losses, strict=True):
            if lost.why:
                yield Text(_line(f"  {flip.id}: {' '.join(lost.why)}", detail.why))


def _table(run: Run, flips: Sequence[Flip], losses: Sequence[Loss]) -> Table:
    table = Table(
        title=f"Lost ({len(run.lost)})", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("question", overflow="fold")
    table.add_column("rank", no_wrap=True)
    table.add_column("cause", overflow="fold", max_width=16)
    table.add_column("took its place", overflow="fold")
    for flip, lost in zip(flips, losses, strict=True):
        rank = f"{_rank(flip.baseline_rank)} → {_rank(flip.candidate_rank)}"
        taken = _line(lost.taken, _TAKEN_CHARACTERS)
        table.add_row(_asked(flip), Text(rank), Text(_cause(flip)), Text(taken))
    if len(run.lost) > len(flips):
        table.caption_justify = "left"
        table.caption = f"and {len(run.lost) - len(flips)} more: see the report"
    return table


def _asked(flip: Flip) -> Text:
    told = _line(f"{flip.id} {flip.question}", _QUESTION_CHARACTERS)
    return Text.assemble(("critical: ", "bold red"), told) if flip.critical else Text(told)


def _cause(flip: Flip) -> str:
    parts = (flip.cause.value if flip.cause else "", "unsteady" if flip.unstable else "")
    return ", ".join(part for part in parts if part)


def _rank(rank: int | None) -> str:
    return "none" if rank is None else str(rank)
