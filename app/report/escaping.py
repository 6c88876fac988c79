r"""Text from outside (questions, ids, titles, passages, messages of a service) made fit to be shown.

Whatever does not show itself, or changes how its surroundings look, becomes a visible escape such as
`\u001b`: control characters, bidi controls, invisible format characters, lone surrogates, what XML cannot
hold. Pipeline commands are broken up, so that no log of a build agent obeys a question.
"""

import re

_FORMAT = (
    r"\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # bidi, invisible, line ends
    r"\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"  # surrogates without their other half, no characters
    r"\U000e0000-\U000e007f"  # tags: a second text that nobody sees
)
_UNSEEN = re.compile(rf"[\x00-\x1f\x7f-\x9f{_FORMAT}]")
_UNSEEN_IN_LINES = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_FORMAT}]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_COMMAND = re.compile(r"##(?=(?:vso)?\[)", re.IGNORECASE)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# where a renderer would make a link, a mention, a reference or a picture of plain text
_LINK = re.compile(r"//|@|www\.|[#!]\d|\w\.[^\W\d_]{2,}|^\W*[A-Za-z][\w+.-]*:\S|:[\w+-]+:")
_MARKUP = re.compile(r"[\\`*\[\]<>&#|~$^]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK = re.compile(r"(?:[-+=]+|\d+[.)])(?: |$)")  # at the start: a list, a rule, a heading's line


def visible(text: str, *, lines: bool = False) -> str:
    """The text with every unseen character as an escape; with `lines`, line ends and tabs stay."""
    unseen = _UNSEEN_IN_LINES if lines else _UNSEEN
    shown = unseen.sub(_escape, text.replace("\r\n", "\n") if lines else text)
    return _COMMAND.sub(r"\\u0023#", shown)


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, as visible escapes; all else as it is."""
    return _SURROGATE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004 — the plane's end


def clipped(text: str, characters: int) -> str:
    """At most that many characters; an ellipsis says that some are missing."""
    return text if len(text) <= characters else f"{text[: characters - 1].rstrip()}…"


def markdown_prose(text: str, *, characters: int = 600) -> str:
    """The text as one line of Markdown that renders as itself: no markup, no HTML, no link, no table cell.

    Markup characters become numeric references, which hold in tables too. Words of which a renderer might
    make a link or a mention become code.
    """
    words = clipped(visible(text), characters).split(" ")
    shown = " ".join(_word(word) for word in words).strip()
    if _BLOCK.match(shown):
        shown = f"&#{ord(shown[0])};{shown[1:]}"
    return shown or "(empty)"


def _word(word: str) -> str:
    if not _LINK.search(word):
        return _MARKUP.sub(_reference, word)
    name = word.rstrip(",;.:)")
    return f"{markdown_code(name)}{word[len(name) :]}"


def _reference(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def markdown_code(text: str, *, characters: int = 200) -> str:
    """The text as Markdown code. Backticks and pipes, which no renderer reads alike, are escaped visibly."""
    shown = clipped(visible(text), characters).strip().replace("`", "\\u0060").replace("|", "\\u007c")
    return f"`{shown}`" if shown else "(empty)"
