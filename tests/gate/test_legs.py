"""Lost questions asked by their legs: in whole runs on a fake service, and through the real client."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from azure.core.credentials import AzureKeyCredential

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.errors import BrokenError, FailureCode, GateError, NotFoundError, QueryError
from app.domain.golden import GoldenTexts, Span
from app.domain.index import Fields
from app.domain.legs import Leg, Wanted, sentence
from app.domain.observation import Observation
from app.domain.outcome import Observed
from app.domain.query import Embedding, Mode, Queries, QuerySettings, Session
from app.domain.reasons import Verdict
from app.domain.run import Run
from app.gate.compare import observed
from app.gate.execute import Execution, Limits
from app.gate.legs import ProbedLegs, probe_legs
from app.gate.ports import Answer, Ask, Embedder, Row
from app.gate.records import RunRecords
from app.gate.start import Stamp, StartRequest, start
from tests.examples import a_run
from tests.fakes.search import FakeSearch, ranked
from tests.fakes.store import MemoryStore
from tests.scripted import Fault, Received, ScriptedSearch
from tests.scripted import ranked as rows_with

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
POLICY = "[policy]\nnoise_runs = 0\nconfirm_runs = 0\n"
OWN = Embedding(endpoint="https://models.example", deployment="small")
LEGS = {  # rank by index and mode
    ("kb-v1", "hybrid"): 2,
    ("kb-v2", "hybrid"): None,
    ("kb-v1", "keyword"): 2,
    ("kb-v2", "keyword"): None,
    ("kb-v1", "vector"): 3,
    ("kb-v2", "vector"): 4,
}


@dataclass(slots=True, kw_only=True)
class LegSearch(FakeSearch):
    """Ranks by index and by mode (`LEGS`) for every question, but for what raises in `leg_faults`."""

    leg_faults: dict[tuple[str, str], GateError] = field(default_factory=dict)

    async def ask(self, ask: Ask, deadline: float) -> Answer:
        place = (ask.index, str(ask.query.mode))
        if not ask.query.semantic and place in self.leg_faults:
            self.asked.append(ask)
            raise self.leg_faults[place]
        rank = LEGS[place]
        self.index(ask.index).answer(ask.text, ranked(rank, "d1") if rank else ("x",) * 10)
        return await FakeSearch.ask(self, ask, deadline)

    def legs(self) -> list[tuple[str, str]]:
        """Index and mode of every request of a leg, in order."""
        return [(ask.index, str(ask.query.mode)) for ask in self.asked if not ask.query.semantic]


class NoEmbedder:
    """No set of these tests brings its own embeddings."""

    async def embed(self, embedding: Embedding, text: str, deadline: float) -> tuple[float, ...]:
        raise AssertionError("never asked")


class _NoSets:
    """No set came with the service."""

    def names(self) -> tuple[str, ...]:
        return ()

    def texts(self, name: str) -> GoldenTexts:
        raise NotFoundError(name)


@dataclass(slots=True)
class Counting:
    """An embedder that counts what it is asked, or fails."""

    error: GateError | None = None
    asked: int = 0

    async def embed(self, embedding: Embedding, text: str, deadline: float) -> tuple[float, ...]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return (1.0, 0.0, 0.0)


def wanted(*ids: str, documents: tuple[str, ...] = ("d1",)) -> tuple[Wanted, ...]:
    return tuple(
        Wanted(question=Observed(id=each, question=f"about {each}", answers=documents), documents=documents)
        for each in ids
    )


async def probed(
    search: FakeSearch, run: Run | None = None, *ids: str, embedder: Embedder | None = None
) -> ProbedLegs:
    for name in ("kb-v1", "kb-v2"):
        search.index(name)
    return await probe_legs(
        run or a_run(),
        wanted(*(ids or ("q1",))),
        search=search,
        embedder=embedder or NoEmbedder(),
        concurrency=2,
        deadline=asyncio.get_running_loop().time() + 10,
    )


def run_with(query: QuerySettings) -> Run:
    return a_run(query=Queries(baseline=query, candidate=query))


# the probes alone


async def test_a_lost_question_is_asked_once_in_every_leg_of_both_sides() -> None:
    search = LegSearch()
    found = await probed(search)
    assert search.legs() == [
        ("kb-v1", "keyword"),
        ("kb-v2", "keyword"),
        ("kb-v1", "vector"),
        ("kb-v2", "vector"),
        ("kb-v1", "hybrid"),
        ("kb-v2", "hybrid"),
    ]
    assert (found.requests, found.semantic) == (6, 0)
    (probe,) = found.results
    assert (probe.id, probe.documents) == ("q1", ("d1",))
    assert sentence(probe, a_run().query).startswith(
        "Keyword rank 2 → none, vector rank 3 → 4, without the ranker rank 2 → none: keyword search lost it"
    )


async def test_filters_and_sessions_are_those_of_the_run() -> None:
    search = LegSearch()
    await probed(search, run_with(QuerySettings(filter="lang eq 'en'", session=Session.RUN)))
    assert {(ask.filter, ask.session) for ask in search.asked} == {("lang eq 'en'", a_run().id)}


async def test_legs_that_do_not_apply_are_not_asked() -> None:
    search = LegSearch()
    found = await probed(search, run_with(QuerySettings(mode=Mode.KEYWORD)))
    assert search.legs() == [("kb-v1", "keyword"), ("kb-v2", "keyword")]
    assert [each.leg for each in found.results[0].legs] == [Leg.NO_RANKER]


async def test_what_fails_is_not_known_and_the_rest_is_asked() -> None:
    search = LegSearch(leg_faults={("kb-v2", "vector"): QueryError(FailureCode.TIMED_OUT, "too slow")})
    found = await probed(search)
    vector = found.results[0].of(Leg.VECTOR)
    assert vector is not None
    assert (vector.baseline and vector.baseline.rank, vector.candidate and vector.candidate.error) == (
        3,
        "timed-out",
    )
    assert len(search.legs()) == 6
    assert "cannot be told" in sentence(found.results[0], a_run().query)


async def test_a_side_that_is_out_of_order_is_asked_no_more() -> None:
    search = LegSearch(leg_faults={("kb-v2", "keyword"): BrokenError("unauthorized", "403")})
    found = await probed(search, None, "q1")
    assert search.legs() == [
        ("kb-v1", "keyword"),
        ("kb-v2", "keyword"),
        ("kb-v1", "vector"),
        ("kb-v1", "hybrid"),
    ]
    errors = [each.candidate.error for each in found.results[0].legs if each.candidate]
    assert errors == ["unauthorized"] * 3


async def test_when_the_time_is_up_nothing_is_known() -> None:
    search = LegSearch(latency=0.2)
    search.index("kb-v1")
    search.index("kb-v2")
    found = await probe_legs(
        a_run(),
        wanted("q1"),
        search=search,
        embedder=NoEmbedder(),
        concurrency=1,
        deadline=asyncio.get_running_loop().time(),
    )
    sides = [side for each in found.results[0].legs for side in (each.baseline, each.candidate)]
    assert {side.error for side in sides if side} == {"timed-out"}


async def test_a_vector_of_our_own_is_made_once_a_question_and_not_for_keywords() -> None:
    embedder = Counting()
    search = LegSearch()
    await probed(search, run_with(QuerySettings(embedding=OWN)), embedder=embedder)
    assert embedder.asked == 1
    assert [ask.vector is not None for ask in search.asked] == [False, False, True, True, True, True]


async def test_without_a_vector_the_keyword_leg_is_known_all_the_same() -> None:
    embedder = Counting(error=BrokenError("unauthorized", "401"))
    found = await probed(LegSearch(), run_with(QuerySettings(embedding=OWN)), embedder=embedder)
    known = {each.leg: not each.unknown for each in found.results[0].legs}
    assert known == {Leg.KEYWORD: True, Leg.VECTOR: False, Leg.NO_RANKER: False}
    assert found.requests == 2


async def test_the_rank_is_that_of_the_entry_that_was_lost() -> None:
    """d1 is at 2 and d2 nowhere: the entry d2 has no rank, whatever the question's answer rank."""
    search = LegSearch()
    search.index("kb-v1")
    search.index("kb-v2")
    found = await probe_legs(
        a_run(),
        wanted("q1", documents=("d2",)),
        search=search,
        embedder=NoEmbedder(),
        concurrency=1,
        deadline=asyncio.get_running_loop().time() + 10,
    )
    assert {
        side.rank for each in found.results[0].legs for side in (each.baseline, each.candidate) if side
    } == {None}


