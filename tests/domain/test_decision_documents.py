"""Rules whose input is the inventory or the counts of the indexes, decided from the record."""

from dataclasses import replace

import pytest

from app.domain.check import Check, Level
from app.domain.decision import decide, results
from app.domain.inventory import InventoryRecord, Method
from app.domain.policy import Policy
from app.domain.reasons import Code, Reason, Verdict
from app.domain.run import Inventories, Run
from tests.domain.making import asked, run_of

LOST = Check(
    code=Code.LOST_DOCUMENTS,
    level=Level.WARNING,
    message="2 of 10 documents are not in the candidate.",
    measured=0.2,
    questions=("q1",),
    documents=("d1",),
)


def inventory(*, complete: bool = True) -> InventoryRecord:
    return InventoryRecord(
        method=Method.KEY_RANGES,
        complete=complete,
        note=None if complete else "403.",
        chunks=20,
        parents=10,
        without_parent=0,
        without_text=0,
        duplicates=0,
        tokens_median=100,
        tokens_95=200,
        tokens_most=250,
        digest="sha256:0",
        requests=1,
    )


def decided(policy: Policy, **changes: object) -> tuple[Verdict, dict[Code, Reason]]:
    """One kept question, and a run with these changes."""
    run: Run = replace(run_of(policy), **changes)  # type: ignore[arg-type]
    questions = [asked("q1", baseline=[1], candidate=[1])]
    decision = decide(run, results(questions, run.query))
    return decision.verdict, {reason.code: reason for reason in decision.reasons}


WHOLE = Inventories(baseline=inventory(), candidate=inventory())


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [(None, Verdict.PASS), (0.2, Verdict.PASS), (0.19, Verdict.FAIL), (0.0, Verdict.FAIL)],
)
def test_lost_documents_fail_above_the_policys_share(limit: float | None, verdict: Verdict) -> None:
    policy = Policy(max_lost_documents_share=limit)
    found, reasons = decided(policy, checks=(LOST,), inventories=WHOLE)
    assert found is verdict
    if verdict is Verdict.FAIL:
        reason = reasons[Code.LOST_DOCUMENTS]
        assert (reason.measured, reason.limit, reason.setting) == (0.2, limit, "max_lost_documents_share")
        assert (reason.questions, reason.documents) == (("q1",), ("d1",))


@pytest.mark.parametrize(
    "read",
    [None, Inventories(baseline=inventory(), candidate=inventory(complete=False))],
    ids=["none", "part"],
)
def test_a_limit_without_whole_inventories_is_not_evaluated(read: Inventories | None) -> None:
    found, reasons = decided(Policy(max_lost_documents_share=0.5), inventories=read)
    assert found is Verdict.ERROR
    assert reasons[Code.NOT_EVALUATED].setting == "max_lost_documents_share"
    assert decided(Policy(), inventories=read)[0] is Verdict.PASS


@pytest.mark.parametrize(("noise", "confirm"), [(0, 1), (1, 0), (0, 0)])
def test_unsteadiness_without_repetitions_is_not_evaluated(noise: int, confirm: int) -> None:
    policy = Policy(max_net_destabilised=0, noise_runs=noise, confirm_runs=confirm)
    found, reasons = decided(policy)
    assert found is Verdict.ERROR
    assert reasons[Code.NOT_EVALUATED].setting == "max_net_destabilised"


@pytest.mark.parametrize(
    ("moved", "limit", "verdict"),
    [(0, 0, Verdict.PASS), (5, 5, Verdict.PASS), (6, 5, Verdict.ERROR), (1, 0, Verdict.ERROR)],
)
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_counts_that_moved_further_than_the_policy_allows_are_another_index(
    side: str, moved: int, limit: int, verdict: Verdict
) -> None:
    run = run_of(Policy())
    at = replace(getattr(run, side), documents=100, documents_at_end=100 - moved)
    found, reasons = decided(Policy(max_documents_changed=limit), **{side: at})
    assert found is verdict
    if verdict is Verdict.ERROR:
        assert (reasons[Code.INDEX_CHANGED].measured, reasons[Code.INDEX_CHANGED].limit) == (moved, limit)
