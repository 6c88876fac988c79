"""Why a lost question lost its answer: a cause from the evidence of both sides, and that evidence in numbers.

Looked at are the observations that show the loss, the baseline's first with the answer in context and the
candidate's first without, and in them each entry of the labels that is out of the candidate's context. Of all
causes that hold, the first in this table is the question's; the others are told beside it.

| cause | holds where |
| --- | --- |
| document-missing | no document of the entry is in the candidate index |
| filtered-out | its documents are in the candidate index, but not under the question's filter |
| boundary | a chunk of the baseline's context holds a whole quote of the entry's `spans`, and no chunk that the candidate returned does (`quotes_held`) |
| near-duplicate | the candidate's chunk at the answer's former rank, or the first chunk in its context from a document that was not in the baseline's, has nearly the answer chunk's text: `similarity` >= 0.8 |
| reranker | a chunk of the entry is beyond the context, and in the order of `@search.score`, which the ranker was given, was within it; equal scores count as before it |
| crowded-out | the candidate's context is full and holds fewer different documents than the baseline's, and one that held as many would reach the entry: with every document counted once, its place is no lower than that number |
| not-retrieved | no chunk of the entry is among those that the candidate returned |
| ranked-out | its first chunk is beyond the context |
| below-cut-off | its first chunk is within, with a score below the application's cut-off |

Near-duplicates are found where passages are kept; where only their hashes are, identical ones.
"""  # noqa: E501 — a row of the table is a line

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from app.domain.observation import Hit, Observation, context, entry_hits, source
from app.domain.outcome import Cause, Observed, first_where, place
from app.domain.query import Queries, QuerySettings, Side

