"""JUnit XML as Azure DevOps, GitLab and Jenkins read it: a case per question, and the verdict's own suite.

A case keeps its name and class from run to run (the history of a test hangs on both). A noisy question
passes, with its ranks in `system-out`: it was asked and it does not count, so it is neither red nor skipped.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC
from xml.etree import ElementTree as ET

from app.domain.outcome import Outcome, QuestionResult, failed
from app.domain.overrides import Override
from app.domain.query import Side
from app.domain.reasons import Reason, Verdict, verdict
from app.domain.run import Run
from app.domain.wording import sentence, short
from app.report.decisions import waiver
from app.report.escaping import clipped, visible
from app.report.evidence import (
    Loss,
    Losses,
    expected_in_words,
    failures,
    forbidden_places,
    in_reach,
    label,
    moved,
    owner,
    shown,
    stale_in_words,
)

UNSLICED = "unsliced"
VERDICT = "verdict"
_QUESTION_CHARACTERS = 80
_COUNTED = ("tests", "failures", "errors", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What a case carries: `kind` is JUnit's element, None for a pass."""

    kind: str | None = None
    type: str = ""
    message: str = ""
    text: str = ""


@dataclass(slots=True)
class _Suite:
    element: ET.Element
    seconds: float = 0.0
    counted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))

    def add(self, case: ET.Element, result: _Result, seconds: float) -> None:
        self.element.append(case)
        self.seconds += seconds
        self.counted["tests"] += 1
        match result.kind:
            case "failure":
                self.counted["failures"] += 1
            case "error":
                self.counted["errors"] += 1
            case "skipped":
                self.counted["skipped"] += 1
            case _:
                pass

    def close(self) -> None:
        for name, number in self.counted.items():
            self.element.set(name, str(number))
        self.element.set("time", _seconds(self.seconds))


def junit(run: Run, results: Iterable[QuestionResult], waived: Override | None = None) -> bytes:
    """The document in UTF-8. Suites: the verdict, then one per slice in the order of their first question.
    `waived`: the override that clears the run; what failed stays a failure, and says so.
    """
    document, losses = _Document(run), Losses.of_run(run)
    for name, result in _verdict(run, waived):
        document.add(VERDICT, name, result, 0.0)
    for each in results:
        slice_ = visible(each.slice[0]) if each.slice else UNSLICED
        document.add(slice_, _name(each), _result(each, losses.of(each), run), _elapsed(each))
    return document.close()


class _Document:
    """The tree as it grows; closing it writes the counts."""

    def __init__(self, run: Run) -> None:
        self._set = visible(run.golden_set.name)
        when = run.started_at or run.created_at
        self._timestamp = when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
        self._root = ET.Element("testsuites", name=f"search index gate: {self._set}")
        self._suites: dict[str, _Suite] = {}
        self._names: dict[str, int] = {}

    def add(self, suite: str, name: str, result: _Result, seconds: float) -> None:
        if suite not in self._suites:
            element = ET.SubElement(self._root, "testsuite", name=suite, timestamp=self._timestamp)
            self._suites[suite] = _Suite(element)
        case = ET.Element(
            "testcase", name=self._unique(name), classname=f"{self._set}.{suite}", time=_seconds(seconds)
        )
        if result.kind is not None:
            told = ET.SubElement(case, result.kind, message=result.message)
            told.text = result.text
            if result.type:
                told.set("type", result.type)
        elif result.text:
            ET.SubElement(case, "system-out").text = result.text
        self._suites[suite].add(case, result, seconds)

    def _unique(self, name: str) -> str:
        """The name, numbered from its second use on: ids may look alike once escaped."""
        found = name
        while found in self._names:
            self._names[name] += 1
            found = f"{name} ({self._names[name]})"
        self._names[found] = 1
        return found

    def close(self) -> bytes:
        whole = _Suite(self._root)
        for suite in self._suites.values():
            suite.close()
            whole.seconds += suite.seconds
            for name in _COUNTED:
                whole.counted[name] += suite.counted[name]
        whole.close()
        ET.indent(self._root, space=" ")
        return bytes(ET.tostring(self._root, encoding="utf-8", xml_declaration=True))


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _elapsed(result: QuestionResult) -> float:
    """Seconds of the candidate's first observation."""
    return result.candidate[0].elapsed_ms / 1000 if result.candidate else 0.0


