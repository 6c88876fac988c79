"""In what two index definitions differ: the schema, the embedding, the vector search.

Vector fields are compared by what their names stand for: profile, algorithm, vectorizer and compression are
followed to their parameters, so that names which merely carry the index's name make no difference. Defaults are
the service's, and so are the names of parameters.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.change import ChangeKind
from app.domain.difference import Difference, difference
from app.domain.index import Definition, Fields
from app.domain.query import QuerySettings

_SECRETS = frozenset({"apiKey", "authIdentity", "authResourceId", "httpHeaders"})
_HNSW: Mapping[str, Any] = {"m": 4, "efConstruction": 400, "efSearch": 500}
_BM25: Mapping[str, Any] = {"k1": 1.2, "b": 0.75}
_DEFAULT_ANALYZER = "standard.lucene"
_ATTRIBUTES = ("type", "key", "searchable", "filterable", "sortable", "facetable", "retrievable", "stored")
_CUSTOM = ("analyzers", "tokenizers", "tokenFilters", "charFilters", "normalizers", "suggesters")
BYTES = {"Single": 4.0, "Half": 2.0, "Int16": 2.0, "SByte": 1.0, "Byte": 1.0}  # of one number of a vector


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorField:
    """One vector field, its names followed. `model` is what makes its vectors, as far as the index says."""

    name: str
    type: str
    dimensions: int
    encoding: str | None
    vectorizer: Mapping[str, Any] | None
    algorithm: str
    parameters: Mapping[str, Any]
    metric: str
    compression: Mapping[str, Any] | None

    @property
    def model(self) -> str | None:
        parameters = self.vectorizer or {}
        return parameters.get("modelName") or parameters.get("deploymentId")

    @property
    def bytes(self) -> float | None:
        """Of one vector as it is searched, without the graph around it; None if not known."""
        compression = self.compression or {}
        dimensions = compression.get("truncationDimension") or self.dimensions
        match compression.get("kind"):
            case None:
                each = BYTES.get(self.type)
                return None if each is None else dimensions * (each / 8 if self.encoding else each)
            case "scalarQuantization":
                return float(dimensions)
            case "binaryQuantization":
                return float(dimensions) / 8
            case _:
                return None


def vector_fields(definition: Definition) -> dict[str, VectorField]:
    """By name."""
    return {
        str(each["name"]): _vector_field(definition, each)
        for each in definition.get("fields") or []
        if each.get("dimensions")
    }


def _vector_field(definition: Definition, field: Mapping[str, Any]) -> VectorField:
    search = definition.get("vectorSearch") or {}
    profile = _named(search.get("profiles"), field.get("vectorSearchProfile"))
    algorithm = _named(search.get("algorithms"), profile.get("algorithm"))
    kind = str(algorithm.get("kind") or "hnsw")
    given = {
        name: value for name, value in (algorithm.get(f"{kind}Parameters") or {}).items() if value is not None
    }
    parameters = {**(_HNSW if kind == "hnsw" else {}), **given}
    metric = str(parameters.pop("metric", "cosine"))
    return VectorField(
        name=str(field["name"]),
        type=str(field.get("type", "")).removeprefix("Collection(Edm.").removesuffix(")"),
        dimensions=int(field["dimensions"]),
        encoding=field.get("vectorEncoding"),
        vectorizer=_vectorizer(_named(search.get("vectorizers"), profile.get("vectorizer"))),
        algorithm=kind,
        parameters=parameters,
        metric=metric,
        compression=_plain(_named(search.get("compressions"), profile.get("compression"))) or None,
    )


def _vectorizer(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Kind and parameters in one. Where a model is named, the resource that runs it makes no difference."""
    if not given:
        return None
    flat = {"kind": given.get("kind")}
    for name, value in _plain(given).items():
        flat |= value if name != "kind" and isinstance(value, Mapping) else {name: value}
    if flat.get("modelName"):
        flat.pop("resourceUri", None)
    return flat


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without the name, secrets, and what is not set."""
    return {
        name: _plain(value) if isinstance(value, Mapping) else value
        for name, value in given.items()
        if name != "name" and name not in _SECRETS and value not in (None, [], {})
    }


def _named(items: Sequence[Mapping[str, Any]] | None, name: Any) -> Mapping[str, Any]:
    return next((each for each in items or () if name is not None and each.get("name") == name), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """One side: the definition, whose it is, and how it is queried."""

    index: str
    definition: Definition
    fields: Fields | None
    query: QuerySettings

    def normal(self, value: Any) -> Any:
        """The JSON value with the index's own name taken out of its names."""
        if isinstance(value, str):
            return re.sub(rf"(?<![a-z0-9]){re.escape(self.index)}(?![a-z0-9])", "<index>", value)
        if isinstance(value, Mapping):
            return {self.normal(name): self.normal(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.normal(each) for each in value]
        return value

    @property
    def searched(self) -> tuple[str, ...]:
        """Names of the vector fields that are asked, else of all."""
        names = self.fields.vectors if self.fields is not None else ()
        return names or tuple(vector_fields(self.definition))


def paired_vectors(baseline: Defined, candidate: Defined) -> tuple[tuple[VectorField, VectorField], ...]:
    """The vector fields that stand for each other: those that are asked, in their order, then those of one name."""
    before, after = vector_fields(baseline.definition), vector_fields(candidate.definition)
    pairs: list[tuple[str, str]] = []
    if len(baseline.searched) == len(candidate.searched):
        pairs = list(zip(baseline.searched, candidate.searched, strict=True))
    known_before, known_after = {name for name, _ in pairs}, {name for _, name in pairs}
    pairs += [(name, name) for name in before if name in after and not {name} & (known_before | known_after)]
    return tuple((before[one], after[other]) for one, other in pairs if one in before and other in after)


def definition_differences(baseline: Defined, candidate: Defined) -> list[Difference]:
    """All of them, grouped by kind. No vector field that was renamed or added with its model is a change of schema."""
    found = []
    for before, after in paired_vectors(baseline, candidate):
        found += _embedding(before, after, baseline.query, candidate.query)
    for before, after in paired_vectors(baseline, candidate):
        found += _vector_search(before, after)
    return [*found, *_schema(baseline, candidate, explained=bool(found))]


# the embedding


def _embedding(
    before: VectorField, after: VectorField, baseline: QuerySettings, candidate: QuerySettings
) -> list[Difference]:
    pairs = {
        "vectorizer": (before.vectorizer, after.vectorizer),
        "dimensions": (before.dimensions, after.dimensions),
        "element type": (before.type, after.type),
        "encoding": (before.encoding, after.encoding),
        "compression": (before.compression, after.compression),
        "metric": (before.metric, after.metric),
    }
    found = [
        difference(ChangeKind.EMBEDDING, f"{what} of {after.name}", *_unequal(*values))
        for what, values in pairs.items()
        if values[0] != values[1]
    ]
    one, other = (_from_outside(query) for query in (baseline, candidate))
    if one != other and baseline.by_vector and candidate.by_vector:
        found.append(difference(ChangeKind.EMBEDDING, "embedding of the questions", one, other))
    return found


def _from_outside(query: QuerySettings) -> dict[str, Any] | None:
    """What makes the questions' vectors where the index has no vectorizer; where it runs makes no difference."""
    if query.embedding is None:
        return None
    given = query.embedding
    return {"deployment": given.deployment, "dimensions": given.dimensions, "prefix": given.prefix}


def _unequal(before: Any, after: Any) -> tuple[Any, Any]:
    """Of two objects only what differs, so that a sentence says no more."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return before, after
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: before.get(name) for name in names}, {name: after.get(name) for name in names}


# the vector search


def _vector_search(before: VectorField, after: VectorField) -> list[Difference]:
    if before.algorithm != after.algorithm:
        what = f"algorithm of {after.name}"
        return [difference(ChangeKind.VECTOR_SEARCH, what, before.algorithm, after.algorithm)]
    if before.parameters == after.parameters:
        return []
    what = f"{after.algorithm} parameters of {after.name}"
    return [difference(ChangeKind.VECTOR_SEARCH, what, *_unequal(before.parameters, after.parameters))]


# the schema


def _schema(baseline: Defined, candidate: Defined, *, explained: bool) -> list[Difference]:
    """`explained`: the vector fields differ in what they hold, which is why some have other names."""
    pairs = paired_vectors(baseline, candidate)
    before, after = all_fields(baseline.definition), all_fields(candidate.definition)
    paired_before = {one.name for one, _ in pairs} if explained else set()
    paired_after = {other.name for _, other in pairs} if explained else set()
    found = [
        _schema_difference(f"field {name}", before[name].get("type"), None)
        for name in before
        if name not in after and name not in paired_before
    ]
    found += [
        _schema_difference(f"field {name}", None, after[name].get("type"))
        for name in after
        if name not in before and name not in paired_after
    ]
    for name in (each for each in before if each in after):
        found += _field_differences(name, before[name], after[name], baseline, candidate)
    return [
        *found,
        *_semantic_differences(baseline, candidate),
        *_scoring_differences(baseline, candidate),
        *_similarity_differences(baseline, candidate),
        *_custom_differences(baseline, candidate),
    ]


def _schema_difference(what: str, before: Any, after: Any) -> Difference:
    return difference(ChangeKind.SCHEMA, what, before, after)


def all_fields(definition: Definition) -> dict[str, Mapping[str, Any]]:
    """All fields by path, also those inside complex ones."""
    found: dict[str, Mapping[str, Any]] = {}

    def add(fields: Sequence[Mapping[str, Any]], above: str) -> None:
        for each in fields:
            path = f"{above}{each.get('name')}"
            found[path] = each
            add(each.get("fields") or [], f"{path}/")

    add(definition.get("fields") or [], "")
    return found


def _field_differences(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Defined, candidate: Defined
) -> list[Difference]:
    is_vector = bool(before.get("dimensions") and after.get("dimensions"))
    one, other = _attributes(before), _attributes(after)
    if is_vector:  # its type is the embedding's
        one["type"] = other["type"] = None
    found = [
        _schema_difference(f"{attribute} of {name}", one[attribute], other[attribute])
        for attribute in _ATTRIBUTES
        if one[attribute] != other[attribute]
    ]
    pairs = [
        ("synonym maps", sorted(before.get("synonymMaps") or []), sorted(after.get("synonymMaps") or [])),
        ("normalizer", baseline.normal(before.get("normalizer")), candidate.normal(after.get("normalizer"))),
    ]
    if not is_vector and one["searchable"] and other["searchable"]:
        analyzers = zip(_analyzers(before, baseline), _analyzers(after, candidate), strict=True)
        pairs += [
            (what, *values) for what, values in zip(("analyzer", "search analyzer"), analyzers, strict=True)
        ]
        if pairs[-1][1:] == pairs[-2][1:]:
            pairs.pop()
    found += [
        _schema_difference(f"{what} of {name}", *values) for what, *values in pairs if values[0] != values[1]
    ]
    return found


def _attributes(field: Mapping[str, Any]) -> dict[str, Any]:
    """With the service's defaults for what is not written out."""
    kind = str(field.get("type", ""))
    is_vector, is_text = bool(field.get("dimensions")), kind in ("Edm.String", "Collection(Edm.String)")
    is_complex = "ComplexType" in kind
    defaults: dict[str, Any] = {
        "type": kind,
        "key": False,
        "searchable": is_text or is_vector,
        "filterable": not is_vector and not is_complex,
        "sortable": not is_vector and not is_complex and not kind.startswith("Collection"),
        "facetable": not is_vector and not is_complex,
        "retrievable": field.get("hidden") is not True,
        "stored": True,
    }
    return {name: default if field.get(name) is None else field[name] for name, default in defaults.items()}


def _analyzers(field: Mapping[str, Any], of: Defined) -> tuple[Any, Any]:
    """What cuts the documents into words, and what cuts the questions."""
    both = field.get("analyzer") or _DEFAULT_ANALYZER
    return of.normal(field.get("indexAnalyzer") or both), of.normal(field.get("searchAnalyzer") or both)


def semantic_configuration(of: Defined, name: str | None) -> Mapping[str, Any] | None:
    """The content of the configuration of that name, else of the default one, else of the only one."""
    semantic = of.definition.get("semantic") or {}
    configurations = semantic.get("configurations") or []
    wanted = name or semantic.get("defaultConfiguration")
    if wanted is None and len(configurations) == 1:
        wanted = configurations[0].get("name")
    return _plain(_named(configurations, wanted)) or None


def _semantic_differences(baseline: Defined, candidate: Defined) -> list[Difference]:
    before, after = (
        contents((of.definition.get("semantic") or {}).get("configurations")) for of in (baseline, candidate)
    )
    one, other = (semantic_configuration(of, None) for of in (baseline, candidate))
    if before != after:
        if one == other:
            one, other = (
                semantic_configuration(of, of.query.semantic_configuration) for of in (baseline, candidate)
            )
        if one == other:
            return [
                _schema_difference("number or content of semantic configurations", len(before), len(after))
            ]
        return [_schema_difference("semantic configuration", one, other)]
    return [] if one == other else [_schema_difference("default semantic configuration", one, other)]


def scoring_profile(of: Defined, name: str | None) -> Mapping[str, Any] | None:
    """The content of the scoring profile of that name, else of the default one."""
    wanted = name or of.definition.get("defaultScoringProfile")
    return profile_content(_named(of.definition.get("scoringProfiles"), wanted)) or None


def profile_content(given: Mapping[str, Any]) -> dict[str, Any]:
    plain = _plain(given)
    if plain.get("functionAggregation") == "sum":
        del plain["functionAggregation"]
    return plain


def _scoring_differences(baseline: Defined, candidate: Defined) -> list[Difference]:
    before, after = (
        contents([profile_content(each) for each in of.definition.get("scoringProfiles") or []])
        for of in (baseline, candidate)
    )
    if before != after:
        only_before = [json.loads(each) for each in before if each not in after]
        only_after = [json.loads(each) for each in after if each not in before]
        return [_schema_difference("scoring profiles", only_before or len(before), only_after or len(after))]
    one, other = (scoring_profile(of, None) for of in (baseline, candidate))
    return [] if one == other else [_schema_difference("default scoring profile", one, other)]


def _similarity_differences(baseline: Defined, candidate: Defined) -> list[Difference]:
    one, other = (_similarity(of.definition) for of in (baseline, candidate))
    return [] if one == other else [_schema_difference("similarity", *_unequal(one, other))]


def _similarity(definition: Definition) -> dict[str, Any]:
    given = definition.get("similarity") or {}
    kind = str(given.get("@odata.type") or "#Microsoft.Azure.Search.BM25Similarity").rpartition(".")[2]
    defaults = _BM25 if kind == "BM25Similarity" else {}
    return {"kind": kind, **{name: given.get(name) or default for name, default in defaults.items()}}


def _custom_differences(baseline: Defined, candidate: Defined) -> list[Difference]:
    """Analyzers and the like that the index itself defines, by name."""
    found = []
    for what in _CUSTOM:
        one, other = (
            {str(each.get("name")): each for each in of.normal(list(of.definition.get(what) or []))}
            for of in (baseline, candidate)
        )
        changed = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        found += [
            _schema_difference(f"{what}, {name}", _plain(one.get(name) or {}), _plain(other.get(name) or {}))
            for name in changed
        ]
    return found


def contents(items: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """The items without their names, in an order of their own."""
    return sorted(json.dumps(_plain(each), sort_keys=True) for each in items or ())
