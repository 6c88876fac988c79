"""From questions to counts, lists, reasons and the verdict: every rule at, below and above its limit."""

from collections.abc import Callable
from datetime import date

import pytest

from app.domain.check import Check, Level
from app.domain.decision import decide, decided, results
from app.domain.golden import Question
from app.domain.observation import Observation
from app.domain.outcome import Missing, Observed
from app.domain.policy import Policy
from app.domain.reasons import Code, Reason, Verdict
from app.domain.run import Counts, State
from tests.domain.making import (
    absent,
    asked,
    at,
    blocking,
    chunks,
    codes,
    erring,
    gained,
    judged,
    kept,
    lost,
    noisy,
    run_of,
    stale,
    unlabelled,
)


def several(kind: Callable[[str], Observed], number: int, prefix: str = "") -> list[Observed]:
    return [kind(f"{prefix or kind.__name__}-{n}") for n in range(number)]


def reason(questions: list[Observed], code: Code, policy: Policy | None = None) -> Reason | None:
    found = judged(questions, policy).reasons
    return next((each for each in found if each.code is code), None)


# nothing wrong


def test_a_set_whose_answers_stay_in_context_passes() -> None:
    decision = judged(several(kept, 3))
    assert decision.verdict is Verdict.PASS
    assert decision.reasons == ()
    assert decision.lost == decision.gained == ()


def test_a_pass_may_hold_gains_noise_and_unlabelled_questions() -> None:
    # 1 of 5 evaluated is noisy: at the limit of 0.2
    decision = judged([*several(kept, 3), gained("g"), noisy("n"), unlabelled("u")])
    assert decision.verdict is Verdict.PASS


# counts


def test_counts_add_up() -> None:
    questions = [
        *several(kept, 4),
        *several(absent, 3),
        *several(lost, 2),
        *several(gained, 1),
        *several(noisy, 2),
        *several(unlabelled, 5),
        *several(stale, 2),
        *several(erring, 3),
    ]
    assert judged(questions).counts == Counts(
        questions=22,
        labelled=17,  # 12 evaluated + 2 stale + 3 errors
        evaluated=12,  # 4 + 3 + 2 + 1 + 2
        kept=4,
        absent=3,
        lost=2,
        gained=1,
        noisy=2,
        unlabelled=5,
        stale=2,
        errors=3,
        critical_lost=0,
        forbidden_hits=0,
        destabilised=0,
    )


def test_a_critical_loss_is_counted_beside_the_outcome() -> None:
    questions = [
        lost("l", critical=True),
        asked("n", [3, 3], [5, 6], critical=True),  # noisy
        asked("e", [3, 3], [6, "!"], critical=True),  # error
        kept("k", critical=True),
    ]
    counts = judged(questions).counts
    assert (counts.lost, counts.noisy, counts.errors, counts.kept) == (1, 1, 1, 1)
    assert counts.critical_lost == 3


# lists


def test_lists_keep_the_order_of_the_set_and_show_both_ranks() -> None:
    questions = [
        asked("z", [5, 4], [6, 7], slice=("table",)),
        asked("g", [None, 9], [3, 2]),
        asked("a", [1, 1], [None, 8]),
        kept("k"),
    ]
    decision = judged(questions)
    assert [(each.id, each.baseline_rank, each.candidate_rank) for each in decision.lost] == [
        ("z", 5, 6),
        ("a", 1, None),
    ]
    assert [(each.id, each.baseline_rank, each.candidate_rank) for each in decision.gained] == [
        ("g", None, 3)
    ]
    first = decision.lost[0]
    assert (first.question, first.slice, first.critical, first.unstable) == (
        "what about z?",
        ("table",),
        False,
        False,
    )
    assert [each.cause for each in decision.lost] == ["ranked-out", "not-retrieved"]
    assert decision.gained[0].cause is None


