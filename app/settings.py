"""The environment, read once: names and meanings are the contract's "Settings". Nothing else reads it."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.domain.errors import Fault, InputError

PREFIX = "GATE_"
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https address")
    if parts.port == 0:  # raises ValueError itself for what is no port number
        raise ValueError("must name a port that can be connected to")
    if parts.username or parts.password:
        raise ValueError("must not carry a user name or password")
    return value.rstrip("/")


def _runs_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme == "file" and parts.path:
        return value
    if parts.query:
        raise ValueError("must not carry a query or signature; use a key or an identity")
    if not parts.path.strip("/"):
        raise ValueError("must name a container: https://<account>.blob.core.windows.net/<container>")
    return _address(value)


def _sendable(value: SecretStr) -> SecretStr:
    if not _HEADER_VALUE.fullmatch(value.get_secret_value()):
        raise ValueError("must be ASCII characters without spaces or line ends: was it copied whole?")
    return value


Address = Annotated[str, AfterValidator(_address)]
Secret = Annotated[SecretStr, AfterValidator(_sendable)]


class Auth(StrEnum):
    ENTRA = "entra"
    NONE = "none"


class Settings(BaseSettings):
    """All settings. An empty variable counts as unset."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    search_endpoint: Address | None = None
    search_api_key: Secret | None = None
    search_audience: Address | None = None
    embedding_api_key: Secret | None = None
    runs_url: Annotated[str, AfterValidator(_runs_url)] | None = None
    runs_key: Secret | None = None
    auth: Auth = Auth.NONE
    service_url: Address | None = None
    service_scope: str | None = None
    service_token: Secret | None = None
    golden_dir: str = "golden"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    log_level: Annotated[str, Field(pattern="^(?i:debug|info|warning|error)$")] = "info"
    client_id: Annotated[str | None, Field(validation_alias="AZURE_CLIENT_ID")] = None
    max_concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    capacity_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    query_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30
    run_timeout_seconds: Annotated[float, Field(gt=0, le=86_400)] = 3600
    settle_seconds: Annotated[float, Field(ge=0, le=600)] = 2
    inventory_limit: Annotated[int, Field(ge=0)] = 100_000
    semantic_allowance: Annotated[int, Field(ge=0)] | None = None
    leg_probes: bool = True

    @model_validator(mode="after")
    def _keys_over_http(self) -> Self:
        for name, url, key in (
            ("search_endpoint", self.search_endpoint, self.search_api_key),
            ("runs_url", self.runs_url, self.runs_key),
        ):
            if url is not None and url.startswith("http://") and key is None:
                partner = "SEARCH_API_KEY" if name == "search_endpoint" else "RUNS_KEY"
                raise ValueError(
                    f"{_variable(name)}: is http, and without {PREFIX}{partner} an identity's token would travel "
                    "in clear: use https, or set the key"
                )
        return self


def read_settings() -> Settings:
    """The settings; InputError names every missing or malformed variable at once, never a value."""
    try:
        return Settings()
    except ValidationError as error:
        raise InputError([_fault(details["loc"], details["msg"]) for details in error.errors()]) from None


def service_address(value: str, where: str) -> str:
    """The address of the gate's service; InputError, which names `where` it stood, if it is none."""
    try:
        return _address(value)
    except ValueError as error:
        raise InputError([Fault(where=where, message=str(error))]) from None


def _fault(path: tuple[int | str, ...], message: str) -> Fault:
    text = message.removeprefix("Value error, ")
    if path:
        return Fault(where=_variable(str(path[0])), message=text[:1].lower() + text[1:])
    name, _, rest = text.partition(": ")
    return Fault(where=name, message=rest)


def _variable(field: str) -> str:
    return "AZURE_CLIENT_ID" if field == "client_id" else f"{PREFIX}{field.upper()}"


def variables() -> tuple[str, ...]:
    """The environment variables that are read."""
    return tuple(_variable(name) for name in Settings.model_fields)


def unknown(environment: Mapping[str, str]) -> list[Fault]:
    """The `GATE_` variables that mean nothing here, each with the nearest that does."""
    return [
        Fault(where=name, message=_nearest(name, variables())) for name in sorted(environment) if _ours(name)
    ]


def _ours(name: str) -> bool:
    return name.startswith(PREFIX) and name not in variables()


def _nearest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return "is not a setting" + (f"; did you mean {close[0]}?" if close else "")


def serving_faults(settings: Settings, environment: Mapping[str, str]) -> list[Fault]:
    """What keeps `gate serve` from starting with these settings."""
    found = unknown(environment)
    if settings.auth is Auth.ENTRA:
        found.append(
            Fault(where="GATE_AUTH", message="entra is not built yet: only none, on a loopback address")
        )
    elif not _is_loopback(settings.host):
        message = "none is for a loopback address only: set GATE_HOST=127.0.0.1"
        found.append(Fault(where="GATE_AUTH", message=message))
    return [*found, *searching_faults(settings)]


def searching_faults(settings: Settings) -> list[Fault]:
    """What keeps a command that asks the search service from starting."""
    if settings.search_endpoint is None:
        message = "is not set: the search service, https://<service>.search.windows.net"
        return [Fault(where="GATE_SEARCH_ENDPOINT", message=message)]
    return []


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
