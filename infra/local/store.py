"""What outlives the process: definitions, documents, aliases, and the answers of the models. One SQLite file."""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_SCHEMA = """
create table if not exists resource (kind text, name text, etag text, body text, primary key (kind, name));
create table if not exists document (index_name text, key text, body text, primary key (index_name, key));
create table if not exists vector (index_name text, key text, field text, data blob,
    primary key (index_name, key, field));
create table if not exists query_vector (digest blob primary key, data blob);
create table if not exists score (digest blob primary key, logit real);
"""
_KEYS_A_QUERY = 500
_WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An index or an alias as it is kept: its JSON without the etag."""

    name: str
    etag: str
    body: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Document:
    """One row: plain values, and the vectors beside them as float32 arrays by field name."""

    body: dict[str, Any]
    vectors: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)


class FolderTakenError(Exception):
    """Another process keeps its indexes there; two would not see each other's changes."""


class Store:
    """Thread-safe; every write is one transaction, on disk when the call returns."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(folder / "search.sqlite3", check_same_thread=False, timeout=_WAIT_SECONDS)
        try:
            self._db.execute("pragma locking_mode = exclusive")
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = normal")
            self._db.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:
            self._db.close()
            raise FolderTakenError(f"cannot use the folder {folder}: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def resources(self, kind: str) -> list[Resource]:
        """All resources of a kind, by name."""
        with self._lock:
            rows = self._db.execute(
                "select name, etag, body from resource where kind = ? order by name", (kind,)
            ).fetchall()
        return [Resource(name=name, etag=etag, body=json.loads(body)) for name, etag, body in rows]

    def put_resource(self, kind: str, resource: Resource) -> None:
        with self._lock, self._db:
            self._db.execute(
                "insert or replace into resource values (?, ?, ?, ?)",
                (kind, resource.name, resource.etag, json.dumps(resource.body, ensure_ascii=False)),
            )

    def delete_resource(self, kind: str, name: str) -> None:
        with self._lock, self._db:
            self._db.execute("delete from resource where kind = ? and name = ?", (kind, name))

    def delete_documents_of(self, index_name: str) -> None:
        with self._lock, self._db:
            self._db.execute("delete from document where index_name = ?", (index_name,))
            self._db.execute("delete from vector where index_name = ?", (index_name,))

    def documents(self, index_name: str) -> dict[str, Document]:
        """Every document of an index by key, in order of the key."""
        with self._lock:
            rows = self._db.execute(
                "select key, body from document where index_name = ? order by key", (index_name,)
            ).fetchall()
            vectors = self._db.execute(
                "select key, field, data from vector where index_name = ?", (index_name,)
            ).fetchall()
        documents = {key: Document(body=json.loads(body)) for key, body in rows}
        for key, name, data in vectors:
            documents[key].vectors[name] = np.frombuffer(data, dtype=np.float32)
        return documents

    def write_documents(self, index_name: str, changed: Mapping[str, Document | None]) -> None:
        """Replace documents by key; None deletes."""
        keys = [(index_name, key) for key in changed]
        kept = [(key, document) for key, document in changed.items() if document is not None]
        with self._lock, self._db:
            self._db.executemany("delete from document where index_name = ? and key = ?", keys)
            self._db.executemany("delete from vector where index_name = ? and key = ?", keys)
            self._db.executemany(
                "insert into document values (?, ?, ?)",
                [(index_name, key, json.dumps(document.body, ensure_ascii=False)) for key, document in kept],
            )
            self._db.executemany(
                "insert into vector values (?, ?, ?, ?)",
                [
                    (index_name, key, name, vector.tobytes())
                    for key, document in kept
                    for name, vector in document.vectors.items()
                ],
            )

    def query_vector(self, model: str, text: str) -> npt.NDArray[np.float32] | None:
        with self._lock:
            row = self._db.execute(
                "select data from query_vector where digest = ?", (_digest(model, text),)
            ).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype=np.float32)

    def keep_query_vector(self, model: str, text: str, vector: npt.NDArray[np.float32]) -> None:
        with self._lock, self._db:
            self._db.execute(
                "insert or replace into query_vector values (?, ?)", (_digest(model, text), vector.tobytes())
            )

    def scores(self, model: str, query: str, passages: Sequence[str]) -> dict[str, float]:
        """The known logits by passage; passages never judged for this query are absent."""
        by_digest = {_digest(model, query, passage): passage for passage in passages}
        found: dict[str, float] = {}
        for keys in _slices(list(by_digest)):
            marks = ",".join("?" * len(keys))
            with self._lock:
                rows = self._db.execute(
                    f"select digest, logit from score where digest in ({marks})",  # noqa: S608 - marks are "?"
                    keys,
                ).fetchall()
            found |= {by_digest[digest]: logit for digest, logit in rows}
        return found

    def keep_scores(self, model: str, query: str, scores: Mapping[str, float]) -> None:
        with self._lock, self._db:
            self._db.executemany(
                "insert or replace into score values (?, ?)",
                [(_digest(model, query, passage), logit) for passage, logit in scores.items()],
            )


def _digest(*parts: str) -> bytes:
    """16 bytes naming a tuple of texts; lengths are hashed too, so that ("ab", "c") is not ("a", "bc")."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _slices(keys: list[bytes]) -> Iterable[list[bytes]]:
    return (keys[start : start + _KEYS_A_QUERY] for start in range(0, len(keys), _KEYS_A_QUERY))
