"""What a configuration store holds: values by key and label, with etags and locks, and the filters of lists."""

import json
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from infra.local.catalogue import Precondition
from infra.local.store import Resource, Store

_KIND = "key-value"
_PART = re.compile(r"(?:[^,\\]|\\.)+", re.DOTALL)
_MOST_PARTS = 5
_WRITABLE = frozenset({"value", "content_type", "tags", "description"})
_IGNORED = frozenset(
    {"key", "label", "etag", "last_modified", "locked"}
)  # said by the address and the service
NO_LABEL = "\0"


class Refusal(Exception):  # noqa: N818 - it is what the service answers
    """Status and the members of a problem document."""

    def __init__(self, status: int, title: str, **members: Any) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.members = members

    def body(self) -> dict[str, Any]:
        return {"title": self.title, **self.members, "status": self.status}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """`label` None is no label. Values and content types may be null, as in the service."""

    key: str
    label: str | None
    value: str | None = None
    content_type: str | None = None
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    locked: bool = False
    etag: str
    last_modified: str

    def body(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("etag", "key", "label", "content_type", "value")}
        told |= {"tags": dict(self.tags), "locked": self.locked, "last_modified": self.last_modified}
        return told if self.description is None else {**told, "description": self.description}


class KeyValues:
    """Everything the store knows. Thread-safe; on disk when a call returns."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._kept = {
            (found.key, found.label): found
            for found in (KeyValue(**each.body, etag=each.etag) for each in store.resources(_KIND))
        }

    def get(self, key: str, label: str | None) -> KeyValue | None:
        with self._lock:
            return self._kept.get((key, label))

    def put(self, key: str, label: str | None, body: Any, condition: Precondition) -> KeyValue:
        given = _writable(body)
        with self._lock:
            before = self._kept.get((key, label))
            _check(condition, before)
            _refuse_locked(before)
            return self._keep(KeyValue(key=key, label=label, etag=_new_etag(), last_modified=_now(), **given))

    def delete(self, key: str, label: str | None, condition: Precondition) -> KeyValue | None:
        """What was there; None for nothing, which is no error."""
        with self._lock:
            before = self._kept.get((key, label))
            _check(condition, before)
            _refuse_locked(before)
            if before is not None:
                del self._kept[key, label]
                self._store.delete_resource(_KIND, _name(key, label))
            return before

    def lock(self, key: str, label: str | None, condition: Precondition, *, locked: bool) -> KeyValue | None:
        """The key-value, locked or unlocked; None if there is none."""
        with self._lock:
            before = self._kept.get((key, label))
            _check(condition, before)
            if before is None or before.locked is locked:
                return before
            return self._keep(replace(before, locked=locked, etag=_new_etag(), last_modified=_now()))

    def listed(self, keys: str | None, labels: str | None) -> list[KeyValue]:
        """By key and label, those without a label first. None is no filter."""
        fits_key, fits_label = _filter(keys, "key"), _filter(labels, "label")
        with self._lock:
            found = [
                each
                for each in self._kept.values()
                if fits_key(each.key) and fits_label(each.label or NO_LABEL)
            ]
        return sorted(found, key=lambda each: (each.key, each.label or ""))

    def _keep(self, kept: KeyValue) -> KeyValue:
        self._kept[kept.key, kept.label] = kept
        body = {**kept.body(), "description": kept.description}
        del body["etag"]
        self._store.put_resource(_KIND, Resource(name=_name(kept.key, kept.label), etag=kept.etag, body=body))
        return kept


def checked_key(key: str) -> str:
    if key in {".", "..", "%"}:
        raise Refusal(400, f"The key '{key}' is not allowed.", name="key")
    return key


def checked_label(label: str | None) -> str | None:
    """The label of one key-value: none where it is left out, empty or NUL; no wildcards."""
    if not label or label == NO_LABEL:
        return None
    if "*" in label or "," in label:
        raise Refusal(
            400, "Invalid request parameter 'label'", name="label", detail="no filter is allowed here"
        )
    return label


def _writable(body: Any) -> dict[str, Any]:
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise Refusal(400, "The body must be a JSON object.")
    unknown = sorted(body.keys() - _WRITABLE - _IGNORED)
    if unknown:
        raise Refusal(400, f"Invalid request body: unknown property '{unknown[0]}'", name=unknown[0])
    given = {name: value for name, value in body.items() if name in _WRITABLE}
    tags = given.pop("tags", None) or {}
    texts_only = all(isinstance(value, str | None) for value in given.values())
    if not texts_only or not isinstance(tags, dict) or not all(isinstance(tag, str) for tag in tags.values()):
        raise Refusal(400, "Invalid request body: values and tags are texts")
    return {**given, "tags": tags}


def _check(condition: Precondition, found: KeyValue | None) -> None:
    if not condition.holds(None if found is None else found.etag):
        raise Refusal(412, "The precondition of the request is not met.")


def _refuse_locked(found: KeyValue | None) -> None:
    if found is not None and found.locked:
        raise Refusal(
            409,
            f"Modifing key '{found.key}' is not allowed",  # the service's own spelling
            type="https://azconfig.io/errors/key-locked",
            name=found.key,
            detail="The key is read-only. To allow modification unlock it first.",
        )


def _filter(text: str | None, name: str) -> Callable[[str], bool]:
    """What a filter lets through: texts between commas, a `*` at an end for any rest, a backslash before what
    is meant as it is. An empty one is refused: the service has no such text.
    """
    if text is None or text == "*":
        return lambda _: True
    parts = _PART.findall(text)
    if not parts or len(parts) > _MOST_PARTS or ",".join(parts) != text:
        raise Refusal(400, f"Invalid request parameter '{name}'", name=name, detail="this is no filter")
    patterns = [re.compile(_pattern(part, name), re.DOTALL) for part in parts]
    return lambda value: any(pattern.fullmatch(value) for pattern in patterns)


def _pattern(part: str, name: str) -> str:
    ends_open = part.endswith("*") and not part.endswith("\\*")
    text = part[:-1] if ends_open else part
    if re.search(r"(?<!\\)\*", text):
        raise Refusal(
            400, f"Invalid request parameter '{name}'", name=name, detail="'*' stands at the end only"
        )
    return re.escape(re.sub(r"\\(.)", r"\1", text)) + (".*" if ends_open else "")


def _name(key: str, label: str | None) -> str:
    return json.dumps([key, label])


def _new_etag() -> str:
    return uuid.uuid4().hex


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
