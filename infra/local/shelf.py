"""One index at work: its definition, its documents, and the engines built from them when first needed."""

import functools
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from infra.local.definition import Definition
from infra.local.documents import Outcome, apply_batch
from infra.local.filter import Predicate
from infra.local.keyword import KeywordIndex
from infra.local.store import Document, Store
from infra.local.vectors import VectorIndex


class Snapshot:
    """The documents at one moment, in order of their keys, and engines over them. Rows count from 0."""

    def __init__(self, definition: Definition, documents: Mapping[str, Document]) -> None:
        self.definition = definition
        self.documents: Sequence[Document] = [documents[key] for key in sorted(documents)]
        self._vectors: dict[str, VectorIndex] = {}
        self._building = threading.RLock()

    def keyword(self) -> KeywordIndex:
        with self._building:
            return self._keyword

    def vectors(self, path: str) -> VectorIndex:
        with self._building:
            if path not in self._vectors:
                space = self.definition.fields[path].space
                if space is None:
                    raise LookupError(path)
                self._vectors[path] = VectorIndex(space, [part.vectors.get(path) for part in self.documents])
            return self._vectors[path]

    def mask(self, predicate: Predicate) -> npt.NDArray[np.bool_]:
        """Which rows a filter lets through."""
        return np.fromiter((predicate(part.body) for part in self.documents), np.bool_, len(self.documents))

    @functools.cached_property
    def _keyword(self) -> KeywordIndex:
        return KeywordIndex(self.definition.text_fields(), self.documents)


class Shelf:
    """An index: writes go to the store first, then replace the snapshot that searches read."""

    def __init__(self, definition: Definition, etag: str, store: Store) -> None:
        self.definition = definition
        self.etag = etag
        self._store = store
        self._lock = threading.Lock()
        self._documents: dict[str, Document] | None = None
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        with self._lock:
            if self._snapshot is None:
                self._snapshot = Snapshot(self.definition, self._loaded())
            return self._snapshot

    def redefine(self, definition: Definition, etag: str) -> None:
        with self._lock:
            self.definition, self.etag, self._snapshot = definition, etag, None

    def write(self, actions: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        with self._lock:
            documents = self._loaded()
            changed, outcomes = apply_batch(self.definition, documents, actions)
            self._store.write_documents(self.definition.name, changed)
            for key, document in changed.items():
                if document is None:
                    documents.pop(key, None)
                else:
                    documents[key] = document
            if changed:
                self._snapshot = None
            return outcomes

    def document(self, key: str) -> Document | None:
        with self._lock:
            return self._loaded().get(key)

    def count(self) -> int:
        with self._lock:
            return len(self._loaded())

    def sizes(self) -> tuple[int, int]:
        """Bytes of documents and of vectors, as statistics report them."""
        with self._lock:
            documents = list(self._loaded().values())
        vectors = sum(vector.nbytes for document in documents for vector in document.vectors.values())
        return sum(len(json.dumps(document.body)) for document in documents) + vectors, vectors

    def _loaded(self) -> dict[str, Document]:
        """Callers hold the lock."""
        if self._documents is None:
            self._documents = self._store.documents(self.definition.name)
        return self._documents
