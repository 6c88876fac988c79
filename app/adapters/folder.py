"""Documents in a folder of this machine: what one developer's runs are kept in.

A document is a file of its name. Beside them stand `~lock`, which every writer of every process holds while
it changes something, and `~unfinished/`, where files are written before they appear under their name; `~` is
in no document's name, so neither can be taken for one.

A file's modification time is its generation: every write moves it forward, so that with the size it makes an
etag which never comes back, also where the content does. Needs a POSIX system (flock).
"""

import asyncio
import errno
import fcntl
import os
import stat
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

from app.adapters.names import checked_name, is_name
from app.domain.errors import ConflictError, Fault, InputError, NotFoundError, StorageError

P = ParamSpec("P")
T = TypeVar("T")

_LOCK_SECONDS = 10.0
_POLL_SECONDS = 0.002
_ABANDONED_SECONDS = 3600.0  # no write takes so long: what is older was left by a killed process
_TICKS = (1, 100, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000)  # ns; file systems round times, FAT to 2 s


@asynccontextmanager
async def open_folder(path: Path, *, lock_seconds: float = _LOCK_SECONDS) -> AsyncIterator["Folder"]:
    """The documents under `path`, which is made if it is not there. StorageError if it cannot be."""
    folder = Folder(path, lock_seconds=lock_seconds)
    await folder.prepare()
    yield folder


def folder_of(url: str) -> Path:
    """The folder that `file:///folder` names. InputError for anything else."""
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or not parts.path.strip("/"):
        message = "a folder is written file:///path/of/the/folder"
        raise InputError([Fault(where="GATE_RUNS_URL", message=message)])
    return Path(unquote(parts.path))


