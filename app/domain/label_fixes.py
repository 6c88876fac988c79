"""Corrected labels as a change for source control: the golden set as it was received, with the answers of
some questions replaced, and the same as a patch that `git apply` takes.

A line ends at a line feed and nowhere else, as for the reader of golden sets.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from json.decoder import JSONDecoder

from app.domain.errors import Fault, InputError
from app.domain.review import Answers, Ruling, Standing

_CONTEXT = 3  # unchanged lines around a change
_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]+")
_NO_FILE_NAME = re.compile(r"[/\\\x00-\x1f\x7f]")


def label_fixes(standing: Mapping[str, Standing]) -> dict[str, Answers]:
    """The new answers of every question whose label is out of date by the decision that stands."""
    return {
        question: each.review.answers
        for question, each in standing.items()
        if each.counts and each.review.decision is Ruling.LABEL_OUT_OF_DATE
    }


def corrected(jsonl: str, fixes: Mapping[str, Answers]) -> str:
    """The questions' file with these answers. Only the value of `answers` is written anew; everything else
    stays byte for byte: other keys, their order and spacing, other lines, a BOM, line ends.

    `jsonl` is a file that was read without a fault. InputError for a question that it does not hold.
    """
    lines = jsonl.split("\n")
    left = dict(fixes)
    for number, line in enumerate(lines):
        if not left:
            break
        if not line.removeprefix("\ufeff").strip():
            continue
        members = dict(_members(line))
        answers = left.pop(str(members["id"].value), None)
        if answers is not None:
            lines[number] = _replaced(line, members["answers"], answers)
    if left:
        raise InputError([Fault(where="golden set", message=f"has no question {name!r}") for name in left])
    return "\n".join(lines)


def patch(name: str, before: str, after: str) -> bytes:
    """A unified diff from one text of the set to the other, for the file `golden/<name>.jsonl`; empty where
    they are the same. Both have the same number of lines.
    """
    old, new = _lines(before), _lines(after)
    changed = [at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    if not changed:
        return b""
    here, there = _path("a", name), _path("b", name)
    text = [f"diff --git {here} {there}\n", f"--- {here}\n", f"+++ {there}\n"]
    for first, last in _hunks(changed, len(old)):
        text.extend(_hunk(old, new, first, last))
    return "".join(text).encode()


class _Member:
    """A member of an object: its value, and where that stands in the text."""

    __slots__ = ("end", "start", "value")

    def __init__(self, value: object, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end


_DECODER = JSONDecoder(parse_int=str, parse_float=str)  # numbers are carried, never read


def _members(line: str) -> Iterator[tuple[str, _Member]]:
    """The members of the object that the line is."""
    place = line.index("{") + 1
    while True:
        key, place = _DECODER.raw_decode(line, _past_space(line, place))
        start = _past_space(line, line.index(":", place) + 1)
        value, place = _DECODER.raw_decode(line, start)
        yield key, _Member(value, start, place)
        place = _past_space(line, place)
        if line[place] == "}":
            return
        place += 1  # the comma


def _past_space(line: str, place: int) -> int:
    found = _SPACE.match(line, place)
    return found.end() if found else place


def _replaced(line: str, member: _Member, answers: Answers) -> str:
    """The line with other answers, in its own style: spaces after commas, escapes outside ASCII."""
    spaced = line[member.start - 1] != ":"
    text = json.dumps(answers, ensure_ascii="\\u" in line, separators=(", ", ": ") if spaced else (",", ":"))
    return f"{line[: member.start]}{text}{line[member.end :]}"


def _lines(text: str) -> list[str]:
    """The lines, each with its end; the last may have none."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    return lines if lines[-1] else lines[:-1]


def _hunks(changed: Sequence[int], lines: int) -> Iterator[tuple[int, int]]:
    """First and last line (exclusive) of every run of changes whose surroundings touch."""
    first = last = changed[0]
    for at in changed[1:]:
        if at - last > 2 * _CONTEXT:
            yield max(0, first - _CONTEXT), min(lines, last + _CONTEXT + 1)
            first = at
        last = at
    yield max(0, first - _CONTEXT), min(lines, last + _CONTEXT + 1)


def _hunk(old: Sequence[str], new: Sequence[str], first: int, last: int) -> Iterator[str]:
    yield f"@@ -{first + 1},{last - first} +{first + 1},{last - first} @@\n"
    at = first
    while at < last:
        if old[at] == new[at]:
            yield _marked(" ", old[at])
            at += 1
            continue
        end = next((place for place in range(at, last) if old[place] == new[place]), last)
        yield from (_marked("-", line) for line in old[at:end])
        yield from (_marked("+", line) for line in new[at:end])
        at = end


def _marked(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _path(side: str, name: str) -> str:
    """The path as git writes it: in quotes with octal escapes where it is not plain. A name never leads out
    of the folder.
    """
    path = f"{side}/golden/{_NO_FILE_NAME.sub('_', name)}.jsonl"
    if _PLAIN_PATH.fullmatch(path):
        return path
    quoted = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x22 else f"\\{byte:03o}"  # noqa: PLR2004 — ASCII, quote
        for byte in path.encode("utf-8", "replace")
    )
    return f'"{quoted}"'
