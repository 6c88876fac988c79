"""Overrides: of a FAIL that names all it lets through, and of nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.check import Check, Level
from app.domain.errors import InputError
from app.domain.overrides import Override, OverrideDraft, never, overridden, to_name, waived
from app.domain.policy import Policy
from app.domain.reasons import Code, Verdict
from app.domain.review import Signature
from app.domain.run import Run
from tests.examples import (
    a_run,
    errors_are_no_losses,
    example,
    failing,
    forbidden,
    inventories,
    passing,
    unsteady,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN = failing().run
LOST = ("expense-limit", "leave-carry-over", "visa-letter", "parental-pay")


def draft(**keys: Any) -> OverrideDraft:
    return OverrideDraft(
        **{"reason": "The archive goes on Friday.", "questions": LOST, "watch": "Friday's run", **keys}
    )


def given(run: Run = RUN, *, minutes: int = 0, **keys: Any) -> Override:
    signature = Signature(by="kim", at=NOON + timedelta(minutes=minutes), mark="m")
    return overridden(draft(**keys), run, signature)


def refused(run: Run = RUN, **keys: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        given(run, **keys)
    return [fault.message for fault in caught.value.faults]


def without_documents() -> Run:
    """The failing run, where a limit to lost documents makes them a reason: 0.00641 > 0."""
    policy = replace(failing().run.policy, max_lost_documents_share=0.0)
    return example(replace(failing().run, policy=policy, inventories=inventories()), failing().questions).run


def test_an_override_names_all_questions_of_the_failing_reasons() -> None:
    assert [reason.code for reason in RUN.reasons] == [Code.CRITICAL_LOST, Code.NET_LOSS, Code.SLICE_LOSS]
    assert set(to_name(RUN).questions) == set(LOST)
    found = given()
    assert (found.run, found.by, found.at) == (RUN.id, "kim", NOON)
    assert (found.reason, found.watch) == ("The archive goes on Friday.", "Friday's run")
    assert found.questions == LOST


def test_what_is_missing_is_refused_by_name_with_the_reasons_that_name_it() -> None:
    assert refused(questions=("leave-carry-over", "visa-letter")) == [
        "questions: 'parental-pay' is missing, named by critical-lost",
        "questions: 'expense-limit' is missing, named by net-loss, slice-loss",
    ]


def test_documents_that_a_failing_reason_names_must_be_named() -> None:
    run = without_documents()
    assert Code.LOST_DOCUMENTS in [reason.code for reason in run.reasons]
    assert refused(run, documents=("visa-letters",)) == [
        "documents: 'old-canteen-menu' is missing, named by lost-documents"
    ]
    assert given(run, documents=("visa-letters", "old-canteen-menu")).documents == (
        "visa-letters",
        "old-canteen-menu",
    )


def test_a_name_that_the_run_does_not_know_is_refused() -> None:
    assert refused(questions=(*LOST, "it-hotline"), documents=("badges",)) == [
        "questions: 'it-hotline' is named by no failing reason and was not lost",
        "documents: 'badges' is named by no failing reason and no check",
    ]


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_reason_and_a_watch_are_required(text: str) -> None:
    assert refused(reason=text, watch=text) == [
        "reason: is required",
        "watch: is required: what will watch for these after the cut-over",
    ]


def test_a_run_that_passed_has_nothing_to_override() -> None:
    assert refused(passing().run, questions=()) == ["The run passed: there is nothing to override."]


def test_an_error_is_never_overridden() -> None:
    run = errors_are_no_losses().run
    assert run.verdict is Verdict.ERROR
    (fault,) = refused(run, questions=())
    assert "never overridden" in fault


def test_a_run_that_is_not_decided_is_not_overridden() -> None:
    (fault,) = refused(a_run(), questions=())
    assert "not decided yet" in fault


def test_forbidden_documents_are_never_overridden() -> None:
    run = forbidden().run
    assert run.verdict is Verdict.FAIL
    (fault,) = refused(run, questions=("q1", "q2"), documents=("board-pay",))
    assert "forbidden-hit" in fault


def test_a_failure_that_is_also_an_error_is_not_overridden() -> None:
    """critical-lost decides, but noisy 2 of 20 = 0.1 is above 0.05: what is left would be an ERROR."""
    case = unsteady()
    run = example(replace(case.run, policy=Policy(max_noisy_share=0.05)), case.questions).run
    assert [reason.code for reason in run.reasons] == [Code.CRITICAL_LOST, Code.TOO_NOISY]
    assert run.verdict is Verdict.FAIL
    (fault,) = refused(run, questions=("q08",))
    assert "too-noisy" in fault
    assert given(unsteady().run, questions=("q08",)).questions == ("q08",)


def test_a_run_is_waived_by_its_latest_override_and_stays_a_failure() -> None:
    first, second = given(), given(minutes=1, reason="Better said.")
    assert waived(RUN, [second, first]) == second
    assert waived(RUN, []) is None
    assert RUN.verdict is Verdict.FAIL


def test_an_override_of_another_run_or_of_less_clears_nothing() -> None:
    assert waived(replace(RUN, id="another"), [given()]) is None
    assert waived(RUN, [replace(given(), questions=LOST[1:])]) is None
    assert waived(RUN, [replace(given(), reason=" ")]) is None
    assert waived(replace(RUN, verdict=Verdict.ERROR), [given()]) is None


def test_an_incomplete_override_does_not_hide_a_complete_one() -> None:
    whole = given()
    assert waived(RUN, [replace(whole, at=NOON + timedelta(hours=1), questions=()), whole]) == whole


def test_documents_that_a_check_warns_of_may_be_named() -> None:
    warned = Check(code="x", level=Level.WARNING, message="x", documents=("old-menu",))
    run = replace(RUN, checks=(*RUN.checks, warned))
    assert given(run, documents=("old-menu",)).documents == ("old-menu",)


def test_names_are_kept_once() -> None:
    assert given(questions=LOST * 2).questions == LOST
    assert never(RUN) is None
