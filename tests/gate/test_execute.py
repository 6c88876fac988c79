"""What a run keeps of what it looked at, whom it may be trusted by, and how it goes on where it was ended."""

import asyncio
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.domain import decision
from app.domain.errors import StorageError
from app.domain.golden import GoldenTexts
from app.domain.query import Side
from app.domain.reasons import Code, Verdict
from app.domain.run import Run, State
from app.gate.execute import Limits
from app.gate.ports import ASKING, Answer, Ask, Listing, Page
from app.gate.preflight import COST, PROBE
from tests.fakes.search import DEFINITION, FakeSearch
from tests.gate.executing import KEYWORD, PLAIN, Executing, checks, codes, lines

OUT = ("x", "x", "x", "x", "x", "d1")


@pytest.fixture
def gate() -> Executing:
    return Executing()


# what the questions show beside the verdict


async def test_forbidden_documents_of_the_baseline_are_kept_but_are_no_reason(gate: Executing) -> None:
    gate.search.index("kb-v1").answer("question 1", ("d1", "secret"))
    run = await gate.run(lines(2, forbidden=["secret"]))
    assert (run.verdict, run.counts.forbidden_hits) == (Verdict.PASS, 0)
    hits = (await gate.evidence(run))[0].baseline[0].hits
    assert [hit.parent for hit in hits] == ["d1", "secret"]
    gate.search.index("kb-v2").answer("question 1", ("d1", "secret"))
    run = await gate.run(lines(2, forbidden=["secret"]))
    assert (run.verdict, codes(run)) == (Verdict.FAIL, [Code.FORBIDDEN_HIT])


async def test_critical_questions_that_the_baseline_does_not_answer_are_listed(gate: Executing) -> None:
    gate.search.index("kb-v1").answer("question 2", OUT)
    run = await gate.run(lines(3, critical=True))
    assert run.verdict is Verdict.PASS
    (found,) = checks(run, "critical-absent")
    assert found.questions == ("q2",)
    assert "guard nothing until the live index answers them" in found.message


async def test_a_document_that_the_baseline_alone_holds_is_a_loss_with_its_cause(gate: Executing) -> None:
    for name, parents in (("kb-v1", ("d1", "x")), ("kb-v2", ("x",))):
        gate.search.index(name).stored = [
            {"chunk_id": parent, "parent_id": parent, "chunk": parent} for parent in parents
        ]
        gate.search.index(name).documents = len(parents)
    gate.search.index("kb-v2").otherwise = ("x",)
    run = await gate.run(lines(2))
    assert codes(run) == [Code.NET_LOSS]
    assert [(flip.id, flip.cause) for flip in run.lost] == [
        ("q1", "document-missing"),
        ("q2", "document-missing"),
    ]
    (lost,) = checks(run, "lost-documents")
    assert (lost.measured, lost.documents, lost.questions) == (0.5, ("d1",), ("q1", "q2"))


async def test_documents_that_could_not_be_looked_up_are_verified_by_the_answers_that_show_them(
    gate: Executing,
) -> None:
    hidden = [{**each, "filterable": False} for each in DEFINITION["fields"]]
    for name in ("kb-v1", "kb-v2"):
        gate.search.index(name).definition = {**DEFINITION, "fields": hidden}
        gate.search.index(name).stored = [
            {"chunk_id": f"{place}", "parent_id": "x", "chunk": "words"} for place in range(21_000)
        ]
        gate.search.index(name).documents = 21_000
    gone = json.dumps({"id": "g", "question": "gone?", "answers": ["d2"]}) + "\n"
    toml = f'{KEYWORD}parent_field = "parent_id"\n{PLAIN}'
    gate.search.index("kb-v2").otherwise = ("x", "d1", "d2")
    run = await gate.run(lines(2) + gone, toml=toml)
    unverified = {check.index: check for check in checks(run, "labels-unverified")}
    assert unverified.keys() == {"kb-v1"}, "the candidate showed both"
    assert (unverified["kb-v1"].documents, unverified["kb-v1"].questions) == (("d2",), ("g",))
    assert "1 of 2 labelled or forbidden documents" in unverified["kb-v1"].message


# the fingerprint


