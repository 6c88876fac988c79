"""Vector search over one field: faiss HNSW with the filter inside, or every vector compared.

Builds are single-threaded and rows come in a fixed order, so the same documents give the same graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from infra.local.definition import VectorSpace
from infra.local.models import unit_rows

Vector = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A row near the query: the metric's own similarity, and Azure's score of it."""

    row: int
    similarity: float
    score: float


class VectorIndex:
    """An immutable index over those rows that have a vector."""

    def __init__(self, space: VectorSpace, vectors: Sequence[Vector | None]) -> None:
        """`vectors` holds one entry a row, None for a row without a vector."""
        self._space = space
        self._rows = np.asarray(
            [row for row, vector in enumerate(vectors) if vector is not None], dtype=np.int64
        )
        present = [vector for vector in vectors if vector is not None]
        stacked = np.vstack(present) if present else np.zeros((0, space.dimensions), np.float32)
        self._vectors = unit_rows(stacked) if space.metric == "cosine" else stacked
        self._graph = _graph(space, self._vectors) if space.kind == "hnsw" and present else None

    def nearest(self, query: Vector, k: int, *, allowed: Mask | None, exhaustive: bool) -> list[Neighbour]:
        """The k nearest rows among the allowed (None: all), nearest first, ties by row."""
        target = unit_rows(query[np.newaxis])[0] if self._space.metric == "cosine" else query
        open_to = None if allowed is None else allowed[self._rows]
        wanted = min(k, len(self._rows) if open_to is None else int(open_to.sum()))
        if wanted == 0:
            return []
        found: list[tuple[int, float]] = []
        if self._graph is not None and not exhaustive:
            found = self._by_graph(self._graph, target, wanted, open_to)
        if (
            len(found) < wanted
        ):  # a narrow filter can cut the graph into pieces; then every vector is compared
            found = self._by_comparing(target, wanted, open_to)
        return [self._neighbour(position, similarity) for position, similarity in found]

    @property
    def bytes(self) -> int:
        return int(self._vectors.nbytes)

    def _by_comparing(self, target: Vector, wanted: int, open_to: Mask | None) -> list[tuple[int, float]]:
        if self._space.metric == "euclidean":
            similarities = -np.linalg.norm(self._vectors - target, axis=1)
        else:
            similarities = self._vectors @ target
        if open_to is not None:
            similarities = np.where(open_to, similarities, -np.inf)
        best = np.argsort(-similarities, kind="stable")[:wanted]
        return [(int(position), float(similarities[position])) for position in best]

    def _by_graph(
        self, graph: Any, target: Vector, wanted: int, open_to: Mask | None
    ) -> list[tuple[int, float]]:
        selector = None if open_to is None else faiss.IDSelectorBatch(np.flatnonzero(open_to))
        parameters = faiss.SearchParametersHNSW(  # type: ignore[attr-defined] # missing in faiss's stubs
            efSearch=max(self._space.ef_search, wanted), sel=selector
        )
        distances, positions = graph.search(target[np.newaxis], wanted, params=parameters)
        sign = (
            np.sqrt(np.maximum(distances[0], 0)) * -1 if self._space.metric == "euclidean" else distances[0]
        )
        found = [(int(p), float(s)) for p, s in zip(positions[0], sign, strict=True) if p >= 0]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))

    def _neighbour(self, position: int, similarity: float) -> Neighbour:
        return Neighbour(
            row=int(self._rows[position]), similarity=similarity, score=_score(similarity, self._space.metric)
        )


def _graph(space: VectorSpace, vectors: Vector) -> Any:
    """The HNSW graph over vectors in the order given; its levels are drawn from a fixed seed."""
    faiss.omp_set_num_threads(1)
    metric = faiss.METRIC_L2 if space.metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    graph = faiss.IndexHNSWFlat(space.dimensions, space.m, metric)
    graph.hnsw.efConstruction = space.ef_construction
    graph.add(vectors)
    return graph


def _score(similarity: float, metric: str) -> float:
    """Azure's score: 1/(1 + distance) for cosine and euclidean; the product itself for dotProduct."""
    match metric:
        case "cosine":
            return 1 / (2 - similarity)
        case "euclidean":
            return 1 / (1 - similarity)
        case _:
            return similarity
