"""Documents in a container of Azure Blob Storage (or Azurite): what a service's runs are kept in.

A document written whole is a block blob, one that is appended to is an append blob; the service never turns
one into the other, so a document is either created and replaced, or appended to.

Every request is sent once by the layers below (the SDK's retries are off, and so is aiohttp's own second
sending of a PUT), and repeated here alone. A repeated write may find its own first one: a write carries a
mark in the blob's metadata, and an append is looked for at its position. An append by somebody else of the
same bytes at the same place cannot be told from one's own, if one's own answer was lost.
"""

import asyncio
import base64
import binascii
import io
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.blob import BlobType, ContentSettings
from azure.storage.blob.aio import BlobClient, ContainerClient
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from app.adapters.connections import open_session
from app.adapters.names import checked_name, content_type, is_name
from app.adapters.retries import retry_after
from app.domain.errors import ConflictError, Fault, GateError, InputError, NotFoundError, StorageError

T = TypeVar("T")

# Azurite 3.37 does not know the SDK's newest; this one it has known since 3.35, and appends of 100 MiB with it
API_VERSION: Final = "2025-11-05"

_WHOLE: Final = 5000 * 1024 * 1024  # bytes of one Put Blob
_APPEND: Final = 100 * 1024 * 1024  # bytes of one Append Block
_RANGE: Final = 4 * 1024 * 1024  # bytes asked for at once in reading
_PAGE: Final = 5000  # names asked for at once
_SLOWEST: Final = 512 * 1024  # bytes a second that a large upload may count on
_MARK: Final = "write"
_ROLE: Final = "Storage Blob Data Contributor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a call may take, in seconds; uploads get more, by their size. `attempts`: requests at most."""

    attempt_seconds: float = 10.0
    total_seconds: float = 30.0
    attempts: int = 5
    pause_seconds: float = 0.2  # before the first repetition, growing and jittered
    longest_pause_seconds: float = 5.0  # also where the service asks for more


@asynccontextmanager
async def open_blobs(
    url: str,
    *,
    key: str | None = None,
    credential: AsyncTokenCredential | None = None,
    create_container: bool = True,
    limits: Limits = Limits(),
) -> AsyncIterator["Blobs"]:
    """The documents of a container, as long as the block lasts; nothing is sent before they are asked for.

    `url`: `https://<account>.blob.core.windows.net/<container>`, or with the account in the path, as Azurite
    has it. `key` goes before `credential`, which stays its owner's to close. InputError if they make no sense.
    """
    parts = urlsplit(url)
    account, container = _account_and_container(parts)
    async with open_session() as session:
        client = ContainerClient(
            account_url=f"{parts.scheme}://{parts.netloc}{'/' + account if _account_in_path(parts) else ''}",
            container_name=container,
            credential=_credential(parts, account, key, credential),
            api_version=API_VERSION,
            transport=_Transport(session=session, session_owner=False),
            retry_total=0,
            connection_timeout=limits.attempt_seconds,
            read_timeout=limits.attempt_seconds,
            max_single_put_size=_WHOLE,
            max_single_get_size=_RANGE,
        )
        async with client:
            yield Blobs(client, create_container=create_container, limits=limits)


