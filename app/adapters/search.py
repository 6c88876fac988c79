"""Azure AI Search, over its official client: one observation, an index's definition, its document count."""

import asyncio
import random
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from sys import float_info
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.core.pipeline import PipelineResponse
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.core.pipeline.transport import AioHttpTransport
from azure.core.rest import AsyncHttpResponse, HttpRequest
from azure.search.documents.aio import SearchClient
from azure.search.documents.indexes.aio import SearchIndexClient

from app.adapters.credentials import Credential
from app.adapters.limiter import Limiter
from app.adapters.refusals import Identity, Refusal, refused, service_text, unauthorized
from app.adapters.retries import FailedAttemptError, Retries
from app.adapters.scrubbing import scrubbed
from app.domain.errors import BrokenError, FailureCode, Fault, InputError, QueryError
from app.domain.parents import as_text, parent_of
from app.domain.reasons import Code
from app.gate.ports import Answer, Ask, Described, Listing, Page, Row, Statistics

_USER_AGENT = "search-index-gate"
_CONNECT_SECONDS = 10.0
_API_VERSION = "2026-04-01"
_JSON = ("application/json", "text/json")
_PARTIAL = "@search.semanticpartialresponse"
_ONCE_BROKEN = {
    FailureCode.THROTTLED: Code.THROTTLED,
    FailureCode.TIMED_OUT: Code.TIMED_OUT,
    FailureCode.REJECTED: Code.INDEX_MISSING,  # a name that the service refuses is no index
}

T = TypeVar("T")


