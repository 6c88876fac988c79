"""Which leg of the query lost a question: what keyword search alone, vector search alone, and both without the
ranker make of it, on either side.

A hybrid query adds up 1 / (60 + rank) of its legs (reciprocal rank fusion, k = 60: Azure AI Search,
hybrid-search-ranking), the vector leg's times its weight. So the leg whose share fell most is the one that lost
the question, and beside it one whose share fell at least half as much.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from app.domain.causes import why
from app.domain.golden import Question
from app.domain.outcome import Outcome, QuestionResult, Tally
from app.domain.query import Mode, Queries, QuerySettings, Side

MOST_ASKED = 20  # questions

_FUSION = 60  # k of the reciprocal rank fusion
_ALSO_FELL = 0.5  # of the largest fall


class Leg(StrEnum):
    """`keyword` and `vector`: that leg alone, without the ranker. `no-ranker`: the order that the ranker is given."""

    KEYWORD = "keyword"
    VECTOR = "vector"
    NO_RANKER = "no-ranker"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRank:
    """The answer's rank in one leg of one side; None: not among its candidates, or, with an `error`, not known."""

    rank: int | None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRanks:
    """One leg on both sides; None where the side's query has no such leg."""

    leg: Leg
    baseline: LegRank | None
    candidate: LegRank | None

    @property
    def unknown(self) -> bool:
        return any(each is not None and each.error is not None for each in (self.baseline, self.candidate))


@dataclass(frozen=True, slots=True, kw_only=True)
class LegProbe:
    """A lost question asked by its legs. `documents`: the entry of its labels whose first chunk is ranked."""

    id: str
    documents: tuple[str, ...]
    legs: tuple[LegRanks, ...]

    def of(self, leg: Leg) -> LegRanks | None:
        return next((each for each in self.legs if each.leg is leg), None)


class Suspect(StrEnum):
    """What lost the question. `others`: no leg ranks it lower, so what else was found rose above it."""

    KEYWORD = "keyword"
    VECTOR = "vector"
    RANKER = "ranker"
    OTHERS = "others"


# which questions, which queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A question to ask, and the entry of its labels to look for."""

    question: Question
    documents: tuple[str, ...]


def may_be_lost(baseline: Tally, candidate: Tally) -> bool:
    """Whether a question with these observations can stand among the lost ones."""
    return baseline.inside > 0 and candidate.outside > 0


def unexplained(results: Iterable[QuestionResult], queries: Queries) -> tuple[Wanted, ...]:
    """The lost questions whose cause is not plain and whose queries have legs, critical ones first, then in the
    given order, at most `MOST_ASKED`.
    """
    if not any(leg_query(queries, side, leg) for side in Side for leg in Leg):
        return ()
    critical, others = list[Wanted](), list[Wanted]()
    for each in results:
        if each.outcome is not Outcome.LOST and not each.critical_lost:
            continue
        found = why(each, queries)
        if found is not None and not found.plain:
            wanted = Wanted(question=each, documents=found.evidence.documents)
            (critical if each.critical else others).append(wanted)
    return tuple([*critical, *others][:MOST_ASKED])


def leg_query(queries: Queries, side: Side, leg: Leg) -> QuerySettings | None:
    """The side's query reduced to that leg; None where it has no such leg, or there is nothing to compare: a
    query of one leg is asked again only if the other side's has two.
    """
    query = queries.of(side)
    plain = replace(query, semantic=False, semantic_configuration=None, min_reranker_score=0.0)
    hybrid = Mode.HYBRID in (queries.baseline.mode, queries.candidate.mode)
    match leg:
        case Leg.KEYWORD:
            return replace(plain, mode=Mode.KEYWORD, embedding=None) if hybrid and query.by_text else None
        case Leg.VECTOR:
            return replace(plain, mode=Mode.VECTOR) if hybrid and query.by_vector else None
        case Leg.NO_RANKER:
            return plain if query.semantic else None
        case _:
            assert_never(leg)


# what they show


