"""Answers a search request: text and vectors, filter, fusion, semantic ranking, and the rows as they go out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

import numpy as np
import numpy.typing as npt

from infra.local.definition import Definition, Field, SemanticConfiguration
from infra.local.errors import (
    bad_request,
    not_imitated,
    unknown_property,
    unknown_semantic_configuration,
    vectorization_failed,
)
from infra.local.filter import compile_filter, moment
from infra.local.models import ModelMissingError, Models, Role
from infra.local.query import FilterMode, SearchMode, SearchRequest, VectorQuery
from infra.local.ranking import Ranked, VectorHits, fuse
from infra.local.semantic import captions, passage, rerank
from infra.local.shelf import Snapshot
from infra.local.store import Document, Store
from infra.local.vectors import Neighbour

_SCORE = "search.score()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher:
    """The models and their memory, shared by all indexes."""

    models: Models
    store: Store

    def answer(
        self, snapshot: Snapshot, request: SearchRequest, *, ranked_semantically: bool = True
    ) -> dict[str, Any]:
        """The response body; without `ranked_semantically` a semantic query keeps its base order."""
        definition = snapshot.definition
        selected = _selected(definition, request.select)
        configuration = _configuration(definition, request) if request.is_semantic else None
        allowed = snapshot.mask(compile_filter(request.filter, definition)) if request.filter else None
        text, vectors = self._text(snapshot, request, allowed), self._vectors(snapshot, request, allowed)
        fused = ranked = fuse(text, vectors)
        if request.orderby:
            ranked = _ordered(ranked, request.orderby, snapshot)
        if configuration is not None and ranked_semantically:
            ranked = self._semantic(snapshot, request, configuration, ranked)
        page = ranked[request.skip : request.skip + request.top]
        body: dict[str, Any] = {"@odata.count": _matches(text, fused)} if request.count else {}
        if request.coverage:
            body["@search.coverage"] = 100.0
        if request.answers and configuration is not None:
            body["@search.answers"] = []
        rows = snapshot.documents
        body["value"] = [_row(hit, rows[hit.row], selected, debug=request.debug_vectors) for hit in page]
        return body

    def embed_query(self, deployment: str, text: str) -> npt.NDArray[np.float32]:
        """The vector of a question, from the store when it has been asked before."""
        model = self.models.embedder_digest(deployment)
        known = self.store.query_vector(model, text)
        if known is not None:
            return known
        vector: npt.NDArray[np.float32] = self.models.embed(deployment, [text], Role.QUERY)[0]
        self.store.keep_query_vector(model, text, vector)
        return vector

    def _text(
        self, snapshot: Snapshot, request: SearchRequest, allowed: npt.NDArray[np.bool_] | None
    ) -> list[tuple[int, float]] | None:
        """Keyword hits; None when only vectors are asked for."""
        if request.matches_all:
            return None if request.vectors else _everything(snapshot, allowed)
        definition = snapshot.definition
        paths = _search_paths(definition, request.search_fields)
        if not definition.plain_similarity:
            raise not_imitated("a similarity other than BM25 with k1 = 1.2 and b = 0.75.")
        hits = snapshot.keyword().search(
            request.search or "",
            paths=paths,
            weights=_weights(definition, request.scoring_profile),
            match_all=request.mode is SearchMode.ALL,
            kind=request.query_type,
        )
        return hits if allowed is None else [hit for hit in hits if allowed[hit[0]]]

    def _vectors(
        self, snapshot: Snapshot, request: SearchRequest, allowed: npt.NDArray[np.bool_] | None
    ) -> list[VectorHits]:
        """One list for every vector query and field, in the order of the request."""
        return [
            VectorHits(
                field=path,
                weight=query.weight,
                hits=self._nearest(snapshot, query, path, request.filter_mode, allowed),
            )
            for query in request.vectors
            for path in query.fields
        ]

    def _nearest(
        self,
        snapshot: Snapshot,
        query: VectorQuery,
        path: str,
        mode: FilterMode,
        allowed: npt.NDArray[np.bool_] | None,
    ) -> list[Neighbour]:
        field = _vector_field(snapshot.definition, path)
        target = self._target(query, field)
        inside = allowed if mode is FilterMode.PRE else None
        found = snapshot.vectors(path).nearest(target, query.k, allowed=inside, exhaustive=query.exhaustive)
        return [hit for hit in found if allowed is None or allowed[hit.row]]

    def _target(self, query: VectorQuery, field: Field) -> npt.NDArray[np.float32]:
        if query.vector is not None:
            target = np.asarray(query.vector, dtype=np.float32)
        else:
            target = self._vectorized(query.text or "", field)
        wanted = field.space.dimensions if field.space else 0
        if len(target) != wanted:
            raise bad_request(
                f"The vector query's 'vector' length {len(target)} does not match the dimensions {wanted} "
                f"of the field '{field.path}'.\r\nParameter name: vectorQueries"
            )
        return target

    def _vectorized(self, text: str, field: Field) -> npt.NDArray[np.float32]:
        vectorizer = field.space.vectorizer if field.space else None
        if vectorizer is None:
            raise bad_request(
                f"Field '{field.path}' does not have a vectorizer defined in its vector profile.\r\n"
                "Parameter name: vectorQueries"
            )
        try:
            return self.embed_query(_deployment(vectorizer, self.models.deployments), text)
        except ModelMissingError as error:
            raise vectorization_failed(HTTPStatus.NOT_FOUND, "NotFound") from error

    def _semantic(
        self,
        snapshot: Snapshot,
        request: SearchRequest,
        configuration: SemanticConfiguration,
        ranked: Sequence[Ranked],
    ) -> list[Ranked]:
        """No words, no ranking: Azure then answers in base order, free of charge."""
        query = request.semantic_query or request.search or ""
        if query.strip() in {"", "*"}:
            return list(ranked)
        passages = {hit.row: passage(snapshot.documents[hit.row].body, configuration) for hit in ranked[:50]}
        best = rerank(ranked, query, passages, self.models, self.store)
        if request.captions is not None:
            for hit in best[request.skip : request.skip + request.top]:
                body = snapshot.documents[hit.row].body
                hit.captions = captions(body, configuration, query, request.captions)
        return best


def _matches(text: Sequence[tuple[int, float]] | None, ranked: Sequence[Ranked]) -> int:
    """All matching rows, also those words found beyond the recall of a fusion. Taken before any semantic cut."""
    return len({row for row, _ in text or ()} | {hit.row for hit in ranked})


def visible(document: Document, selected: Sequence[str]) -> dict[str, Any]:
    """The selected fields of a document, vectors as lists."""
    row: dict[str, Any] = {}
    for path in selected:
        name, _, inner = path.partition("/")
        if path in document.vectors:
            row[path] = [float(str(number)) for number in document.vectors[path]]
        elif inner:
            row[name] = _merged(row.get(name), _part(document.body.get(name), inner))
        else:
            row[path] = document.body.get(path)
    return row


def _selected(definition: Definition, select: Sequence[str]) -> tuple[str, ...]:
    if not select or "*" in select:
        return definition.retrievable()
    for path in select:
        field = definition.fields.get(path)
        if field is None or not field.retrievable:
            raise unknown_property(path, "$select")
    return tuple(select)


def selected_fields(definition: Definition, select: str | None) -> tuple[str, ...]:
    """The fields to return for a `$select` in a URL."""
    return _selected(definition, [part.strip() for part in (select or "").split(",") if part.strip()])


def _part(value: Any, path: str) -> Any:
    name, _, inner = path.partition("/")
    if isinstance(value, list):
        return [_part(item, path) for item in value]
    if not isinstance(value, dict):
        return None
    return {name: _part(value.get(name), inner) if inner else value.get(name)}


def _merged(first: Any, second: Any) -> Any:
    if isinstance(first, list) and isinstance(second, list):
        return [_merged(one, other) for one, other in zip(first, second, strict=True)]
    if isinstance(first, dict) and isinstance(second, dict):
        return {**first, **{name: _merged(first.get(name), value) for name, value in second.items()}}
    return second if second is not None else first


def _configuration(definition: Definition, request: SearchRequest) -> SemanticConfiguration:
    name = request.semantic_configuration or definition.default_semantic
    if name is None:
        raise bad_request(
            "Semantic search requires a 'semanticConfiguration' when the index has no default one.\r\n"
            "Parameter name: semanticConfiguration"
        )
    if name not in definition.semantic:
        raise unknown_semantic_configuration(name)
    return definition.semantic[name]


def _search_paths(definition: Definition, given: Sequence[str]) -> tuple[str, ...]:
    texts = tuple(field.path for field in definition.text_fields())
    for path in given:
        if path not in definition.fields:
            raise unknown_property(path, "searchFields")
        if path not in texts:
            raise bad_request(f"The field '{path}' in the search field list is not searchable.")
    return tuple(given) or texts


def _weights(definition: Definition, name: str | None) -> Mapping[str, float]:
    name = name or definition.default_profile
    if name is None:
        return {}
    profile = definition.profiles.get(name)
    if profile is None:
        raise bad_request(f"Unknown scoring profile '{name}'.\r\nParameter name: scoringProfile")
    if profile.functions:
        raise not_imitated(f"the scoring functions of the profile '{name}'.")
    return profile.weights


def _vector_field(definition: Definition, path: str) -> Field:
    field = definition.fields.get(path)
    if field is None:
        raise unknown_property(path, "vectorQueries.fields")
    if field.space is None:
        raise bad_request(f"The field '{path}' in the vector field list is not a vector field.")
    return field


def _deployment(vectorizer: Mapping[str, Any], known: Sequence[str]) -> str:
    """The model behind a vectorizer: its deployment when we have one of that name, else its model's name."""
    parameters = vectorizer.get("azureOpenAIParameters") or {}
    deployment, model = str(parameters.get("deploymentId")), str(parameters.get("modelName"))
    return model if deployment not in known and model in known else deployment


