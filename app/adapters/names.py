"""Names of documents: which are legal everywhere, in a container as in a folder, and what they hold."""

import re
from pathlib import PurePosixPath

from app.domain.errors import Fault, InputError

_SEGMENT = (
    r"[a-z0-9._-]{0,199}[a-z0-9_-]"  # no dot at the end: neither "." nor "..", which Azure drops besides
)
_NAME = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_LONGEST = 1024  # Azure's limit

_CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonl; charset=utf-8",
    ".toml": "application/toml",
    ".html": "text/html; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".xml": "application/xml",
    ".gz": "application/gzip",  # the content as it is: no Content-Encoding, so that nobody unpacks it on the way
}


def is_name(text: str) -> bool:
    """`/`-separated segments of `[a-z0-9._-]`, none of them empty, ending in a dot or over 200 characters."""
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None


def checked_name(text: str) -> str:
    """The name itself. InputError if it is none, before anything is touched."""
    if not is_name(text):
        message = (
            f"{text[:100]!r} is not a name of a document: segments of a-z, 0-9, '.', '_', '-' between '/'"
        )
        raise InputError([Fault(where="document", message=message)])
    return text


def content_type(name: str) -> str:
    """The media type that the last suffix stands for."""
    return _CONTENT_TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")