async def test_what_a_verdict_rests_on_is_kept(gate: Executing) -> None:
    gate.search.synonyms = {"words": "0x7"}
    run = await gate.run(lines(2))
    kept = run.fingerprint
    assert kept is not None
    assert (kept.baseline.index, kept.baseline.etag, kept.baseline.documents) == ("kb-v1", "0x1", 100)
    assert (kept.candidate.index, kept.candidate.etag) == ("kb-v2", "0x1")
    assert kept.golden_set == run.golden_set.digest
    for side in (kept.baseline, kept.candidate):
        assert str(side.definition_digest).startswith("sha256:")
        assert str(side.synonym_maps).startswith("sha256:")
        assert str(side.inventory).startswith("sha256:")


@dataclass(slots=True, kw_only=True)
class _Noting(FakeSearch):
    """Notes for whom it is asked."""

    askers: set[str] = field(default_factory=set)

    async def ask(self, ask: Ask, deadline: float) -> Answer:
        self.askers.add(ASKING.get())
        answer = await super(_Noting, self).ask(ask, deadline)
        return replace(answer, at_once=3 if ask.text == "question 1" else 2)


async def test_how_many_requests_the_service_had_at_once_is_kept_and_for_whom_it_was_asked() -> None:
    search = _Noting()
    gate = Executing(search=search, limits=Limits(concurrency=1, run_timeout_seconds=60))
    run = await gate.run(lines(1))
    assert run.manifest["at_once"] == {"highest": 3, "last": 3}
    more = await gate.run(lines(40))
    assert more.manifest["at_once"]["highest"] == 3
    assert search.askers == {run.id, more.id}


async def test_the_fingerprint_tells_one_thing_from_another(gate: Executing) -> None:
    first = (await gate.run(lines(2))).fingerprint
    again = (await gate.run(lines(2))).fingerprint
    assert first == again
    gate.search.index("kb-v2").etag = "0x2"
    gate.search.index("kb-v2").definition = {**DEFINITION, "scoringProfiles": [{"name": "new"}]}
    gate.search.synonyms = {"words": "0x8"}
    other = (await gate.run(lines(3), toml=f"{KEYWORD}{PLAIN}max_net_loss = 1\n")).fingerprint
    assert first is not None
    assert other is not None
    assert (other.candidate.etag, other.baseline.etag) == ("0x2", "0x1")
    assert other.candidate.definition_digest != first.candidate.definition_digest
    assert other.baseline.definition_digest == first.baseline.definition_digest
    assert other.candidate.synonym_maps != first.candidate.synonym_maps
    assert (other.golden_set != first.golden_set, other.policy != first.policy) == (True, True)
    assert other.query == first.query


async def test_what_is_planned_stands_in_the_status_before_anything_is_asked(gate: Executing) -> None:
    jsonl = (
        '{"id": "q1", "question": "one", "answers": ["d1"], "slice": "table", "critical": true}\n'
        '{"id": "q2", "question": "two", "answers": ["d1"], "slice": "table"}\n'
        '{"id": "q3", "question": "three", "answers": ["d1"]}\n'
    )
    policy = {"noise_runs": 2, "confirm_runs": 3}
    for slices, planned in (((), 3 * (1 + 2 + 1) + 3), (("table",), 2 * (1 + 2 + 1) + 3)):
        run = await gate.start(jsonl, policy=policy, slices=slices)
        stored, _ = await gate.records.read(run.id)
        assert (stored.progress.done, stored.progress.planned) == (0, planned)
    assert gate.search.asked == []