# in a run


async def executed(search: FakeSearch, *, leg_probes: bool = True, toml: str = POLICY) -> Run:
    """A run of two questions, q1 and q2, to its end."""
    for name in ("kb-v1", "kb-v2"):
        search.index(name)
    records = RunRecords(MemoryStore())
    jsonl = "".join(
        f"{json.dumps({'id': each, 'question': f'about {each}', 'answers': ['d1']})}\n"
        for each in ("q1", "q2")
    )
    run, _ = await start(
        StartRequest(
            candidate_index="kb-v2",
            baseline_index="kb-v1",
            golden=GoldenTexts(name="hr", jsonl=jsonl, toml=toml),
        ),
        records=records,
        golden_sets=_NoSets(),
        stamp=Stamp(run_id="run-1", now=NOON, seed=1, manifest={}),
    )
    execution = Execution(
        records=records,
        search=search,
        embedder=NoEmbedder(),
        limits=Limits(concurrency=2, run_timeout_seconds=60, leg_probes=leg_probes),
        now=lambda: NOON,
        new_claim=lambda: "claim",
    )
    await execution.execute(run.id, cancelled=asyncio.Event())
    kept, _ = await records.read(run.id)
    return kept


async def test_a_run_keeps_the_legs_of_its_lost_questions_and_counts_their_requests() -> None:
    asked_with, asked_without = LegSearch(), LegSearch()
    run = await executed(asked_with)
    without = await executed(asked_without, leg_probes=False)
    assert [each.id for each in run.legs] == ["q1", "q2"]
    assert without.legs == ()
    assert len(asked_with.legs()) == 12
    assert asked_without.legs() == []
    assert run.requests == replace(without.requests, other=without.requests.other + 12)
    assert (run.verdict, run.reasons, run.counts, run.lost) == (
        without.verdict,
        without.reasons,
        without.counts,
        without.lost,
    )


