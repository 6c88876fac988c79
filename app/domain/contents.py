"""In what the contents of two indexes differ: documents gone, new or altered, and how their texts are cut.

A text counts as the same where the two sketches hold at least 98 % of each other, so that cutting it anew is no
change of content. Where a document is cut otherwise than before, it counts as altered only if its estimate lies
below that by more than its sampling error. How texts are cut is judged on documents whose text is the same, so
that documents gone or new make no difference there.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.change import ChangeKind
from app.domain.difference import Difference, difference
from app.domain.inventory import Inventory, Lengths, Parent, in_tokens
from app.domain.sketch import Overlap, overlaps

SAME_TEXT = 0.98  # least containment, both ways
_CONFIDENCE = 0.05
_SHOWN = 10
_CUT_ANEW = 0.05  # of the documents with the same text
_CUT_ANEW_ALL = 0.5
_NOTABLE = 0.01  # relative difference of chunk counts and lengths, of the same documents
_LONGER = 0.003
_NOTABLE_OF_ALL = 0.1  # where no document can be compared with itself
_BORDERS_SHARED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Documents on both sides, by name, in the order of their names. `cut_anew`: another chunker was at work."""

    same: tuple[str, ...]
    altered: tuple[str, ...]
    cut_anew: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """One document on both sides, whose chunks differ. What was found again forth and back: `text` without what
    a chunker may have written above it, `everything` with it.
    """

    before: Parent
    after: Parent
    text: tuple[Overlap, Overlap]
    everything: tuple[Overlap, Overlap]

    @property
    def has_other_borders(self) -> bool:
        """A word altered within a chunk leaves most of them, a line written above it makes it longer."""
        if self.before.distinct != self.after.distinct:
            return True
        one, other = self.before.sketch.borders, self.after.sketch.borders
        if one is None or other is None:
            return True
        shared, every = len(set(one) & set(other)), len(set(one) | set(other))
        if shared < _BORDERS_SHARED * every:
            return True
        is_whole = not any(each.missing for each in self.text)
        return is_whole and shared < every and _apart(self.before.characters, self.after.characters, _LONGER)

    def is_altered(self, *, cut_anew: bool) -> bool:
        if not cut_anew:
            return any(_differs(each, certain=False) for each in self.everything)
        return any(_differs(each, certain=self.has_other_borders) for each in self.text)


def compared(baseline: Inventory, candidate: Inventory) -> Compared | None:
    """The documents that both sides hold, compared text by text; None without two complete inventories."""
    if not (baseline.complete and candidate.complete):
        return None
    names = sorted(baseline.parents.keys() & candidate.parents.keys())
    changed = _changed(baseline, candidate, names)
    cut_anew = _is_cut_anew(changed, baseline, candidate, len(names))
    altered = {name for name, pair in changed.items() if pair.is_altered(cut_anew=cut_anew)}
    return Compared(
        same=tuple(name for name in names if name not in altered),
        altered=tuple(name for name in names if name in altered),
        cut_anew=cut_anew,
    )


def _changed(baseline: Inventory, candidate: Inventory, names: Sequence[str]) -> dict[str, _Pair]:
    pairs = {name: (baseline.parents[name], candidate.parents[name]) for name in names}
    pairs = {name: pair for name, pair in pairs.items() if not _is_identical(*pair)}
    forth = overlaps((before.sketch, after.sketch) for before, after in pairs.values())
    back = overlaps((after.sketch, before.sketch) for before, after in pairs.values())
    return {
        name: _Pair(before=before, after=after, text=(one[0], other[0]), everything=(one[1], other[1]))
        for (name, (before, after)), one, other in zip(pairs.items(), forth, back, strict=True)
    }


def _is_cut_anew(
    changed: Mapping[str, _Pair], baseline: Inventory, candidate: Inventory, documents: int
) -> bool:
    """Whether another chunker was at work.

    Some texts that were altered too little to be noticed are cut elsewhere from there on; but then chunks stay
    as many and as long. Without documents to be compared with themselves, those of all are.
    """
    altered = [pair.is_altered(cut_anew=True) for pair in changed.values()]
    same = documents - sum(altered)
    if same < sum(altered) or not same:
        return _other_shape(baseline, candidate)
    anew = [
        pair
        for pair, is_altered in zip(changed.values(), altered, strict=True)
        if not is_altered and pair.has_other_borders
    ]
    if len(anew) >= _CUT_ANEW_ALL * same:
        return True
    chunks = [sum(pair.before.distinct for pair in anew), sum(pair.after.distinct for pair in anew)]
    characters = [sum(pair.before.characters for pair in anew), sum(pair.after.characters for pair in anew)]
    is_notable = _apart(chunks[0], chunks[1], _NOTABLE) or _apart(characters[0], characters[1], _NOTABLE)
    return len(anew) >= _CUT_ANEW * same and is_notable