NEARLY_THE_SAME = 0.8  # of `similarity`
_GRAM = 3  # tokens
_TOKEN = re.compile(r"\w+")
_ORDER = {cause: number for number, cause in enumerate(Cause)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """A score below the application's limit; `setting` names it. None: the service gave no score."""

    setting: str
    score: float | None
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Different documents that fill the context of each side, and the answer document's place (1-based) in the
    candidate's order with every document counted once.
    """

    documents_before: int
    documents_after: int
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The candidate's chunk whose text is nearly the answer's; `similarity` 0.8..1, None: known by its hash."""

    rank: int
    key: str | None
    parent: str | None
    similarity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A quote that the candidate's chunks hold no more. `span`: its place in the question's `spans`, from 0.
    `rank_before`: of the baseline's chunk that holds it. `checked` of the `returned` chunks of the candidate had
    a text to look at; `of_document` of the returned come from the entry's documents.
    """

    span: int
    rank_before: int
    checked: int
    returned: int
    of_document: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one entry of the labels that is out of the candidate's context.

    `documents`: any one of them would do. Ranks are its first chunk's, None where there was none.
    `rank_by_score`: the best place of its chunks in the candidate's order before the ranker; None where there
    was no ranker, or it cannot be told. `returned`: chunks that the candidate returned, of `candidates` asked.
    The others stand where their cause holds.
    """

    documents: tuple[str, ...]
    rank_before: int | None
    rank_after: int | None
    context_size: int
    candidates: int
    returned: int
    rank_by_score: int | None = None
    cut_off: CutOff | None = None
    crowd: Crowd | None = None
    twin: Twin | None = None
    quote: Quote | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The cause, what it rests on, and further causes that hold (in the table's order)."""

    cause: Cause
    also: tuple[Cause, ...]
    evidence: Evidence

    @property
    def plain(self) -> bool:
        """Whether the lists alone explain the loss, so that no leg need be asked for it."""
        match self.cause:
            case Cause.NOT_RETRIEVED | Cause.RANKED_OUT | Cause.RERANKER | Cause.CROWDED_OUT:
                return False
            case Cause.BOUNDARY:  # with no chunk of the document in sight, a cut is likely rather than seen
                return self.evidence.quote is None or self.evidence.quote.of_document > 0
            case Cause.DOCUMENT_MISSING | Cause.FILTERED_OUT | Cause.NEAR_DUPLICATE | Cause.BELOW_CUT_OFF:
                return True
            case _:
                assert_never(self.cause)


def why(observed: Observed, queries: Queries) -> Why | None:
    """Why the answer is out of the candidate's context; None where no observation shows that, or no label."""
    after = first_where(observed, Side.CANDIDATE, queries.candidate, inside=False)
    before = first_where(observed, Side.BASELINE, queries.baseline, inside=True)
    return None if after is None else explained(observed, before, after, queries)


def explained(
    observed: Observed, before: Observation | None, after: Observation, queries: Queries
) -> Why | None:
    """The same for a given pair of observations; `before` None: the baseline shows nothing to compare with."""
    hits_before = before.hits if before is not None else ()
    was = entry_hits(observed.entries, hits_before)
    now = entry_hits(observed.entries, after.hits)
    found: list[tuple[Cause, Evidence]] = []
    for entry, old, new in zip(observed.entries, was, now, strict=True):
        at = place(observed, entry, new, queries.candidate)
        if at is not None:
            entry_lost = _Lost(
                observed=observed,
                entry=entry,
                old=old,
                new=new,
                before=context(hits_before, queries.baseline),
                after=after.hits,
                query=queries.candidate,
            )
            evidence = entry_lost.evidence(at)
            found.extend((cause, evidence) for cause in _holding(at, evidence))
    if not found:
        return None
    cause, evidence = min(found, key=lambda each: _ORDER[each[0]])
    others = {each for each, of in found if each is not cause and not (of is evidence and each in _IMPLIED)}
    return Why(cause=cause, also=tuple(sorted(others, key=_ORDER.__getitem__)), evidence=evidence)


_IMPLIED = frozenset({Cause.NOT_RETRIEVED, Cause.RANKED_OUT, Cause.BELOW_CUT_OFF})  # told by the ranks anyway


def _holding(at: Cause, evidence: Evidence) -> Iterable[Cause]:
    yield at
    if evidence.quote is not None:
        yield Cause.BOUNDARY
    if evidence.twin is not None:
        yield Cause.NEAR_DUPLICATE
    if at is Cause.RANKED_OUT and _reached(evidence):
        yield Cause.RERANKER
    if evidence.crowd is not None:
        yield Cause.CROWDED_OUT


def _reached(evidence: Evidence) -> bool:
    return evidence.rank_by_score is not None and evidence.rank_by_score <= evidence.context_size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lost:
    """An entry that is out of context: its first chunk on each side, what the baseline's context held, and all
    that the candidate returned.
    """

    observed: Observed
    entry: tuple[str, ...]
    old: Hit | None
    new: Hit | None
    before: tuple[Hit, ...]
    after: tuple[Hit, ...]
    query: QuerySettings

    def evidence(self, at: Cause) -> Evidence:
        gone = at in (Cause.DOCUMENT_MISSING, Cause.FILTERED_OUT)
        return Evidence(
            documents=self.entry,
            rank_before=self.old.rank if self.old else None,
            rank_after=self.new.rank if self.new else None,
            context_size=self.query.context_size,
            candidates=self.query.candidates,
            returned=len(self.after),
            rank_by_score=self._rank_by_score(),
            cut_off=self._cut_off() if at is Cause.BELOW_CUT_OFF else None,
            crowd=self._crowd() if at is Cause.RANKED_OUT else None,
            twin=self._twin() if at is not Cause.BELOW_CUT_OFF else None,
            quote=None if gone else self._quote(),
        )

    def _rank_by_score(self) -> int | None:
        """The best place of a chunk that the score's own cut-off would not have dropped."""
        scores = [hit.score for hit in self.after if hit.score is not None]
        if not self.query.semantic or len(scores) < len(self.after):
            return None
        own = [hit.score for hit in self.after if hit.parent in self.entry and hit.score is not None]
        best = max((score for score in own if score >= self.query.min_score), default=None)
        if best is None:
            return None
        others = [hit.score for hit in self.after if hit.parent not in self.entry and hit.score is not None]
        return 1 + sum(score >= best for score in others)

    def _cut_off(self) -> CutOff | None:
        if self.new is None:
            return None
        limits = (
            CutOff(setting="min_score", score=self.new.score, limit=self.query.min_score),
            CutOff(
                setting="min_reranker_score",
                score=self.new.reranker_score,
                limit=self.query.min_reranker_score,
            ),
        )
        missed = (
            each for each in limits if each.limit > 0 and (each.score is None or each.score < each.limit)
        )
        return next(missed, None)

    def _crowd(self) -> Crowd | None:
        within = context(self.after, self.query)
        documents_before, documents_after = len(_documents(self.before)), len(_documents(within))
        if self.new is None or len(within) < self.query.context_size or documents_after >= documents_before:
            return None
        ahead = _documents(hit for hit in self.after if hit.rank < self.new.rank)
        at = 1 + len(ahead)
        if at > documents_before:
            return None
        return Crowd(documents_before=documents_before, documents_after=documents_after, place=at)

    def _twin(self) -> Twin | None:
        if self.old is None:
            return None
        known, within = _documents(self.before), context(self.after, self.query)
        same_place = [hit for hit in within if hit.rank == self.old.rank]
        first_new = [hit for hit in within if source(hit) not in known][:1]
        twins = [_twin(self.old, hit) for hit in (*same_place, *first_new) if hit.parent not in self.entry]
        return next((each for each in twins if each is not None), None)

    def _quote(self) -> Quote | None:
        checked = [hit.holds for hit in self.after if hit.holds is not None]
        if not checked:
            return None
        held = {number for holds in checked for number in holds}
        for hit in self.before:
            for number in hit.holds or ():
                if number not in held and self.observed.spans[number].document in self.entry:
                    return Quote(
                        span=number,
                        rank_before=hit.rank,
                        checked=len(checked),
                        returned=len(self.after),
                        of_document=sum(each.parent in self.entry for each in self.after),
                    )
        return None


def _documents(hits: Iterable[Hit]) -> frozenset[tuple[str | None, str | None]]:
    return frozenset(source(hit) for hit in hits)


def _twin(answer: Hit, other: Hit) -> Twin | None:
    if answer.text and other.text:
        alike = similarity(answer.text, other.text)
        if alike < NEARLY_THE_SAME:
            return None
        return Twin(rank=other.rank, key=other.key, parent=other.parent, similarity=alike)
    if answer.text_sha256 is not None and answer.text_sha256 == other.text_sha256:
        return Twin(rank=other.rank, key=other.key, parent=other.parent, similarity=None)
    return None


def similarity(one: str, other: str) -> float:
    """The Jaccard index of the texts' token 3-grams, 0..1: those in both over those in either. Tokens are runs of
    letters and digits, whatever their case; a text with fewer than three is one gram. 0 where both have none.
    """
    first, second = _grams(one), _grams(other)
    either = first | second
    return len(first & second) / len(either) if either else 0.0


def _grams(text: str) -> frozenset[tuple[str, ...]]:
    tokens = tuple(_TOKEN.findall(text.casefold()))
    if len(tokens) < _GRAM:
        return frozenset({tokens} if tokens else ())
    return frozenset(tokens[start : start + _GRAM] for start in range(len(tokens) - _GRAM + 1))


# in words


def sentence(cause: Cause, evidence: Evidence) -> str:
    """The cause for a content owner, with its numbers, and what to look at. Plain text."""
    match cause:
        case Cause.DOCUMENT_MISSING:
            said = (
                f"The candidate index does not hold {_named(evidence)}: index it again, or correct the label "
                "if it is gone on purpose."
            )
        case Cause.FILTERED_OUT:
            said = (
                f"The candidate index holds {_named(evidence)}, but the question's filter hides it there: look "
                "at the filter field of its chunks."
            )
        case Cause.BOUNDARY:
            said = _boundary(evidence)
        case Cause.NEAR_DUPLICATE:
            said = _near_duplicate(evidence)
        case Cause.RERANKER:
            said = (
                f"Before the semantic ranker the answer was at {evidence.rank_by_score} of {evidence.returned}, "
                f"within the context of {evidence.context_size}; the ranker put it at {evidence.rank_after}."
            )
        case Cause.CROWDED_OUT:
            said = _crowded(evidence)
        case Cause.NOT_RETRIEVED:
            said = (
                f"{_before(evidence)}; now no chunk of {_named(evidence)} is among the {evidence.returned} that "
                "the candidate returned."
            )
        case Cause.RANKED_OUT:
            said = (
                f"{_before(evidence)}, now at {evidence.rank_after}; the context ends at "
                f"{evidence.context_size}."
            )
        case Cause.BELOW_CUT_OFF:
            said = _cut_off(evidence)
        case _:
            assert_never(cause)
    return said


def _boundary(evidence: Evidence) -> str:
    quote = evidence.quote
    if quote is None:
        return "The quoted passage is in one piece in no chunk of the candidate."
    looked = (
        f"the {quote.returned}" if quote.checked == quote.returned else f"{quote.checked} of {quote.returned}"
    )
    cut = (
        "a chunk boundary now cuts through it"
        if quote.of_document
        else "and no chunk of its document is among them, so a new chunk boundary is likely rather than seen"
    )
    return (
        f"The quoted passage was in one chunk, at {quote.rank_before}; none of {looked} chunks that the candidate "
        f"returned{'' if quote.checked == quote.returned else ' and that have a text'} holds it whole: {cut}."
    )


def _near_duplicate(evidence: Evidence) -> str:
    twin = evidence.twin
    if twin is None:
        return "A chunk in the candidate's context has nearly the same text as the answer's."
    alike = (
        "the same text"
        if twin.similarity is None
        else f"nearly the same text ({twin.similarity:.0%} in common)"
    )
    of = twin.parent if twin.parent is not None else f"chunk {twin.key}"
    return (
        f"The chunk at {twin.rank}, of {of}, has {alike} as the answer's: if it answers as well, add it to the "
        "label."
    )


def _crowded(evidence: Evidence) -> str:
    crowd = evidence.crowd
    if crowd is None:
        return "Fewer documents fill the context."
    return (
        f"Fewer documents fill the context, {crowd.documents_after} instead of {crowd.documents_before}, because "
        f"some take several places; the answer's is document {crowd.place} in the candidate's order, but its chunk "
        f"is at {evidence.rank_after}, and the context ends at {evidence.context_size}."
    )


def _cut_off(evidence: Evidence) -> str:
    limit = evidence.cut_off
    if limit is None:
        return f"Found at {evidence.rank_after}, but below the application's score cut-off."
    score = "has no score" if limit.score is None else f"has a score of {limit.score:.4g}"
    return (
        f"Found at {evidence.rank_after}, but it {score}, and the application drops chunks below {limit.limit:g} "
        f"({limit.setting})."
    )


def _before(evidence: Evidence) -> str:
    return "Not in reach before" if evidence.rank_before is None else f"Before at {evidence.rank_before}"


def _named(evidence: Evidence) -> str:
    return " or ".join(evidence.documents)
