"""Findings about the indexes, the labels and the settings of a run."""

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
