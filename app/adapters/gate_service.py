"""The gate's own service, as the command line reaches it: start, wait, cancel, fetch."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError
from pydantic import ValidationError
from typing_extensions import TypedDict

from app.adapters.credentials import azure_identity
from app.adapters.scrubbing import scrubbed
from app.domain.audit import AuditPage, Record, Verification
from app.domain.clearance import Clearance
from app.domain.errors import ConflictError, Fault, GateError, InputError, UnderWayError
from app.domain.overrides import Override
from app.domain.run import Run
from app.domain.schema import adapter
from app.gate.follow import Followed
from app.gate.live import Live
from app.gate.promote import Promotion
from app.gate.retire import Retirement
from app.gate.rollback import Rollback

T = TypeVar("T")


class _Waiver(TypedDict):
    waived: Override | None


_POLL_SECONDS = 20  # one request is held so long at most: well below an ingress's limit
_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0)  # between attempts that found no service
_PATIENCE = 40  # attempts in a row without an answer, several minutes, before the service counts as gone
_RENEW_SECONDS = 300  # of a token's life that are left when it is renewed
_LONG_SECONDS = 60  # a service that wants to be left alone for longer is not asked again
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNDER_WAY = "urn:search-index-gate:under-way"
_FINAL = frozenset({"urn:search-index-gate:live-unavailable"})  # the service has asked again itself

_HOW = (
    "Set GATE_SERVICE_SCOPE (api://<client id>/.default) to sign in as this identity, or GATE_SERVICE_TOKEN."
)

SignIn = Callable[[], Awaitable[str | None]]

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_gate_service(
    url: str, *, token: str | None, scope: str | None
) -> AsyncIterator["GateService"]:
    """A client of the service at `url`; signs in with `token`, or for `scope` as this identity, or not at all."""
    async with httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(60, connect=10)) as client:
        if token is not None or scope is None:
            yield GateService(client, _fixed(token))
            return
        async with azure_identity() as identity:
            yield GateService(client, _Renewed(identity, scope))


def _fixed(token: str | None) -> SignIn:
    async def give() -> str | None:
        return token

    return give


class _Renewed:
    """A token of this identity, asked for anew when it is about to expire: the Azure command line keeps none for
    its callers, and a run may take longer than a token lives. GateError where there is none.
    """

    def __init__(self, identity: AsyncTokenCredential, scope: str) -> None:
        self._identity = identity
        self._scope = scope
        self._token = AccessToken("", 0)

    async def __call__(self) -> str:
        if self._token.expires_on - time.time() < _RENEW_SECONDS:
            try:
                self._token = await self._identity.get_token(self._scope)
            except AzureError as error:
                raise GateError(f"There is no token for {self._scope}: {scrubbed(str(error))}") from error
        return self._token.token


class GateService:
    """Calls survive a service that is restarting: a lost answer or a 5xx is asked for again.

    GateError with the service's own words when it refuses (ConflictError for a 409, UnderWayError where another
    change of the live index is under way); InputError with its faults.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        sign_in: SignIn,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._sign_in = sign_in
        self._sleep = sleep

    async def start(self, body: Mapping[str, Any], idempotency_key: str) -> Run:
        """The run, started once however often the request had to be sent."""
        headers = {"Idempotency-Key": idempotency_key}
        response = await self._call("POST", "/v1/runs", json=body, headers=headers)
        return self._run(response)

    async def wait(self, run_id: str) -> Run:
        """The run, done, or as it is after some seconds."""
        return self._run(await self._call("GET", f"/v1/runs/{_part(run_id)}", params={"wait": _POLL_SECONDS}))

    async def cancel(self, run_id: str) -> None:
        await self._call("POST", f"/v1/runs/{_part(run_id)}/cancel")

    async def document(self, run_id: str, name: str, *, passages: bool) -> AsyncIterator[bytes]:
        """One of the run's documents: run.json, report.html, report.md, junit.xml; with what it quotes of the
        documents, or without.
        """
        params = {"passages": "true" if passages else "false"}
        response = await self._call("GET", f"/v1/runs/{_part(run_id)}/{name}", params=params)
        yield response.content

    async def waiver(self, run_id: str) -> Override | None:
        """The override that clears the run; None where none does."""
        return self._answer(_Waiver, await self._call("GET", f"/v1/runs/{run_id}/overrides"))["waived"]

    async def live(self) -> Live:
        """What is live."""
        return self._answer(Live, await self._call("GET", "/v1/live"))

    async def promote(self, run_id: str, request: Mapping[str, Any]) -> Promotion:
        """The run, promoted once however often the request had to be sent. ConflictError where it is refused."""
        response = await self._call("POST", f"/v1/runs/{_part(run_id)}/promote", json=request)
        return self._answer(Promotion, response)

    async def promotion(self, run_id: str) -> Followed:
        """What became of the promotion, ended, or as it is after some seconds."""
        path = f"/v1/runs/{_part(run_id)}/promotion"
        return self._answer(Followed, await self._call("GET", path, params={"wait": _POLL_SECONDS}))

    async def clearance(self, run_id: str) -> Clearance:
        """Whether this caller may promote the run."""
        return self._answer(Clearance, await self._call("GET", f"/v1/runs/{_part(run_id)}/clearance"))

    async def rollback(self, request: Mapping[str, Any]) -> Rollback:
        """The roll back, made or drilled. ConflictError where it is refused."""
        return self._answer(Rollback, await self._call("POST", "/v1/live/rollback", json=request))

    async def retirement(self) -> Retirement:
        """Which indexes are of no use any more."""
        return self._answer(Retirement, await self._call("GET", "/v1/live/retirement"))

    async def verification(self) -> Verification:
        """Whether the audit is whole."""
        return self._answer(Verification, await self._call("GET", "/v1/audit/verification"))

    async def audit(self) -> AsyncIterator[Record]:
        """Every record of the audit, the newest first."""
        before: int | None = 0
        while before is not None:
            params = {"before": before} if before else {}
            page = self._answer(AuditPage, await self._call("GET", "/v1/audit", params=params))
            for record in page.records:
                yield record
            before = page.next

    async def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = dict(options.pop("headers", {}))
        for attempt in range(_PATIENCE):
            token = await self._sign_in()
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            try:
                response = await self._client.request(method, path, headers=headers, **options)
            except httpx.TransportError as error:
                why = f"{type(error).__name__}: {scrubbed(str(error))}"
            else:
                if response.status_code not in _TRANSIENT or _is_final(response):
                    return _accepted(response)
                why = _refusal(response)
            if attempt == 0:
                log.warning("%s does not answer, and is asked again: %s", self._client.base_url, why)
            await self._sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)] * random.uniform(0.5, 1.0))  # noqa: S311
        raise GateError(f"The gate's service at {self._client.base_url} does not answer: {why}")

    def _run(self, response: httpx.Response) -> Run:
        return self._answer(Run, response)

    def _answer(self, expected: type[T], response: httpx.Response) -> T:
        try:
            return adapter(expected).validate_json(response.content)
        except ValidationError:
            kind = response.headers.get("content-type", "no content type")
            raise GateError(
                f"{self._client.base_url} answered something that is not what was asked for ({kind}): is it the "
                "gate's address, and of its version?"
            ) from None


