"""Indexes and aliases of the service: names, etags, preconditions, and which index an alias stands for."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.local.definition import Definition, check_name, check_update
from infra.local.errors import ServiceError, bad_request, precondition_failed
from infra.local.shelf import Shelf
from infra.local.store import Resource, Store

SERVICE = "local"
_INDEX = "index"
_ALIAS = "alias"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """The If-Match and If-None-Match of a request, as sent."""

    if_match: str | None = None
    if_none_match: str | None = None

    def holds(self, etag: str | None) -> bool:
        """Whether the resource (None: there is none) is the one the caller has seen."""
        if self.if_match is not None and not _matches(self.if_match, etag):
            return False
        return self.if_none_match is None or not _matches(self.if_none_match, etag)

    def check(self, etag: str | None) -> None:
        """412 unless it holds."""
        if not self.holds(etag):
            raise precondition_failed()


class Catalogue:
    """Everything the service knows by name. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._last_tick = 0
        self._shelves = {
            kept.name: Shelf(Definition.parse(kept.body), kept.etag, store)
            for kept in store.resources(_INDEX)
        }
        self._aliases = {kept.name: kept for kept in store.resources(_ALIAS)}

    def index(self, name: str) -> Shelf:
        """The index of a name or alias; 404 as GET words it."""
        with self._lock:
            shelf = self._shelves.get(self.resolved(name))
        if shelf is None:
            raise _no_index(name)
        return shelf

    def searched_index(self, name: str) -> Shelf:
        """The same; 404 as document operations word it."""
        try:
            return self.index(name)
        except ServiceError as error:
            raise ServiceError(404, f"The index '{name}' for service '{SERVICE}' was not found.") from error

    def resolved(self, name: str) -> str:
        """The index an alias stands for; any other name is itself."""
        with self._lock:
            alias = self._aliases.get(name)
            return name if alias is None else str(alias.body["indexes"][0])

    def indexes(self) -> list[Shelf]:
        with self._lock:
            return [self._shelves[name] for name in sorted(self._shelves)]

    def create_index(self, body: Mapping[str, Any]) -> Shelf:
        definition = Definition.parse(body)
        with self._lock:
            if definition.name in self._shelves or definition.name in self._aliases:
                raise ServiceError(
                    409,
                    f"Cannot create index '{definition.name}' because it already exists.",
                    code="ResourceNameAlreadyInUse",
                )
            return self._new_index(definition)

    def put_index(self, name: str, body: Mapping[str, Any], condition: Precondition) -> tuple[Shelf, bool]:
        """The index, and whether it is new."""
        if body.get("name") != name:
            raise bad_request(
                f"The name in the URL, '{name}', is not the name in the body, '{body.get('name')}'."
            )
        definition = Definition.parse(body)
        with self._lock:
            shelf = self._shelves.get(name)
            condition.check(None if shelf is None else shelf.etag)
            if shelf is None:
                if name in self._aliases:
                    raise bad_request(f"The name '{name}' is used by an alias.")
                return self._new_index(definition), True
            check_update(shelf.definition, definition)
            etag = self._etag()
            self._store.put_resource(_INDEX, Resource(name=name, etag=etag, body=definition.body))
            shelf.redefine(definition, etag)
            return shelf, False

    def delete_index(self, name: str, condition: Precondition) -> None:
        with self._lock:
            shelf = self._shelves.get(name)
            condition.check(None if shelf is None else shelf.etag)
            if shelf is None:
                raise _no_index(name)
            mapped = sorted(alias for alias, kept in self._aliases.items() if name in kept.body["indexes"])
            if mapped:
                raise bad_request(
                    f"Index '{name}' cannot be deleted because the alias '{mapped[0]}' maps to it."
                )
            self._store.delete_resource(_INDEX, name)
            self._store.delete_documents_of(name)
            del self._shelves[name]

    def alias(self, name: str) -> Resource:
        with self._lock:
            alias = self._aliases.get(name)
        if alias is None:
            raise ServiceError(404, f"No alias with the name '{name}' was found in the service '{SERVICE}'.")
        return alias

    def aliases(self) -> list[Resource]:
        with self._lock:
            return [self._aliases[name] for name in sorted(self._aliases)]

    def create_alias(self, body: Mapping[str, Any]) -> Resource:
        with self._lock:
            name = str(body.get("name"))
            if name in self._aliases:
                raise ServiceError(
                    409,
                    f"Cannot create alias '{name}' because it already exists.",
                    code="ResourceNameAlreadyInUse",
                )
            return self._keep_alias(name, body)

    def put_alias(self, name: str, body: Mapping[str, Any], condition: Precondition) -> tuple[Resource, bool]:
        """The alias, and whether it is new."""
        if body.get("name", name) != name:
            raise bad_request(
                f"The name in the URL, '{name}', is not the name in the body, '{body.get('name')}'."
            )
        with self._lock:
            known = self._aliases.get(name)
            condition.check(None if known is None else known.etag)
            return self._keep_alias(name, body), known is None

    def delete_alias(self, name: str, condition: Precondition) -> None:
        with self._lock:
            condition.check(self.alias(name).etag)
            self._store.delete_resource(_ALIAS, name)
            del self._aliases[name]

    def _new_index(self, definition: Definition) -> Shelf:
        etag = self._etag()
        self._store.delete_documents_of(definition.name)
        self._store.put_resource(_INDEX, Resource(name=definition.name, etag=etag, body=definition.body))
        shelf = Shelf(definition, etag, self._store)
        self._shelves[definition.name] = shelf
        return shelf

    def _keep_alias(self, name: str, body: Mapping[str, Any]) -> Resource:
        check_name(name, "alias")
        if name in self._shelves:
            raise bad_request(f"The name '{name}' is used by an index.")
        indexes = self._checked_targets(name, body.get("indexes"))
        alias = Resource(name=name, etag=self._etag(), body={"name": name, "indexes": indexes})
        self._store.put_resource(_ALIAS, alias)
        self._aliases[name] = alias
        return alias

    def _checked_targets(self, name: str, indexes: Any) -> Sequence[str]:
        if not isinstance(indexes, list) or len(indexes) != 1:
            raise bad_request(f"Alias '{name}' must map to exactly one index.")
        if indexes[0] not in self._shelves:
            raise bad_request(f"Alias '{name}' cannot map to the index '{indexes[0]}', which does not exist.")
        return [str(indexes[0])]

    def _etag(self) -> str:
        """Never the same twice, also over restarts and when an index is made anew. Unquoted."""
        self._last_tick = max(time.time_ns() // 100, self._last_tick + 1)
        return f"0x{self._last_tick:X}"


def _no_index(name: str) -> ServiceError:
    return ServiceError(404, f"No index with the name '{name}' was found in the service '{SERVICE}'.")


def _matches(header: str, etag: str | None) -> bool:
    """Whether one of the header's etags is this one; quotes and the weak mark are ignored."""
    if etag is None:
        return False
    given = [part.strip().removeprefix("W/").strip('"') for part in header.split(",")]
    return "*" in given or etag in given
