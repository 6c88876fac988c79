"""What a service can take: so many requests at once, or a second."""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol


class Capacity(Protocol):
    limit: int

    def take(self, now: float) -> bool: ...

    def give_back(self) -> None: ...

    def possible(self, latency: float) -> float:
        """Answers a second, at the most."""
        ...


@dataclass(slots=True)
class AtOnce:
    limit: int
    busy: int = 0

    def take(self, now: float) -> bool:
        if self.busy >= self.limit:
            return False
        self.busy += 1
        return True

    def give_back(self) -> None:
        self.busy -= 1

    def possible(self, latency: float) -> float:
        return self.limit / latency


@dataclass(slots=True)
class ASecond:
    """In any second, at the most."""

    limit: int
    taken: deque[float] = field(default_factory=deque)

    def take(self, now: float) -> bool:
        while self.taken and self.taken[0] <= now - 1:
            self.taken.popleft()
        if len(self.taken) >= self.limit:
            return False
        self.taken.append(now)
        return True

    def give_back(self) -> None:
        pass

    def possible(self, latency: float) -> float:
        return self.limit


@dataclass(slots=True)
class Bucket:
    """Fills evenly; holds what was not used of a second."""

    limit: int
    left: float = 0.0
    at: float = 0.0

    def take(self, now: float) -> bool:
        self.left = min(self.left + (now - self.at) * self.limit, float(self.limit))
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True

    def give_back(self) -> None:
        pass

    def possible(self, latency: float) -> float:
        return self.limit
