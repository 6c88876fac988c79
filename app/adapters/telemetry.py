"""The work as spans and numbers, by OpenTelemetry's interface: they go where a program's providers send them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider

from app.domain.observation import Observation
from app.domain.query import Side
from app.domain.run import Run

_NAME = "search-index-gate"
_UNTRUSTED = "(not deployed)"  # sets that are sent along have any names: too many to count by


class OpenTelemetry:
    """`Telemetry` over these providers, or the program's own. Texts of questions and documents are left out."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracers)
        meter = metrics.get_meter(_NAME, meter_provider=meters)
        self._seconds = meter.create_histogram("gate.run.duration", "s", "From a run's start to its verdict")
        self._counters = [
            (meter.create_counter(f"gate.{name}", unit, meaning), number)
            for name, unit, meaning, number in _COUNTED
        ]

    @contextmanager
    def executing(self, run_id: str) -> Iterator[None]:
        """A trace of its own, linked with the request that started it: the run outlives that by far."""
        asked = trace.get_current_span().get_span_context()
        links = [Link(asked)] if asked.is_valid else []
        with self._span("run", context=Context(), links=links) as span:
            span.set_attribute("gate.run", run_id)
            yield

    @contextmanager
    def observing(self, question: str, side: Side, number: int) -> Iterator[Callable[[Observation], None]]:
        """A span within the run's."""
        with self._span("observation", kind=SpanKind.CLIENT) as span:
            span.set_attributes({"gate.question": question, "gate.side": side, "gate.number": number})

            def seen(observation: Observation) -> None:
                span.set_attribute("gate.attempts", observation.attempts)
                if observation.error is not None:
                    span.set_attribute("error.type", observation.error.code)
                    span.set_status(StatusCode.ERROR)

            yield seen

    def done(self, run: Run) -> None:
        """The verdict on the run's span, and the numbers."""
        kept = {
            "gate.verdict": str(run.verdict),
            "gate.golden_set": run.golden_set.name if run.trusted else _UNTRUSTED,
        }
        trace.get_current_span().set_attributes(kept)
        if run.started_at is not None and run.finished_at is not None:
            self._seconds.record((run.finished_at - run.started_at).total_seconds(), kept)
        for counter, number in self._counters:
            counter.add(number(run), kept)

    @contextmanager
    def _span(
        self,
        name: str,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        context: Context | None = None,
        links: list[Link] | None = None,
    ) -> Iterator[Span]:
        """A span, current in the block; of an exception it tells the kind, never the text."""
        with self._tracer.start_as_current_span(
            name,
            kind=kind,
            context=context,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise


_COUNTED: tuple[tuple[str, str, str, Callable[[Run], int]], ...] = (
    ("run.lost", "{question}", "Questions that a run lost", lambda run: run.counts.lost),
    ("run.errors", "{question}", "Questions with an observation that failed", lambda run: run.counts.errors),
    ("search.throttles", "{request}", "Queries answered 429 or 503", lambda run: run.requests.throttled),
    ("search.retries", "{request}", "Queries sent again", lambda run: run.requests.retries),
)
