"""The live index's name in a setting of Azure App Configuration, over its official client."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from azure.appconfiguration import ConfigurationSetting
from azure.appconfiguration.aio import AzureAppConfigurationClient
from azure.core import MatchConditions
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.core.pipeline.transport import AioHttpTransport

from app.adapters.connections import open_session
from app.adapters.live_answers import AnswerError, Answers
from app.adapters.retries import FailedAttemptError, Retries
from app.adapters.scrubbing import scrubbed
from app.adapters.swap import Found, Swap
from app.domain.errors import FailureCode, LiveError, LiveLockedError
from app.domain.index import is_index_name
from app.domain.labels import quoted
from app.gate.ports import LivePointer, LiveValue

PROPAGATION_SECONDS = (
    30.0  # the provider's shortest interval between two looks, unless an application sets another
)
ATTEMPT_SECONDS = 10.0

_USER_AGENT = "search-index-gate"
_ROLE = "App Configuration Data Owner"
_NO_LABEL = "no label"
_LABELS_SHOWN = 10
_REFERENCES = {
    "application/vnd.microsoft.appconfig.keyvaultref+json": "a reference to Key Vault",
    "application/vnd.microsoft.appconfig.ff+json": "a feature flag",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionString:
    """One of a store's access keys: `Endpoint=…;Id=…;Secret=…`."""

    endpoint: str
    credential: str
    secret: str

    @classmethod
    def parse(cls, text: str) -> "ConnectionString":
        """Of a text that the settings found to be one."""
        parts = dict(part.strip().split("=", 1) for part in text.split(";") if part.strip())
        return cls(endpoint=parts["Endpoint"].rstrip("/"), credential=parts["Id"], secret=parts["Secret"])


@asynccontextmanager
async def open_live_setting(
    *,
    key: str,
    label: str | None,
    endpoint: str | None = None,
    credential: AsyncTokenCredential | None = None,
    connection_string: str | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
    attempt_seconds: float = ATTEMPT_SECONDS,
) -> AsyncIterator[LivePointer]:
    """The setting, as long as the block lasts: by `connection_string`, else at `endpoint` with `credential`, which
    stays its owner's to close. `label` None is no label. Nothing is sent before it is asked for.
    """
    async with open_session() as session:
        options: dict[str, Any] = {
            "transport": AioHttpTransport(
                session=session,
                session_owner=False,
                connection_timeout=attempt_seconds,
                read_timeout=attempt_seconds,
            ),
            "retry_policy": AsyncRetryPolicy.no_retries(),
            "permit_redirects": False,
            "user_agent": _USER_AGENT,
        }
        secrets: tuple[str, ...] = ()
        if connection_string is not None:
            given = ConnectionString.parse(connection_string)
            endpoint = given.endpoint
            secrets = (connection_string, given.secret)
            client = AzureAppConfigurationClient.from_connection_string(
                f"Endpoint={given.endpoint};Id={given.credential};Secret={given.secret}", **options
            )
        elif endpoint is not None and credential is not None:
            client = AzureAppConfigurationClient(endpoint, credential, **options)
        else:
            raise TypeError("a connection string, or an endpoint and a credential")
        async with client:
            setting = _Setting(client, key=key, label=label, host=urlsplit(endpoint).netloc, secrets=secrets)
            yield LiveSetting(setting, Retries(attempt_seconds=attempt_seconds, sleep=sleep, jitter=jitter))


class LiveSetting:
    """`LivePointer` over a setting."""

    alias = None
    propagation_seconds = PROPAGATION_SECONDS

    def __init__(self, setting: "_Setting", retries: Retries) -> None:
        self._setting = setting
        self._swap = Swap(setting, retries)

    @property
    def where(self) -> str:
        return self._setting.where

    async def read(self, deadline: float) -> LiveValue | None:
        """See `LivePointer.read`. LiveError where the key has other labels only: that is no missing key."""
        value = await self._swap.read(deadline)
        if value is None:
            labels = await self._swap.ask(self._setting.labels, deadline)
            if labels:
                raise LiveError(
                    f"The {self.where} is not there, but the key has {_listed(labels)}: check GATE_LIVE_LABEL, "
                    "or make the setting with this label in the store."
                )
        return value

    async def point(self, index: str, *, etag: str, deadline: float) -> LiveValue:
        return await self._swap.point(index, etag=etag, deadline=deadline)

    async def create(self, index: str, *, deadline: float) -> LiveValue:
        return await self._swap.create(index, deadline=deadline)