class Folder:
    """`DocumentStore` over a folder. Writers wait for each other at most `lock_seconds`.

    A call that is cancelled may still have its effect: its thread ends what it began.
    """

    def __init__(self, path: Path, *, lock_seconds: float = _LOCK_SECONDS) -> None:
        self._root = path.absolute()
        self._unfinished = self._root / "~unfinished"
        self._lock_seconds = lock_seconds

    async def prepare(self) -> None:
        """Make the folder, and remove what killed processes left unfinished."""
        await self._work(self._prepare)

    async def create(self, name: str, data: bytes) -> str:
        return await self._work(self._create, checked_name(name), data)

    async def replace(self, name: str, data: bytes, etag: str) -> str:
        return await self._work(self._replace, checked_name(name), data, etag)

    async def read(self, name: str) -> tuple[bytes, str]:
        return await self._work(self._read, checked_name(name))

    async def read_part(self, name: str, start: int, length: int) -> bytes:
        return await self._work(self._read_part, checked_name(name), start, length)

    async def append(self, name: str, data: bytes, position: int) -> int:
        return await self._work(self._append, checked_name(name), data, position)

    async def delete(self, name: str) -> None:
        await self._work(self._delete, checked_name(name))

    async def names(self, prefix: str) -> AsyncIterator[str]:
        async for name in self._names_in("", prefix):
            yield name

    async def _names_in(self, directory: str, prefix: str) -> AsyncIterator[str]:
        """Depth first; a folder sorts as its name with the `/`, which is the order of the whole names."""
        for name in await self._work(self._entries, directory):
            if name.endswith("/"):
                if name.startswith(prefix) or prefix.startswith(name):
                    async for below in self._names_in(name, prefix):
                        yield below
            elif name.startswith(prefix):
                yield name

    async def _work(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await asyncio.to_thread(function, *args, **kwargs)
        except OSError as error:
            reason = error.strerror or str(error)
            code = errno.errorcode.get(error.errno or 0, type(error).__name__)
            raise StorageError(f"The folder {self._root} cannot be used: {reason} ({code}).") from error

    # what follows blocks, and runs in threads

    def _prepare(self) -> None:
        self._unfinished.mkdir(parents=True, exist_ok=True)
        with self._locked():
            oldest = time.time() - _ABANDONED_SECONDS
            for left in self._unfinished.iterdir():
                with suppress(FileNotFoundError):  # its writer has just finished
                    if left.stat().st_mtime < oldest:
                        left.unlink()

    def _create(self, name: str, data: bytes) -> str:
        target = self._root / name
        with self._finished(data) as file, self._locked():
            self._make_parents(target)
            try:
                os.link(file, target)
            except FileExistsError:
                raise ConflictError(f"The document {name} exists already.") from None
            _sync_directory(target.parent)
            return _etag(target.stat())

    def _replace(self, name: str, data: bytes, etag: str) -> str:
        target = self._root / name
        with self._finished(data) as file, self._locked():
            now = _status(target)
            if now is None or _etag(now) != etag:
                raise ConflictError(f"The document {name} was changed or removed by somebody else.")
            descriptor = os.open(file, os.O_RDWR)
            try:
                written = _moved_forward(descriptor, now.st_mtime_ns)
            finally:
                os.close(descriptor)
            file.replace(target)
            _sync_directory(target.parent)
            return _etag(written)

    def _read(self, name: str) -> tuple[bytes, str]:
        with self._opened(name) as file:
            now = os.fstat(file.fileno())
            return file.read(now.st_size), _etag(now)  # an append that runs meanwhile only adds behind it

    def _read_part(self, name: str, start: int, length: int) -> bytes:
        with self._opened(name) as file:
            file.seek(start)
            return file.read(length)

    @contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO]:
        try:
            with (self._root / name).open("rb") as file:
                yield file
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if not self._root.is_dir():
                raise
            raise NotFoundError(f"There is no document {name}.") from None

    def _append(self, name: str, data: bytes, position: int) -> int:
        target = self._root / name
        with self._locked():
            if position == 0:
                self._make_parents(target)
            try:
                descriptor = os.open(
                    target, os.O_RDWR | os.O_APPEND | (os.O_CREAT if position == 0 else 0), 0o666
                )
            except (FileNotFoundError, NotADirectoryError):
                if position == 0:
                    raise
                raise ConflictError(
                    f"The document {name} is not there, and its length not {position}."
                ) from None
            try:
                now = os.fstat(descriptor)
                if now.st_size != position:
                    message = (
                        f"The document {name} has {now.st_size} bytes, not {position}: somebody else wrote."
                    )
                    raise ConflictError(message)
                _write(descriptor, data)
                _moved_forward(descriptor, now.st_mtime_ns)
            finally:
                os.close(descriptor)
            if position == 0:
                _sync_directory(target.parent)
        return position + len(data)

    def _delete(self, name: str) -> None:
        target = self._root / name
        with self._locked():
            if _status(target) is None:
                return
            target.unlink()
            for parent in target.parents:  # an empty folder would stand in the way of a document of that name
                if parent == self._root:
                    return
                try:
                    parent.rmdir()
                except OSError:
                    return

    def _entries(self, directory: str) -> list[str]:
        """Names and (with a `/` at the end) folders right below it, sorted."""
        try:
            with os.scandir(self._root / directory) as entries:
                found = [
                    directory + entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
                ]
        except FileNotFoundError:
            if directory and self._root.is_dir():
                return []  # its last document was deleted meanwhile
            raise
        return sorted(name for name in found if is_name(name.removesuffix("/")))

    def _make_parents(self, target: Path) -> None:
        if not self._root.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        target.parent.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def _finished(self, data: bytes) -> Iterator[Path]:
        """A complete file with the content, removed at the end (where it was not moved to its name)."""
        self._unfinished.mkdir(exist_ok=True)
        path = self._unfinished / uuid.uuid4().hex
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                _write(descriptor, data)
                _moved_forward(descriptor, 0)
            finally:
                os.close(descriptor)
            yield path
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The only writer of the folder, in this process and in others; a killed process holds nothing."""
        descriptor = os.open(self._root / "~lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            deadline = time.monotonic() + self._lock_seconds
            while not _flocked(descriptor):
                if time.monotonic() > deadline:
                    message = f"The folder {self._root} has been locked by another writer for {self._lock_seconds:g} s."
                    raise StorageError(message)
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)


def _flocked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _status(path: Path) -> os.stat_result | None:
    """None where no file is."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _etag(status: os.stat_result) -> str:
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def _write(descriptor: int, data: bytes) -> None:
    """All of it, on the disk. On an error a part may be written."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _moved_forward(descriptor: int, generation: int) -> os.stat_result:
    """Set the modification time to now, or past `generation` where the clock went back or is too coarse."""
    now = time.time_ns()
    for tick in _TICKS:
        moment = max(now, generation + tick)
        os.utime(descriptor, ns=(moment, moment))
        status = os.fstat(descriptor)
        if status.st_mtime_ns > generation:
            return status
    raise OSError(errno.ENOTSUP, "modification times cannot be set")


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
