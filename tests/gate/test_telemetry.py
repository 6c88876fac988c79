"""What is measured of a run: spans and numbers, as OpenTelemetry has them in memory."""

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from app.adapters.telemetry import OpenTelemetry
from app.domain.errors import FailureCode, QueryError
from app.domain.golden import GoldenTexts
from tests.gate.executing import KEYWORD, PLAIN, Executing, lines


class Measured:
    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.telemetry = OpenTelemetry(self.tracers, self.meters)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    @property
    def points(self) -> dict[str, Any]:
        """Each metric's only point."""
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = [
            each for found in data.resource_metrics for scope in found.scope_metrics for each in scope.metrics
        ]
        return {each.name: point for each in metrics for (point,) in [each.data.data_points]}


@pytest.fixture
def measured() -> Measured:
    return Measured()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def run(gate: Executing, measured: Measured, jsonl: str, **request: Any) -> Any:
    started = await gate.start(jsonl, **request)
    execution = gate.execution()
    execution.telemetry = measured.telemetry
    with measured.tracers.get_tracer("web").start_as_current_span("request"):
        return await execution.execute(started.id, cancelled=asyncio.Event())


async def test_every_observation_is_a_span_of_the_runs(measured: Measured) -> None:
    gate = Executing()
    done = await run(gate, measured, lines(3))
    (whole,) = measured.spans("run")
    assert whole.parent is None
    assert attributes(whole) == {
        "gate.run": done.id,
        "gate.verdict": "PASS",
        "gate.golden_set": "(not deployed)",
    }
    (request,) = measured.spans("request")
    assert [link.context.span_id for link in whole.links] == [
        request.context.span_id if request.context else None
    ]
    found = measured.spans("observation")
    assert {each.parent.span_id if each.parent else None for each in found} == {
        whole.context.span_id if whole.context else None
    }
    assert sorted((attributes(each)["gate.question"], attributes(each)["gate.side"]) for each in found) == [
        (f"q{number}", side) for number in (1, 2, 3) for side in ("baseline", "candidate")
    ]
    assert all(attributes(each)["gate.attempts"] == 1 for each in found)


async def test_an_observation_that_failed_says_how_and_not_what_was_said(measured: Measured) -> None:
    gate = Executing()
    gate.search.index("kb-v2").fail(
        "question 2", QueryError(FailureCode.THROTTLED, "said", attempts=4, throttled=4)
    )
    await run(gate, measured, lines(3), toml=f"{KEYWORD}{PLAIN}max_question_errors = 1\n")
    (failed,) = [
        each for each in measured.spans("observation") if each.status.status_code is StatusCode.ERROR
    ]
    assert attributes(failed)["gate.question"] == "q2"
    assert attributes(failed)["error.type"] == "throttled"
    assert failed.events == ()
    assert failed.status.description is None


async def test_a_run_is_counted_with_what_it_lost_and_what_it_took(measured: Measured) -> None:
    gate = Executing()
    gate.deployed.sets["hr"] = GoldenTexts(
        name="hr",
        jsonl=lines(4),
        toml=f"{KEYWORD}{PLAIN}max_question_errors = 1\nmin_evaluated_share = 0.5\n",
    )
    gate.search.index("kb-v2").answer("question 1", ("x", "y"))
    gate.search.index("kb-v2").fail(
        "question 2", QueryError(FailureCode.THROTTLED, "said", attempts=4, throttled=3)
    )
    done = await run(gate, measured, "", golden_set="hr")
    points = measured.points
    assert {name: point.value for name, point in points.items() if name != "gate.run.duration"} == {
        "gate.run.lost": 1,
        "gate.run.errors": 1,
        "gate.search.throttles": 3,
        "gate.search.retries": 3,
    }
    duration = points["gate.run.duration"]
    assert duration.count == 1
    assert duration.sum == (done.finished_at - done.started_at).total_seconds()
    for point in points.values():
        assert dict(point.attributes) == {"gate.verdict": "FAIL", "gate.golden_set": "hr"}
