"""A search service that answers what a test scripts, over real HTTP, fast enough to be measured against.

    async with ScriptedSearch() as service:                      # in the running loop, or
    with ScriptedSearch(latency=0.05, jitter=0.2) as service:    # in a thread of its own, for processes
        service.index("kb-v1", documents=10_000)
        service.answer("kb-v1", "How long is the notice?", ["x", "d1", "x"])
        ... service.url ...

What it serves (both URL styles, `/indexes('kb-v1')/…` and `/indexes/kb-v1/…`):

* `POST …/docs/search.post.search` (and `…/docs/search`): the rows scripted for that index and question.
  The question is the body's `search`, else `semanticQuery`, else the first vector query's `text`, else "".
* `GET /indexes('x')`: the definition, with its etag; an alias's name gives its index. 404 for others.
* `GET /indexes`: all definitions.
* `GET …/docs/$count`, `GET …/search.stats`: the index's `documents`.
* The same with `search` "*" and no vector, a listing of stored documents ("listing"): `index.stored`, or one
  chunk of each parent that an answer shows or the filter asks for (`tests.fakes.listing`).
* `GET /aliases('x')`: the alias; 404 for others. `PUT`: it is written, where `If-Match` and `If-None-Match` hold.
* `POST /openai/deployments/<name>/embeddings`: `vector_of(text)`, a vector of `dimensions` (default 3).

Answers. `answer(index, question, first, second, …)`: each an ordered list of parents (or `Chunk`s for more);
the first request that is answered gets the first, and so on; the last one repeats. Requests that a fault
answers instead do not use one up. A question that nothing is scripted for gets `index.otherwise` (default:
ten rows of parent "x"). `ranked(5, "d1")` is a list with "d1" on rank 5 of 50. Rows are cut to `top`, carry
only what `select` asks for, and have falling scores; `@search.rerankerScore` only if the query is semantic.

Faults. `fault(index, Fault(…), question=None, nth=None, on="search")`: the nth request (1-based, or several
as a tuple; None: every one) for that index and question (None: any question, counted one by one) is treated
so. The first fault that fits, in the order of scripting, wins. `on`: "search", "listing", "definition", "count",
"alias", "write-alias", "list" (there `index` is ""),
"embeddings" (there `index` is the deployment and the question its input). `clear_faults()` heals.

Changes. Everything may be changed at any time, from other threads too: `service.index("kb-v1").documents =
9`, `.etag = "0x2"`, `.definition[...]`, `del service.indexes["kb-v1"]`, `service.aliases["live"] = "kb-v2"`.
`service.capacity = AtOnce(4)` sheds the searches beyond it with 503 (`tests.capacity`).
`service.on_search = f` sees each `Received` first: it may change things, return rows to answer, or None.

Records. `service.requests` lists every `Received` in order of arrival (with index, question, nth, body,
headers in lower case and the time on the server's loop clock); `service.searches("kb-v1", question)` picks.
With `key="…"`, requests without that `api-key` get an empty 403.
"""

import asyncio
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from tests.capacity import Capacity
from tests.fakes.listing import Stored, listed, stand_ins

