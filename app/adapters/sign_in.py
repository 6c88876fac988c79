"""People who sign in with a browser: authorization code with PKCE (OpenID Connect), against the tenant's directory."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from urllib.parse import parse_qsl

import httpx
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError

from app.adapters.directory import PATIENCE, Directory
from app.adapters.tokens import TokenReader, caller_of
from app.domain.caller import Caller
from app.domain.errors import DirectoryError, TokenError

_SCOPE = "openid profile"
_EXCHANGE = "api://AzureADTokenExchange/.default"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

ProofOfClient = Callable[[], Awaitable[Mapping[str, str]]]
"""What the token endpoint is sent to prove that this is the registered application."""

log = logging.getLogger(__name__)


def by_secret(secret: str) -> ProofOfClient:
    async def prove() -> Mapping[str, str]:
        return {"client_secret": secret}

    return prove


def by_identity(identity: AsyncTokenCredential) -> ProofOfClient:
    """By a token of this program's managed identity, which the app registration trusts as federated."""

    async def prove() -> Mapping[str, str]:
        try:
            token = await identity.get_token(_EXCHANGE)
        except AzureError as error:
            log.warning("no token of the managed identity: %s", type(error).__name__)
            raise DirectoryError(
                "The service cannot prove to the directory who it is: set GATE_ENTRA_CLIENT_SECRET, or let the app "
                "registration trust the managed identity."
            ) from error
        return {"client_assertion_type": _ASSERTION, "client_assertion": token.token}

    return prove


class SignIn:
    """The sign-in of one app registration. `redirect_uri` is the service's address that people come back to."""

    def __init__(
        self,
        *,
        directory: Directory,
        tokens: TokenReader,
        client_id: str,
        redirect_uri: str,
        prove: ProofOfClient,
    ) -> None:
        self._directory = directory
        self._tokens = tokens
        self._client_id = client_id
        self._redirect_uri = redirect_uri
        self._prove = prove

    async def address(self, *, state: str, nonce: str, verifier: str) -> str:
        """Where a person signs in. DirectoryError where that cannot be found out now."""
        address: str = prepare_grant_uri(
            (await self._directory.endpoints()).authorization,
            self._client_id,
            "code",
            redirect_uri=self._redirect_uri,
            scope=_SCOPE,
            state=state,
            nonce=nonce,
            response_mode="query",
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return address

    async def caller(self, *, code: str, nonce: str, verifier: str) -> Caller:
        """Who came back with the code. TokenError where it, or what it stands for, is no good."""
        token = await self._exchanged(code, verifier)
        claims = await self._tokens.claims(token)
        found = claims.get("nonce")
        if not isinstance(found, str) or not compare_digest(found.encode(), nonce.encode()):
            raise TokenError("The directory answered another sign-in.")
        return caller_of(claims)

    async def sign_out_address(self) -> str | None:
        """Where a person signs out of the directory itself; None where it has no such place."""
        return (await self._directory.endpoints()).end_session

    async def _exchanged(self, code: str, verifier: str) -> str:
        """The id token that the code stands for."""
        body = prepare_token_request(
            "authorization_code",
            redirect_uri=self._redirect_uri,
            code=code,
            code_verifier=verifier,
            client_id=self._client_id,
            **await self._prove(),
        )
        address = (await self._directory.endpoints()).token
        try:
            async with httpx.AsyncClient(timeout=PATIENCE) as client:
                response = await client.post(address, data=dict(parse_qsl(body)))
            answer = response.json()
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise DirectoryError(f"The directory does not answer now ({type(error).__name__}).") from error
        if response.status_code >= 500:  # noqa: PLR2004 — the server's fault
            raise DirectoryError(f"The directory answered {response.status_code}.")
        token = answer.get("id_token") if isinstance(answer, dict) else None
        if not response.is_success or not isinstance(token, str):
            told = answer.get("error") if isinstance(answer, dict) else None
            log.warning("the directory refused a sign-in: %s %r", response.status_code, str(told)[:100])
            raise TokenError("The directory refused the sign-in: begin again.")
        return token