def _everything(snapshot: Snapshot, allowed: npt.NDArray[np.bool_] | None) -> list[tuple[int, float]]:
    rows = range(len(snapshot.documents))
    return [(row, 1.0) for row in rows if allowed is None or allowed[row]]


def _ordered(ranked: Sequence[Ranked], clauses: Sequence[str], snapshot: Snapshot) -> list[Ranked]:
    """By each clause in turn; nulls come first ascending and last descending, ties keep their rank."""
    ordered = list(ranked)
    for clause in reversed(clauses):
        path, _, direction = clause.partition(" ")
        if direction.strip() not in {"", "asc", "desc"}:
            raise bad_request(f"Invalid expression: '{clause}'.\r\nParameter name: $orderby")
        ordered.sort(key=_sort_key(path, snapshot), reverse=direction.strip() == "desc")
    return ordered


def _sort_key(path: str, snapshot: Snapshot) -> Any:
    if path == _SCORE:
        return lambda hit: hit.score
    if "(" in path:
        raise not_imitated(f"ordering by '{path}'.")
    field = snapshot.definition.fields.get(path)
    if field is None:
        raise unknown_property(path, "$orderby")
    if not field.sortable:
        raise bad_request(f"The field '{path}' is not sortable.\r\nParameter name: $orderby")

    def key(hit: Ranked) -> tuple[bool, Any]:
        value: Any = snapshot.documents[hit.row].body
        for name in path.split("/"):
            value = value.get(name) if isinstance(value, dict) else None
        return (value is not None, _comparable(value, field.type) if value is not None else 0)

    return key


def _comparable(value: Any, kind: str) -> str | float | datetime:
    if kind == "Edm.DateTimeOffset":
        return moment(value)
    return value if kind == "Edm.String" else float(value)


def _row(hit: Ranked, document: Document, selected: Sequence[str], *, debug: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"@search.score": hit.score}
    if hit.reranker_score is not None:
        row["@search.rerankerScore"] = hit.reranker_score
        row["@search.rerankerBoostedScore"] = hit.reranker_score
    if hit.captions is not None:
        row["@search.captions"] = hit.captions
    if debug:
        row["@search.documentDebugInfo"] = {"vectors": {"subscores": _subscores(hit)}}
    return row | visible(document, selected)


def _subscores(hit: Ranked) -> dict[str, Any]:
    scores: dict[str, Any] = {"documentBoost": 1.0}
    if hit.text_score is not None:
        scores["text"] = {"searchScore": hit.text_score}
    scores["vectors"] = [
        {path: {"searchScore": found.score, "vectorSimilarity": found.similarity}}
        for path, found in hit.vector_scores
    ]
    return scores
