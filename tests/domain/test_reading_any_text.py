"""Whatever text comes in, there is a golden set or a list of faults, and nothing else."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.domain.errors import InputError
from app.domain.golden import GoldenSet, GoldenTexts, Question
from app.domain.policy import Policy
from app.domain.query import QuerySettings
from app.domain.reading import decoded, read_golden_set
from tests.domain.making import line

_ANY_TEXT = st.text(st.characters(), max_size=60)  # surrogates and control characters too
_KEYS = st.sampled_from([*Question.__dataclass_fields__, "document", "start", "end", "text"]) | _ANY_TEXT
_HUGE = st.integers(1, 6000).map(lambda digits: int("1" + "0" * min(digits, 4200)))
_LEAVES = st.none() | st.booleans() | st.integers() | _HUGE | st.floats() | _ANY_TEXT
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4)
)
_OBJECTS = st.dictionaries(_KEYS, _VALUES, max_size=8)

_NAMES = st.sampled_from(
    [
        *QuerySettings.__dataclass_fields__,
        *Policy.__dataclass_fields__,
        "owner",
        "review_by",
        "query",
        "policy",
    ]
)
_TOML_VALUES = st.sampled_from(
    [
        "1", "-1", "0x" + "f" * 5000, "9" * 5000, "1e999", "nan", "inf", "1.5", "true", '"a"', "''", '" "',
        '"\ud83d"', '"\\u0000"', "[]", "['a', 'a']", "[[['a']]]", "{}", "{a = 1}", "2027-03-01", "07:32:00",
        "2027-03-01T07:32:00Z", "[" * 300 + "]" * 300, "[" * 5000, '"""\nk = 1\n"""',
    ]
)  # fmt: skip
_HEADINGS = st.sampled_from(
    [
        "[query]",
        "[policy]",
        "[query.baseline]",
        "[query.candidate]",
        "[query.embedding]",
        "[[query]]",
        "[x.y]",
    ]
)
_TOML_LINES = st.lists(
    _HEADINGS | st.builds("{} = {}".format, _NAMES, _TOML_VALUES) | _ANY_TEXT, max_size=8
).map("\n".join)


def _read(jsonl: str, toml: str | None) -> GoldenSet | InputError:
    try:
        return read_golden_set(GoldenTexts(name="any", jsonl=jsonl, toml=toml))
    except InputError as error:
        return error


def _is_read_or_refused(jsonl: str, toml: str | None) -> None:
    found = _read(jsonl, toml)
    if isinstance(found, GoldenSet):
        assert found.digest.startswith("sha256:")
        assert len(found.digest) == len("sha256:") + 64
        return
    last = {"any.jsonl": jsonl.count("\n") + 1, "any.toml": (toml or "").count("\n") + 1}
    assert found.faults
    assert all(fault.message and fault.where in last for fault in found.faults)
    assert all(fault.line is None or 1 <= fault.line <= last[fault.where] for fault in found.faults)
    str(found).encode()  # can be printed and sent


@given(jsonl=_ANY_TEXT, toml=st.none() | _ANY_TEXT)
def test_any_text(jsonl: str, toml: str | None) -> None:
    _is_read_or_refused(jsonl, toml)


@given(lines=st.lists(_OBJECTS, max_size=4), escaped=st.booleans())
@example(lines=[{"id": "a", "question": "b", "answers": [["c"]]}], escaped=True)
def test_any_objects(lines: list[dict[str, Any]], escaped: bool) -> None:
    _is_read_or_refused("\n".join(json.dumps(each, ensure_ascii=escaped) for each in lines), None)


@given(keys=st.dictionaries(st.sampled_from(list(Question.__dataclass_fields__)), _VALUES, max_size=3))
@settings(max_examples=200)
def test_any_values_in_an_ordinary_question(keys: dict[str, Any]) -> None:
    _is_read_or_refused(json.dumps({**json.loads(line()), **keys}), None)


@given(opening=st.sampled_from(["[", '{"a":', '{"id": "a", "metadata": [']), depth=st.integers(1, 20_000))
@settings(max_examples=30)
def test_any_depth(opening: str, depth: int) -> None:
    closing = {"[": "]"}.get(opening, "}")
    _is_read_or_refused(opening * depth + "1" + closing * depth, None)
    _is_read_or_refused(opening * depth, None)


@given(toml=_TOML_LINES)
@settings(max_examples=300)
def test_any_settings(toml: str) -> None:
    _is_read_or_refused(line(), toml)


@given(data=st.binary(max_size=80))
def test_any_bytes(data: bytes) -> None:
    with suppress(InputError):
        _is_read_or_refused(decoded(data, "any.jsonl"), None)
