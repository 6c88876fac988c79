"""Decisions kept and found again: nobody's is lost, and later runs see earlier ones."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter

from app.adapters.folder import open_folder
from app.domain.errors import ConflictError, InputError, NotFoundError, StorageError
from app.domain.golden import GoldenTexts, Question
from app.domain.outcome import Observed
from app.domain.overrides import OverrideDraft
from app.domain.reading import read_golden_set
from app.domain.reasons import Verdict
from app.domain.review import Review, ReviewDraft, Ruling, Signature
from app.domain.run import Run, State
from app.gate import reviews as gate
from app.gate.records import EvidenceWriter, RunRecords
from tests.examples import Example, a_run, asked, errors_are_no_losses, example, failing, passing
from tests.fakes.store import MemoryStore, When

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
TODAY = NOON.date()
LOST = ("expense-limit", "leave-carry-over", "visa-letter", "parental-pay")
_QUESTION = TypeAdapter(Question)


def signature(minutes: int = 0, mark: str = "m", by: str | None = "kim@contoso.example") -> Signature:
    return Signature(by=by, at=NOON + timedelta(minutes=minutes), mark=mark)


async def kept(records: RunRecords, case: Example, run_id: str = "run-1") -> Run:
    """The example as a kept run that is done."""
    run = replace(case.run, id=run_id)
    lines = [_QUESTION.dump_python(_question(each), exclude_defaults=True) for each in case.questions]
    jsonl = "".join(f"{json.dumps(line)}\n" for line in lines)
    await records.create(run, GoldenTexts(name=run.golden_set.name, jsonl=jsonl))
    writer = EvidenceWriter(run.query)
    for each in case.results:
        writer.add(each)
    await records.keep_evidence(run, writer)
    return run


def _question(observed: Observed) -> Question:
    return Question(**{each.name: getattr(observed, each.name) for each in fields(Question)})


async def decide(
    records: RunRecords,
    question: str,
    decision: Ruling = Ruling.REAL_LOSS,
    *,
    run: str = "run-1",
    **keys: Any,
) -> Review:
    signed = {name: keys.pop(name) for name in ("minutes", "mark", "by") if name in keys}
    draft = ReviewDraft(question=question, decision=decision, **keys)
    return await gate.review(records, run, draft, signature(**signed))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def records(store: MemoryStore) -> RunRecords:
    return RunRecords(store)


async def test_a_decision_is_kept_with_who_and_when(records: RunRecords) -> None:
    await kept(records, failing())
    taken = await decide(records, "leave-carry-over")
    assert (taken.by, taken.at, taken.run) == ("kim@contoso.example", NOON, "run-1")
    view = await gate.review_view(records, "run-1", TODAY)
    assert view.reviews == (taken,)
    assert view.of("leave-carry-over") == (taken,)
    assert view.decision("leave-carry-over") == view.standing["leave-carry-over"]
    assert view.decision("visa-letter") is None


async def test_all_decisions_stay_and_the_latest_counts(records: RunRecords, store: MemoryStore) -> None:
    await kept(records, failing())
    first = await decide(records, "leave-carry-over")
    before = store.documents
    second = await decide(records, "leave-carry-over", Ruling.ACCEPTABLE, reason="bearable", minutes=1)
    view = await gate.review_view(records, "run-1", TODAY)
    assert view.of("leave-carry-over") == (second, first)
    assert view.standing["leave-carry-over"].review == second
    assert before.items() <= store.documents.items()  # nothing was written over


async def test_nothing_changes_the_run(records: RunRecords, store: MemoryStore) -> None:
    run = await kept(records, failing())
    status = store.documents["status/run-1.json"]
    await decide(records, "leave-carry-over", Ruling.ACCEPTABLE, reason="bearable")
    await gate.override(records, "run-1", OverrideDraft(reason="x", questions=LOST, watch="y"), signature())
    assert store.documents["status/run-1.json"] == status
    assert (await records.read("run-1"))[0].verdict is Verdict.FAIL is run.verdict


async def test_a_hundred_reviewers_at_one_moment_lose_nothing(records: RunRecords) -> None:
    await kept(records, failing())
    taken = await asyncio.gather(
        *(
            decide(records, LOST[number % 4], mark=f"{number:03}", by=f"reviewer-{number}")
            for number in range(100)
        )
    )
    view = await gate.review_view(records, "run-1", TODAY)
    assert len(view.reviews) == 100
    assert {each.by for each in view.reviews} == {f"reviewer-{number}" for number in range(100)}
    assert set(view.reviews) == set(taken)
    assert view.standing["expense-limit"].review.by == "reviewer-96"


async def test_two_processes_over_one_folder_lose_nothing(tmp_path: Any) -> None:
    async with open_folder(tmp_path) as one, open_folder(tmp_path) as other:
        both = (RunRecords(one), RunRecords(other))
        await kept(both[0], failing())
        await asyncio.gather(
            *(decide(both[number % 2], "visa-letter", mark=f"{number:02}") for number in range(20))
        )
        for records in both:
            assert len((await gate.review_view(records, "run-1", TODAY)).reviews) == 20


async def test_an_id_that_is_taken_is_refused_and_nothing_written_over(records: RunRecords) -> None:
    await kept(records, failing())
    first = await decide(records, "visa-letter", by="one")
    with pytest.raises(ConflictError):
        await decide(records, "visa-letter", by="other")
    assert await records.reviews("run-1") == [first]


async def test_a_question_that_the_run_does_not_have_is_refused(records: RunRecords) -> None:
    await kept(records, failing())
    for name in ("nowhere", "\ud83d", "leave"):
        with pytest.raises(InputError, match="the run has no question"):
            await decide(records, name)
    assert await records.reviews("run-1") == []


async def test_an_unknown_run_is_not_found(records: RunRecords) -> None:
    for name in ("nowhere", "../status/x"):
        with pytest.raises(NotFoundError):
            await decide(records, "q", run=name)
        with pytest.raises(NotFoundError):
            await gate.review_view(records, name, TODAY)


async def test_a_run_that_is_not_done_is_not_decided(records: RunRecords) -> None:
    run = replace(a_run(id="run-1"), state=State.RUNNING)
    await records.create(run, GoldenTexts(name="hr", jsonl=""))
    with pytest.raises(ConflictError, match="not done"):
        await decide(records, "q1")
    with pytest.raises(ConflictError, match="not done"):
        await gate.label_patch(records, "run-1", TODAY)
    view = await gate.review_view(records, "run-1", TODAY)
    assert (view.reviews, view.carried, view.waived) == ((), {}, None)


# carried forward -----------------------------------------------------------------------------------------


async def carried(records: RunRecords, run_id: str, on: date = TODAY) -> Any:
    return (await gate.review_view(records, run_id, on)).carried


async def test_a_later_run_that_loses_the_question_again_shows_the_decision(records: RunRecords) -> None:
    await kept(records, failing(), "run-1")
    taken = await decide(
        records, "leave-carry-over", Ruling.ACCEPTABLE, reason="bearable", watch="the smoke test"
    )
    await kept(records, failing(), "run-2")
    view = await gate.review_view(records, "run-2", TODAY)
    (found,) = view.carried["leave-carry-over"]
    assert found.review == taken
    assert found.counts
    assert view.decision("leave-carry-over") == found
    assert (view.reviews, view.standing) == ((), {})
    assert set(view.carried) == {"leave-carry-over"}


async def test_a_decision_of_the_run_itself_stands_before_an_earlier_one(records: RunRecords) -> None:
    await kept(records, failing(), "run-1")
    await decide(records, "leave-carry-over", Ruling.ACCEPTABLE, reason="bearable")
    await kept(records, failing(), "run-2")
    own = await decide(records, "leave-carry-over", run="run-2", minutes=1)
    view = await gate.review_view(records, "run-2", TODAY)
    standing = view.decision("leave-carry-over")
    assert standing is not None
    assert standing.review == own
    assert len(view.carried["leave-carry-over"]) == 1


async def test_no_decision_is_carried_backward(records: RunRecords) -> None:
    await kept(records, failing(), "run-1")
    await kept(records, failing(), "run-2")
    await decide(records, "leave-carry-over", run="run-2")
    assert await carried(records, "run-1") == {}
    assert await carried(records, "run-2") == {}


async def test_an_expired_acceptance_is_shown_and_does_not_count(records: RunRecords) -> None:
    await kept(records, failing(), "run-1")
    await decide(records, "leave-carry-over", Ruling.ACCEPTABLE, reason="bearable", expires=date(2026, 12, 1))
    await kept(records, failing(), "run-2")
    for run_id in ("run-1", "run-2"):
        for day, expired in ((1, False), (2, True)):
            view = await gate.review_view(records, run_id, date(2026, 12, day))
            shown = view.standing.get("leave-carry-over") or view.carried["leave-carry-over"][0]
            assert shown.expired is expired
            assert (view.decision("leave-carry-over") is None) is expired


@pytest.mark.parametrize(
    "change",
    [{"answers": ("leave-policy", "badges")}, {"question": "How many days?"}, {"id": "leave-2"}],
    ids=["answers", "text", "id"],
)
async def test_a_question_that_was_changed_is_another_one(records: RunRecords, change: Any) -> None:
    case = failing()
    await kept(records, case, "run-1")
    await decide(records, "leave-carry-over")
    questions = [
        replace(each, **change) if each.id == "leave-carry-over" else each for each in case.questions
    ]
    await kept(records, example(case.run, questions), "run-2")
    assert await carried(records, "run-2") == {}


async def test_another_set_with_the_same_question_shows_nothing(records: RunRecords) -> None:
    case = failing()
    await kept(records, case, "run-1")
    await decide(records, "leave-carry-over")
    run = replace(case.run, golden_set=replace(case.run.golden_set, name="it"))
    await kept(records, Example(run=run, questions=case.questions), "run-2")
    assert await carried(records, "run-2") == {}


async def test_a_new_version_of_the_set_shows_decisions_on_what_stayed(records: RunRecords) -> None:
    case = failing()
    await kept(records, case, "run-1")
    await decide(records, "leave-carry-over")
    run = replace(case.run, golden_set=replace(case.run.golden_set, digest="sha256:other"))
    await kept(records, Example(run=run, questions=case.questions), "run-2")
    assert set(await carried(records, "run-2")) == {"leave-carry-over"}


async def test_a_question_that_was_not_lost_again_shows_nothing(records: RunRecords) -> None:
    lost = asked(Observed(id="q1", question="First?", answers=("d1",)), (1, 1), (9, 9))
    found = asked(Observed(id="q1", question="First?", answers=("d1",)), (1, 1), (1,))
    await kept(records, example(a_run(), [lost]), "run-1")
    await decide(records, "q1")
    await kept(records, example(a_run(), [found]), "run-2")
    assert await carried(records, "run-2") == {}


async def test_earlier_decisions_are_few_and_the_newest(records: RunRecords) -> None:
    for number in range(8):
        await kept(records, failing(), f"run-{number}")
        await decide(records, "visa-letter", run=f"run-{number}", minutes=number)
    found = (await carried(records, "run-7"))["visa-letter"]
    assert [each.review.run for each in found] == ["run-6", "run-5", "run-4", "run-3", "run-2"]


async def test_given_questions_are_looked_up_without_the_evidence(
    records: RunRecords, store: MemoryStore
) -> None:
    case = failing()
    await kept(records, case, "run-1")
    await decide(records, "leave-carry-over")
    await decide(records, "visa-letter", minutes=1)
    await kept(records, case, "run-2")
    store.calls.clear()
    wanted = [each for each in case.questions if each.id == "leave-carry-over"]
    view = await gate.review_view(records, "run-2", TODAY, wanted)
    assert set(view.carried) == {"leave-carry-over"}
    assert not [call for call in store.calls if "evidence" in call.name]
    assert len([call for call in store.calls if call.name.startswith("decisions/")]) == 1


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
async def test_a_decision_that_was_cut_short_is_not_carried(
    records: RunRecords, store: MemoryStore, when: When
) -> None:
    await kept(records, failing(), "run-1")
    store.fail(when=when, operation="create", name="decisions/")
    with pytest.raises(StorageError):
        await decide(records, "visa-letter")
    await kept(records, failing(), "run-2")
    assert await records.reviews("run-1") == []
    assert await carried(records, "run-2") == {}
    taken = await decide(records, "visa-letter", mark="again")
    assert [each.review for each in (await carried(records, "run-2"))["visa-letter"]] == [taken]


async def test_a_damaged_decision_is_told(records: RunRecords, store: MemoryStore) -> None:
    await kept(records, failing())
    await store.create("reviews/run-1/20261130-0.json", b"{")
    with pytest.raises(StorageError, match="damaged"):
        await gate.review_view(records, "run-1", TODAY)


# overrides -----------------------------------------------------------------------------------------------


async def override(
    records: RunRecords, run: str = "run-1", questions: Sequence[str] = LOST, minutes: int = 0
) -> Any:
    draft = OverrideDraft(reason="bearable", questions=tuple(questions), watch="the smoke test")
    return await gate.override(records, run, draft, signature(minutes))


async def test_an_override_clears_the_run_by_name(records: RunRecords) -> None:
    run = await kept(records, failing())
    first, second = await override(records), await override(records, minutes=1)
    view = await gate.review_view(records, "run-1", TODAY)
    assert view.overrides == (second, first)
    assert view.waived == second
    assert second.by == "kim@contoso.example"
    assert await gate.waivers(records, [run]) == {"run-1": second}


async def test_an_incomplete_override_is_not_kept(records: RunRecords) -> None:
    await kept(records, failing())
    with pytest.raises(InputError) as caught:
        await override(records, questions=LOST[:2])
    assert "'visa-letter'" in str(caught.value)
    assert "'parental-pay'" in str(caught.value)
    assert await gate.overrides_of(records, "run-1") == ()


async def test_an_error_is_not_overridden(records: RunRecords) -> None:
    await kept(records, errors_are_no_losses())
    with pytest.raises(InputError, match="never overridden"):
        await override(records, questions=())


async def test_a_list_of_runs_knows_which_are_waived_without_opening_each(
    records: RunRecords, store: MemoryStore
) -> None:
    runs = [
        await kept(records, failing(), "run-1"),
        await kept(records, failing(), "run-2"),
        await kept(records, passing(), "run-3"),
    ]
    given = await override(records, "run-2")
    store.calls.clear()
    assert await gate.waivers(records, runs) == {"run-2": given}
    assert len(store.calls) == 3  # which runs have any, this run's, the one there is
    store.calls.clear()
    assert await gate.waivers(records, runs[2:]) == {}
    assert store.calls == []


# label fixes ---------------------------------------------------------------------------------------------


async def test_the_corrected_set_holds_the_standing_fixes_and_can_be_read(records: RunRecords) -> None:
    run = await kept(records, failing())
    received = (await records.texts(run)).jsonl
    assert (await gate.corrected_set(records, "run-1", TODAY)).jsonl == received
    assert await gate.label_patch(records, "run-1", TODAY) == b""
    await decide(records, "leave-carry-over", Ruling.LABEL_OUT_OF_DATE, answers=("leave-archive-2019",))
    await decide(records, "visa-letter", Ruling.LABEL_OUT_OF_DATE, answers=("newer-1",), minutes=1)
    await decide(records, "visa-letter", minutes=2)
    fixed = await gate.corrected_set(records, "run-1", TODAY)
    was = read_golden_set(GoldenTexts(name="hr", jsonl=received)).questions
    now = read_golden_set(fixed).questions
    changed = {each.id: each.answers for each, old in zip(now, was, strict=True) if each != old}
    assert changed == {"leave-carry-over": ("leave-archive-2019",)}
    change = (await gate.label_patch(records, "run-1", TODAY)).decode()
    assert "+++ b/golden/hr.jsonl" in change
    assert change.count("\n+{") == change.count("\n-{") == 1


async def test_the_corrected_question_is_another_one_for_later_runs(records: RunRecords) -> None:
    case = failing()
    await kept(records, case, "run-1")
    await decide(records, "leave-carry-over", Ruling.LABEL_OUT_OF_DATE, answers=("leave-archive-2019",))
    await kept(records, case, "run-2")
    assert set(await carried(records, "run-2")) == {"leave-carry-over"}
    assert await gate.label_patch(records, "run-2", TODAY) == b""  # only what was decided on this run