def test_critical_losses_stand_in_the_lost_list_whatever_their_outcome() -> None:
    decision = judged(
        [
            asked("noisy", [3, 4], [5, 6], critical=True),
            lost("steady", critical=True),
            asked("error", ["!", 2], [7, 9], critical=True),
        ]
    )
    assert [(each.id, each.unstable, each.baseline_rank, each.candidate_rank) for each in decision.lost] == [
        ("noisy", True, 3, 6),  # the first observations that show it
        ("steady", False, 2, 6),
        ("error", True, 2, 7),
    ]


def test_s05_a_document_missing_from_the_candidate_is_a_real_loss_that_says_so() -> None:
    decision = judged([kept("k"), asked("q", [1, 1], [None, None], missing=Missing(candidate=("d1",)))])
    assert decision.verdict is Verdict.FAIL
    assert [(each.id, each.cause) for each in decision.lost] == [("q", "document-missing")]


# rules that fail


@pytest.mark.parametrize(
    ("losses", "gains", "limit", "verdict", "measured"),
    [
        (1, 1, 0, Verdict.PASS, None),
        (2, 1, 0, Verdict.FAIL, 1),
        (1, 2, 0, Verdict.PASS, None),
        (3, 1, 2, Verdict.PASS, None),
        (4, 1, 2, Verdict.FAIL, 3),
    ],
)
def test_net_loss(losses: int, gains: int, limit: int, verdict: Verdict, measured: int | None) -> None:
    questions = [*several(kept, 2), *several(lost, losses), *several(gained, gains)]
    policy = Policy(max_net_loss=limit)
    assert judged(questions, policy).verdict is verdict
    found = reason(questions, Code.NET_LOSS, policy)
    assert (found and found.measured) == measured
    if found:
        assert (found.limit, found.setting) == (limit, "max_net_loss")
        assert found.questions == tuple(f"lost-{n}" for n in range(losses))


def test_an_unsteady_critical_loss_is_not_a_net_loss() -> None:
    decision = judged([kept("k"), asked("q", [3, 3], [5, 6], critical=True)], Policy(max_noisy_share=0.5))
    assert codes(decision) == [Code.CRITICAL_LOST]


def test_one_critical_question_lost_fails_however_much_is_gained() -> None:
    questions = [lost("q1", critical=True), *several(gained, 9), kept("k")]
    assert codes(judged(questions)) == [Code.CRITICAL_LOST]
    found = reason(questions, Code.CRITICAL_LOST)
    assert found == Reason(code=Code.CRITICAL_LOST, measured=1, limit=0, questions=("q1",))
    assert judged(questions, Policy(max_net_loss=100)).verdict is Verdict.FAIL


def test_losses_that_are_not_critical_are_made_good_by_gains() -> None:
    assert judged([*several(lost, 4), *several(gained, 4)]).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("losses", "gains", "protected", "fails"),
    [
        (1, 0, ("table",), True),
        (1, 1, ("table",), False),
        (2, 1, ("table",), True),
        (1, 0, ("lookup",), False),
        (1, 0, (), False),
    ],
)
def test_a_protected_slice_may_not_lose_net(
    losses: int, gains: int, protected: tuple[str, ...], fails: bool
) -> None:
    questions = [lost(f"l{n}", slice=("table",)) for n in range(losses)]
    questions += [gained(f"g{n}", slice=("table", "other")) for n in range(gains)]
    questions += [*several(gained, 5, "elsewhere"), kept("k", slice=("lookup",))]
    policy = Policy(protected_slices=protected)
    decision = judged(questions, policy)
    assert codes(decision) == ([Code.SLICE_LOSS] if fails else [])
    assert decision.verdict is (Verdict.FAIL if fails else Verdict.PASS)


def test_a_slice_loss_names_the_slices_and_their_lost_questions_in_order() -> None:
    questions = [
        lost("b", slice=("table", "exception")),
        lost("a", slice=("exception",)),
        lost("c", slice=("lookup",)),
        lost("d", slice=("other",)),
        gained("g", slice=("lookup",)),
        *several(gained, 4, "made-good"),
    ]
    policy = Policy(protected_slices=("exception", "table", "lookup"))
    assert reason(questions, Code.SLICE_LOSS, policy) == Reason(
        code=Code.SLICE_LOSS,
        measured={"exception": 2, "table": 1},  # lookup: 1 - 1 = 0
        limit=0,
        setting="protected_slices",
        questions=("b", "a"),
    )


