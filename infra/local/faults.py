"""Faults on request, and counts of what was asked: how tests make the service misbehave and see what reached it.

A fault is matched in the order given; the first that matches an occasion and still has a time left is taken.
"""

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from infra.local.errors import bad_request

_DROPS = frozenset({"before", "middle"})
_NUMBERS = ("times", "skip", "status", "delay_ms", "trickle", "truncate")
_REMEMBERED = 2000
_WORDS = {
    402: "Free Query Semantic Usage's exceeded for the month. To continue using semantic search please enable "
    "semantic billing https://aka.ms/SemanticPriceDocPage",
    429: "Too many requests.",
    502: "Could not complete vectorization action. The vectorization endpoint returned status code '429' "
    "(TooManyRequests).",
    503: "Failed to execute request. Reduce the rate of requests, or adjust the number of replicas/partitions. "
    "See http://aka.ms/azure-search-throttling for more information.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """A request as faults see it. `names` are the index as asked for and as resolved."""

    operation: str
    names: tuple[str, ...] = ()
    question: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What to do to which requests. None leaves a condition open or an effect out."""

    index: str | None = None
    question: str | None = None
    operation: str | None = None
    times: int | None = None
    skip: int = 0
    status: int | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_ms: float = 0
    partial: Mapping[str, Any] | bool = False
    drop: str | None = None
    trickle: float | None = None
    truncate: int | None = None
    unranked: bool = False
    next_page: bool = False

    @classmethod
    def parse(cls, given: Any) -> Self:
        known = {part.name for part in fields(cls)}
        if not isinstance(given, dict) or not given.keys() <= known:
            raise bad_request(f"A fault is an object with some of: {', '.join(sorted(known))}.")
        fault = cls(**{name: value for name, value in given.items() if value is not None})
        for name in _NUMBERS:
            if not isinstance(getattr(fault, name), int | float | None):
                raise bad_request(f"{name} is a number.")
        if fault.drop is not None and fault.drop not in _DROPS:
            raise bad_request("drop is 'before' or 'middle'.")
        return fault

    def matches(self, occasion: Occasion) -> bool:
        return (
            (self.index is None or self.index in occasion.names)
            and (self.operation is None or self.operation == occasion.operation)
            and (self.question is None or self.question in occasion.question)
        )

    @property
    def replacement(self) -> Any:
        """The body of a replacing fault: as given, else Azure's words for the status; 401 and 403 have none."""
        if self.body is not None or self.status in {None, 200, 401, 403}:
            return self.body
        return {"error": {"code": "", "message": _WORDS.get(self.status or 0, "A fault on request.")}}

    @property
    def replaces(self) -> bool:
        """Answers by itself, without asking the index."""
        return not self.partial and (self.status is not None or self.body is not None)


@dataclass(slots=True, kw_only=True)
class _Armed:
    fault: Fault
    seen: int = 0
    taken: int = 0


class Faults:
    """The armed faults. Thread-safe: two requests never take the same last time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: list[_Armed] = []

    def arm(self, faults: Sequence[Fault]) -> None:
        with self._lock:
            self._armed = [_Armed(fault=fault) for fault in faults]

    def take(self, occasion: Occasion) -> Fault | None:
        with self._lock:
            for armed in self._armed:
                fault = armed.fault
                if not fault.matches(occasion) or (fault.times is not None and armed.taken >= fault.times):
                    continue
                armed.seen += 1
                if armed.seen <= fault.skip:
                    continue
                armed.taken += 1
                return fault
        return None

    def listing(self) -> list[dict[str, Any]]:
        with self._lock:
            return [{**asdict(armed.fault), "taken": armed.taken} for armed in self._armed]


class Journal:
    """Counts by index and operation, and the latest requests in order of arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._recent: deque[dict[str, str]] = deque(maxlen=_REMEMBERED)

    def note(self, occasion: Occasion) -> None:
        name = occasion.names[0] if occasion.names else ""
        with self._lock:
            self._counts[name, occasion.operation] += 1
            self._recent.append(
                {"index": name, "operation": occasion.operation, "question": occasion.question}
            )

    def reset(self) -> None:
        with self._lock:
            self._counts.clear()
            self._recent.clear()

    def report(self) -> dict[str, Any]:
        with self._lock:
            counts: dict[str, dict[str, int]] = {}
            for (name, operation), count in sorted(self._counts.items()):
                counts.setdefault(name, {})[operation] = count
            return {"total": sum(self._counts.values()), "counts": counts, "recent": list(self._recent)}
