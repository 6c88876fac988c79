"""A question's evidence without what only its own page shows."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.domain.decision import result
from app.domain.golden import Span
from app.domain.observation import Hit, Observation, answer_rank
from app.domain.outcome import Missing, Observed
from app.domain.outline import outlined
from app.domain.query import Queries, QuerySettings
from tests.domain.making import broken, lost, run_of

QUERY = run_of().query


def passages(*parents: str | None) -> Observation:
    """An observation of chunks with texts, the answer d1."""
    hits = tuple(
        Hit(rank=rank, key=f"c{rank}", parent=parent, title=f"T{rank}", text="passage", score=1.0 / rank)
        for rank, parent in enumerate(parents, start=1)
    )
    rank = next((hit.rank for hit in hits if hit.parent == "d1"), None)
    return Observation(rank=rank, elapsed_ms=10.0, attempts=1, hits=hits)


def outline(observed: Observed) -> Observed:
    return outlined(result(observed, QUERY), QUERY)


def kept_ranks(observed: Observed) -> list[list[int]]:
    return [[hit.rank for hit in seen.hits] for seen in (*observed.baseline, *observed.candidate)]


def test_of_a_kept_question_the_first_chunk_of_each_labelled_and_forbidden_document_is_left() -> None:
    inside = passages("x", "d1", "d1", "bad", None, "bad", "d2")
    question = replace(lost("q"), answers=("d1", "d2"), forbidden=("bad",))
    after = passages("d2", "y", "x", "x", "x", "d1")
    cut = outline(replace(question, baseline=(inside, inside), candidate=(after,)))
    assert kept_ranks(cut) == [[2, 4, 7], [2, 4, 7], [1, 6]]


def test_of_a_question_that_shows_what_is_forbidden_the_context_is_left_too() -> None:
    inside, after = passages("d1", "x", "y"), passages("d1", "x", "y", "z", "w", "v", "bad")
    cut = outline(replace(lost("q"), forbidden=("bad",), baseline=(inside,), candidate=(after,)))
    assert kept_ranks(cut) == [[1, 2, 3], [1, 2, 3, 4, 5, 7]]


def test_of_a_lost_question_the_context_is_left_too_without_its_passages() -> None:
    cut = outline(
        replace(
            lost("q"),
            baseline=(passages("d1", "x", None, "y", "z", "far"),),
            candidate=(passages("x", None, "y", "z", "z", "far", "d1", "d1"),),
        )
    )
    assert kept_ranks(cut) == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 7]]
    found = [hit for seen in (*cut.baseline, *cut.candidate) for hit in seen.hits]
    assert {hit.text for hit in found} == {None}
    assert [hit.title for hit in cut.candidate[0].hits] == ["T1", "T2", "T3", "T4", "T5", "T7"]


def test_what_only_describes_the_answer_is_left_out_and_failures_stay() -> None:
    whole = replace(
        lost("q"),
        candidate=(broken(),),
        facts=("five days",),
        reference_answer="five",
        metadata={"of": "hr"},
        spans=(Span(document="d1", start=0, end=4, text="five"),),
        note="ask HR",
    )
    cut = outline(whole)
    assert cut.candidate == (broken(),)
    assert (cut.facts, cut.reference_answer, cut.metadata, cut.spans, cut.note) == (
        (),
        None,
        None,
        (),
        "ask HR",
    )


_PARENTS = st.sampled_from(["d1", "d2", "bad", "x", "y", None])
_SCORES = st.sampled_from([None, 0.5, 1.5, 2.5])


@st.composite
def _observed(draw: st.DrawFn) -> Observed:
    answers: tuple[str, ...] = draw(st.sampled_from([("d1",), ("d1", "d2"), ()]))
    question = replace(
        lost("q"),
        answers=answers,
        require_all=draw(st.booleans()) and len(answers) > 1,
        critical=draw(st.booleans()),
        forbidden=draw(st.sampled_from([(), ("bad",)])),
        missing=draw(st.sampled_from([Missing(), Missing(baseline=("d1",), candidate=("d1",))])),
    )

    def seen() -> Observation:
        if draw(st.integers(0, 5)) == 0:
            return broken()
        hits = tuple(
            Hit(rank=rank, key=f"c{rank}", parent=parent, reranker_score=draw(_SCORES), text="passage")
            for rank, parent in enumerate(draw(st.lists(_PARENTS, max_size=9)), start=1)
        )
        return Observation(rank=answer_rank(question, hits), elapsed_ms=1.0, attempts=1, hits=hits)

    return replace(
        question,
        baseline=tuple(seen() for _ in range(draw(st.integers(0, 3)))),
        candidate=tuple(seen() for _ in range(draw(st.integers(0, 3)))),
    )


@given(observed=_observed(), cut_off=st.sampled_from([0.0, 1.0]))
def test_what_follows_from_an_outline_is_what_follows_from_the_evidence(
    observed: Observed, cut_off: float
) -> None:
    side = QuerySettings(context_size=3, min_reranker_score=cut_off)
    queries = Queries(baseline=side, candidate=side)
    whole = result(observed, queries)
    cut = result(outlined(whole, queries), queries)
    assert (cut.outcome, cut.critical_lost, cut.forbidden_hits) == (
        whole.outcome,
        whole.critical_lost,
        whole.forbidden_hits,
    )
    assert outlined(cut, queries) == outlined(whole, queries)
