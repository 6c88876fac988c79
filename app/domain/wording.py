"""The sentences that people read about a run, made from its numbers when they are read. Plain text: whoever
puts them into HTML, Markdown, XML or a terminal escapes them there.
"""

from collections.abc import Sequence
from datetime import date
from typing import assert_never

from app.domain.check import Level
from app.domain.reasons import Code, Reason, Verdict
from app.domain.run import Run

_NAMED = 5  # ids that a sentence lists before it says how many more


def headline(run: Run, *, on: date) -> str:
    """One sentence: who was compared, how it ended and why, what was evaluated, and what weakens that."""
    counts = run.counts
    parts = [_opening(run)]
    evaluated = f"{counts.evaluated} of {counts.labelled} labelled questions evaluated"
    aside = [
        text
        for number, text in (
            (counts.errors, f"{counts.errors} could not be measured"),
            (counts.stale, f"{counts.stale} with stale labels"),
            (counts.noisy, f"{counts.noisy} noisy"),
        )
        if number
    ]
    parts.append(f"{evaluated} ({', '.join(aside)})" if aside else evaluated)
    parts.extend(
        f"not evaluated: {check.message.rstrip('.')}"
        for check in run.checks
        if check.code == Code.NOT_EVALUATED
    )
    if run.golden_set.overdue(on):
        parts.append(f"the golden set's review has been overdue since {run.golden_set.review_by}")
    if run.golden_set.owner is None:
        parts.append("the golden set names no owner")
    return "; ".join(parts) + "."


def _opening(run: Run) -> str:
    what, against = run.candidate.index, f" against {run.baseline.index}"
    if run.noise_study:
        what, against = f"noise study of {run.candidate.index}", ""
    counts = run.counts
    moved = f"{counts.lost} lost, {counts.gained} gained, {counts.kept} kept"
    why = ", ".join(short(reason) for reason in run.reasons)
    reasons = f"{why}; {moved}" if counts.evaluated else why
    match run.verdict:
        case Verdict.PASS:
            return f"{what} passes{against}: {moved}, no critical question lost"
        case Verdict.FAIL:
            return f"{what} fails{against}: {reasons}"
        case Verdict.ERROR:
            return f"{what} could not be judged{against}: {reasons}"
        case None:
            return f"{what} is not decided yet{against}"
        case _:
            assert_never(run.verdict)


def short(reason: Reason) -> str:
    """The rule with its numbers, in a few words."""
    measured, limit = _number(reason.measured), _number(reason.limit)
    if reason.measured is None:
        return reason.code.value if reason.setting is None else f"{reason.code.value} ({reason.setting})"
    if reason.limit is None:
        return f"{reason.code.value} ({measured})"
    return f"{reason.code.value} ({measured}, limit {limit})"


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1%}" if 0 <= value <= 1 else f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_number(each)}" for key, each in value.items())
    return str(value)


def sentence(reason: Reason, run: Run) -> str:
    """The reason in full: what was measured against which limit, which questions, and what to do next."""
    details = " ".join(
        check.message for check in run.checks if check.level is Level.BLOCKING and check.code == reason.code
    )
    text = _nothing(run) if reason.code is Code.NOTHING_EVALUATED else _MEANINGS[reason.code]
    if reason.setting and reason.limit is not None:
        text += f" Measured {_number(reason.measured)}, limit {_number(reason.limit)} ({reason.setting})."
    if reason.code is Code.NOT_EVALUATED and reason.setting:
        text += f" Set by: {reason.setting}."
    if details:
        text += f" {details}"
    if reason.questions:
        text += f" Questions: {listed(reason.questions)}."
    if reason.documents:
        text += f" Documents: {listed(reason.documents)}."
    return text