def _shown(
    question: str, *parents: str, forbidden: tuple[str, ...], answers: tuple[str, ...] = ()
) -> Observed:
    golden = Question(id=question, question="how?", answers=answers, forbidden=forbidden)
    before = at(1)
    after = Observation(rank=None, elapsed_ms=1.0, attempts=1, hits=chunks(*parents))
    return Observed(
        id=golden.id,
        question=golden.question,
        answers=golden.answers,
        forbidden=golden.forbidden,
        baseline=(before,),
        candidate=(at(1), after),
    )


def test_one_forbidden_document_in_any_candidate_observation_fails_even_unlabelled() -> None:
    questions = [
        kept("k"),
        _shown("u", *["x"] * 49, "secret", forbidden=("secret", "other")),
        _shown("v", "x", "y", forbidden=("secret",)),
        _shown("a", "secret", "d1", "hidden", forbidden=("hidden", "secret"), answers=("d1",)),
    ]
    decision = judged(questions)
    assert decision.verdict is Verdict.FAIL
    assert decision.counts.forbidden_hits == 2
    assert decision.reasons[0] == Reason(
        code=Code.FORBIDDEN_HIT,
        measured=2,
        limit=0,
        questions=("u", "a"),
        documents=("secret", "hidden"),
    )


def test_a_forbidden_document_on_the_baseline_alone_is_no_fault_of_the_candidate() -> None:
    question = asked("q", [1], [1], forbidden=("secret",))
    leaking = Observation(rank=2, elapsed_ms=1.0, attempts=1, hits=chunks("secret", "d1"))
    other_side = Observed(
        id="q",
        question="how?",
        answers=("d1",),
        forbidden=("secret",),
        baseline=(leaking,),
        candidate=question.candidate,
    )
    assert judged([other_side]).verdict is Verdict.PASS


@pytest.mark.parametrize(("limit", "fails"), [(None, False), (2, False), (1, True), (0, True)])
def test_destabilised(limit: int | None, fails: bool) -> None:
    questions = [
        *several(kept, 20),
        *(asked(f"went-{n}", [5, 5], [5, 6]) for n in range(3)),  # steady, then not
        asked("came", [5, 6], [5, 5]),  # the reverse: net 3 - 1 = 2
        asked("stayed", [5, 6], [5, 6]),  # unsteady on both sides
        asked("once", [5, 6], [5]),  # a single observation cannot be unsteady
    ]
    policy = Policy(max_net_destabilised=limit, max_noisy_share=0.5)
    decision = judged(questions, policy)
    assert decision.counts.destabilised == 3
    assert codes(decision) == ([Code.DESTABILISED] if fails else [])
    found = reason(questions, Code.DESTABILISED, policy)
    if found:
        assert (found.measured, found.limit, found.setting) == (2, limit, "max_net_destabilised")
        assert found.questions == ("went-0", "went-1", "went-2")


# rules that find that it could not be measured


@pytest.mark.parametrize(
    "questions",
    [
        [],  # S19: an empty file
        several(unlabelled, 12),  # S19: 12 questions without labels
        several(absent, 12),  # two indexes that return nothing of use
        several(erring, 12),  # S19: every question an error
        several(stale, 12),
        [asked(f"q{n}", [], []) for n in range(12)],  # never asked
    ],
    ids=["empty", "unlabelled", "absent", "errors", "stale", "not-asked"],
)
def test_s19_nothing_evaluated_is_an_error(questions: list[Observed]) -> None:
    decision = judged(questions)
    assert decision.verdict is Verdict.ERROR
    assert codes(decision)[0] is Code.NOTHING_EVALUATED


