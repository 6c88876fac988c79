"""The environment, read once: names and meanings are the contract's "Settings". Nothing else reads it."""

import base64
import ipaddress
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.domain.errors import Fault, InputError
from app.domain.index import is_index_name

PREFIX = "GATE_"
_NAMED = {  # by others, who set them too
    "client_id": "AZURE_CLIENT_ID",
    "insights": "APPLICATIONINSIGHTS_CONNECTION_STRING",
}
_SHORTEST_KEY = 32
_SHORTEST_SECRET = 8  # what is shorter stands in too many words to be hidden in them
_MOST_KEYS = 2
_IN_CLEAR = "is http, and a token would travel in clear: use https"
_SENDABLE = re.compile(r"[\x21-\x7e]+")
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https address")
    if parts.port == 0:  # raises ValueError itself for what is no port number
        raise ValueError("must name a port that can be connected to")
    if parts.username or parts.password:
        raise ValueError("must not carry a user name or password")
    return parts.geturl().rstrip("/")  # the scheme in small letters, as it is looked at from here on


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
    if not _SENDABLE.fullmatch(value.get_secret_value()):
        raise ValueError("must be ASCII characters without spaces or line ends: was it copied whole?")
    return value


def _tenant(value: str) -> str:
    if not _GUID.fullmatch(value):
        raise ValueError("must be the id of one tenant, a GUID: neither its name nor common or organizations")
    return value.lower()


def _audience(value: str) -> str:
    names = [name.strip() for name in value.split(",")]
    if not all(map(_SENDABLE.fullmatch, names)) or not _GUID.fullmatch(names[0].removeprefix("api://")):
        raise ValueError("must be the client id of the app registration, a GUID; further ones after commas")
    return ",".join(names)


def _safe_address(value: str) -> str:
    address = _address(value)
    parts = urlsplit(address)
    if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
        raise ValueError("must be https")
    return address


def _store(value: str) -> str:
    address = _address(value)
    if address.startswith("http://"):
        raise ValueError(
            f"is http, and an identity's token would travel in clear: use https, or {PREFIX}APPCONFIG_CONNECTION_STRING"
        )
    return address


def _connection_string(value: SecretStr) -> SecretStr:
    parts = dict(
        part.strip().partition("=")[::2] for part in value.get_secret_value().split(";") if part.strip()
    )
    if parts.keys() != {"Endpoint", "Id", "Secret"} or not _SENDABLE.fullmatch(parts["Id"]):
        raise ValueError("must be Endpoint=https://<store>.azconfig.io;Id=…;Secret=…: was it copied whole?")
    try:
        _address(parts["Endpoint"])
    except ValueError as error:
        raise ValueError(f"its Endpoint {error}") from None
    try:
        if base64.b64decode(parts["Secret"], validate=True):
            return value
    except ValueError:
        pass
    raise ValueError("its Secret must be base64: was it copied whole?")


def _insights(value: SecretStr) -> SecretStr:
    parts = dict(
        part.strip().partition("=")[::2] for part in value.get_secret_value().split(";") if part.strip()
    )
    if not _GUID.fullmatch(parts.get("InstrumentationKey", "")):
        raise ValueError(
            "must be InstrumentationKey=<GUID>;IngestionEndpoint=https://…: was it copied whole?"
        )
    if "IngestionEndpoint" in parts:
        try:
            _safe_address(parts["IngestionEndpoint"])
        except ValueError as error:
            raise ValueError(f"its IngestionEndpoint {error}") from None
    return value


def _exact(value: str) -> str:
    if not value.isprintable() or any(mark in value for mark in "*,\\"):
        raise ValueError(
            "must name exactly one: '*', ',' and '\\' belong to filters, and what does not show itself to nothing"
        )
    return value


def _key(value: str) -> str:
    if value in {".", "..", "%"}:
        raise ValueError("is no key that a store can have")
    return _exact(value)


