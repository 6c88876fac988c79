"""How many runs one caller may start."""

import time
from collections.abc import Callable
from http import HTTPStatus
from math import ceil

from starlette.exceptions import HTTPException

WINDOW = 3600.0  # seconds


class Starts:
    """The runs that each caller started in the last hour, by this process; no more than `most` are let through."""

    def __init__(self, most: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._started: dict[str | None, list[tuple[float, str | None]]] = {}

    def admit(self, caller: str | None, key: str | None) -> bool:
        """Whether it counts as a start; a repetition by an idempotency key does not. HTTPException 429 where there
        are too many.
        """
        now = self._clock()
        self._started = {
            who: left
            for who, starts in self._started.items()
            if (left := [each for each in starts if now - each[0] < WINDOW])
        }
        own = self._started.get(caller, [])
        if self._most is None or (key is not None and any(used == key for _, used in own)):
            return False
        if len(own) >= self._most:
            detail = f"At most {self._most} runs an hour are started for one caller (GATE_STARTS_PER_HOUR)."
            wait = str(ceil(own[0][0] + WINDOW - now))
            raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, detail, headers={"Retry-After": wait})
        self._started[caller] = [*own, (now, key)]
        return True

    def forget(self, caller: str | None, key: str | None) -> None:
        """Takes the last such start back that counted: it started nothing."""
        own = self._started.get(caller, [])
        for place in reversed(range(len(own))):
            if own[place][1] == key:
                del own[place]
                return