def test_s19_no_policy_makes_a_pass_of_nothing() -> None:
    loosest = Policy(max_question_errors=99, min_evaluated_share=0.0, max_noisy_share=1.0, max_net_loss=99)
    for questions in ([], several(unlabelled, 3), several(absent, 3), several(erring, 3), several(stale, 3)):
        assert codes(judged(questions, loosest)) == [Code.NOTHING_EVALUATED]


def test_one_observation_in_context_is_something() -> None:
    assert codes(judged([*several(absent, 4), asked("q", [5, 6], [6])])) == []
    assert codes(judged([*several(absent, 4), gained("q")])) == []


@pytest.mark.parametrize(
    ("evaluated", "stale_ones", "limit", "too_few"),
    [
        (9, 1, 0.9, False),  # 9 of 10
        (89, 11, 0.9, True),  # 89 of 100
        (27, 3, 0.9, False),  # 27 of 30, a division that is not exact
        (1, 11, 0.0, False),
        (10, 0, 1.0, False),
        (10, 1, 1.0, True),
    ],
)
def test_too_few_evaluated(evaluated: int, stale_ones: int, limit: float, too_few: bool) -> None:
    questions = [*several(kept, evaluated), *several(stale, stale_ones), *several(unlabelled, 50)]
    decision = judged(questions, Policy(min_evaluated_share=limit))
    assert codes(decision) == ([Code.TOO_FEW_EVALUATED] if too_few else [])


def test_s19_one_of_twelve_evaluated_is_too_few() -> None:
    found = reason([kept("k"), *several(stale, 11)], Code.TOO_FEW_EVALUATED)
    assert found == Reason(
        code=Code.TOO_FEW_EVALUATED, measured=1 / 12, limit=0.9, setting="min_evaluated_share"
    )


@pytest.mark.parametrize(
    ("errors", "limit", "verdict"), [(0, 0, "PASS"), (1, 0, "ERROR"), (2, 2, "PASS"), (3, 2, "ERROR")]
)
def test_question_errors(errors: int, limit: int, verdict: str) -> None:
    questions = [*several(kept, 40), *several(erring, errors)]
    decision = judged(questions, Policy(max_question_errors=limit))
    assert decision.verdict == verdict
    assert codes(decision) == ([Code.QUESTION_ERRORS] if verdict == "ERROR" else [])


@pytest.mark.parametrize("keys", [{"critical": True}, {"forbidden": ("secret",)}])
def test_no_error_is_tolerated_where_a_question_guards_something(keys: dict[str, object]) -> None:
    questions = [*several(kept, 40), erring("b"), erring("guard", **keys), erring("a")]
    found = reason(questions, Code.QUESTION_ERRORS, Policy(max_question_errors=9))
    assert found == Reason(
        code=Code.QUESTION_ERRORS,
        measured=3,
        limit=0,
        setting="max_question_errors",
        questions=("b", "guard", "a"),
    )


def test_an_error_of_an_unlabelled_or_stale_question_counts_against_the_limit() -> None:
    both = Missing(baseline=("d1",), candidate=("d1",))
    for failing in (asked("u", [1], ["!"], answers=()), asked("s", ["!"], [1], missing=both)):
        questions = [*several(kept, 20), failing]
        assert codes(judged(questions)) == [Code.QUESTION_ERRORS]
        assert codes(judged(questions, Policy(max_question_errors=1))) == []
        assert judged(questions).counts.errors == 0


@pytest.mark.parametrize(
    ("noisy_ones", "kept_ones", "limit", "too_noisy"),
    [(1, 4, 0.2, False), (21, 79, 0.2, True), (0, 5, 0.0, False), (1, 99, 0.0, True), (3, 7, 0.3, False)],
)
def test_too_noisy(noisy_ones: int, kept_ones: int, limit: float, too_noisy: bool) -> None:
    questions = [*several(kept, kept_ones), *several(noisy, noisy_ones), *several(unlabelled, 30)]
    decision = judged(questions, Policy(max_noisy_share=limit))
    assert codes(decision) == ([Code.TOO_NOISY] if too_noisy else [])


