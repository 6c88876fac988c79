"""What the lost and gained questions prove, and what they cannot.

Counted are independent pieces of evidence: a question without a family is one, and all evaluated questions
that share a `family` are one together, since paraphrases of one intent are won and lost together. A family
votes once, by the sign of its gained minus its lost questions.

Methods, all at 95 %:

- lost against gained: McNemar's test in its exact form, the two-sided binomial test of the pieces that moved
  (McNemar 1947);
- net change, (gained - lost) / n: Tango's score interval for a difference of paired proportions (Tango 1998,
  Statistics in Medicine 17, 891-908). It keeps its level in small slices, where Wald's does not, it has a width
  where nothing moved, it never leaves -1..1, and it needs no more than lost, gained and n, so that a noisy
  question or a family need not be called good or bad on each side, as Newcombe's method 10 would have it.
  Fagerland, Lydersen & Laake 2014 (Statistics in Medicine 33, 2850-2875) recommend both;
- true loss rate: the one-sided upper limit of Clopper & Pearson 1934. With none lost of n it is 1 - 0.05^(1/n),
  about 3 / n (the rule of three).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

from app.domain.outcome import EVALUATED, Outcome, QuestionResult, tally
from app.domain.query import Queries, Side

CONFIDENCE = 0.95
SIGNIFICANCE = 0.05
SMALLEST_P = 0.001  # that is written out
FEWEST_MOVED = 6  # the fewest moved pieces whose exact test can fall below 0.05: 2 · 0.5⁶ = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Lost against gained in a group of evaluated questions.

    questions: evaluated questions; pieces: independent pieces of evidence among them (families count once).
    lost, gained: pieces that voted so; a family whose losses and gains are equal votes for neither.
    change: (gained - lost) / pieces, -1..1, above 0 where the candidate is better; low, high: its 95 % score
        interval (Tango 1998). None without a piece.
    p_value: exact two-sided McNemar test, 0..1: how often chance alone would move the pieces as one-sidedly.
        1 where nothing moved; None without a piece.
    could_lose, could_gain: pieces with a question that the baseline had in context in every observation, in
        none. Fewer than 6 that could lose: even if all were lost, the test could not fall below 0.05, so the
        group cannot show a loss (`shows_loss`); likewise `shows_gain`. `too_small`: neither.
    """

    questions: int
    pieces: int
    lost: int
    gained: int
    change: float | None
    low: float | None
    high: float | None
    p_value: float | None
    could_lose: int
    could_gain: int
    shows_loss: bool
    shows_gain: bool
    too_small: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceChange(Change):
    """Lost against gained in one slice. A question of several slices counts in each; so the slices' tests are
    not independent, and of twenty slices one is expected below 0.05 by chance.
    """

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRate:
    """How much may be lost of what the baseline had in context in every observation.

    questions: those evaluated questions; pieces: with families counted once.
    lost: pieces with a question lost, that is in none of the candidate's observations. A noisy one is not lost.
    upper: the largest true share of lost (0..1) that this leaves plausible, one-sided at 95 %; None without a
        piece.
    """

    questions: int
    pieces: int
    lost: int
    upper: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The run record's `statistics`: lost against gained overall and in each slice (by name; also slices
    without an evaluated question), and the loss rate of what the baseline had. `sentences` says it in words.
    """

    overall: Change
    loss_rate: LossRate
    slices: tuple[SliceChange, ...]


# the methods


def mcnemar_p(*, lost: int, gained: int) -> float:
    """Exact two-sided p-value; the same for lost and gained exchanged, 1 where both are 0."""
    if lost == gained:
        return 1.0
    from scipy.stats import binomtest  # noqa: PLC0415 — slow to import, and only a decision needs it

    return float(binomtest(min(lost, gained), lost + gained, 0.5).pvalue)


def change_interval(*, lost: int, gained: int, pieces: int) -> tuple[float, float]:
    """Tango's score interval of (gained - lost) / pieces at 95 %; `pieces` at least 1."""
    return _lower_limit(gained, lost, pieces), -_lower_limit(lost, gained, pieces)


