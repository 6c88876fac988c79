"""What was decided on a run, as its pages and its file show it."""

from collections.abc import Iterable
from datetime import UTC, date

from app.domain.golden import Question
from app.domain.run import Run
from app.gate.opened import OpenGate
from app.gate.reviews import review_view
from app.report.decisions import Decisions


def today(gate: OpenGate) -> date:
    """The day, UTC, as of which decisions stand."""
    return gate.execution.now().astimezone(UTC).date()


async def decisions_of(gate: OpenGate, run: Run, questions: Iterable[Question] | None = None) -> Decisions:
    """What was decided on a run, as of today. `questions` as for `review_view`."""
    view = await review_view(gate.records, run.id, today(gate), questions)
    return Decisions(
        reviews=view.reviews,
        standing=view.standing,
        carried=view.carried,
        overrides=view.overrides,
        waived=view.waived,
    )