def test_too_noisy_shows_both_numbers_and_the_questions() -> None:
    found = reason([kept("k"), noisy("b"), kept("l"), noisy("a")], Code.TOO_NOISY)
    assert found == Reason(
        code=Code.TOO_NOISY, measured=0.5, limit=0.2, setting="max_noisy_share", questions=("b", "a")
    )


def test_s05_a_critical_question_with_stale_labels_is_an_error() -> None:
    questions = [*several(kept, 4), stale("q003", critical=True)]
    decision = judged(questions, Policy(min_evaluated_share=0.8))
    assert decision.verdict is Verdict.ERROR
    assert decision.lost == decision.gained == ()
    assert decision.counts.stale == 1
    assert decision.reasons == (Reason(code=Code.CRITICAL_STALE, measured=1, limit=0, questions=("q003",)),)
    ordinary = [*several(kept, 4), stale("q003")]
    assert judged(ordinary, Policy(min_evaluated_share=0.8)).verdict is Verdict.PASS


# S21


def test_s21_an_error_is_not_a_loss_and_not_a_gain() -> None:
    decision = judged(
        [asked("q1", [2, 2], ["!"], critical=True), asked("q2", ["!", "!"], [1]), kept("q3"), kept("q4")]
    )
    assert decision.lost == decision.gained == ()
    assert decision.counts.errors == 2
    assert decision.verdict is Verdict.ERROR
    assert codes(decision) == [Code.TOO_FEW_EVALUATED, Code.QUESTION_ERRORS]
    assert decision.reasons[1].questions == ("q1", "q2")


def test_s21_one_ordinary_error_is_an_error_unless_it_is_tolerated() -> None:
    questions = [kept("q1", critical=True), kept("q2"), kept("q3"), erring("q4")]
    assert judged(questions).verdict is Verdict.ERROR
    tolerant = Policy(max_question_errors=1, min_evaluated_share=0.7)  # 3 of 4
    assert judged(questions, tolerant).verdict is Verdict.PASS


def test_s21_a_measured_critical_loss_fails_even_if_others_err() -> None:
    decision = judged([lost("q1", critical=True), erring("q2"), kept("q3")])
    assert decision.verdict is Verdict.FAIL
    assert Code.QUESTION_ERRORS in codes(decision)


# S22


def test_s22_noise_is_listed_and_does_not_count_but_does_not_excuse_a_critical_question() -> None:
    questions = [
        *several(kept, 18),
        asked("q07", [5, 6], [6, 6]),
        asked("q08", [3, 3], [5, 6], critical=True),
    ]
    decision = judged(questions)
    assert (decision.counts.noisy, decision.counts.lost) == (2, 0)
    assert [(each.id, each.critical, each.unstable) for each in decision.lost] == [("q08", True, True)]
    assert codes(decision) == [Code.CRITICAL_LOST]
    assert decision.verdict is Verdict.FAIL
    assert judged([*several(kept, 18), asked("q07", [5, 6], [6, 6])]).verdict is Verdict.PASS


def test_s22_without_repetitions_the_same_noise_is_a_loss() -> None:
    assert codes(judged([kept("k"), asked("q07", [5], [6])])) == [Code.NET_LOSS]


# order of the reasons, and what the first of them means

_CONTRACT = [
    ("cancelled", "ERROR"),
    ("interrupted", "ERROR"),
    ("forbidden-hit", "FAIL"),
    ("index-changed", "ERROR"),
    ("critical-lost", "FAIL"),
    ("nothing-evaluated", "ERROR"),
    ("too-few-evaluated", "ERROR"),
    ("question-errors", "ERROR"),
    ("too-noisy", "ERROR"),
    ("critical-stale", "ERROR"),
    ("labels-unresolved", "ERROR"),
    ("parent-ambiguous", "ERROR"),
    ("same-index", "ERROR"),
    ("index-missing", "ERROR"),
    ("index-empty", "ERROR"),
    ("field-missing", "ERROR"),
    ("no-vectorizer", "ERROR"),
    ("vectorizer-failed", "ERROR"),
    ("semantic-unavailable", "ERROR"),
    ("access-controlled", "ERROR"),
    ("quota-exceeded", "ERROR"),
    ("unauthorized", "ERROR"),
    ("unreachable", "ERROR"),
    ("throttled", "ERROR"),
    ("timed-out", "ERROR"),
    ("not-evaluated", "ERROR"),
    ("storage-unavailable", "ERROR"),
    ("net-loss", "FAIL"),
    ("slice-loss", "FAIL"),
    ("lost-documents", "FAIL"),
    ("destabilised", "FAIL"),
]


