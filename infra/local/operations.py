"""What each route does: from the parts of a request to a status and a body. Blocking; runs in worker threads."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.local.catalogue import Catalogue, Precondition
from infra.local.documents import read_batch
from infra.local.errors import ServiceError, bad_request
from infra.local.models import ModelMissingError, Models, Role, StoppedError
from infra.local.query import SearchRequest
from infra.local.search import Searcher, selected_fields, visible
from infra.local.shelf import Shelf
from infra.local.store import Resource

_QUOTED = re.compile(r"\('((?:[^']|'')*)'\)")
_REPRESENTATION = "return=representation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The parts of a request. `name` and `key` are taken from the path and empty where it has none."""

    operation: str
    name: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    ranked_semantically: bool = True

    @property
    def condition(self) -> Precondition:
        return Precondition(
            if_match=self.headers.get("If-Match"), if_none_match=self.headers.get("If-None-Match")
        )

    @property
    def wants_representation(self) -> bool:
        return _REPRESENTATION in self.headers.get("Prefer", "")

    def json_object(self) -> Mapping[str, Any]:
        if not isinstance(self.body, dict):
            raise bad_request("The request is invalid. Details: the body must be a JSON object.")
        return self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status and JSON body (None: no body), before headers and faults."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the operations work on."""

    catalogue: Catalogue
    searcher: Searcher
    models: Models

    def perform(self, call: Call) -> Answer:
        try:
            return _OPERATIONS[call.operation](self, call)
        except ServiceError as error:
            return Answer(status=error.status, body=error.body())
        except StoppedError:
            return Answer(status=503)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method and a path, both URL styles already made one: /indexes/x/docs/search.index."""

    method: str
    pattern: re.Pattern[str]
    operation: str


def route(method: str, path: str) -> tuple[str, str, str] | None:
    """Operation, name and key of a request; None for a path that does not exist."""
    plain = _QUOTED.sub(lambda found: "/" + found[1].replace("''", "'"), path.rstrip("/"))
    for candidate in _ROUTES:
        found = candidate.pattern.fullmatch(plain)
        if found is not None and candidate.method == method:
            parts = found.groupdict()
            return candidate.operation, parts.get("name", ""), parts.get("key", "")
    return None


def question_of(operation: str, body: Any) -> str:
    """The text asked about: of a search, its words or its first vector query's text; of embeddings, the input."""
    if not isinstance(body, dict):
        return ""
    if operation == "embeddings":
        given = body.get("input")
        return given if isinstance(given, str) else "\n".join(str(part) for part in given or [])
    words = body.get("search")
    if words:
        return str(words)
    texts = [part.get("text") for part in body.get("vectorQueries") or [] if isinstance(part, dict)]
    return next((str(text) for text in texts if text), "")


def _search(service: Service, call: Call) -> Answer:
    snapshot = service.catalogue.searched_index(call.name).snapshot()
    request = SearchRequest.parse(call.json_object())
    body = service.searcher.answer(snapshot, request, ranked_semantically=call.ranked_semantically)
    return Answer(body=body)


def _upload(service: Service, call: Call) -> Answer:
    shelf = service.catalogue.searched_index(call.name)
    outcomes = shelf.write(read_batch(call.body))
    failed = any(outcome.error is not None for outcome in outcomes)
    return Answer(status=207 if failed else 200, body={"value": [outcome.body() for outcome in outcomes]})


def _count(service: Service, call: Call) -> Answer:
    return Answer(body=service.catalogue.searched_index(call.name).count())


def _document(service: Service, call: Call) -> Answer:
    shelf = service.catalogue.searched_index(call.name)
    selected = selected_fields(shelf.definition, call.query.get("$select"))
    document = shelf.document(call.key)
    if document is None:
        return Answer(status=404)
    return Answer(body=visible(document, selected))


def _create_index(service: Service, call: Call) -> Answer:
    return _index_answer(service.catalogue.create_index(call.json_object()), 201)


def _put_index(service: Service, call: Call) -> Answer:
    shelf, is_new = service.catalogue.put_index(call.name, call.json_object(), call.condition)
    if is_new:
        return _index_answer(shelf, 201)
    return _index_answer(shelf, 200) if call.wants_representation else Answer(status=204)


def _get_index(service: Service, call: Call) -> Answer:
    return _index_answer(service.catalogue.index(call.name), 200)


def _delete_index(service: Service, call: Call) -> Answer:
    service.catalogue.delete_index(call.name, call.condition)
    return Answer(status=204)


def _list_indexes(service: Service, call: Call) -> Answer:
    return Answer(
        body={"value": _selected([_index_body(part) for part in service.catalogue.indexes()], call)}
    )


def _stats(service: Service, call: Call) -> Answer:
    shelf = service.catalogue.index(call.name)
    storage, vectors = shelf.sizes()
    return Answer(body={"documentCount": shelf.count(), "storageSize": storage, "vectorIndexSize": vectors})


def _service_stats(service: Service, _: Call) -> Answer:
    shelves = service.catalogue.indexes()
    sizes = [shelf.sizes() for shelf in shelves]
    counters = {
        "documentCount": _counter(sum(shelf.count() for shelf in shelves), None),
        "indexesCount": _counter(len(shelves), 50),
        "indexersCount": _counter(0, 50),
        "dataSourcesCount": _counter(0, 50),
        "storageSize": _counter(sum(storage for storage, _ in sizes), 2**37),
        "synonymMaps": _counter(0, 5),
        "skillsetCount": _counter(0, 50),
        "vectorIndexSize": _counter(sum(vectors for _, vectors in sizes), 2**35),
        "aliasesCount": _counter(len(service.catalogue.aliases()), 100),
    }
    limits = {
        "maxFieldsPerIndex": 1000,
        "maxFieldNestingDepthPerIndex": 10,
        "maxComplexCollectionFieldsPerIndex": 40,
        "maxComplexObjectsInCollectionsPerDocument": 3000,
    }
    return Answer(body={"counters": counters, "limits": limits})


