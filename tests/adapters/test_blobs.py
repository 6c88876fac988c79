"""Blob storage when it answers late, twice, wrongly or not at all. What it promises otherwise: tests/contract."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
from azure.core.credentials import AccessToken
from azure.identity import CredentialUnavailableError
from azure.storage.blob.aio import ContainerClient

from app.adapters.blobs import API_VERSION, Blobs, Limits, open_blobs
from app.domain.errors import ConflictError, InputError, NotFoundError, StorageError
from tests.azurite import KEY

FAST = Limits(attempt_seconds=5, total_seconds=20, attempts=4, pause_seconds=0.01, longest_pause_seconds=0.5)
LARGE = bytes(range(256)) * 36_000  # 9.2 MB: three ranges


async def nothing() -> None:
    pass


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to the next request of a kind, once.

    `status`: answered with it instead of the service's answer; 0: the connection breaks; None: the service's
    own answer. `reaches`: whether the service sees the request. `meanwhile` runs before the request where it
    is passed on unharmed, and after it otherwise.
    """

    kind: str
    status: int | None = None
    headers: str = ""
    reaches: bool = True
    seconds: float = 0.0
    meanwhile: Callable[[], Awaitable[Any]] = nothing


@dataclass(slots=True)
class Proxy:
    """Stands between client and service, keeps the client's connections open, and does `faults`."""

    upstream: str
    port: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer_one(reader, writer):
                    pass
        finally:
            writer.transport.abort()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        headers = _headers(head)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        kind = _kind(head, headers)
        self.seen[kind] += 1
        fault = next((fault for fault in self.faults if fault.kind == kind), None)
        if fault is None:
            writer.write(await self._forwarded(head, body))
            return True
        self.faults.remove(fault)
        harmless = fault.status is None and not fault.seconds
        if harmless:
            await fault.meanwhile()
        answer = await self._forwarded(head, body) if fault.reaches else b""
        if not harmless:
            await fault.meanwhile()
        await asyncio.sleep(fault.seconds)
        if fault.status == 0:
            return False
        if fault.status:
            line = f"HTTP/1.1 {fault.status} Fault\r\n{fault.headers}Content-Length: 0\r\n\r\n"
            answer = line.encode()
        writer.write(answer)
        return True

    async def _forwarded(self, head: bytes, body: bytes) -> bytes:
        host = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(host.hostname, host.port)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        writer.write(b"\r\n".join([lines[0], b"Connection: close", *lines[1:]]) + body)
        try:
            answer = await reader.read()
        finally:
            writer.transport.abort()
        return answer.replace(b"Connection: close\r\n", b"", 1)


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }


def _kind(head: bytes, headers: dict[str, str]) -> str:
    """put, begin (an append blob), append, container, list, or the method in small letters."""
    method, target = head.decode("latin-1").split(" ")[:2]
    if "comp=appendblock" in target:
        return "append"
    if "restype=container" in target:
        return "list" if "comp=list" in target else "container"
    if method == "PUT":
        return "begin" if headers.get("x-ms-blob-type") == "AppendBlob" else "put"
    return method.lower()


@pytest.fixture
async def proxy(azurite_url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(azurite_url)
    connections: set[asyncio.Task[None]] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.serve(reader, writer))
        connections.add(task)
        await asyncio.wait([task])

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, limit=1 << 20)
    proxy.port = server.sockets[0].getsockname()[1]
    yield proxy
    server.close()
    for task in connections:
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
    await asyncio.sleep(0)


@pytest.fixture
async def direct(container_url: str) -> AsyncIterator[Blobs]:
    """Another client, whose connection is sound."""
    async with open_blobs(container_url, key=KEY) as blobs:
        yield blobs


Opened = Callable[[Limits], AbstractAsyncContextManager[Blobs]]


@pytest.fixture
def opened(proxy: Proxy, container_url: str) -> Opened:
    """Opens the same container through the proxy. Its connection is used before, so that it is a kept one."""

    @asynccontextmanager
    async def through_proxy(limits: Limits) -> AsyncIterator[Blobs]:
        url = f"http://127.0.0.1:{proxy.port}{urlsplit(container_url).path}"
        async with open_blobs(url, key=KEY, limits=limits) as blobs:
            await blobs.delete("nothing")
            proxy.seen.clear()
            yield blobs

    return through_proxy


