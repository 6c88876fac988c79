"""An index definition: Azure's JSON with its defaults filled in, and what the engines read from it.

    Definition -> Field*, ScoringProfile*, SemanticConfiguration*

The JSON itself is kept whole, unknown properties included, and is what GET returns.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from infra.local.analysis import is_supported
from infra.local.errors import bad_request, not_imitated

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9]|[-_](?![-_])){0,126}[a-z0-9]")
_FIELD_NAME = re.compile(r"(?!azureSearch)[A-Za-z][A-Za-z0-9_]{0,127}")
_SCALARS = frozenset(
    {
        "Edm.String",
        "Edm.Int32",
        "Edm.Int64",
        "Edm.Double",
        "Edm.Boolean",
        "Edm.DateTimeOffset",
        "Edm.GeographyPoint",
    }
)
_COMPLEX = frozenset({"Edm.ComplexType", "Collection(Edm.ComplexType)"})
_VECTORS = frozenset(f"Collection(Edm.{item})" for item in ("Single", "Half", "Int16", "SByte", "Byte"))
_TEXTS = frozenset({"Edm.String", "Collection(Edm.String)"})
_TYPES = _SCALARS | _COMPLEX | _VECTORS | {f"Collection({scalar})" for scalar in _SCALARS}
_FIXED = (
    *("type", "key", "searchable", "filterable", "sortable", "facetable"),
    *("analyzer", "indexAnalyzer", "dimensions", "vectorSearchProfile"),
)
_CUSTOM = ("analyzers", "tokenizers", "tokenFilters", "charFilters", "normalizers")
_SECRETS = ("apiKey", "authResourceId")
DEFAULT_ANALYZER = "standard.lucene"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSpace:
    """How the vectors of one field are compared and searched."""

    dimensions: int
    metric: str
    kind: str
    m: int
    ef_construction: int
    ef_search: int
    vectorizer: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field; `path` is its name, with slashes inside complex types."""

    path: str
    type: str
    key: bool
    searchable: bool
    filterable: bool
    sortable: bool
    facetable: bool
    retrievable: bool
    index_analyzer: str
    search_analyzer: str
    space: VectorSpace | None

    @property
    def is_text(self) -> bool:
        """Takes part in keyword search."""
        return self.searchable and self.type in _TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticConfiguration:
    """Which fields the cross-encoder reads."""

    name: str
    title: str | None
    content: tuple[str, ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringProfile:
    """Weights of text fields; `functions` names what is not imitated."""

    name: str
    weights: Mapping[str, float]
    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A valid index definition."""

    name: str
    body: dict[str, Any]
    fields: Mapping[str, Field]
    key: str
    semantic: Mapping[str, SemanticConfiguration]
    default_semantic: str | None
    profiles: Mapping[str, ScoringProfile]
    default_profile: str | None
    plain_similarity: bool

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Read and complete a definition as sent by a client; `ServiceError` 400 for what Azure or we refuse."""
        try:
            return cls._read(_completed(given))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise bad_request(
                f"The request is invalid. Details: index : {error!r} in the definition."
            ) from error

    @classmethod
    def _read(cls, body: dict[str, Any]) -> Self:
        spaces = _spaces(body.get("vectorSearch") or {})
        fields = {field.path: field for field in _fields(body["fields"], "", spaces)}
        semantic = body.get("semantic") or {}
        definition = cls(
            name=body["name"],
            body=body,
            fields=fields,
            key=_key(fields),
            semantic={part["name"]: _semantic(part) for part in semantic.get("configurations") or []},
            default_semantic=semantic.get("defaultConfiguration"),
            profiles={part["name"]: _profile(part) for part in body["scoringProfiles"]},
            default_profile=body.get("defaultScoringProfile"),
            plain_similarity=_is_plain(body["similarity"]),
        )
        _check_references(definition)
        return definition

    def text_fields(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields.values() if field.is_text)

    def vector_fields(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields.values() if field.space is not None)

    def retrievable(self) -> tuple[str, ...]:
        """Names of the top-level fields a search returns when `select` is not given."""
        return tuple(
            field.path for field in self.fields.values() if field.retrievable and "/" not in field.path
        )


def check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise bad_request(
            f"Invalid {what} name '{name}': it must be 2 to 128 lower case letters, digits, single dashes or "
            "underscores, and begin and end with a letter or digit."
        )


def check_update(old: Definition, new: Definition) -> None:
    """Fields may be added; an existing one is neither dropped nor changed in what the engine was built with."""
    gone = sorted(set(old.fields) - set(new.fields))
    if gone:
        raise bad_request(f"Existing field(s) '{', '.join(gone)}' cannot be deleted.")
    before, after = _raw_fields(old.body["fields"]), _raw_fields(new.body["fields"])
    for path, field in before.items():
        if any(field.get(name) != after[path].get(name) for name in _FIXED):
            raise bad_request(f"Existing field '{path}' cannot be changed.")


def _raw_fields(fields: list[dict[str, Any]], prefix: str = "") -> dict[str, dict[str, Any]]:
    raw: dict[str, dict[str, Any]] = {}
    for field in fields:
        path = prefix + field["name"]
        raw[path] = field
        raw |= _raw_fields(field.get("fields") or [], path + "/")
    return raw


def _completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with Azure's defaults, secrets blanked, etag removed."""
    body = {key: value for key, value in given.items() if key not in {"@odata.etag", "@odata.context"}}
    if not isinstance(body.get("name"), str):
        raise bad_request("The request is invalid. Details: index : The name of the index is missing.")
    check_name(body["name"], "index")
    if not isinstance(body.get("fields"), list) or not body["fields"]:
        raise bad_request("The request is invalid. Details: index : An index must have at least one field.")
    for name in _CUSTOM:
        if body.get(name):
            raise not_imitated(f"custom {name} in an index definition.")
    body["fields"] = [_completed_field(field, "") for field in body["fields"]]
    for name in ("scoringProfiles", "suggesters", *_CUSTOM):
        body[name] = body.get(name) or []
    body["similarity"] = body.get("similarity") or {"@odata.type": "#Microsoft.Azure.Search.BM25Similarity"}
    if body.get("vectorSearch"):
        body["vectorSearch"] = _completed_vector_search(body["vectorSearch"])
    return body


def _completed_field(given: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise bad_request("The request is invalid. Details: index.fields : A field must have a name.")
    path, kind = prefix + given["name"], given.get("type")
    if not _FIELD_NAME.fullmatch(given["name"]):
        raise bad_request(f"Invalid field name '{path}'.")
    if kind not in _TYPES:
        raise bad_request(f"Field '{path}' has the unknown type '{kind}'.")
    if kind in _COMPLEX:
        nested = [_completed_field(field, path + "/") for field in given.get("fields") or []]
        return {**given, "fields": nested}
    field = {name: value for name, value in given.items() if value is not None}
    return _field_defaults(kind) | field | {"synonymMaps": field.get("synonymMaps") or []}


def _field_defaults(kind: str) -> dict[str, Any]:
    is_vector = kind in _VECTORS
    is_geo = "GeographyPoint" in kind
    return {
        "searchable": kind in _TEXTS or is_vector,
        "filterable": not is_vector,
        "retrievable": True,
        "stored": True,
        "sortable": not is_vector and not kind.startswith("Collection"),
        "facetable": not is_vector and not is_geo,
        "key": False,
    }


def _completed_vector_search(given: Mapping[str, Any]) -> dict[str, Any]:
    body = {
        name: list(given.get(name) or [])
        for name in ("algorithms", "profiles", "vectorizers", "compressions")
    }
    body["algorithms"] = [_completed_algorithm(algorithm) for algorithm in body["algorithms"]]
    body["vectorizers"] = [_without_secrets(vectorizer) for vectorizer in body["vectorizers"]]
    return {**given, **body}


def _completed_algorithm(given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("kind") == "hnsw":
        defaults = {"metric": "cosine", "m": 4, "efConstruction": 400, "efSearch": 500}
        return {**given, "hnswParameters": defaults | _given(given.get("hnswParameters"))}
    return {
        **given,
        "exhaustiveKnnParameters": {"metric": "cosine"} | _given(given.get("exhaustiveKnnParameters")),
    }


def _given(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (parameters or {}).items() if value is not None}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "<redacted>" if name in _SECRETS and part else _without_secrets(part)
            for name, part in value.items()
        }
    return value


def _fields(raw: list[dict[str, Any]], prefix: str, spaces: Mapping[str, VectorSpace]) -> Iterator[Field]:
    seen: set[str] = set()
    for part in raw:
        path = prefix + part["name"]
        if path.lower() in seen:
            raise bad_request(f"Duplicate field '{path}'.")
        seen.add(path.lower())
        yield _field(part, path, spaces)
        yield from _fields(part.get("fields") or [], path + "/", spaces)


def _field(raw: Mapping[str, Any], path: str, spaces: Mapping[str, VectorSpace]) -> Field:
    if raw.get("normalizer"):
        raise not_imitated(f"the normalizer of field '{path}'.")
    if raw.get("synonymMaps"):
        raise not_imitated(f"the synonym maps of field '{path}'.")
    analyzer = raw.get("analyzer") or DEFAULT_ANALYZER
    field = Field(
        path=path,
        type=raw["type"],
        key=bool(raw.get("key")),
        searchable=bool(raw.get("searchable")),
        filterable=bool(raw.get("filterable")),
        sortable=bool(raw.get("sortable")),
        facetable=bool(raw.get("facetable")),
        retrievable=bool(raw.get("retrievable", True)),
        index_analyzer=raw.get("indexAnalyzer") or analyzer,
        search_analyzer=raw.get("searchAnalyzer") or analyzer,
        space=_space(raw, path, spaces) if raw["type"] in _VECTORS and raw.get("searchable") else None,
    )
    _check_field(field)
    return field


def _check_field(field: Field) -> None:
    if field.key and (field.type != "Edm.String" or "/" in field.path):
        raise bad_request(f"The key field '{field.path}' must be a top-level Edm.String.")
    if field.searchable and field.type not in _TEXTS | _VECTORS:
        raise bad_request(f"Field '{field.path}' of type '{field.type}' cannot be searchable.")
    if field.is_text:
        for analyzer in (field.index_analyzer, field.search_analyzer):
            if not is_supported(analyzer):
                raise not_imitated(f"the analyzer '{analyzer}' of field '{field.path}'.")


def _space(raw: Mapping[str, Any], path: str, spaces: Mapping[str, VectorSpace]) -> VectorSpace:
    dimensions, profile = raw.get("dimensions"), str(raw.get("vectorSearchProfile"))
    if not isinstance(dimensions, int) or not 2 <= dimensions <= 4096:
        raise bad_request(f"Field '{path}' must have dimensions between 2 and 4096.")
    if profile not in spaces:
        raise bad_request(
            f"Field '{path}' refers to the vector search profile '{profile}', which does not exist."
        )
    space = spaces[profile]
    return VectorSpace(
        dimensions=dimensions,
        metric=space.metric,
        kind=space.kind,
        m=space.m,
        ef_construction=space.ef_construction,
        ef_search=space.ef_search,
        vectorizer=space.vectorizer,
    )


def _spaces(vector_search: Mapping[str, Any]) -> dict[str, VectorSpace]:
    """Vector space by profile name; dimensions are the field's and still 0 here."""
    algorithms = {part.get("name"): part for part in vector_search.get("algorithms") or []}
    vectorizers = {part.get("name"): part for part in vector_search.get("vectorizers") or []}
    spaces: dict[str, VectorSpace] = {}
    for profile in vector_search.get("profiles") or []:
        algorithm = algorithms.get(profile.get("algorithm"))
        if algorithm is None:
            raise bad_request(f"Profile '{profile.get('name')}' refers to an unknown algorithm.")
        if profile.get("vectorizer") and profile["vectorizer"] not in vectorizers:
            raise bad_request(f"Profile '{profile.get('name')}' refers to an unknown vectorizer.")
        spaces[profile.get("name")] = _profile_space(algorithm, vectorizers.get(profile.get("vectorizer")))
    return spaces


def _profile_space(algorithm: Mapping[str, Any], vectorizer: Mapping[str, Any] | None) -> VectorSpace:
    kind = algorithm.get("kind")
    if kind not in {"hnsw", "exhaustiveKnn"}:
        raise bad_request(f"Unknown vector search algorithm kind '{kind}'.")
    parameters = algorithm["hnswParameters" if kind == "hnsw" else "exhaustiveKnnParameters"]
    metric = parameters["metric"]
    if metric not in {"cosine", "dotProduct", "euclidean"}:
        raise not_imitated(f"the vector metric '{metric}'.")
    return VectorSpace(
        dimensions=0,
        metric=metric,
        kind=kind,
        m=int(parameters.get("m", 4)),
        ef_construction=int(parameters.get("efConstruction", 400)),
        ef_search=int(parameters.get("efSearch", 500)),
        vectorizer=vectorizer,
    )


def _key(fields: Mapping[str, Field]) -> str:
    keys = [field.path for field in fields.values() if field.key]
    if len(keys) != 1:
        raise bad_request(f"An index must have exactly one key field; this one has {len(keys)}.")
    return keys[0]


def _semantic(raw: Mapping[str, Any]) -> SemanticConfiguration:
    fields = raw.get("prioritizedFields") or {}
    return SemanticConfiguration(
        name=raw["name"],
        title=(fields.get("titleField") or {}).get("fieldName"),
        content=tuple(part["fieldName"] for part in fields.get("prioritizedContentFields") or []),
        keywords=tuple(part["fieldName"] for part in fields.get("prioritizedKeywordsFields") or []),
    )


def _profile(raw: Mapping[str, Any]) -> ScoringProfile:
    return ScoringProfile(
        name=raw["name"],
        weights={
            name: float(weight) for name, weight in ((raw.get("text") or {}).get("weights") or {}).items()
        },
        functions=tuple(str(part.get("type")) for part in raw.get("functions") or []),
    )


def _is_plain(similarity: Mapping[str, Any]) -> bool:
    """Whether BM25 has k1 = 1.2 and b = 0.75, the only values the keyword engine has."""
    k1, b = similarity.get("k1"), similarity.get("b")
    is_bm25 = similarity.get("@odata.type", "").endswith("BM25Similarity")
    return bool(is_bm25 and k1 in {None, 1.2} and b in {None, 0.75})


def _check_references(definition: Definition) -> None:
    for configuration in definition.semantic.values():
        title = [configuration.title] if configuration.title else []
        for name in (*title, *configuration.content, *configuration.keywords):
            if name not in definition.fields:
                raise bad_request(
                    f"Semantic configuration '{configuration.name}' refers to the field '{name}', which does not exist."
                )
    if definition.default_semantic is not None and definition.default_semantic not in definition.semantic:
        raise bad_request(f"Default semantic configuration '{definition.default_semantic}' does not exist.")
    if definition.default_profile is not None and definition.default_profile not in definition.profiles:
        raise bad_request(f"Default scoring profile '{definition.default_profile}' does not exist.")