async def test_verdicts_are_worked_out_one_after_the_other(
    gate: Executing, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, at_once = 0, []
    deciding = decision.decide

    def decide(*args: Any) -> Any:
        nonlocal under_way
        under_way += 1
        at_once.append(under_way)
        time.sleep(0.02)
        under_way -= 1
        return deciding(*args)

    monkeypatch.setattr("app.gate.execute.decide", decide)
    runs, execution = [await gate.start(lines(2)) for _ in range(3)], gate.execution()
    done = await asyncio.gather(*(execution.execute(run.id, cancelled=asyncio.Event()) for run in runs))
    assert [run.verdict for run in done] == [Verdict.PASS] * 3
    assert at_once == [1, 1, 1]


async def test_an_index_that_changes_while_it_is_asked(gate: Executing) -> None:
    def change(run: Run) -> None:
        if run.progress.done:
            gate.search.index("kb-v2").etag = "0x2"

    run = await gate.execute(await gate.start(lines(2)), on_progress=change)
    assert (run.verdict, codes(run)) == (Verdict.ERROR, [Code.INDEX_CHANGED])
    assert "'kb-v2'" in checks(run, Code.INDEX_CHANGED)[0].message


async def test_a_count_may_move_as_far_as_the_policy_lets_it(gate: Executing) -> None:
    def change(run: Run) -> None:
        if run.progress.done:
            gate.search.index("kb-v1").documents = 103

    toml = f"{KEYWORD}{PLAIN}max_documents_changed = 3\n"
    run = await gate.execute(await gate.start(lines(2), toml=toml), on_progress=change)
    assert (run.verdict, run.baseline.documents, run.baseline.documents_at_end) == (Verdict.PASS, 100, 103)
    gate.search.index("kb-v1").documents = 100
    run = await gate.execute(await gate.start(lines(2)), on_progress=change)
    assert codes(run) == [Code.INDEX_CHANGED]
    assert (run.reasons[0].measured, run.reasons[0].limit) == (3, 0)


# trust


@pytest.mark.parametrize(
    ("request_", "trusted"),
    [
        ({"golden_set": "it"}, True),
        ({"golden_set": "it", "policy": {"noise_runs": 2, "max_net_loss": 0}}, True),
        ({"golden_set": "it", "policy": {"max_net_loss": 3}}, False),
        ({"golden_set": "it", "policy": {"noise_runs": 0}}, False),
        ({"golden_set": "it", "slices": ("table",)}, False),
        ({"golden_set": "it", "noise_study": True, "baseline_index": None}, False),
        ({}, False),
    ],
)
async def test_whom_a_run_may_be_trusted_by(gate: Executing, request_: dict[str, Any], trusted: bool) -> None:
    gate.deployed.sets["it"] = GoldenTexts(
        name="it", jsonl=lines(2, slice="table"), toml=f"{KEYWORD}[policy]\nmax_net_loss = 2\n"
    )
    run = await gate.run(lines(2), **request_)
    assert run.verdict is Verdict.PASS
    assert run.trusted is trusted


# ended in the middle


@dataclass
class Held(FakeSearch):
    """A service that stops answering listings once it has given so many."""

    listings: int = 0
    held: asyncio.Event | None = None

    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        if self.held is not None and len(self.listed) >= self.listings:
            self.held.set()
            await asyncio.Event().wait()
        return await super().list_documents(index, listing, deadline)


async def killed(gate: Executing, run: Run, ready: asyncio.Event) -> None:
    """The run executed, and its process killed once `ready` is set."""
    going = asyncio.create_task(gate.execute(run))
    await ready.wait()
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)


def essence(run: Run) -> tuple[object, ...]:
    return (
        run.verdict,
        run.reasons,
        run.counts,
        run.lost,
        run.gained,
        run.checks,
        run.fingerprint,
        run.inventories,
        run.differences,
    )


@pytest.mark.parametrize("listings", [0, 1, 2, 3])
async def test_a_run_that_was_killed_in_its_preflight_looks_again(listings: int) -> None:
    gate = Executing(search=Held(listings=listings))
    gate.search.index("kb-v2").answer("question 1", OUT)
    whole = await gate.run(lines(4))
    search = gate.search
    assert isinstance(search, Held)
    search.listed.clear()
    search.held = asyncio.Event()
    run = await gate.start(lines(4))
    await killed(gate, run, search.held)
    stored, _ = await gate.records.read(run.id)
    assert (stored.state, stored.checks, stored.fingerprint) == (State.RUNNING, (), None)
    search.held = None
    again = await gate.execute(stored)
    assert essence(again) == essence(whole)
    assert len(checks(again, COST)) == 1
    assert again.manifest["starts"] == 2