def _alias(value: str) -> str:
    if not is_index_name(value):
        raise ValueError("must be an alias's name: 2 to 128 of a-z, 0-9, '-' and '_'")
    return value


def _origin(value: str) -> str:
    address = _safe_address(value)
    if urlsplit(address)[2:] != ("", "", ""):
        raise ValueError("must be https://<host>, without a path")
    return address


def _organization(value: str) -> str:
    address = _safe_address(value)
    if not _SENDABLE.fullmatch(address) or any(mark in address for mark in "?#\\"):
        raise ValueError("must be an organisation's address, https://dev.azure.com/<organisation>")
    return address


def _long(value: SecretStr) -> SecretStr:
    if len(value.get_secret_value()) < _SHORTEST_KEY:
        raise ValueError("must have at least 32 characters, and be random")
    return _sendable(value)


def _session_keys(value: SecretStr) -> SecretStr:
    keys = value.get_secret_value().split(",")
    if len(keys) > _MOST_KEYS or any(
        len(key) < _SHORTEST_KEY or not _SENDABLE.fullmatch(key) for key in keys
    ):
        raise ValueError(
            "must be one key of at least 32 characters, or two with a comma, the newer one first"
        )
    return value


def _listed(value: object) -> object:
    """Names between commas; blanks around them, and empty ones, are dropped."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))


Address = Annotated[str, AfterValidator(_address)]
SafeAddress = Annotated[str, AfterValidator(_safe_address)]
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
    appconfig_endpoint: Annotated[str, AfterValidator(_store)] | None = None
    appconfig_connection_string: Annotated[SecretStr, AfterValidator(_connection_string)] | None = None
    live_key: Annotated[str, AfterValidator(_key)] | None = None
    live_label: Annotated[str, AfterValidator(_exact)] | None = None
    live_alias: Annotated[str, AfterValidator(_alias)] | None = None
    auth: Auth = Auth.NONE
    entra_tenant_id: Annotated[str, AfterValidator(_tenant)] | None = None
    entra_audience: Annotated[str, AfterValidator(_audience)] | None = None
    entra_client_secret: Secret | None = None
    entra_authority: SafeAddress = "https://login.microsoftonline.com"
    public_url: Annotated[str, AfterValidator(_origin)] | None = None
    session_keys: Annotated[SecretStr, AfterValidator(_session_keys)] | None = None
    check_secret: Annotated[SecretStr, AfterValidator(_long)] | None = None
    check_organizations: Annotated[
        tuple[Annotated[str, AfterValidator(_organization)], ...], NoDecode, BeforeValidator(_listed)
    ] = ()
    service_url: Address | None = None
    service_scope: str | None = None
    service_token: Secret | None = None
    golden_dir: str = "golden"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    log_level: Annotated[str, Field(pattern="^(?i:debug|info|warning|error)$")] = "info"
    client_id: Annotated[str | None, Field(validation_alias=_NAMED["client_id"])] = None
    insights: Annotated[
        Annotated[SecretStr, AfterValidator(_insights)] | None, Field(validation_alias=_NAMED["insights"])
    ] = None
    max_concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    capacity_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    query_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30
    run_timeout_seconds: Annotated[float, Field(gt=0, le=86_400)] = 3600
    takeover_seconds: Annotated[float, Field(ge=0.5, le=600)] = 15
    settle_seconds: Annotated[float, Field(ge=0, le=600)] = 2
    inventory_limit: Annotated[int, Field(ge=0)] = 100_000
    starts_per_hour: Annotated[int, Field(ge=1)] = 60
    semantic_allowance: Annotated[int, Field(ge=0)] | None = None
    leg_probes: bool = True
    required_sets: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)] = ()
    promote_sent_sets: bool = False
    four_eyes: bool = True
    flip_settle_seconds: Annotated[float, Field(gt=0, le=3600)] = 60
    watch_pause_seconds: Annotated[float, Field(ge=0, le=600)] = 5
    propagation_seconds: Annotated[float, Field(ge=0, le=3600)] | None = None
    retire_after_hours: Annotated[float, Field(ge=0, le=100_000)] = 168

    @property
    def entra_issuer(self) -> str:
        """What signs tokens of the tenant, to the letter."""
        return f"{self.entra_authority}/{self.entra_tenant_id}/v2.0"

    @property
    def entra_client_id(self) -> str:
        """The app registration's client id, the first audience."""
        return (self.entra_audience or "").partition(",")[0].removeprefix("api://")

    @property
    def tls(self) -> bool:
        """Whether browsers reach the service by https."""
        return (self.public_url or "").startswith("https://")

    @property
    def entra_audiences(self) -> tuple[str, ...]:
        """Whom tokens are for, as version 2 tokens and as application id URIs name it."""
        named = (self.entra_audience or "").split(",")
        guids = [bare for name in named if _GUID.fullmatch(bare := name.removeprefix("api://"))]
        return tuple(dict.fromkeys([*guids, *(f"api://{guid}" for guid in guids), *named]))

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

    @model_validator(mode="after")
    def _tokens_over_http(self) -> Self:
        if self.service_url is not None and self._shows_token(self.service_url):
            raise ValueError(f"GATE_SERVICE_URL: {_IN_CLEAR}")
        return self

    def service(self, typed: str | None) -> str | None:
        """The address of the gate's service: as it was typed (`--service`), else as it is set; None: there is
        none. InputError for one that cannot be used.
        """
        if not typed:
            return self.service_url
        try:
            url = _address(typed)
            if self._shows_token(url):
                raise ValueError(_IN_CLEAR)  # noqa: TRY301 — both are faults of what was typed
        except ValueError as error:
            raise InputError([Fault(where="--service", message=str(error))]) from None
        return url

    def _shows_token(self, url: str) -> bool:
        """Whether everybody on the way to the service could read the token that it is sent."""
        signs_in = self.service_token is not None or self.service_scope is not None
        return url.startswith("http://") and signs_in and not _is_loopback(urlsplit(url).hostname or "")


