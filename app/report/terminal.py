"""A run told in a terminal: verdict, reasons, and the lost questions in a table."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.domain.reasons import Verdict
from app.domain.run import Flip, Run
from app.domain.wording import sentence
from app.report.escaping import clipped, visible

_ROWS = 15
_STYLES = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.ERROR: "bold yellow"}


def terminal(run: Run) -> RenderableType:
    """What a person at the terminal needs to know; text from outside cannot style or command anything."""
    return Group(*_parts(run))


def last_line(run: Run) -> str:
    """`PASS`, `FAIL` or `ERROR`, a colon and the headline, in one line."""
    return visible(f"{run.verdict}: {run.headline}")


def _parts(run: Run) -> Iterator[RenderableType]:
    if run.verdict is not None:
        name = f"{visible(run.golden_set.name)} · {visible(run.candidate.index)} against {visible(run.baseline.index)}"
        yield Text.assemble((run.verdict.value, _STYLES[run.verdict]), f"  {name}  (run {run.id})")
    for reason in run.reasons:
        yield Text(f"· {reason.code}: {visible(sentence(reason, run))}")
    for check in run.checks:
        if check.level == "warning":
            yield Text(f"· warning: {visible(check.message)}", style="dim")
    if run.lost:
        yield _table("Lost", run.lost)
    if run.gained:
        yield Text(f"Gained: {', '.join(visible(flip.id) for flip in run.gained[:_ROWS])}")


def _table(title: str, flips: tuple[Flip, ...]) -> Table:
    table = Table(title=f"{title} ({len(flips)})", title_justify="left", expand=False)
    for heading in ("question", "critical", "slice", "rank", "cause"):
        table.add_column(heading, overflow="fold")
    critical_first = sorted(flips, key=lambda flip: not flip.critical)
    for flip in critical_first[:_ROWS]:
        table.add_row(
            Text(clipped(visible(f"{flip.id}  {flip.question}"), 90)),
            "critical" if flip.critical else "",
            Text(visible(", ".join(flip.slice))),
            f"{_rank(flip.baseline_rank)} → {_rank(flip.candidate_rank)}",
            flip.cause.value if flip.cause else "",
        )
    if len(flips) > _ROWS:
        table.caption = f"and {len(flips) - _ROWS} more: see the report"
    return table


def _rank(rank: int | None) -> str:
    return "none" if rank is None else str(rank)
