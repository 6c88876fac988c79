"""From the texts of a golden set to the set, or to every fault in them. One reader for files and requests."""

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from app.domain.errors import Fault, InputError
from app.domain.golden import GoldenSet, GoldenTexts, Question, digest
from app.domain.policy import Policy
from app.domain.query import QuerySettings

_QUESTION = TypeAdapter(Question)
_QUERY = TypeAdapter(QuerySettings)
_POLICY = TypeAdapter(Policy)
_SIDES = ("baseline", "candidate")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    question: Question


def decoded(data: bytes, where: str) -> str:
    """The file's text. UTF-8 only; a UTF-8 BOM is tolerated.

    Raises InputError that names the encoding where it can be told.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data[:64]:
        raise InputError([Fault(where=where, message="is UTF-16, not UTF-8: save it as UTF-8")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        message = f"is not UTF-8 (byte 0x{data[error.start]:02x}): save it as UTF-8"
        raise InputError([Fault(where=where, line=line, message=message)]) from None


def read_golden_set(texts: GoldenTexts) -> GoldenSet:
    """The set, or InputError with all faults of both texts, by file and line."""
    where_toml, where_jsonl = f"{texts.name}.toml", f"{texts.name}.jsonl"
    settings = _Settings.read(texts.toml, where_toml)
    context_size = min(query.context_size for query in settings.queries)
    lines, faults = _read_questions(texts.jsonl, where_jsonl, context_size)
    faults = [*settings.faults, *faults]
    if faults:
        raise InputError(faults)
    questions = tuple(line.question for line in lines)
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


def read_policy(table: Mapping[str, Any], where: str) -> Policy:
    """A policy from a TOML table or a JSON object; InputError with all faults."""
    document = _Document(where=where, text="", faults=[])
    policy = _table(_POLICY, table, "policy", document)
    if policy is None:
        raise InputError(document.faults)
    return policy


def overridden(policy: Policy, changes: Mapping[str, Any], where: str) -> Policy:
    """`policy` with some settings replaced; InputError with all faults in `changes`."""
    return read_policy({**_POLICY.dump_python(policy, mode="json"), **changes}, where)


# questions -----------------------------------------------------------------------------------------------


def _read_questions(text: str, where: str, context_size: int) -> tuple[list[_Line], list[Fault]]:
    lines: list[_Line] = []
    faults: list[Fault] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not raw.strip():
            continue
        question, messages = _read_question(raw.removesuffix("\r"), context_size)
        faults.extend(Fault(where=where, line=number, message=message) for message in messages)
        if question is not None:
            lines.append(_Line(number, question))
    faults.extend(_duplicate_ids(lines, where))
    return lines, sorted(faults, key=lambda fault: fault.line or 0)


def _duplicate_ids(lines: list[_Line], where: str) -> Iterable[Fault]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for line in lines:
        numbers[line.question.id].append(line.number)
    for name, places in numbers.items():
        if len(places) > 1:
            listed = ", ".join(str(place) for place in places)
            yield Fault(where=where, line=places[1], message=f"id {name!r} is used on lines {listed}")


def _read_question(raw: str, context_size: int) -> tuple[Question | None, list[str]]:
    faults: list[str] = []
    try:
        value = json.loads(raw, object_pairs_hook=_pairs_into(faults), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return None, [f"is not valid JSON: {_reason(error)}"]
    if not isinstance(value, dict):
        return None, ["is not a JSON object"]
    try:
        question = _QUESTION.validate_json(raw)
    except ValidationError as error:
        return None, [*faults, *_messages(error, Question.__dataclass_fields__)]
    faults.extend(_contradictions(question, context_size))
    return question, faults


def _pairs_into(faults: list[str]) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in items:
            if key in seen:
                faults.append(f"the key {key!r} stands twice in one object")
            seen.add(key)
        return dict(items)

    return pairs


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _contradictions(question: Question, context_size: int) -> Iterable[str]:
    if not question.require_all and not all(isinstance(entry, str) for entry in question.answers):
        yield "answers: an array of alternatives needs require_all = true"
        return
    if len(set(question.answers)) < len(question.answers):
        yield "answers: the same entry stands twice"
    if any(len(set(entry)) < len(entry) for entry in question.entries if question.require_all):
        yield "answers: the same document stands twice in one entry"
    if len(set(question.forbidden)) < len(question.forbidden):
        yield "forbidden: the same document stands twice"
    for document in question.labelled_documents:
        if document in question.forbidden:
            yield f"the document {document!r} is both an answer and forbidden"
    if question.require_all and len(question.entries) > context_size:
        yield (
            f"require_all with {len(question.entries)} entries can never hold in a context of "
            f"{context_size} chunks"
        )
    for span in question.spans:
        if span.end <= span.start:
            yield f"spans: end ({span.end}) must be above start ({span.start})"
        elif span.text is not None and len(span.text) != span.end - span.start:
            yield f"spans: text has {len(span.text)} characters, start and end say {span.end - span.start}"


# settings ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    queries: tuple[QuerySettings, QuerySettings]
    policy: Policy
    owner: str | None
    review_by: date | None
    faults: list[Fault]

    def canonical(self) -> dict[str, Any]:
        return {
            "owner": self.owner,
            "review_by": self.review_by and self.review_by.isoformat(),
            "query": [
                _QUERY.dump_python(query, mode="json", exclude_defaults=True) for query in self.queries
            ],
            "policy": _POLICY.dump_python(self.policy, mode="json", exclude_defaults=True),
        }

    @classmethod
    def read(cls, text: str | None, where: str) -> "_Settings":
        faults: list[Fault] = []
        content = _toml(text, where, faults)
        top = _Document(where=where, text=text or "", faults=faults)
        for key in content.keys() - {"owner", "review_by", "query", "policy"}:
            top.fault("", key, _unknown(key, ("owner", "review_by", "query", "policy")))
        owner = content.get("owner")
        if owner is not None and (not isinstance(owner, str) or not owner.strip()):
            top.fault("", "owner", "owner: must be a non-empty string")
            owner = None
        review_by = content.get("review_by")
        if review_by is not None and (not isinstance(review_by, date) or isinstance(review_by, datetime)):
            top.fault("", "review_by", "review_by: must be a date such as 2027-03-01, without quotes")
            review_by = None
        queries = _queries(top.table(content, "query"), top)
        policy = _table(_POLICY, top.table(content, "policy"), "policy", top) or Policy()
        return cls(queries=queries, policy=policy, owner=owner, review_by=review_by, faults=faults)


@dataclass(frozen=True, slots=True)
class _Document:
    where: str
    text: str
    faults: list[Fault]

    def fault(self, table: str, key: str, message: str) -> None:
        line = _line_of(self.text, table, key)
        self.faults.append(Fault(where=self.where, line=line, message=message))

    def table(self, content: Mapping[str, Any], name: str) -> dict[str, Any]:
        value = content.get(name, {})
        if isinstance(value, dict):
            return dict(value)
        self.fault("", name, f"{name}: must be a table, [{name}]")
        return {}


def _toml(text: str | None, where: str, faults: list[Fault]) -> dict[str, Any]:
    try:
        return tomllib.loads((text or "").removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        line = re.search(r"at line (\d+)", str(error))
        message = f"is not valid TOML: {error}"
        faults.append(Fault(where=where, line=int(line[1]) if line else None, message=message))
        return {}


def _queries(query: dict[str, Any], document: _Document) -> tuple[QuerySettings, QuerySettings]:
    sides = {side: document.table(query, side) for side in _SIDES}
    common = {key: value for key, value in query.items() if key not in _SIDES}
    before = len(document.faults)
    _table(_QUERY, common, "query", document)
    for side in _SIDES:
        _table(_QUERY, sides[side], f"query.{side}", document)
    if len(document.faults) > before:
        return QuerySettings(), QuerySettings()
    merged = tuple(_QUERY.validate_json(_json({**common, **sides[side]})) for side in _SIDES)
    for message in dict.fromkeys(message for settings in merged for message in settings.faults()):
        document.fault("query", "", f"[query] {message}")
    return merged[0], merged[1]


def _table(adapter: TypeAdapter[T], content: Mapping[str, Any], table: str, document: _Document) -> T | None:
    """The table's values, or None and its faults in the document."""
    try:
        return adapter.validate_json(_json(content))
    except ValidationError as error:
        names = (
            QuerySettings.__dataclass_fields__ if table.startswith("query") else Policy.__dataclass_fields__
        )
        for details in error.errors(include_url=False, include_context=True):
            key = str(details["loc"][0]) if details["loc"] else ""
            document.fault(table, key, f"[{table}] {_message(details, names)}")
        return None


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, default=str)


