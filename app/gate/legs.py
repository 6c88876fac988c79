"""Ask some lost questions again by keyword only, by vector only and without the ranker, on both sides."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.domain.errors import BrokenError, QueryError
from app.domain.legs import Leg, LegProbe, LegRank, LegRanks, Wanted, leg_query
from app.domain.observation import entry_hits
from app.domain.query import Embedding, QuerySettings, Session, Side, joined_filter
from app.domain.run import Run
from app.gate.compare import observed
from app.gate.ports import Ask, Embedder, SearchService

MOST_SECONDS = 120.0  # for all probes of a run; what was not asked by then is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedLegs:
    """The results, and the requests that they took; `semantic` of them asked for the ranker."""

    results: tuple[LegProbe, ...]
    requests: int
    semantic: int


async def probe_legs(
    run: Run,
    wanted: Sequence[Wanted],
    *,
    search: SearchService,
    embedder: Embedder,
    concurrency: int,
    deadline: float,
) -> ProbedLegs:
    """Each question once in every leg that its side's query has; `concurrency` questions at once, `deadline` on
    the event loop's clock. What fails is not known; nothing is raised.
    """
    enough = min(deadline, asyncio.get_running_loop().time() + MOST_SECONDS)
    asking = _Asking(
        run=run, search=search, embedder=embedder, deadline=enough, free=asyncio.Semaphore(concurrency)
    )
    results = await asyncio.gather(*(asking.probe(each) for each in wanted))
    return ProbedLegs(results=tuple(results), requests=asking.requests, semantic=asking.semantic)


@dataclass(slots=True, kw_only=True)
class _Asking:
    run: Run
    search: SearchService
    embedder: Embedder
    deadline: float
    free: asyncio.Semaphore
    requests: int = 0
    semantic: int = 0
    out_of_order: dict[Side, str] = field(default_factory=dict)  # why a side is not asked any more
    vectors: dict[tuple[Embedding, str], tuple[float, ...]] = field(default_factory=dict)

    async def probe(self, wanted: Wanted) -> LegProbe:
        async with self.free:
            legs = [await self._leg(wanted, leg) for leg in Leg]
        return LegProbe(
            id=wanted.question.id,
            documents=wanted.documents,
            legs=tuple(each for each in legs if each is not None),
        )

    async def _leg(self, wanted: Wanted, leg: Leg) -> LegRanks | None:
        queries = {side: leg_query(self.run.query, side, leg) for side in Side}
        ranks = {
            side: await self._rank(wanted, side, query)
            for side, query in queries.items()
            if query is not None
        }
        if not ranks:
            return None
        return LegRanks(leg=leg, baseline=ranks.get(Side.BASELINE), candidate=ranks.get(Side.CANDIDATE))

    async def _rank(self, wanted: Wanted, side: Side, query: QuerySettings) -> LegRank:
        try:
            vector = await self._vector(query, wanted.question.question)
        except (QueryError, BrokenError) as error:
            return LegRank(rank=None, error=str(error.code))
        if side in self.out_of_order:
            return LegRank(rank=None, error=self.out_of_order[side])
        try:
            return await self._ask(wanted, side, query, vector)
        except QueryError as error:
            return LegRank(rank=None, error=str(error.code))
        except BrokenError as error:  # no question can be asked of that side
            self.out_of_order[side] = str(error.code)
            return LegRank(rank=None, error=str(error.code))

    async def _ask(
        self, wanted: Wanted, side: Side, query: QuerySettings, vector: tuple[float, ...] | None
    ) -> LegRank:
        at, question = self.run.side(side), wanted.question
        if at.fields is None:
            raise AssertionError("a side without fields is never asked")
        self.requests += 1
        self.semantic += query.semantic
        answer = await self.search.ask(
            Ask(
                index=at.index,
                text=question.question,
                query=query,
                fields=at.fields,
                filter=joined_filter(query.filter, question.filter),
                vector=vector,
                session=self.run.id if query.session is Session.RUN else None,
            ),
            self.deadline,
        )
        seen = observed(question, answer, query, with_text=False)
        (hit,) = entry_hits((wanted.documents,), seen.hits)
        return LegRank(rank=hit.rank if hit is not None else None)

    async def _vector(self, query: QuerySettings, text: str) -> tuple[float, ...] | None:
        """The question's vector where the set brings its own embeddings: one request a question and model."""
        if query.embedding is None or not query.by_vector:
            return None
        key = (query.embedding, text)
        if key not in self.vectors:
            self.vectors[key] = await self.embedder.embed(query.embedding, text, self.deadline)
        return self.vectors[key]
