"""The sentences of a run."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from app.domain.check import Check, Level
from app.domain.decision import decide, decided, results
from app.domain.outcome import Observed
from app.domain.policy import Policy
from app.domain.reasons import Code, Reason
from app.domain.run import Run
from app.domain.wording import headline, listed, sentence, short
from tests.domain.making import blocking, erring, gained, kept, lost, noisy, run_of, stale, unlabelled

_DAY = date(2027, 3, 1)


def headline_of(questions: list[Observed], policy: Policy | None = None, **about: Any) -> str:
    run = run_of(policy, **about)
    done = decided(run, decide(run, results(questions, run.query)), on=_DAY)
    assert done.headline is not None
    return done.headline


# headline


def test_a_pass_says_what_was_compared_and_how_much_of_it() -> None:
    assert headline_of([kept("a"), kept("b"), kept("c"), gained("d"), unlabelled("e")]) == (
        "kb-v2 passes against kb-v1: 0 lost, 1 gained, 3 kept, no critical question lost; "
        "4 of 4 labelled questions evaluated."
    )


def test_a_fail_gives_the_deciding_numbers_and_their_limits() -> None:
    assert headline_of([lost("a", critical=True), lost("b"), kept("c")]) == (
        "kb-v2 fails against kb-v1: critical-lost (1, limit 0), net-loss (2, limit 0); 2 lost, 0 gained, 1 kept; "
        "3 of 3 labelled questions evaluated."
    )


def test_s19_an_error_over_nothing_says_that_nothing_was_evaluated() -> None:
    assert headline_of([]) == (
        "kb-v2 could not be judged against kb-v1: nothing-evaluated (0); 0 of 0 labelled questions evaluated."
    )
    assert "; 0 of 12 labelled questions evaluated (12 could not be measured)." in headline_of(
        [erring(f"q{n}") for n in range(12)]
    )


def test_s19_one_of_twelve_is_in_the_headline() -> None:
    text = headline_of([kept("k"), *(stale(f"q{n}") for n in range(11))])
    assert "too-few-evaluated (8.3%, limit 90.0%)" in text  # 1 / 12 = 0.0833
    assert "1 of 12 labelled questions evaluated (11 with stale labels)" in text


def test_s21_tolerated_errors_and_noise_show_in_a_pass() -> None:
    questions = [*(kept(f"k{n}") for n in range(10)), erring("e"), noisy("n"), stale("s")]
    text = headline_of(questions, Policy(max_question_errors=1, min_evaluated_share=0.5))
    assert text.startswith("kb-v2 passes against kb-v1: ")
    assert (
        "11 of 13 labelled questions evaluated (1 could not be measured, 1 with stale labels, 1 noisy)"
        in text
    )


@pytest.mark.parametrize("level", list(Level))
def test_what_could_not_be_evaluated_is_named(level: Level) -> None:
    check = Check(code=Code.NOT_EVALUATED, level=level, message="The lost documents were not counted.")
    text = headline_of([kept("k")], checks=(check,))
    assert text.endswith("evaluated; not evaluated: The lost documents were not counted.")


@pytest.mark.parametrize(
    ("review_by", "overdue"),
    [(None, False), (date(2027, 3, 2), False), (date(2027, 3, 1), False), (date(2027, 2, 28), True)],
)
def test_a_set_is_overdue_from_the_day_after_its_review_date(review_by: date | None, overdue: bool) -> None:
    text = headline_of([kept("k")], review_by=review_by)
    assert text.endswith("evaluated; the golden set's review has been overdue since 2027-02-28.") is overdue
    assert ("overdue" in text) is overdue


def test_a_set_without_an_owner_is_said_to_have_none() -> None:
    assert headline_of([kept("k")], owner=None).endswith("; the golden set names no owner.")
    assert "owner" not in headline_of([kept("k")])


def test_a_noise_study_is_called_one() -> None:
    text = headline_of([kept("k")], noise_study=True)
    assert text.startswith("noise study of kb-v2 passes: ")
    assert "against" not in text


def test_a_run_that_is_not_done_has_no_verdict_in_its_headline() -> None:
    text = headline(run_of(), on=_DAY)
    assert text.startswith("kb-v2 is not decided yet against kb-v1; ")


@pytest.mark.parametrize("questions", [[], [kept("k")], [lost("l")], [erring("e"), kept("k")]])
def test_a_headline_is_one_line_that_ends_once(questions: list[Observed]) -> None:
    checks = (Check(code=Code.NOT_EVALUATED, level=Level.WARNING, message="No count."), blocking("throttled"))
    text = headline_of(questions, owner=None, review_by=date(2020, 1, 1), checks=checks)
    assert text.endswith(".")
    assert not text.endswith("..")
    assert "\n" not in text
    assert ".;" not in text


# reasons


@pytest.mark.parametrize(
    ("measured", "limit", "text"),
    [
        (None, None, "too-noisy"),
        (3, None, "too-noisy (3)"),
        (3, 0, "too-noisy (3, limit 0)"),
        (0.25, 0.2, "too-noisy (25.0%, limit 20.0%)"),
        (1 / 3, 0, "too-noisy (33.3%, limit 0)"),
        ({"table": 2, "lookup": 1}, 0, "too-noisy (table: 2, lookup: 1, limit 0)"),
        (72.5, 48.0, "too-noisy (72.5, limit 48)"),
    ],
)
def test_a_reason_is_short_with_its_numbers(measured: object, limit: object, text: str) -> None:
    assert short(Reason(code=Code.TOO_NOISY, measured=measured, limit=limit)) == text


@pytest.mark.parametrize("code", list(Code))
def test_every_reason_has_a_sentence(code: Code) -> None:
    text = sentence(Reason(code=code), run_of())
    assert len(text) > len("An index is empty")
    assert text[0].isupper()
    assert text.endswith(".")
    assert short(Reason(code=code)) == code.value


def test_a_sentence_gives_numbers_findings_questions_and_documents() -> None:
    run: Run = replace(
        run_of(),
        checks=(
            blocking("lost-documents"),
            Check(code="lost-documents", level=Level.WARNING, message="Only a warning."),
            blocking("throttled"),
        ),
    )
    reason = Reason(
        code=Code.LOST_DOCUMENTS,
        measured=0.5,
        limit=0.1,
        setting="max_lost_documents_share",
        questions=("q1", "q2"),
        documents=("d1",),
    )
    assert sentence(reason, run) == (
        "Parent documents of the baseline are missing from the candidate. "
        "Measured 50.0%, limit 10.0% (max_lost_documents_share). lost-documents was found. "
        "Questions: q1, q2. Documents: d1."
    )


@pytest.mark.parametrize(
    ("number", "text"), [(0, ""), (1, "0"), (5, "0, 1, 2, 3, 4"), (6, "0, 1, 2, 3, 4 and 1 more")]
)
def test_a_list_names_five_and_counts_the_rest(number: int, text: str) -> None:
    assert listed([str(n) for n in range(number)]) == text
