"""How many requests a service is sent at once, learnt from how it answers: it publishes no rate.

| what is seen | what follows |
| --- | --- |
| answers, as fast as before | one request more at once for each, until the goal: at first the ceiling |
| a refusal (429, 503, an answer in part) | the goal is what had been served; half of it at first, and up again |
| … with no more under way than had just been served | the limit is one a second: requests are sent evenly spaced |
| nothing refused for a while | a little more is tried, and more still as long as it holds |
| answers much slower than they were | nothing is added; slower still, and the goal shrinks |
| refusals in a row, no answer in between | a pause of an answer or two; from the third on as long as Retry-After |

All of it counts requests *at once*, as a real number: with Little's law what was served in a second, times the
time of an answer, is that number, and half a request at once is one that pauses as long as it takes.

A refusal of one request too many holds up that request alone, by its Retry-After. Everything waits for it only
where the service refuses one request after the other: otherwise each try for more would stop the run.
"""

from collections import deque
from dataclasses import dataclass, field
from math import ceil, floor, inf

FIRST = 2.0  # at once, to begin with
GUESS = 0.1  # seconds that an answer takes, before the first
LEAST = 0.02  # at once: a hundred-millisecond request every five seconds
LOOK_BACK = 1.0  # seconds in which what was served counts, and refusals belong together
LOOK_BACK_ANSWERS = 6.0
TRY_AFTER = 2.5  # seconds without a refusal, and
TRY_ANSWERS = 30  # answers, before more is tried: of the requests, one in so many is refused at the most
TRY_STEP = 0.1  # of the goal, at first
TRY_GROWTH = 1.5  # of the step, each time that it holds
HOLDS = 6  # answers, after which what was tried holds
LOWER = 0.95  # a rate that was refused, against the one that was served
BURST = 1.5  # served lately, against the goal: more than this was saved up before
IN_A_ROW = 3  # refusals with no answer in between, after which everything heeds Retry-After
HURRY = 2.0  # how much closer than evenly requests may follow each other while nothing is known
RECENT = 16  # requests
MOSTLY = 0.5
SLOW, SLOWER = 1.5, 2.0  # an answer's time against that of a calm service
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: when, at which level, as the how-manieth under way, whether all that was allowed were, and how
    often the level had been cut before.
    """

    at: float
    level: float
    place: int
    full: bool
    cuts: int


@dataclass(slots=True, kw_only=True)
class Pace:
    """The rule. It knows no clock: every event brings its time, in seconds.

    `ceiling`: never more at once. `share` (0..1): how much of what the service is found to give is taken; the
    rest is for others, but for short tries.
    """

    ceiling: int
    share: float = 1.0
    level: float = field(init=False)
    _goal: float = field(init=False)
    _spaced: bool = False
    _step: float = 0.0  # of what is being tried; 0: nothing
    _calm: int = 0  # answers since the level last changed
    _since: float = -inf  # when that was
    _cut: float = -inf  # the last refusal that counted
    _cuts: int = 0
    _row: int = 0
    _next: float = -inf
    _held: float = -inf
    _served: deque[tuple[float, int]] = field(default_factory=deque)
    _granted: float = 1.0  # the part of the last requests that was served
    _answers: int = 0
    _latency: float = GUESS
    _usual: float = 0.0

    def __post_init__(self) -> None:
        self.level = min(FIRST, self.ceiling)
        self._goal = self.ceiling

    # what is allowed

    def most(self) -> int:
        """Requests under way at once, now."""
        whole = ceil(self.level - _ROUNDING) if self._spaced else floor(self.level + _ROUNDING)
        return max(1, whole)

    def pause(self, now: float) -> float:
        """Seconds until the next may be sent; not above 0: at once."""
        spaced = self._spaced or self._step > 0 or self.level < self._rest
        return max(self._next if spaced else -inf, self._held) - now

    # what happens

    def sent(self, now: float, under_way: int, *, more: bool) -> Sent:
        """A request goes out beside `under_way` others; `more`: others wait for their turn."""
        unknown = self._goal >= self.ceiling and self.level < self._goal
        gap = self._latency / self.level / (HURRY if unknown else 1.0)
        self._next = max(self._next, now - gap) + gap
        return Sent(now, self.level, under_way + 1, more or under_way + 1 >= self.most(), self._cuts)

    def answered(self, sent: Sent, now: float) -> None:
        self._row = 0
        self._granted += (1 - self._granted) / RECENT
        self._note(now - sent.at)
        self._served.append((now, sent.place))
        self._forget(now)
        if sent.cuts < self._cuts or not sent.full:
            return
        self._calm += 1
        if self._latency > SLOWER * self._usual:
            if self._calm >= self.level:
                self._go(now, goal=max(min(self._goal, self.level) * LOWER, min(FIRST, self._goal)))
                self.level = min(self.level, self._rest)
        elif self._latency > SLOW * self._usual:
            return
        elif self.level < self._rest:
            self._go(now, goal=self._goal)
            self.level = min(self.level + min(1.0, self.level), self._rest)
        elif self._step:
            if sent.level >= self.level and self._calm >= max(HOLDS, self.level):
                self._try(now, self.level, self._step * TRY_GROWTH)
        elif now - self._since >= TRY_AFTER and self._calm >= TRY_ANSWERS:
            self._try(now, self._goal, TRY_STEP)

    def refused(self, sent: Sent, now: float, retry_after: float = 0.0) -> None:
        self._granted -= self._granted / RECENT
        if sent.cuts < self._cuts:  # of the same wave as the last one
            return
        self._forget(now)
        self._row += 1
        if self._row > 1:
            self._held = max(self._held, now + min(1.0, self._latency * min(self._row - 1, 2)))
        if self._row >= IN_A_ROW:
            self._held = max(self._held, now + retry_after)
        self._spaced = self._by_rate(sent.place)
        if not self._spaced:
            goal = max(sent.place - 1.0, self.level / 2, 1.0)
        elif self._step:
            goal = self._goal
        else:
            goal = self._rate(again=now - self._cut < self._window)
        self._go(now, goal=min(max(goal, LEAST), self.ceiling))
        self._cut, self._cuts, self.level = now, self._cuts + 1, self._goal / 2

    # parts

    @property
    def _rest(self) -> float:
        """Where the level stays: the whole ceiling, or the share of a limit that the service showed."""
        return self._goal if self._goal >= self.ceiling else max(LEAST, self._goal * self.share)

    @property
    def _window(self) -> float:
        return max(LOOK_BACK, LOOK_BACK_ANSWERS * self._latency)

    def _go(self, now: float, *, goal: float) -> None:
        self._goal, self._step, self._calm, self._since = goal, 0.0, 0, now

    def _try(self, now: float, held: float, step: float) -> None:
        self._go(now, goal=min(held, self.ceiling))
        if self._goal >= self.ceiling:
            self.level = self._rest
            return
        more = self._goal * (1 + step)
        self.level = min(more if self._spaced else max(floor(more), floor(self._goal) + 1.0), self.ceiling)
        self._step = step

    def _by_rate(self, place: int) -> bool:
        """Whether only a limit a second explains the refusal of a request as the how-manieth under way."""
        if self._spaced and self._step and place - 1 > ceil(self._goal):
            return True  # it was spaced for a reason, and is refused further up than that says anything of
        return place <= max((each for _, each in self._served), default=1)

    def _rate(self, *, again: bool) -> float:
        """The goal after a refusal that only a limit a second explains.

        Where nothing is served, nothing is known of it. Where most is refused although requests go one by one, it
        is not the rate: the goal stays at one at once, at the least.
        """
        if not self._served:
            return self._goal
        served = len(self._served) / self._window * self._latency
        if not again:
            goal = min(self.level * LOWER, max(served, self.level / 2))
        elif served > BURST * self._goal:
            goal = self._goal * LOWER
        else:
            goal = max(min(self._goal, served * LOWER), self._goal / 2)
        return max(goal, 1.0) if self._granted < MOSTLY else goal

    def _note(self, seconds: float) -> None:
        """Keep the time that answers take, and the time that they take while little is asked."""
        self._answers += 1
        self._latency += (seconds - self._latency) / min(self._answers, 32)
        if self._answers == 1 or self.level <= FIRST or self._latency < self._usual:
            self._usual += (self._latency - self._usual) / min(self._answers, 8)
        else:
            self._usual += (self._latency - self._usual) / 4096

    def _forget(self, now: float) -> None:
        while self._served and self._served[0][0] <= now - self._window:
            self._served.popleft()