def _line_of(text: str, table: str, key: str) -> int | None:
    """The 1-based line where `key` of `[table]` stands, the table's own line where the key is not found."""
    current, heading = "", None
    for number, line in enumerate(text.split("\n"), start=1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        if header:
            current = header[1].replace(" ", "")
            heading = number if current == table else heading
        elif key and current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return heading


# messages ------------------------------------------------------------------------------------------------

_BY_KEY = {
    "answers": "answers: each entry is a non-empty string; with require_all also a non-empty array of them",
    "slice": "slice: must be a non-empty string or an array of them",
}


def _messages(error: ValidationError, names: Iterable[str]) -> list[str]:
    found = (_message(details, names) for details in error.errors(include_url=False))
    return list(dict.fromkeys(found))


def _message(details: ErrorDetails, names: Iterable[str]) -> str:
    path = details["loc"]
    key = str(path[0]) if path else ""
    if details["type"] in ("extra_forbidden", "unexpected_keyword_argument") and len(path) == 1:
        return _unknown(key, names)
    if details["type"] in ("missing", "missing_argument") and len(path) == 1:
        return f"{key}: is required"
    if details["type"] == "json_invalid":
        return "holds an escape that is no character (half of a surrogate pair)"
    if key in _BY_KEY:
        return _BY_KEY[key]
    place = ".".join(str(part) for part in path)
    reason = details["msg"][:1].lower() + details["msg"][1:]
    if details["type"] == "string_pattern_mismatch":
        reason = "must not be blank" if key != "embedding" else "must be an http or https address"
    return f"{place}: {reason}" if place else reason


def _unknown(key: str, names: Iterable[str]) -> str:
    close = get_close_matches(key, list(names), n=1)
    return f"{key}: is not a key of this format" + (f"; did you mean {close[0]!r}?" if close else "")
