"""Azure DevOps, told what came of a check that waits to be called back ("Events - Post Event" of its REST API)."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from urllib.parse import quote

import httpx

from app.adapters.limiter import Limiter
from app.adapters.refusals import THROTTLED
from app.adapters.retries import FailedAttemptError, Retries, retry_after
from app.domain.errors import FailureCode, ForbiddenError
from app.gate.check_build import CheckedJob

_API_VERSION = "7.1"
_ANSWER_SECONDS = 10.0  # for one attempt
_SECONDS = 120.0  # for all of them
_AT_ONCE = 4


@asynccontextmanager
async def open_azure_devops(
    organizations: Iterable[str],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
) -> AsyncIterator["AzureDevOps"]:
    """Azure DevOps, of which these organisations (https addresses) may be told anything."""
    async with httpx.AsyncClient(timeout=_ANSWER_SECONDS, follow_redirects=False) as client:
        retries = Retries(attempt_seconds=_ANSWER_SECONDS, sleep=sleep, jitter=jitter)
        yield AzureDevOps(client, organizations, retries)


class AzureDevOps:
    """`Callbacks`. What a check names as its organisation is looked up, never called: what is called is the address
    that was configured. What is answered is not read, so that nothing of it, a token sent back, can be told on.
    """

    def __init__(self, client: httpx.AsyncClient, organizations: Iterable[str], retries: Retries) -> None:
        self._client = client
        self._organizations = {_plain(each): each for each in organizations}
        self._retries = retries
        self._limiter = Limiter(ceiling=_AT_ONCE)

    def knows(self, organization: str) -> bool:
        return _plain(organization) in self._organizations

    async def complete(self, job: CheckedJob, *, succeeded: bool) -> None:
        """See `Callbacks.complete`; sent again as the table of retries says."""
        if not self.knows(job.organization):
            raise ForbiddenError("That organisation of Azure DevOps may not be told anything.")
        url = self._events(job)
        body = {
            "name": "TaskCompleted",
            "taskId": job.task,
            "jobId": job.job,
            "result": "succeeded" if succeeded else "failed",
        }

        async def attempt() -> None:
            await self._post(url, body, job.token)

        deadline = asyncio.get_running_loop().time() + _SECONDS
        await self._retries.run(attempt, deadline=deadline, limiter=self._limiter)

    def _events(self, job: CheckedJob) -> str:
        organization = self._organizations[_plain(job.organization)]
        project, hub, plan = (quote(each, safe="") for each in (job.project, job.hub, job.plan))
        path = f"{project}/_apis/distributedtask/hubs/{hub}/plans/{plan}/events"
        return f"{organization}/{path}?api-version={_API_VERSION}"

    async def _post(self, url: str, body: dict[str, str], token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            response = await self._client.post(url, json=body, headers=headers)
        except httpx.TimeoutException as error:
            raise FailedAttemptError(FailureCode.TIMED_OUT, "Azure DevOps did not answer in time") from error
        except httpx.HTTPError as error:
            told = f"Azure DevOps cannot be reached ({type(error).__name__})"
            raise FailedAttemptError(FailureCode.UNREACHABLE, told) from error
        if not response.is_success:
            raise _refused(response)


def _refused(response: httpx.Response) -> FailedAttemptError:
    status = response.status_code
    if status in THROTTLED:
        code = FailureCode.THROTTLED
    elif status == HTTPStatus.REQUEST_TIMEOUT:
        code = FailureCode.TIMED_OUT
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        code = FailureCode.SERVER_ERROR
    else:
        code = FailureCode.REJECTED if status >= HTTPStatus.BAD_REQUEST else FailureCode.PROTOCOL
    return FailedAttemptError(
        code,
        f"Azure DevOps answered {status}",
        retry_after=retry_after(response.headers),
        throttled=status in THROTTLED,
    )


def _plain(organization: str) -> str:
    """An organisation's address without what makes no difference: case, and the slash at its end."""
    return organization.removesuffix("/").lower()
