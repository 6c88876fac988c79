"""One thing in which the two sides of a comparison differ."""

from dataclasses import dataclass
from typing import Any

from app.domain.change import ChangeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`what` names it in a few words; the values are JSON, None where a side has none; `message` is for people."""

    kind: ChangeKind
    what: str
    baseline: Any = None
    candidate: Any = None
    message: str


def difference(kind: ChangeKind, what: str, baseline: Any, candidate: Any) -> Difference:
    """With the usual sentence: what it was, and what it is now."""
    message = f"{what}: {worded(baseline)}, now {worded(candidate)}."
    return Difference(kind=kind, what=what, baseline=baseline, candidate=candidate, message=message)


def worded(value: Any) -> str:
    """A JSON value in a sentence."""
    if value is None or value in ("", [], {}, ()):
        return "none"
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{name} {worded(each)}" for name, each in value.items())
        case list() | tuple():
            return ", ".join(worded(each) for each in value)
        case float():
            return f"{value:g}"
        case _:
            return str(value)
