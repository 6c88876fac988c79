"""What people decided on a run, in the words that a page shows beside its questions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC

from app.domain.overrides import Override
from app.domain.review import Review, Ruling, Standing, documents_of

WORDS = {
    Ruling.REAL_LOSS: "real loss",
    Ruling.LABEL_OUT_OF_DATE: "label out of date",
    Ruling.ACCEPTABLE: "acceptable",
}
NOBODY = "somebody who was not signed in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One decision as it is shown. `details` are labelled lines; `expired` ones do not count."""

    word: str
    who: str
    expired: bool
    earlier_run: str | None
    details: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Every decision on a run, as it stands on a day. `reviews` are newest first; `standing` and `carried` by
    question, the latter from earlier runs.
    """

    reviews: tuple[Review, ...] = ()
    standing: Mapping[str, Standing] = field(default_factory=dict)
    carried: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    waived: Override | None = None

    def decided(self, question: str) -> bool:
        """Whether a decision of this run or of an earlier one counts."""
        own = self.standing.get(question) or next(iter(self.carried.get(question, ())), None)
        return own is not None and own.counts

    def of(self, question: str) -> tuple[Told, ...]:
        """What was decided on the question: in this run, the latest first, then in earlier ones."""
        standing = self.standing.get(question)
        return (
            *(
                _told(each, expired=standing is not None and standing.review is each and standing.expired)
                for each in self.reviews
                if each.question == question
            ),
            *(
                _told(each.review, expired=each.expired, earlier=True)
                for each in self.carried.get(question, ())
            ),
        )


def _told(review: Review, *, expired: bool, earlier: bool = False) -> Told:
    return Told(
        word=WORDS[review.decision],
        who=signed(review),
        expired=expired,
        earlier_run=review.run if earlier else None,
        details=tuple(_details(review)),
    )


def signed(of: Review | Override) -> str:
    """Who and when."""
    return f"{of.by or NOBODY}, {of.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def waiver(of: Override | None) -> tuple[tuple[str, str], ...]:
    """Who cleared the run and why, as labelled lines; empty where nobody did."""
    if of is None:
        return ()
    return (("Waived by", signed(of)), ("Reason", of.reason), ("Watched by", of.watch))


def _details(review: Review) -> Iterator[tuple[str, str]]:
    if review.answers:
        yield "New answers", ", ".join(documents_of(review.answers))
    if review.reason:
        yield "Reason", review.reason
    if review.expires:
        yield "Until", review.expires.isoformat()
    if review.watch:
        yield "Watched by", review.watch