class Blobs:
    """`DocumentStore` over a container, which is made when it is missing if `create_container` allows."""

    def __init__(self, container: ContainerClient, *, create_container: bool, limits: Limits) -> None:
        self._container = container
        self._may_create_container = create_container
        self._limits = limits
        self._place = f"container {container.container_name} of {container.primary_hostname}"

    async def create(self, name: str, data: bytes) -> str:
        return await self._upload(name, data, overwrite=False)

    async def replace(self, name: str, data: bytes, etag: str) -> str:
        try:
            return await self._upload(
                name, data, overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified
            )
        except NotFoundError:
            raise ConflictError(f"The document {name} was removed by somebody else.") from None

    async def read(self, name: str) -> tuple[bytes, str]:
        return await self._read(name, 0, sys.maxsize)

    async def read_part(self, name: str, start: int, length: int) -> bytes:
        return (await self._read(name, start, length))[0]

    async def _read(self, name: str, start: int, length: int) -> tuple[bytes, str]:
        for _ in range(self._limits.attempts):
            with suppress(ConflictError):  # replaced between two ranges: read the new one
                return await self._ranges(name, start, length)
        raise StorageError(f"The document {name} is written too often to be read.")

    async def _ranges(self, name: str, start: int, length: int) -> tuple[bytes, str]:
        blob, size = self._blob(name), min(length, _RANGE)
        part, etag, kind = await self._range(blob, start, size)
        found = bytearray(part)
        # an append blob only grows: what stands before its end needs no condition
        etag_of_rest = None if kind == BlobType.APPENDBLOB else etag
        while len(part) == size and len(found) < length:
            size = min(length - len(found), _RANGE)
            part, _, _ = await self._range(blob, start + len(found), size, etag_of_rest)
            found += part
        return bytes(found), etag

    async def append(self, name: str, data: bytes, position: int) -> int:
        if len(data) > _APPEND:
            raise StorageError(f"{len(data)} bytes are too many for one append to {name}: {_APPEND} at most.")
        blob = self._blob(name)
        if position == 0:
            with suppress(ConflictError):  # it is there
                await self._call(name, lambda _: _create_append_blob(blob, name))
        if not data:
            return await self._ends_at(blob, position)
        attempts = 0

        async def send(attempt: int) -> None:
            nonlocal attempts
            attempts = attempt
            await blob.append_block(data, length=len(data), appendpos_condition=position)

        try:
            await self._call(name, send, size=len(data))
        except NotFoundError:
            raise ConflictError(f"The document {name} is not there, and its length not {position}.") from None
        except ConflictError:
            if attempts == 1 or not await self._holds(blob, data, position):
                raise
        return position + len(data)

    async def delete(self, name: str) -> None:
        blob = self._blob(name)
        with suppress(NotFoundError):
            await self._call(name, lambda _: blob.delete_blob(delete_snapshots="include"))

    async def names(self, prefix: str) -> AsyncIterator[str]:
        token: str | None = None
        while True:
            page, token = await self._page(prefix, token)
            for name in page:
                if is_name(name):  # others are not of our making
                    yield name
            if not token:
                return

    def _blob(self, name: str) -> BlobClient:
        return self._container.get_blob_client(checked_name(name))

    async def _upload(self, name: str, data: bytes, **condition: Any) -> str:
        blob = self._blob(name)
        mark = uuid.uuid4().hex

        async def send(_: int) -> str:
            answer = await blob.upload_blob(
                data,
                length=len(data),
                metadata={_MARK: mark},
                content_settings=ContentSettings(content_type=content_type(name)),
                **condition,
            )
            return str(answer["etag"])

        try:
            return await self._call(name, send, size=len(data))
        except ConflictError:
            etag = await self._etag_of_write(blob, mark)
            if etag is None:
                raise
            return etag

    async def _etag_of_write(self, blob: BlobClient, mark: str) -> str | None:
        """None where the document's last write was another one."""
        try:
            found = await self._call(blob.blob_name, lambda _: blob.get_blob_properties())
        except NotFoundError:
            return None
        return str(found.etag) if (found.metadata or {}).get(_MARK) == mark else None

    async def _range(
        self, blob: BlobClient, start: int, length: int, etag: str | None = None
    ) -> tuple[bytes, str, Any]:
        """Up to `length` bytes, at most `_RANGE`, the etag and the kind of blob; no bytes from the end on."""
        condition: dict[str, Any] = {}
        if etag is not None:
            condition = {"etag": etag, "match_condition": MatchConditions.IfNotModified}

        async def send(_: int) -> tuple[bytes, str, Any]:
            try:
                download = await blob.download_blob(offset=start, length=length, **condition)
                return await download.readall(), str(download.properties.etag), download.properties.blob_type
            except HttpResponseError as error:
                if error.status_code != 416:  # noqa: PLR2004 - the range begins at the end or behind it
                    raise
            found = await blob.get_blob_properties()
            return b"", str(found.etag), found.blob_type

        return await self._call(blob.blob_name, send)

    async def _ends_at(self, blob: BlobClient, position: int) -> int:
        try:
            size = (await self._call(blob.blob_name, lambda _: blob.get_blob_properties())).size
        except NotFoundError:
            size = None
        if size != position:
            raise ConflictError(f"The length of the document {blob.blob_name} is not {position}.")
        return position

    async def _holds(self, blob: BlobClient, data: bytes, position: int) -> bool:
        """Whether the bytes stand at that position."""
        for start in range(0, len(data), _RANGE):
            part = data[start : start + _RANGE]
            found, _, _ = await self._range(blob, position + start, len(part))
            if found != part:
                return False
        return True

    async def _page(self, prefix: str, token: str | None) -> tuple[list[str], str | None]:
        async def send(_: int) -> tuple[list[str], str | None]:
            pages = self._container.list_blob_names(name_starts_with=prefix, results_per_page=_PAGE).by_page(
                token
            )
            async for page in pages:
                names = [name async for name in page]
                return names, pages.continuation_token  # type: ignore[attr-defined]  # it is a page iterator
            return [], None

        return await self._call(prefix, send)

    async def _call(self, name: str, send: Callable[[int], Awaitable[T]], *, size: int = 0) -> T:
        """`send` is given the number of its attempt, from 1. Raises only GateErrors."""
        try:
            try:
                return await self._repeated(send, size)
            except HttpResponseError as error:
                if _code(error) != "ContainerNotFound" or not self._may_create_container:
                    raise
            await self._create_container()
            return await self._repeated(send, size)
        except TimeoutError as error:
            raise StorageError(f"The {self._place} did not answer in time.") from error
        except AzureError as error:
            raise self._translated(error, name) from error

    async def _create_container(self) -> None:
        async def send(_: int) -> None:
            await self._container.create_container()

        try:
            await self._repeated(send, 0)
        except HttpResponseError as error:
            if _code(error) != "ContainerAlreadyExists":
                raise

    async def _repeated(self, send: Callable[[int], Awaitable[T]], size: int) -> T:
        """The retry table: lost or late answers, 408, 429, 5xx; nothing else passes by itself."""
        limits, upload_seconds = self._limits, size / _SLOWEST
        async with asyncio.timeout(limits.total_seconds + 3 * upload_seconds):
            async for attempt in AsyncRetrying(
                retry=retry_if_exception(_passes),
                stop=stop_after_attempt(limits.attempts),
                wait=self._pause,
                reraise=True,
            ):
                with attempt:
                    async with asyncio.timeout(limits.attempt_seconds + upload_seconds):
                        return await send(attempt.retry_state.attempt_number)
        raise AssertionError("a last attempt answers or raises")  # pragma: no cover

    def _pause(self, state: RetryCallState) -> float:
        """Random up to a bound that doubles, but as long as the service asks for."""
        limits = self._limits
        jittered = wait_random_exponential(multiplier=limits.pause_seconds, max=limits.longest_pause_seconds)(
            state
        )
        error = state.outcome.exception() if state.outcome else None
        headers = getattr(error.response, "headers", {}) if isinstance(error, HttpResponseError) else {}
        return max(jittered, min(retry_after(headers), limits.longest_pause_seconds))

    def _translated(self, error: AzureError, name: str) -> GateError:
        """The service's own text stays out: it quotes what was signed."""
        if isinstance(error, HttpResponseError) and error.status_code:
            return self._refusal(error.status_code, _code(error), name)
        if isinstance(error, ClientAuthenticationError):
            return StorageError(f"Nobody is signed in who could use the {self._place}: {_first_line(error)}")
        if isinstance(error, ServiceRequestError | ServiceResponseError):
            return StorageError(f"The {self._place} does not answer: {_first_line(error)}")
        return StorageError(f"The {self._place} cannot be used: {type(error).__name__}.")

    def _refusal(self, status: int, code: str, name: str) -> GateError:
        answer = f"{status} {code}".strip()
        match status, code:
            case 404, "BlobNotFound":
                return NotFoundError(f"There is no document {name}.")
            case 409, "BlobAlreadyExists":
                return ConflictError(f"The document {name} exists already.")
            case 412, "ConditionNotMet" | "AppendPositionConditionNotMet" | "":
                return ConflictError(f"The document {name} was changed by somebody else.")
            case 404, "ContainerNotFound":
                return StorageError(
                    f"There is no {self._place}: create it, or give the identity the role {_ROLE}."
                )
            case 409, "InvalidBlobType":
                return StorageError(
                    f"The document {name} is appended to or written whole, never both ({answer})."
                )
            case 401 | 403, _:
                return StorageError(
                    f"The {self._place} refuses ({answer}): the identity needs the role {_ROLE}; with a key, "
                    "GATE_RUNS_KEY must be this account's; the account's firewall must let this machine in."
                )
            case _:
                return StorageError(f"The {self._place} answered {answer} for {name!r}.")


