"""What Azure DevOps is told of a check, before an organisation on loopback."""

import logging
from collections.abc import AsyncIterator

import pytest

from app.adapters.azure_devops import AzureDevOps, open_azure_devops
from app.domain.errors import FailureCode, ForbiddenError, QueryError
from app.gate.check_build import Callbacks
from tests.adapters.conftest import Pauses
from tests.azure_devops import JOB, PLAN, PROJECT, TASK, TOKEN, Organization


@pytest.fixture
async def azure_devops(organization: Organization, pauses: Pauses) -> AsyncIterator[AzureDevOps]:
    async with open_azure_devops([organization.url], sleep=pauses, jitter=lambda: 0.5) as opened:
        yield opened


@pytest.mark.parametrize(("succeeded", "result"), [(True, "succeeded"), (False, "failed")])
async def test_the_event_is_the_one_that_azure_devops_documents(
    organization: Organization, azure_devops: AzureDevOps, succeeded: bool, result: str
) -> None:
    callbacks: Callbacks = azure_devops
    await callbacks.complete(organization.job(), succeeded=succeeded)
    (posted,) = organization.posted
    assert posted.path == (
        f"/contoso/{PROJECT}/_apis/distributedtask/hubs/checks/plans/{PLAN}/events?api-version=7.1"
    )
    assert posted.body == {"name": "TaskCompleted", "taskId": TASK, "jobId": JOB, "result": result}
    assert posted.headers["authorization"] == f"Bearer {TOKEN}"
    assert posted.headers["content-type"] == "application/json"


@pytest.mark.parametrize("fault", [500, 502, 503, 504, 429, 408, "drop"])
async def test_what_may_pass_is_sent_again(
    organization: Organization, azure_devops: AzureDevOps, pauses: Pauses, fault: int | str
) -> None:
    organization.faults = [fault, fault]
    await azure_devops.complete(organization.job(), succeeded=True)
    assert organization.results == ["succeeded"] * 3
    assert len(pauses.taken) == 2


async def test_a_pause_that_is_asked_for_is_made(
    organization: Organization, azure_devops: AzureDevOps, pauses: Pauses
) -> None:
    organization.faults, organization.headers = [500], {"Retry-After": "7"}
    await azure_devops.complete(organization.job(), succeeded=True)
    assert pauses.taken == [7.25]  # half of the 0.5 s that the first pause is at most


@pytest.mark.parametrize("fault", [500, "drop"])
async def test_it_is_sent_four_times_and_then_given_up(
    organization: Organization, azure_devops: AzureDevOps, fault: int | str
) -> None:
    organization.faults = [fault] * 9
    with pytest.raises(QueryError):
        await azure_devops.complete(organization.job(), succeeded=True)
    assert len(organization.posted) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409])
async def test_a_refusal_is_not_sent_again_and_not_quoted(
    organization: Organization, azure_devops: AzureDevOps, status: int
) -> None:
    organization.faults = [status]
    with pytest.raises(QueryError, match=f"answered {status}$") as caught:
        await azure_devops.complete(organization.job(), succeeded=True)
    assert caught.value.code == FailureCode.REJECTED
    assert len(organization.posted) == 1
    assert TOKEN not in repr(caught.value)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(
    organization: Organization, azure_devops: AzureDevOps, status: int
) -> None:
    with Organization() as elsewhere:
        organization.faults, organization.headers = [status] * 9, {"Location": elsewhere.url}
        with pytest.raises(QueryError) as caught:
            await azure_devops.complete(organization.job(), succeeded=True)
        assert caught.value.code == FailureCode.PROTOCOL
        assert elsewhere.posted == []


FOREIGN = [  # {here} is the one that was configured
    "",
    "/",
    "https://dev.azure.com/contoso/",
    "{origin}",
    "{origin}/",
    "{origin}/fabrikam/",
    "{origin}/contoso-evil/",
    "{origin}/contosoevil",
    "{here}/..",
    "{here}/../fabrikam/",
    "{here}/%2e%2e/fabrikam",
    "{here}//",
    "{here}/x",
    "{here}?x",
    "{here}/#",
    "{here}@evil.example/",
    "http://evil.example/contoso/",
    "http://evil.example#{here}",
    "http://evil.example\\@{here}",
    "http://user:password@{rest}",
    "http://169.254.169.254/contoso",
    "http://localhost:{port}/contoso",
    "http://[::ffff:127.0.0.1]:{port}/contoso",
    "http://2130706433:{port}/contoso",
    "http://0x7f.1:{port}/contoso",
    "ftp://{rest}",
    "file:///etc/passwd",
    " {here}",
    "{here} ",
    "\t{here}",
]


@pytest.mark.parametrize("address", FOREIGN)
async def test_another_organisation_is_told_nothing(
    organization: Organization, azure_devops: AzureDevOps, address: str
) -> None:
    rest = organization.url.removeprefix("http://")
    origin = organization.url.removesuffix("/contoso")
    port = origin.rpartition(":")[2]
    named = address.format(here=organization.url, origin=origin, rest=rest, port=port)
    assert not azure_devops.knows(named)
    with pytest.raises(ForbiddenError):
        await azure_devops.complete(organization.job(organization=named), succeeded=True)
    assert organization.posted == []


async def test_case_and_the_last_slash_make_no_difference(
    organization: Organization, azure_devops: AzureDevOps
) -> None:
    for named in (organization.url, f"{organization.url}/", f"{organization.url.upper()}/"):
        await azure_devops.complete(organization.job(organization=named), succeeded=True)
    assert all(each.path.startswith("/contoso/") for each in organization.posted)  # as it was configured


async def test_what_stands_in_a_path_stays_one_part_of_it(
    organization: Organization, azure_devops: AzureDevOps
) -> None:
    await azure_devops.complete(organization.job(hub="../../x?y#z", plan="a/b"), succeeded=True)
    (posted,) = organization.posted
    assert posted.path.startswith(
        f"/contoso/{PROJECT}/_apis/distributedtask/hubs/..%2F..%2Fx%3Fy%23z/plans/a%2Fb/"
    )


@pytest.mark.parametrize("faults", [[], [500, "drop"], [403], ["drop"] * 9])
async def test_the_token_is_in_no_log_and_no_representation(
    organization: Organization,
    azure_devops: AzureDevOps,
    caplog: pytest.LogCaptureFixture,
    faults: list[int | str],
) -> None:
    organization.faults = faults
    job = organization.job()
    assert TOKEN not in f"{job!r} {job}"
    for name in ("", "httpx", "httpcore"):  # the service itself keeps the libraries quieter
        caplog.set_level(logging.DEBUG, logger=name)
    try:
        await azure_devops.complete(job, succeeded=True)
    except QueryError:
        logging.getLogger(__name__).exception("with its trace")
    assert "send_request_headers" in caplog.text
    assert TOKEN not in caplog.text