@pytest.fixture
async def blobs(opened: Opened) -> AsyncIterator[Blobs]:
    async with opened(FAST) as blobs:
        yield blobs


async def names(blobs: Blobs) -> list[str]:
    return [name async for name in blobs.names("")]


LOST = [
    pytest.param(Fault(kind="", status=0), id="connection broken after the write"),
    pytest.param(Fault(kind="", status=0, reaches=False), id="connection broken before the write"),
    *(
        pytest.param(Fault(kind="", status=n), id=f"{n} after the write")
        for n in (408, 429, 500, 502, 503, 504)
    ),
    *(pytest.param(Fault(kind="", status=n, reaches=False), id=f"{n} before it") for n in (429, 500, 503)),
]


def of(kind: str, fault: Fault) -> Fault:
    return Fault(kind=kind, status=fault.status, reaches=fault.reaches)


@pytest.mark.parametrize("fault", LOST)
async def test_a_creation_whose_answer_was_lost_is_recognised(
    proxy: Proxy, blobs: Blobs, direct: Blobs, fault: Fault
) -> None:
    proxy.faults.append(of("put", fault))
    etag = await blobs.create("runs/1/run.json", b"{}")
    assert await direct.read("runs/1/run.json") == (b"{}", etag)
    assert (await names(direct), proxy.seen["put"]) == (["runs/1/run.json"], 2)


@pytest.mark.parametrize("fault", LOST)
async def test_a_replacement_whose_answer_was_lost_is_recognised(
    proxy: Proxy, blobs: Blobs, direct: Blobs, fault: Fault
) -> None:
    before = await blobs.create("a", b"before")
    proxy.faults.append(of("put", fault))
    etag = await blobs.replace("a", b"after", before)
    assert await direct.read("a") == (b"after", etag)
    assert proxy.seen["put"] == 3


@pytest.mark.parametrize("position", [0, 3])
@pytest.mark.parametrize("fault", LOST)
async def test_an_append_whose_answer_was_lost_is_made_once(
    proxy: Proxy, blobs: Blobs, direct: Blobs, fault: Fault, position: int
) -> None:
    await direct.append("journal", b"abc"[:position], 0)
    proxy.faults.append(of("append", fault))
    assert await blobs.append("journal", b"line\n", position) == position + 5
    assert (await direct.read("journal"))[0] == b"abc"[:position] + b"line\n"
    assert await blobs.append("journal", b"next\n", position + 5) == position + 10


@pytest.mark.parametrize("fault", LOST)
async def test_the_beginning_of_a_journal_may_be_lost_too(
    proxy: Proxy, blobs: Blobs, direct: Blobs, fault: Fault
) -> None:
    proxy.faults += [of("begin", fault), of("append", fault)]
    assert await blobs.append("journal", b"line\n", 0) == 5
    assert (await direct.read("journal"))[0] == b"line\n"


async def test_a_large_append_is_recognised_by_all_its_bytes(
    proxy: Proxy, blobs: Blobs, direct: Blobs
) -> None:
    proxy.faults.append(Fault(kind="append", status=0))
    assert await blobs.append("journal", LARGE, 0) == len(LARGE)
    assert (await direct.read("journal"))[0] == LARGE
    other = LARGE[:-1] + b"?"
    proxy.faults.append(
        Fault(
            kind="append",
            status=0,
            reaches=False,
            meanwhile=lambda: direct.append("journal", other, len(LARGE)),
        )
    )
    with pytest.raises(ConflictError):
        await blobs.append("journal", LARGE, len(LARGE))


async def test_an_append_is_recognised_below_those_that_followed(
    proxy: Proxy, blobs: Blobs, direct: Blobs
) -> None:
    proxy.faults.append(
        Fault(kind="append", status=0, meanwhile=lambda: direct.append("journal", b"theirs", 4))
    )
    assert await blobs.append("journal", b"ours", 0) == 4
    assert (await direct.read("journal"))[0] == b"ourstheirs"


