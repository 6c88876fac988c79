"""Why a lost question lost its answer. Context of 3 chunks; `d1` is the answer; ranks, scores, texts by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from app.domain.causes import CutOff, Evidence, Quote, Twin, Why, sentence, similarity, why
from app.domain.decision import decide, result
from app.domain.golden import Question, Span
from app.domain.observation import Hit, Observation, answer_rank, quotes_held
from app.domain.outcome import Cause, Missing, Observed
from app.domain.query import Queries, QuerySettings
from tests.domain.making import broken, run_of

PLAIN = QuerySettings(context_size=3, candidates=6, semantic=False)
RANKED = replace(PLAIN, semantic=True)

LEAVE = "Employees may carry over five days of annual leave into the next year"  # 13 tokens, 11 grams
LEAVE_NEW = "Employees may carry over five days of annual leave into the next term"  # 10 of 12 grams shared


def queries(query: QuerySettings) -> Queries:
    return Queries(baseline=query, candidate=query)


def observation(
    parents: str, *, question: Observed, texts: Sequence[str | None] = (), **more: Any
) -> Observation:
    """Chunks of these parents in the order of ranks; `texts`, `scores`, `holds` go by rank, too."""
    scores: Sequence[float | None] = more.get("scores", ())
    holds: Sequence[tuple[int, ...] | None] = more.get("holds", ())
    hits = tuple(
        Hit(
            rank=rank,
            key=f"{parent}-{rank}",
            parent=None if parent == "-" else parent,
            score=scores[rank - 1] if rank <= len(scores) else None,
            reranker_score=more.get("reranker"),
            text=texts[rank - 1] if rank <= len(texts) else None,
            text_sha256=more.get("hashes", {}).get(rank),
            holds=holds[rank - 1] if rank <= len(holds) else None,
        )
        for rank, parent in enumerate(parents.split(), start=1)
    )
    return Observation(rank=answer_rank(question, hits), elapsed_ms=1, attempts=1, hits=hits)


def lost(before: str, after: str, **more: Any) -> Observed:
    """A question with one observation a side. `more`: golden keys, or `before_…`, `after_…` for the hits."""
    sides: dict[str, dict[str, Any]] = {"before": {}, "after": {}}
    golden: dict[str, Any] = {"answers": ("d1",)}
    for name, value in more.items():
        side, _, what = name.partition("_")
        if side in sides:
            sides[side][what] = value
        else:
            golden[name] = value
    question = Observed(id="q", question="?", **golden)
    return replace(
        question,
        baseline=(observation(before, question=question, **sides["before"]),),
        candidate=(observation(after, question=question, **sides["after"]),),
    )


def found(observed: Observed, query: QuerySettings = PLAIN) -> Why:
    reason = why(observed, queries(query))
    assert reason is not None
    return reason


# one by one


def test_an_answer_further_down_is_ranked_out() -> None:
    reason = found(lost("a d1 b", "a b c e d1 f"))
    assert (reason.cause, reason.also, reason.plain) == (Cause.RANKED_OUT, (), False)
    assert reason.evidence == Evidence(
        documents=("d1",), rank_before=2, rank_after=5, context_size=3, candidates=6, returned=6
    )
    assert sentence(reason.cause, reason.evidence) == "Before at 2, now at 5; the context ends at 3."


def test_an_answer_that_is_not_among_the_candidates_is_not_retrieved() -> None:
    reason = found(lost("a d1 b", "a b c e f"))
    assert (reason.cause, reason.plain) == (Cause.NOT_RETRIEVED, False)
    assert sentence(reason.cause, reason.evidence) == (
        "Before at 2; now no chunk of d1 is among the 5 that the candidate returned."
    )


def test_a_missing_document_and_a_hidden_one() -> None:
    gone = found(lost("a d1 b", "a b c", missing=Missing(candidate=("d1",))))
    hidden = found(lost("a d1 b", "a b c", filtered_out=Missing(candidate=("d1",))))
    assert (gone.cause, gone.plain, hidden.cause, hidden.plain) == (
        Cause.DOCUMENT_MISSING,
        True,
        Cause.FILTERED_OUT,
        True,
    )
    assert "does not hold d1" in sentence(gone.cause, gone.evidence)
    assert "filter hides it" in sentence(hidden.cause, hidden.evidence)


def test_an_answer_below_the_cut_off_shows_score_and_limit() -> None:
    query = replace(RANKED, min_reranker_score=2.0)
    question = lost("a d1 b", "a d1 b", before_reranker=2.5, after_reranker=1.25)
    reason = found(question, query)
    assert (reason.cause, reason.plain) == (Cause.BELOW_CUT_OFF, True)
    assert reason.evidence.cut_off == CutOff(setting="min_reranker_score", score=1.25, limit=2.0)
    assert sentence(reason.cause, reason.evidence) == (
        "Found at 2, but it has a score of 1.25, and the application drops chunks below 2 (min_reranker_score)."
    )


def test_an_answer_that_was_in_reach_before_the_ranker() -> None:
    """By score: c 0.9, d1 0.8, a 0.5 …: second of 5, and fourth after the ranker."""
    question = lost("a d1 b", "a b c d1 e", after_scores=(0.5, 0.4, 0.9, 0.8, 0.1))
    reason = found(question, RANKED)
    assert (reason.cause, reason.also, reason.evidence.rank_by_score) == (Cause.RERANKER, (), 2)
    assert sentence(reason.cause, reason.evidence) == (
        "Before the semantic ranker the answer was at 2 of 5, within the context of 3; the ranker put it at 4."
    )


@pytest.mark.parametrize(
    ("scores", "query"),
    [
        ((0.9, 0.8, 0.7, 0.6, 0.1), RANKED),  # fourth before as after
        ((0.9, 0.8, 0.6, 0.6, 0.1), RANKED),  # as high as the third, which may stand before it
        ((0.5, 0.4, 0.9, 0.8, None), RANKED),  # a chunk without a score: its order is not known
        ((0.5, 0.4, 0.9, 0.8, 0.1), PLAIN),  # no ranker to blame
        ((0.5, 0.4, 0.9, 0.8, 0.1), replace(RANKED, min_score=0.85)),  # dropped for its score anyway
    ],
)
def test_the_ranker_is_not_blamed_without_evidence(
    scores: tuple[float | None, ...], query: QuerySettings
) -> None:
    question = lost("a d1 b", "a b c d1 e", before_scores=(1.0, 1.0, 1.0), after_scores=scores)
    assert found(question, query).cause is Cause.RANKED_OUT


def test_several_chunks_of_one_document_crowd_the_answer_out() -> None:
    """Three documents before, two after; counted once each, d1 is the third: a, b, d1."""
    reason = found(lost("a d1 b", "a a b a d1"))
    assert (reason.cause, reason.also, reason.plain) == (Cause.CROWDED_OUT, (), False)
    crowd = reason.evidence.crowd
    assert crowd is not None
    assert (crowd.documents_before, crowd.documents_after, crowd.place) == (3, 2, 3)
    assert sentence(reason.cause, reason.evidence) == (
        "Fewer documents fill the context, 2 instead of 3, because some take several places; the answer's is "
        "document 3 in the candidate's order, but its chunk is at 5, and the context ends at 3."
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a d1 b", "a a b c d1"),  # d1 is the fourth document: three would not reach it
        ("a d1 b", "a b c d1"),  # as many documents as before
        ("a a d1", "a a b d1"),  # two before, two after
        ("- d1 -", "- - - d1"),  # chunks without a parent are each one of their own
    ],
)
def test_a_context_of_as_many_documents_crowds_nothing_out(before: str, after: str) -> None:
    assert found(lost(before, after)).cause is Cause.RANKED_OUT


# near-duplicates


def test_nearly_the_same_text_at_the_answers_former_place() -> None:
    question = lost(
        "a d1 b", "a copy b d1", before_texts=("x", LEAVE, "y"), after_texts=("x", LEAVE_NEW, "y")
    )
    reason = found(question)
    assert (reason.cause, reason.plain) == (Cause.NEAR_DUPLICATE, True)
    assert reason.evidence.twin == Twin(rank=2, key="copy-2", parent="copy", similarity=10 / 12)
    assert sentence(reason.cause, reason.evidence) == (
        "The chunk at 2, of copy, has nearly the same text (83% in common) as the answer's: if it answers as "
        "well, add it to the label."
    )


def test_nearly_the_same_text_in_the_first_new_chunk() -> None:
    question = lost("d1 a b", "a copy b d1", before_texts=(LEAVE, "x", "y"), after_texts=("x", LEAVE, "y"))
    twin = found(question).evidence.twin
    assert twin is not None
    assert (twin.rank, twin.similarity) == (2, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("a d1 b", "a copy b d1", "Employees may carry over four days of annual leave"),
        ("d1 a b", "a new copy d1", LEAVE),  # the second new chunk, at another place
        ("a d1 b", "a copy b d1", None),
    ],
)
def test_other_texts_and_other_places_are_no_near_duplicates(
    before: str, after: str, text: str | None
) -> None:
    texts = tuple(text if parent == "copy" else "other words" for parent in after.split()[:3])
    was = tuple(LEAVE if parent == "d1" else "other words" for parent in before.split())
    assert found(lost(before, after, before_texts=was, after_texts=texts)).cause is Cause.RANKED_OUT


def test_where_no_passages_are_kept_the_same_text_is_known_by_its_hash() -> None:
    twin = found(
        lost("a d1 b", "a copy b d1", before_hashes={2: "f00"}, after_hashes={2: "f00"})
    ).evidence.twin
    assert twin == Twin(rank=2, key="copy-2", parent="copy", similarity=None)
    other = lost("a d1 b", "a copy b d1", before_hashes={2: "f00"}, after_hashes={2: "ba7"})
    assert found(other).cause is Cause.RANKED_OUT


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (LEAVE, LEAVE_NEW, 10 / 12),
        ("One two three", "one, TWO three!", 1.0),
        ("one two", "one two", 1.0),  # one gram of two tokens
        ("one two", "two one", 0.0),
        ("one two three", "one two three four", 1 / 2),
        ("", "", 0.0),
    ],
)
def test_similarity_is_the_share_of_common_3_grams(one: str, other: str, expected: float) -> None:
    assert similarity(one, other) == pytest.approx(expected)


# boundaries

SPAN = Span(document="d1", start=0, end=9, text="five\ndays")


def test_a_quote_that_no_chunk_of_the_candidate_holds_any_more() -> None:
    question = lost(
        "a d1 b",
        "a b c d1 d1",
        spans=(SPAN,),
        before_holds=((), (0,), ()),
        after_holds=((), (), (), (), ()),
    )
    reason = found(question)
    assert (reason.cause, reason.plain) == (Cause.BOUNDARY, True)
    assert reason.evidence.quote == Quote(span=0, rank_before=2, checked=5, returned=5, of_document=2)
    assert sentence(reason.cause, reason.evidence) == (
        "The quoted passage was in one chunk, at 2; none of the 5 chunks that the candidate returned holds it "
        "whole: a chunk boundary now cuts through it."
    )


def test_a_cut_that_is_not_seen_is_said_to_be_likely_and_not_plain() -> None:
    question = lost("d1", "a b c", spans=(SPAN,), before_holds=((0,),), after_holds=((), (), None))
    reason = found(question)
    assert (reason.cause, reason.plain) == (Cause.BOUNDARY, False)
    said = sentence(reason.cause, reason.evidence)
    assert "none of 2 of 3 chunks that the candidate returned and that have a text" in said
    assert "likely rather than seen" in said


@pytest.mark.parametrize(
    ("before_holds", "after_holds", "span"),
    [
        (((), (0,), ()), ((), (), (), (0,)), SPAN),  # a candidate's chunk holds it, beyond the context
        (((), (), ()), ((), (), (), ()), SPAN),  # the baseline's did not
        (((), (0,), ()), (None, None, None, None), SPAN),  # nothing could be looked at
        (((), (0,), ()), ((), (), (), ()), replace(SPAN, document="d9")),  # a quote of another document
    ],
)
def test_a_boundary_is_not_blamed_without_evidence(
    before_holds: Sequence[tuple[int, ...]], after_holds: Sequence[tuple[int, ...] | None], span: Span
) -> None:
    question = lost("a d1 b", "a b c d1", spans=(span,), before_holds=before_holds, after_holds=after_holds)
    assert found(question).cause is Cause.RANKED_OUT


def test_the_chunk_that_held_the_quote_was_in_the_baselines_context() -> None:
    question = lost(
        "d1 a b d1", "a b c d1", spans=(SPAN,), before_holds=((), (), (), (0,)), after_holds=((),) * 4
    )
    assert found(question).cause is Cause.RANKED_OUT


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("up to five  days a year", (0,)),
        ("five", ()),
        ("fivedays", ()),
        (None, None),
    ],
)
def test_quotes_are_looked_for_with_white_space_normalised(
    text: str | None, held: tuple[int, ...] | None
) -> None:
    question = Question(id="q", question="?", answers=("d1",), spans=(SPAN,))
    assert quotes_held(question, text) == held


def test_spans_without_a_quote_are_passed_over_and_keep_their_places() -> None:
    spans = (replace(SPAN, text=None), replace(SPAN, text=" \n"), SPAN)
    question = Question(id="q", question="?", answers=("d1",), spans=spans)
    assert quotes_held(question, "five days") == (2,)
    assert quotes_held(replace(question, spans=spans[:2]), "five days") is None


# precedence


def everything(**more: Any) -> Observed:
    """Boundary, near-duplicate, ranker and crowding at once: a fourth chunk, second by its score."""
    keys: dict[str, Any] = {
        "spans": (SPAN,),
        "before_holds": ((), (0,), ()),
        "after_holds": ((), (), (), (), ()),
        "before_texts": ("x", LEAVE, "y"),
        "after_texts": ("x", LEAVE, "y"),
        "after_scores": (0.9, 0.5, 0.4, 0.8, 0.1),
        **more,
    }
    return lost("b d1 c", "a b a d1 e", **keys)


def test_the_first_of_the_table_is_the_cause_and_the_others_are_told_beside_it() -> None:
    order = [Cause.BOUNDARY, Cause.NEAR_DUPLICATE, Cause.RERANKER, Cause.CROWDED_OUT]
    removed: dict[str, Any] = {}
    for place, cause in enumerate(order):
        reason = found(everything(**removed), RANKED)
        assert (reason.cause, list(reason.also)) == (cause, order[place + 1 :])
        removed |= (
            {"spans": (), "before_holds": (), "after_holds": ()},
            {"before_texts": (), "after_texts": ()},
            {"after_scores": ()},
            {},
        )[place]


def test_a_missing_document_comes_first_and_what_replaced_it_is_told_beside_it() -> None:
    question = lost(
        "a d1 b",
        "a copy b",
        missing=Missing(candidate=("d1",)),
        before_texts=("x", LEAVE, "y"),
        after_texts=("x", LEAVE, "y"),
    )
    reason = found(question)
    assert (reason.cause, reason.also) == (Cause.DOCUMENT_MISSING, (Cause.NEAR_DUPLICATE,))


def test_of_several_entries_the_one_with_the_first_cause_is_shown() -> None:
    """d1 is kept, d2 ranked out, d3 not retrieved."""
    question = lost("d1 d2 d3", "d1 a b d2", answers=("d1", "d2", "d3"), require_all=True)
    reason = found(question)
    assert (reason.cause, reason.also) == (Cause.NOT_RETRIEVED, (Cause.RANKED_OUT,))
    assert (reason.evidence.documents, reason.evidence.rank_before) == (("d3",), 3)


def test_an_answer_in_context_a_failure_and_no_label_have_no_cause() -> None:
    assert why(lost("a d1 b", "d1 a b"), queries(PLAIN)) is None
    assert why(replace(lost("a d1", "a"), candidate=(broken(),)), queries(PLAIN)) is None
    assert why(Observed(id="q", question="?", answers=()), queries(PLAIN)) is None


def test_without_a_baseline_that_shows_the_answer_the_ranks_are_all_that_is_said() -> None:
    reason = found(lost("a b c", "a a a d1"))
    assert (reason.cause, reason.evidence.rank_before) == (Cause.RANKED_OUT, None)
    assert sentence(reason.cause, reason.evidence).startswith("Not in reach before")


# in the decision, and in the record


def test_the_lost_list_carries_cause_and_evidence_and_the_gained_one_neither() -> None:
    run = replace(run_of(), query=queries(PLAIN))
    gained = replace(lost("a b c d1", "d1 a b"), id="g")
    decision = decide(run, (result(each, run.query) for each in (lost("a d1 b", "a a b a d1"), gained)))
    (flip,), (other,) = decision.lost, decision.gained
    assert flip.cause is Cause.CROWDED_OUT
    assert flip.evidence is not None
    assert flip.evidence.crowd is not None
    assert (other.cause, other.also, other.evidence) == (None, (), None)


def test_evidence_comes_back_from_json() -> None:
    adapter = TypeAdapter(Why)
    reason = found(everything(), RANKED)
    assert adapter.validate_json(adapter.dump_json(reason)) == reason


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_sentence_even_without_its_evidence(cause: Cause) -> None:
    evidence = Evidence(
        documents=("d1",), rank_before=1, rank_after=4, context_size=3, candidates=6, returned=6
    )
    assert sentence(cause, evidence).endswith(".")
