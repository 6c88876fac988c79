"""What holds of the decision on any set of questions."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.domain.decision import Decision, decide, result, results
from app.domain.outcome import Missing, Observed, Outcome, tally
from app.domain.policy import Policy
from app.domain.query import Side
from app.domain.reasons import Code, Verdict
from tests.domain.making import asked, broken, judged, lost, run_of

_RANKS = st.sampled_from([1, 5, 5, 6, 6, None, "!"])
_SIDE = st.lists(_RANKS, min_size=1, max_size=3)
_STEADY = st.sampled_from([[1, 1], [6, 6], [None]])
_MISSING = st.sampled_from([(), (), (), ("d1",)])
_SLICES = st.sampled_from([(), ("table",), ("table", "lookup")])


@st.composite
def _question(draw: st.DrawFn, *, critical: bool | None = None) -> dict[str, Any]:
    return {
        "baseline": draw(_SIDE | _STEADY),
        "candidate": draw(_SIDE | _STEADY),
        "critical": draw(st.booleans()) if critical is None else critical,
        "answers": draw(st.sampled_from([("d1",), ("d1",), ("d1",), ()])),
        "forbidden": draw(st.sampled_from([(), (), (), ("x",)])),
        "slice": draw(_SLICES),
        "missing": Missing(baseline=draw(_MISSING), candidate=draw(_MISSING)),
    }


def _sets(*, critical: bool | None = None) -> st.SearchStrategy[list[Observed]]:
    listed = st.lists(_question(critical=critical), max_size=8)
    return listed.map(lambda each: [asked(f"q{n}", **keys) for n, keys in enumerate(each)])


_SHARES = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])
_POLICIES = st.builds(
    Policy,
    max_net_loss=st.integers(0, 3),
    protected_slices=st.sampled_from([(), ("table",), ("table", "lookup")]),
    max_question_errors=st.integers(0, 3),
    max_noisy_share=_SHARES,
    min_evaluated_share=_SHARES,
    max_net_destabilised=st.none() | st.integers(0, 2),
)


def _lose(question: Observed) -> Observed:
    """The question, kept until now, lost in every observation of the candidate."""
    return replace(question, candidate=lost("any").candidate)


def _kept(question: Observed) -> bool:
    return result(question, run_of().query).outcome is Outcome.KEPT


@given(questions=_sets(), policy=_POLICIES, data=st.data())
def test_a_further_lost_question_never_turns_fail_into_pass(
    questions: list[Observed], policy: Policy, data: st.DataObject
) -> None:
    before = judged(questions, policy)
    added = lost("further", critical=data.draw(st.booleans()), slice=data.draw(_SLICES))
    variants = [[*questions, added]]
    variants += [
        [*questions[:n], _lose(each), *questions[n + 1 :]] for n, each in enumerate(questions) if _kept(each)
    ]
    for variant in variants:
        after = judged(variant, policy)
        assert not (before.verdict is Verdict.FAIL and after.verdict is Verdict.PASS)


@given(questions=_sets(), policy=_POLICIES, data=st.data())
def test_turning_a_question_into_an_error_never_makes_a_pass_where_none_is_tolerated(
    questions: list[Observed], policy: Policy, data: st.DataObject
) -> None:
    if not questions:
        return
    strict = replace(policy, max_question_errors=0)
    place = data.draw(st.integers(0, len(questions) - 1))
    side = data.draw(st.sampled_from(Side))
    observations = list(getattr(questions[place], side.value))
    observations[data.draw(st.integers(0, len(observations) - 1))] = broken()
    changed = list(questions)
    match side:
        case Side.BASELINE:
            changed[place] = replace(questions[place], baseline=tuple(observations))
        case Side.CANDIDATE:
            changed[place] = replace(questions[place], candidate=tuple(observations))
    assert judged(changed, strict).verdict is not Verdict.PASS


def _without_order(decision: Decision) -> tuple[object, ...]:
    reasons = [
        (each.code, each.measured, each.limit, each.setting, sorted(each.questions), sorted(each.documents))
        for each in decision.reasons
    ]
    flips = [sorted(str(each) for each in listed) for listed in (decision.lost, decision.gained)]
    return decision.verdict, decision.counts, reasons, flips


@given(questions=_sets(), policy=_POLICIES, data=st.data())
def test_the_order_of_the_questions_never_matters(
    questions: list[Observed], policy: Policy, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(questions))
    assert _without_order(judged(shuffled, policy)) == _without_order(judged(questions, policy))


@given(questions=_sets(), policy=_POLICIES)
def test_lists_and_reasons_name_questions_in_the_order_of_the_set(
    questions: list[Observed], policy: Policy
) -> None:
    decision = judged(questions, policy)
    place = {each.id: n for n, each in enumerate(questions)}
    named = [[each.id for each in decision.lost], [each.id for each in decision.gained]]
    for listed in (*named, *(each.questions for each in decision.reasons)):
        assert list(listed) == sorted(set(listed), key=place.__getitem__)


@given(questions=_sets(critical=False), policy=_POLICIES)
def test_swapping_the_sides_swaps_lost_and_gained(questions: list[Observed], policy: Policy) -> None:
    def swapped(each: Observed) -> Observed:
        missing = Missing(baseline=each.missing.candidate, candidate=each.missing.baseline)
        return replace(each, baseline=each.candidate, candidate=each.baseline, missing=missing)

    there, back = judged(questions, policy), judged([swapped(each) for each in questions], policy)
    assert [each.id for each in there.lost] == [each.id for each in back.gained]
    assert [each.id for each in there.gained] == [each.id for each in back.lost]
    assert [(each.baseline_rank, each.candidate_rank) for each in there.lost] == [
        (each.candidate_rank, each.baseline_rank) for each in back.gained
    ]
    same = ("questions", "labelled", "evaluated", "kept", "absent", "noisy", "unlabelled", "stale", "errors")
    assert [getattr(there.counts, name) for name in same] == [getattr(back.counts, name) for name in same]


@given(questions=_sets(), policy=_POLICIES)
def test_every_question_is_counted_once(questions: list[Observed], policy: Policy) -> None:
    counts = judged(questions, policy).counts
    assert counts.evaluated == counts.kept + counts.absent + counts.lost + counts.gained + counts.noisy
    assert counts.labelled == counts.evaluated + counts.stale + counts.errors
    assert counts.questions == counts.labelled + counts.unlabelled == len(questions)


@given(questions=_sets(), policy=_POLICIES)
def test_a_pass_has_measured_something_and_hides_no_critical_loss(
    questions: list[Observed], policy: Policy
) -> None:
    decision = judged(questions, policy)
    if decision.verdict is Verdict.PASS:
        assert decision.reasons == ()
        assert decision.counts.evaluated > 0
        assert decision.counts.critical_lost == 0
        assert decision.counts.forbidden_hits == 0


@given(questions=_sets(), policy=_POLICIES)
def test_a_looser_limit_never_adds_its_reason(questions: list[Observed], policy: Policy) -> None:
    looser = replace(
        policy,
        max_net_loss=policy.max_net_loss + 1,
        protected_slices=(),
        max_question_errors=policy.max_question_errors + 1,
        max_noisy_share=1.0,
        min_evaluated_share=0.0,
        max_net_destabilised=None,
    )
    assert {each.code for each in judged(questions, looser).reasons} <= {
        each.code for each in judged(questions, policy).reasons
    }


@given(questions=_sets())
def test_with_single_answers_lost_and_gained_are_what_comparing_them_gives(questions: list[Observed]) -> None:
    """As with `noise_runs = 0` and `confirm_runs = 0`: one answer of each side."""
    single = [replace(each, baseline=each.baseline[:1], candidate=each.candidate[:1]) for each in questions]
    run = run_of(Policy(noise_runs=0, confirm_runs=0))
    decision = decide(run, results(single, run.query))
    expected: dict[str, list[str]] = {"lost": [], "gained": []}
    net = 0
    for each in single:
        before, after = (tally(each, side, run.query.of(side)) for side in Side)
        is_stale = bool(each.missing.baseline and each.missing.candidate)
        if not each.answers or before.failed or after.failed:
            continue
        if before.inside and not after.inside:
            net += not is_stale
            if each.critical or not is_stale:  # a critical loss that was seen is one, whatever its labels
                expected["lost"].append(each.id)
        if after.inside and not before.inside and not is_stale:
            net -= 1
            expected["gained"].append(each.id)
    assert [each.id for each in decision.lost] == expected["lost"]
    assert [each.id for each in decision.gained] == expected["gained"]
    assert decision.counts.noisy == 0
    assert (Code.NET_LOSS in {each.code for each in decision.reasons}) == (net > 0)
