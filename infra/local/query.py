"""A search request as it is on the wire, read into a value; unknown parameters are refused as Azure does."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, TypeVar

from infra.local.errors import bad_request, not_imitated

_KNOWN = frozenset(
    {
        *(
            "search",
            "searchFields",
            "searchMode",
            "queryType",
            "filter",
            "orderby",
            "select",
            "top",
            "skip",
            "count",
        ),
        *("vectorQueries", "vectorFilterMode", "debug"),
        *(
            "semanticConfiguration",
            "semanticQuery",
            "semanticErrorHandling",
            "semanticMaxWaitInMilliseconds",
            "answers",
            "captions",
        ),
        *("scoringProfile", "scoringParameters", "scoringStatistics", "sessionId", "minimumCoverage"),
        *("facets", "highlight", "highlightPreTag", "highlightPostTag"),
    }
)
_KNOWN_OF_VECTORS = frozenset(
    {"kind", "vector", "text", "k", "fields", "exhaustive", "oversampling", "weight", "url", "base64Image"}
)
_NOT_IMITATED = ("facets", "highlight", "scoringParameters")
_CHOICES = {
    "scoringStatistics": ("local", "global"),
    "semanticErrorHandling": ("fail", "partial"),
}
_DEBUG = frozenset({"disabled", "semantic", "vector", "queryRewrites", "innerHits", "all"})
_MAX_TOP = 1000
_FLOAT32 = 3.4028234663852886e38
_MAX_SKIP = 100_000
_DEFAULT_COUNT = 50


class QueryType(StrEnum):
    SIMPLE = "simple"
    FULL = "full"
    SEMANTIC = "semantic"


class FilterMode(StrEnum):
    PRE = "preFilter"
    POST = "postFilter"
    STRICT_POST = "strictPostFilter"


class SearchMode(StrEnum):
    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorQuery:
    """One vector, or text still to be turned into one, over one or more fields."""

    text: str | None
    vector: tuple[float, ...] | None
    fields: tuple[str, ...]
    k: int
    exhaustive: bool
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Captions:
    """Extractive captions; `highlight` marks the matching words."""

    highlight: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A valid request. Empty tuples mean "not given"."""

    search: str | None
    query_type: QueryType
    mode: SearchMode
    search_fields: tuple[str, ...]
    filter: str | None
    filter_mode: FilterMode
    orderby: tuple[str, ...]
    select: tuple[str, ...]
    top: int
    skip: int
    count: bool
    vectors: tuple[VectorQuery, ...]
    semantic_configuration: str | None
    semantic_query: str | None
    captions: Captions | None
    answers: bool
    scoring_profile: str | None
    debug_vectors: bool
    coverage: bool

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        given = {name: value for name, value in body.items() if value is not None}
        _check_names(given)
        debug = _debug(given)
        request = cls(
            search=_text(given, "search"),
            query_type=_choice(given, "queryType", QueryType.SIMPLE),
            mode=_choice(given, "searchMode", SearchMode.ANY),
            search_fields=_names(given, "searchFields"),
            filter=_text(given, "filter") or None,
            filter_mode=_choice(given, "vectorFilterMode", FilterMode.PRE),
            orderby=_names(given, "orderby"),
            select=_names(given, "select"),
            top=_whole(given, "top", _DEFAULT_COUNT, at_most=_MAX_TOP),
            skip=_whole(given, "skip", 0, at_most=_MAX_SKIP),
            count=_flag(given, "count"),
            vectors=tuple(_vector_query(part) for part in _list(given, "vectorQueries")),
            semantic_configuration=_text(given, "semanticConfiguration"),
            semantic_query=_text(given, "semanticQuery"),
            captions=_captions(given),
            answers=_extractive(given, "answers") is not None,
            scoring_profile=_text(given, "scoringProfile"),
            debug_vectors=debug,
            coverage="minimumCoverage" in given,
        )
        _check_together(request)
        return request

    @property
    def is_semantic(self) -> bool:
        """Ranked by the cross-encoder: the query type says so, or a separate semantic query is given."""
        return self.query_type is QueryType.SEMANTIC or bool(self.semantic_query)

    @property
    def matches_all(self) -> bool:
        """No words are asked for: every document matches, unless vectors say otherwise."""
        return self.search is None or self.search.strip() in {"", "*"}


