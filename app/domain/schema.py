"""How values become JSON and come back: by their kinds alone."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")

_made: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """Reads and writes values of this kind. Made when it is first asked for: most are never needed in one process,
    and making them would take a good part of every start.
    """
    return _made(kind)
