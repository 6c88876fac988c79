"""From the texts of a golden set to the set, or to every fault in them. One reader for files and requests."""

import json
import math
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.domain.errors import Fault, InputError
from app.domain.golden import GoldenSet, GoldenTexts, Question, digest
from app.domain.policy import Policy
from app.domain.query import QuerySettings
from app.domain.schema import adapter

_SIDES = ("baseline", "candidate")
_TOP = ("owner", "review_by", "query", "policy")
_LEVELS = 50  # arrays and objects in each other: the run record around them must be readable again
_BITS = 1024  # of a whole number: as far as a floating-point number reaches
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_MISSING = ("missing", "missing_argument")

T = TypeVar("T", Question, QuerySettings, Policy)


def decoded(data: bytes, where: str) -> str:
    """The file's text as it is, its BOM too if it has one. UTF-8 only.

    Raises InputError that names the encoding where it can be told.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data[:64]:
        raise InputError([Fault(where=where, message="is UTF-16, not UTF-8: save it as UTF-8")])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        message = f"is not UTF-8 (byte 0x{data[error.start]:02x}): save it as UTF-8"
        raise InputError([Fault(where=where, line=line, message=message)]) from None


def read_golden_set(texts: GoldenTexts) -> GoldenSet:
    """The set, or InputError with all faults of both texts, by file and line."""
    settings = _Settings.read(texts.toml or "", f"{texts.name}.toml")
    questions, faults = _read_questions(texts.jsonl, f"{texts.name}.jsonl", settings.context_size)
    if not faults:
        settings.refuse_unknown_slices(questions)
    faults = [*_by_line(settings.document.faults), *faults]
    if faults:
        raise InputError(faults)
    return GoldenSet(
        name=texts.name,
        questions=questions,
        baseline_query=settings.queries[0],
        candidate_query=settings.queries[1],
        policy=settings.policy,
        owner=settings.owner,
        review_by=settings.review_by,
        digest=digest(questions, settings.canonical()),
    )


def overridden(policy: Policy, changes: Mapping[str, Any], where: str) -> Policy:
    """`policy` with some settings replaced; InputError with all faults in `changes`."""
    document = _Document(where=where, text="", faults=[])
    sound = document.sound(_POLICY, changes, "policy")
    if document.faults:
        raise InputError(document.faults)
    return _POLICY.value({**adapter(Policy).dump_python(policy, mode="json"), **sound})


def read_policy_table(text: str, where: str) -> dict[str, Any]:
    """The settings in a TOML text's `[policy]`, everything else in it left aside; InputError with all faults."""
    document = _Document(where=where, text=text, faults=[])
    content = document.content()
    sound = document.sound(_POLICY, document.table(content, "policy"), "policy")
    if not document.faults and not sound:
        document.fault((), "names no setting under [policy]")
    if document.faults:
        raise InputError(document.faults)
    return sound


# one object ----------------------------------------------------------------------------------------------

_Faults = list[tuple[tuple[str, ...], str]]  # each with the path to what it is about


class _Schema(Generic[T]):
    """A strict reader of one kind of object. `required`: stand-ins for the keys that have no default."""

    def __init__(self, kind: type[T], required: Mapping[str, Any] | None = None) -> None:
        self.kind: type[T] = kind
        self.names = tuple(each.name for each in fields(kind))
        self.required = required or {}

    def value(self, sound: Mapping[str, Any]) -> T:
        """The value of a sound part, with stand-ins for the required keys that are not in it."""
        return adapter(self.kind).validate_json(json.dumps({**self.required, **sound}))

    def sound_part(self, content: Mapping[str, Any]) -> tuple[dict[str, Any], _Faults]:
        """The keys without a fault, and every fault; so that one of them does not hide another."""
        faults: _Faults = [
            ((key,), f"{_shown(key)}: {reason}")
            for key, each in content.items()
            if (reason := _unfit(key) or _unfit(each))
        ]
        unfit = {path[0] for path, _ in faults}
        sound = {key: each for key, each in content.items() if key not in unfit}
        try:
            adapter(self.kind).validate_json(json.dumps(sound))
        except ValidationError as error:
            for details in error.errors(include_url=False):
                path = tuple(str(part) for part in details["loc"])
                if path[0] not in unfit:
                    faults.append((path, _message(details, self.names)))
        faulty = {path[0] for path, _ in faults}
        return {key: each for key, each in sound.items() if key not in faulty}, faults


