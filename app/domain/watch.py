"""What the questions show after a promotion, asked as applications ask them now."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.observation import Observation, forbidden_hits, in_context
from app.domain.outcome import Observed, tally
from app.domain.query import Queries, Side


class Shown(StrEnum):
    """What the last answer to a question says."""

    HOLDS = "holds"  # the answer is in context, nothing forbidden is shown
    AS_JUDGED = "as-judged"  # out of context, as it was in an observation of the candidate in the run
    FAILED = "failed"  # out of context though the run saw it in, or something forbidden is shown
    ERROR = "error"  # could not be asked


class Watch(StrEnum):
    """What a watch says as a whole."""

    HELD = "held"  # every question holds, or is as it was judged
    FAILED = "failed"
    ERROR = "error"  # none failed, and some could not be asked: nothing is known of these
    SUPERSEDED = "superseded"  # live is no longer what was promoted: there is nothing more to watch
    NOTHING_TO_ASK = "nothing-to-ask"  # the run has no critical, accepted or overridden question


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedQuestion:
    """One question after the flip. `rank`: of its answer now, `judged`: in the run's first observation of the
    candidate; None: not among the candidates, unlabelled, or not answered. `tries`: how often it was asked.
    `forbidden`: what it showed and must not. `accepted`: a reviewer or an override lets it be lost.
    """

    id: str
    shown: Shown
    rank: int | None
    judged: int | None
    tries: int
    accepted: bool = False
    forbidden: tuple[str, ...] = ()
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The result of a watch. `asked`: the alias or index that the questions were sent to. `note` is for people,
    and says that applications refresh at their own pace.
    """

    state: Watch
    asked: str
    questions: tuple[WatchedQuestion, ...] = ()
    note: str

    @property
    def failed(self) -> tuple[WatchedQuestion, ...]:
        return tuple(each for each in self.questions if each.shown is Shown.FAILED)


def shown(observed: Observed, seen: Observation, queries: Queries) -> Shown:
    """What an answer of the live index says of a question of the run.

    Out of context counts as failed only where the run saw it in context in every observation of the
    candidate: what was out before was judged with the run, by its verdict, a review or an override, and
    another roll back would not mend it. Something forbidden fails in any case.
    """
    if seen.error is not None:
        return Shown.ERROR
    if forbidden_hits(observed, seen):
        return Shown.FAILED
    if in_context(observed, seen, queries.candidate):
        return Shown.HOLDS
    before = tally(observed, Side.CANDIDATE, queries.candidate)
    return Shown.FAILED if before.always else Shown.AS_JUDGED


def together(questions: Sequence[WatchedQuestion]) -> Watch:
    """What the questions say together; a failure outweighs what could not be asked."""
    found = {each.shown for each in questions}
    if not found:
        return Watch.NOTHING_TO_ASK
    if Shown.FAILED in found:
        return Watch.FAILED
    return Watch.ERROR if Shown.ERROR in found else Watch.HELD
