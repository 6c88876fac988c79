"""How this program signs in to Azure: with a key where there is one, else as its own identity."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from azure.core.credentials import AzureKeyCredential
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
    """DefaultAzureCredential; `client_id` picks a user-assigned identity, None leaves that to AZURE_CLIENT_ID."""
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 — slow to import, often not needed

    named = {"managed_identity_client_id": client_id} if client_id else {}
    async with DefaultAzureCredential(**named) as credential:
        yield credential
