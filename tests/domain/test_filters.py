"""Which fields a filter reads."""

import pytest

from app.domain.filters import filter_fields


@pytest.mark.parametrize(
    ("filter_", "fields"),
    [
        ("", ()),
        ("region eq 'de' or region eq 'all'", ("region",)),
        ("(status eq 'current') and (level lt 3)", ("status", "level")),
        ("search.in(group, 'a,b', ',') and not (hidden eq true)", ("group", "hidden")),
        ("tags/any(t: t eq 'x' or t eq 'y''s region eq 2')", ("tags",)),
        ("tags/all(t: search.in(t, 'a')) and tags/any()", ("tags",)),
        ("address/city eq 'Köln'", ("address",)),
        ("changed ge 2026-01-01T00:00:00Z and rating ne null", ("changed", "rating")),
        ("geo.distance(place, geography'POINT(1 2)') lt 5e3", ("place",)),
    ],
)
def test_a_filter_names_its_fields(filter_: str, fields: tuple[str, ...]) -> None:
    assert filter_fields(filter_) == fields