def _is_final(response: httpx.Response) -> bool:
    """Whether the service says itself that asking again soon is of no use."""
    told = response.headers.get("retry-after", "")
    for_long = bool(told.isdecimal()) and int(told) > _LONG_SECONDS
    return for_long or _problem(response).get("type") in _FINAL


def _part(run_id: str) -> str:
    """An id as one part of a path."""
    return quote(run_id, safe="")


def _accepted(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    if response.status_code in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
        raise InputError(_faults(response))
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        raise GateError(f"{_refusal(response)} {_HOW}")
    if response.status_code == HTTPStatus.CONFLICT:
        under_way = _problem(response).get("type") == _UNDER_WAY
        raise (UnderWayError if under_way else ConflictError)(_refusal(response))
    raise GateError(_refusal(response))


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _refusal(response: httpx.Response) -> str:
    problem = _problem(response)
    words = problem.get("detail") or problem.get("title") or response.reason_phrase
    return f"the service answered {response.status_code}: {scrubbed(str(words))}"


def _faults(response: httpx.Response) -> list[Fault]:
    listed = _problem(response).get("faults")
    if not isinstance(listed, list) or not listed:
        return [Fault(where="request", message=_refusal(response))]
    return [
        Fault(where=str(each.get("where", "")), line=each.get("line"), message=str(each.get("message", "")))
        for each in listed
        if isinstance(each, dict)
    ]
