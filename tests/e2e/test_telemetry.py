"""What the service sends to Application Insights, received by a place of our own on loopback."""

import gzip
import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.programs import PLAIN, Gate, lines, questions, until

KEY = "5a7e0c1d-3f1b-4b0e-9c55-0d6a1f4e2b77"


class Ingestion:
    """Takes whatever is sent there."""

    def __init__(self) -> None:
        self.envelopes: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.envelopes))
        self.thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def connection_string(self) -> str:
        return (
            f"InstrumentationKey={KEY};IngestionEndpoint=http://127.0.0.1:{self._server.server_address[1]}/"
        )

    def kept(self, kind: str) -> list[dict[str, Any]]:
        """The contents of all of that kind."""
        return [each["data"]["baseData"] for each in list(self.envelopes) if each["data"]["baseType"] == kind]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.thread.join()


def _handler(envelopes: list[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            found = json.loads(
                gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data
            )
            envelopes.extend(found)
            content = json.dumps(
                {"itemsReceived": len(found), "itemsAccepted": len(found), "errors": []}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler


@pytest.fixture
def ingestion() -> Iterator[Ingestion]:
    found = Ingestion()
    found.thread.start()
    yield found
    found.stop()


def test_one_span_a_request_and_an_observation_and_numbers_of_the_run(
    gate: Gate, ingestion: Ingestion
) -> None:
    golden = {"name": "hr", "jsonl": lines(questions("q1", "q2")), "toml": f"[policy]\n{PLAIN}"}
    with gate.serving(APPLICATIONINSIGHTS_CONNECTION_STRING=ingestion.connection_string) as service:
        run = service.start(golden=golden)
        service.done(run["id"])
        service.client.get("/nothing", params={"code": "a-code-that-opens"})
        service.process.send(signal.SIGTERM)
        ended = service.process.ended()
    assert ended.status == 0, ended.err
    until(lambda: ingestion.kept("RequestData") and ingestion.kept("MetricData"), "what is sent at the end")
    names = sorted(each["name"] for each in ingestion.kept("RequestData"))
    assert names == [
        "GET /healthz",
        "GET /nothing",
        "GET /v1/runs/{run_id}",
        "GET /v1/runs/{run_id}/run.json",
        "POST /v1/runs",
    ]
    spans = ingestion.kept("RemoteDependencyData")
    assert sorted(each["properties"]["gate.question"] for each in spans if each["name"] == "observation") == [
        "q1",
        "q1",
        "q2",
        "q2",
    ]
    assert [each["properties"]["gate.run"] for each in spans if each["name"] == "run"] == [run["id"]]
    assert {each["name"] for each in spans} == {"run", "observation"}
    metrics = {metric["name"] for each in ingestion.kept("MetricData") for metric in each["metrics"]}
    assert metrics >= {"gate.run.duration", "gate.run.lost", "gate.run.errors", "gate.search.throttles"}
    assert "a-code-that-opens" not in json.dumps(ingestion.envelopes)
    assert ingestion.kept("MessageData") == []
    assert KEY not in ended.said


def test_a_connection_string_that_is_none_is_named_without_its_value(gate: Gate) -> None:
    ended = gate.ended("serve", APPLICATIONINSIGHTS_CONNECTION_STRING=f"InstrumentationKey={KEY}x")
    ended.refused("error: APPLICATIONINSIGHTS_CONNECTION_STRING: must be InstrumentationKey=<GUID>;")
    assert KEY not in ended.said


def test_without_the_extra_the_start_is_refused(gate: Gate) -> None:
    """As on a machine where only requirements/run.txt is installed."""
    hidden = "import sys\nsys.modules['azure.monitor'] = None\n"
    (gate.folder / "sitecustomize.py").write_text(hidden, encoding="utf-8")
    ended = gate.ended(
        "serve",
        PYTHONPATH=f"{gate.folder}:{gate.environment['PYTHONPATH']}",
        APPLICATIONINSIGHTS_CONNECTION_STRING=f"InstrumentationKey={KEY}",
    )
    ended.refused("error: APPLICATIONINSIGHTS_CONNECTION_STRING: is set, and ", "the extra `monitor`")
