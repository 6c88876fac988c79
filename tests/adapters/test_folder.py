"""A folder when it is shared with other processes, killed ones, and when it cannot be used. What it promises
otherwise: tests/contract.
"""

# ruff: noqa: ASYNC240 - nothing else runs while these tests look at the disk

import asyncio
import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.adapters.folder import Folder, folder_of, open_folder
from app.domain.errors import ConflictError, InputError, NotFoundError, StorageError

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "runs"


@pytest.fixture
async def folder(path: Path) -> AsyncIterator[Folder]:
    async with open_folder(path) as folder:
        yield folder


async def names(folder: Folder) -> list[str]:
    return [name async for name in folder.names("")]


def process(path: Path, body: str) -> subprocess.Popen[str]:
    """Another process with `folder` opened on the path, running the body of a coroutine."""
    program = (
        "import asyncio, os, pathlib, resource, sys\n"
        "from app.adapters.folder import open_folder\n"
        "from app.domain.errors import ConflictError, StorageError\n"
        "async def main():\n"
        "    async with open_folder(pathlib.Path(sys.argv[1])) as folder:\n"
        f"{textwrap.indent(textwrap.dedent(body), ' ' * 8)}\n"
        "asyncio.run(main())\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def race(path: Path, attempt: str) -> list[str]:
    """What six processes print that make the attempt at once: won or lost."""
    body = f"""
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            {attempt}
            print("won")
        except ConflictError:
            print("lost")
    """
    racers = [process(path, body) for _ in range(6)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return sorted(racer.communicate()[0].strip() for racer in racers)


ONE_OF_SIX = ["lost"] * 5 + ["won"]


async def test_of_processes_that_create_one_document_exactly_one_wins(folder: Folder, path: Path) -> None:
    assert await asyncio.to_thread(race, path, "await folder.create('a/b', b'same' * 100000)") == ONE_OF_SIX
    assert (await folder.read("a/b"))[0] == b"same" * 100_000


async def test_of_processes_that_replace_by_one_etag_exactly_one_wins(folder: Folder, path: Path) -> None:
    etag = await folder.create("a", b"before")
    assert await asyncio.to_thread(race, path, f"await folder.replace('a', b'after', {etag!r})") == ONE_OF_SIX
    assert (await folder.read("a"))[0] == b"after"


@pytest.mark.parametrize("position", [0, 3])
async def test_of_processes_that_append_at_one_position_exactly_one_wins(
    folder: Folder, path: Path, position: int
) -> None:
    await folder.append("journal", b"x" * position, 0)
    assert (
        await asyncio.to_thread(race, path, f"await folder.append('journal', b'same', {position})")
        == ONE_OF_SIX
    )
    assert (await folder.read("journal"))[0] == b"x" * position + b"same"


async def test_a_killed_process_leaves_only_whole_documents_and_no_lock(folder: Folder, path: Path) -> None:
    body = """
        for n in range(10_000):
            await folder.create(f"a/{n}", b"x" * 3_000_000)
            print(n, flush=True)
    """
    with process(path, body) as writer:
        assert writer.stdout is not None
        await asyncio.to_thread(writer.stdout.readline)
        await asyncio.sleep(0.05)
        writer.send_signal(signal.SIGKILL)
    found = await names(folder)
    assert found
    for name in found:
        assert len((await folder.read(name))[0]) == 3_000_000
    await folder.create("next", b"")


async def test_what_a_killed_process_left_unfinished_is_never_listed_and_later_removed(path: Path) -> None:
    unfinished = path / "~unfinished"
    unfinished.mkdir(parents=True)
    old, young = unfinished / "1", unfinished / "2"
    for left in (old, young):
        left.write_bytes(b"half a docu")
    os.utime(old, (0, 0))
    async with open_folder(path) as folder:
        assert await names(folder) == []
        assert (old.exists(), young.exists()) == (False, True)  # the young one's writer may still be at work


async def test_writes_leave_nothing_unfinished(folder: Folder, path: Path) -> None:
    etag = await folder.create("a", b"1")
    await folder.replace("a", b"2", etag)
    for write in (folder.create("a", b"3"), folder.replace("a", b"3", etag)):
        with pytest.raises(ConflictError):
            await write
    assert list((path / "~unfinished").iterdir()) == []


async def test_files_of_others_are_not_listed(folder: Folder, path: Path) -> None:
    (path / "README.txt").write_text("not a document's name")
    (path / "link").symlink_to(path / "~lock")
    (path / "Folder").mkdir()
    (path / "Folder" / "a").write_text("")
    await folder.create("a", b"")
    assert await names(folder) == ["a"]


async def test_a_clock_that_went_back_brings_no_etag_back(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await folder.create("a", b"A")
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    second = await folder.replace("a", b"B", first)
    third = await folder.replace("a", b"A", second)
    assert len({first, second, third}) == 3


async def test_times_that_are_kept_in_whole_seconds_bring_no_etag_back(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.utime

    def coarse(descriptor: int, *, ns: tuple[int, int]) -> None:
        second = ns[0] // 10**9 * 10**9
        really(descriptor, ns=(second, second))

    monkeypatch.setattr(os, "utime", coarse)
    etags = [await folder.create("a", b"A")]
    for _ in range(3):
        etags.append(await folder.replace("a", b"A", etags[-1]))
    assert len(set(etags)) == 4


async def test_a_document_changed_by_hand_has_another_etag(folder: Folder, path: Path) -> None:
    etag = await folder.create("a", b"A")
    (path / "a").write_bytes(b"B")
    with pytest.raises(ConflictError):
        await folder.replace("a", b"C", etag)


async def test_a_full_disk_is_named_and_readers_see_no_half_document(folder: Folder, path: Path) -> None:
    body = """
        await folder.create("whole", b"1")
        await folder.append("journal", b"line\\n", 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # stands for a full disk
        for write in (folder.create("a", b"x" * 2000), folder.append("journal", b"x" * 2000, 5)):
            try:
                await write
            except StorageError as error:
                print(error)
    """
    said = (await asyncio.to_thread(process(path, body).communicate))[0].splitlines()
    assert len(said) == 2
    for line in said:
        assert str(path) in line
        assert "EFBIG" in line
    assert await names(folder) == ["journal", "whole"]
    assert list((path / "~unfinished").iterdir()) == []
    torn = (await folder.read("journal"))[0]
    assert torn == b"line\n" + b"x" * 995
    assert await folder.append("journal", b"\n", 1000) == 1001


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO])
async def test_an_error_of_the_disk_is_told_with_folder_and_cause(
    folder: Folder, path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StorageError) as caught:
        await folder.create("a", b"1")
    for text in (str(path), os.strerror(code), errno.errorcode[code]):
        assert text in str(caught.value)
    assert await names(folder) == []


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="ENOTDIR") as caught:
        async with open_folder(tmp_path / "file" / "runs"):
            pass
    assert str(tmp_path / "file" / "runs") in str(caught.value)


async def test_a_folder_that_was_removed_is_not_made_again_and_holds_nothing_not_found(
    folder: Folder, path: Path
) -> None:
    etag = await folder.create("a", b"1")
    path.rename(path.with_name("moved"))
    for call in (
        folder.read("a"),
        folder.create("a", b""),
        folder.replace("a", b"", etag),
        folder.append("b", b"1", 0),
        folder.delete("a"),
        names(folder),
    ):
        with pytest.raises(StorageError, match="ENOENT"):
            await call
    assert not path.exists()


async def test_a_document_in_the_place_of_a_folder_is_a_storage_error(folder: Folder) -> None:
    await folder.create("a", b"1")
    for write in (folder.create("a/b", b""), folder.append("a/b", b"1", 0)):
        with pytest.raises(StorageError):
            await write
    with pytest.raises(NotFoundError):
        await folder.read("a/b")


async def test_a_lock_that_is_never_given_back_ends_the_wait(path: Path) -> None:
    async with open_folder(path, lock_seconds=0.1) as folder:
        held, free = threading.Event(), threading.Event()

        def hold() -> None:
            with folder._locked():
                held.set()
                free.wait(10)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(10)
        try:
            with pytest.raises(StorageError, match=r"locked by another writer for 0\.1 s"):
                await folder.create("a", b"1")
            assert await names(folder) == []  # readers do not wait
        finally:
            free.set()
            holder.join()
        await folder.create("a", b"1")


async def test_an_empty_folder_is_removed_with_its_last_document(folder: Folder, path: Path) -> None:
    await folder.create("runs/1/a", b"")
    await folder.create("runs/2/a", b"")
    await folder.delete("runs/1/a")
    assert sorted(p.name for p in (path / "runs").iterdir()) == ["2"]
    await folder.delete("runs/2/a")
    assert not (path / "runs").exists()
    assert path.is_dir()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:///var/runs", "/var/runs"),
        ("file://localhost/var/runs/", "/var/runs"),
        ("file:///var/my%20runs", "/var/my runs"),
    ],
)
def test_a_file_url_names_a_folder(url: str, expected: str) -> None:
    assert folder_of(url) == Path(expected)


@pytest.mark.parametrize("url", ["file://server/share", "file:///", "file://", "https://a/b", "runs"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="GATE_RUNS_URL"):
        folder_of(url)