def _lower_limit(up: int, down: int, pieces: int) -> float:
    """The smallest difference (up - down) / pieces that the score test does not reject."""
    if down == pieces:
        return -1.0
    from scipy.optimize import brentq  # noqa: PLC0415 — slow to import, and only a decision needs it

    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

    def rejected(difference: float) -> float:
        """Above 0 where the squared score exceeds z squared."""
        variance = 2 * _probability_down(up, down, pieces, difference) + difference * (1 - difference)
        return (up - down - pieces * difference) ** 2 - z**2 * pieces * variance

    below_estimate = (up - down) / pieces - 1e-9  # at the estimate itself the score is 0, however small n is
    return float(brentq(rejected, -1.0, below_estimate, xtol=1e-12))


def _probability_down(up: int, down: int, pieces: int, difference: float) -> float:
    """Most likely probability of a move down if the true difference is this one (Tango 1998, section 2)."""
    linear = (2 * pieces - up + down) * difference - up - down
    constant = -down * difference * (1 - difference)
    root = math.sqrt(max(0.0, linear**2 - 8 * pieces * constant))
    return (root - linear) / (4 * pieces)


def loss_rate_limit(*, lost: int, pieces: int) -> float:
    """One-sided upper Clopper-Pearson limit of a share at 95 %; `pieces` at least 1."""
    from scipy.stats import binomtest  # noqa: PLC0415 — slow to import, and only a decision needs it

    test = binomtest(lost, pieces, alternative="less")
    return float(test.proportion_ci(CONFIDENCE, method="exact").high)


# gathering


@dataclass(slots=True)
class _Piece:
    """A piece of evidence: one question, or those of a family."""

    questions: int = 0
    net: int = 0  # gained minus lost
    lost: int = 0
    held: int = 0  # in context in every baseline observation
    lacked: int = 0  # in context in none

    def add(self, outcome: Outcome, *, held: bool, lacked: bool) -> None:
        self.questions += 1
        self.net += (outcome is Outcome.GAINED) - (outcome is Outcome.LOST)
        self.lost += outcome is Outcome.LOST
        self.held += held
        self.lacked += lacked


@dataclass(slots=True)
class _Votes:
    """Pieces of evidence, counted."""

    questions: int = 0
    pieces: int = 0
    lost: int = 0
    gained: int = 0
    held_questions: int = 0
    held: int = 0
    held_lost: int = 0
    lacked: int = 0

    def add(self, piece: _Piece) -> None:
        self.questions += piece.questions
        self.pieces += 1
        self.lost += piece.net < 0
        self.gained += piece.net > 0
        self.held_questions += piece.held
        self.held += piece.held > 0
        self.held_lost += piece.lost > 0
        self.lacked += piece.lacked > 0


@dataclass(slots=True)
class _Group:
    """The evidence of a group of questions: single ones are counted at once, families when all is in."""

    single: _Votes = field(default_factory=_Votes)
    families: dict[str, _Piece] = field(default_factory=dict)

    def add(self, result: QuestionResult, *, held: bool, lacked: bool) -> None:
        if result.family is not None:
            piece = self.families.setdefault(result.family, _Piece())
            piece.add(result.outcome, held=held, lacked=lacked)
            return
        piece = _Piece()
        piece.add(result.outcome, held=held, lacked=lacked)
        self.single.add(piece)

    def votes(self) -> _Votes:
        votes = replace(self.single)
        for piece in self.families.values():
            votes.add(piece)
        return votes


@dataclass(slots=True)
class GatheredStatistics:
    """Gathers lost and gained, question by question; it keeps counts, and a few numbers for each family."""

    _overall: _Group = field(default_factory=_Group)
    _slices: dict[str, _Group] = field(default_factory=dict)

    def add(self, result: QuestionResult, queries: Queries) -> None:
        groups = [self._overall, *(self._slices.setdefault(name, _Group()) for name in set(result.slice))]
        if result.outcome not in EVALUATED:
            return
        baseline = tally(result, Side.BASELINE, queries.baseline)
        for group in groups:
            group.add(result, held=baseline.always, lacked=baseline.never)

    def summary(self) -> Statistics:
        overall = self._overall.votes()
        return Statistics(
            overall=Change(**_change(overall)),
            loss_rate=LossRate(
                questions=overall.held_questions,
                pieces=overall.held,
                lost=overall.held_lost,
                upper=loss_rate_limit(lost=overall.held_lost, pieces=overall.held) if overall.held else None,
            ),
            slices=tuple(
                SliceChange(name=name, **_change(group.votes()))
                for name, group in sorted(self._slices.items())
            ),
        )