def read_settings(further: Callable[[Settings], Iterable[Fault]] = lambda _: ()) -> Settings:
    """The settings; InputError names every missing or malformed variable at once, never a value.

    `further`: what else may be wrong with them; of variables that cannot be read it is asked as if they were not set.
    """
    faults: dict[str, list[Fault]] = {}
    unset: dict[str, Any] = {}
    while True:
        try:
            settings = Settings(**unset)
        except ValidationError as error:
            for details in error.errors():
                fault = _fault(details["loc"], details["msg"])
                faults.setdefault(fault.where, []).append(fault)
                unset |= _default(fault.where)
        else:
            break
    given = {name.upper() for name, value in os.environ.items() if value}
    for fault in (*_live_faults(given), *_check_faults(given)):
        faults.setdefault(fault.where, []).append(fault)
    wrong = [fault for found in faults.values() for fault in found]
    wrong += [fault for fault in further(settings) if fault.where not in faults]
    if wrong:
        raise InputError(wrong)
    return settings


def _default(variable: str) -> dict[str, Any]:
    """The default of that variable's setting, by the name that it is given under."""
    (field,) = (name for name in Settings.model_fields if _variable(name) == variable)
    return {_NAMED.get(field, field): Settings.model_fields[field].default}


_STORES = ("GATE_APPCONFIG_ENDPOINT", "GATE_APPCONFIG_CONNECTION_STRING")


