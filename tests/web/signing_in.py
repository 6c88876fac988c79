"""An application that lets the tenant of `tests.directory` sign in, by tokens and by browser."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from app.adapters.directory import open_directory
from app.adapters.sign_in import SignIn, by_secret
from app.adapters.tokens import SigningKeys, TokenReader
from app.web.access import Access
from app.web.sessions import Sessions
from tests.directory import CLIENT, SECRET, SESSION_KEY, TENANT, Directory


def access_of(
    directory: Directory, *, keys: tuple[str, ...] = (SESSION_KEY,), tls: bool = False
) -> Callable[[], AbstractAsyncContextManager[Access]]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Access]:
        async with open_directory(directory.issuer) as found:
            tokens = TokenReader(
                issuer=directory.issuer,
                tenant_id=TENANT,
                audiences=(CLIENT, f"api://{CLIENT}"),
                keys=SigningKeys(found.keys),
            )
            people = SignIn(
                directory=found,
                tokens=tokens,
                client_id=CLIENT,
                redirect_uri="http://gate/sign-in/callback",
                prove=by_secret(SECRET),
            )
            yield Access(tokens=tokens, people=people, sessions=Sessions(keys, tls=tls))

    return opened


async def begun(client: httpx.AsyncClient, back: str = "/") -> dict[str, str]:
    """What the directory's page is asked for when somebody signs in."""
    response = await client.get("/sign-in", params={"back": back})
    assert response.status_code == 303, response.text
    return dict(parse_qsl(urlsplit(response.headers["location"]).query))


async def signed_in(
    client: httpx.AsyncClient, directory: Directory, *roles: str, back: str = "/", **claims: Any
) -> httpx.Response:
    """The answer to a person who comes back from the directory's page."""
    asked = await begun(client, back)
    directory.codes["code"] = directory.token(*roles, nonce=asked["nonce"], azp=None, **claims)
    return await client.get("/sign-in/callback", params={"state": asked["state"], "code": "code"})


@dataclass(frozen=True, slots=True)
class Form:
    action: str
    method: str
    fields: dict[str, str]


def forms(page: str) -> list[Form]:
    """The forms of a page, with what they hold before anybody typed."""
    return list(_Forms.of(page))


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []

    @classmethod
    def of(cls, page: str) -> Iterator[Form]:
        parser = cls()
        parser.feed(page)
        return iter(parser.found)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(Form(values.get("action", ""), values.get("method", "get"), {}))
        elif tag == "input" and self.found and values.get("type") == "hidden":
            self.found[-1].fields[values["name"]] = values.get("value", "")
