"""What an index holds: its parent documents, how they are cut, a sketch of their texts.

Chunks are added one by one in any order and forgotten; memory grows with the number of parents only. Of each
parent there is a sketch of bounded size (see `sketch`), of all chunks a histogram of their lengths, a
digest, and a bounded table of text hashes that finds duplicates.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.domain.check import Check, Level
from app.domain.parents import decoded
from app.domain.query import ParentNames
from app.domain.reasons import Code
from app.domain.sketch import Sketch

CHARACTERS_A_TOKEN = 4
HASHES_KEPT = (
    1 << 16
)  # of chunk texts; duplicates are exact up to so many different ones, beyond it estimated
_SHOWN = 10
_DIGITS = 3  # a length is kept to so many significant digits


class Method(StrEnum):
    """How the rows were listed."""

    KEY_RANGES = "key-ranges"
    PARENT_RANGES = "parent-ranges"
    SKIP_IN_ORDER = "skip-in-order"  # by the key's order, and how many rows to skip
    SKIP = "skip"  # without an order that the service promises to keep
    NOT_TAKEN = "not-taken"


@dataclass(slots=True)
class Parent:
    """One parent document's chunks. `repeated`: chunks of it that say what an earlier one of it says; `digest`: a
    sum over the others' texts, whatever their order; `characters`: of the others.
    """

    sketch: Sketch = field(default_factory=Sketch)
    chunks: int = 0
    repeated: int = 0
    characters: int = 0
    digest: int = 0

    @property
    def distinct(self) -> int:
        return self.chunks - self.repeated


@dataclass(frozen=True, slots=True)
class Lengths:
    """Chunks by their length in characters, ascending, three significant digits of it."""

    counts: tuple[tuple[int, int], ...] = ()

    def percentile(self, share: float) -> int | None:
        """The smallest length that at least this share of the chunks do not exceed; None without chunks."""
        wanted, seen = share * self.total, 0
        for length, count in self.counts:
            seen += count
            if seen >= wanted:
                return length
        return None

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    def above(self, tokens: int) -> int:
        """Chunks of more than so many tokens."""
        return sum(count for length, count in self.counts if in_tokens(length) > tokens)


def in_tokens(characters: int) -> int:
    """An estimate: four characters a token, begun ones counted."""
    return -(-characters // CHARACTERS_A_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryRecord:
    """What a run keeps of an inventory. Lengths are in tokens of four characters each; None: no text was read."""

    method: Method
    complete: bool
    note: str | None
    chunks: int
    parents: int
    without_parent: int
    without_text: int
    duplicates: int
    tokens_median: int | None
    tokens_95: int | None
    tokens_most: int | None
    digest: str | None
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """`complete`: every row of the index was read, each once. `note`: why not, or why none was taken.

    `chunks`: rows read, of which `without_parent` have no parent document, and `without_text` no text.
    `duplicates`: chunks that say what another one says. `collisions`: raw parents that became one name by
    decoding. `digest`: of parents and texts, whatever the order and the keys of the rows.
    """

    method: Method
    complete: bool
    note: str | None = None
    chunks: int = 0
    parents: Mapping[str, Parent] = field(default_factory=dict)
    without_parent: int = 0
    without_text: int = 0
    lengths: Lengths = field(default_factory=Lengths)
    duplicates: int = 0
    collisions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    digest: str | None = None
    requests: int = 0

    @property
    def taken(self) -> bool:
        return self.method is not Method.NOT_TAKEN

    @property
    def record(self) -> InventoryRecord:
        def tokens(share: float) -> int | None:
            length = self.lengths.percentile(share)
            return None if length is None else in_tokens(length)

        return InventoryRecord(
            method=self.method,
            complete=self.complete,
            note=self.note,
            chunks=self.chunks,
            parents=len(self.parents),
            without_parent=self.without_parent,
            without_text=self.without_text,
            duplicates=self.duplicates,
            tokens_median=tokens(0.5),
            tokens_95=tokens(0.95),
            tokens_most=tokens(1.0),
            digest=self.digest,
            requests=self.requests,
        )

    def checks(self, index: str) -> tuple[Check, ...]:
        """That it is not the whole index, and that parents collide, as findings about this index."""
        found = []
        if not self.complete:
            what = "An inventory of" if self.taken else "No inventory could be taken of"
            message = f"{what} index {index!r}{' is not complete' if self.taken else ''}: {self.note}"
            found.append(Check(code="inventory", level=Level.WARNING, message=message, index=index))
        if self.collisions:
            name, raw = next(iter(self.collisions.items()))
            message = (
                f"Index {index!r}: {len(self.collisions)} names stand for more than one parent document after "
                f"decoding by parent_names, such as {name!r} for {', '.join(map(repr, raw))}."
            )
            found.append(
                Check(
                    code=Code.PARENT_AMBIGUOUS,
                    level=Level.BLOCKING,
                    message=message,
                    index=index,
                    measured=len(self.collisions),
                    setting="parent_names",
                    documents=tuple(self.collisions)[:_SHOWN],
                )
            )
        return tuple(found)


def not_taken(note: str, requests: int = 0) -> Inventory:
    return Inventory(method=Method.NOT_TAKEN, complete=False, note=note, requests=requests)


@dataclass(slots=True)
class _Hashes:
    """The smallest hashes of a multiset, with how often each came: a uniform sample of what is different in it."""

    counts: dict[int, int] = field(default_factory=dict)
    limit: int = 1 << 64

    def add(self, value: int) -> bool:
        """Whether it is known to have come before."""
        if value >= self.limit:
            return False
        seen = self.counts.get(value, 0)
        self.counts[value] = seen + 1
        if len(self.counts) >= 2 * HASHES_KEPT:
            self.limit = sorted(self.counts)[HASHES_KEPT]
            self.counts = {each: count for each, count in self.counts.items() if each < self.limit}
        return seen > 0

    @property
    def repeated(self) -> int:
        """How many came after an equal one; estimated where not all are kept."""
        extra = sum(self.counts.values()) - len(self.counts)
        return round(extra * (1 << 64) / self.limit)


@dataclass(slots=True)
class Stocktaking:
    """An inventory while it is taken. `decodings`: the side's parent_names."""

    decodings: tuple[ParentNames, ...] = ()
    chunks: int = 0
    parents: dict[str, Parent] = field(default_factory=dict)
    without_parent: int = 0
    without_text: int = 0
    _lengths: Counter[int] = field(default_factory=Counter)
    _texts: _Hashes = field(default_factory=_Hashes)
    _by_parent: _Hashes = field(default_factory=_Hashes)
    _raw: dict[str, str] = field(default_factory=dict)
    _collisions: dict[str, list[str]] = field(default_factory=dict)
    _digest: int = 0

    def add(self, parent: str | None, text: str | None) -> None:
        """One row: the value of the parent field as it is stored, and the chunk's text."""
        self.chunks += 1
        name = None if parent is None else self._name(parent)
        data = "" if text is None else text
        content = f"{len(name or '')}:{name}:{data}".encode("utf-8", "surrogatepass")
        self._digest += int.from_bytes(hashlib.sha256(content).digest(), "big")
        known = None
        if name is None:
            self.without_parent += 1
        else:
            known = self.parents.setdefault(name, Parent())
            known.chunks += 1
        if not data.strip():
            self.without_text += 1
            return
        self._lengths[_rounded(len(data))] += 1
        value = _hash(data)
        self._texts.add(value)
        if known is not None:
            self._add_text(known, data, value, _hash(f"{name}\0{value}"))

    def _sum(self) -> str:
        """`sha256:…` over the sum of the rows' own digests, which knows no order, and their number."""
        content = f"{self.chunks}:{self._digest & ((1 << 256) - 1):x}"
        return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"

    def _add_text(self, parent: Parent, text: str, value: int, value_in_parent: int) -> None:
        if self._by_parent.add(value_in_parent):
            parent.repeated += 1
            return
        parent.characters += len(text)
        parent.digest = (parent.digest + value) & ((1 << 64) - 1)
        parent.sketch.add(text)

    def _name(self, raw: str) -> str:
        if not self.decodings:
            return raw
        name = decoded(raw, self.decodings)
        first = self._raw.setdefault(name, raw)
        if first != raw:
            known = self._collisions.setdefault(name, [first])
            if raw not in known and len(known) < _SHOWN:
                known.append(raw)
        return name

    def inventory(self, method: Method, *, complete: bool, note: str | None, requests: int) -> Inventory:
        """What was read so far."""
        return Inventory(
            method=method,
            complete=complete,
            note=note,
            chunks=self.chunks,
            parents=self.parents,
            without_parent=self.without_parent,
            without_text=self.without_text,
            lengths=Lengths(tuple(sorted(self._lengths.items()))),
            duplicates=self._texts.repeated,
            collisions=self._collisions,
            digest=self._sum(),
            requests=requests,
        )


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _rounded(length: int) -> int:
    unit: int = 10 ** max(0, len(str(length)) - _DIGITS)
    return round(length / unit) * unit