async def test_an_append_that_never_arrived_yields_to_another_writer(
    proxy: Proxy, blobs: Blobs, direct: Blobs
) -> None:
    proxy.faults.append(
        Fault(kind="append", status=0, reaches=False, meanwhile=lambda: direct.append("journal", b"them", 0))
    )
    with pytest.raises(ConflictError):
        await blobs.append("journal", b"ours", 0)
    assert (await direct.read("journal"))[0] == b"them"


async def test_the_same_document_by_somebody_else_is_not_taken_for_ones_own(
    proxy: Proxy, blobs: Blobs, direct: Blobs
) -> None:
    proxy.faults.append(
        Fault(kind="put", status=0, reaches=False, meanwhile=lambda: direct.create("a", b"same"))
    )
    with pytest.raises(ConflictError):
        await blobs.create("a", b"same")
    _, etag = await direct.read("a")
    proxy.faults.append(
        Fault(kind="put", status=0, reaches=False, meanwhile=lambda: direct.replace("a", b"equal", etag))
    )
    with pytest.raises(ConflictError):
        await blobs.replace("a", b"equal", etag)


async def test_a_conflict_at_the_first_attempt_is_never_ones_own_append(blobs: Blobs, direct: Blobs) -> None:
    await direct.append("journal", b"same", 0)
    with pytest.raises(ConflictError):
        await blobs.append("journal", b"same", 0)


async def test_nothing_below_sends_a_write_again(opened: Opened, proxy: Proxy, direct: Blobs) -> None:
    once = Limits(attempts=1)
    async with opened(once) as blobs:
        for kind, write in (
            ("put", lambda: blobs.create("a", b"1")),
            ("append", lambda: blobs.append("journal", b"1", 0)),
            ("delete", lambda: blobs.delete("b")),
        ):
            await direct.delete("nothing")
            proxy.seen.clear()
            await names(blobs)  # leaves a kept connection
            proxy.faults.append(Fault(kind=kind, status=0))
            with pytest.raises(StorageError, match="does not answer"):
                await write()
            assert proxy.seen[kind] == 1
            proxy.faults.append(Fault(kind=kind, status=503))
            with pytest.raises(StorageError, match="503"):
                await (blobs.create("c", b"1") if kind == "put" else write())


@pytest.mark.parametrize("fault", LOST)
async def test_reads_lists_and_deletions_are_repeated(
    proxy: Proxy, blobs: Blobs, direct: Blobs, fault: Fault
) -> None:
    etag = await direct.create("a", LARGE)
    proxy.faults += [of("get", fault), of("list", fault), of("delete", fault)]
    assert await blobs.read("a") == (LARGE, etag)
    assert await names(blobs) == ["a"]
    await blobs.delete("a")
    assert await names(direct) == []


async def test_a_pause_is_as_long_as_the_service_asks(proxy: Proxy, blobs: Blobs) -> None:
    proxy.faults.append(Fault(kind="put", status=503, headers="x-ms-retry-after-ms: 300\r\n", reaches=False))
    proxy.faults.append(Fault(kind="put", status=429, headers="Retry-After: 3600\r\n", reaches=False))
    started = time.monotonic()
    await blobs.create("a", b"")
    assert 0.8 <= time.monotonic() - started < 3  # 0.3, and the longest pause there is in place of an hour


async def test_a_late_answer_is_given_up_and_its_write_recognised(
    opened: Opened, proxy: Proxy, direct: Blobs
) -> None:
    async with opened(Limits(attempt_seconds=0.3, pause_seconds=0.01)) as blobs:
        proxy.faults += [Fault(kind="put", seconds=2), Fault(kind="append", seconds=2)]
        started = time.monotonic()
        etag = await blobs.create("a", b"1")
        assert await blobs.append("journal", b"1", 0) == 1
        assert time.monotonic() - started < 1.5
    assert await direct.read("a") == (b"1", etag)
    assert (await direct.read("journal"))[0] == b"1"


