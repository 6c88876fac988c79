"""A run told in a terminal, in about forty lines: verdict, reasons, the lost questions in a table, what changed,
and how much of it can be believed. Everything is in the report.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.domain.check import Check, Level
from app.domain.outcome import QuestionResult
from app.domain.reasons import Code, Verdict
from app.domain.run import Flip, Run
from app.domain.wording import sentence
from app.report.escaping import clipped, visible
from app.report.evidence import place_taken, shown
from app.report.findings import change_checks, changed_in_short, honest, noise_in_short, not_evaluated

_ROWS = 6
_REASONS = 6
_WARNINGS = 4
_GAINED = 15
_REASON_CHARACTERS = 400
_WARNING_CHARACTERS = 240
_QUESTION_CHARACTERS = 50
_TAKEN_CHARACTERS = 40
_STYLES = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.ERROR: "bold yellow"}


def terminal(run: Run, results: Iterable[QuestionResult] = ()) -> RenderableType:
    """What a person at the terminal needs to know; text from outside cannot style or command anything.

    `results` say what took the place of a lost answer; they are read once. Without them that column is missing.
    """
    return Group(*_parts(run, results))


def last_line(run: Run) -> str:
    """`PASS`, `FAIL` or `ERROR`, a colon and the headline, in one line."""
    return visible(f"{run.verdict}: {run.headline}")


def _parts(run: Run, results: Iterable[QuestionResult]) -> Iterator[RenderableType]:
    if run.verdict is not None:
        name = f"{visible(run.golden_set.name)} · {visible(run.candidate.index)} against {visible(run.baseline.index)}"
        yield Text.assemble((run.verdict.value, _STYLES[run.verdict]), f"  {name}  (run {run.id})")
    for reason in run.reasons[:_REASONS]:
        yield Text(_line(f"· {reason.code}: {sentence(reason, run)}", _REASON_CHARACTERS))
    yield from _more(len(run.reasons) - _REASONS, "reasons")
    unknown = not_evaluated(run)
    for rule in unknown[:_WARNINGS]:
        yield Text(_line(f"· not evaluated: {rule}", _WARNING_CHARACTERS), style="bold")
    yield from _more(len(unknown) - _WARNINGS, "rules that were not evaluated")
    if run.lost:
        yield _lost(run, results)
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
    for check in warnings[:_WARNINGS]:
        yield Text(_line(f"· warning: {check.message}", _WARNING_CHARACTERS), style="dim")
    yield from _more(len(warnings) - _WARNINGS, "warnings")


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


def _lost(run: Run, results: Iterable[QuestionResult]) -> Table:
    flips = sorted(run.lost, key=lambda flip: not flip.critical)[:_ROWS]
    taken = _taken(run, flips, results)
    table = Table(
        title=f"Lost ({len(run.lost)})", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("question", overflow="fold")
    table.add_column("rank", no_wrap=True)
    table.add_column("cause", overflow="fold", max_width=16)
    if taken:
        table.add_column("took its place", overflow="fold")
    for flip in flips:
        cells = [_asked(flip), Text(f"{_rank(flip.baseline_rank)} → {_rank(flip.candidate_rank)}")]
        cells.append(Text(_cause(flip)))
        if taken:
            cells.append(Text(_line(taken.get(flip.id, ""), _TAKEN_CHARACTERS)))
        table.add_row(*cells)
    if len(run.lost) > len(flips):
        table.caption_justify = "left"
        table.caption = f"and {len(run.lost) - len(flips)} more: see the report"
    return table


def _taken(run: Run, flips: Iterable[Flip], results: Iterable[QuestionResult]) -> dict[str, str]:
    """By question, what stands where the answer stood; of the shown ones only."""
    wanted = {flip.id for flip in flips}
    return {each.id: place_taken(shown(each, run.query), run.query) for each in results if each.id in wanted}


def _asked(flip: Flip) -> Text:
    told = _line(f"{flip.id} {flip.question}", _QUESTION_CHARACTERS)
    return Text.assemble(("critical: ", "bold red"), told) if flip.critical else Text(told)


def _cause(flip: Flip) -> str:
    parts = (flip.cause.value if flip.cause else "", "unsteady" if flip.unstable else "")
    return ", ".join(part for part in parts if part)


def _rank(rank: int | None) -> str:
    return "none" if rank is None else str(rank)