class AzureSearch:
    """A `SearchService` for one endpoint; enter it before use, leaving it closes every connection.

    `limiter` is the one of this service, for all runs together. `query_timeout_seconds` limits one attempt
    with its whole body, so that a trickling answer cannot stretch it. `audience` is the service's in another
    cloud (https://search.azure.us). `client_id` is shown where the identity is refused.
    `enforce_https=False` lets a token travel over http to a stand-in on this machine. `clock`, `sleep` and
    `jitter` are those of the retries.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        credential: Credential,
        limiter: Limiter,
        query_timeout_seconds: float,
        audience: str | None = None,
        client_id: str | None = None,
        user_agent: str = _USER_AGENT,
        enforce_https: bool = True,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._credential = credential
        self._identity = Identity(by_key=isinstance(credential, AzureKeyCredential), client_id=client_id)
        if enforce_https and not self._identity.by_key and not endpoint.lower().startswith("https://"):
            message = f"is {endpoint!r}: a token is sent over https only; use https, or a key"
            raise InputError([Fault(where="GATE_SEARCH_ENDPOINT", message=message)])
        self._limiter = limiter
        self._retries = Retries(
            attempt_seconds=query_timeout_seconds, clock=clock, sleep=sleep, jitter=jitter
        )
        self._transport = AioHttpTransport(
            connection_timeout=min(_CONNECT_SECONDS, query_timeout_seconds),
            read_timeout=query_timeout_seconds,
        )
        self._client_options: dict[str, Any] = {
            "audience": audience,
            "user_agent": user_agent,
            "transport": self._transport,
            "retry_policy": AsyncRetryPolicy.no_retries(),
            "permit_redirects": False,
        }
        self._call_options: dict[str, Any] = {} if enforce_https else {"enforce_https": False}
        self._clients: dict[str, SearchClient] = {}
        self._definitions = SearchIndexClient(self._endpoint, credential, **self._client_options)

    async def __aenter__(self) -> Self:
        await self._transport.open()
        if self._transport.session is not None:  # aiohttp sends a GET again by itself if the connection drops
            self._transport.session._retry_connection = False  # noqa: SLF001 — there is no public switch
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()  # the clients share it, and own nothing else

    # the port

    async def ask(self, ask: Ask, deadline: float) -> Answer:
        """See `SearchService.ask`. Rows are in the order of the response, which is the rank."""
        body = search_body(ask)

        async def attempt() -> tuple[Row, ...]:
            call = _Call(self, ask.index)
            found = await self._rows(call, ask.index, body, ask.query.candidates)
            call.refuse_partial()
            rows = tuple(row_of(each, ask) for each in found)
            if ask.query.semantic:
                refuse_unranked(rows, ask)
            return rows

        tried = await self._retries.run(attempt, deadline=deadline, limiter=self._limiter, telling=True)
        return Answer(
            rows=tried.value,
            elapsed_ms=tried.elapsed_ms,
            attempts=tried.attempts,
            throttled=tried.throttled,
            at_once=tried.at_once,
        )

    async def describe(self, name: str, deadline: float) -> Described:
        """See `SearchService.describe`. Two requests: what the alias of that name names, and the index.

        An identity that may not read aliases gets an alias's index all the same where the service resolves
        it; the definition's own name then tells which one it is.
        """
        target = await self._alias_target(name, deadline)
        wanted = target or name
        try:
            definition, etag = await self._definition(wanted, deadline)
        except _ForbiddenError:
            return Described(name=wanted, alias=name if target else None, definition=None, etag=None)
        except BrokenError as error:
            if target is None:
                raise
            message = f"The alias {name!r} stands for index {target!r}. {error}"
            raise BrokenError(error.code, message, index=target) from error
        concrete = str(definition.get("name") or wanted)
        return Described(
            name=concrete, alias=name if concrete != name else None, definition=definition, etag=etag
        )

    async def document_count(self, index: str, deadline: float) -> int:
        """See `SearchService.document_count`."""

        async def attempt() -> int:
            call = _Call(self, index)
            reading = self._client(index).get_document_count(**call.options)
            count = await call.read(reading, ("text/plain", *_JSON))
            if not isinstance(count, int):  # the client gives what it cannot read as it is
                raise call.broken_promise("it is not a number")
            return count

        return await self._once(attempt, index, deadline)

    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        """See `SearchService.list_documents`."""
        body = _without_none(
            search="*",
            select=",".join(listing.select),
            filter=listing.filter,
            orderby=f"{listing.order_by} asc" if listing.order_by else None,
            skip=listing.skip or None,
            top=listing.top,
        )

        async def attempt() -> Page:
            call = _Call(self, index)
            found = await self._rows(call, index, body, listing.top)
            cut_short = "@search.nextPageParameters" in call.content()
            rows = tuple({name: row.get(name) for name in listing.select} for row in found)
            return Page(rows=rows, complete=len(rows) < listing.top and not cut_short)

        return await self._once(attempt, index, deadline)

    async def statistics(self, index: str, deadline: float) -> Statistics | None:
        """See `SearchService.statistics`."""

        async def attempt() -> Statistics | None:
            call = _Call(self, index)
            try:
                await call.read(self._definitions.get_index_statistics(index, **call.options))
            except BrokenError:
                if call.status == HTTPStatus.FORBIDDEN:
                    return None
                raise
            content = call.content()
            vectors = content.get("vectorIndexSize")
            return Statistics(
                documents=int(content.get("documentCount") or 0),
                storage_bytes=int(content.get("storageSize") or 0),
                vector_bytes=None if vectors is None else int(vectors),
            )

        return await self._once(attempt, index, deadline)

    async def synonym_maps(self, deadline: float) -> Mapping[str, str] | None:
        """See `SearchService.synonym_maps`."""

        async def attempt() -> Mapping[str, str] | None:
            call = _Call(self, "synonym maps")
            try:
                await call.read(self._definitions.get_synonym_maps(**call.options))
            except (BrokenError, FailedAttemptError):
                if call.status is not None and call.status in _NO_ALIAS:
                    return None
                raise
            maps = call.content().get("value") or []
            return {str(each.get("name")): str(each.get("@odata.etag") or "") for each in maps}

        return await self._once(attempt, "synonym maps", deadline)

    async def index_names(self, deadline: float) -> tuple[str, ...] | None:
        """See `SearchService.index_names`."""

        async def attempt() -> tuple[str, ...] | None:
            call = _Call(self, "all indexes")
            try:
                return await call.read(_sorted(self._definitions.list_index_names(**call.options)))
            except BrokenError:
                if call.status == HTTPStatus.FORBIDDEN:
                    return None
                raise

        return await self._once(attempt, "all indexes", deadline)

    # parts

    async def _alias_target(self, name: str, deadline: float) -> str | None:
        """The index that the alias of that name stands for; None if there is none, or it may not be read."""

        async def attempt() -> list[str]:
            call = _Call(self, name)
            try:
                await call.read(self._definitions.get_alias(name, **call.options))
            except (BrokenError, FailedAttemptError):
                if call.status is not None and call.status in _NO_ALIAS:
                    return []
                raise
            indexes = call.content().get("indexes")
            if not isinstance(indexes, list):
                raise call.broken_promise("it names no indexes")
            return [str(each) for each in indexes]

        targets = await self._once(attempt, name, deadline)
        if len(targets) > 1:
            message = (
                f"The alias {name!r} stands for several indexes ({', '.join(targets)}): name one of them."
            )
            raise BrokenError(Code.INDEX_MISSING, message, index=name)
        return targets[0] if targets else None

    async def _definition(self, name: str, deadline: float) -> tuple[Mapping[str, Any], str | None]:
        """The definition as the service sent it, so that properties unknown to the client are kept."""

        async def attempt() -> tuple[Mapping[str, Any], str | None]:
            call = _Call(self, name)
            try:
                await call.read(self._definitions.get_index(name, **call.options))
            except BrokenError:
                if call.status == HTTPStatus.FORBIDDEN:
                    raise _ForbiddenError from None
                raise
            content = call.content()
            etag = content.get("@odata.etag") or call.header("ETag")
            return content, str(etag) if etag else None

        return await self._once(attempt, name, deadline)

    async def _once(self, attempt: Callable[[], Awaitable[T]], index: str, deadline: float) -> T:
        """The value of an attempt without which the run cannot go on."""
        try:
            tried = await self._retries.run(attempt, deadline=deadline, limiter=self._limiter)
        except QueryError as error:
            code = _ONCE_BROKEN.get(error.code, Code.UNREACHABLE)
            message = (
                f"{error} (requests: {error.attempts}). Check GATE_SEARCH_ENDPOINT, and the network to it."
            )
            raise BrokenError(code, message, index=index) from error
        return tried.value

    async def _rows(
        self, call: "_Call", index: str, body: Mapping[str, Any], most: int
    ) -> list[Mapping[str, Any]]:
        """The rows of the one page that is asked for, as they were sent.

        The client's own `search` makes objects of every row first, which takes longer than all the rest.
        """
        request = HttpRequest(
            "POST",
            f"/indexes('{quote(index, safe='')}')/docs/search.post.search",
            params={"api-version": _API_VERSION},
            headers={"Accept": "application/json;odata.metadata=none"},
            json=body,
        )
        response = await call.read(self._client(index).send_request(request, **call.options))
        if response.status_code not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise call.broken_promise("no such status is known")
        rows = call.content().get("value")
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise call.broken_promise("it holds no rows")
        return rows[:most]

    def _client(self, index: str) -> SearchClient:
        if index not in self._clients:
            self._clients[index] = SearchClient(
                self._endpoint, index, self._credential, api_version=_API_VERSION, **self._client_options
            )
        return self._clients[index]

    # what a call needs to know

    @property
    def call_options(self) -> Mapping[str, Any]:
        return self._call_options

    @property
    def identity(self) -> Identity:
        return self._identity

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self._credential.key,) if isinstance(self._credential, AzureKeyCredential) else ()


# an alias that is not there, or may not be read; older API versions and stand-ins know no aliases
_NO_ALIAS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)


class _ForbiddenError(Exception):
    """The identity may not read definitions."""


async def _sorted(names: AsyncIterable[str]) -> tuple[str, ...]:
    return tuple(sorted([str(name) async for name in names]))


def search_body(ask: Ask) -> Mapping[str, Any]:
    """One question as the service takes it."""
    query, fields = ask.query, ask.fields
    by_ranker: dict[str, Any] = {}
    if query.semantic:
        by_ranker = {
            "queryType": "semantic",
            "semanticConfiguration": fields.semantic_configuration,
            "semanticErrorHandling": "fail",
            "semanticQuery": None if query.by_text else ask.text,
        }
    return _without_none(
        search=ask.text if query.by_text else None,
        filter=ask.filter,
        select=",".join(fields.selected),
        top=query.candidates,
        searchFields=",".join(query.search_fields) or None,
        searchMode=query.search_mode,
        scoringProfile=query.scoring_profile,
        scoringParameters=list(query.scoring_parameters) or None,
        scoringStatistics=query.scoring_statistics,
        sessionId=ask.session,
        vectorQueries=[_vector_query(ask)] if query.by_vector else None,
        vectorFilterMode=query.vector_filter_mode if query.by_vector else None,
        **({"queryType": query.syntax} if query.by_text else {}) | by_ranker,
    )


def _vector_query(ask: Ask) -> Mapping[str, Any]:
    query = ask.query
    if not ask.fields.vectors:
        message = (
            f"Index {ask.index!r}: the query is by vector, but no vector field is known (vector_fields)."
        )
        raise BrokenError(Code.FIELD_MISSING, message, index=ask.index)
    return _without_none(
        kind="text" if ask.vector is None else "vector",
        text=ask.text if ask.vector is None else None,
        vector=None if ask.vector is None else list(ask.vector),
        k=query.k,
        fields=",".join(ask.fields.vectors),
        exhaustive=query.exhaustive,
        oversampling=query.oversampling,
        weight=query.vector_weight,
    )


def _without_none(**properties: Any) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if value is not None}


def row_of(found: Mapping[str, Any], ask: Ask) -> Row:
    """A row of the service in the gate's words; the parent decoded as the query says."""
    fields = ask.fields
    field = fields.parent.split("/")[0]
    if field not in found:  # a null is an answer; what is left out although it was selected is none
        raise FailedAttemptError(
            FailureCode.PROTOCOL, f"index {ask.index!r}: a row without the field {field!r} that was asked for"
        )
    return Row(
        key=as_text(found.get(fields.key)) if fields.key else None,
        parent=parent_of(found, fields.parent, ask.query.parent_names),
        title=as_text(found.get(fields.title)) if fields.title else None,
        text=as_text(found.get(fields.text)) if fields.text else None,
        score=_number(found.get("@search.score")),
        reranker_score=_number(found.get("@search.rerankerScore")),
    )