async def test_a_call_ends_in_time(opened: Opened, proxy: Proxy) -> None:
    async with opened(
        Limits(attempt_seconds=0.2, total_seconds=0.5, attempts=9, pause_seconds=0.01)
    ) as blobs:
        proxy.faults += [Fault(kind="get", seconds=2) for _ in range(9)]
        started = time.monotonic()
        with pytest.raises(StorageError, match="in time"):
            await blobs.read("a")
        assert time.monotonic() - started < 1


async def test_a_service_that_stays_broken_is_named(proxy: Proxy, blobs: Blobs, container_url: str) -> None:
    proxy.faults += [Fault(kind="get", status=503) for _ in range(4)]
    with pytest.raises(StorageError, match="503") as caught:
        await blobs.read("a")
    assert container_url.rpartition("/")[2] in str(caught.value)
    assert proxy.seen["get"] == 4


async def test_what_is_replaced_while_it_is_read_is_read_anew(
    proxy: Proxy, blobs: Blobs, direct: Blobs
) -> None:
    first = await direct.create("a", LARGE)
    new: list[str] = []

    async def replace() -> None:
        new.append(await direct.replace("a", LARGE[::-1], first))

    proxy.faults += [
        Fault(kind="get"),
        Fault(kind="get", meanwhile=replace),
    ]  # between the first and second range
    assert await blobs.read("a") == (LARGE[::-1], new[0])


async def test_a_journal_that_grows_while_it_is_read_is_read_to_its_end(
    proxy: Proxy, blobs: Blobs, direct: Blobs
) -> None:
    await direct.append("journal", LARGE, 0)
    proxy.faults += [
        Fault(kind="get"),
        Fault(kind="get", meanwhile=lambda: direct.append("journal", b"+", len(LARGE))),
    ]
    assert (await blobs.read("journal"))[0] == LARGE + b"+"
    assert proxy.seen["get"] == 3