def test_all_reasons_that_hold_are_listed_in_the_order_of_the_contract() -> None:
    checks = tuple(blocking(code) for code, _ in reversed(_CONTRACT))
    assert [code.value for code in codes(judged([kept("k")], checks=checks))] == [
        code for code, _ in _CONTRACT
    ]


@pytest.mark.parametrize(("code", "verdict"), _CONTRACT)
def test_a_reason_alone_decides(code: str, verdict: str) -> None:
    assert judged([kept("k")], checks=(blocking(code),)).verdict == verdict


@pytest.mark.parametrize("place", range(len(_CONTRACT) - 1))
def test_the_first_reason_decides(place: int) -> None:
    checks = tuple(blocking(code) for code, _ in reversed(_CONTRACT[place:]))
    assert judged([kept("k")], checks=checks).verdict == _CONTRACT[place][1]


def test_reasons_from_checks_and_from_questions_stand_in_one_order() -> None:
    questions = [lost("l", critical=True), kept("k")]
    decision = judged(questions, checks=(blocking("index-changed"), blocking("throttled")))
    assert codes(decision) == [Code.INDEX_CHANGED, Code.CRITICAL_LOST, Code.THROTTLED, Code.NET_LOSS]
    assert decision.verdict is Verdict.ERROR


def test_only_blocking_checks_are_reasons() -> None:
    checks = tuple(
        Check(code=Code.INDEX_EMPTY, level=level, message="m") for level in (Level.INFO, Level.WARNING)
    )
    assert judged([kept("k")], checks=checks).verdict is Verdict.PASS


def test_checks_of_one_code_are_one_reason_that_names_all() -> None:
    checks = (
        blocking("lost-documents", measured=0.5, limit=0.1, setting="s", questions=("b",), documents=("d2",)),
        blocking("lost-documents", questions=("a", "b"), documents=("d1", "d2")),
    )
    assert judged([kept("k")], checks=checks).reasons == (
        Reason(
            code=Code.LOST_DOCUMENTS,
            measured=0.5,
            limit=0.1,
            setting="s",
            questions=("b", "a"),
            documents=("d2", "d1"),
        ),
    )


# the run


def test_a_decided_run_is_done_and_carries_its_decision() -> None:
    run = run_of()
    decision = decide(run, results([lost("l"), kept("k")], run.query))
    done = decided(run, decision, on=date(2027, 1, 1))
    assert done.state is State.DONE
    assert (done.verdict, done.reasons, done.counts) == (decision.verdict, decision.reasons, decision.counts)
    assert (done.lost, done.gained) == (decision.lost, decision.gained)
    assert done.headline


def test_nothing_derived_is_read_so_that_deciding_again_gives_the_same() -> None:
    run, questions = run_of(), [lost("l", critical=True), kept("k"), noisy("n")]
    first = decide(run, results(questions, run.query))
    done = decided(run, first, on=date(2027, 1, 1))
    assert decide(done, results(questions, done.query)) == first


def test_a_critical_loss_that_was_seen_counts_even_where_the_label_looks_stale() -> None:
    both = Missing(baseline=("d1",), candidate=("d1",))
    decision = judged([kept("k"), asked("q", [2, 2], [6, 6], missing=both, critical=True)])
    assert (decision.counts.stale, decision.counts.critical_lost) == (1, 1)
    assert decision.verdict is Verdict.FAIL
