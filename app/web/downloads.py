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
from app.domain.outcome import QuestionResult, without_passages
from app.domain.run import Run, State
from app.gate.opened import OpenGate
from app.report.decisions import Decisions
from app.report.html import html
from app.report.junit import junit
from app.report.markdown import markdown
from app.report.run_json import json_chunks
from app.web.decisions import decisions_of
from app.web.opened import Gate
from app.web.problems import declared
from app.web.runs import RETRY_AFTER, RunId

PIECE = 64 * 1024  # bytes that are drawn and sent at a time


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
Draw = Callable[[Run, Iterable[QuestionResult]], Iterator[bytes]]

router = APIRouter(prefix="/v1/runs/{run_id}", tags=["documents"])
_PROBLEMS = declared(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)


@router.get(
    "/run.json",
    response_model=RunWithQuestions,
    response_description="The run record",
    responses=_PROBLEMS,
)
async def run_record(run_id: RunId, gate: Gate, *, passages: Passages = True) -> Response:
    """The run record with every question and its evidence."""
    return await drawn(gate, run_id, json_chunks, "application/json", passages=passages)


@router.get(
    "/report.html",
    response_class=Response,
    responses={200: {"description": "The report", "content": {"text/html": {}}}, **_PROBLEMS},
)
async def report_html(run_id: RunId, gate: Gate, *, passages: Passages = True) -> Response:
    """The report as one HTML file, with what was decided so far."""
    run, _ = await gate.records.read(run_id)
    decisions = await decisions_of(gate, run) if run.state is State.DONE else None

    def draw(run: Run, questions: Iterable[QuestionResult]) -> Iterator[bytes]:
        return (text.encode() for text in html(run, questions, decisions or Decisions()))

    return await drawn(gate, run_id, draw, "text/html; charset=utf-8", passages=passages)


@router.get(
    "/report.md",
    response_class=Response,
    responses={200: {"description": "The summary", "content": {"text/markdown": {}}}, **_PROBLEMS},
)
async def report_markdown(run_id: RunId, gate: Gate, *, passages: Passages = True) -> Response:
    """The report as Markdown, for a pull request or a build's summary."""
    return await drawn(gate, run_id, _markdown, "text/markdown; charset=utf-8", passages=passages)


@router.get(
    "/junit.xml",
    response_class=Response,
    responses={200: {"description": "The test results", "content": {"application/xml": {}}}, **_PROBLEMS},
)
async def report_junit(run_id: RunId, gate: Gate, *, passages: Passages = True) -> Response:
    """The report as JUnit test results, for a build."""
    return await drawn(gate, run_id, _junit, "application/xml", passages=passages)


async def drawn(
    gate: OpenGate, run_id: str, draw: Draw, media_type: str, *, passages: bool = True
) -> Response:
    """The document, its first piece drawn: what fails until then is still told with a status of its own.

    409 where the run is not done. The drawing is done in worker threads, so that other requests go on.
    """
    run, _ = await gate.records.read(run_id)
    if run.state is not State.DONE:
        detail = f"The run is {run.state}: its documents are there when it is done."
        raise HTTPException(HTTPStatus.CONFLICT, detail, headers={"Retry-After": RETRY_AFTER})
    observed = await gate.records.evidence(run_id)
    questions = results(observed, run.query)
    pieces = _pieces(draw(run, questions if passages else map(without_passages, questions)))
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
        if len(piece) >= PIECE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _markdown(run: Run, questions: Iterable[QuestionResult]) -> Iterator[bytes]:
    yield markdown(run, questions).encode()


def _junit(run: Run, questions: Iterable[QuestionResult]) -> Iterator[bytes]:
    yield junit(run, questions)
