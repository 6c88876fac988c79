"""Which parent document a row belongs to: the value of the parent field, and what it decodes to.

The indexers' encoding is URL-safe base64 whose padding is replaced by its count (.NET's UrlTokenEncode), or
the plain form with `=`: learn.microsoft.com/azure/search/search-indexer-field-mappings, base64Encode.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, assert_never
from urllib.parse import unquote, urlsplit

from app.domain.query import ParentNames

_ALPHABET = re.compile(r"[A-Za-z0-9_-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def parent_of(row: Mapping[str, Any], path: str, decodings: Iterable[ParentNames] = ()) -> str | None:
    """The parent document of a row, None where it has none.

    `path` is a field, or `field/key` into a complex field or into a JSON object kept as a string.
    """
    value: Any = row
    for name in path.split("/"):
        value = _member(value, name)
    text = as_text(value)
    return None if text is None else decoded(text, decodings)


def as_text(value: Any) -> str | None:
    """A field's value as a string: None stays None, what is not a string is written as JSON.

    Half of a surrogate pair, which JSON can bring and no record can keep, becomes a visible escape.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "backslashreplace").decode()


def _member(value: Any, name: str) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value.get(name) if isinstance(value, Mapping) else None


def decoded(value: str, decodings: Iterable[ParentNames]) -> str:
    """The value after each decoding in turn; one that does not apply leaves it as it is."""
    for decoding in decodings:
        match decoding:
            case ParentNames.BASE64URL:
                value = _from_base64url(value)
            case ParentNames.FILE_NAME:
                value = _file_name(value)
            case _:
                assert_never(decoding)
    return value


def _from_base64url(value: str) -> str:
    """Digit for padding first: it is the indexers' default, and few values can be read both ways."""
    padded = (value[:-1] + "=" * int(value[-1]) if value[-1:] in ("0", "1", "2") else "", value)
    for each in padded:
        text = _decoded_base64(each)
        if text is not None:
            return text
    return value


def _decoded_base64(padded: str) -> str | None:
    """The text, None unless `padded` is exactly what encoding it would give, and it is printable."""
    body = padded.rstrip("=")
    if not body or len(padded) % 4 or not _ALPHABET.fullmatch(body):
        return None
    try:
        data = base64.urlsafe_b64decode(padded)
        text = data.decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    is_exact = base64.urlsafe_b64encode(data).decode() == padded
    return text if is_exact and not _CONTROL.search(text) else None


def _file_name(value: str) -> str:
    """The last segment of a URL's path (its query and fragment do not count) or of a file's path."""
    path = _url_path(value) if "://" in value else value.replace("\\", "/")
    segment = path.rstrip("/").rpartition("/")[2]
    try:
        return unquote(segment, errors="strict") or value
    except UnicodeDecodeError:
        return segment


def _url_path(value: str) -> str:
    """Empty where it is no URL after all."""
    try:
        return urlsplit(value).path
    except ValueError:
        return ""