async def test_failing_probes_change_nothing_but_what_is_known() -> None:
    broken = BrokenError("quota-exceeded", "402")
    faults: dict[tuple[str, str], GateError] = dict.fromkeys(LEGS, broken)
    run, plain = await executed(LegSearch(leg_faults=faults)), await executed(LegSearch(), leg_probes=False)
    assert run.verdict is Verdict.FAIL
    assert (run.reasons, run.checks, run.lost) == (plain.reasons, plain.checks, plain.lost)
    assert len(run.legs) == 2


async def test_nothing_is_asked_for_a_run_without_losses_or_without_legs() -> None:
    search = FakeSearch()
    for name in ("kb-v1", "kb-v2"):
        search.index(name).otherwise = ranked(2, "d1")
    run = await executed(search)
    assert (run.verdict, run.legs) == (Verdict.PASS, ())
    keyword = await executed(LegSearch(), toml=f'[query]\nmode = "keyword"\nsemantic = false\n{POLICY}')
    assert (keyword.verdict, keyword.legs) == (Verdict.FAIL, ())


# quotes in observations


def test_every_row_is_searched_for_the_quotes_beyond_the_context_too() -> None:
    question = Observed(
        id="q",
        question="?",
        answers=("d1",),
        spans=(Span(document="d1", start=0, end=9, text="five days"),),
    )
    seen = _seen(question, ["up to five\n days", None, "six days", "five days more"])
    assert [hit.holds for hit in seen.hits] == [(0,), None, (), (0,)]
    assert [hit.text for hit in seen.hits] == [None] * 4
    assert _seen(replace(question, spans=()), ["five days"]).hits[0].holds is None


def _seen(question: Observed, texts: Sequence[str | None]) -> Observation:
    rows = tuple(
        Row(key=str(number), parent="d1", title=None, text=text, score=1.0, reranker_score=None)
        for number, text in enumerate(texts)
    )
    answer = Answer(rows=rows, elapsed_ms=1, attempts=1, throttled=0)
    return observed(question, answer, QuerySettings(context_size=2), with_text=False)


# through the real client


async def test_exactly_six_requests_are_sent_for_one_lost_question() -> None:
    """By keyword 2 → none, by vector 3 → 4, both 2 → 9; one of them is turned away once and sent again."""

    def by_leg(received: Received) -> list[str]:
        text, vectors = received.body.get("search"), received.body.get("vectorQueries")
        mode = "hybrid" if text and vectors else "keyword" if text else "vector"
        rank = {**LEGS, ("kb-v2", "hybrid"): 9}[received.index, mode]
        return rows_with(rank or 0, "d1")

    fields = Fields(key="chunk_id", parent="parent_id", text="chunk", title="title", vectors=("text_vector",))
    run = a_run()
    run = replace(
        run, baseline=replace(run.baseline, fields=fields), candidate=replace(run.candidate, fields=fields)
    )
    async with (
        ScriptedSearch() as service,
        AzureSearch(
            endpoint=service.url,
            credential=AzureKeyCredential("k"),
            limiter=Limiter(ceiling=2),
            query_timeout_seconds=10,
            jitter=lambda: 0.0,
        ) as search,
    ):
        service.index("kb-v1")
        service.index("kb-v2")
        service.on_search = by_leg
        found = await probe_legs(
            run,
            wanted("q1"),
            search=search,
            embedder=NoEmbedder(),
            concurrency=2,
            deadline=asyncio.get_running_loop().time() + 30,
        )
        bodies = [each.body for each in service.requests]
        service.fault("kb-v1", Fault(status=400, message="no"), nth=4)
        again = await probe_legs(
            run,
            wanted("q1"),
            search=search,
            embedder=NoEmbedder(),
            concurrency=2,
            deadline=asyncio.get_running_loop().time() + 30,
        )
    assert len(bodies) == 6
    assert all("semanticQuery" not in body and body.get("queryType") != "semantic" for body in bodies)
    assert [("search" in body, "vectorQueries" in body) for body in bodies[::2]] == [
        (True, False),
        (False, True),
        (True, True),
    ]
    assert sentence(found.results[0], run.query).startswith(
        "Keyword rank 2 → none, vector rank 3 → 4, without the ranker rank 2 → 9: keyword search lost it"
    )
    assert [each.unknown for each in again.results[0].legs] == [True, False, False]
