"""Decisions on questions: which are taken, what counts, and what is refused."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from app.domain.errors import InputError
from app.domain.golden import Question
from app.domain.outcome import Outcome, QuestionResult
from app.domain.review import (
    LONGEST_TEXT,
    Review,
    ReviewDraft,
    Ruling,
    Signature,
    anchor,
    reviewable,
    reviewed,
    standing,
    subject,
)
from tests.examples import example, failing

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
TODAY = NOON.date()
FAILING = failing()
QUESTIONS = {each.id: each for each in FAILING.results}


def signature(minutes: int = 0, mark: str = "m", by: str | None = "kim@contoso.example") -> Signature:
    return Signature(by=by, at=NOON + timedelta(minutes=minutes), mark=mark)


def review(question: str, decision: Ruling, *, minutes: int = 0, **keys: Any) -> Review:
    draft = ReviewDraft(question=question, decision=decision, **keys)
    return reviewed(
        draft,
        QUESTIONS[question],
        FAILING.run.query,
        run=FAILING.run.id,
        signature=signature(minutes),
    )


def refused(question: str, decision: Ruling, **keys: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        review(question, decision, **keys)
    return [fault.message for fault in caught.value.faults]


def test_a_real_loss_needs_no_more_than_saying_so() -> None:
    found = review("leave-carry-over", Ruling.REAL_LOSS)
    assert found.id == "20261130-120000-000000-m"
    assert (found.run, found.by, found.at) == (FAILING.run.id, "kim@contoso.example", NOON)
    assert (found.reason, found.answers, found.expires, found.watch) == (None, (), None, None)


@pytest.mark.parametrize("reason", [None, "", " \n\t"])
def test_what_is_acceptable_needs_a_reason(reason: str | None) -> None:
    assert refused("leave-carry-over", Ruling.ACCEPTABLE, reason=reason) == [
        "reason: is required for acceptable"
    ]


def test_an_acceptance_may_say_until_when_and_what_will_watch() -> None:
    found = review(
        "leave-carry-over",
        Ruling.ACCEPTABLE,
        reason=" Nobody asks before December. ",
        expires=date(2026, 12, 1),
        watch="the December smoke test",
    )
    assert found.reason == "Nobody asks before December."
    assert found.expires == date(2026, 12, 1)
    assert found.watch == "the December smoke test"


def test_an_acceptance_may_end_today_and_not_before() -> None:
    assert review("leave-carry-over", Ruling.ACCEPTABLE, reason="x", expires=TODAY).expires == TODAY
    assert refused("leave-carry-over", Ruling.ACCEPTABLE, reason="x", expires=date(2026, 11, 29)) == [
        "expires: 2026-11-29 has passed already"
    ]


@pytest.mark.parametrize("decision", [Ruling.REAL_LOSS, Ruling.LABEL_OUT_OF_DATE])
def test_only_what_is_acceptable_expires(decision: Ruling) -> None:
    faults = refused("leave-carry-over", decision, expires=TODAY, answers=())
    assert "expires: only what is acceptable can expire" in faults


@pytest.mark.parametrize(
    ("question", "outcome"),
    [
        ("it-hotline", Outcome.KEPT),
        ("org-chart", Outcome.ABSENT),
        ("remote-days", Outcome.GAINED),
        ("payroll-date", Outcome.ERROR),
        ("smalltalk", Outcome.UNLABELLED),
    ],
)
def test_there_is_nothing_to_decide_about_other_questions(question: str, outcome: Outcome) -> None:
    assert QUESTIONS[question].outcome is outcome
    assert not reviewable(QUESTIONS[question])
    assert refused(question, Ruling.REAL_LOSS) == [
        f"question: {question!r} is {outcome.value}: only lost, noisy and stale questions are reviewed"
    ]


@pytest.mark.parametrize("question", ["expense-limit", "badge-colour", "handbook", "parental-pay"])
def test_lost_noisy_stale_and_critical_lost_questions_are_decided(question: str) -> None:
    assert review(question, Ruling.REAL_LOSS).question == question


def test_a_critical_lost_question_is_decided_whatever_its_outcome() -> None:
    assert reviewable(replace(QUESTIONS["payroll-date"], critical_lost=True))


def test_new_answers_are_documents_that_the_candidate_showed() -> None:
    found = review("leave-carry-over", Ruling.LABEL_OUT_OF_DATE, answers=("leave-archive-2019",))
    assert found.answers == ("leave-archive-2019",)


def test_new_answers_may_be_documents_that_another_observation_showed() -> None:
    """badges stands in the baseline's list, other-1 only there, newer-1 only in the candidate's."""
    answers = ("newer-1", "other-1")
    assert review("badge-colour", Ruling.LABEL_OUT_OF_DATE, answers=answers).answers == answers


def test_answers_that_the_label_has_already_may_stay() -> None:
    """visa-letters is missing from the candidate, and is still an answer of the set."""
    answers = ("visa-letters", "newer-1")
    assert review("visa-letter", Ruling.LABEL_OUT_OF_DATE, answers=answers).answers == answers


def test_other_documents_are_refused_each_by_name() -> None:
    faults = refused("leave-carry-over", Ruling.LABEL_OUT_OF_DATE, answers=("nowhere", "badges", "atlantis"))
    assert faults == [
        "answers: 'nowhere' was shown by no observation of this question",
        "answers: 'atlantis' was shown by no observation of this question",
    ]


def test_a_label_out_of_date_needs_new_answers() -> None:
    assert refused("leave-carry-over", Ruling.LABEL_OUT_OF_DATE) == [
        "answers: the documents that answer the question now are required for label-out-of-date"
    ]
    assert refused("leave-carry-over", Ruling.LABEL_OUT_OF_DATE, answers=("leave-policy",)) == [
        "answers: are those of the golden set already"
    ]


@pytest.mark.parametrize("decision", [Ruling.REAL_LOSS, Ruling.ACCEPTABLE])
def test_answers_go_with_a_label_out_of_date_only(decision: Ruling) -> None:
    assert refused("leave-carry-over", decision, reason="x", answers=("badges",)) == [
        "answers: only for label-out-of-date"
    ]


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        (("badges", "badges"), "answers: the same entry stands twice"),
        ((("badges", "canteen"),), "answers: an array of alternatives needs require_all = true"),
        (
            (" ",),
            "answers: each entry is a non-empty string; with require_all also a non-empty array of them",
        ),
    ],
)
def test_new_answers_must_be_ones_that_a_golden_set_may_have(answers: Any, fault: str) -> None:
    assert fault in refused("leave-carry-over", Ruling.LABEL_OUT_OF_DATE, answers=answers)


def requiring_all(answers: Any, context: int = 5) -> QuestionResult:
    """A lost question that needs two documents at once; the candidate shows a1 … a9."""
    lost = QUESTIONS["leave-carry-over"]
    hits = tuple(replace(hit, parent=f"a{hit.rank}") for hit in lost.candidate[0].hits)
    return replace(
        lost, require_all=True, answers=answers, candidate=(replace(lost.candidate[0], hits=hits),)
    )


def test_alternatives_are_taken_where_all_entries_are_required() -> None:
    draft = ReviewDraft(
        question="leave-carry-over", decision=Ruling.LABEL_OUT_OF_DATE, answers=("a1", ("a2", "a3"))
    )
    found = reviewed(draft, requiring_all(("b1", "b2")), FAILING.run.query, run="r", signature=signature())
    assert found.answers == ("a1", ("a2", "a3"))


def test_more_entries_than_the_context_holds_are_refused() -> None:
    draft = ReviewDraft(
        question="leave-carry-over",
        decision=Ruling.LABEL_OUT_OF_DATE,
        answers=("a1", "a2", "a3", "a4", "a5", "a6"),
    )
    with pytest.raises(InputError, match="6 entries can never hold in a context of 5 chunks"):
        reviewed(draft, requiring_all(("b1", "b2")), FAILING.run.query, run="r", signature=signature())


def test_a_forbidden_document_is_no_answer() -> None:
    result = replace(QUESTIONS["leave-carry-over"], forbidden=("badges",))
    draft = ReviewDraft(question="leave-carry-over", decision=Ruling.LABEL_OUT_OF_DATE, answers=("badges",))
    with pytest.raises(InputError, match="'badges' is both an answer and forbidden"):
        reviewed(draft, result, FAILING.run.query, run="r", signature=signature())


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert len(refused("it-hotline", Ruling.ACCEPTABLE, answers=("x",), expires=date(2020, 1, 1))) == 4


def test_texts_have_an_end_and_whole_characters() -> None:
    long = "x" * (LONGEST_TEXT + 1)
    assert refused("leave-carry-over", Ruling.REAL_LOSS, reason=long, watch="\ud83d") == [
        "reason: has 4001 characters, and may have 4000",
        "watch: holds half of a surrogate pair",
    ]


HOSTILE = "<script>alert(1)</script>\x1b[31m ##vso[task.complete] [x](javascript:1) \u202e | `"


def test_hostile_text_is_kept_as_it_was_written() -> None:
    assert review("leave-carry-over", Ruling.ACCEPTABLE, reason=HOSTILE).reason == HOSTILE


def test_the_latest_decision_on_a_question_counts_whatever_the_order_of_reading() -> None:
    first = review("leave-carry-over", Ruling.REAL_LOSS)
    second = review("leave-carry-over", Ruling.ACCEPTABLE, reason="bearable", minutes=1)
    other = review("badge-colour", Ruling.REAL_LOSS, minutes=2)
    for order in ([first, second, other], [other, second, first]):
        found = standing(order, TODAY)
        assert found["leave-carry-over"].review == second
        assert found["badge-colour"].review == other
        assert set(found) == {"leave-carry-over", "badge-colour"}


def test_decisions_of_one_moment_are_told_apart() -> None:
    one, other = signature(mark="a"), signature(mark="b")
    assert one.id != other.id


def test_an_acceptance_counts_to_the_end_of_its_last_day() -> None:
    kept = review("leave-carry-over", Ruling.ACCEPTABLE, reason="x", expires=date(2026, 12, 1))
    on = {day: standing([kept], date(2026, 12, day))["leave-carry-over"] for day in (1, 2)}
    assert on[1].counts
    assert not on[1].expired
    assert on[2].expired
    assert not on[2].counts
    assert on[2].review == kept


def test_an_expired_acceptance_does_not_bring_a_former_decision_back() -> None:
    former = review("leave-carry-over", Ruling.REAL_LOSS)
    latest = review("leave-carry-over", Ruling.ACCEPTABLE, reason="x", expires=TODAY, minutes=1)
    found = standing([former, latest], TODAY + timedelta(days=1))["leave-carry-over"]
    assert found.review == latest
    assert not found.counts


def test_ids_sort_by_time_in_any_zone() -> None:
    east = datetime.fromisoformat("2026-11-30T13:30:00+02:00")  # 11:30 UTC
    assert Signature(by=None, at=east, mark="z").id < signature(mark="a").id


PLAIN = Question(id="q1", question="Who?", answers=("a", "b"))


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAIN, id="q2"),
        replace(PLAIN, question="Who else?"),
        replace(PLAIN, answers=("a",)),
        replace(PLAIN, answers=("a", "c")),
        replace(PLAIN, require_all=True),
    ],
)
def test_a_decision_is_about_one_id_text_and_answers(other: Question) -> None:
    assert subject("hr", other) != subject("hr", PLAIN)


def test_a_decision_is_about_one_set() -> None:
    assert subject("it", PLAIN) != subject("hr", PLAIN)


def test_what_does_not_bear_on_the_label_leaves_a_decision_where_it_is() -> None:
    changed = replace(PLAIN, answers=("b", "a"), note="n", slice=("s",), critical=True)
    assert subject("hr", changed) == subject("hr", PLAIN)


def test_the_anchor_of_a_question_is_fit_for_an_address() -> None:
    assert anchor("leave-carry-over") == "q-leave-carry-over"
    hostile = {anchor(text) for text in ('q<1>&"', "a b", "", "\ud83d", "x" * 200)}
    assert len(hostile) == 5
    assert all(text.startswith("x-") and text[2:].isalnum() for text in hostile)


def test_examples_are_what_these_tests_take_them_for() -> None:
    assert example(FAILING.run, FAILING.questions).run.verdict == "FAIL"
