"""The gate that the application opened at its start, as a parameter of what answers requests."""

from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from app.gate.opened import OpenGate


def _opened(request: Request) -> OpenGate:
    gate: OpenGate = request.app.state.gate
    return gate


Gate = Annotated[OpenGate, Depends(_opened)]
