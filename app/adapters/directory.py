"""The tenant's directory, as an OpenID provider: where people sign in, and the keys that its tokens are signed with."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWKSet, PyJWTError

from app.domain.errors import DirectoryError

PATIENCE = 5.0  # seconds for an answer

log = logging.getLogger(__name__)

Keys = Mapping[str, RSAPublicKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Addresses that the provider's discovery document names."""

    authorization: str
    token: str
    keys: str
    end_session: str | None


@asynccontextmanager
async def open_directory(issuer: str) -> AsyncIterator["Directory"]:
    """The provider of that issuer; nothing is asked before it has to be."""
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        yield Directory(client, issuer)


class Directory:
    """The provider of one issuer. DirectoryError where it does not answer, or with what cannot be used."""

    def __init__(self, client: httpx.AsyncClient, issuer: str) -> None:
        self.issuer = issuer
        self._client = client
        self._endpoints: Endpoints | None = None

    async def endpoints(self) -> Endpoints:
        """The addresses; asked for once."""
        if self._endpoints is None:
            document = await self._read(f"{self.issuer}/.well-known/openid-configuration")
            if document.get("issuer") != self.issuer:
                raise DirectoryError(f"The directory is not {self.issuer}: is GATE_ENTRA_AUTHORITY right?")
            self._endpoints = Endpoints(
                authorization=self._address(document, "authorization_endpoint"),
                token=self._address(document, "token_endpoint"),
                keys=self._address(document, "jwks_uri"),
                end_session=self._address(document, "end_session_endpoint")
                if "end_session_endpoint" in document
                else None,
            )
        return self._endpoints

    async def keys(self) -> Keys:
        """The RSA keys that sign tokens, by their ids; never none."""
        document = await self._read((await self.endpoints()).keys)
        try:
            found = PyJWKSet.from_dict(dict(document)).keys
        except PyJWTError as error:
            raise DirectoryError(f"{self.issuer} tells no keys that can be used.") from error
        keys = {
            each.key_id: each.key
            for each in found
            if isinstance(each.key_id, str)
            and each.public_key_use in ("sig", None)
            and isinstance(each.key, RSAPublicKey)
        }
        if not keys:
            raise DirectoryError(f"{self.issuer} tells no RSA key.")
        return keys

    async def _read(self, address: str) -> Mapping[str, Any]:
        try:
            response = await self._client.get(address)
            document = response.raise_for_status().json()
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read: %s: %s", address, type(error).__name__, error)
            raise DirectoryError(f"{self.issuer} does not answer now ({type(error).__name__}).") from error
        if not isinstance(document, dict):
            raise DirectoryError(f"{address} is no JSON object.")
        return document

    def _address(self, document: Mapping[str, Any], name: str) -> str:
        """An address of the document, as safe on its way as the issuer itself."""
        found = document.get(name)
        scheme = self.issuer.partition("://")[0]
        if not isinstance(found, str) or not found.startswith(("https://", f"{scheme}://")):
            raise DirectoryError(f"{self.issuer} tells no {name} that can be used.")
        return found