class _Transport(AioHttpTransport):  # type: ignore[misc]  # azure-core loads it late, untyped
    """Hands bodies over as files, which aiohttp sends piece by piece; bytes it would send in one go, and warn."""

    def _get_request_data(self, request: Any) -> Any:
        data = super()._get_request_data(request)
        return io.BytesIO(data) if isinstance(data, bytes) and data else data


async def _create_append_blob(blob: BlobClient, name: str) -> None:
    settings = ContentSettings(content_type=content_type(name))
    await blob.create_append_blob(content_settings=settings, match_condition=MatchConditions.IfMissing)


def _passes(error: BaseException) -> bool:
    if isinstance(error, HttpResponseError) and error.status_code:
        return error.status_code in {408, 429, 500, 502, 503, 504}
    return isinstance(error, TimeoutError | ServiceRequestError | ServiceResponseError | IncompleteReadError)


def _code(error: HttpResponseError) -> str:
    """The service's error code, empty if it gave none."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _first_line(error: AzureError) -> str:
    return next(iter(str(error.message).splitlines()), type(error).__name__)


def _account_in_path(parts: SplitResult) -> bool:
    return parts.path.strip("/").count("/") == 1


def _account_and_container(parts: SplitResult) -> tuple[str, str]:
    names = parts.path.strip("/").split("/")
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not host or not all(names) or len(names) > 2 or parts.query:  # noqa: PLR2004
        message = "a container is written https://<account>.blob.core.windows.net/<container>"
        raise InputError([Fault(where="GATE_RUNS_URL", message=message)])
    return (names[0] if _account_in_path(parts) else host.split(".")[0]), names[-1]


def _credential(
    parts: SplitResult, account: str, key: str | None, credential: AsyncTokenCredential | None
) -> AzureNamedKeyCredential | AsyncTokenCredential:
    if key is not None:
        try:
            base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            raise InputError(
                [Fault(where="GATE_RUNS_KEY", message="is not an account key (base64)")]
            ) from None
        return AzureNamedKeyCredential(account, key)
    if credential is None or parts.scheme == "http":
        message = (
            "is needed, since an identity's token is never sent without TLS" if credential else "is needed"
        )
        raise InputError([Fault(where="GATE_RUNS_KEY", message=message)])
    return credential
