"""Records, clearances and watches in words: one line each, whatever the texts hold."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.domain.audit import Entry, Kind, Record, opened, sealed
from app.domain.clearance import Clearance
from app.domain.condition import Condition, Need
from app.domain.watch import Shown, Watch, Watched, WatchedQuestion
from app.report.audit import clearance_lines, watch_lines, what, who, why

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ENTRY = Entry(kind=Kind.PROMOTED, at=NOON, actor="ops", before="kb-v1", after="kb-v2")
HOSTILE = "a\nb\x1b[31m\u202e##vso[task.complete]"
SHOWN = "a\\nb\\u001b[31m\\u202e"
QUESTION = WatchedQuestion(id="q1", shown=Shown.HOLDS, rank=2, judged=2, tries=1)


def record(**changes: object) -> Record:
    return opened(sealed(replace(ENTRY, **changes), 1, None))  # type: ignore[arg-type] # members of an entry


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Kind.PROMOTING, "a promotion began: kb-v2 in place of kb-v1"),
        (Kind.PROMOTED, "promoted: kb-v2 in place of kb-v1"),
        (Kind.ROLLING_BACK, "a roll back began: kb-v2 in place of kb-v1"),
        (Kind.ROLLED_BACK, "rolled back: kb-v2 in place of kb-v1"),
        (Kind.CLOSED, "came to nothing: kb-v2 in place of kb-v1"),
        (Kind.REFUSED, "refused: kb-v2 in place of kb-v1"),
        (Kind.OVERRIDE_USED, "an override was used for kb-v2"),
        (Kind.WATCHED, "watched kb-v2: no result"),
        (Kind.DRILLED, "drilled a roll back: kb-v2 in place of kb-v1"),
    ],
)
def test_each_kind_of_record_is_one_sentence(kind: Kind, said: str) -> None:
    assert what(record(kind=kind)) == said


def test_every_kind_of_record_has_its_sentence() -> None:
    assert all(what(record(kind=kind)) for kind in Kind)


def test_the_result_of_a_watch_is_told() -> None:
    watched = Watched(state=Watch.FAILED, asked="kb-v2", note="a note")
    assert what(record(kind=Kind.WATCHED, watch=watched)) == "watched kb-v2: failed"


def test_a_place_that_named_nothing_is_told() -> None:
    assert what(record(before=None)) == "promoted: kb-v2 in place of nothing"


def test_nobody_is_somebody_not_signed_in() -> None:
    assert who(record(actor=None)) == "somebody not signed in"
    assert who(record()) == "ops"


def test_why_is_the_reason_and_then_each_condition_that_did_not_hold() -> None:
    conditions = (
        Condition(code=Need.VERDICT, holds=False, message="The verdict is FAIL."),
        Condition(code=Need.AGE, holds=False, message="The verdict is old."),
    )
    assert why(record()) == ""
    assert why(record(reason="release 7")) == "release 7"
    assert why(record(conditions=conditions)) == "The verdict is FAIL. The verdict is old."
    assert why(record(reason="urgent", conditions=conditions)).startswith("urgent The verdict is FAIL.")


def test_what_does_not_show_itself_is_made_visible() -> None:
    hostile = record(actor=HOSTILE, reason=HOSTILE, after=HOSTILE)
    for said in (who(hostile), why(hostile), what(hostile)):
        assert SHOWN in said
        assert said.isprintable()


def test_a_clearance_is_a_condition_a_line_and_a_sum() -> None:
    conditions = (
        Condition(code=Need.VERDICT, holds=True, message="The verdict is PASS."),
        Condition(code=Need.AGE, holds=False, message=HOSTILE),
    )
    cleared = Clearance(run="run-1", at=NOON, cleared=False, live="kb-v1", conditions=conditions)
    first, second, last = clearance_lines(cleared)
    assert first == "holds  verdict: The verdict is PASS."
    assert second.startswith(f"FAILS  age: {SHOWN}")
    assert last == "run-1 is NOT cleared for promotion."
    assert list(clearance_lines(replace(cleared, cleared=True)))[-1] == "run-1 is cleared for promotion."


def test_a_watch_is_a_line_and_one_for_each_question_that_does_not_hold() -> None:
    questions = (
        QUESTION,
        replace(QUESTION, id="q2", shown=Shown.FAILED, rank=None, judged=3, forbidden=("d7", "d8")),
        replace(QUESTION, id=HOSTILE, shown=Shown.ERROR, rank=None, judged=None, message="no answer"),
    )
    first, second, third = watch_lines(
        Watched(state=Watch.FAILED, asked="kb-v2", questions=questions, note="1 FAILED: q2.")
    )
    assert first == "watch: failed. 1 FAILED: q2."
    assert second == "  q2  failed  rank 3 when judged, none now, shows d7, d8"
    assert third.startswith(f"  {SHOWN}")
    assert third.endswith("  error  rank none when judged, none now: no answer")
    assert third.isprintable()
