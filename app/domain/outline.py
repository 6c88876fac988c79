"""A question's evidence without what only its own page shows: enough to decide on it, and to list it."""

from collections.abc import Iterator
from dataclasses import replace

from app.domain.observation import Hit, Observation
from app.domain.outcome import Observed, Outcome, QuestionResult, failed
from app.domain.query import Queries, QuerySettings

_AS_IT_WAS = frozenset({Outcome.KEPT, Outcome.ABSENT})


def outlined(result: QuestionResult, queries: Queries) -> Observed:
    """The question with every observation, and of their chunks the first of each document that is labelled or
    forbidden; where there is more to tell than that all is as it was, also those of the context. No passage,
    and no golden key that only describes the answer.

    What follows from it by `decision.result` is what follows from the whole evidence.
    """
    named = frozenset((*result.labelled_documents, *result.forbidden))
    with_context = bool(
        result.outcome not in _AS_IT_WAS
        or result.critical_lost
        or result.forbidden_hits
        or failed(result)
        or result.missing.in_both
    )

    def cut(seen: Observation, query: QuerySettings) -> Observation:
        size = query.context_size if with_context else 0
        return replace(seen, hits=tuple(_hits(seen, named, size)))

    return Observed(
        id=result.id,
        question=result.question,
        answers=result.answers,
        require_all=result.require_all,
        critical=result.critical,
        slice=result.slice,
        forbidden=result.forbidden,
        owner=result.owner,
        note=result.note,
        missing=result.missing,
        filtered_out=result.filtered_out,
        baseline=tuple(cut(each, queries.baseline) for each in result.baseline),
        candidate=tuple(cut(each, queries.candidate) for each in result.candidate),
    )


def _hits(seen: Observation, named: frozenset[str], context_size: int) -> Iterator[Hit]:
    met: set[str] = set()
    for hit in seen.hits:
        first = hit.parent in named and hit.parent not in met
        if hit.parent is not None:
            met.add(hit.parent)
        if first or hit.rank <= context_size:
            yield replace(hit, text=None, text_sha256=None, holds=None)
