"""An organisation of Azure DevOps on loopback, which takes what is posted of its checks.

with Organization() as organization:
    organization.faults = [503, "drop"]     # how the next requests are answered instead
    organization.wait_for(1)                # until so many events came
    organization.posted                     # all requests, refused ones included
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest

from app.gate.check_build import CheckedJob

SECRET = "a-secret-of-the-tests-that-checks-prove-with"
TOKEN = "eyJ0eXAiOiJKV1Qi.eyJuYW1laWQiOiJjaGVjayJ9.c2lnbmF0dXJl"
PROJECT = "0a1b2c3d-0000-4000-8000-000000000001"
PLAN = "0a1b2c3d-0000-4000-8000-000000000002"
JOB = "0a1b2c3d-0000-4000-8000-000000000003"
TASK = "0a1b2c3d-0000-4000-8000-000000000004"
TIMELINE = "0a1b2c3d-0000-4000-8000-000000000005"

_PATIENCE = 60  # seconds, where a machine is busy


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    path: str
    headers: dict[str, str]  # names in lower case
    body: Any


class Organization:
    """`contoso`. `redirect`: where a fault of 307 sends to."""

    def __init__(self) -> None:
        self.posted: list[Posted] = []
        self.faults: list[int | str] = []
        self.headers: dict[str, str] = {}
        self._came = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/contoso"

    @property
    def results(self) -> list[str]:
        return [each.body["result"] for each in self.posted]

    def wait_for(self, count: int) -> list[Posted]:
        """The requests, as soon as there are so many."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.posted) >= count, _PATIENCE), self.posted
        return self.posted

    def job(self, **members: str) -> CheckedJob:
        """The job that a check of this organisation names."""
        return checked_job(**{"organization": f"{self.url}/", **members})

    def check(self, **changes: str | None) -> dict[str, str]:
        """The headers of a check, as Azure DevOps sends them; None leaves one out."""
        sent = {
            "X-Gate-Check-Secret": SECRET,
            "PlanUrl": f"{self.url}/",
            "ProjectId": PROJECT,
            "HubName": "checks",
            "PlanId": PLAN,
            "JobId": JOB,
            "TimelineId": TIMELINE,
            "TaskInstanceId": TASK,
            "AuthToken": TOKEN,
            **changes,
        }
        return {name: value for name, value in sent.items() if value is not None}

    def came(self, request: Posted) -> None:
        with self._came:
            self.posted.append(request)
            self._came.notify_all()


class Told:
    """Callbacks that keep what they were told, or refuse it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.results: list[bool] = []
        self.error = error

    def knows(self, organization: str) -> bool:
        return organization == "https://dev.azure.com/contoso/"

    async def complete(self, job: CheckedJob, *, succeeded: bool) -> None:
        self.results.append(succeeded)
        if self.error is not None:
            raise self.error


def checked_job(organization: str, **members: str) -> CheckedJob:
    """A job as a check names it, unless `members` say otherwise."""
    plain = {"project": PROJECT, "hub": "checks", "plan": PLAN, "job": JOB, "task": TASK, "token": TOKEN}
    return CheckedJob(organization=organization, **{**plain, **members})


@pytest.fixture
def organization() -> Iterator[Organization]:
    with Organization() as found:
        yield found


def _handler(organization: Organization) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            fault = organization.faults.pop(0) if organization.faults else 200
            organization.came(Posted(path=self.path, headers=headers, body=body))
            if isinstance(fault, str):
                self.close_connection = True  # no answer
                return
            self.send_response(fault)
            for name, value in organization.headers.items():
                self.send_header(name, value)
            content = json.dumps({"message": f"no: {headers.get('authorization')}"}).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
