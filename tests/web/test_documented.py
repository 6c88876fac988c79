"""Every operation of the OpenAPI document, called with what it allows and what it does not, by each role: no
answer is a fault of the service's own, and none is undocumented.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import CheckContext, not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.generation import GenerationMode
from schemathesis.generation.case import Case
from schemathesis.python.asgi import ASGIApp, get_client, shutdown_lifespans
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from app.domain.caller import Role
from app.web.checks import SECRET as CHECK
from tests.azure_devops import SECRET, Told
from tests.directory import Directory
from tests.fakes.live import FakeLive
from tests.web.served import Service, body
from tests.web.signing_in import access_of

SEEN: set[int] = set()


def named_status(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """The status is documented by its own number, and not as any other."""
    SEEN.add(response.status_code)
    documented = case.operation.definition.raw["responses"]
    assert str(response.status_code) in documented, (
        f"{response.status_code} is not documented: {response.text[:500]}"
    )


CHECKS = [
    named_status,
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
]
RUN = "run-0001"


@settings(
    max_examples=5,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=strategies.data())
def _call(
    data: strategies.DataObject, cases: strategies.SearchStrategy[Case[Any]], headers: dict[str, str]
) -> None:
    data.draw(cases).call_and_validate(checks=CHECKS, headers=headers)


def _cases(operation: APIOperation[Any, Any, Any, Any]) -> Iterator[strategies.SearchStrategy[Case[Any]]]:
    """As the document says, of a run that is there and of others; and as it does not say."""
    if "{run_id}" in operation.path:
        yield operation.as_strategy(path_parameters={"run_id": RUN})
    yield operation.as_strategy()
    yield operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    """The library starts an application once, and stops it when it is told to."""
    yield
    shutdown_lifespans()


@pytest.mark.parametrize("role", [None, *Role])
def test_no_operation_answers_what_it_does_not_document(role: Role | None, directory: Directory) -> None:
    service = Service(live=FakeLive(index="kb-v1"), callbacks=Told())
    api = service.application(access_of(directory) if role else None)
    starting, asking = (
        {"Authorization": f"Bearer {directory.token(each)}"} if each else {}
        for each in (role and Role.RUN, role)
    )
    with get_client(cast("ASGIApp", api)) as client:
        client.post("http://testserver/v1/runs", json=body(), headers=starting).raise_for_status()
        ended = client.get(f"http://testserver/v1/runs/{RUN}", params={"wait": 30}, headers=starting)
        assert ended.json()["state"] == "done"
    schema = schemathesis.openapi.from_dict(api.openapi())
    SEEN.clear()
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        operation.app = api
        proof = {CHECK: SECRET} if operation.path.startswith("/v1/checks/") and role else {}
        for cases in _cases(operation):
            with suppress(Unsatisfiable):  # nothing can be wrong with a call without parameters
                _call(cases=cases, headers={**asking, **proof})
    assert {200, 404, 422} <= SEEN, "it came past the door"
    assert (403 in SEEN) == (role is not None)