_QUESTION = _Schema(Question, required={"id": "-", "question": "-", "answers": []})
_QUERY = _Schema(QuerySettings)
_POLICY = _Schema(Policy)


def _unfit(value: Any, levels: int = _LEVELS) -> str | None:
    """Why the record of a run could not carry this value as it stands, None where it can."""
    match value:
        case _ if levels == 0:
            return "is nested too deeply"
        case str():
            return "holds half of a surrogate pair" if _HALF_CHARACTER.search(value) else None
        case int():
            return "holds a number that is too large" if value.bit_length() > _BITS else None
        case float():
            return None if math.isfinite(value) else "holds a number that is not finite"
        case date() | time():
            return "must not be a date or a time"
        case dict():
            inner: Iterable[Any] = (*value.keys(), *value.values())
        case list():
            inner = value
        case _:
            return None
    return next((reason for each in inner if (reason := _unfit(each, levels - 1))), None)


# questions -----------------------------------------------------------------------------------------------


def _read_questions(
    text: str, where: str, context_size: int | None
) -> tuple[tuple[Question, ...], list[Fault]]:
    """The questions, each as far as it is sound, and all faults in the order of their lines."""
    questions: list[Question] = []
    faults: list[Fault] = []
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not raw.strip():
            continue
        value, messages = _json_object(raw)
        if value is not None:
            question, more = _read_question(value, context_size)
            questions.append(question)
            messages.extend(more)
            if isinstance(value.get("id"), str):
                lines[value["id"]].append(number)
        faults.extend(Fault(where=where, line=number, message=message) for message in messages)
    faults.extend(_duplicate_ids(lines, where))
    return tuple(questions), _by_line(faults)


def _duplicate_ids(lines: Mapping[str, list[int]], where: str) -> Iterator[Fault]:
    for name, places in lines.items():
        if len(places) > 1:
            listed = ", ".join(str(place) for place in places)
            yield Fault(where=where, line=places[1], message=f"id {name!r} is used on lines {listed}")


def _json_object(raw: str) -> tuple[dict[str, Any] | None, list[str]]:
    """The line's object, if it is one, and what is wrong with its JSON."""
    faults: list[str] = []

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        times = Counter(key for key, _ in pairs)
        faults.extend(f"the key {key!r} stands twice in one object" for key, n in times.items() if n > 1)
        return dict(pairs)

    try:
        value = json.loads(raw, object_pairs_hook=without_duplicates)
    except json.JSONDecodeError as error:
        return None, [f"is not valid JSON: {error.msg} at column {error.colno}"]
    except RecursionError:
        return None, ["is nested too deeply"]
    except ValueError:  # more digits than Python converts
        return None, ["holds a number that is too large"]
    return (value, faults) if isinstance(value, dict) else (None, ["is not a JSON object"])


def _read_question(value: Mapping[str, Any], context_size: int | None) -> tuple[Question, list[str]]:
    """The question as far as it is sound, and all that is wrong with it."""
    sound, faults = _QUESTION.sound_part(value)
    faults.extend(
        ((key,), f"{key}: null is not a value; leave the key out")
        for key, each in sound.items()
        if each is None
    )
    if "require_all" in value and "require_all" not in sound:
        sound.pop("answers", None)  # what they mean is not known
    question = _QUESTION.value(sound)
    messages = (*(message for _, message in faults), *_contradictions(question, context_size))
    return question, list(dict.fromkeys(messages))


