from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import SEARCH_KEY, Gate
from tests.scripted import ScriptedSearch


@pytest.fixture
def search() -> Iterator[ScriptedSearch]:
    """The indexes kb-v1 and kb-v2, which show the document d1 on rank 2 unless a test says otherwise."""
    with ScriptedSearch(key=SEARCH_KEY) as service:
        for name in ("kb-v1", "kb-v2"):
            service.index(name, otherwise=["x", "d1", "x", "x", "x", "x", "x", "x"])
        yield service


@pytest.fixture
def gate(tmp_path: Path, search: ScriptedSearch) -> Gate:
    return Gate(folder=tmp_path, search=search)
