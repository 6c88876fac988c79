"""Pictures of a run as places on a sheet: ranks before against after, slices, response times, trends.

Geometry only, in the units of each picture's view box; templates draw it. A mark is told by its shape and by
its title, never by its colour alone.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.reasons import Verdict

# ranks before against after


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One question: the answer's rank before and after, None where it was not found. `kind` is its outcome."""

    before: int | None
    after: int | None
    kind: str
    title: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One mark of the picture, of one question or of `count` questions at the same place."""

    x: float
    y: float
    size: float
    kind: str
    title: str
    href: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    at: float
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The picture, `WIDE` by `HIGH`. `edge_x` and `edge_y` are the ends of the baseline's and the candidate's
    context, `none_at` where the answers stand that were not found.
    """

    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    edge_x: float
    edge_y: float
    none_at: float
    kinds: tuple[str, ...]


START, WIDE = 46.0, 420.0
_RANKED, _NONE_AT = 310.0, 350.0  # where the last rank ends, and where "not found" stands
_ALONE = 7  # questions at one place that are drawn one by one; more become one mark
_AROUND = 9.0  # distance of the marks that share a place
_ORDER = ("kept", "absent", "noisy", "gained", "lost")  # later ones are drawn on top


def ranks(points: Sequence[Point], contexts: tuple[int, int], deepest: int) -> Ranks:
    """All points; `contexts` are the context sizes before and after, `deepest` the last rank looked at."""
    scale = _Scale(max(deepest, *contexts, 2))
    places: defaultdict[tuple[str, int | None, int | None], list[Point]] = defaultdict(list)
    for point in points:
        places[point.kind, point.before, point.after].append(point)
    marks: list[Mark] = []
    for kind in _ORDER:
        for (each, before, after), here in places.items():
            if each == kind:
                marks.extend(_marks(here, scale.at(before), scale.at(after)))
    return Ranks(
        marks=tuple(marks),
        ticks=tuple(Tick(at=scale.at(rank), word=str(rank)) for rank in scale.named(contexts)),
        edge_x=scale.edge(contexts[0]),
        edge_y=scale.edge(contexts[1]),
        none_at=_NONE_AT,
        kinds=tuple(kind for kind in reversed(_ORDER) if any(mark.kind == kind for mark in marks)),
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Logarithmic: the first ranks, which matter most, get the most room."""

    deepest: int

    def at(self, rank: int | None) -> float:
        if rank is None:
            return _NONE_AT
        return self._place(min(rank, self.deepest))

    def edge(self, context: int) -> float:
        """Between the last rank of the context and the first one outside."""
        return self._place(min(context + 0.5, self.deepest + 0.5))

    def _place(self, rank: float) -> float:
        room = _RANKED - START - 24
        return round(START + 16 + room * math.log(rank) / math.log(self.deepest + 0.5), 1)

    def named(self, contexts: tuple[int, int]) -> list[int]:
        wanted = sorted({1, 2, *contexts, 10, 20, self.deepest})
        shown: list[int] = []
        for rank in wanted:
            if rank <= self.deepest and (not shown or self.at(rank) - self.at(shown[-1]) >= 16):  # noqa: PLR2004
                shown.append(rank)
        return shown


def _marks(points: Sequence[Point], x: float, y: float) -> Iterable[Mark]:
    """The marks of the questions at one place: one by one, or a single one where they are many."""
    first = points[0]
    if len(points) > _ALONE or (len(points) > 1 and first.kind in ("kept", "absent")):
        size = min(15.0, 4 + 1.6 * math.log2(len(points)))
        title = f"{len(points)} questions {first.kind}, rank {_word(first.before)} before, {_word(first.after)} after"
        yield Mark(
            x=x,
            y=y,
            size=round(size, 1),
            kind=first.kind,
            title=title,
            href=first.href,
            count=len(points),
        )
        return
    for number, point in enumerate(points):
        turn = 2 * math.pi * number / 6
        away = _AROUND if number else 0.0
        yield Mark(
            x=round(x + away * math.cos(turn), 1),
            y=round(y + away * math.sin(turn), 1),
            size=4.5,
            kind=point.kind,
            title=point.title,
            href=point.href,
            count=1,
        )


def _word(rank: int | None) -> str:
    return "not found" if rank is None else str(rank)


# response times


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Response times of one side: how many took how long, their median and 95th percentile in milliseconds."""

    name: str
    n: int
    bars: tuple[Bar, ...]
    median: int
    median_at: float
    p95: int
    p95_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Both sides under one scale of 0 to `most` milliseconds; empty `sides` where nothing was measured."""

    sides: tuple[Times, ...]
    most: int


TIMES_WIDE, TIMES_HIGH = 400.0, 46.0
_BINS = 40


def latency(before: Sequence[float], after: Sequence[float]) -> Latency:
    """The picture of the first observations' times in milliseconds."""
    if not before or not after:
        return Latency(sides=(), most=0)
    shown = max(_percentile(sorted(each), 0.99) for each in (before, after))
    most = max(1.0, shown * 1.05)
    counts = [_binned(each, most) for each in (before, after)]
    tallest = max(max(each) for each in counts)
    sides = [
        _times(name, each, bins, most, tallest)
        for name, each, bins in zip(("baseline", "candidate"), (before, after), counts, strict=True)
    ]
    return Latency(sides=tuple(sides), most=round(most))


def _binned(values: Sequence[float], most: float) -> list[int]:
    bins = [0] * _BINS
    for value in values:
        bins[min(_BINS - 1, int(value / most * _BINS))] += 1
    return bins


def _times(name: str, values: Sequence[float], bins: Sequence[int], most: float, tallest: int) -> Times:
    ordered = sorted(values)
    median, p95 = _percentile(ordered, 0.5), _percentile(ordered, 0.95)
    wide = TIMES_WIDE / _BINS
    bars = tuple(
        Bar(
            x=round(number * wide + 0.5, 1),
            y=round(TIMES_HIGH - high, 1),
            width=wide - 1,
            height=round(high, 1),
        )
        for number, count in enumerate(bins)
        if count
        for high in [max(1.5, TIMES_HIGH * count / tallest)]
    )
    return Times(
        name=name,
        n=len(values),
        bars=bars,
        median=round(median),
        median_at=round(min(median / most, 1) * TIMES_WIDE, 1),
        p95=round(p95),
        p95_at=round(min(p95 / most, 1) * TIMES_WIDE, 1),
    )


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


# slices


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceBar:
    """Lost and gained questions of a slice; `left` and `right` are the lengths of their bars, up to 100."""

    name: str
    questions: int
    lost: int
    gained: int
    left: float
    right: float


def slice_bars(counted: dict[str, tuple[int, int, int]]) -> tuple[SliceBar, ...]:
    """Bars of slices that hold `(questions, lost, gained)`, the greatest net loss first."""
    most = max((max(lost, gained) for _, lost, gained in counted.values()), default=0) or 1
    bars = [
        SliceBar(
            name=name,
            questions=questions,
            lost=lost,
            gained=gained,
            left=round(100 * lost / most, 1),
            right=round(100 * gained / most, 1),
        )
        for name, (questions, lost, gained) in counted.items()
    ]
    return tuple(sorted(bars, key=lambda bar: (bar.gained - bar.lost, -bar.lost)))


# trends


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One run of a trend."""

    run: str
    verdict: Verdict
    lost: int
    gained: int
    title: str
    waived: bool = False

    @property
    def letter(self) -> str:
        return "W" if self.waived else self.verdict[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One run of the drawn trend: gained above the line, lost below it."""

    x: float
    up: float
    down: float
    past: Past


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The last runs of a set, the oldest first; the line between gained and lost lies at `TREND_LINE`."""

    name: str
    columns: tuple[Column, ...]
    width: float


TREND_LINE, TREND_HIGH = 24.0, 64.0
_STEP = 12.0


def trend(name: str, runs: Sequence[Past]) -> Trend:
    """The picture of a set's runs, given the oldest first."""
    most = max((max(run.lost, run.gained) for run in runs), default=0) or 1
    columns = tuple(
        Column(
            x=number * _STEP,
            up=_length(run.gained, most),
            down=_length(run.lost, most),
            past=run,
        )
        for number, run in enumerate(runs)
    )
    return Trend(name=name, columns=columns, width=max(1, len(columns)) * _STEP)


def _length(number: int, most: int) -> float:
    return round(max(2.0, 20.0 * number / most), 1) if number else 0.0
