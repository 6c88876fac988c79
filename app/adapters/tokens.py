"""Bearer tokens of one Entra tenant, validated on every call, and the keys that they are signed with."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from app.adapters.directory import Keys
from app.domain.caller import Caller, Role
from app.domain.errors import DirectoryError, TokenError

ALGORITHM = "RS256"  # never what a token's header asks for
LEEWAY = 60  # seconds that clocks may differ
LONGEST = 16_384  # characters of a token
FRESH = 3600.0  # seconds after which keys are read again
KEPT = 24 * 3600.0  # seconds for which keys are used while no others can be read
COOLDOWN = (
    30.0  # seconds between two attempts to read keys; a key that is rotated in counts after it at the latest
)
RETRY = 5.0  # the same while there are no keys at all

_REQUIRED = ["exp", "iat", "nbf", "iss", "aud"]
_STABLE = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OLD_ISSUER = "https://sts.windows.net/"


class SigningKeys:
    """The directory's keys. However many unknown ids are asked for, they are read once in a while only."""

    def __init__(
        self, fetch: Callable[[], Awaitable[Keys]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = asyncio.Lock()
        self._keys: Keys = {}
        self._read_at = self._asked_at = -KEPT
        self._failure: DirectoryError | None = None

    async def find(self, key_id: str) -> RSAPublicKey | None:
        """The key; None where there is none of that id. DirectoryError where that cannot be known now."""
        if key_id not in self._keys or self._age() >= FRESH:
            async with self._lock:
                await self._refresh(key_id)
        found = self._keys.get(key_id)
        if found is None and self._failure is not None:
            raise DirectoryError(str(self._failure)) from self._failure
        return found

    async def ready(self) -> None:
        """DirectoryError while there is no key at all: no token could be told from a forged one."""
        if not self._keys:
            await self.find("")
        if not self._keys:
            raise DirectoryError("The keys that the tenant signs with have not been read yet.")

    def _age(self) -> float:
        return self._clock() - self._read_at

    async def _refresh(self, key_id: str) -> None:
        pause = COOLDOWN if self._keys else RETRY
        done = key_id in self._keys and self._age() < FRESH  # while this caller waited for its turn
        if done or self._clock() - self._asked_at < pause:
            return
        self._asked_at = self._clock()
        try:
            self._keys = await self._fetch()
        except DirectoryError as error:
            self._failure = error
            if self._age() >= KEPT:
                self._keys = {}
        else:
            self._read_at, self._failure = self._clock(), None


class TokenReader:
    """Tells callers by their tokens, which are for one of `audiences`, of the tenant, from its issuer."""

    def __init__(self, *, issuer: str, tenant_id: str, audiences: Collection[str], keys: SigningKeys) -> None:
        self._issuer = issuer
        self._tenant_id = tenant_id
        self._audiences = tuple(audiences)
        self._keys = keys

    async def caller(self, token: str) -> Caller:
        """Who sent it. TokenError if it is not good, DirectoryError where that cannot be known now."""
        claims = await self.claims(token)
        if "nonce" in claims:
            raise TokenError("This is the token of a sign-in, which opens no API: ask for an access token.")
        return caller_of(claims)

    async def ready(self) -> None:
        """DirectoryError where no token could be read now."""
        await self._keys.ready()

    async def claims(self, token: str) -> Mapping[str, Any]:
        """What a good token says. Errors as above."""
        key = await self._keys.find(_key_id(token))
        if key is None:
            raise TokenError("The token is signed with a key that this tenant does not have.")
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=self._audiences,
                issuer=self._issuer,
                leeway=LEEWAY,
                options={"require": _REQUIRED},
            )
        except jwt.InvalidIssuerError:
            raise TokenError(self._other_issuer(token)) from None
        except jwt.InvalidAudienceError:
            expected = " or ".join(self._audiences)
            raise TokenError(f"The token is for another audience: {expected} is expected.") from None
        except jwt.PyJWTError as error:
            raise TokenError(_words(error)) from None
        if not isinstance(claims["aud"], str):
            raise TokenError("The token is for several audiences at once.")
        if claims.get("tid") != self._tenant_id:
            raise TokenError("The token is of another tenant.")
        if claims.get("ver") != "2.0":
            raise TokenError("The token's version is not 2.0: set requestedAccessTokenVersion to 2.")
        return claims

    def _other_issuer(self, token: str) -> str:
        claims = jwt.decode(token, options={"verify_signature": False})  # it was verified just before
        told = f"The token's issuer is not the expected one, {self._issuer}"
        if str(claims.get("iss")).startswith(_OLD_ISSUER):
            return (
                f"{told}: it is of version 1. Set requestedAccessTokenVersion to 2 in the app registration."
            )
        return f"{told}."


def _key_id(token: str) -> str:
    try:
        if len(token) > LONGEST:
            raise TokenError("The token is too long.")
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenError("This is no token: a signed JWT is expected.") from None
    if header.get("alg") != ALGORITHM:
        raise TokenError(f"The token is not signed with {ALGORITHM}.")
    found = header.get("kid")
    if not isinstance(found, str) or not found:
        raise TokenError("The token does not say which key it is signed with.")
    return found


def _words(error: jwt.PyJWTError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "The token has expired."
        case jwt.ImmatureSignatureError():
            return "The token is not valid yet."
        case jwt.MissingRequiredClaimError():
            return f"The token lacks the claim {error.claim}."
        case _:
            return "The token is damaged, or was not signed by this tenant."


def caller_of(claims: Mapping[str, Any]) -> Caller:
    """Who the claims are about. TokenError if they do not say.

    Only `roles` counts, a list of exact names: never `scp`, which an application has for whomever uses it.
    """
    stable = next((str(claims[name]) for name in ("oid", "sub", "azp") if name in claims), "")
    if not _STABLE.fullmatch(stable):
        raise TokenError("The token does not say whose it is.")
    name = next((claims[each] for each in ("name", "preferred_username") if _is_text(claims.get(each))), None)
    roles = claims.get("roles")
    return Caller(
        id=stable,
        name=name or f"application {claims.get('azp') or stable}",
        roles=frozenset(role for role in Role if isinstance(roles, list) and role.value in roles),
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