JSON = "application/json; odata.metadata=none; odata.streaming=true; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A row. What is None is made up, but for `parent` and `reranker_score` (None: falling scores).

    `fields` are more fields, or other values for the usual ones.
    """

    parent: str | None
    key: str | None = None
    text: str | None = None
    title: str | None = None
    score: float | None = None
    reranker_score: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


Rows = Sequence[str | Chunk | None]


def ranked(rank: int, parent: str, of: int = 50) -> list[str]:
    """`of` rows of parent "x", but `parent` on the 1-based `rank`."""
    return [parent if place == rank else "x" for place in range(1, of + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens instead of, or to, a right answer. With a status of 400 or more the body is an error's."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    code: str = ""
    detail: str = ""  # code of the first of error.details
    body: bytes | None = None  # sent as it is
    content_type: str = JSON
    delay: float = 0.0  # seconds before anything is sent
    partial: str | None = None  # a @search.semanticPartialResponseReason; its usual status is 206
    partial_type: str = "baseResults"
    unranked: bool = False  # no row has a reranker score
    unranked_from: int | None = None  # rows from this 1-based rank on have none
    drop: str | None = None  # "before": close without an answer; "mid": in the middle of the body
    trickle: float | None = None  # seconds between single bytes of the body
    truncated: bool = False  # half of the JSON, with a length that says that this is all
    without_value: bool = False
    next_page: bool = False  # adds @search.nextPageParameters and @odata.nextLink
    extra: Mapping[str, Any] = field(default_factory=dict)  # more top-level properties


@dataclass(slots=True, kw_only=True)
class Received:
    """One request. `nth` counts those of the same operation, index and question, from 1."""

    on: str  # search, definition, count, alias, embeddings, other
    method: str
    path: str  # with the query string
    index: str
    question: str
    nth: int
    body: Any
    headers: dict[str, str]
    at: float


@dataclass(slots=True, kw_only=True)
class ScriptedIndex:
    """What the service says of an index. `definition` None: reading it is forbidden (403)."""

    name: str
    documents: int = 1000
    etag: str = "0x1"
    definition: dict[str, Any] | None = None
    otherwise: Rows = ("x",) * 10
    stored: Sequence[Stored] | None = None  # what listings show


def wizard_definition(name: str) -> dict[str, Any]:
    """The kind of index that the portal's import wizard makes, with a vectorizer and a ranker."""

    def text(field_name: str, **attributes: Any) -> dict[str, Any]:
        return {
            "name": field_name,
            "type": "Edm.String",
            "searchable": True,
            "filterable": False,
            "retrievable": True,
            "key": False,
            **attributes,
        }

    return {
        "name": name,
        "fields": [
            text("chunk_id", key=True, analyzer="keyword"),
            text("parent_id", searchable=False, filterable=True),
            text("chunk"),
            text("title"),
            {
                "name": "text_vector",
                "type": "Collection(Edm.Single)",
                "searchable": True,
                "retrievable": True,
                "dimensions": 3,
                "vectorSearchProfile": "profile",
            },
        ],
        "semantic": {
            "defaultConfiguration": "default",
            "configurations": [
                {
                    "name": "default",
                    "prioritizedFields": {
                        "titleField": {"fieldName": "title"},
                        "prioritizedContentFields": [{"fieldName": "chunk"}],
                    },
                }
            ],
        },
        "vectorSearch": {
            "algorithms": [{"name": "hnsw", "kind": "hnsw"}],
            "profiles": [{"name": "profile", "algorithm": "hnsw", "vectorizer": "vectorizer"}],
            "vectorizers": [{"name": "vectorizer", "kind": "azureOpenAI"}],
        },
    }


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON


@dataclass(frozen=True, slots=True)
class _Rule:
    on: str
    index: str
    question: str | None
    nth: tuple[int, ...] | None
    fault: Fault

    def fits(self, received: Received) -> bool:
        return (
            self.on == received.on
            and self.index == received.index
            and self.question in (None, received.question)
            and (self.nth is None or received.nth in self.nth)
        )


_PATH = re.compile(
    r"/(?P<kind>indexes|aliases)(?:\('(?P<quoted>[^']*)'\)|/(?P<plain>[^/?]+))(?P<rest>/[^?]*)?(?:\?|$)"
)
_LIST = re.compile(r"/indexes(?:\?|$)")
_EMBEDDINGS = re.compile(r"/openai/deployments/(?P<name>[^/?]+)/embeddings(?:\?|$)")
_OPERATIONS = {
    ("POST", "indexes", "/docs/search.post.search"): "search",
    ("POST", "indexes", "/docs/search"): "search",
    ("GET", "indexes", ""): "definition",
    ("GET", "indexes", "/docs/$count"): "count",
    ("GET", "indexes", "/search.stats"): "stats",
    ("GET", "aliases", ""): "alias",
    ("PUT", "aliases", ""): "write-alias",
}
_REASONS = {200: "OK", 206: "Partial Content", 404: "Not Found", 429: "Too Many Requests"}


