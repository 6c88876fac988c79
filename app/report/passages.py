"""Passages made short enough to read beside each other, with the words of the question marked in them."""

import re

from markupsafe import Markup, escape

from app.report.escaping import visible

CHARACTERS = 600  # of a passage that are shown
_LEAD = 60  # characters shown before the first marked word of the cut
_WORD = re.compile(r"\w+")
_GAPS = re.compile(r"[ \t]*\n\s*")
_SHORTEST = 3  # letters of a word worth marking
_PLURAL = 5  # letters from which a word's last s is no part of it

# words that say nothing about where an answer is, in the two languages of the corpora known so far
_COMMON_WORDS = """
the and are but can did does for from had has have her his how into its may not one our out she than
that their them then there they this was were what when where which who whom why will with you your
aber als auch auf aus bei bin bis das dem den der des die ein eine einem einen einer eines für hat
hier ich ihr ist kann mich mir mit muss nach nicht oder sie sind und uns vom von vor was welche
welcher wenn wer wie wird wir woher zum zur über
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def terms(question: str) -> frozenset[str]:
    """The words of a question that are worth marking in a passage."""
    words = (found[0].casefold() for found in _WORD.finditer(question))
    return frozenset(_stem(word) for word in words if len(word) >= _SHORTEST and word not in _COMMON)


def _stem(word: str) -> str:
    return word[:-1] if len(word) >= _PLURAL and word.endswith("s") else word


def passage(text: str, wanted: frozenset[str], *, characters: int = CHARACTERS) -> Markup:
    """The part of a text that holds the most of the wanted words, escaped, those words marked.

    Empty lines are left out; an ellipsis stands where something was cut away.
    """
    shown = _GAPS.sub("\n", visible(text.strip(), lines=True))
    found = [
        (match.start(), match.end(), stem)
        for match in _WORD.finditer(shown)
        if (stem := _stem(match[0].casefold())) in wanted
    ]
    start, end = _cut(shown, found, characters)
    pieces = [Markup("…")] if start else []
    at = start
    for first, last, _ in found:
        if first >= at and last <= end:
            pieces.append(escape(shown[at:first]))
            pieces.append(Markup("<mark>{}</mark>").format(shown[first:last]))
            at = last
    pieces.append(escape(shown[at:end].rstrip() if end < len(shown) else shown[at:end]))
    if end < len(shown):
        pieces.append(Markup("…"))
    return Markup().join(pieces)


def _cut(text: str, found: list[tuple[int, int, str]], characters: int) -> tuple[int, int]:
    """Start and end of the cut: the first window with the most different wanted words."""
    if len(text) <= characters:
        return 0, len(text)
    best, start = 0, 0
    for first, _, _ in found:
        begin = _after_space(text, max(0, min(first - _LEAD, len(text) - characters)))
        inside = {stem for at, to, stem in found if begin <= at and to <= begin + characters}
        if len(inside) > best:
            best, start = len(inside), begin
    end = min(len(text), start + characters)
    space = text.rfind(" ", start, end)
    return start, space if end < len(text) and space > start + characters // 2 else end


def _after_space(text: str, at: int) -> int:
    """The start of the next word within reach, so that no word is cut in two."""
    space = text.find(" ", at, at + _LEAD)
    return at if at == 0 or space < 0 else space + 1