async def test_names_go_on_where_a_page_was_lost(
    proxy: Proxy, blobs: Blobs, direct: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.adapters.blobs._PAGE", 2)
    made = [f"status/{n}.json" for n in range(7)]
    for name in made:
        await direct.create(name, b"")
    proxy.faults += [Fault(kind="list"), Fault(kind="list", status=500), Fault(kind="list", status=0)]
    assert await names(blobs) == made
    assert proxy.seen["list"] == 4 + 2


async def test_a_missing_container_is_made_once_at_the_first_call(
    azurite_url: str, proxy: Proxy, container_url: str
) -> None:
    url = f"http://127.0.0.1:{proxy.port}{urlsplit(container_url).path}"
    async with open_blobs(url, key=KEY) as blobs:
        assert await names(blobs) == []
        with pytest.raises(NotFoundError):
            await blobs.read("a")
        await blobs.create("a", b"")
    assert proxy.seen["container"] == 1


async def test_clients_who_find_no_container_at_once_all_go_on(container_url: str) -> None:
    async with open_blobs(container_url, key=KEY) as one, open_blobs(container_url, key=KEY) as other:
        await asyncio.gather(
            *(blobs.create(f"a/{n}", b"") for n in range(10) for blobs in [(one, other)[n % 2]])
        )
        assert len(await names(one)) == 10


async def test_a_container_that_must_not_be_made_is_named_with_the_role(container_url: str) -> None:
    async with open_blobs(container_url, key=KEY, create_container=False) as blobs:
        for call in (
            blobs.read("a"),
            blobs.create("a", b""),
            blobs.replace("a", b"", '"1"'),
            blobs.append("a", b"1", 0),
            blobs.delete("a"),
            names(blobs),
        ):
            with pytest.raises(StorageError, match="Storage Blob Data Contributor") as caught:
                await call
            assert container_url.rpartition("/")[2] in str(caught.value)


async def test_a_refusal_names_the_role_and_never_the_key(container_url: str) -> None:
    wrong = "d3Jvbmcta2V5LXdyb25nLWtleQ=="
    async with open_blobs(container_url, key=wrong) as blobs:
        with pytest.raises(StorageError, match=r"403.*Storage Blob Data Contributor") as caught:
            await blobs.create("a", b"secret words")
    for text in (wrong, "secret words", "SharedKey"):
        assert text not in str(caught.value)


async def test_nobody_listening_is_a_storage_error_that_names_the_host() -> None:
    async with open_blobs("http://127.0.0.1:1/devstoreaccount1/runs", key=KEY, limits=FAST) as blobs:
        with pytest.raises(StorageError, match=r"container runs of 127\.0\.0\.1:1"):
            await blobs.read("a")


class Nobody:
    """A credential that cannot sign in."""

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        raise CredentialUnavailableError(message="run az login\nand more")

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass


async def test_who_cannot_sign_in_learns_why() -> None:
    url = "https://account.blob.core.windows.net/runs"
    async with open_blobs(url, credential=Nobody(), limits=FAST) as blobs:
        with pytest.raises(
            StorageError, match=r"container runs of account\.blob\.core\.windows\.net: run az login$"
        ):
            await blobs.read("a")


async def test_a_document_is_appended_to_or_written_whole_never_both(blobs: Blobs) -> None:
    await blobs.create("a", b"")
    with pytest.raises(StorageError, match="never both"):
        await blobs.append("a", b"1", 0)
    await blobs.append("journal", b"1", 0)
    with pytest.raises(ConflictError):
        await blobs.create("journal", b"1")


async def test_an_append_beyond_the_services_limit_is_refused_unsent(
    proxy: Proxy, blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.adapters.blobs._APPEND", 10)
    with pytest.raises(StorageError, match="11 bytes"):
        await blobs.append("journal", b"x" * 11, 0)
    assert proxy.seen.total() == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("status/1.json", "application/json"),
        ("runs/1/evidence.jsonl.gz", "application/gzip"),
        ("runs/1/report.html", "text/html; charset=utf-8"),
        ("runs/1/journal", "application/octet-stream"),
    ],
)
async def test_a_document_has_the_type_of_its_suffix_and_no_encoding(
    container_url: str, direct: Blobs, name: str, expected: str
) -> None:
    etag = await direct.create(name, b"1")
    await direct.replace(name, b"2", etag)
    await direct.append("journal.jsonl", b"2", 0)
    async with ContainerClient.from_container_url(
        container_url,
        credential={"account_name": "devstoreaccount1", "account_key": KEY},
        api_version=API_VERSION,
    ) as client:
        settings = (await client.get_blob_client(name).get_blob_properties()).content_settings
        assert (settings.content_type, settings.content_encoding) == (expected, None)
        journal = (await client.get_blob_client("journal.jsonl").get_blob_properties()).content_settings
        assert journal.content_type == "application/jsonl; charset=utf-8"


@pytest.mark.parametrize(
    ("url", "key", "fault"),
    [
        ("https://account.blob.core.windows.net", KEY, "GATE_RUNS_URL"),
        ("https://account.blob.core.windows.net/", KEY, "GATE_RUNS_URL"),
        ("https://account.blob.core.windows.net/a/b/c", KEY, "GATE_RUNS_URL"),
        ("https://account.blob.core.windows.net/runs?sv=1&sig=hidden", KEY, "GATE_RUNS_URL"),
        ("ftp://account.blob.core.windows.net/runs", KEY, "GATE_RUNS_URL"),
        ("runs", KEY, "GATE_RUNS_URL"),
        ("https://account.blob.core.windows.net/runs", "not base64 hidden", "GATE_RUNS_KEY"),
        ("https://account.blob.core.windows.net/runs", None, "GATE_RUNS_KEY"),
        ("http://127.0.0.1:10000/devstoreaccount1/runs", None, "GATE_RUNS_KEY"),
    ],
)
async def test_a_setting_that_makes_no_sense_is_named_and_not_quoted(
    url: str, key: str | None, fault: str
) -> None:
    with pytest.raises(InputError, match=fault) as caught:
        async with open_blobs(url, key=key):
            pass
    assert "hidden" not in str(caught.value)


async def test_a_token_is_never_sent_without_tls() -> None:
    with pytest.raises(InputError, match="TLS"):
        async with open_blobs("http://127.0.0.1:10000/devstoreaccount1/runs", credential=Nobody()):
            pass