def _number(value: Any) -> float | None:
    """None for what is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= float_info.max else None


def refuse_unranked(rows: Iterable[Row], ask: Ask) -> None:
    """An answer that the ranker did not order throughout is no ranking, whatever its status says."""
    missing_at = [place for place, row in enumerate(rows, start=1) if row.reranker_score is None]
    if missing_at:
        raise FailedAttemptError(
            FailureCode.UNRANKED,
            f"index {ask.index!r}: the semantic ranker was asked for, but {len(missing_at)} rows, from rank "
            f"{missing_at[0]} on, have no reranker score",
        )


class _Call:
    """One request through the client: sees the raw response, and translates what goes wrong."""

    def __init__(self, search: AzureSearch, index: str) -> None:
        self._search = search
        self._index = index
        self._response: AsyncHttpResponse | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {**self._search.call_options, "raw_response_hook": self._see}

    def _see(self, response: PipelineResponse[HttpRequest, AsyncHttpResponse]) -> None:
        self._response = response.http_response

    @property
    def status(self) -> int | None:
        return self._response.status_code if self._response is not None else None

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name) if self._response is not None else None

    def content(self) -> Mapping[str, Any]:
        """The JSON object that was answered, as it was."""
        try:
            content = self._response.json() if self._response is not None else None
        except (ValueError, LookupError, RecursionError) as error:
            raise self.broken_promise(type(error).__name__) from None
        if not isinstance(content, Mapping):
            raise self.broken_promise("it is not a JSON object")
        return content

    async def read(self, reading: Awaitable[T], kinds: tuple[str, ...] = _JSON) -> T:
        """What the client makes of the answer; FailedAttemptError or BrokenError where it is none.

        A refusal is raised without its cause: the client's exception carries the service's text unscrubbed.
        """
        try:
            value = await reading
            self._refuse_refusals()
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 — the client's parser raises whatever the body makes it
            failure = self._failure(error)
        else:
            self._refuse_other_content(kinds)
            return value
        raise failure

    def refuse_partial(self) -> None:
        """A partial semantic answer (206, or a reason in a 200) is no ranking."""
        told = {
            name: value
            for name, value in self.content().items()
            if name.lower().startswith(_PARTIAL) and value is not None
        }
        if told or self.status == HTTPStatus.PARTIAL_CONTENT:
            text = ", ".join(str(value) for value in told.values()) or "no reason given"
            raise FailedAttemptError(
                FailureCode.PARTIAL,
                f"index {self._index!r}: the semantic ranker answered in part only ({self.status}: "
                f"{scrubbed(text, self._search.secrets)})",
            )

    def _refuse_refusals(self) -> None:
        """What the client itself does, but where a request is sent through it as it is."""
        if self._response is not None and self._response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            raise HttpResponseError(response=self._response)

    def _refuse_other_content(self, kinds: tuple[str, ...]) -> None:
        kind = (self.header("Content-Type") or "").partition(";")[0].strip().lower()
        if kind and kind not in kinds:
            raise self.broken_promise(f"its content type is {scrubbed(kind)}")

    def broken_promise(self, why: str) -> FailedAttemptError:
        return FailedAttemptError(
            FailureCode.PROTOCOL,
            f"index {self._index!r}: the answer ({self.status}) is not what the service promises: {why}",
        )

    def _failure(self, error: Exception) -> FailedAttemptError | BrokenError:
        search = self._search
        if self._response is not None and self._response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            refusal = Refusal(
                status=self._response.status_code,
                text=service_text(_body(self._response), search.secrets),
                headers=self._response.headers,
            )
            return refused(refusal, self._index, search.identity)
        text = scrubbed(str(error), search.secrets)
        if self._response is not None:
            return self.broken_promise(f"{type(error).__name__}: {text}")
        if isinstance(error, ClientAuthenticationError):
            return unauthorized(text, self._index, search.identity)
        if isinstance(error, ServiceRequestTimeoutError | ServiceResponseTimeoutError):
            return FailedAttemptError(FailureCode.TIMED_OUT, f"index {self._index!r}: {text or 'timed out'}")
        if isinstance(error, ServiceRequestError | ServiceResponseError | IncompleteReadError):
            return FailedAttemptError(
                FailureCode.UNREACHABLE, f"index {self._index!r}: no whole answer ({text})"
            )
        kind = FailureCode.UNREACHABLE if isinstance(error, AzureError) else FailureCode.PROTOCOL
        return FailedAttemptError(kind, f"index {self._index!r}: {type(error).__name__}: {text}")


def _body(response: AsyncHttpResponse) -> str:
    try:
        return response.text()
    except (ValueError, LookupError):
        return response.content.decode("utf-8", "replace")
