"""Where OpenTelemetry's spans and numbers go: Application Insights. Needs the optional extra `monitor`."""

import os
from collections.abc import Sequence

from azure.identity import ManagedIdentityCredential
from azure.monitor.opentelemetry import configure_azure_monitor
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

_ENVIRONMENT = {  # what the library takes from the environment alone
    "OTEL_LOGS_EXPORTER": "none",  # the platform collects the log
    "OTEL_SERVICE_NAME": "search-index-gate",
    "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",  # what the library would tell its makers of itself
    "APPLICATIONINSIGHTS_CONTROLPLANE_DISABLED": "true",  # and have them set in it
}
_INSTRUMENTED = ("azure_sdk", "django", "fastapi", "flask", "httpx", "httpx2", "psycopg2", "requests")
_URLLIB = ("urllib", "urllib3")


def export(connection_string: str, client_id: str | None) -> None:
    """From now on all spans and numbers of this program are sent there; by the user-assigned identity, where
    one is picked. To be called once, before the application is made. Nothing is written to disk.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    configure_azure_monitor(
        connection_string=connection_string,
        credential=ManagedIdentityCredential(client_id=client_id) if client_id else None,
        disable_offline_storage=True,
        enable_live_metrics=False,
        enable_performance_counters=False,
        sampling_ratio=1.0,
        span_processors=processors(),
        instrumentation_options={name: {"enabled": False} for name in (*_INSTRUMENTED, *_URLLIB)},
    )


def processors() -> Sequence[SpanProcessor]:
    """What every span goes through before it is sent."""
    return [_WithoutQueries()]


class _WithoutQueries(SpanProcessor):
    """Hides the query of an address: a sign-in's holds a code."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        del parent_context
        if "url.query" in (span.attributes or {}):
            span.set_attribute("url.query", "hidden")
