"""What a reader is told beside the questions: what changed, how much the run can know, its noise, its measures.

Sections of plain text and tables; whoever shows them escapes them there. What was not measured says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from app.domain.change import ChangeKind
from app.domain.check import Check, Level
from app.domain.inventory import InventoryRecord, Method
from app.domain.measures import CHURNED_BELOW, Elapsed, Measures, PairedMean, SliceMeasures, TopScores
from app.domain.noise import Movement, Noise, Watched, WatchReason, consistent_with
from app.domain.outcome import QuestionResult
from app.domain.query import Side
from app.domain.reasons import Code
from app.domain.run import Run
from app.domain.statistics import (
    FEWEST_MOVED,
    SliceChange,
    Statistics,
    loss_rate_sentence,
    moved_sentence,
)
from app.report.escaping import clipped

MOST_ROWS = 20  # of a table, and lines of a group, before it says how many more there are
_CHANGE_CODES = (
    Code.LOST_DOCUMENTS.value,
    "several-kinds",
    "undeclared-change",
    "declared-change-not-found",
)
_LINE_CHARACTERS = 400
_QUESTION_CHARACTERS = 120
_IDS = 10
_NONE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Lines that belong together; `more` are not shown."""

    title: str
    lines: tuple[str, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of as many cells as `head` has; the first cell names its row. `more` rows are not shown."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0

    @property
    def title(self) -> str:
        """The caption, and how much of it is shown."""
        return f"{self.caption}; the first {len(self.rows)} of them" if self.more else self.caption


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A finding that must not be overlooked; `word` of ours says how much it weighs."""

    word: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Everything under one heading, in reading order. `name` is an identifier of ours, `short` a word for it."""

    name: str
    short: str
    title: str
    notices: tuple[Notice, ...] = ()
    first: str = ""  # what to take away
    lines: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Findings:
    """Gathers from the questions what the sections show of them: a few texts, and which documents are gone."""

    run: Run
    _wanted: frozenset[str] = field(init=False)
    _lost: tuple[str, ...] = field(init=False)
    _texts: dict[str, str] = field(default_factory=dict)
    _gone: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._wanted = frozenset(_told_by_text(self.run))
        self._lost = tuple(_lost_documents(self.run))

    def add(self, each: QuestionResult) -> None:
        if each.id in self._wanted:
            self._texts[each.id] = clipped(each.question, _QUESTION_CHARACTERS)
        for document in each.labelled_documents:
            vanished = document in each.missing.candidate and document not in each.missing.baseline
            if vanished or document in self._lost:
                self._gone.setdefault(document, []).append(each.id)

    def sections(self) -> tuple[Section, ...]:
        """In reading order; those of which nothing was measured yet are left out."""
        run = self.run
        gone = {**self._gone, **{name: [] for name in self._lost if name not in self._gone}}
        found = [_changed(run, gone)] if run.verdict is not None or run.differences else []
        if run.statistics is not None:
            found.append(_knowledge(run.statistics))
        if run.noise is not None:
            found.append(_noise(run, run.noise, self._texts))
        if run.measures is not None:
            found.append(_measures(run.measures, run.statistics, self._texts))
        return tuple(found)


def _lost_documents(run: Run) -> Iterator[str]:
    """Documents that an inventory found to be gone; a finding names the first of them only."""
    for check in run.checks:
        if check.code == Code.LOST_DOCUMENTS:
            yield from check.documents


def _told_by_text(run: Run) -> Iterator[str]:
    """Ids of the questions whose text stands in a table."""
    if run.noise is not None:
        yield from (each.id for each in run.noise.watch[:MOST_ROWS])
    if run.measures is not None:
        yield from (each.id for each in _risen(run.measures)[:MOST_ROWS])


# in one line


def not_evaluated(run: Run) -> tuple[str, ...]:
    """Rules of which nothing can be said, each in a sentence, so that none passes for one that holds."""
    return tuple(_not_evaluated(run))


def _not_evaluated(run: Run) -> Iterator[str]:
    yield from (check.message for check in run.checks if check.code == Code.NOT_EVALUATED)
    for reason in run.reasons:
        if reason.code is Code.NOT_EVALUATED and reason.setting is not None:
            yield f"{reason.setting} is set, and what this rule needs was not measured."


def change_checks(run: Run) -> tuple[Check, ...]:
    """The findings about what changed: documents lost, several kinds at once, one that was not declared."""
    return tuple(check for code in _CHANGE_CODES for check in run.checks if check.code == code)


def changed_in_short(run: Run) -> str:
    """The kinds that changed, each with how many differences; or why none is named."""
    by_kind = _by_kind(run)
    if not by_kind:
        return _nothing(run)
    return ", ".join(f"{kind} ({_counted(len(lines), 'difference')})" for kind, lines in by_kind.items())


def honest(run: Run) -> str:
    """How large the true loss rate may still be, whatever the verdict; empty while there is none."""
    return loss_rate_sentence(run.statistics.loss_rate) if run.statistics is not None else ""


def noise_in_short(run: Run) -> str:
    """Flips of the baseline against itself and against the candidate; empty while nothing was measured."""
    noise = run.noise
    if noise is None or not noise.candidate.pairs:
        return ""
    parts = [
        f"answers moved in or out of the context: baseline asked again {_flips(noise.baseline)}",
        f"candidate {_flips(noise.candidate)}",
    ]
    if noise.watch:
        parts.append(f"{_counted(len(noise.watch), 'question')} close to the edge")
    return "; ".join(parts)


# what changed


_KINDS = {
    ChangeKind.CHUNKING: "how documents are cut into chunks",
    ChangeKind.EMBEDDING: "how texts are turned into vectors",
    ChangeKind.SCHEMA: "fields, and how their words are read and weighed",
    ChangeKind.VECTOR_SEARCH: "how near vectors are looked for",
    ChangeKind.QUERY: "what the application asks for",
    ChangeKind.CONTENT: "the documents themselves",
}


def _by_kind(run: Run) -> dict[ChangeKind, list[str]]:
    found: dict[ChangeKind, list[str]] = {}
    for kind in ChangeKind:
        lines = [each.message for each in run.differences if each.kind is kind]
        if lines:
            found[kind] = lines
    return found


def _changed(run: Run, gone: dict[str, list[str]]) -> Section:
    groups = tuple(
        Group(
            title=f"{kind.capitalize()}: {_KINDS[kind]}",
            lines=tuple(clipped(line, _LINE_CHARACTERS) for line in lines[:MOST_ROWS]),
            more=max(0, len(lines) - MOST_ROWS),
        )
        for kind, lines in _by_kind(run).items()
    )
    tables = (_gone_documents(gone),) if gone else ()
    return Section(
        name="changed",
        short="What changed",
        title="What changed",
        notices=tuple(Notice(word=_word(each, run), text=each.message) for each in change_checks(run)),
        first="" if groups else _nothing(run),
        lines=tuple(_declared(run)),
        groups=groups,
        tables=tables,
        notes=tuple(_inventories(run)),
    )


def _word(check: Check, run: Run) -> str:
    if any(reason.code == check.code for reason in run.reasons):
        return "Breaks a rule"
    return "Note" if check.level is Level.INFO else "Warning"


def _nothing(run: Run) -> str:
    """No difference is recorded: whether that means that there is none."""
    if run.noise_study:
        return "Nothing: this is one index against itself."
    if not run.inspected:
        return "Not known: the run ended before both indexes were looked at."
    if run.inventories is None:
        return (
            "No difference is recorded. What the indexes hold was not read, so this does not say that nothing "
            "changed."
        )
    if not (run.inventories.baseline.complete and run.inventories.candidate.complete):
        return (
            "No difference was found. The indexes were not read whole, so one in chunks or documents may have "
            "been missed."
        )
    return "Nothing: definitions, query settings, documents and chunks show no difference."


def _declared(run: Run) -> Iterator[str]:
    if run.change is not None and run.change.kind:
        yield f"Declared with the run: {', '.join(run.change.kind)}."
    elif run.differences:
        yield "No kind of change was declared with the run."


def _gone_documents(gone: dict[str, list[str]]) -> Table:
    rows = tuple(
        (document, _ids(ids) or "none of this set") for document, ids in list(gone.items())[:MOST_ROWS]
    )
    return Table(
        caption="Documents of the baseline that the candidate lacks",
        head=("document", "questions that it answers"),
        rows=rows,
        more=len(gone) - len(rows),
    )


def _inventories(run: Run) -> Iterator[str]:
    if run.inventories is None:
        if run.differences and run.baseline.index != run.candidate.index:
            yield "What the indexes hold was not read: a change of chunks or documents may be missing here."
        return
    for side in Side:
        record = run.inventories.baseline if side is Side.BASELINE else run.inventories.candidate
        yield f"{side.capitalize()} {run.side(side).index}: {inventory_in_short(record)}."


def inventory_in_short(record: InventoryRecord) -> str:
    """What was read of an index, how, and whether that is all of it."""
    if record.method is Method.NOT_TAKEN:
        return f"not read: {_clause(record.note)}"
    parts = [
        f"{_held(record)} read {_how(record.method)}",
        "complete" if record.complete else f"NOT complete: {_clause(record.note)}",
    ]
    if record.tokens_median is not None:
        parts.append(
            f"length in tokens (estimated) {record.tokens_median:,} median, {record.tokens_95 or 0:,} 95th "
            f"percentile, {record.tokens_most or 0:,} most"
        )
    asides = (
        (record.duplicates, "that repeat another"),
        (record.without_text, "without text"),
        (record.without_parent, "without a parent document"),
    )
    parts.extend(f"{_counted(number, 'chunk')} {what}" for number, what in asides if number)
    return "; ".join(parts)


def _held(record: InventoryRecord) -> str:
    return f"{_counted(record.chunks, 'chunk')} of {_counted(record.parents, 'parent document')}"


def _clause(note: str | None) -> str:
    return (note or "no reason is recorded").rstrip(".")


def _how(method: Method) -> str:
    match method:
        case Method.KEY_RANGES:
            return "by ranges of the key"
        case Method.PARENT_RANGES:
            return "by ranges of the parent field"
        case Method.SKIP_IN_ORDER:
            return "one after the other in the key's order"
        case Method.SKIP:
            return "one after the other, in an order that the service does not promise"
        case Method.NOT_TAKEN:
            return "not at all"
        case _:
            assert_never(method)


# how much the run can know


def _knowledge(statistics: Statistics) -> Section:
    return Section(
        name="knowledge",
        short="Certainty",
        title="How much this run can and cannot know",
        first=loss_rate_sentence(statistics.loss_rate),
        lines=(moved_sentence(statistics.overall), *_small_slices(statistics.slices)),
    )


def _small_slices(slices: Sequence[SliceChange]) -> Iterator[str]:
    small = [each for each in slices if not each.shows_loss]
    if not small:
        return
    named = ", ".join(f"{each.name} ({each.could_lose})" for each in small[:MOST_ROWS])
    more = f" and {len(small) - MOST_ROWS} more" if len(small) > MOST_ROWS else ""
    yield (
        f"Too small to show a loss: {'slice' if len(small) == 1 else 'slices'} {named}{more}. In brackets are the "
        f"independent questions that the baseline had there: fewer than {FEWEST_MOVED}, and even losing all of "
        "them could be chance."
    )


# noise


def _noise(run: Run, noise: Noise, texts: dict[str, str]) -> Section:
    floor, change = noise.baseline, noise.candidate
    rows = (
        ("pairs of answers compared", str(floor.pairs), str(change.pairs)),
        ("answer moved in or out of the context", _flips(floor), _flips(change)),
        ("mean movement of the answer's rank", *(_ranks(each) for each in (floor, change))),
        (
            "answer listed in one of the two only",
            *(str(each.appeared) if each.pairs else _NOT_MEASURED for each in (floor, change)),
        ),
        ("mean movement of scores at the edge of the context", *(_scores(each) for each in (floor, change))),
    )
    lines = [
        _NOISE
        if floor.pairs
        else "The baseline was asked once, so how much it moves by itself was not measured."
    ]
    if run.noise_probes or run.counts.noisy:
        lines.append(consistent_with(run.noise_probes))
    movement = Table(
        caption="Movement between two answers to the same question",
        head=("", "baseline against itself", "baseline against candidate"),
        rows=rows,
    )
    watch = (_watch(run, noise, texts),) if noise.watch else ()
    return Section(name="noise", short="Noise", title="Noise", lines=tuple(lines), tables=(movement, *watch))


_NOT_MEASURED = "not measured"
_NOISE = (
    "What moves when the baseline is asked the same again is noise. Only what moves more with the candidate is "
    "the change's doing."
)


def _flips(moved: Movement) -> str:
    if moved.flip_share is None:
        return _NOT_MEASURED
    return f"{moved.flips} of {moved.pairs} ({moved.flip_share:.1%})"


def _ranks(moved: Movement) -> str:
    if moved.rank_movement is None:
        return _NOT_MEASURED
    return f"{moved.rank_movement:.2f} (over {_counted(moved.ranked, 'pair')})"


def _scores(moved: Movement) -> str:
    if moved.score_movement is None:
        return _NOT_MEASURED
    return f"{moved.score_movement:.3g} (over {_counted(moved.scored, 'pair')})"


def _watch(run: Run, noise: Noise, texts: dict[str, str]) -> Table:
    shown = noise.watch[:MOST_ROWS]
    return Table(
        caption=f"Watch list: questions that a small change may flip ({len(noise.watch)})",
        head=("question", "outcome", "rank before → after", "why"),
        rows=tuple(
            (
                _named(each.id, texts),
                each.outcome.value,
                f"{_each_rank(each.baseline_ranks)} → {_each_rank(each.candidate_ranks)}",
                "; ".join(_why(reason, each, run) for reason in each.reasons),
            )
            for each in shown
        ),
        more=len(noise.watch) - len(shown),
    )


def _why(reason: WatchReason, watched: Watched, run: Run) -> str:
    match reason:
        case WatchReason.NEAR_RANK:
            sizes = {run.query.baseline.context_size, run.query.candidate.context_size}
            return f"answer at most one rank from the end of the context ({' or '.join(map(str, sorted(sizes)))})"
        case WatchReason.NEAR_SCORES:
            gap, movement = watched.gap or 0.0, watched.movement or 0.0
            return f"scores at the edge are {gap:.3g} apart, and move by {movement:.3g} by themselves"
        case _:
            assert_never(reason)


def _each_rank(ranks: Sequence[int | None]) -> str:
    return ", ".join("none" if rank is None else str(rank) for rank in ranks)


# measures


_PAIRED = (
    ("success", "success: the answer is in context"),
    ("recall", "recall: share of the expected documents in context"),
    ("reciprocal_rank", "reciprocal rank: 1 at the first place, 1/2 at the second"),
    ("ndcg", "nDCG: expected documents, worth more the higher they stand"),
    ("context_precision", "context precision: share of chunks from expected documents"),
    ("distinct_parents", "different documents in context"),
    ("success_before_ranker", "success before the semantic ranker"),
)


def _measures(measures: Measures, statistics: Statistics | None, texts: dict[str, str]) -> Section:
    overall = measures.overall
    rows = [_paired(label, getattr(overall, name)) for name, label in _PAIRED]
    rows.extend(_elapsed(overall.elapsed_ms))
    tables = [
        Table(
            caption="All evaluated questions, at the depth of the context",
            head=("measure", "baseline", "candidate", "difference", "n"),
            rows=tuple(rows),
        )
    ]
    if measures.slices:
        tables.append(_slices(measures.slices, statistics))
    risen = _risen(measures)
    if risen:
        tables.append(_unlabelled(risen, measures, texts))
    return Section(
        name="measures",
        short="Measures",
        title="Measures",
        first="" if overall.questions else "No question was evaluated, so no ranking was measured.",
        lines=tuple(_alike(measures)),
        tables=tuple(tables),
    )


def _paired(label: str, mean: PairedMean) -> tuple[str, ...]:
    if mean.baseline is None or mean.candidate is None or mean.difference is None:
        return (label, _NONE, _NONE, _NONE, "0")
    return (
        label,
        f"{mean.baseline:.3f}",
        f"{mean.candidate:.3f}",
        _signed(mean.difference, "+.3f"),
        str(mean.n),
    )


def _signed(value: float, form: str) -> str:
    """With its sign; what rounds to nothing has none."""
    shown = format(value, form)
    return shown if any(digit in shown for digit in "123456789") else shown[1:]


def _elapsed(elapsed: Elapsed) -> Iterator[tuple[str, ...]]:
    label, n = "elapsed, {} (ms)", str(elapsed.n)
    middle = (elapsed.baseline_median, elapsed.candidate_median, elapsed.median_difference)
    if all(value is not None for value in middle):
        before, after, moved = (value or 0.0 for value in middle)
        name = f"{label.format('median')}: the difference is the median of the questions' own"
        yield name, f"{before:,.0f}", f"{after:,.0f}", _signed(moved, "+,.0f"), n
    if elapsed.baseline_p95 is not None and elapsed.candidate_p95 is not None:
        before, after = elapsed.baseline_p95, elapsed.candidate_p95
        rise = _signed(after - before, "+,.0f")
        yield label.format("95th percentile"), f"{before:,.0f}", f"{after:,.0f}", rise, n


def _slices(slices: Sequence[SliceMeasures], statistics: Statistics | None) -> Table:
    changes = {each.name: each for each in statistics.slices} if statistics is not None else {}
    shown = slices[:MOST_ROWS]
    return Table(
        caption="Slices",
        head=("slice", "questions", "success baseline", "success candidate", "net change (95% interval)"),
        rows=tuple(
            (
                each.name,
                str(each.questions),
                _mean(each.success.baseline),
                _mean(each.success.candidate),
                _net(changes.get(each.name)),
            )
            for each in shown
        ),
        more=len(slices) - len(shown),
    )


def _mean(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _net(change: SliceChange | None) -> str:
    if change is None or change.low is None or change.high is None:
        return _NONE
    net = change.gained - change.lost
    interval = f"{_signed(change.low, '+.0%')} to {_signed(change.high, '+.0%')}"
    small = "" if change.shows_loss else "; too small to show a loss"
    return (
        f"{net:+d} of {change.pieces} ({interval}){small}"
        if net
        else f"0 of {change.pieces} ({interval}){small}"
    )


def _alike(measures: Measures) -> Iterator[str]:
    shared, biased = measures.overall.overlap, measures.overall.rank_biased_overlap
    if shared.mean is not None and biased.mean is not None:
        yield (
            f"Of the documents in context, {shared.mean:.0%} are the same on both sides (mean overlap); "
            f"rank-biased overlap, which also weighs their order, is {biased.mean:.3f}."
        )
    if measures.churned:
        yield (
            f"{_counted(len(measures.churned), 'question')} kept the answer while most documents around it changed "
            f"(overlap under {CHURNED_BELOW:g}): {_ids(measures.churned, MOST_ROWS)}."
        )


def _risen(measures: Measures) -> list[TopScores]:
    """Unlabelled questions whose top score is higher on the candidate, the largest rise first."""
    risen = [each for each in measures.unlabelled if _rise(each) > 0]
    return sorted(risen, key=_rise, reverse=True)


def _rise(scores: TopScores) -> float:
    return (scores.candidate or 0.0) - (scores.baseline or 0.0)


def _unlabelled(risen: Sequence[TopScores], measures: Measures, texts: dict[str, str]) -> Table:
    shown = risen[:MOST_ROWS]
    mean = measures.unlabelled_score
    average = f", mean {_mean(mean.baseline)} → {_mean(mean.candidate)}" if mean.n else ""
    return Table(
        caption=f"Questions without an answer whose top reranker score rose ({len(risen)} of "
        f"{len(measures.unlabelled)}{average}): a rise tempts an application to answer what it should decline",
        head=("question", "baseline", "candidate", "difference"),
        rows=tuple(
            (
                _named(each.id, texts),
                _mean(each.baseline),
                _mean(each.candidate),
                _signed(_rise(each), "+.3f"),
            )
            for each in shown
        ),
        more=len(risen) - len(shown),
    )


# words


def _named(name: str, texts: dict[str, str]) -> str:
    return f"{name}: {texts[name]}" if name in texts else name


def _ids(names: Iterable[str], most: int = _IDS) -> str:
    every = tuple(names)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
