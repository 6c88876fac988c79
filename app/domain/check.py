"""Findings about the indexes, the labels and the settings of a run."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    INFO = "info"
    WARNING = "warning"
    BLOCKING = "blocking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A finding about the indexes, labels or settings. A blocking one is a reason of the same code."""

    code: str
    level: Level
    message: str
    index: str | None = None
    measured: Any = None
    limit: Any = None
    setting: str | None = None
    questions: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()


def once(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Each check once, in order; what they measured may be a list, which cannot be hashed."""
    found: list[Check] = []
    for check in checks:
        if check not in found:
            found.append(check)
    return tuple(found)