class ScriptedSearch:
    """See the module. `latency` is in seconds; each search takes it times 1 ± `jitter`, by `seed`."""

    def __init__(
        self, *, latency: float = 0.0, jitter: float = 0.0, seed: int = 0, key: str | None = None
    ) -> None:
        self.url = ""
        self.indexes: dict[str, ScriptedIndex] = {}
        self.aliases: dict[str, str] = {}
        self.requests: list[Received] = []
        self.on_search: Callable[[Received], Rows | None] | None = None
        self.vector_of: Callable[[str], Sequence[float]] | None = None
        self.capacity: Capacity | None = None
        self.latency = latency
        self.jitter = jitter
        self.under_way = 0
        self.most_under_way = 0
        self._random = random.Random(seed)
        self._key = key
        self._answers: dict[tuple[str, str], tuple[Rows, ...]] = {}
        self._rules: list[_Rule] = []
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._answered: Counter[tuple[str, str]] = Counter()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._alias_writes = 1
        self._stop: Callable[[], object] = lambda: None

    # the script

    def index(self, name: str, **changes: Any) -> ScriptedIndex:
        """The index of that name, made at need; `changes` set its attributes."""
        if name not in self.indexes:
            self.indexes[name] = ScriptedIndex(name=name, definition=wizard_definition(name))
        for attribute, value in changes.items():
            setattr(self.indexes[name], attribute, value)
        return self.indexes[name]

    def alias(self, name: str, index: str) -> None:
        self.index(index)
        self.aliases[name] = index

    def answer(self, index: str, question: str, *answers: Rows) -> None:
        self.index(index)
        self._answers[index, question] = answers

    def fault(
        self,
        index: str,
        fault: Fault,
        *,
        question: str | None = None,
        nth: int | tuple[int, ...] | None = None,
        on: str = "search",
    ) -> None:
        times = (nth,) if isinstance(nth, int) else nth
        self._rules.append(_Rule(on, index, question, times, fault))

    def clear_faults(self) -> None:
        self._rules.clear()

    # the record

    def searches(self, index: str | None = None, question: str | None = None) -> list[Received]:
        return [
            each
            for each in self.requests
            if each.on == "search" and index in (None, each.index) and question in (None, each.question)
        ]

    # life

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    def __enter__(self) -> Self:
        ready = threading.Event()

        async def serve() -> None:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            self._stop = lambda: loop.call_soon_threadsafe(stop.set)
            await self._open()
            ready.set()
            await stop.wait()
            await self._close()

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()
        if not ready.wait(timeout=10):
            raise RuntimeError("the scripted service did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if self._thread is not None:
            self._thread.join(timeout=10)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # HTTP

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serves one request; False where the connection is to be closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        received = self._received(method, path, headers, body)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self._serve(received, writer)
        finally:
            self.under_way -= 1

    def _received(self, method: str, path: str, headers: dict[str, str], data: bytes) -> Received:
        on, index = _operation(method, path)
        body = json.loads(data) if data else None
        if (
            on == "search"
            and body is not None
            and body.get("search") == "*"
            and not body.get("vectorQueries")
        ):
            on = "listing"
        question = _question(on, body)
        self._seen[on, index, question] += 1
        received = Received(
            on=on,
            method=method,
            path=path,
            index=index,
            question=question,
            nth=self._seen[on, index, question],
            body=body,
            headers=headers,
            at=asyncio.get_running_loop().time(),
        )
        self.requests.append(received)
        return received

    async def _serve(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        if self.capacity is None or received.on != "search":
            return await self._answer(received, writer)
        if not self.capacity.take(received.at):
            writer.write(_head(_Reply(503, b""), received))
            await writer.drain()
            return True
        try:
            return await self._answer(received, writer)
        finally:
            self.capacity.give_back()

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        fault = next((rule.fault for rule in self._rules if rule.fits(received)), Fault())
        latency = self.latency if received.on == "search" else 0.0
        delay = fault.delay + latency * (1 + self.jitter * self._random.uniform(-1, 1))
        if delay > 0:
            await asyncio.sleep(delay)
        if fault.drop == "before":
            return False
        reply = self._reply(received, fault)
        writer.write(_head(reply, received))
        if fault.drop == "mid":
            writer.write(reply.body[: len(reply.body) // 2])
            await writer.drain()
            return False
        if fault.trickle is not None:
            for byte in reply.body:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(fault.trickle)
        else:
            writer.write(reply.body)
            await writer.drain()
        return True

    # answers

    def _reply(self, received: Received, fault: Fault) -> _Reply:
        if self._key is not None and received.headers.get("api-key") != self._key:
            return _Reply(403, b"")
        if fault.body is not None:
            return _Reply(fault.status, fault.body, fault.headers, fault.content_type)
        if fault.status >= 300:
            return _Reply(fault.status, _error(fault), fault.headers, fault.content_type)
        reply = self._right(received, fault)
        body = reply.body[: len(reply.body) // 2] if fault.truncated else reply.body
        status = fault.status if fault.status != 200 else reply.status
        content_type = fault.content_type if fault.content_type != JSON else reply.content_type
        return _Reply(status, body, {**reply.headers, **fault.headers}, content_type)

    def _right(self, received: Received, fault: Fault) -> _Reply:
        match received.on:
            case "alias":
                return self._alias(received.index)
            case "write-alias":
                return self._written(received)
            case "embeddings":
                return self._embedding(received)
            case "list":
                return _json({"value": [each.definition or {} for each in self.indexes.values()]})
            case _:
                return self._of_index(received, fault)

    def _of_index(self, received: Received, fault: Fault) -> _Reply:
        index = self.indexes.get(self.aliases.get(received.index, received.index))
        if index is None or received.on == "other":
            return _missing(f"The index '{received.index}' for service 's' was not found.")
        match received.on:
            case "definition" if index.definition is None:
                return _Reply(403, b"")
            case "definition":
                return _json({"@odata.etag": f'"{index.etag}"', **(index.definition or {})})
            case "count":
                return _Reply(200, str(index.documents).encode(), content_type="text/plain")
            case "stats":
                return _json({"documentCount": index.documents, "storageSize": 1, "vectorIndexSize": 1})
            case "listing":
                return self._listing(received, index)
            case _:
                return self._found(received, index, fault)

    def _listing(self, received: Received, index: ScriptedIndex) -> _Reply:
        body = received.body
        rows = listed(
            self._stored(index, body.get("filter")),
            filter=body.get("filter"),
            order_by=body.get("orderby"),
            skip=body.get("skip") or 0,
            top=body.get("top") or 50,
        )
        select = body.get("select")
        names = set(select.split(",")) if isinstance(select, str) else None
        return _json(
            {
                "value": [
                    {"@search.score": 1.0}
                    | {name: value for name, value in row.items() if names is None or name in names}
                    for row in rows
                ]
            }
        )

    def _stored(self, index: ScriptedIndex, filter_: str | None) -> Sequence[Stored]:
        if index.stored is not None:
            return index.stored
        shown = [rows for (of, _), answers in self._answers.items() if of == index.name for rows in answers]
        chunks = (
            each.parent if isinstance(each, Chunk) else each
            for rows in (*shown, index.otherwise)
            for each in rows
        )
        return stand_ins(list(chunks), filter_)

    def _alias(self, name: str) -> _Reply:
        target = self.aliases.get(name)
        if target is None:
            return _missing(f"No alias with the name '{name}' was found in the service 's'.")
        return _json({"@odata.etag": self._alias_etag, "name": name, "indexes": [target]})

    @property
    def _alias_etag(self) -> str:
        return f'"0x{self._alias_writes}"'

    def _written(self, received: Received) -> _Reply:
        is_there = received.index in self.aliases
        wanted = received.headers.get("if-match")
        if wanted is not None and not (is_there and wanted == self._alias_etag):
            return _Reply(412, b"")
        if "if-none-match" in received.headers and is_there:
            return _Reply(412, b"")
        self._alias_writes += 1
        self.aliases[received.index] = received.body["indexes"][0]
        return _Reply(200 if is_there else 201, self._alias(received.index).body)

    def _embedding(self, received: Received) -> _Reply:
        text = str(received.body.get("input"))
        size = int(received.body.get("dimensions", 3))
        vector = list(self.vector_of(text)) if self.vector_of else [1.0, *(0.5,) * (size - 1)]
        return _json({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": vector}]})

    def _found(self, received: Received, index: ScriptedIndex, fault: Fault) -> _Reply:
        rows = self.on_search(received) if self.on_search else None
        if rows is None:
            rows = self._scripted(received, index)
        rows = rows[: received.body.get("top", 50)]
        semantic = received.body.get("queryType") == "semantic" and not fault.unranked
        scored = len(rows) if fault.unranked_from is None else fault.unranked_from - 1
        select = received.body.get("select")
        names = set(select.split(",")) if isinstance(select, str) else None
        content: dict[str, Any] = dict(fault.extra)
        if fault.partial is not None:
            content["@search.semanticPartialResponseReason"] = fault.partial
            content["@search.semanticPartialResponseType"] = fault.partial_type
        if fault.next_page:
            content["@search.nextPageParameters"] = {**received.body, "skip": len(rows)}
            content["@odata.nextLink"] = f"{self.url}{received.path}"
        if not fault.without_value:
            content["value"] = [
                _row(index.name, place, each, names, semantic=semantic and place <= scored)
                for place, each in enumerate(rows, start=1)
            ]
        return _json(content)

    def _scripted(self, received: Received, index: ScriptedIndex) -> Rows:
        name = index.name, received.question
        answers = self._answers.get(name)
        if not answers:
            return index.otherwise
        self._answered[name] += 1
        return answers[min(self._answered[name], len(answers)) - 1]


def _operation(method: str, path: str) -> tuple[str, str]:
    """What is asked, and of which index (or alias, or deployment)."""
    embeddings = _EMBEDDINGS.match(path)
    if method == "POST" and embeddings:
        return "embeddings", unquote(embeddings["name"])
    if method == "GET" and _LIST.match(path):
        return "list", ""
    match = _PATH.match(path)
    if match is None:
        return "other", ""
    name = unquote(match["quoted"] or match["plain"] or "")
    rest = (match["rest"] or "").rstrip("/").replace("%24", "$")
    return _OPERATIONS.get((method, match["kind"], rest), "other"), name


def _question(on: str, body: Any) -> str:
    if not isinstance(body, dict):
        return ""
    if on == "embeddings":
        return str(body.get("input"))
    vectors = body.get("vectorQueries") or [{}]
    for value in (body.get("search"), body.get("semanticQuery"), vectors[0].get("text")):
        if value is not None:
            return str(value)
    return ""


def _head(reply: _Reply, received: Received) -> bytes:
    headers = {
        "Content-Type": reply.content_type,
        "Content-Length": str(len(reply.body)),
        "request-id": received.headers.get("x-ms-client-request-id", ""),
        **reply.headers,
    }
    lines = [f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Status')}"]
    lines.extend(f"{name}: {value}" for name, value in headers.items())
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _json(content: Mapping[str, Any]) -> _Reply:
    return _Reply(200, json.dumps(content).encode())


def _missing(message: str) -> _Reply:
    return _Reply(404, json.dumps({"error": {"code": "", "message": message}}).encode())


def _error(fault: Fault) -> bytes:
    if not (fault.message or fault.code or fault.detail):
        return b""
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.detail:
        error["details"] = [{"code": fault.detail, "message": fault.message}]
    return json.dumps({"error": error}).encode()


def _row(
    index: str, place: int, each: str | Chunk | None, names: set[str] | None, *, semantic: bool
) -> dict[str, Any]:
    chunk = each if isinstance(each, Chunk) else Chunk(parent=each)
    row: dict[str, Any] = {
        "@search.score": chunk.score if chunk.score is not None else 1 / (60 + place),
    }
    if semantic:
        falling = 4 - place / 100
        row["@search.rerankerScore"] = chunk.reranker_score if chunk.reranker_score is not None else falling
    content = {
        "chunk_id": chunk.key if chunk.key is not None else f"{index}_{place}",
        "parent_id": chunk.parent,
        "chunk": chunk.text if chunk.text is not None else f"Passage {place} of {chunk.parent}.",
        "title": chunk.title if chunk.title is not None else f"Title of {chunk.parent}",
        **chunk.fields,
    }
    row.update(content if names is None else {name: content[name] for name in content if name in names})
    return row
