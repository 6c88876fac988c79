"""How the command line signs in to the gate's service for as long as a run takes."""

import time
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import ClientAuthenticationError

from app.adapters.gate_service import _Renewed
from app.domain.errors import GateError


class Identity(AsyncTokenCredential):
    """Gives numbered tokens that live so many seconds, in turn; then none."""

    def __init__(self, *lives: int) -> None:
        self.lives = list(lives)
        self.scopes: list[str] = []

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.scopes += scopes
        if not self.lives:
            raise ClientAuthenticationError("AADSTS700024: the assertion is expired")
        return AccessToken(f"token-{len(self.scopes)}", int(time.time()) + self.lives.pop(0))

    async def close(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


async def test_a_token_is_asked_for_once_while_it_lives() -> None:
    identity = Identity(3600)
    sign_in = _Renewed(identity, "api://gate/.default")
    assert [await sign_in() for _ in range(5)] == ["token-1"] * 5
    assert identity.scopes == ["api://gate/.default"]


async def test_a_token_is_renewed_before_it_expires() -> None:
    sign_in = _Renewed(Identity(299, 3600), "api://gate/.default")
    assert [await sign_in() for _ in range(3)] == ["token-1", "token-2", "token-2"]


async def test_an_identity_without_a_token_is_told_in_its_own_words() -> None:
    with pytest.raises(GateError, match=r"no token for api://gate/\.default: AADSTS700024"):
        await _Renewed(Identity(), "api://gate/.default")()