def _create_alias(service: Service, call: Call) -> Answer:
    return _alias_answer(service.catalogue.create_alias(call.json_object()), 201)


def _put_alias(service: Service, call: Call) -> Answer:
    alias, is_new = service.catalogue.put_alias(call.name, call.json_object(), call.condition)
    if is_new:
        return _alias_answer(alias, 201)
    return _alias_answer(alias, 200) if call.wants_representation else Answer(status=204)


def _get_alias(service: Service, call: Call) -> Answer:
    return _alias_answer(service.catalogue.alias(call.name), 200)


def _delete_alias(service: Service, call: Call) -> Answer:
    service.catalogue.delete_alias(call.name, call.condition)
    return Answer(status=204)


def _list_aliases(service: Service, call: Call) -> Answer:
    return Answer(
        body={"value": _selected([_alias_body(part) for part in service.catalogue.aliases()], call)}
    )


def _embeddings(service: Service, call: Call) -> Answer:
    """Azure OpenAI's shape. `input_type` "query" is ours: models made for retrieval want to know."""
    body = call.json_object()
    given = body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        return _openai_error(400, "invalid_request_error", "'input' must be a text or a list of texts.")
    role = Role.QUERY if body.get("input_type") == "query" else Role.PASSAGE
    try:
        vectors = service.models.embed(call.name, texts, role)
    except ModelMissingError:
        return _openai_error(
            404, "DeploymentNotFound", "The API deployment for this resource does not exist."
        )
    if body.get("dimensions") not in {None, vectors.shape[1]}:
        return _openai_error(
            400, "invalid_request_error", f"This model only has {vectors.shape[1]} dimensions."
        )
    data = [
        {"object": "embedding", "index": number, "embedding": [float(str(part)) for part in vector]}
        for number, vector in enumerate(vectors)
    ]
    words = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": words, "total_tokens": words}
    return Answer(body={"object": "list", "data": data, "model": call.name, "usage": usage})


def _openai_error(status: int, code: str, message: str) -> Answer:
    return Answer(status=status, body={"error": {"code": code, "message": message}})


def _counter(usage: int, quota: int | None) -> dict[str, int | None]:
    return {"usage": usage, "quota": quota}


def _index_body(shelf: Shelf) -> dict[str, Any]:
    return {"@odata.etag": f'"{shelf.etag}"', **shelf.definition.body}


def _index_answer(shelf: Shelf, status: int) -> Answer:
    return Answer(status=status, body=_index_body(shelf), headers={"ETag": f'"{shelf.etag}"'})


def _alias_body(alias: Resource) -> dict[str, Any]:
    return {"@odata.etag": f'"{alias.etag}"', **alias.body}


def _alias_answer(alias: Resource, status: int) -> Answer:
    return Answer(status=status, body=_alias_body(alias), headers={"ETag": f'"{alias.etag}"'})


def _selected(bodies: Sequence[dict[str, Any]], call: Call) -> list[dict[str, Any]]:
    wanted = {part.strip() for part in call.query.get("$select", "").split(",") if part.strip()}
    if not wanted or "*" in wanted:
        return list(bodies)
    return [{name: value for name, value in body.items() if name in wanted} for body in bodies]


_OPERATIONS: dict[str, Callable[[Service, Call], Answer]] = {
    "search": _search,
    "upload": _upload,
    "count": _count,
    "document": _document,
    "create": _create_index,
    "put": _put_index,
    "get": _get_index,
    "delete": _delete_index,
    "list": _list_indexes,
    "stats": _stats,
    "service": _service_stats,
    "alias-create": _create_alias,
    "alias-put": _put_alias,
    "alias-get": _get_alias,
    "alias-delete": _delete_alias,
    "alias-list": _list_aliases,
    "embeddings": _embeddings,
}


def _routes() -> list[Route]:
    index, alias = r"/indexes/(?P<name>[^/]+)", r"/aliases/(?P<name>[^/]+)"
    table = [
        ("POST", index + r"/docs/search(?:\.post\.search)?", "search"),
        ("POST", index + r"/docs/(?:search\.)?index", "upload"),
        ("GET", index + r"/docs/\$count", "count"),
        ("GET", index + r"/docs/(?P<key>[^/]+)", "document"),
        ("GET", index + r"/(?:search\.)?stats", "stats"),
        ("GET", index, "get"),
        ("PUT", index, "put"),
        ("DELETE", index, "delete"),
        ("POST", "/indexes", "create"),
        ("GET", "/indexes", "list"),
        ("GET", "/servicestats", "service"),
        ("GET", alias, "alias-get"),
        ("PUT", alias, "alias-put"),
        ("DELETE", alias, "alias-delete"),
        ("POST", "/aliases", "alias-create"),
        ("GET", "/aliases", "alias-list"),
        ("POST", r"/openai/deployments/(?P<name>[^/]+)/embeddings", "embeddings"),
    ]
    return [Route(method=method, pattern=re.compile(path), operation=name) for method, path, name in table]


_ROUTES = _routes()