def _check_names(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in _KNOWN:
            raise bad_request(
                f"The request is invalid. Details: The parameter '{name}' is not a valid search parameter "
                "for this api-version."
            )
    for name in _NOT_IMITATED:
        if given.get(name):
            raise not_imitated(f"the search parameter '{name}'.")
    for name, choices in _CHOICES.items():
        if given.get(name, choices[0]) not in choices:
            raise _invalid(given[name], name)
    if str(given.get("sessionId", "")).startswith("_"):
        raise _invalid(given["sessionId"], "sessionId")
    wait = given.get("semanticMaxWaitInMilliseconds", 700)
    if not isinstance(wait, int) or wait < 700:
        raise _invalid(wait, "semanticMaxWaitInMilliseconds")


def _check_together(request: SearchRequest) -> None:
    if request.is_semantic and request.orderby:
        raise bad_request(
            "Semantic search does not support 'orderBy' clause in the search query.\r\nParameter name: orderBy"
        )


def _vector_query(given: Any) -> VectorQuery:
    if not isinstance(given, dict):
        raise _invalid(given, "vectorQueries")
    unknown = sorted(set(given) - _KNOWN_OF_VECTORS)
    if unknown:
        raise bad_request(
            f"The request is invalid. Details: The parameter '{unknown[0]}' is not a valid parameter of a vector "
            "query for this api-version."
        )
    kind, text, vector = given.get("kind"), given.get("text"), given.get("vector")
    if kind in {"imageUrl", "imageBinary"}:
        raise not_imitated(f"vector queries of kind '{kind}'.")
    if kind not in {"text", "vector"}:
        raise _invalid(kind, "vectorQueries.kind")
    if kind == "text" and not isinstance(text, str):
        raise _invalid(text, "vectorQueries.text")
    fields = _names(given, "fields")
    if not fields:
        raise bad_request("A vector query must name its fields.\r\nParameter name: vectorQueries.fields")
    return VectorQuery(
        text=text if kind == "text" else None,
        vector=_floats(vector) if kind == "vector" else None,
        fields=fields,
        k=_whole(given, "k", _DEFAULT_COUNT, at_least=1, at_most=10_000),
        exhaustive=_flag(given, "exhaustive"),
        weight=_weight(given),
    )


def _floats(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or not value or not all(_is_finite(item) for item in value):
        raise bad_request("A vector must be a list of numbers.\r\nParameter name: vectorQueries.vector")
    return tuple(float(item) for item in value)


def _weight(given: Mapping[str, Any]) -> float:
    weight = given.get("weight", 1.0)
    if weight is None:
        return 1.0
    if not _is_finite(weight) or weight <= 0:
        raise _invalid(weight, "vectorQueries.weight")
    return float(weight)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _FLOAT32


def _captions(given: Mapping[str, Any]) -> Captions | None:
    options = _extractive(given, "captions")
    return None if options is None else Captions(highlight=options.get("highlight", "true") != "false")


def _extractive(given: Mapping[str, Any], name: str) -> dict[str, str] | None:
    """The options behind "extractive|name-value,name-value"; None when not asked for."""
    text = _text(given, name)
    if text is None or text == "none":
        return None
    kind, _, rest = text.partition("|")
    if kind != "extractive":
        raise _invalid(text, name)
    return {key: value for key, _, value in (part.strip().partition("-") for part in rest.split(",") if part)}


def _debug(given: Mapping[str, Any]) -> bool:
    modes = set((_text(given, "debug") or "disabled").split("|"))
    if not modes <= _DEBUG:
        raise _invalid(given["debug"], "debug")
    return bool(modes & {"vector", "all"})


def _names(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list sent as comma-separated text; commas inside parentheses do not separate."""
    text = _text(given, name)
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


_Choice = TypeVar("_Choice", bound=StrEnum)


def _choice(given: Mapping[str, Any], name: str, default: _Choice) -> _Choice:
    try:
        return type(default)(given.get(name, default))
    except ValueError as error:
        raise _invalid(given[name], name) from error


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise _invalid(value, name)
    return value


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if value is not None and not isinstance(value, bool):
        raise _invalid(value, name)
    return bool(value)


def _whole(given: Mapping[str, Any], name: str, default: int, *, at_least: int = 0, at_most: int) -> int:
    value = given.get(name, default)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= at_most:
        raise bad_request(
            f"Value must be between {at_least} and {at_most}.\r\nParameter name: {name}\r\nActual value was {value}."
        )
    return value


def _list(given: Mapping[str, Any], name: str) -> list[Any]:
    value = given.get(name, [])
    if not isinstance(value, list):
        raise _invalid(value, name)
    return value


def _invalid(value: object, name: str) -> Exception:
    return bad_request(
        f"The value '{value}' is not valid for the parameter '{name}'.\r\nParameter name: {name}"
    )
