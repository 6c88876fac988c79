"""`/v1/runs/{id}/…`: the documents of a run that is done, drawn when they are read and sent as they are drawn."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from app.domain.decision import results
from app.domain.outcome import Observed, QuestionResult, without_passages
from app.domain.run import Run, State
from app.gate.opened import OpenGate
from app.gate.reviews import waiver_of
from app.report.html import passages_of, whole_page
from app.report.junit import junit
from app.report.lists import Lists
from app.report.markdown import markdown
from app.report.run_json import json_chunks
from app.web.decisions import decisions_of
from app.web.opened import Gate
from app.web.problems import answers, declared
from app.web.runs import RETRY_AFTER, RunId

PIECE = 64 * 1024  # bytes that are sent at a time
_AT_A_TIME = 50  # questions whose evidence is held at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWithQuestions(Run):
    """The whole run record: the run, and every question with its observations."""

    questions: tuple[QuestionResult, ...]


Passages = Annotated[
    bool,
    Query(
        description="false: without the passages, titles and quotes of documents, for places that more people "
        "read than the documents; a passage's SHA-256 stands in its place"
    ),
]
router = APIRouter(prefix="/v1/runs/{run_id}", tags=["documents"])
_PROBLEMS = declared(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)


@router.get(
    "/run.json",
    response_description="The run record",
    responses=answers(RunWithQuestions) | _PROBLEMS,
)
async def run_record(run_id: RunId, gate: Gate, *, passages: Passages = True) -> Response:
    """The run record with every question and its evidence."""
    run = await _done(gate, run_id)
    questions = _questions(run, await gate.records.evidence(run_id), passages=passages)
    return await _streamed(json_chunks(run, questions), "application/json")


@router.get(
    "/report.html",
    response_class=Response,
    responses={200: {"description": "The report", "content": {"text/html": {}}}, **_PROBLEMS},
)
async def report_html(run_id: RunId, gate: Gate, *, passages: Passages = True) -> Response:
    """The report as one HTML file, with what was decided so far."""
    run = await _done(gate, run_id)
    decisions = await decisions_of(gate, run)
    lists = await _lists(gate, run, passages=passages)
    page = (text.encode() for text in whole_page(run, lists, decisions))
    return await _streamed(page, "text/html; charset=utf-8")


async def _lists(gate: OpenGate, run: Run, *, passages: bool) -> Lists:
    """The run's questions for the file; of its evidence only what is shown is read, a few questions at a time."""
    outline = _questions(run, await gate.records.outline(run.id), passages=passages)
    lists = await asyncio.to_thread(lambda: Lists.of(run, outline, contexts=0))
    shown = passages_of(lists)
    for start in range(0, len(shown), _AT_A_TIME):
        seen = await gate.records.questions(run.id, shown[start : start + _AT_A_TIME])
        lists = lists.with_contexts(run, _questions(run, seen, passages=passages))
    return lists


@router.get(
    "/report.md",
    response_class=Response,
    responses={200: {"description": "The summary", "content": {"text/markdown": {}}}, **_PROBLEMS},
)
async def report_markdown(run_id: RunId, gate: Gate, *, passages: Passages = True) -> Response:
    """The report as Markdown, for a pull request or a build's summary."""
    run = await _done(gate, run_id)
    questions = _questions(run, await gate.records.outline(run_id), passages=passages)
    waived = await waiver_of(gate.records, run)
    drawn = _whole(lambda: markdown(run, questions, waived).encode())
    return await _streamed(drawn, "text/markdown; charset=utf-8")


@router.get(
    "/junit.xml",
    response_class=Response,
    responses={200: {"description": "The test results", "content": {"application/xml": {}}}, **_PROBLEMS},
)
async def report_junit(run_id: RunId, gate: Gate, *, passages: Passages = True) -> Response:
    """The report as JUnit test results, for a build."""
    run = await _done(gate, run_id)
    questions = _questions(run, await gate.records.outline(run_id), passages=passages)
    waived = await waiver_of(gate.records, run)
    return await _streamed(_whole(lambda: junit(run, questions, waived)), "application/xml")


async def _done(gate: OpenGate, run_id: str) -> Run:
    """409 where the run is not done."""
    run, _ = await gate.records.read(run_id)
    if run.state is not State.DONE:
        detail = f"The run is {run.state}: its documents are there when it is done."
        raise HTTPException(HTTPStatus.CONFLICT, detail, headers={"Retry-After": RETRY_AFTER})
    return run


def _questions(run: Run, observed: Iterable[Observed], *, passages: bool) -> Iterator[QuestionResult]:
    """The questions as they are shown to whoever asks."""
    questions = results(observed, run.query)
    return questions if passages and run.policy.evidence_text else map(without_passages, questions)


async def _streamed(chunks: Iterator[bytes], media_type: str) -> Response:
    """The document, its first piece drawn: what fails until then is still told with a status of its own.

    The drawing is done in worker threads, so that other requests go on.
    """
    pieces = _pieces(chunks)
    first = await asyncio.to_thread(next, pieces, b"")
    return StreamingResponse(_sent(first, pieces), media_type=media_type)


async def _sent(first: bytes, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    piece = first
    while piece:
        yield piece
        piece = await asyncio.to_thread(next, pieces, b"")


def _pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, in pieces worth a thread's and a packet's while; none is empty."""
    piece = bytearray()
    for chunk in chunks:
        piece += chunk
        while len(piece) >= PIECE:
            yield bytes(piece[:PIECE])
            del piece[:PIECE]
    if piece:
        yield bytes(piece)


def _whole(draw: Callable[[], bytes]) -> Iterator[bytes]:
    """A document that is drawn in one go, when its first piece is asked for."""
    yield draw()