def _contradictions(question: Question, context_size: int | None) -> Iterator[str]:
    if not question.require_all and not all(isinstance(entry, str) for entry in question.answers):
        yield "answers: an array of alternatives needs require_all = true"
    yield from _repetitions(question)
    for document in question.labelled_documents:
        if document in question.forbidden:
            yield f"the document {document!r} is both an answer and forbidden"
    if question.require_all and context_size is not None and len(question.answers) > context_size:
        yield (
            f"require_all with {len(question.answers)} entries can never hold in a context of "
            f"{context_size} chunks"
        )
    for span in question.spans:
        if span.end <= span.start:
            yield f"spans: end ({span.end}) must be above start ({span.start})"
        elif span.text is not None and len(span.text) != span.end - span.start:
            yield f"spans: text has {len(span.text)} characters, start and end say {span.end - span.start}"


def _repetitions(question: Question) -> Iterator[str]:
    entries = [(entry,) if isinstance(entry, str) else entry for entry in question.answers]
    if _repeats([frozenset(entry) for entry in entries]):
        yield "answers: the same entry stands twice"
    if any(_repeats(entry) for entry in entries):
        yield "answers: the same document stands twice in one entry"
    if _repeats(question.forbidden):
        yield "forbidden: the same document stands twice"
    if _repeats(question.slice):
        yield "slice: the same name stands twice"


def _repeats(values: Sequence[object]) -> bool:
    return len(set(values)) < len(values)


# settings ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """A TOML text, and the faults found in it."""

    where: str
    text: str
    faults: list[Fault]

    def fault(self, path: Sequence[str], message: str) -> None:
        line = _line_of(self.text, path)
        self.faults.append(Fault(where=self.where, line=line, message=message))

    def content(self) -> dict[str, Any]:
        """All that it says; nothing where it cannot be read."""
        if half := _HALF_CHARACTER.search(self.text):
            return self._unreadable(
                "holds half of a surrogate pair", self.text.count("\n", 0, half.start()) + 1
            )
        try:
            return tomllib.loads(self.text.removeprefix("\ufeff"))
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"at line (\d+)", str(error))
            end = self.text.count("\n") + 1
            return self._unreadable(f"is not valid TOML: {error}", int(line[1]) if line else end)
        except RecursionError:
            return self._unreadable("is nested too deeply")
        except ValueError:  # more digits than Python converts
            return self._unreadable("holds a number that is too large")

    def _unreadable(self, message: str, line: int | None = None) -> dict[str, Any]:
        self.faults.append(Fault(where=self.where, line=line, message=message))
        return {}

    def table(self, content: Mapping[str, Any], *path: str) -> dict[str, Any]:
        """The table at the end of the path, whose parent is `content`; empty where there is none."""
        value = content.get(path[-1], {})
        if isinstance(value, dict):
            return value
        name = ".".join(path)
        self.fault(path, f"{name}: must be a table, [{name}]")
        return {}

    def sound(self, schema: _Schema[Any], table: Mapping[str, Any], *path: str) -> dict[str, Any]:
        """The keys of a table that have no fault."""
        sound, faults = schema.sound_part(table)
        for key, message in faults:
            self.fault((*path, *key), f"[{'.'.join(path)}] {message}")
        return sound


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """What a set's TOML says, as far as it is sound. `context_size` is the smaller of both sides', None where
    a fault hides it.
    """

    document: _Document
    queries: tuple[QuerySettings, QuerySettings]
    policy: Policy
    owner: str | None
    review_by: date | None
    context_size: int | None

    @classmethod
    def read(cls, text: str, where: str) -> "_Settings":
        document = _Document(where=where, text=text, faults=[])
        content = document.content()
        readable = not document.faults
        for key in content:
            if key not in _TOP:
                document.fault((key,), _unknown(key, _TOP))
        queries, context_size = _queries(document, document.table(content, "query"))
        policy = _POLICY.value(document.sound(_POLICY, document.table(content, "policy"), "policy"))
        return cls(
            document=document,
            queries=queries,
            policy=policy,
            owner=_owner(document, content.get("owner")),
            review_by=_review_by(document, content.get("review_by")),
            context_size=context_size if readable else None,
        )

    def canonical(self) -> dict[str, Any]:
        """The effective settings without the defaults, for the digest."""
        return {
            "owner": self.owner,
            "review_by": self.review_by and self.review_by.isoformat(),
            "query": [
                adapter(QuerySettings).dump_python(query, mode="json", exclude_defaults=True)
                for query in self.queries
            ],
            "policy": adapter(Policy).dump_python(self.policy, mode="json", exclude_defaults=True),
        }

    def refuse_unknown_slices(self, questions: Sequence[Question]) -> None:
        """A protected slice without a question would guard nothing."""
        names = tuple(dict.fromkeys(name for question in questions for name in question.slice))
        for name in self.policy.protected_slices:
            if questions and name not in names:
                message = (
                    f"[policy] protected_slices: no question is in the slice {name!r}{_close(name, names)}"
                )
                self.document.fault(("policy", "protected_slices"), message)


