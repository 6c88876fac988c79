"""What the measurements share: a scripted service in a process of its own, and a golden set of any size."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from app.domain.golden import GoldenTexts
from app.domain.index import Fields
from tests.scripted import ScriptedSearch

KEY = "bench"


def fields() -> Fields:
    return Fields(
        key="chunk_id",
        parent="parent_id",
        text="chunk",
        title="title",
        vectors=("text_vector",),
        semantic_configuration="default",
    )


def question(number: int) -> str:
    return f"How many days of notice does rule {number} ask for?"


def golden(questions: int) -> GoldenTexts:
    lines = (
        f'{{"id": "q{number:05}", "question": "{question(number)}", "answers": ["d1"]}}'
        for number in range(questions)
    )
    return GoldenTexts(name="bench", jsonl="\n".join(lines))


def _serve(pipe: Connection, latency: float, jitter: float) -> None:
    rows = ["d1", *(f"p{number}" for number in range(49))]
    with ScriptedSearch(latency=latency, jitter=jitter, key=KEY) as service:
        for name in ("kb-v1", "kb-v2"):
            service.index(name, otherwise=rows)
        pipe.send(service.url)
        pipe.recv()


@contextmanager
def service(latency: float, jitter: float = 0.0) -> Iterator[str]:
    """The address of a scripted service, whose processor time and memory are not counted."""
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, latency, jitter), daemon=True)
    process.start()
    try:
        yield str(pipe.recv())
    finally:
        pipe.send(None)
        process.join(10)