def _live_faults(given: Collection[str]) -> list[Fault]:
    """What does not go together in the variables that say where the live index's name is kept."""
    stores = [name for name in _STORES if name in given]
    of_setting = [*stores, *(name for name in ("GATE_LIVE_KEY", "GATE_LIVE_LABEL") if name in given)]
    if "GATE_LIVE_ALIAS" in given and of_setting:
        message = f"is set, and {', '.join(of_setting)} too: the live index's name is kept in one place"
        return [Fault(where="GATE_LIVE_ALIAS", message=message)]
    found = []
    if len(stores) > 1:
        found.append(Fault(where=stores[1], message=f"is set, and {stores[0]} too: one of them is enough"))
    if of_setting and not stores:
        message = f"is not set, nor {_STORES[1]}: the store that has {' and '.join(of_setting)}"
        found.append(Fault(where=_STORES[0], message=message))
    if of_setting and "GATE_LIVE_KEY" not in given:
        message = f"is not set: the key that names the live index, for {', '.join(of_setting)}"
        found.append(Fault(where="GATE_LIVE_KEY", message=message))
    return found


def _check_faults(given: Collection[str]) -> list[Fault]:
    """What the variables of checks lack."""
    if {"GATE_CHECK_SECRET", "GATE_CHECK_ORGANIZATIONS"}.isdisjoint(given):
        return []
    needed = {
        "GATE_CHECK_SECRET": "what a check of Azure DevOps proves with that it may ask: at least 32 random characters",
        "GATE_CHECK_ORGANIZATIONS": "the organisations whose checks are answered, https://dev.azure.com/<organisation>",
    }
    found = [
        Fault(where=name, message=f"is not set: {meaning}")
        for name, meaning in needed.items()
        if name not in given
    ]
    if {"GATE_LIVE_KEY", "GATE_LIVE_ALIAS"}.isdisjoint(given):
        message = "is not set, nor GATE_LIVE_ALIAS: a check asks whether a run may be promoted"
        found.append(Fault(where="GATE_LIVE_KEY", message=message))
    return found


def _fault(path: tuple[int | str, ...], message: str) -> Fault:
    text = message.removeprefix("Value error, ")
    if path:
        return Fault(where=_variable(str(path[0])), message=text[:1].lower() + text[1:])
    name, _, rest = text.partition(": ")
    return Fault(where=name, message=rest)


def _variable(field: str) -> str:
    return field if field in _NAMED.values() else _NAMED.get(field, f"{PREFIX}{field.upper()}")


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


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """What must not be shown: every secret, also without the rest of its connection string or list of keys."""
    given = [value.get_secret_value() for _, value in settings if isinstance(value, SecretStr)]
    parts = (part.strip().partition("=") for value in given for part in value.split(";"))
    named = [secret for name, _, secret in parts if name in ("Secret", "InstrumentationKey") and secret]
    listed = [key for value in given for key in value.split(",") if len(key) >= _SHORTEST_KEY]
    return tuple(each for each in dict.fromkeys([*given, *named, *listed]) if len(each) >= _SHORTEST_SECRET)


def serving_faults(settings: Settings, environment: Mapping[str, str]) -> list[Fault]:
    """What keeps `gate serve` from starting with these settings."""
    found = unknown(environment)
    if settings.auth is Auth.ENTRA:
        found.extend(_sign_in_faults(settings))
    elif not _is_loopback(settings.host):
        message = "none is for a loopback address only: set GATE_HOST=127.0.0.1, or GATE_AUTH=entra"
        found.append(Fault(where="GATE_AUTH", message=message))
    return [*found, *searching_faults(settings)]


def _sign_in_faults(settings: Settings) -> list[Fault]:
    needed = {
        "entra_tenant_id": "the id of the tenant whose people and applications sign in",
        "entra_audience": "the client id of the gate's app registration",
        "public_url": "the address that people reach the service by, https://<host>",
        "session_keys": "what signs the cookies of people who sign in: at least 32 random characters",
        "runs_url": "where runs are kept for all who sign in, https://<account>.blob.core.windows.net/<container>",
    }
    found = [
        Fault(where=_variable(name), message=f"is not set: {meaning}")
        for name, meaning in needed.items()
        if getattr(settings, name) is None
    ]
    if (settings.runs_url or "").startswith("file:"):
        message = "is a folder, which does not outlive a container: with GATE_AUTH=entra it must be a blob container"
        found.append(Fault(where="GATE_RUNS_URL", message=message))
    return found


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
