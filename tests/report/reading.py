"""Readers of what the reports write: a page by the standard library's parser, Markdown by a CommonMark parser."""

from collections import defaultdict
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markdown_it.token import Token

_VOID = frozenset({"meta", "br", "input", "path", "rect", "circle"})
_INLINE = frozenset({"span", "code", "strong", "bdi", "a", "summary", "mark"})


class Page(HTMLParser):
    """A parsed page: its elements, its text, and the text of each section by the id of its heading."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.by_section: defaultdict[str, list[str]] = defaultdict(list)
        self.pieces: list[str] = []
        self.tables: list[tuple[str, list[list[str]]]] = []
        self._open: list[str] = []
        self._sections: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == [], f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.elements.append((tag, values))
        if tag in _VOID:
            return
        self._open.append(tag)
        if tag == "table":
            self.tables.append(("", []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][1][-1].append("")
        elif tag == "section":
            self._sections.append(values.get("aria-labelledby") or (self._sections or [""])[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"
        if tag not in _INLINE:
            self.handle_data(" ")
        if tag == "section":
            self._sections.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("style", "script"):
            return
        self.pieces.append(data)
        self._handle_cell(data)
        if self._sections:
            self.by_section[self._sections[-1]].append(data)

    def _handle_cell(self, data: str) -> None:
        if "caption" in self._open:
            self.tables[-1] = (self.tables[-1][0] + data, self.tables[-1][1])
        elif "td" in self._open or "th" in self._open:
            row = self.tables[-1][1][-1]
            row[-1] += data

    def cells(self, caption: str) -> list[list[str]]:
        """The rows of the table with that caption, its head first; empty if there is none."""
        return next((rows for name, rows in self.tables if name.startswith(caption)), [])

    @property
    def text(self) -> str:
        return " ".join("".join(self.pieces).split())

    def section(self, name: str) -> str:
        """The section's words, white space made single; empty if there is no such section."""
        return " ".join("".join(self.by_section[name]).split())

    def count(self, tag: str, class_: str | None = None) -> int:
        return sum(
            1
            for name, values in self.elements
            if name == tag and (class_ is None or class_ in (values.get("class") or "").split())
        )


def tokens(source: str) -> list[Token]:
    """All tokens of a Markdown text, inline ones too."""
    found: list[Token] = []
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        found.append(token)
        found.extend(token.children or ())
    return found


def table(source: str, caption: str) -> list[list[str]]:
    """The cells of the table under a caption, a paragraph of its own in bold, without the head."""
    seen, here, found = False, False, list[list[str]]()
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        if token.type == "inline" and not here:
            text = "".join(child.content for child in token.children or ())
            seen = token.content.startswith("**") and text.startswith(caption)
        elif token.type == "table_open":
            here = seen
        elif token.type == "table_close" and here:
            return found[1:]
        elif token.type == "tr_open" and here:
            found.append([])
        elif token.type == "inline" and here:
            found[-1].append("".join(child.content for child in token.children or ()))
    return []


def lines(source: str, heading: str) -> list[str]:
    """What stands under a heading outside of tables: paragraphs and lines of lists, as a reader sees them."""
    under, here, cells, found = False, False, False, list[str]()
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        if token.type == "heading_open":
            here = True
        elif token.type in ("table_open", "table_close"):
            cells = token.type == "table_open"
        elif token.type == "inline" and here:
            under, here = token.content == heading, False
        elif token.type == "inline" and under and not cells:
            found.append("".join(child.content for child in token.children or ()))
    return found


def rows(source: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, as a reader sees them, without the head; empty if none."""
    under, here, table = False, False, list[list[str]]()
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        if token.type == "heading_open":
            here = True
        elif token.type == "inline" and here:
            under, here = token.content.startswith(heading), False
        elif token.type == "tr_open" and under:
            table.append([])
        elif token.type == "inline" and under and table:
            table[-1].append("".join(child.content for child in token.children or ()))
    return table[1:]
