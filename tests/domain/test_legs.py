"""Which leg lost a question, from ranks by hand. A leg's share of the fused score is 1 / (60 + rank)."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from app.domain.decision import result, results
from app.domain.legs import (
    MOST_ASKED,
    Leg,
    LegProbe,
    LegRank,
    LegRanks,
    Suspect,
    leg_query,
    may_be_lost,
    sentence,
    suspects,
    unexplained,
)
from app.domain.outcome import Missing, Tally
from app.domain.query import Embedding, Mode, Queries, QuerySettings, Side
from tests.domain.making import asked, gained, kept, lost, noisy

HYBRID = QuerySettings(context_size=5)
KEYWORD = replace(HYBRID, mode=Mode.KEYWORD)
VECTOR = replace(HYBRID, mode=Mode.VECTOR)


def both(query: QuerySettings) -> Queries:
    return Queries(baseline=query, candidate=query)


Pair = tuple[int | str | None, int | str | None]  # of ranks; None: none, "!": failed, "-": no such leg


def probe(keyword: Pair | None = None, vector: Pair | None = None, no_ranker: Pair | None = None) -> LegProbe:
    given = {Leg.KEYWORD: keyword, Leg.VECTOR: vector, Leg.NO_RANKER: no_ranker}
    legs = (
        LegRanks(leg=leg, baseline=_rank(pair[0]), candidate=_rank(pair[1]))
        for leg, pair in given.items()
        if pair is not None
    )
    return LegProbe(id="q", documents=("d1",), legs=tuple(legs))


def _rank(value: int | str | None) -> LegRank | None:
    if value == "-":
        return None
    if isinstance(value, str):
        return LegRank(rank=None, error="timed-out")
    return LegRank(rank=value)


# the suspects


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (probe((2, None), (3, 4), (2, 9)), (Suspect.KEYWORD,)),  # 1/62 against 1/63 - 1/64
        (probe((2, 3), (3, None), (2, 9)), (Suspect.VECTOR,)),
        (probe((2, None), (3, None), (2, None)), (Suspect.KEYWORD, Suspect.VECTOR)),  # 1/62, 1/63
        (probe((5, 40), (4, 12), (4, 20)), (Suspect.KEYWORD,)),  # 0.0054 against 0.0017
        (probe((5, 40), (4, 30), (4, 20)), (Suspect.KEYWORD, Suspect.VECTOR)),  # 0.0054, 0.0045
        (probe((2, 2), (3, 3), (2, 7)), (Suspect.OTHERS,)),
        (probe((8, 6), (3, 3), (2, 7)), (Suspect.OTHERS,)),
        (
            probe((2, None), (3, 4), (2, 5)),
            (Suspect.RANKER,),
        ),  # in reach before the ranker, whatever the legs did
        (probe((2, 2), (3, 3), (9, 9)), (Suspect.RANKER,)),  # the ranker lifted it before, and no more
        (probe((2, None), (3, 4), ("!", 5)), (Suspect.RANKER,)),
        (probe((2, None), (3, 4), ("!", 9)), (Suspect.KEYWORD,)),
        (probe((2, None), (3, 4)), (Suspect.KEYWORD,)),
        (probe((2, "!"), (3, None), (2, None)), ()),
        (probe((2, None), ("!", 4), (2, None)), ()),
        (probe(), ()),
    ],
)
def test_what_lost_a_hybrid_question(seen: LegProbe, expected: tuple[Suspect, ...]) -> None:
    assert suspects(seen, both(HYBRID)) == expected


@pytest.mark.parametrize(
    ("query", "seen", "expected"),
    [
        (KEYWORD, probe(no_ranker=(2, None)), (Suspect.KEYWORD,)),
        (VECTOR, probe(no_ranker=(2, 20)), (Suspect.VECTOR,)),
        (KEYWORD, probe(no_ranker=(2, 3)), (Suspect.RANKER,)),
        (KEYWORD, probe(no_ranker=("!", 20)), ()),
        (KEYWORD, probe(no_ranker=(2, "!")), ()),
    ],
)
def test_what_lost_a_question_of_one_leg_with_a_ranker(
    query: QuerySettings, seen: LegProbe, expected: tuple[Suspect, ...]
) -> None:
    assert suspects(seen, both(query)) == expected


def test_a_weight_of_the_vector_leg_counts() -> None:
    """Keyword 5 → none loses 1/65 = 0.0154; vector 5 → 20 loses 1/65 - 1/80 = 0.0029, and ten times that 0.029."""
    seen = probe((5, None), (5, 20))
    assert suspects(seen, both(HYBRID)) == (Suspect.KEYWORD,)
    heavy = both(replace(HYBRID, vector_weight=10))
    assert suspects(seen, heavy) == (Suspect.VECTOR, Suspect.KEYWORD)


def test_a_leg_that_the_candidates_query_lacks_lost_it() -> None:
    queries = Queries(baseline=HYBRID, candidate=KEYWORD)
    seen = probe((2, 2), (3, "-"), (2, 9))
    assert suspects(seen, queries) == (Suspect.VECTOR,)
    assert "vector rank 3 → not asked" in sentence(seen, queries)
    assert "vector search is no part of the candidate's query" in sentence(seen, queries)


# sentences


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            probe((2, None), (3, 4), (2, 9)),
            (
                "Keyword rank 2 → none, vector rank 3 → 4, without the ranker rank 2 → 9: keyword search lost it: look "
                "at the analyzer, the searchable fields and the words that its chunks still carry."
            ),
        ),
        (
            probe((2, 2), (3, 30)),
            (
                "Keyword rank 2 → 2, vector rank 3 → 30: vector search ranks it lower: look at the embedding model and "
                "the size of the chunks that are embedded."
            ),
        ),
        (
            probe(no_ranker=(2, 3)),
            (
                "Without the ranker rank 2 → 3: the semantic ranker lost it: look at what it reads, the fields of the "
                "semantic configuration, the title and the length of the chunk."
            ),
        ),
        (
            probe((2, 2), (3, 3)),
            (
                "Keyword rank 2 → 2, vector rank 3 → 3: no leg ranks it lower than before, so other chunks rose above "
                "it: look at what took its place."
            ),
        ),
        (
            probe((2, "!"), (3, 3)),
            "Keyword rank 2 → unknown (timed-out), vector rank 3 → 3: which leg lost it cannot be told.",
        ),
    ],
)
def test_the_sentence_names_the_leg_and_what_to_look_at(seen: LegProbe, said: str) -> None:
    assert sentence(seen, both(HYBRID)) == said


def test_a_single_leg_is_named_from_the_order_before_the_ranker() -> None:
    assert "keyword search lost it" in sentence(probe(no_ranker=(2, None)), both(KEYWORD))
    assert "keyword search ranks it lower" in sentence(probe(no_ranker=(2, 9)), both(KEYWORD))


# queries


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (HYBRID, set(Leg)),
        (replace(HYBRID, semantic=False), {Leg.KEYWORD, Leg.VECTOR}),
        (KEYWORD, {Leg.NO_RANKER}),
        (VECTOR, {Leg.NO_RANKER}),
        (replace(KEYWORD, semantic=False), set()),
    ],
)
def test_a_leg_is_asked_where_it_shows_something_new(query: QuerySettings, expected: set[Leg]) -> None:
    for side in Side:
        assert {leg for leg in Leg if leg_query(both(query), side, leg)} == expected


def test_a_query_of_one_leg_is_asked_again_to_compare_it_with_a_hybrid_one() -> None:
    queries = Queries(baseline=HYBRID, candidate=replace(KEYWORD, semantic=False))
    assert [leg for leg in Leg if leg_query(queries, Side.CANDIDATE, leg)] == [Leg.KEYWORD]


def test_a_leg_alone_is_neither_ranked_nor_cut_off() -> None:
    own = Embedding(endpoint="https://models.example", deployment="small")
    query = replace(HYBRID, semantic_configuration="default", min_reranker_score=2.0, embedding=own)
    legs = {leg: leg_query(both(query), Side.BASELINE, leg) for leg in Leg}
    modes = {leg: each.mode for leg, each in legs.items() if each is not None}
    assert modes == {Leg.KEYWORD: Mode.KEYWORD, Leg.VECTOR: Mode.VECTOR, Leg.NO_RANKER: Mode.HYBRID}
    for each in legs.values():
        assert each is not None
        assert (each.semantic, each.semantic_configuration, each.min_reranker_score) == (False, None, 0.0)
        assert each.faults() == ()


# which questions


def test_lost_questions_without_a_plain_cause_are_asked_critical_ones_first() -> None:
    questions = [
        lost("ranked-out"),
        kept("kept"),
        gained("gained"),
        noisy("noisy"),
        asked("gone", [1, 1], [None, None], missing=Missing(candidate=("d1",))),
        asked("critical", [1, 1], [None, None], critical=True),
        asked("unsteady", [1, 1], [1, 7], critical=True),  # critical lost, whatever its outcome
    ]
    wanted = unexplained(results(questions, both(HYBRID)), both(HYBRID))
    assert [each.question.id for each in wanted] == ["critical", "unsteady", "ranked-out"]
    assert {each.documents for each in wanted} == {("d1",)}


def test_no_more_than_twenty_are_asked() -> None:
    questions = [lost(f"q{number}") for number in range(25)] + [lost("last", critical=True)]
    wanted = unexplained(results(questions, both(HYBRID)), both(HYBRID))
    assert MOST_ASKED == 20
    assert [each.question.id for each in wanted] == ["last", *(f"q{number}" for number in range(19))]


def test_where_the_query_has_no_legs_nothing_is_asked() -> None:
    plain = both(replace(KEYWORD, semantic=False))
    assert unexplained([result(lost("q"), plain)], plain) == ()


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        (Tally(inside=2, outside=0, failed=0), Tally(inside=0, outside=2, failed=0), True),
        (Tally(inside=1, outside=1, failed=0), Tally(inside=1, outside=1, failed=0), True),
        (Tally(inside=2, outside=0, failed=0), Tally(inside=2, outside=0, failed=0), False),
        (Tally(inside=0, outside=2, failed=0), Tally(inside=0, outside=2, failed=0), False),
    ],
)
def test_who_may_be_lost_is_known_from_its_tallies(
    baseline: Tally, candidate: Tally, *, expected: bool
) -> None:
    assert may_be_lost(baseline, candidate) is expected


def test_probes_come_back_from_json() -> None:
    adapter = TypeAdapter(LegProbe)
    seen = probe((2, None), ("!", "-"), (2, 9))
    assert adapter.dump_python(seen, mode="json") == {
        "id": "q",
        "documents": ["d1"],
        "legs": [
            {
                "leg": "keyword",
                "baseline": {"rank": 2, "error": None},
                "candidate": {"rank": None, "error": None},
            },
            {"leg": "vector", "baseline": {"rank": None, "error": "timed-out"}, "candidate": None},
            {
                "leg": "no-ranker",
                "baseline": {"rank": 2, "error": None},
                "candidate": {"rank": 9, "error": None},
            },
        ],
    }
    assert adapter.validate_json(adapter.dump_json(seen)) == seen
