"""A stand-in in a process of its own, on a free port of the loopback, and indexes to ask.

The eight chunks are made so that words, vectors and the cross-encoder have different favourites.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.search.documents import SearchClient
from azure.search.documents.indexes import SearchIndexClient

KEY = "a-key-for-tests"
VERSION = "api-version=2026-04-01"

CHUNKS: list[dict[str, Any]] = [
    {
        "chunk_id": "leave-0",
        "parent_id": "leave",
        "title": "Annual leave",
        "chunk": "Employees receive twenty-five days of paid holiday a year. Unused days lapse in March.",
        "tags": ["hr", "holiday"],
        "pages": 3,
        "changed": "2026-01-05T00:00:00Z",
        "public": True,
    },
    {
        "chunk_id": "leave-1",
        "parent_id": "leave",
        "title": "Annual leave",
        "chunk": "Leave, leave and leave again: the form for leave is kept where the leave forms are kept.",
        "tags": ["hr", "forms"],
        "pages": 1,
        "changed": "2026-02-05T00:00:00Z",
        "public": True,
    },
    {
        "chunk_id": "parental-0",
        "parent_id": "parental",
        "title": "New parents",
        "chunk": "A mother or father of a newborn may stay at home for sixteen weeks on full pay.",
        "tags": ["hr", "family"],
        "pages": 2,
        "changed": "2026-03-05T00:00:00Z",
        "public": False,
    },
    {
        "chunk_id": "dental-0",
        "parent_id": "dental",
        "title": "Dental plan",
        "chunk": "The dental plan pays for two check-ups a year and half the cost of crowns.",
        "tags": ["health"],
        "pages": 7,
        "changed": "2026-04-05T00:00:00Z",
        "public": True,
    },
    {
        "chunk_id": "vision-0",
        "parent_id": "vision",
        "title": "Eye care",
        "chunk": "Glasses and contact lenses are covered up to two hundred euros every two years.",
        "tags": ["health"],
        "pages": 5,
        "changed": "2026-05-05T00:00:00Z",
        "public": True,
    },
    {
        "chunk_id": "travel-0",
        "parent_id": "travel",
        "title": "Travel expenses",
        "chunk": "Trains are booked in second class; hotels cost at most 140 euros a night.",
        "tags": [],
        "pages": 4,
        "changed": "2026-06-05T00:00:00Z",
        "public": None,
    },
    {
        "chunk_id": "remote-0",
        "parent_id": "remote",
        "title": "Working from home",
        "chunk": "You can work from home three days a week after you have agreed it with your manager.",
        "tags": ["hr", "it's fine"],
        "pages": None,
        "changed": None,
        "public": True,
    },
    {
        "chunk_id": "security-0",
        "parent_id": "security",
        "title": "Passwords",
        "chunk": "Passwords have at least fourteen characters and are never written down or shared.",
        "tags": ["it"],
        "pages": 9,
        "changed": "2026-08-05T00:00:00Z",
        "public": False,
    },
]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer over plain HTTP, for what the client library does not show."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(kw_only=True)
class StandIn:
    """A running process; `stop` ends it, a new one may take its folder over."""

    folder: Path
    port: int = 0
    threads: int = 2
    url: str = ""
    configuration_url: str = ""
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> "StandIn":
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "infra.local", "serve", "--port", str(self.port)),
                *("--folder", str(self.folder), "--api-key", KEY, "--threads", str(self.threads)),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "default"},
        )
        assert self._process.stdout is not None
        self.url, self.configuration_url = (self._listening() for _ in range(2))
        return self

    def _listening(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "listening on http://" in line, line
        return line.split()[-1]

    def stop(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout=20)
        self._process.stdout.close()
        return code

    def search_client(self, index: str, **options: Any) -> SearchClient:
        return SearchClient(self.url, index, AzureKeyCredential(KEY), **options)

    def index_client(self) -> SearchIndexClient:
        return SearchIndexClient(self.url, AzureKeyCredential(KEY))

    def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = KEY, **headers: str
    ) -> Reply:
        given = {"Content-Type": "application/json", **{n.replace("_", "-"): v for n, v in headers.items()}}
        if key is not None:
            given["api-key"] = key
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, method=method, data=data, headers=given)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - our own process
                return Reply(status=reply.status, headers=dict(reply.headers), text=reply.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(status=error.code, headers=dict(error.headers), text=error.read().decode())

    def search(self, index: str, **body: Any) -> Reply:
        return self.call("POST", f"/indexes('{index}')/docs/search.post.search?{VERSION}", body)

    def keys(self, index: str, **body: Any) -> list[str]:
        """The chunks found, in order."""
        reply = self.search(index, **body)
        assert reply.status == 200, reply.text
        return [row["chunk_id"] for row in reply.json["value"]]

    def embeddings(self, deployment: str, texts: list[str]) -> list[list[float]]:
        path = f"/openai/deployments/{deployment}/embeddings?api-version=2024-10-21"
        reply = self.call("POST", path, {"input": texts})
        assert reply.status == 200, reply.text
        return [row["embedding"] for row in reply.json["data"]]

    def arm(self, *faults: dict[str, Any]) -> None:
        assert self.call("PUT", "/_faults", list(faults)).status == 200

    def counts(self) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = self.call("GET", "/_requests").json["counts"]
        return counts

    def fill(self, definition: dict[str, Any], *, backwards: bool = False) -> None:
        """Make the index anew and upload the chunks with their vectors, one by one from the last if backwards."""
        name = definition["name"]
        self.call("DELETE", f"/indexes('{name}')?{VERSION}")
        made = self.call("PUT", f"/indexes('{name}')?{VERSION}", definition)
        assert made.status == 201, made.text
        vectors = self.embeddings("wordllama-256", [row["chunk"] for row in CHUNKS])
        rows = [{**row, "text_vector": vector} for row, vector in zip(CHUNKS, vectors, strict=True)]
        for batch in [[row] for row in reversed(rows)] if backwards else [rows]:
            sent = self.call("POST", f"/indexes('{name}')/docs/search.index?{VERSION}", {"value": batch})
            assert sent.status == 200, sent.text


def definition(
    name: str, *, deployment: str = "wordllama-256", dimensions: int = 256, **changes: Any
) -> dict[str, Any]:
    """An index as the import wizard makes it, with a few fields to filter by. Changes replace properties."""
    body = {
        "name": name,
        "fields": [
            {"name": "chunk_id", "type": "Edm.String", "key": True, "sortable": True, "analyzer": "keyword"},
            {"name": "parent_id", "type": "Edm.String", "searchable": False, "filterable": True},
            {"name": "title", "type": "Edm.String", "analyzer": "en.lucene"},
            {"name": "chunk", "type": "Edm.String", "analyzer": "en.lucene", "filterable": False},
            {"name": "tags", "type": "Collection(Edm.String)", "searchable": False, "filterable": True},
            {"name": "pages", "type": "Edm.Int32", "filterable": True, "sortable": True},
            {"name": "changed", "type": "Edm.DateTimeOffset", "filterable": True, "sortable": True},
            {"name": "public", "type": "Edm.Boolean", "filterable": True},
            {"name": "secret", "type": "Edm.String", "searchable": False, "retrievable": False},
            {
                "name": "text_vector",
                "type": "Collection(Edm.Single)",
                "searchable": True,
                "retrievable": False,
                "dimensions": dimensions,
                "vectorSearchProfile": "profile",
            },
        ],
        "semantic": {
            "defaultConfiguration": "wizard",
            "configurations": [
                {
                    "name": "wizard",
                    "prioritizedFields": {
                        "titleField": {"fieldName": "title"},
                        "prioritizedContentFields": [{"fieldName": "chunk"}],
                        "prioritizedKeywordsFields": [],
                    },
                }
            ],
        },
        "vectorSearch": {
            "algorithms": [{"name": "graph", "kind": "hnsw", "hnswParameters": {"metric": "cosine"}}],
            "profiles": [{"name": "profile", "algorithm": "graph", "vectorizer": "vectorizer"}],
            "vectorizers": [
                {
                    "name": "vectorizer",
                    "kind": "azureOpenAI",
                    "azureOpenAIParameters": {
                        "resourceUri": "https://example.openai.azure.com",
                        "deploymentId": deployment,
                        "apiKey": "not to be shown",
                        "modelName": "text-embedding-3-large",
                    },
                }
            ],
        },
    }
    return {**body, **changes}


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """One stand-in for all tests, with the index `handbook` filled."""
    stand_in = StandIn(folder=tmp_path_factory.mktemp("search")).start()
    stand_in.fill(definition("handbook"))
    yield stand_in
    assert stand_in.stop() == 0


@pytest.fixture
def stand_in(running: StandIn) -> Iterator[StandIn]:
    """The same, with no faults armed and nothing counted."""
    running.call("DELETE", "/_faults")
    running.call("DELETE", "/_requests")
    yield running
    running.call("DELETE", "/_faults")
