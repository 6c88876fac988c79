"""How a run is kept: a small status document, the golden texts as received, a journal of observations while
it runs, and the evidence when it is done.

    status/<id>.json            the run without its questions; replaced by etag
    runs/<id>/golden.jsonl      and golden.toml: as received
    runs/<id>/journal           a line an observation, appended as they are made; removed at the end
    runs/<id>/evidence.jsonl.gz a line a question, in the golden set's order; each compressed by itself
    runs/<id>/outline-1.jsonl.gz where each question stands in the evidence, and what lists show of it
    active/<id>                 there while the run is not done: who executes it; replaced by etag
    keys/<digest>.json          idempotency: which run a key started, from which request
    reviews/<id>/<time>-<mark>.json    a decision on a question; created once, as all that follow
    overrides/<id>/<time>-<mark>.json  an override of the run
    decisions/<set>/<subject>/<time>-<mark>.<id>  points to a review, to be found again by what it is about

A journal line is base64 of a compressed JSON object, so that a torn line spoils nothing but itself.

The outline is made from the evidence, so that a page need not read all of it. Where it is not there, or does not
fit the evidence, the evidence is read. The number in its name changes with what `outline.outlined` keeps.
"""

import asyncio
import base64
import binascii
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from pydantic import ValidationError

from app.domain.errors import ConflictError, DamagedError, NotFoundError
from app.domain.golden import GoldenTexts
from app.domain.observation import Observation
from app.domain.outcome import Observed, QuestionResult
from app.domain.outline import outlined
from app.domain.overrides import Override
from app.domain.query import Queries, Side
from app.domain.review import Review
from app.domain.run import Run
from app.domain.schema import adapter
from app.gate.ports import DocumentStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One observation in a journal. `number` counts the question's observations on that side from 0."""

    question: str
    side: Side
    number: int
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who executes a run (see `claims`). `number`: how often it was taken up; `beat`: its holder's sign of life."""

    number: int = 0
    by: str = ""  # unlike any other claim's
    beat: int = 0
    let_go: bool = False
    cancelled: bool = False  # somebody asked for the run's end


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A claim as it was seen. `etag` None: there was none."""

    claim: Claim
    etag: str | None

    @property
    def untouched(self) -> bool:
        """Whether nobody executes the run, and it need not be waited for."""
        return self.etag is None or self.claim.number == 0 or self.claim.let_go


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRun:
    """A run whose status document is damaged: what a list can say of it."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedBy:
    """What an idempotency key stands for."""

    run: str
    request: str  # digest of the request


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """Where a review is, and what it is about (`review.subject`)."""

    subject: str
    review: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a question stands in the evidence, in bytes, and a digest of these bytes."""

    id: str
    start: int
    length: int
    digest: str


T = TypeVar("T")

_AT_ONCE = 16  # documents that are read at the same time
_RELIED_ON: dict[str, type] = {
    "seed": int,
    "starts": int,
    "seconds": dict,
}  # of the manifest, which holds anything
_FENCE = re.compile(rb"^#(\d{1,9}) ", re.MULTILINE)
_RUN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class RunRecords:
    """Runs in a document store. Raises NotFoundError for an unknown run, StorageError for an unreadable one."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    async def create(self, run: Run, texts: GoldenTexts) -> None:
        """Keep a new run. ConflictError if the id is taken."""
        await self._create_once(f"runs/{run.id}/golden.jsonl", texts.jsonl.encode())
        if texts.toml is not None:
            await self._create_once(f"runs/{run.id}/golden.toml", texts.toml.encode())
        with suppress(ConflictError):  # there already where a start was cut short, or sent twice with one key
            await self._store.create(_active(run.id), adapter(Claim).dump_json(Claim()))
        await self._store.create(_status(run.id), adapter(Run).dump_json(run))

    async def _create_once(self, name: str, data: bytes) -> None:
        try:
            await self._store.create(name, data)
        except ConflictError:
            if (await self._store.read(name))[0] != data:
                raise

    async def read(self, run_id: str) -> tuple[Run, str]:
        """The run and its status document's etag."""
        try:
            data, etag = await self._store.read(_status(_checked(run_id)))
        except NotFoundError:
            raise NotFoundError(f"There is no run {run_id!r}.") from None
        run = _parsed(Run, data, _status(run_id))
        for entry, kind in _RELIED_ON.items():
            if not isinstance(run.manifest.get(entry, kind()), kind):
                raise DamagedError(f"The document {_status(run_id)} is damaged: manifest.{entry}.")
        return run, etag

    async def replace(self, run: Run, etag: str) -> str:
        """Keep the run's new state; the new etag. ConflictError if somebody else did in between."""
        return await self._store.replace(_status(run.id), adapter(Run).dump_json(run), etag)

    async def texts(self, run: Run) -> GoldenTexts:
        """The golden set as the run received it."""
        jsonl = await self._text(f"runs/{run.id}/golden.jsonl")
        try:
            toml = await self._text(f"runs/{run.id}/golden.toml")
        except NotFoundError:
            toml = None
        return GoldenTexts(name=run.golden_set.name, jsonl=jsonl, toml=toml)

    async def _text(self, name: str) -> str:
        data, _ = await self._store.read(name)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise DamagedError(f"The document {name} is damaged: it is no UTF-8.") from error

    async def evidence(self, run_id: str) -> Iterator[Observed]:
        """The questions of a run that is done, in the golden set's order, parsed one by one."""
        name = _evidence(_checked(run_id))
        try:
            data, _ = await self._store.read(name)
        except NotFoundError:
            raise NotFoundError(f"The evidence of run {run_id!r} is not there (yet).") from None
        run, _ = await self.read(run_id)
        size = run.manifest.get("evidence_bytes", len(data))
        if len(data) != size:
            raise DamagedError(f"The document {name} is damaged: {len(data)} bytes of {size}.")
        return _lines(data, name)

    async def outline(self, run_id: str) -> Iterable[Observed]:
        """The same questions, each no more than `outline.outlined` keeps of it; or all of it."""
        try:
            data, _ = await self._store.read(_outline(_checked(run_id)))
            return await asyncio.to_thread(_outlined, data, _outline(run_id))
        except (NotFoundError, DamagedError):
            return await self.evidence(run_id)

    async def questions(self, run_id: str, ids: Collection[str]) -> list[Observed]:
        """Those of these questions that the run has, with all their evidence, in the golden set's order.

        No others are read.
        """
        wanted = frozenset(ids)
        try:
            data, _ = await self._store.read(_outline(_checked(run_id)))
            places = await asyncio.to_thread(_places, data, _outline(run_id))
            return await self._at(run_id, [place for place in places if place.id in wanted])
        except (NotFoundError, DamagedError):
            evidence = await self.evidence(run_id)
            return await asyncio.to_thread(lambda: [each for each in evidence if each.id in wanted])

    async def _at(self, run_id: str, places: Sequence[Place]) -> list[Observed]:
        """The questions at these places. DamagedError where one of them is not there."""
        name = _evidence(run_id)
        found: list[Observed] = []
        for start in range(0, len(places), _AT_ONCE):
            batch = places[start : start + _AT_ONCE]
            parts = await asyncio.gather(
                *(self._store.read_part(name, place.start, place.length) for place in batch)
            )
            for place, part in zip(batch, parts, strict=True):
                if _digest(part) != place.digest:
                    raise DamagedError(f"The document {name} is not the one that its outline was made of.")
                found.extend(_lines(part, name))
        return found

    async def keep_review(self, review: Review, subject: str, golden_set: str) -> None:
        """Keep a new decision. ConflictError if its id is taken; nobody's decision is ever written over.

        Its pointer is kept first: one that leads nowhere, after a crash, is passed over by `earlier`.
        """
        await self._store.create(
            f"decisions/{_name_digest(golden_set)}/{subject}/{review.id}.{review.run}", b""
        )
        await self._store.create(f"reviews/{review.run}/{review.id}.json", adapter(Review).dump_json(review))

    async def reviews(self, run_id: str) -> list[Review]:
        """All decisions on a run's questions, oldest first."""
        names = [name async for name in self._store.names(f"reviews/{_checked(run_id)}/")]
        return [each for each in await self._all(Review, names) if each is not None]

    async def pointers(self, golden_set: str) -> list[Pointer]:
        """Where the decisions on the questions of a set of that name are, by subject, oldest first."""
        prefix = f"decisions/{_name_digest(golden_set)}/"
        found = []
        async for name in self._store.names(prefix):
            subject, _, rest = name.removeprefix(prefix).partition("/")
            review, _, run = rest.partition(".")
            found.append(Pointer(subject=subject, review=review, run=run))
        return found

    async def pointed(self, pointers: Sequence[Pointer]) -> list[Review | None]:
        """The reviews that these lead to, in their order; None for one that leads nowhere, or to a damaged one:
        its own run says so.
        """
        names = [f"reviews/{each.run}/{each.review}.json" for each in pointers]
        return await self._all(Review, names, or_none=True)

    async def keep_override(self, override: Override) -> None:
        """Keep a new override. ConflictError if its id is taken."""
        await self._store.create(
            f"overrides/{override.run}/{override.id}.json", adapter(Override).dump_json(override)
        )

    async def overrides(self, run_id: str) -> list[Override]:
        """All overrides of a run, oldest first."""
        names = [name async for name in self._store.names(f"overrides/{_checked(run_id)}/")]
        return [each for each in await self._all(Override, names) if each is not None]

    async def overridden(self) -> set[str]:
        """Ids of the runs that have an override, whether it clears them or not."""
        return {name.split("/")[1] async for name in self._store.names("overrides/")}

    async def _all(self, kind: type[T], names: Sequence[str], *, or_none: bool = False) -> list[T | None]:
        """The documents of these names, None for each that is not there; `or_none`: or is damaged."""
        found: list[T | None] = []
        borne = (DamagedError,) if or_none else ()
        for start in range(0, len(names), _AT_ONCE):
            batch = names[start : start + _AT_ONCE]
            contents = await asyncio.gather(*(self._content(name) for name in batch))
            for name, data in zip(batch, contents, strict=True):
                found.append(None)
                if data is not None:
                    with suppress(*borne):
                        found[-1] = _parsed(kind, data, name)
        return found

    async def _content(self, name: str) -> bytes | None:
        try:
            return (await self._store.read(name))[0]
        except NotFoundError:
            return None

    async def keep_evidence(self, run: Run, writer: "EvidenceWriter") -> Run:
        """Keep what was written, in place of what a crash left behind; the run, which says how much that is.

        ConflictError if another execution has claimed the run: its evidence is never written over. The order
        matters: what it writes after this has looked at the status has another etag.
        """
        evidence = writer.evidence()
        await self._keep(_evidence(run.id), evidence, run)
        await self._keep(_outline(run.id), writer.outline(), run)
        return replace(run, manifest={**run.manifest, "evidence_bytes": len(evidence)})

    async def _keep(self, name: str, data: bytes, run: Run) -> None:
        try:
            await self._store.create(name, data)
        except ConflictError:
            _, etag = await self._store.read(name)
            if (await self.read(run.id))[0].manifest.get("claim") != run.manifest["claim"]:
                raise
            await self._store.replace(name, data, etag)

    async def close(self, run_id: str) -> None:
        """Clear away what only a running run needs."""
        await self._store.delete(_active(run_id))
        await self._store.delete(_journal(run_id))

    async def claim(self, run_id: str) -> Sighting:
        """Who executes the run now. Where that cannot be read, nobody that is known."""
        name = _active(_checked(run_id))
        try:
            data, etag = await self._store.read(name)
        except NotFoundError:
            return Sighting(claim=Claim(number=await self._starts(run_id)), etag=None)
        try:
            return Sighting(claim=_parsed(Claim, data, name), etag=etag)
        except DamagedError:
            return Sighting(claim=Claim(number=await self._starts(run_id)), etag=etag)

    async def keep_claim(self, run_id: str, claim: Claim, etag: str | None) -> str:
        """Keep a claim in place of the one seen with that etag; its own. ConflictError if that has changed."""
        data = adapter(Claim).dump_json(claim)
        if etag is None:
            return await self._store.create(_active(run_id), data)
        return await self._store.replace(_active(run_id), data, etag)

    async def cancel(self, run_id: str) -> bool:
        """Tell whoever executes the run that its end is asked for; whether there was anybody to be told."""
        while True:
            seen = await self.claim(run_id)
            if seen.etag is None:
                return False
            with suppress(ConflictError):  # it gave a sign of life in between
                await self.keep_claim(run_id, replace(seen.claim, cancelled=True), seen.etag)
                return True

    async def _starts(self, run_id: str) -> int:
        return int((await self.read(run_id))[0].manifest.get("starts", 0))

    async def active(self) -> list[str]:
        """Ids of the runs that are not done, oldest first."""
        return [name.removeprefix("active/") async for name in self._store.names("active/")]

    async def newest_first(self, before: str | None = None) -> AsyncIterator[Run]:
        """All runs, the newest first; `before` an id: only those older than that one. DamagedError at one that
        cannot be read: nothing may be decided without it.
        """
        async for run in self.listed(before):
            if isinstance(run, UnreadableRun):
                raise DamagedError(run.reason)
            yield run

    async def listed(self, before: str | None = None) -> AsyncIterator[Run | UnreadableRun]:
        """The same to be shown: one damaged document does not hide the others."""
        names = [name async for name in self._store.names("status/")]
        for name in reversed(names):
            run_id = name.removeprefix("status/").removesuffix(".json")
            if before is None or run_id < before:
                try:
                    yield (await self.read(run_id))[0]
                except (DamagedError, NotFoundError) as error:
                    yield UnreadableRun(id=run_id, reason=str(error))

    async def semantic_since(self, when: datetime) -> int:
        """Semantic queries that the runs created since then have used, as far as they can be read."""
        used = 0
        async for run in self.listed():
            if isinstance(run, UnreadableRun):
                continue
            if run.created_at < when:
                break
            used += run.requests.semantic
        return used

    async def claim_key(self, key: str, request: str, run_id: str) -> str:
        """The id of the run that an idempotency key stands for: `run_id`, or the one it was first used for.

        ConflictError if it was used for another request.
        """
        try:
            ours = StartedBy(run=run_id, request=request)
            await self._store.create(_idempotency(key), adapter(StartedBy).dump_json(ours))
        except ConflictError:
            return await self.claimed(key, request)
        return run_id

    async def claimed(self, key: str, request: str) -> str:
        """The id of the run that an idempotency key was first used for. NotFoundError if it was not yet;
        ConflictError if it was used for another request.
        """
        name = _idempotency(key)
        data, _ = await self._store.read(name)
        first = _parsed(StartedBy, data, name)
        if first.request != request:
            raise ConflictError(
                f"The idempotency key was already used for another request (run {first.run}): "
                "use a new key for a new request."
            )
        return first.run

    async def journal(self, run_id: str, claim: Claim) -> tuple["Journal", list[Entry]]:
        """The run's journal, taken over from whoever wrote it before, and what it holds.

        A line of ours, unlike anybody else's, is appended first: a former writer, if it still lives, is refused
        at its next append. ConflictError if a claim of a higher number did so before.
        """
        name = _journal(run_id)
        while True:
            try:
                data, _ = await self._store.read(name)
            except NotFoundError:
                data = b""
            if any(int(number) > claim.number for number in _FENCE.findall(data)):
                raise ConflictError(f"The run {run_id} was taken up by another process.")
            try:
                position = await self._store.append(name, _fence(claim), len(data))
            except ConflictError:
                continue  # the former writer appended in between; read again
            return Journal(self._store, name, position), list(_entries(data))

    async def ready(self) -> None:
        """StorageError if the store cannot be read."""
        async for _ in self._store.names("active/"):
            break