def _nothing(run: Run) -> str:
    """Why nothing was evaluated, as far as the run itself knows."""
    others = any(reason.code is not Code.NOTHING_EVALUATED for reason in run.reasons)
    if run.requests.comparison == 0 and others:
        return "No question was asked, so nothing was measured."
    if 0 < run.counts.labelled == run.counts.errors:
        return "Every labelled question failed, so nothing was measured: their errors say why."
    return _MEANINGS[Code.NOTHING_EVALUATED]


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


_MEANINGS = {
    Code.CANCELLED: "The run was cancelled before it was finished: start it again.",
    Code.INTERRUPTED: "The run was interrupted and could not go on: start it again.",
    Code.FORBIDDEN_HIT: "The candidate shows documents that must not appear for the question's principal. Check "
    "the filter field of the candidate's chunks before anything else.",
    Code.INDEX_CHANGED: "An index changed while it was judged: wait until it stands still, then run again.",
    Code.CRITICAL_LOST: "Critical questions lost their answer from the context; noise does not excuse that. Open "
    "them in the report: a real loss needs a better candidate, a wrong label a corrected golden set.",
    Code.NOTHING_EVALUATED: "No labelled question had its answer in the context of either index, so nothing was "
    "measured. Check the labels against the parent field, the query settings, and that the set is not empty.",
    Code.TOO_FEW_EVALUATED: "Too few of the labelled questions could be evaluated.",
    Code.QUESTION_ERRORS: "Questions could not be measured: an error is neither a loss nor a gain. Look at their "
    "errors, and run again. No error is tolerated on critical questions or on those with forbidden documents.",
    Code.TOO_NOISY: "The indexes answer the same question differently too often to be judged.",
    Code.CRITICAL_STALE: "Critical questions name documents that are in neither index: correct the golden set.",
    Code.LABELS_UNRESOLVED: "None of the labels is a parent document of either index.",
    Code.PARENT_AMBIGUOUS: "Different parents become one name under parent_names.",
    Code.SAME_INDEX: "Both sides are the same index with the same query: there is nothing to compare. Name "
    "another candidate, or ask for a noise study.",
    Code.INDEX_MISSING: "An index is not there.",
    Code.INDEX_EMPTY: "An index holds no documents.",
    Code.FIELD_MISSING: "A field that the query needs cannot be used.",
    Code.NO_VECTORIZER: "The index cannot turn a question into a vector: give its vector field a vectorizer, or "
    "the golden set a [query.embedding].",
    Code.VECTORIZER_FAILED: "Questions could not be turned into vectors.",
    Code.SEMANTIC_UNAVAILABLE: "The semantic ranker cannot be used: enable it on the service and give the index a "
    "semantic configuration, or set semantic = false if the application does not use it.",
    Code.ACCESS_CONTROLLED: "The index hides documents by permission, so an application's identity sees public "
    "documents only: it cannot be judged this way.",
    Code.QUOTA_EXCEEDED: "The service's allowance of semantic queries is used up: enable its billing, or wait for "
    "the next month.",
    Code.UNAUTHORIZED: "The search service refuses this identity.",
    Code.UNREACHABLE: "The search service cannot be reached.",
    Code.THROTTLED: "The search service turned too many requests away: run again at a quieter time, with a lower "
    "GATE_CAPACITY_SHARE, or on more replicas.",
    Code.TIMED_OUT: "The run took longer than it may (GATE_RUN_TIMEOUT_SECONDS), or the service did not answer in "
    "time (GATE_QUERY_TIMEOUT_SECONDS).",
    Code.NOT_EVALUATED: "A rule that the set or the request sets could not be evaluated.",
    Code.STORAGE_UNAVAILABLE: "The evidence could not be kept.",
    Code.NET_LOSS: "More questions were lost than gained. Open the lost list in the report.",
    Code.SLICE_LOSS: "A protected slice lost more questions than it gained.",
    Code.LOST_DOCUMENTS: "Parent documents of the baseline are missing from the candidate.",
    Code.DESTABILISED: "More questions became unsteady than became steady.",
}