def _change(votes: _Votes) -> dict[str, Any]:
    """The fields of `Change`."""
    lost, gained, pieces = votes.lost, votes.gained, votes.pieces
    low, high = change_interval(lost=lost, gained=gained, pieces=pieces) if pieces else (None, None)
    shows_loss, shows_gain = votes.held >= FEWEST_MOVED, votes.lacked >= FEWEST_MOVED
    return {
        "questions": votes.questions,
        "pieces": pieces,
        "lost": lost,
        "gained": gained,
        "change": (gained - lost) / pieces if pieces else None,
        "low": low,
        "high": high,
        "p_value": mcnemar_p(lost=lost, gained=gained) if pieces else None,
        "could_lose": votes.held,
        "could_gain": votes.lacked,
        "shows_loss": shows_loss,
        "shows_gain": shows_gain,
        "too_small": not (shows_loss or shows_gain),
    }


# in words


def sentences(statistics: Statistics) -> tuple[str, ...]:
    """The statistics for people, in plain text: what moved, what the losses leave open, then each slice."""
    return tuple(_sentences(statistics))


def _sentences(statistics: Statistics) -> Iterator[str]:
    yield moved_sentence(statistics.overall)
    yield loss_rate_sentence(statistics.loss_rate)
    for each in statistics.slices:
        yield slice_sentence(each)


def moved_sentence(change: Change) -> str:
    """Lost against gained, and whether chance explains it."""
    if change.p_value is None:
        return "No question was evaluated, so nothing can be said of lost against gained."
    start = f"Of {_counted(change.questions, change.pieces)}, {change.lost} lost and {change.gained} gained"
    if not change.lost and not change.gained:
        return f"{start}: nothing moved."
    return f"{start}: {_chance(change.p_value)} (exact McNemar test, p {_p(change.p_value)})."


def loss_rate_sentence(rate: LossRate) -> str:
    """How large the true loss rate may still be, whatever the verdict."""
    if rate.upper is None:
        return (
            "The baseline had no evaluated question in context in every observation, so nothing can be said "
            "of how much the candidate loses."
        )
    lost = f"{rate.lost} lost" if rate.lost else "none lost"
    return (
        f"Of {_counted(rate.questions, rate.pieces)} that the baseline had in context in every observation, "
        f"{lost} still leaves a true loss rate of up to {_percent(rate.upper)} at {CONFIDENCE:.0%} confidence, "
        "for questions like these."
    )


def slice_sentence(change: SliceChange) -> str:
    """The net change of a slice with its interval, and what the slice is too small to show."""
    if change.change is None or change.low is None or change.high is None or change.p_value is None:
        return f"Slice {change.name}: no question was evaluated, so it shows nothing."
    return (
        f"Slice {change.name}: of {_counted(change.questions, change.pieces)}, {change.lost} lost and "
        f"{change.gained} gained, a net change of {_signed(change.change)} "
        f"({CONFIDENCE:.0%} interval {_signed(change.low)} to {_signed(change.high)}, "
        f"p {_p(change.p_value)}){_too_small(change)}."
    )


def _too_small(change: Change) -> str:
    if change.too_small:
        return (
            f"; too small to show anything: at most {max(change.could_lose, change.could_gain)} could move one "
            f"way, and fewer than {FEWEST_MOVED} never reach p < {SIGNIFICANCE}"
        )
    if not change.shows_loss:
        return (
            f"; too small to show a loss: the baseline had only {change.could_lose} of them, and fewer than "
            f"{FEWEST_MOVED} never reach p < {SIGNIFICANCE}"
        )
    return ""


def _chance(p: float) -> str:
    if p < SIGNIFICANCE:
        return "more than chance explains"
    return "too few to tell from chance"


def _counted(questions: int, pieces: int) -> str:
    """`12 questions`, or `9 independent questions (12 with paraphrases)`."""
    if questions == pieces:
        return f"{questions} question" if questions == 1 else f"{questions} questions"
    return f"{pieces} independent question{'' if pieces == 1 else 's'} ({questions} with paraphrases)"


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _signed(share: float) -> str:
    return f"{share:+.1%}" if share else "0%"


def _p(value: float) -> str:
    return "< 0.001" if value < SMALLEST_P else f"= {value:.3f}"
