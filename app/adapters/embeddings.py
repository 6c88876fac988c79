"""Vectors from an Azure OpenAI embeddings endpoint, for an index without a vectorizer."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from http import HTTPStatus
from sys import float_info
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from azure.core.credentials import AzureKeyCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError

from app.adapters.credentials import Credential
from app.adapters.limiter import Limiter
from app.adapters.refusals import THROTTLED, service_text
from app.adapters.retries import FailedAttemptError, Retries, retry_after
from app.adapters.scrubbing import scrubbed
from app.domain.errors import BrokenError, FailureCode
from app.domain.query import Embedding
from app.domain.reasons import Code

if TYPE_CHECKING:
    import httpx

_API_VERSION = "2024-10-21"
_SCOPE = "https://cognitiveservices.azure.com/.default"
_AZURE = (
    ".openai.azure.com",
    ".cognitiveservices.azure.com",
    ".services.ai.azure.com",
    ".openai.azure.us",
    ".cognitiveservices.azure.us",
    ".openai.azure.cn",
    ".cognitiveservices.azure.cn",
)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


class AzureEmbedder:
    """An `Embedder`; enter it before use.

    A golden set names the endpoint, and may have been sent along by a caller: this program's key or token
    goes to Azure's own hosts over https, to this machine, and to `trusted_hosts`, nowhere else. The other
    parameters are those of `AzureSearch`.
    """

    def __init__(
        self,
        *,
        credential: Credential,
        limiter: Limiter,
        query_timeout_seconds: float,
        trusted_hosts: Collection[str] = (),
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._credential = credential
        self._trusted = frozenset(host.lower() for host in trusted_hosts)
        self._limiter = limiter
        self._retries = Retries(
            attempt_seconds=query_timeout_seconds, clock=clock, sleep=sleep, jitter=jitter
        )
        self._timeout = query_timeout_seconds
        self._stack = AsyncExitStack()
        self._http: httpx.AsyncClient | None = None
        self._token: Callable[[], Awaitable[str]] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def embed(self, embedding: Embedding, text: str, deadline: float) -> tuple[float, ...]:
        """See `Embedder.embed`."""
        url = self._url(embedding)
        http = await self._client()

        async def attempt() -> tuple[float, ...]:
            return await self._attempt(http, url, embedding, text)

        tried = await self._retries.run(attempt, deadline=deadline, limiter=self._limiter, telling=True)
        return tried.value

    async def _client(self) -> "httpx.AsyncClient":
        """Made at first use: it takes a while to load, with its certificates, and most sets need no embedder."""
        if self._http is None:
            import httpx  # noqa: PLC0415 — slow to import

            self._http = httpx.AsyncClient(timeout=self._timeout, follow_redirects=False)
            self._stack.push_async_callback(self._http.aclose)
        return self._http

    async def _attempt(
        self, http: "httpx.AsyncClient", url: "httpx.URL", embedding: Embedding, text: str
    ) -> tuple[float, ...]:
        import httpx  # noqa: PLC0415 — see `_client`

        content: dict[str, Any] = {"input": embedding.prefix + text}
        if embedding.dimensions is not None:
            content["dimensions"] = embedding.dimensions
        headers = await self._headers(embedding)
        try:
            response = await http.post(url, json=content, headers=headers)
        except httpx.TimeoutException as error:
            raise FailedAttemptError(
                FailureCode.TIMED_OUT, f"{_where(embedding)} did not answer in time"
            ) from error
        except httpx.HTTPError as error:
            what = scrubbed(str(error) or type(error).__name__)
            raise FailedAttemptError(
                FailureCode.UNREACHABLE, f"{_where(embedding)} cannot be reached ({what})"
            ) from error
        if response.status_code != HTTPStatus.OK:
            raise self._refused(response, embedding)
        return _vector(response, embedding)

    def _url(self, embedding: Embedding) -> "httpx.URL":
        """Where to post to; read by the same parser that will send, so that both mean the same host."""
        import httpx  # noqa: PLC0415 — see `_client`

        deployment = quote(embedding.deployment, safe="")
        path = f"/openai/deployments/{deployment}/embeddings?api-version={_API_VERSION}"
        try:
            url = httpx.URL(embedding.endpoint.rstrip("/") + path)
        except httpx.InvalidURL as error:
            message = f"{_where(embedding)}: that is no address ({scrubbed(str(error))})."
            raise BrokenError(Code.VECTORIZER_FAILED, message) from error
        is_azure = url.scheme == "https" and url.host.endswith(_AZURE)
        if url.userinfo or not (is_azure or url.host in _LOOPBACK or url.host in self._trusted):
            raise BrokenError(
                Code.VECTORIZER_FAILED,
                f"{_where(embedding)} is not an Azure OpenAI endpoint (https), so no key or token is sent to it. "
                "Correct endpoint in [query.embedding], or have the host added to the trusted ones.",
            )
        return url

    async def _headers(self, embedding: Embedding) -> dict[str, str]:
        if isinstance(self._credential, AzureKeyCredential):
            return {"api-key": self._credential.key}
        if self._token is None:
            self._token = _token_provider(self._credential)
        try:
            return {"Authorization": f"Bearer {await self._token()}"}
        except AzureError as error:
            message = f"{_where(embedding)}: no token was to be had for it ({scrubbed(str(error))})."
            raise BrokenError(Code.VECTORIZER_FAILED, message) from error

    def _refused(self, response: "httpx.Response", embedding: Embedding) -> FailedAttemptError | BrokenError:
        status = response.status_code
        key = self._credential.key if isinstance(self._credential, AzureKeyCredential) else ""
        text = f"{status}: {service_text(response.text, (key,)) or 'without a text'}"
        if status in _REFUSALS:
            return BrokenError(
                Code.VECTORIZER_FAILED,
                f"{_where(embedding)} refuses ({text}). Check endpoint and deployment in [query.embedding], and "
                "GATE_EMBEDDING_API_KEY or the role Cognitive Services OpenAI User.",
            )
        if status in THROTTLED:
            code = FailureCode.THROTTLED
        elif status == HTTPStatus.REQUEST_TIMEOUT:
            code = FailureCode.TIMED_OUT
        elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            code = FailureCode.VECTORIZER
        else:
            code = FailureCode.REJECTED if status >= HTTPStatus.BAD_REQUEST else FailureCode.PROTOCOL
        return FailedAttemptError(
            code,
            f"{_where(embedding)} answered {text}",
            retry_after=retry_after(response.headers),
            throttled=status in THROTTLED,
        )


def _token_provider(credential: AsyncTokenCredential) -> Callable[[], Awaitable[str]]:
    """Gives tokens, kept until shortly before they expire."""
    from azure.identity.aio import get_bearer_token_provider  # noqa: PLC0415 — slow to import, often not needed

    return get_bearer_token_provider(credential, _SCOPE)


def _where(embedding: Embedding) -> str:
    endpoint = scrubbed(embedding.endpoint)
    return f"The embeddings endpoint {endpoint} (deployment {embedding.deployment!r})"


def _vector(response: "httpx.Response", embedding: Embedding) -> tuple[float, ...]:
    """The one vector in the answer: finite numbers, as many as were asked for."""
    try:
        numbers = response.json()["data"][0]["embedding"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _broken_promise(embedding, "no data[0].embedding") from error
    if not isinstance(numbers, list) or not numbers or not all(_is_number(each) for each in numbers):
        raise _broken_promise(embedding, "its embedding is not a list of finite numbers")
    if embedding.dimensions is not None and len(numbers) != embedding.dimensions:
        raise _broken_promise(
            embedding, f"its embedding has {len(numbers)} dimensions, not {embedding.dimensions}"
        )
    return tuple(float(each) for each in numbers)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max


def _broken_promise(embedding: Embedding, why: str) -> FailedAttemptError:
    return FailedAttemptError(FailureCode.PROTOCOL, f"{_where(embedding)} did not answer as it should: {why}")