async def test_a_run_that_was_killed_after_its_preflight_asks_only_what_is_left(gate: Executing) -> None:
    gate.search.index("kb-v2").answer("question 1", OUT)
    whole = await gate.run(lines(6))
    run = await gate.start(lines(6))
    gate.search.asked.clear()
    some = asyncio.Event()

    def note(now: Run) -> None:
        if now.progress.done >= 5:
            some.set()
            gate.search.hold()

    going = asyncio.create_task(gate.execute(run, on_progress=note))
    await some.wait()
    await asyncio.sleep(0.01)
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    gate.search.release()
    stored, _ = await gate.records.read(run.id)
    assert stored.fingerprint is not None
    gate.search.listed.clear()
    again = await gate.execute(stored)
    assert essence(again) == essence(whole)
    assert [each.text for each in gate.search.asked].count(PROBE) == 2, "asked once of each side, before"
    assert {listing.filter for _, listing in gate.search.listed} == {"search.in(parent_id, 'd1', '|')"}
    evidence = await gate.evidence(again)
    assert {(len(each.baseline), len(each.candidate)) for each in evidence} == {(1, 1)}
    assert again.requests.comparison == 12


async def test_what_the_labels_lack_is_known_again_after_a_restart(gate: Executing) -> None:
    for name in ("kb-v1", "kb-v2"):
        gate.search.index(name).stored = [{"chunk_id": "1", "parent_id": "d1", "chunk": "words"}]
    stale = json.dumps({"id": "s", "question": "stale?", "answers": ["gone"]}) + "\n"
    toml = f"{KEYWORD}{PLAIN}min_evaluated_share = 0.5\n"
    run = await gate.start(lines(3) + stale, toml=toml)
    some = asyncio.Event()

    def note(now: Run) -> None:
        if now.progress.done >= 2:
            some.set()
            gate.search.hold()

    going = asyncio.create_task(gate.execute(run, on_progress=note))
    await some.wait()
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    gate.search.release()
    again = await gate.execute(run)
    assert (again.verdict, again.counts.stale, again.counts.kept) == (Verdict.PASS, 1, 3)
    assert len(checks(again, "stale-label")) == 1


@pytest.mark.parametrize("change", ["etag", "gone", "documents"])
async def test_an_index_that_changed_between_two_starts(gate: Executing, change: str) -> None:
    run = await gate.start(lines(4))
    some = asyncio.Event()

    def note(now: Run) -> None:
        if now.progress.done >= 2:
            some.set()
            gate.search.hold()

    going = asyncio.create_task(gate.execute(run, on_progress=note))
    await some.wait()
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    gate.search.release()
    match change:
        case "etag":
            gate.search.index("kb-v2").etag = "0x2"
        case "gone":
            del gate.search.indexes["kb-v2"]
        case _:
            gate.search.index("kb-v2").documents = 101
    again = await gate.execute(run)
    assert again.verdict is Verdict.ERROR
    assert (Code.INDEX_MISSING if change == "gone" else Code.INDEX_CHANGED) in codes(again)
    assert (again.lost, again.gained) == ((), ())


async def test_a_store_that_fails_while_the_preflight_is_kept_leaves_no_verdict_of_its_own(
    gate: Executing,
) -> None:
    run = await gate.start(lines(2))
    gate.store.fail(2, operation="replace", name="status/")
    ended = await gate.execute(run)
    assert (ended.verdict, Code.STORAGE_UNAVAILABLE in codes(ended)) == (Verdict.ERROR, True)
    assert gate.asked == []


async def test_an_end_that_cannot_be_kept_is_kept_the_next_time(gate: Executing) -> None:
    run = await gate.start(lines(2))
    gate.store.fail(1, operation="create", name=f"runs/{run.id}/evidence")
    with pytest.raises(StorageError):
        await gate.execute(run)
    asked = len(gate.search.asked)
    ended = await gate.execute(run)
    assert ended.verdict is Verdict.PASS
    assert len(gate.search.asked) == asked


async def test_each_part_is_read_of_both_sides(gate: Executing) -> None:
    run = await gate.run(lines(1))
    assert [run.side(side).index for side in Side] == ["kb-v1", "kb-v2"]
    assert set(run.manifest["seconds"]) == {"preflight", "comparison"}