class Journal:
    """The single writer of a run's journal."""

    def __init__(self, store: DocumentStore, name: str, position: int) -> None:
        self._store = store
        self._name = name
        self._position = position

    async def append(self, lines: Iterable[bytes]) -> None:
        """Keep the lines. ConflictError: another process has taken the run over; stop."""
        data = b"".join(line + b"\n" for line in lines)
        self._position = await self._store.append(self._name, data, self._position)


def packed(entry: Entry) -> bytes:
    """A journal line, without its line end."""
    return base64.b64encode(zlib.compress(adapter(Entry).dump_json(entry), level=1))


def unpacked(line: bytes) -> Entry:
    """The entry of a journal line; ValueError if it is torn."""
    try:
        return adapter(Entry).validate_json(zlib.decompress(base64.b64decode(line, validate=True)))
    except (binascii.Error, zlib.error, ValidationError) as error:
        raise ValueError("torn journal line") from error


def _entries(data: bytes) -> Iterator[Entry]:
    for line in data.split(b"\n"):
        if line and not line.startswith(b"#"):
            try:
                yield unpacked(line)
            except ValueError:
                continue  # torn by a crash: the observation was not kept, and is made again


class EvidenceWriter:
    """Compresses the questions of a run, one by one, to its evidence and its outline."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._evidence = io.BytesIO()
        self._outlines = io.BytesIO()
        self._outlining = _compressing(self._outlines)
        self._places: list[Place] = []

    def add(self, each: QuestionResult) -> None:
        data = gzip.compress(_line(each), compresslevel=6, mtime=0)
        place = Place(id=each.id, start=self._evidence.tell(), length=len(data), digest=_digest(data))
        self._places.append(place)
        self._evidence.write(data)
        self._outlining.write(_line(outlined(each, self._queries)))

    def evidence(self) -> bytes:
        return self._evidence.getvalue()

    def outline(self) -> bytes:
        """Nothing can be added afterwards."""
        self._outlining.close()
        places = gzip.compress(adapter(list[Place]).dump_json(self._places) + b"\n", compresslevel=6, mtime=0)
        return places + self._outlines.getvalue()


def _compressing(file: io.BytesIO) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0)


def _line(observed: Observed) -> bytes:
    return adapter(Observed).dump_json(observed, exclude_defaults=True) + b"\n"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _lines(data: bytes, name: str) -> Iterator[Observed]:
    with _damage(name), gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        for line in file:
            yield _parsed(Observed, line, name)


def _places(data: bytes, name: str) -> list[Place]:
    """Where the questions of an outline stand in the evidence."""
    with _damage(name), gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return _parsed(list[Place], file.readline(), name)


def _outlined(data: bytes, name: str) -> Iterator[Observed]:
    """The questions of an outline; DamagedError before the first of them where it is not whole."""
    with _damage(name):
        first, *lines = gzip.decompress(data).splitlines()
    places = _parsed(list[Place], first, name)
    if len(lines) != len(places):
        raise DamagedError(f"The document {name} is damaged: {len(lines)} of {len(places)} questions.")
    return (_parsed(Observed, line, name) for line in lines)


@contextmanager
def _damage(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DamagedError(f"The document {name} is damaged: {error}.") from error


def _parsed(kind: type[T], data: bytes, name: str) -> T:
    try:
        return adapter(kind).validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DamagedError(f"The document {name} is damaged: {place}: {first['msg']}.") from error


def _fence(claim: Claim) -> bytes:
    return f"\n#{claim.number} {claim.by}\n".encode()


def _active(run_id: str) -> str:
    return f"active/{run_id}"


def _status(run_id: str) -> str:
    return f"status/{run_id}.json"


def _name_digest(golden_set: str) -> str:
    return hashlib.sha256(golden_set.encode("utf-8", "surrogatepass")).hexdigest()


def _evidence(run_id: str) -> str:
    return f"runs/{run_id}/evidence.jsonl.gz"


def _outline(run_id: str) -> str:
    return f"runs/{run_id}/outline-1.jsonl.gz"


def _idempotency(key: str) -> str:
    return f"keys/{hashlib.sha256(key.encode()).hexdigest()}.json"


def _journal(run_id: str) -> str:
    return f"runs/{run_id}/journal"


def _checked(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise NotFoundError(f"There is no run {run_id!r}.")
    return run_id


def request_digest(request: object) -> str:
    """A digest of a start request's JSON, for the idempotency key."""
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
