"""What one query showed, and where the answer stood in it."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.domain.errors import FailureCode
from app.domain.golden import Question
from app.domain.query import QuerySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One chunk of an answer. `rank` is its 1-based place in the order that the service returned.

    `score` is `@search.score`, `reranker_score` is `@search.rerankerScore` (0..4), None where the service
    gave none. `parent` is None for a row without a parent document. `text` is kept for the first
    `context_size` hits; where the policy keeps no passages, `text_sha256` stands in its place. `holds`: of
    which of the question's `spans` the text holds the whole quote (see `quotes_held`), by their place from 0;
    None where it was not looked for: the question quotes nothing, or the chunk has no text.
    """

    rank: int
    key: str | None
    parent: str | None
    score: float | None = None
    reranker_score: float | None = None
    title: str | None = None
    text: str | None = None
    text_sha256: str | None = None
    holds: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an observation has no answer; `message` is the service's or ours, for people."""

    code: FailureCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One query's outcome on one side: `hits` in the service's order, or `error` and no hits.

    `rank` is the answer rank (None: not among the candidates, unlabelled, or failed). `elapsed_ms` is the
    wall time of the last attempt, `attempts` the requests sent, `throttled` those answered 429 or 503.
    """

    rank: int | None
    elapsed_ms: float
    attempts: int
    throttled: int = 0
    error: Failure | None = None
    hits: tuple[Hit, ...] = ()


def without_text(hit: Hit) -> Hit:
    """The hit as it is where no passages are kept: of its text the fingerprint, and no title."""
    digest = hashlib.sha256(hit.text.encode("utf-8", "replace")).hexdigest() if hit.text else hit.text_sha256
    return replace(hit, title=None, text=None, text_sha256=digest)


def quotes_held(question: Question, text: str | None) -> tuple[int, ...] | None:
    """The places of the spans whose quote stands in the text as a whole, white space apart; None where there is
    no quote or no text.
    """
    quotes = {number: words(span.text) for number, span in enumerate(question.spans) if span.text}
    if text is None or not any(quotes.values()):
        return None
    whole = words(text)
    return tuple(number for number, quote in quotes.items() if quote and quote in whole)


def words(text: str) -> str:
    """The text with every run of white space as a single space."""
    return " ".join(text.split())


def context(hits: Iterable[Hit], query: QuerySettings) -> tuple[Hit, ...]:
    """The chunks that the application would send to the model, cut-offs apart."""
    return tuple(hit for hit in hits if hit.rank <= query.context_size)


def source(hit: Hit) -> tuple[str | None, str | None]:
    """The document that a chunk comes from; a chunk without a parent stands for itself."""
    return (hit.parent, None) if hit.parent is not None else (None, hit.key)


def entry_hits(entries: Sequence[tuple[str, ...]], hits: Iterable[Hit]) -> tuple[Hit | None, ...]:
    """For each entry the first hit of any of its documents, None where there is none."""
    first: dict[str, Hit] = {}
    for hit in hits:
        if hit.parent is not None:
            first.setdefault(hit.parent, hit)
    return tuple(
        min((first[document] for document in entry if document in first), key=_rank, default=None)
        for entry in entries
    )


def _rank(hit: Hit) -> int:
    return hit.rank


def answer_rank(question: Question, hits: Iterable[Hit]) -> int | None:
    """The largest of the entries' ranks; None if an entry has none, or there is no entry."""
    found = entry_hits(question.entries, hits)
    if not found:
        return None
    ranks = [hit.rank for hit in found if hit is not None]
    return max(ranks) if len(ranks) == len(found) else None


def in_context(question: Question, observation: Observation, query: QuerySettings) -> bool | None:
    """Whether every entry's chunk is within `context_size` and not below the side's cut-offs.

    None where the observation failed: neither.
    """
    if observation.error is not None:
        return None
    found = entry_hits(question.entries, observation.hits)
    return bool(found) and all(hit is not None and reaches_context(hit, query) for hit in found)


def reaches_context(hit: Hit, query: QuerySettings) -> bool:
    return hit.rank <= query.context_size and not _below_cut_off(hit, query)


def _below_cut_off(hit: Hit, query: QuerySettings) -> bool:
    """Whether the application would drop this chunk for its score. A missing score is below any cut-off."""
    return _below(hit.score, query.min_score) or _below(hit.reranker_score, query.min_reranker_score)


def _below(score: float | None, limit: float) -> bool:
    return limit > 0 and not (score is not None and score >= limit)


def forbidden_hits(question: Question, observation: Observation) -> tuple[str, ...]:
    """The forbidden documents that appear anywhere among the candidates, once each, in rank order."""
    shown = dict.fromkeys(hit.parent for hit in observation.hits if hit.parent is not None)
    return tuple(parent for parent in shown if parent in question.forbidden)
