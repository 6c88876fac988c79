"""The application: routes, one answer to every error, and the gate opened for as long as it serves."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from app.domain.audit import AuditPage, Verification
from app.domain.caller import Role
from app.domain.clearance import Clearance
from app.domain.errors import GateError, UnauthenticatedError
from app.domain.overrides import Override
from app.domain.review import Review
from app.domain.run import Run
from app.domain.schema import adapter
from app.gate.follow import Followed
from app.gate.live import Live
from app.gate.opened import OpenGate
from app.gate.promote import Promotion
from app.gate.retire import Retirement
from app.gate.rollback import Rollback
from app.web import (
    access,
    checks,
    downloads,
    golden_sets,
    health,
    judge,
    live,
    live_pages,
    pages,
    reviews,
    runs,
    sign_in,
)
from app.web.bodies import (
    BuildBody,
    CheckBody,
    JudgeBody,
    JudgeSinceBody,
    OverrideBody,
    PromoteBody,
    ReviewBody,
    RollbackBody,
    StartBody,
)
from app.web.guard import Guard
from app.web.listing import RunPage
from app.web.loopback import LoopbackOnly
from app.web.problems import Problem, as_json, declared, refusal
from app.web.starts import Starts

_SENT: tuple[type, ...] = (
    Problem,
    Run,
    RunPage,
    downloads.RunWithQuestions,
    Review,
    reviews.Reviews,
    Override,
    reviews.Overrides,
    judge.RejudgedRuns,
    golden_sets.Checked,
    checks.Taken,
    health.Alive,
    health.Ready,
    Live,
    Clearance,
    Promotion,
    Followed,
    Rollback,
    Retirement,
    AuditPage,
    Verification,
)


def create_api(
    open_gate: Callable[[], AbstractAsyncContextManager[OpenGate]],
    *,
    version: str,
    open_access: Callable[[], AbstractAsyncContextManager[access.Access]] | None = None,
    starts_per_hour: int | None = None,
    tls: bool = False,
    loopback: bool = False,
) -> FastAPI:
    """The application. When it starts it opens the gate and takes up the runs that are not done; when it
    stops it lets go of them, for the next start. Without `open_access` nobody signs in, and all may do all.
    `starts_per_hour`: for each caller. `tls`: whether browsers reach it by https. `loopback`:
    whether it answers this machine only.
    """

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        api.state.starts = Starts(starts_per_hour)
        async with AsyncExitStack() as stack:
            api.state.access = await stack.enter_async_context(open_access()) if open_access else None
            api.state.gate = gate = await stack.enter_async_context(open_gate())
            try:
                await gate.supervisor.resume()
                if gate.watches is not None:
                    gate.watches.resume()
                yield
            finally:
                await gate.supervisor.stop()
                if gate.watches is not None:
                    await gate.watches.stop()
                if gate.checks is not None:
                    await gate.checks.stop()

    api = _Api(
        title="search-index-gate",
        description="A blue-green gate for Azure AI Search. Every error is a problem document (RFC 9457).",
        version=version,
        lifespan=lifespan,
        dependencies=[Depends(access.admitted)],
        openapi_url=None,  # ours, below, has an entry in the table of roles
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
        telemetry={"auto_configure": False, "operation_spans": False, "logs": False},  # one span a request
    )
    rooms = (runs, live, downloads, judge, reviews, golden_sets, health, checks, sign_in, live_pages, pages)
    for router in (each.router for each in rooms):
        api.include_router(router)
    api.include_router(reviews.forms)
    api.include_router(live_pages.forms)

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(api.openapi())

    if loopback:
        api.add_middleware(LoopbackOnly)
    api.add_middleware(Guard, tls=tls)  # around all others
    for kind in (GateError, HTTPException, RequestValidationError):
        api.add_exception_handler(kind, _answer_error)
    return api


def _operation_id(route: APIRoute) -> str:
    return route.name


async def _answer_error(request: Request, error: Exception) -> Response:
    told = refusal(request, error)
    if not pages.wants_page(request):
        return as_json(told)
    if type(error) is UnauthenticatedError and request.method == "GET":
        asked = f"{request.url.path}?{request.url.query}".removesuffix("?")
        return RedirectResponse(f"/sign-in?{urlencode({'back': asked})}", status_code=HTTPStatus.SEE_OTHER)
    return pages.problem_page(request, told)


class _Api(FastAPI):
    """Its OpenAPI document also holds the models that the routes name by themselves."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            components = document.setdefault("components", {})
            components["securitySchemes"] = {
                "entra": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "check": {"type": "apiKey", "in": "header", "name": checks.SECRET},
            }
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    _complete(operation, access.NEEDED[f"{method.upper()} {path}"])
            schemas = components.setdefault("schemas", {})
            for name, schema in _schemas().items():
                schemas.setdefault(name, schema)
        return super().openapi()


def _complete(operation: dict[str, Any], needed: frozenset[Role] | None) -> None:
    """Add to an operation's description what holds for all: who may call it, and how others are refused."""
    refusals = []
    if needed is not access.OPEN:
        operation["security"] = [{"entra": []}, {}]  # or nobody signs in at all
        roles = " or ".join(role for role in Role if role in needed)
        operation["description"] = f"{operation['description']}\n\nNeeds the role {roles}."
        refusals += [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE]
    if any(each["in"] in ("query", "header") for each in operation.get("parameters", ())):
        refusals.append(HTTPStatus.UNPROCESSABLE_ENTITY)
    told = {str(status): meaning for status, meaning in declared(*refusals).items()}
    operation["responses"] = {**told, **operation["responses"]}


def _schemas() -> dict[str, Any]:
    template = "#/components/schemas/{model}"
    received = (
        StartBody,
        CheckBody,
        JudgeBody,
        JudgeSinceBody,
        ReviewBody,
        OverrideBody,
        PromoteBody,
        RollbackBody,
        BuildBody,
    )
    _, bodies = models_json_schema([(each, "validation") for each in received], ref_template=template)
    sent: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (each.__name__, "serialization", adapter(each)) for each in _SENT
    ]
    _, answers = TypeAdapter.json_schemas(sent, ref_template=template)
    return {**bodies["$defs"], **answers["$defs"]}