def _name(result: QuestionResult) -> str:
    return f"{visible(result.id)}: {clipped(visible(result.question), _QUESTION_CHARACTERS)}"


# the verdict -----------------------------------------------------------------------------------------------


def _verdict(run: Run, waived: Override | None) -> Iterator[tuple[str, _Result]]:
    """A case for each rule that holds, so that a verdict without a red question is red all the same."""
    for reason in run.reasons:
        yield reason.code.value, _of_reason(reason, run, waived)
    if run.reasons:
        return
    headline = visible(run.headline or "")
    if run.verdict is Verdict.PASS:
        yield VERDICT, _Result(text=headline)
    else:
        message = f"no verdict: the run is {run.state}" if run.verdict is None else str(run.verdict)
        yield VERDICT, _Result(kind="error", type=VERDICT, message=message, text=headline or message)


def _of_reason(reason: Reason, run: Run, waived: Override | None) -> _Result:
    told = (f"{label}: {visible(text)}" for label, text in waiver(waived))
    return _Result(
        kind="failure" if verdict((reason,)) is Verdict.FAIL else "error",
        type=reason.code.value,
        message=f"{visible(short(reason))}{', WAIVED' if waived else ''}",
        text="\n".join((*told, visible(sentence(reason, run)), *_named("question", reason.questions))),
    )


def _named(word: str, names: tuple[str, ...]) -> Iterator[str]:
    return (f"{word}: {visible(name)}" for name in names)


# one question ----------------------------------------------------------------------------------------------


def _result(result: QuestionResult, loss: Loss | None, run: Run) -> _Result:
    kind, type_, message = _judged(result, loss, run)
    told = kind is not None or result.outcome in (Outcome.NOISY, Outcome.GAINED) or result.missing.in_both
    text = "\n".join(_lines(result, loss, run)) if told else ""
    return _Result(kind=kind, type=type_, message=visible(message), text=text)


def _judged(result: QuestionResult, loss: Loss | None, run: Run) -> tuple[str | None, str, str]:
    """Element, type and message. What is measured as wrong goes first; a failed observation is no loss."""
    if result.forbidden_hits:
        return (
            "failure",
            "forbidden-hit",
            f"shows forbidden documents: {forbidden_places(result, Side.CANDIDATE)}",
        )
    if loss is not None:
        word = "critical lost" if result.critical_lost else "lost"
        cause = f"; {loss.cause}" if loss.cause else ""
        return "failure", word.replace(" ", "-"), f"{word}: rank {moved(result, run.query)}{cause}"
    if failed(result):
        return "error", "error", "not measured: " + "; ".join(failures(result))
    match result.outcome:
        case Outcome.STALE:
            return "skipped", "", stale_in_words(result)
        case Outcome.UNLABELLED:
            return "skipped", "", "unlabelled: no answer to look for"
        case _:
            return None, "", ""


def _lines(result: QuestionResult, loss: Loss | None, run: Run) -> Iterator[str]:
    """What a reader of the test results needs to judge the question, a line each."""
    pair = shown(result, run.query)
    yield f"question: {visible(result.question)}"
    yield f"outcome: {result.outcome}{', critical' if result.critical else ''}"
    yield f"expected: {visible(expected_in_words(result))}"
    if result.answers:
        yield f"rank before → after: {moved(result, run.query)}"
    if loss is not None:
        yield f"cause: {loss.cause or 'not known'}"
        yield from (f"why: {visible(each)}" for each in loss.why)
        yield f"took its place: {visible(loss.taken)}"
    for word, seen, query in (
        ("before", pair.before, run.query.baseline),
        ("after", pair.after, run.query.candidate),
    ):
        for hit in in_reach(seen, query):
            yield f"{word} {hit.rank}: {visible(label(hit))}"
    if result.forbidden_hits:
        yield f"forbidden: {visible(forbidden_places(result, Side.CANDIDATE))}"
    yield from (f"error: {visible(each)}" for each in failures(result))
    if result.missing.in_both:
        yield visible(stale_in_words(result))
    yield f"owner: {visible(owner(result, run))}"
