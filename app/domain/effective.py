"""In what the queries of the two sides differ, as the service and the application see them."""

import json
from collections.abc import Mapping
from typing import Any

from app.domain.change import ChangeKind
from app.domain.definitions import (
    Defined,
    all_fields,
    contents,
    profile_content,
    scoring_profile,
    semantic_configuration,
)
from app.domain.difference import Difference, difference

_OF_FIELDS = ("vector_fields", "search_fields")
_OF_DEFINITIONS = ("semantic_configuration", "scoring_profile")


def query_differences(baseline: Defined, candidate: Defined) -> list[Difference]:
    """Settings that make the two sides' queries different ones; defaults are the service's.

    Not those that only follow the definitions: a field, semantic configuration or scoring profile that one of
    the indexes does not have.
    """
    before, after = effective(baseline), effective(candidate)
    return [
        difference(ChangeKind.QUERY, name, before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name) and not _follows(name, before, after, baseline, candidate)
    ]


def effective(of: Defined) -> dict[str, Any]:
    """What the service is asked for, or the application cuts off; without what this query does not use.

    What the definition gives a name to stands there by its content.
    """
    query = of.query
    found: dict[str, Any] = {
        "mode": str(query.mode),
        "semantic": query.semantic,
        "candidates": query.candidates,
        "context_size": query.context_size,
        "filter": query.filter.strip(),
        "session": str(query.session),
        "min_score": query.min_score,
        "scoring_profile": _content("scoring_profile", of),
        "scoring_parameters": list(query.scoring_parameters),
        "scoring_statistics": str(query.scoring_statistics or "local"),
    }
    if query.semantic:
        found["min_reranker_score"] = query.min_reranker_score
        found["semantic_configuration"] = _content("semantic_configuration", of)
    if query.by_text:
        found["search_fields"] = sorted(query.search_fields)
        found["search_mode"] = str(query.search_mode or "any")
        found["syntax"] = str(query.syntax or "simple")
    if query.by_vector:
        fields = of.fields.vectors if of.fields is not None else query.vector_fields or ()
        found["vector_fields"] = sorted(fields)
        found["k"] = query.k
        found["exhaustive"] = bool(query.exhaustive)
        found["vector_weight"] = query.vector_weight or 1.0
        found["vector_filter_mode"] = str(query.vector_filter_mode or "preFilter")
        found["oversampling"] = query.oversampling
    return found


def _content(setting: str, of: Defined) -> Mapping[str, Any] | None:
    name = getattr(of.query, setting)
    if not of.definition:
        return None if name is None else {"name": of.normal(name)}
    return scoring_profile(of, name) if setting == "scoring_profile" else semantic_configuration(of, name)


def _follows(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Defined, candidate: Defined
) -> bool:
    """Whether the definitions are why this setting differs."""
    if not baseline.definition or not candidate.definition:
        return False
    if name in _OF_FIELDS:
        named = {*(before.get(name) or ()), *(after.get(name) or ())}
        return not named <= (all_fields(baseline.definition).keys() & all_fields(candidate.definition).keys())
    if name in _OF_DEFINITIONS:
        if getattr(baseline.query, name) is None and getattr(candidate.query, name) is None:
            return True
        both = _contents(name, baseline) & _contents(name, candidate)
        return not {_canonical(each[name]) for each in (before, after) if each.get(name)} <= both
    return False


def _contents(setting: str, of: Defined) -> set[str]:
    if setting == "semantic_configuration":
        return set(contents((of.definition.get("semantic") or {}).get("configurations")))
    return set(contents([profile_content(each) for each in of.definition.get("scoringProfiles") or []]))


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True)