class _Setting:
    """Single requests to the setting: `swap.Place`, whose record is the whole setting."""

    def __init__(
        self,
        client: AzureAppConfigurationClient,
        *,
        key: str,
        label: str | None,
        host: str,
        secrets: tuple[str, ...],
    ) -> None:
        self._client = client
        self._key = key
        self._label = label
        self._secrets = secrets
        self.where = f"key {key}, {_told(label)}, of {host}"
        permission = (
            "The secret of GATE_APPCONFIG_CONNECTION_STRING must be one of this store's, with leave to write."
            if secrets
            else f"The identity needs the role {_ROLE} on this store (it takes effect after up to 15 minutes)."
        )
        self._answers = Answers(
            where=self.where,
            permission=f"{permission} The store's network settings must let this machine in.",
            secrets=secrets,
        )

    async def fetch(self) -> Found[ConfigurationSetting] | None:
        try:
            return await self._answers.of(
                self._client.get_configuration_setting(self._key, self._label), self._found
            )
        except AnswerError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def send(self, index: str, before: Found[ConfigurationSetting] | None) -> LiveValue:
        if before is None:
            wanted = ConfigurationSetting(key=self._key, label=self._label, value=index)
            sending = self._client.add_configuration_setting(wanted)  # If-None-Match: *
        else:
            sending = self._client.set_configuration_setting(
                self._pointed(before.record, index),
                match_condition=MatchConditions.IfNotModified,  # without it the etag is not sent
                etag=before.value.etag,
            )
        try:
            return await self._answers.of_write(sending, self._value)
        except AnswerError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        raise LiveLockedError(f"The {self.where} is locked: unlock it first.")

    async def labels(self) -> list[str]:
        """The labels that the key has, for people."""

        async def listed() -> list[ConfigurationSetting]:
            return [each async for each in self._client.list_configuration_settings(key_filter=self._key)]

        return await self._answers.of(listed(), lambda found: sorted({_told(each.label) for each in found}))

    def _found(self, setting: ConfigurationSetting | None) -> Found[ConfigurationSetting]:
        if setting is None:  # the client's answer to 304, which was not asked for
            raise FailedAttemptError(FailureCode.PROTOCOL, "it answered that nothing changed")
        return Found(value=self._value(setting), record=setting)

    def _pointed(self, found: ConfigurationSetting, index: str) -> ConfigurationSetting:
        return ConfigurationSetting(
            key=found.key,
            label=found.label,
            value=json.dumps(index) if _is_json(found) else index,
            content_type=found.content_type,
            description=found.description,
            tags=found.tags,
            read_only=found.read_only,
            etag=found.etag,
        )

    def _value(self, setting: ConfigurationSetting) -> LiveValue:
        if (setting.key, setting.label or None) != (self._key, self._label):
            raise FailedAttemptError(FailureCode.PROTOCOL, "it answered with another setting")
        if not setting.etag:  # the client sends no condition for an empty one
            raise LiveError(f"The {self.where} was answered without an etag: it cannot be changed safely.")
        return LiveValue(
            index=self._index(setting),
            etag=setting.etag,
            locked=bool(setting.read_only),
            modified_at=setting.last_modified,
        )

    def _index(self, setting: ConfigurationSetting) -> str:
        kind = _media_type(setting)
        if kind in _REFERENCES:
            raise LiveError(
                f"The {self.where} is {_REFERENCES[kind]}, and must be the name of an index itself."
            )
        value: object = setting.value
        if _is_json(setting):
            try:
                value = json.loads(setting.value)
            except (ValueError, TypeError, RecursionError):
                value = None
            if not isinstance(value, str):
                raise LiveError(
                    f"The {self.where} says that it is JSON, and is no JSON string: {self._shown(setting.value)}."
                )
        if not isinstance(value, str) or not is_index_name(value):
            raise LiveError(f"The {self.where} holds {self._shown(value)}, which is no name of an index.")
        return value

    def _shown(self, value: object) -> str:
        return quoted(scrubbed(str(value or ""), self._secrets))


def _told(label: str | None) -> str:
    return f"label {label}" if label else _NO_LABEL


def _listed(labels: list[str]) -> str:
    more = len(labels) - _LABELS_SHOWN
    shown = ", ".join(quoted(label)[1:-1] for label in labels[:_LABELS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def _media_type(setting: ConfigurationSetting) -> str:
    return (setting.content_type or "").partition(";")[0].strip().lower()


def _is_json(setting: ConfigurationSetting) -> bool:
    kind = _media_type(setting)
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
