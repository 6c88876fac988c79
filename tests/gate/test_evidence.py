"""The evidence of a run, read whole and question by question."""

import gzip
from dataclasses import replace

import pytest

from app.domain.decision import results
from app.domain.errors import ConflictError, NotFoundError, StorageError
from app.domain.golden import GoldenTexts
from app.domain.outcome import Observed
from app.domain.outline import outlined
from app.gate.records import EvidenceWriter, RunRecords
from tests import examples
from tests.fakes.store import MemoryStore

EVIDENCE = "runs/run-1/evidence.jsonl.gz"
OUTLINE = "runs/run-1/outline-1.jsonl.gz"
CASE = examples.failing()
RUN = replace(CASE.run, id="run-1", manifest={"claim": "ours"})


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def records(store: MemoryStore) -> RunRecords:
    """With the evidence of the example, kept as run-1."""
    records = RunRecords(store)
    await records.create(RUN, GoldenTexts(name="hr", jsonl=""))
    await records.keep_evidence(RUN, written(CASE.questions))
    store.calls.clear()
    return records


def written(questions: tuple[Observed, ...]) -> EvidenceWriter:
    writer = EvidenceWriter(CASE.run.query)
    for each in results(questions, CASE.run.query):
        writer.add(each)
    return writer


def reads(store: MemoryStore) -> list[tuple[str, str]]:
    return [(call.operation, call.name) for call in store.calls]


async def damage(store: MemoryStore, name: str, data: bytes) -> None:
    _, etag = await store.read(name)
    await store.replace(name, data, etag)


async def test_all_questions_come_back_as_they_were(records: RunRecords) -> None:
    assert tuple(await records.evidence("run-1")) == CASE.questions


async def test_the_evidence_is_one_gzip_file_of_a_line_a_question(
    records: RunRecords, store: MemoryStore
) -> None:
    assert records
    assert len(gzip.decompress(store.documents[EVIDENCE]).splitlines()) == len(CASE.questions)


async def test_some_questions_are_read_in_the_sets_order_and_no_others(
    records: RunRecords, store: MemoryStore
) -> None:
    ids = [CASE.questions[5].id, CASE.questions[2].id, "no such question", "half a pair \ud800"]
    assert await records.questions("run-1", ids) == [CASE.questions[2], CASE.questions[5]]
    assert reads(store) == [("read", OUTLINE), ("read_part", EVIDENCE), ("read_part", EVIDENCE)]


async def test_outlines_are_read_without_the_evidence(records: RunRecords, store: MemoryStore) -> None:
    expected = [outlined(each, CASE.run.query) for each in CASE.results]
    assert list(await records.outline("run-1")) == expected
    assert reads(store) == [("read", OUTLINE)]


@pytest.mark.parametrize("kept", [b"", b"not compressed", gzip.compress(b"{}\n", mtime=0)])
async def test_a_damaged_outline_is_passed_over(records: RunRecords, store: MemoryStore, kept: bytes) -> None:
    await damage(store, OUTLINE, kept)
    assert tuple(await records.outline("run-1")) == CASE.questions
    assert await records.questions("run-1", [CASE.questions[3].id]) == [CASE.questions[3]]


async def test_an_outline_with_fewer_questions_than_places_is_passed_over(
    records: RunRecords, store: MemoryStore
) -> None:
    places, *lines = gzip.decompress(store.documents[OUTLINE]).splitlines(keepends=True)
    await damage(store, OUTLINE, gzip.compress(b"".join([places, *lines[1:]]), mtime=0))
    assert tuple(await records.outline("run-1")) == CASE.questions


async def test_an_outline_that_is_cut_short_is_passed_over(records: RunRecords, store: MemoryStore) -> None:
    await damage(store, OUTLINE, store.documents[OUTLINE][:-9])
    assert tuple(await records.outline("run-1")) == CASE.questions


async def test_without_an_outline_the_evidence_is_read(records: RunRecords, store: MemoryStore) -> None:
    await store.delete(OUTLINE)
    assert tuple(await records.outline("run-1")) == CASE.questions
    assert await records.questions("run-1", [CASE.questions[3].id]) == [CASE.questions[3]]


async def test_an_outline_of_other_evidence_is_passed_over(records: RunRecords, store: MemoryStore) -> None:
    changed = tuple(replace(each, note="changed") for each in CASE.questions)
    await damage(store, EVIDENCE, written(changed).evidence())
    assert await records.questions("run-1", [CASE.questions[3].id]) == [changed[3]]


async def test_kept_again_after_a_crash_the_later_one_stands(records: RunRecords) -> None:
    changed = tuple(replace(each, note="changed") for each in CASE.questions)
    await records.keep_evidence(RUN, written(changed))
    assert tuple(await records.evidence("run-1")) == changed
    assert await records.questions("run-1", [changed[4].id]) == [changed[4]]


async def test_neither_is_written_over_by_an_execution_that_lost_the_run(
    records: RunRecords, store: MemoryStore
) -> None:
    before = store.documents
    late = replace(RUN, manifest={"claim": "theirs"})
    with pytest.raises(ConflictError):
        await records.keep_evidence(late, written(CASE.questions[:2]))
    assert store.documents == before


async def test_a_run_without_evidence_is_told(records: RunRecords) -> None:
    for read in (records.evidence, records.outline, lambda run: records.questions(run, ["q"])):
        with pytest.raises(NotFoundError, match="evidence of run 'run-2'"):
            await read("run-2")


async def test_where_the_store_does_not_answer_that_is_told(records: RunRecords, store: MemoryStore) -> None:
    store.fail(operation="read", name=OUTLINE)
    with pytest.raises(StorageError, match="told to fail"):
        await records.questions("run-1", [CASE.questions[3].id])
