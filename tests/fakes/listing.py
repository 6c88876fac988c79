"""Stored documents listed as the service does it: filter, order, skip and top, over rows in memory.

The filters are those that an audit or an inventory sends: comparisons of a field with a string, and
`search.in`, joined by `and`. A comparison of a field that no row has is true: what a test did not script
is not in its way.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Stored = Mapping[str, Any]

_COMPARISON = re.compile(r"(?P<field>[\w/]+) (?P<operator>eq|gt|ge|lt|le) '(?P<value>(?:[^']|'')*)'")
_IN = re.compile(r"search\.in\((?P<field>[\w/]+), ?'(?P<values>(?:[^']|'')*)'(?:, ?'(?P<marks>[^']*)')?\)")
_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "eq": lambda left, right: left == right,
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
}


def listed(
    rows: Sequence[Stored],
    *,
    filter: str | None = None,  # noqa: A002 — the service's name for it
    order_by: str | None = None,
    skip: int = 0,
    top: int = 50,
) -> list[Stored]:
    """The rows that the listing would show."""
    found = [row for row in rows if matches(row, filter)]
    if order_by:
        found.sort(key=lambda row: str(row.get(order_by.split()[0]) or ""))
    return found[skip : skip + top]


def stand_ins(parents: Sequence[str | None], filter_: str | None) -> list[Stored]:
    """One chunk of each of the parents, and of every parent that the filter asks for by `search.in`: where a
    test scripts no stored documents, the labels that it uses are there."""
    asked = [
        value
        for found in _IN.finditer(filter_ or "")
        for value in re.split(f"[{re.escape(found['marks'] or ' ,')}]", _unquoted(found["values"]))
    ]
    return [
        {"chunk_id": f"{parent}-0", "parent_id": parent, "title": f"About {parent}", "chunk": parent}
        for parent in sorted({parent for parent in (*parents, *asked) if parent})
    ]


def matches(row: Stored, filter_: str | None) -> bool:
    """Whether the row passes the filter."""
    if not filter_:
        return True
    comparisons = (_compares(row, found) for found in _COMPARISON.finditer(filter_))
    return all(comparisons) and all(_is_in(row, found) for found in _IN.finditer(filter_))


def _compares(row: Stored, found: re.Match[str]) -> bool:
    if found["field"] not in row:
        return True
    value = row[found["field"]]
    return value is not None and _OPERATORS[found["operator"]](str(value), _unquoted(found["value"]))


def _is_in(row: Stored, found: re.Match[str]) -> bool:
    if found["field"] not in row:
        return True
    marks = found["marks"] or " ,"
    return row[found["field"]] in re.split(f"[{re.escape(marks)}]", _unquoted(found["values"]))


def _unquoted(text: str) -> str:
    return text.replace("''", "'")
