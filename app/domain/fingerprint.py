"""What was judged, so that it can be recognised later: promotion asks whether it is still the same."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFingerprint:
    """One index as it was judged. None: could not be read, or was not taken."""

    index: str
    definition_digest: str | None
    etag: str | None
    documents: int | None
    synonym_maps: str | None
    inventory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Everything that a verdict rests on; each digest is `sha256:…`."""

    baseline: IndexFingerprint
    candidate: IndexFingerprint
    golden_set: str
    query: str
    policy: str


def json_digest(value: Any) -> str:
    """`sha256:…` over a JSON value; the order of keys makes no difference."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def maps_digest(synonym_maps: Mapping[str, str] | None) -> str | None:
    """A digest of the service's synonym maps, given as etags by name; None where they are not known."""
    return None if synonym_maps is None else json_digest(dict(synonym_maps))


def changes(was: IndexFingerprint, now: IndexFingerprint, *, documents: int) -> tuple[str, ...]:
    """What makes an index another one than it was, each with both values; empty where it is the same.

    `documents`: by how many its count may have moved. What could not be read on either side counts as
    changed, but for synonym maps that were not known before, and for the inventory (a digest over every
    document, too dear to be taken anew each time), which is compared where both have one.
    """
    return tuple(_changes(was, now, documents))


def _changes(was: IndexFingerprint, now: IndexFingerprint, documents: int) -> Iterator[str]:
    if was.index != now.index:
        yield f"it is the index {now.index!r}, and was {was.index!r}"
    for what, before, after in (
        ("definition", was.definition_digest, now.definition_digest),
        ("etag", was.etag, now.etag),
    ):
        if before is None or after is None:
            yield f"its {what} could not be read {'then' if before is None else 'now'}"
        elif before != after:
            yield f"its {what} was {_short(before)} and is {_short(after)}"
    if was.synonym_maps is not None and was.synonym_maps != now.synonym_maps:
        after = "may not be read now" if now.synonym_maps is None else f"are {_short(now.synonym_maps)}"
        yield f"the synonym maps were {_short(was.synonym_maps)} and {after}"
    if was.documents is None or now.documents is None:
        yield f"its documents were not counted {'then' if was.documents is None else 'now'}"
    elif abs(now.documents - was.documents) > documents:
        yield (
            f"it held {was.documents} documents and holds {now.documents} "
            f"(max_documents_changed allows a difference of {documents})"
        )
    if None not in (was.inventory, now.inventory) and was.inventory != now.inventory:
        yield f"its contents were {_short(was.inventory)} and are {_short(now.inventory)}"


def _short(digest: str | None) -> str:
    """As much of a digest as tells two apart; an etag as it is."""
    text = str(digest)
    return f"{text[:19]}…" if text.startswith("sha256:") else text
