"""The run record as JSON (the contract's run.json), and the run alone."""

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from pydantic_core import PydanticSerializationError

from app.domain.outcome import QuestionResult
from app.domain.run import Run
from app.domain.schema import adapter
from app.report.escaping import encodable


def run_json(run: Run) -> bytes:
    """The run without its questions."""
    return _json(Run, run)


def json_chunks(run: Run, results: Iterable[QuestionResult]) -> Iterator[bytes]:
    """The run with its questions, in pieces of at most a question each."""
    yield run_json(run).removesuffix(b"}") + b',"questions":['
    separator = b""
    for each in results:
        yield separator + _json(QuestionResult, each)
        separator = b","
    yield b"]}"


def _json(kind: Any, value: Any) -> bytes:
    """UTF-8. Half a surrogate pair, which no strict reader takes, becomes a visible escape; NaN is null."""
    try:
        return adapter(kind).dump_json(value)
    except (PydanticSerializationError, UnicodeEncodeError):  # in a value, in a key
        return adapter(Any).dump_json(_encodable(adapter(kind).dump_python(value)))


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return encodable(value)
        case dict():
            return {_encodable(key): _encodable(each) for key, each in value.items()}
        case list() | tuple():
            return [_encodable(each) for each in value]
        case float():
            return value if isfinite(value) else None
        case _:
            return value
