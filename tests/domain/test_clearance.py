"""Whether a run may be promoted: each condition by itself, told with what differs and what to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.clearance import Clearance, DeployedSet, RequiredSet, Rules, Situation, clearance
from app.domain.condition import Condition, Need
from app.domain.fingerprint import Fingerprint, IndexFingerprint, changes
from app.domain.overrides import Override
from app.domain.policy import Policy
from app.domain.query import Queries, QuerySettings
from app.domain.reasons import Code, Reason, Verdict
from app.domain.run import GoldenRef, IndexSide, Run, State

DONE = datetime(2026, 11, 30, 12, tzinfo=UTC)
SOON = DONE + timedelta(hours=1)


def index(name: str, **members: Any) -> IndexFingerprint:
    whole = IndexFingerprint(
        index=name,
        definition_digest="sha256:aaaaaaaaaaaaaaaa",
        etag="e1",
        documents=10_000,
        synonym_maps=None,
        inventory=None,
    )
    return replace(whole, **members)


RUN = Run(
    id="run-1",
    state=State.DONE,
    verdict=Verdict.PASS,
    baseline=IndexSide(requested="kb-v1", index="kb-v1"),
    candidate=IndexSide(requested="kb-v2", index="kb-v2"),
    golden_set=GoldenRef(name="hr", digest="sha256:set", owner=None, review_by=None, deployed=True),
    query=Queries(baseline=QuerySettings(), candidate=QuerySettings()),
    policy=Policy(),
    trusted=True,
    fingerprint=Fingerprint(
        baseline=index("kb-v1"),
        candidate=index("kb-v2"),
        golden_set="sha256:set",
        query="sha256:query",
        policy="sha256:policy",
    ),
    created_at=DONE,
    finished_at=DONE,
)
FAILED = replace(RUN, verdict=Verdict.FAIL, reasons=(Reason(code=Code.CRITICAL_LOST, questions=("q1",)),))
OVERRIDE = Override(
    id="o1", run="run-1", by="owner", at=DONE, reason="bearable", watch="support", questions=("q1",)
)
NOW = Situation(
    at=SOON,
    where="key live",
    live="kb-v1",
    baseline=index("kb-v1"),
    candidate=index("kb-v2"),
    deployed=DeployedSet(golden_set="sha256:set", query="sha256:query"),
)


def cleared(
    run: Run = RUN,
    *,
    overrides: tuple[Override, ...] = (),
    rules: Rules = Rules(),  # noqa: B008 — frozen
    by: str | None = "ops",
    **now: Any,
) -> Clearance:
    return clearance(run, overrides, replace(NOW, **now), rules, by=by)


def only(found: Clearance, code: Need) -> str:
    """The message of the only condition that does not hold."""
    assert not found.cleared
    assert [condition.code for condition in found.failed] == [code]
    return found.failed[0].message


def condition(found: Clearance, code: Need) -> Condition:
    (each,) = [each for each in found.conditions if each.code is code]
    return each


def test_a_pass_of_a_deployed_set_over_what_is_there_now_is_cleared() -> None:
    found = cleared()
    assert found.cleared
    assert (found.run, found.at, found.live, found.override) == ("run-1", SOON, "kb-v1", None)
    assert {each.code for each in found.conditions} == set(Need) - {Need.REQUIRED_SET}


# verdict


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_a_run_that_is_not_done_is_not_cleared(state: State) -> None:
    run = replace(RUN, state=state, verdict=None, finished_at=None)
    assert (
        condition(cleared(run), Need.VERDICT).message == f"The run is {state.value}: wait until it is done."
    )
    assert not condition(cleared(run), Need.AGE).holds


def test_a_fail_is_not_cleared_without_an_override() -> None:
    assert "The verdict is FAIL, and must be PASS, or overridden" in only(cleared(FAILED), Need.VERDICT)


def test_a_fail_that_was_overridden_in_all_that_it_names_is_cleared_and_the_override_named() -> None:
    found = cleared(FAILED, overrides=(OVERRIDE,))
    assert found.cleared
    assert found.override == OVERRIDE
    assert condition(found, Need.VERDICT).message == "The verdict is FAIL, overridden by owner: bearable"


def test_an_override_that_leaves_something_out_clears_nothing() -> None:
    run = replace(FAILED, reasons=(Reason(code=Code.CRITICAL_LOST, questions=("q1", "q2")),))
    only(cleared(run, overrides=(OVERRIDE,)), Need.VERDICT)


def test_an_error_is_never_cleared_not_even_by_an_override() -> None:
    run = replace(RUN, verdict=Verdict.ERROR, reasons=(Reason(code=Code.TOO_NOISY, questions=("q1",)),))
    assert "never overridden" in only(cleared(run, overrides=(OVERRIDE,)), Need.VERDICT)


# trust


def test_a_set_that_was_sent_along_is_not_promoted() -> None:
    run = replace(RUN, golden_set=replace(RUN.golden_set, deployed=False), trusted=False)
    assert "was sent along, not deployed" in only(cleared(run), Need.TRUSTED)


def test_where_sent_sets_are_admitted_one_is_recorded_by_its_digest() -> None:
    run = replace(RUN, golden_set=replace(RUN.golden_set, deployed=False), trusted=False)
    found = cleared(run, rules=Rules(sent_sets=True), deployed="there is no set 'hr'")
    assert found.cleared
    assert "sha256:set" in condition(found, Need.TRUSTED).message


@pytest.mark.parametrize("sent_sets", [True, False])
def test_a_looser_policy_is_not_promoted(sent_sets: bool) -> None:
    rules = Rules(sent_sets=sent_sets)
    for deployed in (True, sent_sets is False):
        golden = replace(RUN.golden_set, deployed=deployed)
        run = replace(RUN, trusted=False, golden_set=golden)
        message = only(cleared(run, rules=rules, looser=("max_net_loss",)), Need.TRUSTED)
        assert "looser than the set's own in max_net_loss" in message


@pytest.mark.parametrize("sent_sets", [True, False])
def test_a_run_of_some_slices_only_is_not_promoted(sent_sets: bool) -> None:
    golden = replace(RUN.golden_set, deployed=False, slices=("table",))
    found = cleared(replace(RUN, trusted=False, golden_set=golden), rules=Rules(sent_sets=sent_sets))
    assert "only the slices table of the set were asked" in only(found, Need.TRUSTED)


def test_a_run_that_was_recorded_as_not_trusted_is_not_promoted() -> None:
    only(cleared(replace(RUN, trusted=False)), Need.TRUSTED)


def test_a_noise_study_is_not_promoted() -> None:
    both = replace(RUN, noise_study=True, trusted=False, candidate=RUN.baseline)
    codes = {each.code for each in cleared(both, rules=Rules(sent_sets=True)).failed}
    assert {Need.TRUSTED, Need.SOMETHING_TO_PROMOTE} <= codes


def test_a_change_of_the_query_alone_has_nothing_to_promote() -> None:
    run = replace(RUN, candidate=RUN.baseline)
    assert "there is nothing to switch to" in condition(cleared(run), Need.SOMETHING_TO_PROMOTE).message
    assert not cleared(run).cleared


# what was judged


@pytest.mark.parametrize("missing", [{"definition_digest": None}, {"etag": None}])
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_what_could_not_be_read_then_cannot_be_recognised_now(side: str, missing: dict[str, None]) -> None:
    assert RUN.fingerprint is not None
    of_side = replace(getattr(RUN.fingerprint, side), **missing)
    found = cleared(replace(RUN, fingerprint=replace(RUN.fingerprint, **{side: of_side})))
    assert {each.code for each in found.failed} == {Need.RECOGNISABLE, Need(f"{side}-unchanged")}
    assert of_side.index in condition(found, Need.RECOGNISABLE).message


def test_a_run_without_a_fingerprint_is_not_cleared() -> None:
    found = cleared(replace(RUN, fingerprint=None))
    assert not condition(found, Need.RECOGNISABLE).holds
    assert not found.cleared


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"etag": "e2"}, "its etag was e1 and is e2"),
        ({"documents": 9_999}, "it held 10000 documents and holds 9999 (max_documents_changed allows"),
        ({"definition_digest": "sha256:b"}, "its definition was sha256:aaaaaaaaaaaa… and is sha256:b…"),
        ({"definition_digest": None}, "its definition could not be read now"),
        ({"etag": None}, "its etag could not be read now"),
        ({"documents": None}, "its documents were not counted now"),
        ({"index": "kb-v7"}, "it is the index 'kb-v7', and was "),
    ],
)
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_an_index_that_is_not_what_was_judged_is_refused_with_both_values(
    side: str, change: dict[str, Any], told: str
) -> None:
    message = only(cleared(**{side: replace(getattr(NOW, side), **change)}), Need(f"{side}-unchanged"))
    assert told in message
    assert message.endswith("Run again against what is there now.")


def test_an_index_that_cannot_be_looked_at_is_refused_with_why() -> None:
    assert "There is no index" in only(
        cleared(candidate="There is no index 'kb-v2'."), Need.CANDIDATE_UNCHANGED
    )


@pytest.mark.parametrize("moved", [-3, 0, 3])
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_counts_may_move_as_far_as_the_policy_lets_them(side: str, moved: int) -> None:
    run = replace(RUN, policy=Policy(max_documents_changed=3))
    assert cleared(run, **{side: replace(getattr(NOW, side), documents=10_000 + moved)}).cleared
    beyond = replace(getattr(NOW, side), documents=10_004)
    only(cleared(run, **{side: beyond}), Need(f"{side}-unchanged"))


def test_synonym_maps_count_where_they_were_known() -> None:
    known, other = index("kb", synonym_maps="sha256:1"), index("kb", synonym_maps="sha256:2")
    unknown = index("kb")
    assert changes(known, known, documents=0) == ()
    assert changes(known, other, documents=0) == ("the synonym maps were sha256:1… and are sha256:2…",)
    assert changes(known, unknown, documents=0) == (
        "the synonym maps were sha256:1… and may not be read now",
    )
    assert changes(unknown, other, documents=0) == ()


def test_contents_count_where_both_were_read() -> None:
    one, other = index("kb", inventory="sha256:1"), index("kb", inventory="sha256:2")
    assert changes(one, other, documents=0) == ("its contents were sha256:1… and are sha256:2…",)
    assert changes(one, index("kb"), documents=0) == ()


# live


def test_a_baseline_that_is_no_longer_live_is_refused_with_what_is() -> None:
    message = only(cleared(live="kb-v9"), Need.BASELINE_LIVE)
    assert message == (
        "The run compared with 'kb-v1', and live is 'kb-v9' now: run again with it as the baseline."
    )


def test_where_nothing_is_live_it_takes_consent_to_create_it() -> None:
    assert "key live does not exist" in only(cleared(live=None), Need.BASELINE_LIVE)
    assert cleared(live=None, create=True).cleared


def test_consent_to_create_does_not_stand_for_a_baseline_that_is_live() -> None:
    only(cleared(live="kb-v9", create=True), Need.BASELINE_LIVE)


# set and query


def test_another_deployed_set_than_was_asked_is_refused_with_both_digests() -> None:
    message = only(
        cleared(deployed=DeployedSet(golden_set="sha256:new", query="sha256:query")), Need.SET_CURRENT
    )
    assert "was sha256:set, and sha256:new is deployed now" in message


def test_another_deployed_query_than_was_asked_is_refused() -> None:
    message = only(
        cleared(deployed=DeployedSet(golden_set="sha256:set", query="sha256:new")), Need.QUERY_CURRENT
    )
    assert "was sha256:query, and sha256:new is deployed now" in message


def test_a_set_that_is_deployed_no_more_is_named() -> None:
    found = cleared(deployed="there is no golden set 'hr'")
    assert [each.code for each in found.failed] == [Need.SET_CURRENT, Need.QUERY_CURRENT]
    assert "'hr'" in found.failed[0].message


# age


@pytest.mark.parametrize(("hours", "holds"), [(71.9, True), (72, True), (72.1, False), (14 * 24, False)])
def test_a_verdict_holds_as_long_as_the_policy_says(hours: float, holds: bool) -> None:
    found = cleared(at=DONE + timedelta(hours=hours))
    assert condition(found, Need.AGE).holds is holds
    assert found.cleared is holds
    assert f"{hours:.1f} hours old; max_verdict_age_hours is 72" in condition(found, Need.AGE).message


# required sets


def test_each_required_set_is_a_condition_of_its_own() -> None:
    required = (
        RequiredSet(name="it", run="run-7"),
        RequiredSet(name="law", run=None, why="no run of it. Run it."),
        RequiredSet(name="hr", run=None, why="it is not deployed."),
    )
    found = cleared(required=required)
    assert [each.message for each in found.failed] == [
        "The required set 'law' has no cleared run: no run of it. Run it.",
        "The required set 'hr' has no cleared run: it is not deployed.",
    ]
    assert cleared(required=required[:1]).cleared


# four eyes


def test_who_overrode_a_run_may_not_promote_it() -> None:
    message = only(cleared(FAILED, overrides=(OVERRIDE,), by="owner"), Need.FOUR_EYES)
    assert message == "owner overrode this run, and may not promote it as well: somebody else has to."


def test_another_override_over_ones_own_does_not_open_that_door() -> None:
    later = replace(OVERRIDE, id="o2", by="deputy", at=SOON)
    only(cleared(FAILED, overrides=(OVERRIDE, later), by="owner"), Need.FOUR_EYES)


def test_an_override_by_somebody_unknown_may_be_ones_own() -> None:
    message = only(cleared(FAILED, overrides=(replace(OVERRIDE, by=None),), by="ops"), Need.FOUR_EYES)
    assert "not signed in" in message


def test_four_eyes_can_be_given_up_and_mean_nothing_where_nobody_signs_in() -> None:
    assert cleared(FAILED, overrides=(OVERRIDE,), by="owner", rules=Rules(four_eyes=False)).cleared
    assert cleared(FAILED, overrides=(replace(OVERRIDE, by=None),), by=None).cleared


def test_an_override_that_a_passed_run_does_not_need_keeps_nobody_from_promoting_it() -> None:
    assert cleared(overrides=(OVERRIDE,), by="owner").cleared


def test_all_that_fails_is_listed_at_once() -> None:
    found = cleared(FAILED, live="kb-v9", at=DONE + timedelta(days=14), candidate=index("kb-v2", etag="e2"))
    assert [each.code for each in found.failed] == [
        Need.VERDICT,
        Need.BASELINE_LIVE,
        Need.CANDIDATE_UNCHANGED,
        Need.AGE,
    ]
