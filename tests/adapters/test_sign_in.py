"""What the service proves to the directory, and what it makes of its answers."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import ClientAuthenticationError

from app.adapters.directory import Directory as Provider
from app.adapters.directory import open_directory
from app.adapters.sign_in import ProofOfClient, SignIn, by_identity, by_secret
from app.adapters.tokens import SigningKeys, TokenReader
from app.domain.errors import DirectoryError, TokenError
from tests.directory import ADA, CLIENT, TENANT, Directory


class Identity(AsyncTokenCredential):
    """A managed identity; one that has no token where `token` is None."""

    def __init__(self, token: str | None) -> None:
        self.token = token
        self.asked: list[str] = []

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.asked.extend(scopes)
        if self.token is None:
            raise ClientAuthenticationError("no managed identity endpoint")
        return AccessToken(self.token, 2**31)

    async def close(self) -> None:
        """Nothing is open."""

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@pytest.fixture
def own() -> Iterator[Directory]:
    with Directory() as found:
        yield found


@pytest.fixture
async def provider(own: Directory) -> AsyncIterator[Provider]:
    async with open_directory(own.issuer) as found:
        yield found


def sign_in(provider: Provider, prove: ProofOfClient) -> SignIn:
    tokens = TokenReader(
        issuer=provider.issuer, tenant_id=TENANT, audiences=(CLIENT,), keys=SigningKeys(provider.keys)
    )
    return SignIn(
        directory=provider,
        tokens=tokens,
        client_id=CLIENT,
        redirect_uri="https://gate.example/sign-in/callback",
        prove=prove,
    )


async def test_without_a_secret_the_managed_identity_vouches(own: Directory, provider: Provider) -> None:
    identity = Identity("assertion-of-the-identity")
    own.codes["c"] = own.token("Gate.Read", nonce="n", oid=ADA)
    found = await sign_in(provider, by_identity(identity)).caller(code="c", nonce="n", verifier="v" * 43)
    assert found.id == ADA
    assert identity.asked == ["api://AzureADTokenExchange/.default"]
    sent = own.exchanges[-1]
    assert sent["client_assertion"] == "assertion-of-the-identity"
    assert sent["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert sent["redirect_uri"] == "https://gate.example/sign-in/callback"
    assert "client_secret" not in sent


async def test_no_identity_is_told_with_what_to_do(provider: Provider) -> None:
    with pytest.raises(DirectoryError, match="GATE_ENTRA_CLIENT_SECRET"):
        await sign_in(provider, by_identity(Identity(None))).caller(code="c", nonce="n", verifier="v" * 43)


async def test_a_code_that_the_directory_does_not_know_is_refused(provider: Provider) -> None:
    with pytest.raises(TokenError, match="begin again"):
        await sign_in(provider, by_secret("s")).caller(code="c", nonce="n", verifier="v" * 43)


async def test_a_directory_that_goes_away_in_between_is_no_refusal(
    own: Directory, provider: Provider
) -> None:
    await provider.endpoints()
    own.away = True
    with pytest.raises(DirectoryError):
        await sign_in(provider, by_secret("s")).caller(code="c", nonce="n", verifier="v" * 43)


async def test_the_answer_to_another_sign_in_is_refused(own: Directory, provider: Provider) -> None:
    own.codes["c"] = own.token("Gate.Read", nonce="another")
    with pytest.raises(TokenError, match="another sign-in"):
        await sign_in(provider, by_secret("s")).caller(code="c", nonce="n", verifier="v" * 43)