def _is_identical(before: Parent, after: Parent) -> bool:
    """Chunk for chunk, whatever their order, and repetitions aside."""
    return (before.digest, before.characters, before.distinct) == (
        after.digest,
        after.characters,
        after.distinct,
    )


def _differs(overlap: Overlap, *, certain: bool) -> bool:
    """Less than 98 % found, by two 5-grams at least. `certain`: only if chance makes it so rarely."""
    if overlap.missing < 2 or overlap.containment >= SAME_TEXT:  # noqa: PLR2004
        return False
    return not certain or _at_least(overlap.missing, overlap.tested, 1 - SAME_TEXT) <= _CONFIDENCE


def _at_least(successes: int, trials: int, chance: float) -> float:
    """The probability of so many successes or more: 1 minus the binomial distribution function."""
    below = (
        math.comb(trials, each) * chance**each * (1 - chance) ** (trials - each) for each in range(successes)
    )
    return 1 - math.fsum(below)


def inventory_differences(baseline: Inventory, candidate: Inventory) -> list[Difference]:
    """Chunking and content."""
    both = compared(baseline, candidate)
    return [
        *chunking_differences(baseline, candidate, both),
        *content_differences(baseline, candidate, both),
    ]


# content


def content_differences(baseline: Inventory, candidate: Inventory, both: Compared | None) -> list[Difference]:
    """Documents gone, new and altered; duplicates where cutting does not explain them.

    Nothing where an inventory is not complete: what was not read is not gone.
    """
    if both is None:
        return []
    found = [
        *_documents("documents gone", baseline.parents, candidate.parents),
        *_documents("documents new", candidate.parents, baseline.parents),
    ]
    if both.altered:
        message = (
            f"The text of {len(both.altered)} of {len(both.altered) + len(both.same)} documents was altered "
            f"(less than {SAME_TEXT:.0%} of its word 5-grams found again): {_some(both.altered)}."
        )
        found.append(_content("documents altered", 0, len(both.altered), message))
    if not both.cut_anew and not found and baseline.duplicates != candidate.duplicates:
        message = f"Chunks that say what another one says: {baseline.duplicates}, now {candidate.duplicates}."
        found.append(_content("duplicate chunks", baseline.duplicates, candidate.duplicates, message))
    return found


def _documents(what: str, here: Mapping[str, Parent], there: Mapping[str, Parent]) -> list[Difference]:
    names = sorted(here.keys() - there.keys())
    if not names:
        return []
    message = f"{what.capitalize()}: {len(names)} of {len(here)}, such as {_some(names)}."
    if len(names) == len(here) and there:
        message += " The two indexes have no document name in common: parent_names may be needed."
    values = (len(names), 0) if what == "documents gone" else (0, len(names))
    return [_content(what, *values, message)]


def _content(what: str, before: Any, after: Any, message: str) -> Difference:
    return Difference(kind=ChangeKind.CONTENT, what=what, baseline=before, candidate=after, message=message)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


# chunking


def chunking_differences(
    baseline: Inventory, candidate: Inventory, both: Compared | None
) -> list[Difference]:
    """Chunks a document, and their lengths in tokens, where the same documents are cut otherwise."""
    if not (baseline.taken and candidate.taken and baseline.parents and candidate.parents):
        return []
    names: Iterable[str] | None = None
    if both is not None:
        if not both.cut_anew:
            return []
        names = both.same or None
    elif not _other_shape(baseline, candidate):
        return []
    before, after = _chunks_each(baseline, names), _chunks_each(candidate, names)
    found = []
    if round(before, 1) != round(after, 1):
        found.append(difference(ChangeKind.CHUNKING, "chunks a document", round(before, 1), round(after, 1)))
    one, other = _lengths(baseline.lengths), _lengths(candidate.lengths)
    if one != other or not found:
        found.append(difference(ChangeKind.CHUNKING, "tokens a chunk", one, other))
    return found


def _other_shape(baseline: Inventory, candidate: Inventory) -> bool:
    """Whether chunks in general are longer or shorter, or more or fewer of them a document."""
    median, median_now = (side.lengths.percentile(0.5) or 0 for side in (baseline, candidate))
    each, each_now = (_chunks_each(side, None) for side in (baseline, candidate))
    is_whole = baseline.complete and candidate.complete
    return _apart(median, median_now, _NOTABLE_OF_ALL) or (
        is_whole and _apart(each, each_now, _NOTABLE_OF_ALL)
    )


def _apart(before: float, after: float, by: float) -> bool:
    return abs(after - before) > by * max(before, after)


def _chunks_each(side: Inventory, names: Iterable[str] | None) -> float:
    parents = side.parents.values() if names is None else [side.parents[name] for name in names]
    counts = [parent.distinct for parent in parents]
    return sum(counts) / len(counts) if counts else 0.0


def _lengths(lengths: Lengths) -> dict[str, Any]:
    shares = {"median": 0.5, "95 %": 0.95, "most": 1.0}
    return {name: in_tokens(lengths.percentile(share) or 0) for name, share in shares.items()}
