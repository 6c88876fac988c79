"""Vectors from an embeddings endpoint, before a scripted one."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Self

import pytest
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError

from app.adapters.embeddings import AzureEmbedder
from app.adapters.limiter import Limiter
from app.domain.errors import BrokenError, FailureCode, QueryError
from app.domain.query import Embedding
from app.domain.reasons import Code
from app.gate.ports import Embedder
from tests.adapters.conftest import KEY, Pauses, soon
from tests.scripted import Fault, ScriptedSearch


class Tokens:
    """A credential that gives one token and notes the scopes."""

    token = "eyJ0b2tlbg.e30.c2ln"

    def __init__(self) -> None:
        self.scopes: list[str] = []

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.scopes.extend(scopes)
        return AccessToken(self.token, 4_000_000_000)

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class NoTokens(Tokens):
    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        raise ClientAuthenticationError("no identity here")


@pytest.fixture
def parameters(pauses: Pauses) -> dict[str, Any]:
    return {
        "credential": AzureKeyCredential(KEY),
        "limiter": Limiter(ceiling=4),
        "query_timeout_seconds": 5.0,
        "sleep": pauses,
        "jitter": lambda: 0.5,
    }


@pytest.fixture
async def embedder(parameters: dict[str, Any]) -> AsyncIterator[AzureEmbedder]:
    async with AzureEmbedder(**parameters) as opened:
        yield opened


@pytest.fixture
def embedding(service: ScriptedSearch) -> Embedding:
    return Embedding(endpoint=service.url, deployment="ada")


async def broken(embedder: AzureEmbedder, embedding: Embedding) -> BrokenError:
    with pytest.raises(BrokenError) as caught:
        await embedder.embed(embedding, "q1", soon())
    return caught.value


async def query_error(embedder: AzureEmbedder, embedding: Embedding) -> QueryError:
    with pytest.raises(QueryError) as caught:
        await embedder.embed(embedding, "q1", soon())
    return caught.value


async def test_the_prefixed_text_becomes_a_vector(
    embedder: AzureEmbedder, embedding: Embedding, service: ScriptedSearch
) -> None:
    port: Embedder = embedder
    service.vector_of = lambda text: [float(len(text)), -1, 0.25]
    assert await port.embed(replace(embedding, prefix="query: "), "abc", soon()) == (10.0, -1.0, 0.25)
    request = service.requests[-1]
    assert request.path == "/openai/deployments/ada/embeddings?api-version=2024-10-21"
    assert request.body == {"input": "query: abc"}
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers


async def test_dimensions_are_asked_for(
    embedder: AzureEmbedder, embedding: Embedding, service: ScriptedSearch
) -> None:
    vector = await embedder.embed(replace(embedding, dimensions=5), "abc", soon())
    assert vector == (1.0, 0.5, 0.5, 0.5, 0.5)
    assert service.requests[-1].body == {"input": "abc", "dimensions": 5}


async def test_a_token_is_sent_for_cognitive_services_and_kept(
    parameters: dict[str, Any], embedding: Embedding, service: ScriptedSearch
) -> None:
    tokens = Tokens()
    async with AzureEmbedder(**{**parameters, "credential": tokens}) as embedder:
        await embedder.embed(embedding, "a", soon())
        await embedder.embed(embedding, "b", soon())
    assert [request.headers["authorization"] for request in service.requests] == [
        f"Bearer {tokens.token}"
    ] * 2
    assert tokens.scopes == ["https://cognitiveservices.azure.com/.default"]


async def test_no_token_to_be_had_breaks_the_run(
    parameters: dict[str, Any], embedding: Embedding, service: ScriptedSearch
) -> None:
    async with AzureEmbedder(**{**parameters, "credential": NoTokens()}) as embedder:
        error = await broken(embedder, embedding)
    assert error.code == Code.VECTORIZER_FAILED
    assert "no identity here" in str(error)
    assert service.requests == []


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refusal_breaks_the_run_with_one_request(
    embedder: AzureEmbedder, embedding: Embedding, service: ScriptedSearch, status: int
) -> None:
    service.fault("ada", Fault(status=status, message="No.", headers={"Retry-After": "1"}), on="embeddings")
    error = await broken(embedder, embedding)
    assert error.code == Code.VECTORIZER_FAILED
    assert "'ada'" in str(error)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "case",
    [
        (Fault(status=429), FailureCode.THROTTLED, 4),
        (Fault(status=503, headers={"Retry-After": "1"}), FailureCode.THROTTLED, 4),
        (Fault(status=500), FailureCode.VECTORIZER, 4),
        (Fault(status=408), FailureCode.TIMED_OUT, 4),
        (Fault(drop="before"), FailureCode.UNREACHABLE, 4),
        (Fault(drop="mid"), FailureCode.UNREACHABLE, 4),
        (Fault(status=400, message="too long"), FailureCode.REJECTED, 1),
        (Fault(status=302, headers={"Location": "https://elsewhere.invalid/"}), FailureCode.PROTOCOL, 2),
        (Fault(body=b"<html>"), FailureCode.PROTOCOL, 2),
        (Fault(body=b"[]"), FailureCode.PROTOCOL, 2),
        (Fault(body=b'{"data": []}'), FailureCode.PROTOCOL, 2),
        (Fault(body=b'{"data": [{"embedding": []}]}'), FailureCode.PROTOCOL, 2),
        (Fault(body=b'{"data": [{"embedding": "AACAPw=="}]}'), FailureCode.PROTOCOL, 2),
        (Fault(body=b'{"data": [{"embedding": [1, NaN]}]}'), FailureCode.PROTOCOL, 2),
        (Fault(body=b'{"data": [{"embedding": [1e999]}]}'), FailureCode.PROTOCOL, 2),
        (Fault(body=b'{"data": [{"embedding": [true]}]}'), FailureCode.PROTOCOL, 2),
        (Fault(body=b'{"data": [{"embedding": [1' + b"0" * 400 + b"]}]}"), FailureCode.PROTOCOL, 2),
    ],
    ids=str,
)
async def test_a_lasting_fault_ends_by_the_same_table(
    embedder: AzureEmbedder,
    embedding: Embedding,
    service: ScriptedSearch,
    case: tuple[Fault, FailureCode, int],
) -> None:
    fault, code, requests = case
    service.fault("ada", fault, on="embeddings")
    error = await query_error(embedder, embedding)
    assert (error.code, error.attempts) == (code, requests)
    assert error.throttled == (requests if code is FailureCode.THROTTLED else 0)
    assert len(service.requests) == requests


async def test_a_vector_of_another_length_than_asked_for_is_refused(
    embedder: AzureEmbedder, embedding: Embedding, service: ScriptedSearch
) -> None:
    service.vector_of = lambda _: [1.0, 2.0]
    error = await query_error(embedder, replace(embedding, dimensions=3))
    assert error.code is FailureCode.PROTOCOL
    assert "2 dimensions, not 3" in str(error)


async def test_a_passing_fault_is_outlived(
    embedder: AzureEmbedder, embedding: Embedding, service: ScriptedSearch, pauses: Pauses
) -> None:
    service.fault("ada", Fault(status=429, headers={"retry-after-ms": "1500"}), on="embeddings", nth=1)
    assert len(await embedder.embed(embedding, "q1", soon())) == 3
    assert pauses.taken == [1.75]


async def test_a_trickling_answer_is_cut(
    parameters: dict[str, Any], embedding: Embedding, service: ScriptedSearch
) -> None:
    service.fault("ada", Fault(trickle=0.02), on="embeddings")
    started = asyncio.get_running_loop().time()
    async with AzureEmbedder(**{**parameters, "query_timeout_seconds": 0.1}) as embedder:
        error = await query_error(embedder, embedding)
    assert (error.code, error.attempts) == (FailureCode.TIMED_OUT, 4)
    assert asyncio.get_running_loop().time() - started < 2


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://collector.example",
        "http://contoso.openai.azure.com",
        "https://contoso.openai.azure.com.example",
        "https://openai.azure.com",
        "https://x@collector.example/.openai.azure.com",
        "https://x@contoso.openai.azure.com",
        "https://collector.example#@contoso.openai.azure.com",
        "https://collector.example?contoso.openai.azure.com",
        "https://contoso.azure-api.net",
    ],
)
async def test_key_and_token_go_to_no_stranger(embedder: AzureEmbedder, endpoint: str) -> None:
    error = await broken(embedder, Embedding(endpoint=endpoint, deployment="ada"))
    assert error.code == Code.VECTORIZER_FAILED
    assert "no key or token is sent" in str(error)


@pytest.mark.parametrize(
    "endpoint", ["https://collector.example\\@contoso.openai.azure.com", "https://[", "http://a:b"]
)
async def test_what_is_no_address_gets_nothing(embedder: AzureEmbedder, endpoint: str) -> None:
    error = await broken(embedder, Embedding(endpoint=endpoint, deployment="ada"))
    assert error.code == Code.VECTORIZER_FAILED


@pytest.mark.parametrize("host", ["contoso.openai.azure.com", "contoso.openai.azure.us"])
def test_azures_hosts_are_no_strangers(parameters: dict[str, Any], host: str) -> None:
    embedder = AzureEmbedder(**parameters)
    url = embedder._url(Embedding(endpoint=f"https://{host}/", deployment="a/b"))
    assert str(url) == f"https://{host}/openai/deployments/a%2Fb/embeddings?api-version=2024-10-21"


async def test_a_trusted_host_is_no_stranger(parameters: dict[str, Any]) -> None:
    async with AzureEmbedder(**parameters, trusted_hosts=["models.invalid"]) as embedder:
        error = await query_error(embedder, Embedding(endpoint="https://Models.invalid", deployment="a"))
    assert error.code is FailureCode.UNREACHABLE


async def test_no_secret_is_in_an_error_or_a_log(
    embedder: AzureEmbedder,
    embedding: Embedding,
    service: ScriptedSearch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    service.fault("ada", Fault(status=400, message=f"bad {KEY}"), on="embeddings")
    message = str(await query_error(embedder, embedding))
    assert "bad [hidden]" in message
    assert KEY not in message + caplog.text
    assert "q1" not in caplog.text
