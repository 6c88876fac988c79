"""Two ways to cut a document into chunks: every so many tokens, or along its Markdown headings.

A chunk's body is a slice of the document, `document.text[start:end]`. What a reader of that passage would have
seen above it is carried along: the path of headings, and in the text the header of a table that was begun in an
earlier chunk.
"""

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

Span = tuple[int, int]
"""Start and end in characters, end exclusive."""

Tokens = Callable[[str], Sequence[Span]]
"""A text's tokens in their order, as spans; no token reaches over white space."""

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r"[ ]{0,3}(```|~~~)")
_DELIMITER_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")
_BETWEEN_HEADINGS = " > "


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A source document. `region` and `status` are kept beside each chunk, for filters."""

    id: str
    title: str
    text: str
    region: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """`ordinal` counts a document's chunks from 0. `path`: title and headings above, "Title > Section"; of
    chunks by size the title alone. `text`: the body, after a table's header if need be.
    """

    document: Document
    ordinal: int
    path: str
    text: str
    start: int
    end: int


def by_size(document: Document, tokens: Tokens, *, size: int, overlap: int) -> list[Chunk]:
    """Windows of `size` tokens, each beginning with the last `overlap` tokens of the one before.

    No regard for words, rows or sections. The last window may be shorter, but always brings something new.
    ValueError unless 0 <= overlap < size.
    """
    if not 0 <= overlap < size:
        raise ValueError(f"the overlap must be at least 0 and less than the size {size}; it is {overlap}")
    spans = tokens(document.text)
    starts = range(0, max(len(spans) - overlap, min(len(spans), 1)), size - overlap)
    windows = [spans[start : start + size] for start in starts]
    return [
        _chunk(document, ordinal, document.title, (window[0][0], window[-1][1]))
        for ordinal, window in enumerate(windows)
    ]


def by_headings(document: Document, tokens: Tokens, *, size: int, least: int = 0) -> list[Chunk]:
    """Sections, each under its path of headings, packed from whole paragraphs and tables up to `size` tokens.

    A paragraph that is too long is cut after sentences, a sentence that is too long between tokens. A table
    that is too long is cut between rows and its header repeated. The size counts everything, the path
    included; one row too long for it makes a longer chunk, and so does a path that takes more than half of it.
    Neighbours are joined where they fit and one of them has fewer than `least` tokens. What they have in common
    is then the path and their own headings stand in the body. Otherwise headings are not in the body.
    ValueError unless size is positive.
    """
    if size < 1:
        raise ValueError(f"the size must be positive; it is {size}")
    measure = _Measure(document.text, tokens)
    passages = _joined(_passages(document, measure, size), measure, size=size, least=least)
    chunks = [
        _chunk(document, ordinal, _BETWEEN_HEADINGS.join(passage.path), passage.body, passage.header)
        for ordinal, passage in enumerate(passages)
    ]
    if not chunks and document.text.strip():  # nothing but headings
        chunks.append(_chunk(document, 0, document.title, _stripped(document.text, (0, len(document.text)))))
    return chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """What stands under one heading, up to the next. `heading`: where its line begins; 0 for the text above
    the first.
    """

    path: tuple[str, ...]
    heading: int
    body: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """What is not cut further. `header`: where the table begins that this row continues."""

    span: Span
    header: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passage:
    """A chunk to be. `heading`: where the heading of its body begins; None where an earlier passage has it.

    `header`: that of the table which the body continues.
    """

    path: tuple[str, ...]
    heading: int | None
    header: Span | None
    body: Span


class _Measure:
    """Counts the tokens of any slice of one text."""

    def __init__(self, text: str, tokens: Tokens) -> None:
        self._tokens = tokens
        self.spans = tokens(text)
        self._starts = [start for start, _ in self.spans]

    def __call__(self, span: Span) -> int:
        first, last = self._range(span)
        return last - first

    def path(self, path: tuple[str, ...]) -> int:
        return len(self._tokens(_BETWEEN_HEADINGS.join(path)))

    def windows(self, span: Span, size: int) -> Iterator[Span]:
        """The span in runs of at most `size` tokens."""
        first, last = self._range(span)
        for start in range(first, last, size):
            yield self.spans[start][0], self.spans[min(start + size, last) - 1][1]

    def _range(self, span: Span) -> tuple[int, int]:
        return bisect_left(self._starts, span[0]), bisect_left(self._starts, span[1])


def _chunk(document: Document, ordinal: int, path: str, body: Span, header: Span | None = None) -> Chunk:
    above = "" if header is None else document.text[slice(*header)] + "\n"
    text = above + document.text[slice(*body)]
    return Chunk(document=document, ordinal=ordinal, path=path, text=text, start=body[0], end=body[1])


def _passages(document: Document, measure: _Measure, size: int) -> Iterator[_Passage]:
    for section in _sections(document):
        room = max(size - measure.path(section.path), size // 2, 1)
        heading: int | None = section.heading
        for pieces in _packed(_pieces(document.text, section.body, measure, room), measure, room):
            body = (pieces[0].span[0], pieces[-1].span[1])
            yield _Passage(path=section.path, heading=heading, header=pieces[0].header, body=body)
            heading = None


def _joined(passages: Iterable[_Passage], measure: _Measure, *, size: int, least: int) -> list[_Passage]:
    joined: list[_Passage] = []
    for passage in passages:
        if joined:
            both = _both(joined[-1], passage)
            shorter = min(_weight(joined[-1], measure), _weight(passage, measure))
            if shorter < least and _weight(both, measure) <= size:
                joined[-1] = both
                continue
        joined.append(passage)
    return joined


def _both(first: _Passage, second: _Passage) -> _Passage:
    """One passage of two neighbours. One that goes on from an earlier passage keeps its path."""
    if first.heading is None or first.path == second.path:
        return replace(first, body=(first.body[0], second.body[1]))
    pairs = zip(first.path, second.path, strict=False)
    common = tuple(name for name, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    start = first.body[0] if common == first.path else first.heading
    return _Passage(path=common, heading=first.heading, header=None, body=(start, second.body[1]))


def _weight(passage: _Passage, measure: _Measure) -> int:
    """The tokens of all that is in it."""
    header = 0 if passage.header is None else measure(passage.header)
    return measure.path(passage.path) + header + measure(passage.body)


def _sections(document: Document) -> Iterator[_Section]:
    """Every stretch of text under a heading, empty ones left out. The path begins with the title."""
    above: list[tuple[int, str]] = []
    heading, start = 0, 0
    for span, level, words in _headings(document.text):
        yield from _section(document, above, heading, (start, span[0]))
        above = [*((each, name) for each, name in above if each < level), (level, words)]
        heading, start = span
    yield from _section(document, above, heading, (start, len(document.text)))


def _section(
    document: Document, above: Sequence[tuple[int, str]], heading: int, span: Span
) -> Iterator[_Section]:
    body = _stripped(document.text, span)
    if body[0] < body[1]:
        names = [name for _, name in above]
        path = names if names[:1] == [document.title] else [document.title, *names]
        yield _Section(path=tuple(path), heading=heading, body=body)


def _headings(text: str) -> Iterator[tuple[Span, int, str]]:
    """Span of the line, level and words of every heading outside fenced code."""
    fence = ""
    for span in _lines(text, (0, len(text))):
        line = text[slice(*span)]
        if marker := _FENCE.match(line):
            fence = "" if fence == marker[1] else fence or marker[1]
        elif not fence and (heading := _HEADING.fullmatch(line)):
            yield span, len(heading[1]), heading[2]


def _pieces(text: str, body: Span, measure: _Measure, room: int) -> Iterator[_Piece]:
    for block in _blocks(text, body):
        if measure(block) <= room:
            yield _Piece(span=block)
        elif _is_table(text, block):
            yield from _rows(text, block)
        else:
            yield from _sentences(text, block, measure, room)


def _blocks(text: str, body: Span) -> Iterator[Span]:
    """Paragraphs and tables: runs of lines between blank lines, and a table apart from the text around it."""
    block: list[Span] = []
    for line in _lines(text, body):
        words = text[slice(*line)].strip()
        begins_other = bool(block) and words.startswith("|") != text[slice(*block[-1])].lstrip().startswith(
            "|"
        )
        if block and (not words or begins_other):
            yield block[0][0], block[-1][1]
            block = []
        if words:
            block.append(line)
    if block:
        yield block[0][0], block[-1][1]


def _is_table(text: str, block: Span) -> bool:
    lines = [text[slice(*line)] for line in _lines(text, block)]
    return len(lines) > 2 and lines[0].lstrip().startswith("|") and bool(_DELIMITER_ROW.fullmatch(lines[1]))


def _rows(text: str, table: Span) -> Iterator[_Piece]:
    """The rows one by one; the first with the header that stands over it."""
    names, delimiter, first, *rest = _lines(text, table)
    yield _Piece(span=(names[0], first[1]))
    for row in rest:
        yield _Piece(span=row, header=(names[0], delimiter[1]))


def _sentences(text: str, paragraph: Span, measure: _Measure, room: int) -> Iterator[_Piece]:
    start, end = paragraph
    gaps = [gap.span() for gap in _SENTENCE_END.finditer(text, start, end)]
    for stop, following in [*gaps, (end, end)]:
        if start < stop:
            sentence = (start, stop)
            spans = [sentence] if measure(sentence) <= room else measure.windows(sentence, room)
            yield from (_Piece(span=span) for span in spans)
        start = following


def _packed(pieces: Iterator[_Piece], measure: _Measure, room: int) -> Iterator[list[_Piece]]:
    """Neighbours together as long as they fit."""
    pack: list[_Piece] = []
    for piece in pieces:
        if pack and _length([*pack, piece], measure) > room:
            yield pack
            pack = []
        pack.append(piece)
    if pack:
        yield pack


def _length(pack: Sequence[_Piece], measure: _Measure) -> int:
    header = pack[0].header
    return measure((pack[0].span[0], pack[-1].span[1])) + (0 if header is None else measure(header))


def _lines(text: str, span: Span) -> Iterator[Span]:
    """The lines without their ends."""
    start, end = span
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        yield start, stop - (text[start:stop].endswith("\r"))
        start = stop + 1


def _stripped(text: str, span: Span) -> Span:
    words = text[slice(*span)]
    start = span[0] + len(words) - len(words.lstrip())
    return start, start + len(words.strip())
