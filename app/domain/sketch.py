"""How much of one text is found in another, wherever either of them was cut into chunks.

A sketch keeps, of all word 5-grams that stand inside a text's chunks, the k whose hashes are smallest (bottom-k
min-hash, one hash function; Broder 1997, Cohen and Kaplan 2007). Below the smaller of two texts' largest kept
hashes both sketches are complete, so the kept 5-grams of the one that lie there are a
uniform sample of its 5-grams, each of which is known to be in the other text or not. The share that is found
there is an unbiased estimate of containment, and exact where both texts have at most k 5-grams.

Cutting a text breaks 5-grams, and what a chunker writes above a chunk makes new ones. Neither is a change of the
text. So three things are kept beside the 5-grams: the borders of the chunks, as hashes of the two or three words
beside them, which explain a 5-gram that the other side cut through; where in its chunk each kept 5-gram stands (in
a heading, in the lines above the text, among the first words, at the end); and, over all texts of two indexes, how
often 5-grams of such a place are missing: where that is usual, the place is the chunker's and is left out.
"""

import itertools
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

KEPT = 128  # 5-grams of a text
BORDERS_KEPT = 8192  # hashes of words beside borders, of a text; four bytes each

_GRAM = 5
_WORD_BITS = 12
_WORD = (1 << _WORD_BITS) - 1
_BITS = _GRAM * _WORD_BITS
_ALL = (1 << _BITS) - 1
_HALF = _BITS // 2
_PLACE_BITS = 4
_PLACE = (1 << _PLACE_BITS) - 1
_MIX = (0x9E3779B97F4A7C15 & _ALL, 0xBF58476D1CE4E5B9 & _ALL)  # odd, so that mixing can be undone
_UNMIX: tuple[int, ...] = tuple(pow(factor, -1, 1 << _BITS) for factor in _MIX)

_OPENING_WORDS = 40  # what stands above a chunk's text is at most so long, the head of a table aside
_OPENING_LINE_WORDS = 20
_TABLE_HEAD_WORDS = 200
_FIRST_LINE_WORDS = 10
_TITLE_WORDS = 12  # of a title before the text, on the same line
# Places in a chunk, the likeliest to be the text's own first: `_ABOVE` a first blank line, or in a short first line;
# `_OPENING` the further lines above the text. From `_FIRST` on by the word that a 5-gram begins with.
_BODY, _HEADING, _OPENING, _ABOVE, _EDGE, _FIRST = range(6)
_WORDS_A_PLACE = (2, 1, 1, 1, 1, 2, 2, 2, 4, 8, 8)
_FIRST_WORDS = tuple(_FIRST + place for place, words in enumerate(_WORDS_A_PLACE) for _ in range(words))

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORDS = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_HEADING_LINE = re.compile(r"^[ \t]{0,3}#{1,6}[ \t].*$", re.MULTILINE)
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_SENTENCE_END = (".", "!", "?", "。", "！", "？", ";", ",", "؟")

_TAIL3, _TAIL3_CUT, _TAIL2_CUT, _HEAD3, _HEAD3_CUT, _HEAD2_CUT = range(1, 7)


