"""Fusion, vector indexes and filters on numbers worked by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.local.analysis import analyzer
from infra.local.definition import Definition, VectorSpace
from infra.local.errors import ServiceError
from infra.local.filter import compile_filter
from infra.local.ranking import VectorHits, fuse
from infra.local.vectors import Neighbour, VectorIndex


def near(*rows: int) -> list[Neighbour]:
    return [Neighbour(row=row, similarity=0.5, score=1 / 1.5) for row in rows]


def test_two_lists_are_fused_by_reciprocal_rank() -> None:
    found = fuse([(7, 9.0), (8, 4.0)], [VectorHits(field="v", weight=1.0, hits=near(8, 9))])
    assert [hit.row for hit in found] == [8, 7, 9]
    assert [hit.score for hit in found] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62], rel=1e-6)


def test_first_in_both_lists_has_the_score_of_the_documentation() -> None:
    found = fuse([(1, 3.0)], [VectorHits(field="v", weight=1.0, hits=near(1))])
    assert found[0].score == 0.032786883413791656


def test_a_weight_multiplies_its_list_only() -> None:
    found = fuse([(1, 3.0)], [VectorHits(field="v", weight=3.0, hits=near(2))])
    assert [hit.row for hit in found] == [2, 1]
    assert [hit.score for hit in found] == pytest.approx([3 / 61, 1 / 61], rel=1e-6)


def test_one_list_keeps_its_own_scores() -> None:
    assert [hit.score for hit in fuse([(1, 3.5), (2, 1.5)], [])] == [3.5, 1.5]
    alone = fuse(None, [VectorHits(field="v", weight=5.0, hits=near(4))])
    assert [hit.score for hit in alone] == pytest.approx([1 / 1.5])


def test_a_thousand_words_hits_take_part_in_a_fusion_and_all_of_them_alone() -> None:
    hits = [(row, 1.0) for row in range(1200)]
    assert len(fuse(hits, [])) == 1200
    assert len(fuse(hits, [VectorHits(field="v", weight=1.0, hits=near(5))])) == 1000


def space(metric: str = "cosine", kind: str = "hnsw", dimensions: int = 8) -> VectorSpace:
    return VectorSpace(
        dimensions=dimensions,
        metric=metric,
        kind=kind,
        m=4,
        ef_construction=400,
        ef_search=500,
        vectorizer=None,
    )


def test_scores_of_vectors_by_metric() -> None:
    rows = [np.asarray(row, np.float32) for row in ([1, 0], [0, 2], [-1, 0])]
    query = np.asarray([2, 0], np.float32)

    def scores(metric: str, kind: str) -> list[float]:
        index = VectorIndex(space(metric, kind, 2), rows)
        return [hit.score for hit in index.nearest(query, 3, allowed=None, exhaustive=False)]

    for kind in ("hnsw", "exhaustiveKnn"):
        assert scores("cosine", kind) == pytest.approx([1, 1 / 2, 1 / 3])
        assert scores("dotProduct", kind) == pytest.approx([2, 0, -2])
        assert scores("euclidean", kind) == pytest.approx([1 / 2, 1 / (1 + 8**0.5), 1 / 4])


def test_two_graphs_of_the_same_vectors_answer_alike() -> None:
    rows = list(np.random.default_rng(1).normal(size=(3000, 8)).astype(np.float32))
    queries = np.random.default_rng(2).normal(size=(20, 8)).astype(np.float32)
    first, second = VectorIndex(space(), rows), VectorIndex(space(), rows)
    for query in queries:
        assert first.nearest(query, 50, allowed=None, exhaustive=False) == second.nearest(
            query, 50, allowed=None, exhaustive=False
        )


def test_a_narrow_filter_still_fills_k() -> None:
    rows = list(np.random.default_rng(1).normal(size=(2000, 8)).astype(np.float32))
    allowed = np.zeros(2000, np.bool_)
    allowed[::100] = True
    found = VectorIndex(space(), rows).nearest(rows[1], 50, allowed=allowed, exhaustive=False)
    assert len(found) == 20
    assert all(allowed[hit.row] for hit in found)


def test_rows_without_vectors_are_not_found() -> None:
    index = VectorIndex(space(dimensions=2), [None, np.asarray([1, 0], np.float32), None])
    found = index.nearest(np.asarray([0, 1], np.float32), 5, allowed=None, exhaustive=False)
    assert [hit.row for hit in found] == [1]
    assert (
        VectorIndex(space(), [None]).nearest(np.zeros(8, np.float32), 5, allowed=None, exhaustive=True) == []
    )


SHELF = Definition.parse(
    {
        "name": "shelf",
        "fields": [
            {"name": "id", "type": "Edm.String", "key": True},
            {"name": "n", "type": "Edm.Int32"},
            {"name": "x", "type": "Edm.Double"},
            {"name": "on", "type": "Edm.Boolean"},
            {"name": "at", "type": "Edm.DateTimeOffset"},
            {"name": "tags", "type": "Collection(Edm.String)"},
            {
                "name": "rooms",
                "type": "Collection(Edm.ComplexType)",
                "fields": [{"name": "beds", "type": "Edm.Int32"}, {"name": "kind", "type": "Edm.String"}],
            },
        ],
    }
)
FULL: dict[str, Any] = {
    "id": "it's",
    "n": 3,
    "x": 1.5,
    "on": True,
    "at": "2026-01-02T03:00:00+01:00",
    "tags": ["a", "b"],
    "rooms": [{"beds": 2, "kind": "suite"}, {"beds": 1, "kind": "single"}],
}
EMPTY: dict[str, Any] = {"id": "e", "n": None, "x": None, "on": None, "at": None, "tags": [], "rooms": []}


@pytest.mark.parametrize(
    ("text", "full", "empty"),
    [
        ("id eq 'it''s'", True, False),
        ("n eq 3 and x lt 2", True, False),
        ("3 lt n or 2 gt x", True, False),
        ("not (n ge 3)", False, True),
        ("n ne 4", True, True),
        ("n eq null", False, True),
        ("n ne null", True, False),
        ("n gt null", False, False),
        ("n eq 3.0", True, False),
        ("x eq -1.5", False, False),
        ("on", True, False),
        ("not on", False, True),
        ("on eq false", False, False),
        ("true", True, True),
        ("at eq 2026-01-02T02:00:00Z", True, False),
        ("at lt 2026-01-02T02:00:01Z", True, False),
        ("tags/any()", True, False),
        ("tags/any(t: t eq 'a')", True, False),
        ("tags/all(t: t ne 'c')", True, True),
        ("tags/all(t: t eq 'a')", False, True),
        ("not tags/any(t: t eq 'c')", True, True),
        ("tags/any(t: search.in(t, 'b,c'))", True, False),
        ("search.in(id, 'e it''s')", True, True),
        ("search.in(id, 'x|it''s|e f', '|')", True, False),
        ("search.in(id, 'E')", False, False),
        ("rooms/any(r: r/beds gt 1 and r/kind eq 'suite')", True, False),
        ("rooms/any(r: r/beds gt 1 and r/kind eq 'single')", False, False),
        ("rooms/any(r: r/beds eq 1) and (n eq 3 or n eq 4)", True, False),
    ],
)
def test_filters_let_through_what_odata_says(text: str, full: bool, empty: bool) -> None:
    predicate = compile_filter(text, SHELF)
    assert (predicate(FULL), predicate(EMPTY)) == (full, empty)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n",
        "n eq 'a'",
        "tags eq 'a'",
        "nothing eq 1",
        "n eq n",
        "id in ('a')",
        "(n eq 1",
        "search.ismatch('a')",
    ],
)
def test_filters_that_mean_nothing_are_400(text: str) -> None:
    with pytest.raises(ServiceError) as caught:
        compile_filter(text, SHELF)
    assert caught.value.status == 400


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from("naeq tags/()':,123 andor.xnull"), max_size=40))
def test_a_filter_works_or_is_400_whatever_it_says(text: str) -> None:
    try:
        predicate = compile_filter(text, SHELF)
    except ServiceError:
        return
    assert {type(predicate(row)) for row in (FULL, EMPTY)} == {bool}


@pytest.mark.parametrize(
    ("name", "text", "terms"),
    [
        (
            "standard.lucene",
            "Don't pay 1,234.5 at example.com!",
            ["don't", "pay", "1,234.5", "at", "example.com"],
        ),
        ("standard.lucene", "你好 abc", ["你", "好", "abc"]),
        ("en.lucene", "The employee's holidays", ["employe", "holiday"]),
        ("en.microsoft", "running", ["run"]),
        ("ja.lucene", "東京都 hotel 駅", ["東京", "京都", "hotel", "駅"]),
        ("keyword", "A b-1", ["A b-1"]),
        ("whitespace", "A b-1", ["A", "b-1"]),
        ("simple", "A b-1", ["a", "b"]),
        ("stop", "the cat", ["cat"]),
    ],
)
def test_analyzers_cut_text_into_terms(name: str, text: str, terms: list[str]) -> None:
    assert analyzer(name)(text) == terms
