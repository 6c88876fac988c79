"""What took a lost answer's place: the documents in the candidate's context of which the baseline's shows nothing."""

from dataclasses import dataclass

from app.domain.observation import Hit, context, source
from app.domain.outcome import Observed, first_where, observations
from app.domain.query import Queries, Side

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A document by its first chunk in the candidate's context; `parent` None: a chunk without a document."""

    rank: int
    key: str | None
    parent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomers:
    """The first of them in their order, and how many more there are. `returned`: chunks, in all."""

    first: tuple[Newcomer, ...]
    more: int
    returned: int


def newcomers(observed: Observed, queries: Queries) -> Newcomers:
    """Those of a lost question, in the first observations that show its loss."""
    before = first_where(observed, Side.BASELINE, queries.baseline, inside=True)
    after = first_where(observed, Side.CANDIDATE, queries.candidate, inside=False)
    old, new = (
        (seen or next(iter(observations(observed, side)), None))
        for seen, side in ((before, Side.BASELINE), (after, Side.CANDIDATE))
    )
    returned = new.hits if new is not None else ()
    known = {source(hit) for hit in context(old.hits if old is not None else (), queries.baseline)}
    found: dict[tuple[str | None, str | None], Hit] = {}
    for hit in context(returned, queries.candidate):
        if source(hit) not in known:
            found.setdefault(source(hit), hit)
    first = tuple(found.values())[:MOST_NAMED]
    return Newcomers(
        first=tuple(Newcomer(rank=hit.rank, key=hit.key, parent=hit.parent) for hit in first),
        more=len(found) - len(first),
        returned=len(returned),
    )
