"""Runs, started and executed over a store and a search service in memory, as both doors do it.

gate = Executing()
run = await gate.run(lines(3), toml="[policy]\\nnoise_runs = 0\\n")
gate.search.index("kb-v2").answer("question 1", ("x", "d1"))
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain.check import Check, Level
from app.domain.errors import NotFoundError
from app.domain.golden import GoldenTexts
from app.domain.outcome import Observed
from app.domain.query import Embedding
from app.domain.run import Run
from app.gate.execute import Execution, Limits, OnProgress
from app.gate.ports import SearchService
from app.gate.preflight import PROBE
from app.gate.records import RunRecords
from app.gate.start import Stamp, StartRequest, start
from tests.fakes.search import FakeSearch
from tests.fakes.store import MemoryStore

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PLAIN = "[policy]\nnoise_runs = 0\nconfirm_runs = 0\n"
KEYWORD = '[query]\nmode = "keyword"\nsemantic = false\n'


def lines(count: int, **keys: Any) -> str:
    """Questions q1, q2 …, "question 1" …, each answered by d1 unless `keys` say otherwise."""
    return "".join(
        f"{json.dumps({'id': f'q{n}', 'question': f'question {n}', 'answers': ['d1'], **keys})}\n"
        for n in range(1, count + 1)
    )


class NoEmbedder:
    async def embed(self, embedding: Embedding, text: str, deadline: float) -> tuple[float, ...]:
        raise AssertionError("never asked")


@dataclass(slots=True, kw_only=True)
class Deployed:
    """The sets that came with the service."""

    sets: dict[str, GoldenTexts] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        return tuple(self.sets)

    def texts(self, name: str) -> GoldenTexts:
        if name not in self.sets:
            raise NotFoundError(name)
        return self.sets[name]


@dataclass(slots=True, kw_only=True)
class Executing:
    """Both indexes, kb-v1 and kb-v2, show d1 on rank 2 unless a test says otherwise."""

    search: FakeSearch = field(default_factory=FakeSearch)
    store: MemoryStore = field(default_factory=MemoryStore)
    deployed: Deployed = field(default_factory=Deployed)
    limits: Limits = field(default_factory=lambda: Limits(concurrency=2, run_timeout_seconds=60))
    started: int = 0
    claims: int = 0

    def __post_init__(self) -> None:
        for name in ("kb-v1", "kb-v2"):
            self.search.index(name).otherwise = ("x", "d1", "x")

    @property
    def records(self) -> RunRecords:
        return RunRecords(self.store)

    @property
    def asked(self) -> list[str]:
        """The questions of the set that were sent."""
        return [each.text for each in self.search.asked if each.text != PROBE]

    async def start(self, jsonl: str, *, toml: str | None = KEYWORD + PLAIN, **request: Any) -> Run:
        """A run of a set that is sent along, or of the deployed one that `golden_set` names."""
        self.started += 1
        sides = {"candidate_index": "kb-v2", "baseline_index": "kb-v1"}
        if "golden_set" not in request:
            request["golden"] = GoldenTexts(name="hr", jsonl=jsonl, toml=toml)
        run, _ = await start(
            StartRequest(**{**sides, **request}),
            records=self.records,
            golden_sets=self.deployed,
            stamp=Stamp(
                run_id=f"run-{self.started:03}",
                now=NOON + timedelta(minutes=self.started),
                seed=self.started,
                manifest={},
            ),
        )
        return run

    def execution(self, search: SearchService | None = None) -> Execution:
        return Execution(
            records=self.records,
            search=search or self.search,
            embedder=NoEmbedder(),
            limits=self.limits,
            now=lambda: NOON + timedelta(hours=1),
            new_claim=self._claim,
        )

    async def execute(
        self,
        run: Run,
        *,
        search: SearchService | None = None,
        on_progress: OnProgress = lambda *_: None,
    ) -> Run:
        execution = self.execution(search)
        return await execution.execute(run.id, cancelled=asyncio.Event(), on_progress=on_progress)

    async def run(self, jsonl: str, *, toml: str | None = KEYWORD + PLAIN, **request: Any) -> Run:
        """A run, started and executed to its end."""
        return await self.execute(await self.start(jsonl, toml=toml, **request))

    async def evidence(self, run: Run) -> list[Observed]:
        return list(await self.records.evidence(run.id))

    def limit(self, **changes: Any) -> None:
        self.limits = replace(self.limits, **changes)

    def _claim(self) -> str:
        self.claims += 1
        return f"claim-{self.claims}"


def codes(run: Run) -> list[str]:
    return [str(reason.code) for reason in run.reasons]


def checks(run: Run, code: str) -> list[Check]:
    return [check for check in run.checks if check.code == code]


def blocking(run: Run) -> list[Check]:
    return [check for check in run.checks if check.level is Level.BLOCKING]


def with_fields(definition: Mapping[str, Any], *fields: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with more fields, or others of the same name."""
    names = {each["name"] for each in fields}
    kept = [each for each in definition["fields"] if each["name"] not in names]
    return {**definition, "fields": [*kept, *fields]}
