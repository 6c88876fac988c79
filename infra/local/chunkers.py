"""Two ways to cut a document into chunks: every so many tokens, or along its Markdown headings.

A chunk's body is a slice of the document, `document.text[start:end]`. Its text is what goes into the index:
the body alone (`by_size`), or the body under what a reader of that passage would have seen above it, the path
of headings and the header of a table that was begun in an earlier chunk (`by_headings`).
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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
    """`ordinal` counts a document's chunks from 0."""

    document: Document
    ordinal: int
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
        _chunk(document, ordinal, (window[0][0], window[-1][1])) for ordinal, window in enumerate(windows)
    ]


def by_headings(document: Document, tokens: Tokens, *, size: int) -> list[Chunk]:
    """Sections, each under its path of headings, packed from whole paragraphs and tables up to `size` tokens.

    A paragraph that is too long is cut after sentences, a sentence that is too long between tokens. A table
    that is too long is cut between rows and its header repeated. The size counts everything in the chunk's
    text; one row too long for it makes a longer chunk, and so does a path that takes more than half of it.
    Headings are not in the body: the path has them. ValueError unless size is positive.
    """
    if size < 1:
        raise ValueError(f"the size must be positive; it is {size}")
    measure = _Measure(document.text, tokens)
    chunks: list[Chunk] = []
    for section in _sections(document):
        path = _BETWEEN_HEADINGS.join(section.path)
        room = max(size - len(tokens(path)), size // 2, 1)
        for pieces in _packed(_pieces(document.text, section.body, measure, room), measure, room):
            above = [path]
            if pieces[0].header is not None:
                above.append(document.text[slice(*pieces[0].header)])
            body = (pieces[0].span[0], pieces[-1].span[1])
            chunks.append(_chunk(document, len(chunks), body, above))
    if not chunks and document.text.strip():  # nothing but headings
        chunks.append(_chunk(document, 0, _stripped(document.text, (0, len(document.text)))))
    return chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """What stands under one heading, up to the next."""

    path: tuple[str, ...]
    body: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """What is not cut further. `header`: where the table begins that this row continues."""

    span: Span
    header: Span | None = None


class _Measure:
    """Counts the tokens of any slice of one text."""

    def __init__(self, text: str, tokens: Tokens) -> None:
        self.spans = tokens(text)
        self._starts = [start for start, _ in self.spans]

    def __call__(self, span: Span) -> int:
        first, last = self._range(span)
        return last - first

    def windows(self, span: Span, size: int) -> Iterator[Span]:
        """The span in runs of at most `size` tokens."""
        first, last = self._range(span)
        for start in range(first, last, size):
            yield self.spans[start][0], self.spans[min(start + size, last) - 1][1]

    def _range(self, span: Span) -> tuple[int, int]:
        return bisect_left(self._starts, span[0]), bisect_left(self._starts, span[1])


def _chunk(document: Document, ordinal: int, body: Span, above: Sequence[str] = ()) -> Chunk:
    text = document.text[slice(*body)]
    if above:
        path, *header = above
        text = "\n\n".join([path, "\n".join([*header, text])])
    return Chunk(document=document, ordinal=ordinal, text=text, start=body[0], end=body[1])


def _sections(document: Document) -> Iterator[_Section]:
    """Every stretch of text under a heading, empty ones left out. The path begins with the title."""
    headings: list[tuple[int, str]] = []
    start = 0
    for span, level, words in _headings(document.text):
        yield from _section(document, headings, (start, span[0]))
        headings = [(each, name) for each, name in headings if each < level]
        headings.append((level, words))
        start = span[1]
    yield from _section(document, headings, (start, len(document.text)))


def _section(document: Document, headings: Sequence[tuple[int, str]], span: Span) -> Iterator[_Section]:
    body = _stripped(document.text, span)
    if body[0] < body[1]:
        names = [name for _, name in headings]
        path = names if names[:1] == [document.title] else [document.title, *names]
        yield _Section(path=tuple(path), body=body)


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