def suspects(probe: LegProbe, queries: Queries) -> tuple[Suspect, ...]:
    """What lost the question, the likeliest first; empty where that cannot be told."""
    ranker = probe.of(Leg.NO_RANKER)
    if ranker is not None and _ranker_lost_it(ranker, queries.candidate):
        return (Suspect.RANKER,)
    retrieval = [each for each in (probe.of(Leg.KEYWORD), probe.of(Leg.VECTOR)) if each is not None]
    if any(each.unknown for each in retrieval):
        return ()
    if not retrieval:
        return _of_one_leg(ranker, queries)
    fell = {
        each.leg: _share(each, queries, Side.BASELINE) - _share(each, queries, Side.CANDIDATE)
        for each in retrieval
    }
    most = max(fell.values())
    if most <= 0:
        return (Suspect.OTHERS,)
    named = sorted((leg for leg in fell if fell[leg] >= most * _ALSO_FELL), key=lambda leg: -fell[leg])
    return tuple(Suspect(leg.value) for leg in named)


def _ranker_lost_it(ranker: LegRanks, query: QuerySettings) -> bool:
    """The order that the candidate's ranker was given had the answer in reach, or no lower than the baseline's."""
    before, after = ranker.baseline, ranker.candidate
    if after is None or after.rank is None:
        return False
    if after.rank <= query.context_size:
        return True
    return before is not None and before.rank is not None and after.rank <= before.rank


def _of_one_leg(ranker: LegRanks | None, queries: Queries) -> tuple[Suspect, ...]:
    """The same for queries of one leg and a ranker: what the ranker did not lose, that leg did."""
    modes = {queries.baseline.mode, queries.candidate.mode}
    if ranker is None or ranker.unknown or None in (ranker.baseline, ranker.candidate) or len(modes) > 1:
        return ()
    return (Suspect.KEYWORD if modes == {Mode.KEYWORD} else Suspect.VECTOR,)


def _share(ranks: LegRanks, queries: Queries, side: Side) -> float:
    """What the leg adds to the answer's fused score."""
    seen = ranks.baseline if side is Side.BASELINE else ranks.candidate
    if seen is None or seen.rank is None:
        return 0.0
    weight = queries.of(side).vector_weight if ranks.leg is Leg.VECTOR else None
    return (1.0 if weight is None else weight) / (_FUSION + seen.rank)


# in words


def sentence(probe: LegProbe, queries: Queries) -> str:
    """The ranks of every leg, the leg that lost the question, and what to look at. Plain text."""
    ranks = ", ".join(_ranks(each) for each in probe.legs)
    return f"{ranks[:1].upper()}{ranks[1:]}: {_verdict(suspects(probe, queries), probe)}."


def _ranks(each: LegRanks) -> str:
    name = "without the ranker" if each.leg is Leg.NO_RANKER else each.leg.value
    return f"{name} rank {_rank(each.baseline)} → {_rank(each.candidate)}"


def _rank(seen: LegRank | None) -> str:
    if seen is None:
        return "not asked"
    if seen.error is not None:
        return f"unknown ({seen.error})"
    return "none" if seen.rank is None else str(seen.rank)


def _verdict(found: tuple[Suspect, ...], probe: LegProbe) -> str:
    if not found:
        return "which leg lost it cannot be told"
    return "; ".join(_blame(each, probe) for each in found)


def _blame(suspect: Suspect, probe: LegProbe) -> str:
    match suspect:
        case Suspect.KEYWORD:
            return (
                f"keyword search {_lost(probe, Leg.KEYWORD)}: look at the analyzer, the searchable fields and the "
                "words that its chunks still carry"
            )
        case Suspect.VECTOR:
            return (
                f"vector search {_lost(probe, Leg.VECTOR)}: look at the embedding model and the size of the chunks "
                "that are embedded"
            )
        case Suspect.RANKER:
            return (
                "the semantic ranker lost it: look at what it reads, the fields of the semantic configuration, the "
                "title and the length of the chunk"
            )
        case Suspect.OTHERS:
            return "no leg ranks it lower than before, so other chunks rose above it: look at what took its place"
        case _:
            assert_never(suspect)


def _lost(probe: LegProbe, leg: Leg) -> str:
    ranks = probe.of(leg) or probe.of(Leg.NO_RANKER)
    if ranks is not None and ranks.candidate is None:
        return "is no part of the candidate's query"
    gone = ranks is None or ranks.candidate is None or ranks.candidate.rank is None
    return "lost it" if gone else "ranks it lower"
