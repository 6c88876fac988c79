"""The run record: what a run was asked, what it saw, and what follows. Its JSON is the contract's run.json."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from app.domain.causes import Evidence
from app.domain.change import Change
from app.domain.check import Check
from app.domain.difference import Difference
from app.domain.fingerprint import Fingerprint
from app.domain.index import Fields
from app.domain.inventory import InventoryRecord
from app.domain.legs import LegProbe
from app.domain.measures import Measures
from app.domain.newcomers import Newcomers
from app.domain.noise import Noise, ProbeResult
from app.domain.outcome import Cause
from app.domain.policy import Policy
from app.domain.query import Queries, Side
from app.domain.reasons import Reason, Verdict
from app.domain.statistics import Statistics


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSide:
    """One side of the comparison. `requested` is the name asked for, `alias` is that name where it was an
    alias, `index` the concrete index. Counts are documents of the index, that is chunks. None: not known.
    """

    requested: str
    index: str
    alias: str | None = None
    etag: str | None = None
    definition_digest: str | None = None
    documents: int | None = None
    documents_at_end: int | None = None
    fields: Fields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRef:
    """Which golden set a run used. `deployed`: one that came with the service, unaltered."""

    name: str
    digest: str
    owner: str | None
    review_by: date | None
    deployed: bool = False
    slices: tuple[str, ...] = ()

    def overdue(self, on: date) -> bool:
        """Whether the set's review date has passed on that day."""
        return self.review_by is not None and on > self.review_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventories:
    """What was read of both indexes to say what changed."""

    baseline: InventoryRecord
    candidate: InventoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """labelled = evaluated + stale + errors; evaluated = kept + absent + lost + gained + noisy."""

    questions: int = 0
    labelled: int = 0
    evaluated: int = 0
    kept: int = 0
    absent: int = 0
    lost: int = 0
    gained: int = 0
    noisy: int = 0
    unlabelled: int = 0
    stale: int = 0
    errors: int = 0
    critical_lost: int = 0
    forbidden_hits: int = 0
    destabilised: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One question of the lost or gained list.

    Ranks are those of the first observation that shows the flip: in context on one side, out of it on the
    other. `unstable`: not every observation agrees, so it stands here only because it is critical. A lost
    question's `cause` rests on `evidence`; `also`: further causes that hold (see `causes`); `took_its_place`:
    what the candidate shows instead.
    """

    id: str
    question: str
    critical: bool
    slice: tuple[str, ...]
    unstable: bool
    baseline_rank: int | None
    candidate_rank: int | None
    cause: Cause | None
    also: tuple[Cause, ...] = ()
    evidence: Evidence | None = None
    took_its_place: Newcomers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests sent to the search service. `comparison`: one an observation; `retries`: its repetitions;
    `other`: definitions, counts, probes; `semantic`: those charged as semantic queries, repetitions too;
    `throttled`: answered 429 or 503.
    """

    comparison: int = 0
    other: int = 0
    semantic: int = 0
    retries: int = 0
    throttled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Observations made and planned so far; the plan grows when questions are asked again."""

    done: int = 0
    planned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run without its questions, which are kept apart because they are large.

    Stored from the start: everything that was asked. Filled in while it runs: sides, checks, differences,
    inventories, fingerprint, noise probes, legs, requests. Derived at the end by `decision.decide`: verdict,
    reasons, headline, counts, lost, gained, measures, statistics, noise.
    """

    id: str
    state: State = State.QUEUED
    verdict: Verdict | None = None
    reasons: tuple[Reason, ...] = ()
    headline: str | None = None
    baseline: IndexSide
    candidate: IndexSide
    golden_set: GoldenRef
    query: Queries
    policy: Policy
    trusted: bool = False
    noise_study: bool = False
    change: Change | None = None
    requested_by: str | None = None
    counts: Counts = field(default_factory=Counts)
    lost: tuple[Flip, ...] = ()
    gained: tuple[Flip, ...] = ()
    checks: tuple[Check, ...] = ()
    differences: tuple[Difference, ...] = ()
    inventories: Inventories | None = None
    measures: Measures | None = None
    statistics: Statistics | None = None
    noise: Noise | None = None
    noise_probes: tuple[ProbeResult, ...] = ()
    legs: tuple[LegProbe, ...] = ()
    fingerprint: Fingerprint | None = None
    requests: Requests = field(default_factory=Requests)
    progress: Progress = field(default_factory=Progress)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def side(self, side: Side) -> IndexSide:
        return self.baseline if side is Side.BASELINE else self.candidate

    @property
    def inspected(self) -> bool:
        """Whether both indexes were looked up once, so that a later look can be compared with it."""
        return self.baseline.documents is not None and self.candidate.documents is not None
