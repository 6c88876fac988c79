"""What each reader does next, by verdict."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from app.domain.reasons import Code, Verdict
from app.domain.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one reader does next; plain text of ours, without a word from outside."""

    role: str
    text: str


_LABELS = frozenset({Code.CRITICAL_STALE, Code.LABELS_UNRESOLVED, Code.PARENT_AMBIGUOUS})
_AGAIN = "run the gate again"


def next_steps(run: Run, *, waived: bool = False) -> tuple[Step, ...]:
    """One step each for the content owner, the pipeline and operations. `waived`: a FAIL was overridden."""
    match run.verdict:
        case Verdict.PASS:
            steps = (_owner_after_pass(run), _pipeline_when_cleared(run), "Nothing to do.")
        case Verdict.FAIL:
            pipeline = _pipeline_when_cleared(run) if waived else _PIPELINE_AFTER_FAIL
            steps = (_owner_after_fail(run), pipeline, _operations_after_fail(run))
        case Verdict.ERROR:
            steps = (_owner_after_error(run), _PIPELINE_AFTER_ERROR, _OPERATIONS_AFTER_ERROR)
        case None:
            steps = (
                "Wait for the verdict.",
                "Wait: without a verdict nothing is switched.",
                "Nothing to do.",
            )
        case _:
            assert_never(run.verdict)
    roles = ("Content owner", "Pipeline", "Operations")
    return tuple(Step(role=role, text=text) for role, text in zip(roles, steps, strict=True))


def _owner_after_pass(run: Run) -> str:
    return f"Nothing to decide{_label_work(run)}."


def _pipeline_when_cleared(run: Run) -> str:
    if run.noise_study:
        return "Nothing to switch: this was a noise study of one index."
    if run.baseline.index == run.candidate.index:
        return "Nothing to switch: both sides are one index, only the query differs."
    if not run.trusted:
        return "Nothing to switch: this run is not trusted. Run a deployed golden set under its own policy."
    hours = run.policy.max_verdict_age_hours
    return f"The candidate may be promoted within {hours:g} hours, as long as neither index changes."


def _owner_after_fail(run: Run) -> str:
    if not run.lost:
        return f"Nothing was lost from the context: read the reasons with the index team{_label_work(run)}."
    return (
        "Decide each lost question below. If the expected document still is the right answer, it is a real loss, "
        "which the index team has to mend. If something better took its place, the label is out of date: name "
        "the new answer. If users can bear it, it is acceptable: say why"
        f"{_label_work(run)}."
    )


_PIPELINE_AFTER_FAIL = (
    "Do not switch. Running again without a change makes nothing better: correct the candidate or the labels, "
    f"then {_AGAIN}."
)


def _operations_after_fail(run: Run) -> str:
    if any(reason.code is Code.FORBIDDEN_HIT for reason in run.reasons):
        return "Keep the candidate away from users: it shows documents that the principal must not see."
    return "Nothing to do: users still get the baseline."


def _owner_after_error(run: Run) -> str:
    codes = [reason.code for reason in run.reasons]
    if _LABELS.intersection(codes) or codes == [Code.NOTHING_EVALUATED]:
        return "Correct the golden set: its labels are missing, or do not name documents of these indexes."
    return f"Nothing to decide: this says nothing about the candidate's answers{_label_work(run)}."


_PIPELINE_AFTER_ERROR = f"Do not switch: nothing was proven. Once the cause is removed, {_AGAIN}."
_OPERATIONS_AFTER_ERROR = f"Remove what the reasons name, then {_AGAIN}. Users still get the baseline."


def _label_work(run: Run) -> str:
    return "".join(f"; {text}" for text in _label_tasks(run))


def _label_tasks(run: Run) -> Iterator[str]:
    if run.counts.stale:
        yield "correct the stale labels"
    if run.golden_set.owner is None:
        yield "name an owner in the golden set"
