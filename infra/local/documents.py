"""Documents as they arrive: checked against the definition, merged, and split into values and vectors."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from infra.local.definition import Definition, Field
from infra.local.errors import bad_request
from infra.local.store import Document

_KEY = re.compile(r"(?!_)[A-Za-z0-9_\-=]{1,1024}")
_ACTIONS = frozenset({"upload", "merge", "mergeOrUpload", "delete"})
_MAX_BATCH = 1000
_FLOAT32 = float(np.finfo(np.float32).max)
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")


class RejectedDocumentError(Exception):
    """One document of a batch is refused; the others go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one action of a batch."""

    key: str
    status: int
    error: str | None = None

    def body(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "status": self.error is None,
            "errorMessage": self.error,
            "statusCode": self.status,
        }


def read_batch(body: Any) -> Sequence[Mapping[str, Any]]:
    actions = body.get("value") if isinstance(body, dict) else None
    if not isinstance(actions, list) or not actions or not all(isinstance(part, dict) for part in actions):
        raise bad_request(
            "The request is invalid. Details: batch : No indexing actions found in the request."
        )
    if len(actions) > _MAX_BATCH:
        raise bad_request(f"Indexing batch must not contain more than {_MAX_BATCH} documents.")
    return actions


def apply_batch(
    definition: Definition, present: Mapping[str, Document], actions: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Document | None], list[Outcome]]:
    """What changes by key (None: deleted) and one outcome an action, in order. `present` is left alone."""
    changed: dict[str, Document | None] = {}
    outcomes = []
    for action in actions:
        values = dict(action)
        kind = values.pop("@search.action", "upload")
        key = values.get(definition.key)
        current = changed[key] if key in changed else present.get(str(key))
        try:
            _check_key(key, kind, definition)
            changed_to, status = _applied(definition, kind, values, current)
        except RejectedDocumentError as error:
            outcomes.append(Outcome(key=str(key), status=400, error=str(error)))
            continue
        if status == 404:
            outcomes.append(Outcome(key=str(key), status=404, error="Document not found."))
            continue
        changed[str(key)] = changed_to
        outcomes.append(Outcome(key=str(key), status=status))
    return changed, outcomes


def _check_key(key: object, kind: object, definition: Definition) -> None:
    if kind not in _ACTIONS:
        raise RejectedDocumentError(f"Unknown action '{kind}'.")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise RejectedDocumentError(
            f"Invalid document key: '{key}'. Keys of field '{definition.key}' can only contain letters, digits, "
            "underscore (_), dash (-), or equal sign (=), and must not begin with an underscore."
        )


def _applied(
    definition: Definition, kind: str, values: Mapping[str, Any], current: Document | None
) -> tuple[Document | None, int]:
    """The document after the action, and the status of the item: 201 for a new one, 200 otherwise."""
    if kind == "delete":
        return None, 200
    if kind == "merge" and current is None:
        return None, 404
    given = read_document(definition, values)
    if kind == "upload" or current is None:
        return _complete(definition, given), 200 if current is not None else 201
    nulled = {name for name, value in values.items() if value is None}
    kept = {name: vector for name, vector in current.vectors.items() if name not in nulled}
    return Document(body=current.body | given.body, vectors=kept | given.vectors), 200


def _complete(definition: Definition, given: Document) -> Document:
    """An uploaded document: what was not given is null, and an empty list for a collection."""
    body = {
        field.path: given.body.get(field.path, [] if field.type.startswith("Collection") else None)
        for field in definition.fields.values()
        if "/" not in field.path and field.space is None
    }
    return Document(body=body, vectors=given.vectors)


def read_document(definition: Definition, values: Mapping[str, Any]) -> Document:
    """Values and vectors of a document, types checked."""
    body: dict[str, Any] = {}
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    for name, value in values.items():
        field = definition.fields.get(name)
        if field is None or "/" in name:
            raise RejectedDocumentError(
                f"The property '{name}' does not exist on type 'search.documentFields'. "
                "Make sure to only use property names that are defined by the type."
            )
        if field.space is None:
            body[name] = _checked(value, field.type, name, definition)
        elif value:
            vectors[name] = _vector(value, field)
    return Document(body=body, vectors=vectors)


def _vector(value: Any, field: Field) -> npt.NDArray[np.float32]:
    wanted = field.space.dimensions if field.space else 0
    if not isinstance(value, list) or not all(_is_number(item, largest=_FLOAT32) for item in value):
        raise RejectedDocumentError(f"The vector field '{field.path}' must be a list of numbers.")
    if len(value) != wanted:
        raise RejectedDocumentError(
            f"There's a mismatch in vector dimensions. The vector field '{field.path}', with dimension of "
            f"'{wanted}', expects a length of '{wanted}'. However, the provided vector has a length of "
            f"'{len(value)}'. Please ensure that the vector length matches the expected length of the vector field."
        )
    return np.asarray(value, dtype=np.float32)


def _checked(value: Any, kind: str, path: str, definition: Definition) -> Any:
    """The value if it is of its EDM type."""
    if kind.startswith("Collection("):
        inner = kind.removeprefix("Collection(").removesuffix(")")
        items = [] if value is None else value
        if not isinstance(items, list) or any(item is None for item in items):
            raise RejectedDocumentError(f"The field '{path}' must be a list without nulls.")
        return [_checked(item, inner, path, definition) for item in items]
    if value is None:
        return None
    if kind == "Edm.ComplexType":
        return _checked_parts(value, path, definition)
    if not _CHECKS[kind](value):
        raise RejectedDocumentError(f"Cannot convert the value of the field '{path}' to the type '{kind}'.")
    return value


def _checked_parts(value: Any, path: str, definition: Definition) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RejectedDocumentError(f"The field '{path}' must be an object.")
    parts = {}
    for name, part in value.items():
        field = definition.fields.get(f"{path}/{name}")
        if field is None:
            raise RejectedDocumentError(f"The property '{path}/{name}' does not exist.")
        parts[name] = _checked(part, field.type, field.path, definition)
    return parts


def _is_number(value: object, *, largest: float = sys.float_info.max) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= largest


def _is_date(value: object) -> bool:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "Edm.String": lambda value: isinstance(value, str),
    "Edm.Boolean": lambda value: isinstance(value, bool),
    "Edm.Int32": lambda value: _is_integer(value) and -(2**31) <= value < 2**31,
    "Edm.Int64": lambda value: _is_integer(value) and -(2**63) <= value < 2**63,
    "Edm.Double": lambda value: _is_number(value) or value in {"NaN", "INF", "-INF"},
    "Edm.Single": _is_number,
    "Edm.Half": _is_number,
    "Edm.Int16": _is_integer,
    "Edm.SByte": _is_integer,
    "Edm.Byte": _is_integer,
    "Edm.DateTimeOffset": _is_date,
    "Edm.GeographyPoint": lambda value: isinstance(value, dict),
}
