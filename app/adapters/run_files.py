"""A run's documents as files in a folder: each is there whole, or not at all."""

import os
from collections.abc import Iterable
from pathlib import Path

from app.domain.errors import Fault, InputError

DOCUMENTS = ("run.json", "report.html", "report.md", "junit.xml")


def prepared(folder: Path) -> Path:
    """The folder, made if need be. InputError if nothing can be written there."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        message = f"cannot be written to: {error.strerror or error}; choose another --out"
        raise InputError([Fault(where=str(folder), message=message)]) from None
    return folder


def write(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the file in one go; InputError if it cannot be, and then nothing of it is there."""
    unfinished = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InputError([Fault(where=str(path), message=f"cannot be written: {error.strerror}")]) from None
