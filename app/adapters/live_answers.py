"""What the services that keep the live index's name answer when they refuse, or do not answer at all.

| answer | becomes |
| --- | --- |
| 401, 403, no token to be had | LiveError that names the role that is needed |
| 412 | PreconditionError |
| 429 | throttled; nothing was changed |
| 503 | throttled |
| 408, no answer in time | timed-out |
| other 5xx | server-error |
| other 4xx | AnswerError: rejected, nothing was changed |
| 3xx, or an answer that the client cannot read | protocol |
| no connection, or a broken one | unreachable |
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestTimeoutError,
    ServiceResponseTimeoutError,
)

from app.adapters.refusals import service_text
from app.adapters.retries import FailedAttemptError, retry_after
from app.adapters.scrubbing import scrubbed
from app.adapters.swap import PreconditionError, RefusedAttemptError
from app.domain.errors import FailureCode, LiveError

A = TypeVar("A")
T = TypeVar("T")

Failure = FailedAttemptError | LiveError | PreconditionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Translates for one place. `permission`: what the caller lacks where it is refused, in a sentence."""

    where: str
    permission: str
    secrets: tuple[str, ...]

    async def of(self, sending: Awaitable[A], reading: Callable[[A], T]) -> T:
        """What `reading` makes of the client's answer. The client's exceptions carry texts unscrubbed, so that
        none is the cause of what is raised instead.
        """
        try:
            return reading(await sending)
        except (TimeoutError, LiveError, FailedAttemptError):
            raise
        except Exception as error:  # noqa: BLE001 — client and reading raise whatever the body makes them
            failure = self._failure(error)
        raise failure

    async def of_write(self, sending: Awaitable[A], reading: Callable[[A], T]) -> T:
        """The same; an answer that cannot be read leaves open what became of the write."""

        def read(answer: A) -> T:
            try:
                return reading(answer)
            except LiveError as error:
                raise FailedAttemptError(FailureCode.PROTOCOL, str(error)) from None

        return await self.of(sending, read)

    def _failure(self, error: Exception) -> Failure:
        if isinstance(error, HttpResponseError) and error.status_code:
            return self._refusal(error, error.status_code)
        text = scrubbed(str(error), self.secrets)
        if isinstance(error, ClientAuthenticationError):
            return LiveError(f"Nobody is signed in who could use the {self.where}: {text}")
        if isinstance(error, ServiceRequestTimeoutError | ServiceResponseTimeoutError):
            return FailedAttemptError(FailureCode.TIMED_OUT, text or "no answer in time")
        if isinstance(error, AzureError):
            return FailedAttemptError(FailureCode.UNREACHABLE, f"no whole answer ({text})")
        return FailedAttemptError(FailureCode.PROTOCOL, f"{type(error).__name__}: {text}")

    def _refusal(self, error: HttpResponseError, status: int) -> Failure:
        text = f"it answered {status}: {self._text(error)}".removesuffix(": ")
        wait = retry_after(getattr(error.response, "headers", {}))
        match status:
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                return LiveError(f"The {self.where} refuses ({text}). {self.permission}")
            case HTTPStatus.PRECONDITION_FAILED:
                return PreconditionError()
            case HTTPStatus.TOO_MANY_REQUESTS:
                return RefusedAttemptError(FailureCode.THROTTLED, text, retry_after=wait, throttled=True)
            case HTTPStatus.SERVICE_UNAVAILABLE:
                return FailedAttemptError(FailureCode.THROTTLED, text, retry_after=wait, throttled=True)
            case HTTPStatus.REQUEST_TIMEOUT:
                return FailedAttemptError(FailureCode.TIMED_OUT, text, retry_after=wait)
            case _ if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return FailedAttemptError(FailureCode.SERVER_ERROR, text, retry_after=wait)
            case _ if status >= HTTPStatus.BAD_REQUEST:
                return AnswerError(status, text)
            case _:
                return FailedAttemptError(FailureCode.PROTOCOL, text)

    def _text(self, error: HttpResponseError) -> str:
        """The service's own words, from either kind of error body."""
        try:
            body = error.response.text() if error.response is not None else ""
        except (ValueError, LookupError):
            return "in no readable text"
        try:
            problem = json.loads(body)
            parts = [problem.get("title"), problem.get("detail")]
        except (ValueError, AttributeError, RecursionError):
            parts = []
        told = ". ".join(str(part) for part in parts if part)
        return scrubbed(told, self.secrets) if told else service_text(body, self.secrets)


class AnswerError(RefusedAttemptError):
    """A 4xx with no meaning of its own here: `status` tells the caller, who may know one."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(FailureCode.REJECTED, message)
