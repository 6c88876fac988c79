"""From lists of hits to one ranking: reciprocal rank fusion, and the order of a list on its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infra.local.vectors import Neighbour

RRF_K = 60
FIRST_RANK = 1
"""Whether Azure counts ranks from 0 or 1 is not settled: its documentation shows 1/61, its recordings 1/60."""
TEXT_RECALL = 1000
"""So many keyword hits take part in a fusion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorHits:
    """What one vector query found in one field, nearest first."""

    field: str
    weight: float
    hits: Sequence[Neighbour]


@dataclass(slots=True, kw_only=True)
class Ranked:
    """A row in the answer: its score and, for debugging and semantic ranking, where that came from."""

    row: int
    score: float
    text_score: float | None = None
    vector_scores: Sequence[tuple[str, Neighbour]] = ()
    reranker_score: float | None = None
    captions: list[dict[str, Any]] | None = None


def fuse(text: Sequence[tuple[int, float]] | None, vectors: Sequence[VectorHits]) -> list[Ranked]:
    """One ranking, best first, ties by row. `text` is None when no words were asked for.

    With two lists or more a row's score is the sum over lists of weight / (60 + rank); text weighs 1. A single
    list keeps its own score: BM25, or that of the vectors.
    """
    lists = len(vectors) + (text is not None)
    recalled = text if lists == 1 or text is None else text[:TEXT_RECALL]
    scores: dict[int, float] = {}
    for rank, (row, score) in enumerate(recalled or (), start=FIRST_RANK):
        scores[row] = score if lists == 1 else 1 / (RRF_K + rank)
    for found in vectors:
        for rank, hit in enumerate(found.hits, start=FIRST_RANK):
            share = hit.score if lists == 1 else found.weight / (RRF_K + rank)
            scores[hit.row] = scores.get(hit.row, 0.0) + share
    by_text = dict(recalled or ())
    by_field = [(found.field, {hit.row: hit for hit in found.hits}) for found in vectors]
    order = sorted(scores, key=lambda row: (-_single(scores[row]), row))
    return [
        Ranked(
            row=row,
            score=_single(scores[row]),
            text_score=by_text.get(row),
            vector_scores=[(name, hits[row]) for name, hits in by_field if row in hits],
        )
        for row in order
    ]


def _single(score: float) -> float:
    """Scores are float32 on the wire."""
    return float(np.float32(score))
