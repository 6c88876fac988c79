"""Ask some noisy questions again in variants of the query, to say what their noise is consistent with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from app.domain.errors import BrokenError, QueryError
from app.domain.golden import Question
from app.domain.noise import PROBE_REPETITIONS, ProbeResult, Variant, same_context
from app.domain.observation import Observation
from app.domain.outcome import Tally
from app.domain.query import Mode, QuerySettings, Session, Side, joined_filter
from app.domain.run import Run
from app.gate.compare import observed
from app.gate.ports import Ask, Embedder, SearchService

MOST_PROBED = 10  # questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The results, and the requests that they took; `semantic` of them asked for the ranker."""

    results: tuple[ProbeResult, ...]
    requests: int
    semantic: int


def noisy(seen: Iterable[tuple[Question, Tally, Tally]]) -> list[tuple[Question, Side]]:
    """The first questions whose observations of one side disagree, with that side (the baseline if both do)."""
    found: list[tuple[Question, Side]] = []
    for question, baseline, candidate in seen:
        if len(found) == MOST_PROBED:
            break
        if baseline.inside and baseline.outside:
            found.append((question, Side.BASELINE))
        elif candidate.inside and candidate.outside:
            found.append((question, Side.CANDIDATE))
    return found


async def probe_noise(
    run: Run,
    chosen: Sequence[tuple[Question, Side]],
    *,
    search: SearchService,
    embedder: Embedder,
    deadline: float,
) -> Probed:
    """Each question three times in every variant that applies, and as it is. What fails is not known."""
    asking = _Asking(run=run, search=search, embedder=embedder, deadline=deadline)
    results = [await asking.probe(question, side) for question, side in chosen]
    return Probed(results=tuple(results), requests=asking.requests, semantic=asking.semantic)


@dataclass(slots=True, kw_only=True)
class _Asking:
    run: Run
    search: SearchService
    embedder: Embedder
    deadline: float
    requests: int = 0
    semantic: int = 0

    async def probe(self, question: Question, side: Side) -> ProbeResult:
        steady = {variant: await self._steady(question, side, variant) for variant in (None, *Variant)}
        return ProbeResult(
            id=question.id,
            exhaustive=steady[Variant.EXHAUSTIVE],
            one_session=steady[Variant.ONE_SESSION],
            no_ranker=steady[Variant.NO_RANKER],
            unchanged=steady[None],
        )

    async def _steady(self, question: Question, side: Side, variant: Variant | None) -> bool | None:
        """Whether the repetitions agree; None where the variant does not apply, or one failed."""
        query = varied(self.run.query.of(side), variant)
        if query is None:
            return None
        session = self.run.id if query.session is Session.RUN else None
        if variant is Variant.ONE_SESSION:
            session = f"{self.run.id}-probe"
        repetitions: list[Observation] = []
        for _ in range(PROBE_REPETITIONS):
            try:
                repetitions.append(await self._ask(question, side, query, session))
            except (QueryError, BrokenError):
                return None
        return same_context(repetitions, query)

    async def _ask(
        self, question: Question, side: Side, query: QuerySettings, session: str | None
    ) -> Observation:
        at = self.run.side(side)
        if at.fields is None:
            raise AssertionError("a side without fields is never asked")
        vector = None
        if query.embedding is not None:
            vector = await self.embedder.embed(query.embedding, question.question, self.deadline)
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
                session=session,
            ),
            self.deadline,
        )
        return observed(question, answer, query, with_text=False)


def varied(query: QuerySettings, variant: Variant | None) -> QuerySettings | None:
    """The query in that variant; None where it would change nothing. `None` is the query as it is."""
    match variant:
        case None:
            return query
        case Variant.ONE_SESSION:
            return query if query.session is Session.NONE else None
        case Variant.EXHAUSTIVE:
            return replace(query, exhaustive=True) if query.by_vector and not query.exhaustive else None
        case Variant.NO_RANKER:
            plain = replace(query, semantic=False, semantic_configuration=None, min_reranker_score=0.0)
            return plain if query.semantic and query.mode is not Mode.VECTOR else None
        case _:
            assert_never(variant)
