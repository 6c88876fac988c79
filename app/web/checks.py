"""Checks of Azure DevOps' environments: taken here, and answered later, by a call to Azure DevOps."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from pydantic import StringConstraints
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import NotFoundError, UnauthenticatedError
from app.domain.schema import adapter
from app.gate.check_build import CheckedJob, Checks
from app.web.bodies import BuildBody, described, read_body
from app.web.opened import Gate
from app.web.problems import answers, declared

SECRET = "X-Gate-Check-Secret"  # noqa: S105 — the name of a header

Guid = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]
Hub = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{1,32}$")]
Organization = Annotated[str, StringConstraints(max_length=500)]
Token = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,16000}$")]

router = APIRouter(prefix="/v1/checks", tags=["checks"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A check that will be answered."""

    build_id: str


def _signed_in(request: Request, gate: Gate) -> Checks:
    """What answers checks; NotFoundError where none are taken, UnauthenticatedError without their secret."""
    if gate.checks is None:
        raise NotFoundError(
            "This service takes no checks: set GATE_CHECK_SECRET and GATE_CHECK_ORGANIZATIONS."
        )
    sent = request.headers.getlist(SECRET)
    if len(sent) != 1 or not gate.checks.admits(sent[0]):
        raise UnauthenticatedError(f"Send the secret of the gate's checks as the header {SECRET}.")
    return gate.checks


def _job(
    *,
    organization: Annotated[Organization, Header(alias="PlanUrl")],
    project: Annotated[Guid, Header(alias="ProjectId")],
    hub: Annotated[Hub, Header(alias="HubName")],
    plan: Annotated[Guid, Header(alias="PlanId")],
    job: Annotated[Guid, Header(alias="JobId")],
    task: Annotated[Guid, Header(alias="TaskInstanceId")],
    token: Annotated[Token, Header(alias="AuthToken")],
) -> CheckedJob:
    return CheckedJob(
        organization=organization, project=project, hub=hub, plan=plan, job=job, task=task, token=token
    )


@router.post(
    "/azure-devops",
    response_description="The check is taken; Azure DevOps is called back with its result",
    responses=answers(Taken)
    | declared(
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
    openapi_extra={**described(BuildBody), "security": [{"check": []}]},
)
async def check_azure_devops(
    request: Request,
    checks: Annotated[Checks, Depends(_signed_in)],
    job: Annotated[CheckedJob, Depends(_job)],
) -> Response:
    """Check whether what a build had judged may be promoted (an Azure DevOps check "Invoke REST API" in callback mode).

    Nothing is started, and nothing is read of runs before the answer.
    """
    body = await read_body(request, BuildBody)
    checks.launch(body.build_id, job)
    return Response(adapter(Taken).dump_json(Taken(build_id=body.build_id)), media_type="application/json")