@dataclass(slots=True)
class Sketch:
    """A text's sketch. `grams` are ascending, place in the lowest bits; `chunks` that it was read from.

    `borders` None: there were too many of them to be kept.
    """

    grams: "array[int]" = field(default_factory=lambda: array("Q"))
    borders: "array[int] | None" = field(default_factory=lambda: array("I"))
    chunks: int = 0
    _compact: int = 0

    def add(self, text: str) -> None:
        """One more chunk, in any order."""
        self.chunks += 1
        read = _read(text)
        limit = self.grams[-1] if len(self.grams) == KEPT else None
        found = _entries(read)
        fresh = found if limit is None else [entry for entry in found if entry < limit]
        if fresh:
            self.grams = array("Q", _smallest([*self.grams, *fresh]))
        self._add_borders(read)

    def _add_borders(self, read: "_Read") -> None:
        if self.borders is None:
            return
        self.borders.extend(_borders(read))
        if len(self.borders) > 2 * self._compact + 64:
            self.borders = array("I", set(self.borders))
            self._compact = len(self.borders)
            if self._compact > BORDERS_KEPT:
                self.borders = None

    @property
    def size(self) -> int:
        """Distinct 5-grams: exact up to the number that is kept, beyond it the estimate (k - 1) / largest."""
        kept = len(self.grams)
        if kept < KEPT:
            return kept
        return round((kept - 1) / ((self.grams[-1] >> _PLACE_BITS) / _ALL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Of `tested` 5-grams of one text, `missing` are in the other neither whole nor cut at a border."""

    tested: int
    missing: int

    @property
    def containment(self) -> float:
        return 1.0 if not self.tested else 1 - self.missing / self.tested


def overlaps(pairs: Iterable[tuple[Sketch, Sketch]]) -> Iterator[tuple[Overlap, Overlap]]:
    """How much of each first text is found in its second, in their order: of the text alone, and of everything.

    All pairs are of the same two indexes: what their chunkers write above the text is learnt from them together.
    """
    probes = [_Probe.of(first, second) for first, second in pairs]
    left_out = _chunkers_places(probes)
    return ((probe.overlap(left_out), probe.overlap(frozenset())) for probe in probes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """Tested and missing 5-grams by their place. `forgiven`: the share that borders may have broken at most."""

    tested: Mapping[int, int]
    missing: Mapping[int, int]
    forgiven: float

    @classmethod
    def of(cls, first: Sketch, second: Sketch) -> "_Probe":
        reach = min(_reach(first), _reach(second))
        known = {entry >> _PLACE_BITS for entry in second.grams}
        borders = frozenset(second.borders or ())
        tested: Counter[int] = Counter()
        missing: Counter[int] = Counter()
        for entry in first.grams:
            rank, place = entry >> _PLACE_BITS, entry & _PLACE
            if rank > reach:
                break
            if place == _EDGE and first.chunks > 1:
                continue  # its first or last word may be a piece of one
            tested[place] += 1
            if rank not in known and not _is_cut(_unmixed(rank), borders):
                missing[place] += 1
        forgiven = 0.0 if second.borders is not None else _GRAM * second.chunks / max(first.size, 1)
        return cls(tested=tested, missing=missing, forgiven=forgiven)

    def overlap(self, left_out: AbstractSet[int]) -> Overlap:
        tested = sum(count for place, count in self.tested.items() if place not in left_out)
        missing = sum(count for place, count in self.missing.items() if place not in left_out)
        return Overlap(tested=tested, missing=max(0, missing - round(self.forgiven * tested)))


_USUAL = 0.05  # missing of a place's 5-grams
_RARER_IN_BODY = 4  # times
_ENOUGH = 5  # missing


def _chunkers_places(probes: Sequence[_Probe]) -> AbstractSet[int]:
    """The places whose 5-grams are so often missing, compared with the texts' own, that a chunker made them."""
    tested: Counter[int] = Counter()
    missing: Counter[int] = Counter()
    for probe in probes:
        tested.update(probe.tested)
        missing.update(probe.missing)
    in_body = missing[_BODY] / max(tested[_BODY], 1)
    shares = {place: missing[place] / count for place, count in tested.items() if missing[place] >= _ENOUGH}
    usual = {place for place, share in shares.items() if share > max(_USUAL, _RARER_IN_BODY * in_body)}
    left_out = {place for place in usual if _BODY < place < _FIRST}
    if _FIRST_WORDS[1] in usual:  # words before the text, on the same line: as far as they reach
        reached = range(_FIRST, _PLACE + 1)
        left_out.update(
            itertools.takewhile(
                lambda place: missing[place] > _RARER_IN_BODY * in_body * tested[place], reached
            )
        )
    return left_out


def _reach(sketch: Sketch) -> int:
    """Up to this rank the sketch holds every 5-gram of its text."""
    return _ALL if len(sketch.grams) < KEPT else sketch.grams[-1] >> _PLACE_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A chunk's words as hashes. `lines`: where the lines above the text begin, and where it begins itself, counted
    in words; the first `above` of them stand before a blank line or in a short first line. `headings`: the words
    in lines that Markdown marks as headings.
    """

    words: Sequence[int]
    lines: Sequence[int]
    above: int
    headings: AbstractSet[int]

    @property
    def opening(self) -> int:
        return self.lines[-1]


def _read(text: str) -> _Read:
    folded = text.casefold()
    words = [zlib.crc32(word.encode("utf-8", "surrogatepass")) & _WORD for word in _WORDS.findall(folded)]
    lines, above = _opening(folded)
    if lines[-1] >= len(words):
        lines, above = [0], 0
    return _Read(words=words, lines=lines, above=above, headings=_headings(folded))


def _opening(text: str) -> tuple[list[int], int]:
    """The first lines as far as they are short, up to a blank line or a sentence's end; then the head of a table."""
    starts, above, start = [0], 0, 0
    while (end := text.find("\n", start)) >= 0:
        line = text[start:end].strip()
        length = _length(line)
        too_long = length > _OPENING_LINE_WORDS or starts[-1] + length > _OPENING_WORDS
        is_last = text.startswith("\n", end + 1)
        if too_long or line.startswith("|") or (line.endswith(_SENTENCE_END) and not is_last):
            break
        starts.append(starts[-1] + length)
        start = end + 1 + is_last
        if is_last or (len(starts) == 2 and length <= _FIRST_LINE_WORDS):  # noqa: PLR2004 — the first line
            above = starts[-1]
        if is_last:
            break
    if head := _table_head(text, start):
        starts.append(starts[-1] + head)
        above = starts[-1]
    return starts, above


def _table_head(text: str, start: int) -> int:
    """Words in the names of the columns of a Markdown table that begins there; 0 for anything else."""
    if not text.startswith("|", start):
        return 0
    names, _, rest = text[start:].partition("\n")
    rule, _, rows = rest.partition("\n")
    length = _length(names)
    return length if rows and length <= _TABLE_HEAD_WORDS and _TABLE_RULE.fullmatch(rule) else 0


def _length(line: str) -> int:
    return len(_WORDS.findall(line))


def _headings(text: str) -> AbstractSet[int]:
    if "#" not in text:
        return frozenset()
    found: set[int] = set()
    for line in _HEADING_LINE.finditer(text):
        first = len(_WORDS.findall(text, 0, line.start()))
        found.update(range(first, first + len(_WORDS.findall(line[0]))))
    return found


def _entries(read: _Read) -> list[int]:
    """Every 5-gram of the chunk, mixed, with its place; a shorter chunk is one gram, all of it edge."""
    words = read.words
    last = len(words) - _GRAM
    if last < 0:
        return [_mixed(_joined(words)) << _PLACE_BITS | _EDGE] if words else []
    head = max(read.opening, len(_FIRST_WORDS))
    entries = []
    gram = _joined(words[: _GRAM - 1])
    for start, word in enumerate(words[_GRAM - 1 :]):
        gram = (gram << _WORD_BITS | word) & _ALL
        mixed = gram * _MIX[0] & _ALL
        mixed = (mixed ^ mixed >> _HALF) * _MIX[1] & _ALL
        in_body = head <= start < last and not read.headings
        place = _BODY if in_body else _place(read, start, last)
        entries.append(mixed << _PLACE_BITS | place)
    return entries


def _place(read: _Read, start: int, last: int) -> int:
    if start in (0, last, read.above, read.opening):
        return _EDGE
    if start < read.above:
        return _ABOVE
    if read.headings and not read.headings.isdisjoint(range(start, start + _GRAM)):
        return _HEADING
    if not read.above and start < len(_FIRST_WORDS):
        return _FIRST_WORDS[start]
    return _OPENING if start < read.opening else _BODY


def _smallest(entries: list[int]) -> list[int]:
    """The k smallest 5-grams, ascending, each once with its best place."""
    entries.sort()
    kept: list[int] = []
    before = -1
    for entry in entries:
        if entry >> _PLACE_BITS != before:
            before = entry >> _PLACE_BITS
            kept.append(entry)
            if len(kept) == KEPT:
                break
    return kept


def _borders(read: _Read) -> Iterator[int]:
    """The words beside the chunk's ends, and beside all that may begin it: every word of a title. `…_CUT`:
    without the word at the border, which may be a piece of one.
    """
    words = read.words
    yield _border(_TAIL3, words[-3:])
    yield _border(_TAIL3_CUT, words[-4:-1])
    yield _border(_TAIL2_CUT, words[-3:-1])
    for start in {*range(min(max(read.above, _TITLE_WORDS), _OPENING_WORDS) + 1), *read.lines}:
        yield _border(_HEAD3, words[start : start + 3])
    for start in {0, read.above, read.opening}:
        yield _border(_HEAD3_CUT, words[start + 1 : start + 4])
        yield _border(_HEAD2_CUT, words[start + 1 : start + 3])


def _is_cut(gram: int, borders: AbstractSet[int]) -> bool:
    """Whether the 5-gram's words stand at both sides of a border, as far as they can be told."""
    if not borders:
        return False
    a, b, c, d, e = (gram >> shift & _WORD for shift in range(_BITS - _WORD_BITS, -1, -_WORD_BITS))
    return (
        _border(_TAIL3, (a, b, c)) in borders
        or _border(_TAIL3, (b, c, d)) in borders
        or _border(_HEAD3, (b, c, d)) in borders
        or _border(_HEAD3, (c, d, e)) in borders
        or _border(_TAIL3_CUT, (a, b, c)) in borders
        or _border(_TAIL3_CUT, (b, c, d)) in borders
        or _border(_HEAD3_CUT, (b, c, d)) in borders
        or _border(_HEAD3_CUT, (c, d, e)) in borders
        or (_border(_TAIL2_CUT, (a, b)) in borders and _border(_HEAD2_CUT, (d, e)) in borders)
    )


def _border(role: int, words: Sequence[int]) -> int:
    return (role << 3 * _WORD_BITS | _joined(words)) * _MIX[0] >> _HALF & 0xFFFFFFFF


def _joined(words: Sequence[int]) -> int:
    gram = 0
    for word in words:
        gram = gram << _WORD_BITS | word
    return gram


def _mixed(gram: int) -> int:
    mixed = gram * _MIX[0] & _ALL
    return (mixed ^ mixed >> _HALF) * _MIX[1] & _ALL


def _unmixed(mixed: int) -> int:
    gram = mixed * _UNMIX[1] & _ALL
    return (gram ^ gram >> _HALF) * _UNMIX[0] & _ALL
