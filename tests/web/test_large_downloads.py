"""The documents of a run of 10,000 questions are sent in pieces, in the memory of what they show."""

import asyncio
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from starlette.types import Message

from app.domain.decision import decide, decided, results
from app.domain.golden import GoldenTexts
from app.domain.observation import Hit, Observation
from app.domain.outcome import Observed, QuestionResult
from app.gate.records import EvidenceWriter, RunRecords
from app.report.html import WITH_CONTEXTS
from app.web.downloads import PIECE
from tests import examples
from tests.fakes.store import MemoryStore
from tests.web.served import Service

QUESTIONS = 10_000
LOST = 600
PASSAGE = 4_000  # characters
EVIDENCE = QUESTIONS * 3 * PASSAGE  # bytes at the least: three observations a question with one passage each


def questions() -> Iterator[Observed]:
    """Made one at a time: 600 lost, all others kept."""
    for number in range(QUESTIONS):
        lost = number % 16 == 0 and number < 16 * LOST
        yield Observed(
            id=f"q{number:05}",
            question=f"What is said about {number}?",
            answers=(f"d{number}",),
            baseline=(_seen(number, 1), _seen(number, 1)),
            candidate=(_seen(number, None if lost else 1),),
        )


def _seen(number: int, rank: int | None) -> Observation:
    parents = [f"d{number}" if place == rank else f"x{number}-{place}" for place in range(1, 6)]
    hits = tuple(
        Hit(
            rank=place,
            key=f"{parent}-c",
            parent=parent,
            text=parent.ljust(PASSAGE, ".") if place == 1 else None,
        )
        for place, parent in enumerate(parents, start=1)
    )
    return Observation(rank=rank, elapsed_ms=100.0, attempts=1, hits=hits)


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    """With the run `large`, done."""
    store = MemoryStore()
    run = replace(examples.a_run(), id="large")
    writer = EvidenceWriter(run.query)

    def written() -> Iterator[QuestionResult]:
        for each in results(questions(), run.query):
            writer.add(each)
            yield each

    run = decided(run, decide(run, written()), on=examples.TODAY)

    async def keep() -> None:
        records = RunRecords(store)
        await records.create(run, GoldenTexts(name=run.golden_set.name, jsonl=""))
        await records.keep_evidence(run, writer)
        await records.close(run.id)

    asyncio.run(keep())
    return store


@dataclass(slots=True)
class Sent:
    """An answer as a server is given it to send. `held`: the most memory that was in use meanwhile, in bytes."""

    status: int = 0
    size: int = 0
    largest: int = 0
    held: int = 0


async def sent(store: MemoryStore, name: str) -> Sent:
    service = Service(store=store)
    app, answer = service.application(), Sent()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nobody goes away")

    async def send(message: Message) -> None:
        answer.status = message.get("status", answer.status)
        piece = len(message.get("body", b""))
        answer.size, answer.largest = answer.size + piece, max(answer.largest, piece)

    path = f"/v1/runs/large/{name}"
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
    }
    async with app.router.lifespan_context(app):
        tracemalloc.start()
        try:
            await app(scope, receive, send)
            answer.held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    return answer


@pytest.mark.parametrize(
    ("name", "at_least", "held", "reads"),
    [
        ("run.json", EVIDENCE, 10_000_000, ["read"]),
        ("report.html", 3_000_000, 40_000_000, ["read_part"] * WITH_CONTEXTS),
        ("report.md", 50_000, 20_000_000, []),
        ("junit.xml", 1_000_000, 40_000_000, []),
    ],
)
async def test_a_document_of_ten_thousand_questions_is_sent_in_pieces(
    store: MemoryStore, name: str, at_least: int, held: int, reads: list[str]
) -> None:
    store.calls.clear()
    answer = await sent(store, name)
    assert answer.status == 200
    assert answer.size > at_least
    assert answer.largest <= PIECE
    assert answer.held < held < EVIDENCE
    assert [call.operation for call in store.calls if "/evidence" in call.name] == reads