def _owner(document: _Document, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    document.fault(("owner",), "owner: must be a non-empty string")
    return None


def _review_by(document: _Document, value: Any) -> date | None:
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    document.fault(("review_by",), "review_by: must be a date such as 2027-03-01, without quotes")
    return None


def _queries(
    document: _Document, query: Mapping[str, Any]
) -> tuple[tuple[QuerySettings, QuerySettings], int | None]:
    """Both sides' queries, and the smaller context size of the two."""
    tables = [
        ({key: value for key, value in query.items() if key not in _SIDES}, ("query",)),
        *((document.table(query, "query", side), ("query", side)) for side in _SIDES),
    ]
    common, *sides = [document.sound(_QUERY, table, *path) for table, path in tables]
    baseline, candidate = (_QUERY.value({**common, **side}) for side in sides)
    for message in dict.fromkeys((*baseline.faults(), *candidate.faults())):
        document.fault(("query",), f"[query] {message}")
    hidden = any(
        "context_size" in table and "context_size" not in sound
        for (table, _), sound in zip(tables, (common, *sides), strict=True)
    )
    return (baseline, candidate), None if hidden else min(baseline.context_size, candidate.context_size)


def _line_of(text: str, path: Sequence[str]) -> int | None:
    """The 1-based line of the key or heading that comes nearest to `path`; None where none leads there."""
    table: list[str] = []
    depth, nearest = 0, None
    for number, line in enumerate(text.split("\n"), start=1):
        if heading := re.match(r"\s*\[([^\[\]]+)\]", line):
            here = table = _parts(heading[1])
        elif assignment := re.match(r"\s*([^\s=#\[][^=#\[]*)=", line):
            here = [*table, *_parts(assignment[1])]
        else:
            continue
        if len(here) > depth and here == list(path[: len(here)]):
            depth, nearest = len(here), number
    return nearest


def _parts(dotted: str) -> list[str]:
    return [part.strip(" \t\"'") for part in dotted.split(".")]


def _by_line(faults: Iterable[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: fault.line or 0)


# messages ------------------------------------------------------------------------------------------------

_BY_KEY = {
    "answers": "answers: each entry is a non-empty string; with require_all also a non-empty array of them",
    "slice": "slice: must be a non-empty string or an array of them",
}


def _message(details: ErrorDetails, names: Sequence[str]) -> str:
    path = details["loc"]
    key, place = str(path[0]), ".".join(_shown(str(part)) for part in path)
    if details["type"] in _UNKNOWN:
        return _unknown(place, names if len(path) == 1 else ())
    if details["type"] in _MISSING:
        return f"{place}: is required"
    if key in _BY_KEY:
        return _BY_KEY[key]
    if details["type"] == "string_pattern_mismatch":
        return f"{place}: " + (
            "must be an http or https address" if path[-1] == "endpoint" else "must not be blank"
        )
    return f"{place}: {details['msg'][:1].lower()}{details['msg'][1:]}"


def _unknown(key: str, names: Sequence[str]) -> str:
    return f"{_shown(key)}: is not a key of this format{_close(key, names)}"


def _close(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _shown(key: str) -> str:
    """A key in a message; quoted and escaped where it could not be printed."""
    return key if key.isprintable() else repr(key)
