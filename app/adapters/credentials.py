"""How this program signs in to Azure: with a key where there is one, else as its own identity."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.credentials_async import AsyncTokenCredential

Credential = AzureKeyCredential | AsyncTokenCredential


@asynccontextmanager
async def azure_credential(key: str | None, *, client_id: str | None = None) -> AsyncIterator[Credential]:
    """A key credential, or this program's identity for the life of the block."""
    if key:
        yield AzureKeyCredential(key)
        return
    async with azure_identity(client_id) as identity:
        yield identity


@asynccontextmanager
async def azure_identity(client_id: str | None = None) -> AsyncIterator[AsyncTokenCredential]:
    """DefaultAzureCredential; `client_id` picks a user-assigned identity, None leaves that to AZURE_CLIENT_ID.

    It is made when its first token is asked for: that takes a while, and many commands need none.
    """
    identity = _Identity(client_id)
    try:
        yield identity
    finally:
        await identity.close()


class _Identity(AsyncTokenCredential):
    def __init__(self, client_id: str | None) -> None:
        self._named = {"managed_identity_client_id": client_id} if client_id else {}
        self._found: AsyncTokenCredential | None = None

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        if self._found is None:
            from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 — slow to import

            self._found = DefaultAzureCredential(**self._named)
        return await self._found.get_token(*scopes, **options)

    async def close(self) -> None:
        if self._found is not None:
            await self._found.close()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.close()
