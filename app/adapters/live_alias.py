"""The live index's name as an alias of the search service itself, over its official client."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from urllib.parse import urlsplit

from azure.core import MatchConditions
from azure.core.credentials import AzureKeyCredential
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.core.pipeline.transport import AioHttpTransport
from azure.search.documents.indexes.aio import SearchIndexClient
from azure.search.documents.indexes.models import SearchAlias

from app.adapters.connections import open_session
from app.adapters.credentials import Credential
from app.adapters.live_answers import AnswerError, Answers
from app.adapters.retries import Retries
from app.adapters.scrubbing import scrubbed
from app.adapters.swap import Found, Swap
from app.domain.errors import LiveError
from app.domain.index import is_index_name
from app.domain.labels import quoted
from app.gate.ports import LivePointer, LiveValue

PROPAGATION_SECONDS = 10.0  # what the service promises at most
ATTEMPT_SECONDS = 10.0

_USER_AGENT = "search-index-gate"
_ROLE = "Search Service Contributor"


@asynccontextmanager
async def open_live_alias(
    *,
    endpoint: str,
    credential: Credential,
    alias: str,
    audience: str | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
    attempt_seconds: float = ATTEMPT_SECONDS,
) -> AsyncIterator[LivePointer]:
    """The alias, as long as the block lasts. Nothing is sent before it is asked for."""
    async with open_session() as session:
        transport = AioHttpTransport(
            session=session,
            session_owner=False,
            connection_timeout=attempt_seconds,
            read_timeout=attempt_seconds,
        )
        client = SearchIndexClient(
            endpoint.rstrip("/"),
            credential,
            audience=audience,
            transport=transport,
            retry_policy=AsyncRetryPolicy.no_retries(),
            permit_redirects=False,
            user_agent=_USER_AGENT,
        )
        async with client:
            secrets = (credential.key,) if isinstance(credential, AzureKeyCredential) else ()
            place = _Alias(client, name=alias, host=urlsplit(endpoint).netloc, secrets=secrets)
            yield LiveAlias(place, Retries(attempt_seconds=attempt_seconds, sleep=sleep, jitter=jitter))


class LiveAlias:
    """`LivePointer` over an alias."""

    propagation_seconds = PROPAGATION_SECONDS

    def __init__(self, place: "_Alias", retries: Retries) -> None:
        self._place = place
        self._swap = Swap(place, retries)

    @property
    def where(self) -> str:
        return self._place.where

    @property
    def alias(self) -> str:
        return self._place.name

    async def read(self, deadline: float) -> LiveValue | None:
        return await self._swap.read(deadline)

    async def point(self, index: str, *, etag: str, deadline: float) -> LiveValue:
        return await self._swap.point(index, etag=etag, deadline=deadline)

    async def create(self, index: str, *, deadline: float) -> LiveValue:
        return await self._swap.create(index, deadline=deadline)


class _Alias:
    """Single requests to the alias: `swap.Place`, whose record is the alias as the service tells it."""

    def __init__(self, client: SearchIndexClient, *, name: str, host: str, secrets: tuple[str, ...]) -> None:
        self._client = client
        self._secrets = secrets
        self.name = name
        self.where = f"alias {name} of {host}"
        permission = (
            "GATE_SEARCH_API_KEY must be an admin key: a query key knows no aliases."
            if secrets
            else f"The identity needs the role {_ROLE} (it takes effect after 5 to 10 minutes)."
        )
        self._answers = Answers(where=self.where, permission=permission, secrets=secrets)

    async def fetch(self) -> Found[SearchAlias] | None:
        try:
            return await self._answers.of(
                self._client.get_alias(self.name),
                lambda alias: Found(value=self._value(alias), record=alias),
            )
        except AnswerError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def send(self, index: str, before: Found[SearchAlias] | None) -> LiveValue:
        if before is None:
            wanted, condition = SearchAlias(name=self.name, indexes=[index]), MatchConditions.IfMissing
        else:
            wanted = SearchAlias({**before.record, "indexes": [index]})
            condition = MatchConditions.IfNotModified
        sending = self._client.create_or_update_alias(wanted, match_condition=condition)
        return await self._answers.of_write(sending, self._value)

    def _value(self, alias: SearchAlias) -> LiveValue:
        if not alias.e_tag:  # the client sends no condition for an empty one
            raise LiveError(f"The {self.where} was answered without an etag: it cannot be changed safely.")
        indexes = [str(each) for each in alias.indexes or []]
        if len(indexes) != 1:
            shown = ", ".join(self._shown(each) for each in indexes[:3]) or "none"
            raise LiveError(
                f"The {self.where} stands for {len(indexes)} indexes ({shown}), and must for one."
            )
        if not is_index_name(indexes[0]):
            raise LiveError(
                f"The {self.where} stands for {self._shown(indexes[0])}, which is no name of an index."
            )
        return LiveValue(index=indexes[0], etag=alias.e_tag)

    def _shown(self, name: str) -> str:
        return quoted(scrubbed(name, self._secrets))
