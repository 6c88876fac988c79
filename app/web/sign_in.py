"""`/sign-in` and `/sign-out`: people with a browser, by way of the directory's own page."""

import re
import secrets
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.errors import DirectoryError, NotFoundError, TokenError
from app.web.access import Access
from app.web.pages import signed_out_page
from app.web.reviews import own_page

_OURS = re.compile(
    r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,1999}"
)  # a path of this service, with its query, that a cookie holds

router = APIRouter(include_in_schema=False)


def _access(request: Request) -> Access:
    access: Access | None = request.app.state.access
    if access is None:
        raise NotFoundError("Nobody signs in here (GATE_AUTH=none).")
    return access


Entry = Annotated[Access, Depends(_access)]


@router.get("/sign-in")
async def sign_in(access: Entry, back: str = "/") -> Response:
    """To the directory's page, which sends the person back with a code."""
    state, nonce, verifier = (secrets.token_urlsafe(size) for size in (16, 24, 48))
    address = await access.people.address(state=state, nonce=nonce, verifier=verifier)
    response = RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER)
    content = {"nonce": nonce, "verifier": verifier, "back": ours(back)}
    access.sessions.begin_sign_in(response, state, content)
    return response


@router.get("/sign-in/callback")
async def signed_in(
    request: Request,
    access: Entry,
    state: Annotated[str, Query(pattern=r"^[\w-]{1,100}$")],
    code: Annotated[str | None, Query(max_length=10_000)] = None,
) -> Response:
    """Back from the directory: whoever the code stands for is signed in, in the browser that began it."""
    begun = access.sessions.sign_in(request, state)
    if begun is None:
        raise TokenError("This browser began no such sign-in, or too long ago: begin again at /sign-in.")
    if code is None:
        raise TokenError("The directory did not let you in: are you assigned to the gate's application?")
    caller = await access.people.caller(code=code, nonce=begun["nonce"], verifier=begun["verifier"])
    response = RedirectResponse(begun["back"], status_code=HTTPStatus.SEE_OTHER)
    access.sessions.begin(response, caller)
    access.sessions.end_sign_in(response, state)
    return response


@router.post("/sign-out", dependencies=[Depends(own_page)])
async def sign_out(request: Request, access: Entry) -> Response:
    """Signed out here; the directory's own sign-out is offered, since it ends other applications' sessions, too."""
    try:
        address = await access.people.sign_out_address()
    except DirectoryError:  # who leaves does not have to wait for it
        address = None
    response = signed_out_page(address)
    access.sessions.end(request, response)
    return response


def ours(address: str) -> str:
    """The address if it is a path of this service, else that of the runs."""
    return address if _OURS.fullmatch(address) else "/"
