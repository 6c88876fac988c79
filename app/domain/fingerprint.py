"""What was judged, so that it can be recognised later: promotion asks whether it is still the same."""

import hashlib
import json
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
