"""Golden sets in a folder."""

from pathlib import Path

import pytest

from app.adapters.golden_files import GoldenFolder, read_golden_files
from app.domain.errors import InputError, NotFoundError
from app.domain.reading import read_golden_set

LINE = '{"id": "q1", "question": "How long is the notice?", "answers": ["d1"]}'


def test_texts_are_kept_as_they_stand_in_the_files(tmp_path: Path) -> None:
    """Byte for byte, so that a patch against what a run received fits the file."""
    data = f"\ufeff{LINE}\r\n\r\n".encode()
    (tmp_path / "hr.jsonl").write_bytes(data)
    (tmp_path / "hr.toml").write_bytes(b'\xef\xbb\xbfowner = "hr"\r\n')
    texts = GoldenFolder(tmp_path).texts("hr")
    assert texts.jsonl.encode() == data
    assert texts.toml == '\ufeffowner = "hr"\r\n'
    assert read_golden_set(texts).owner == "hr"


def test_sets_are_the_files_with_a_name_that_can_be_asked_for(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "a.toml", "notes.md", ".hidden.jsonl", "two words.jsonl"):
        (tmp_path / name).write_text("", encoding="utf-8")
    folder = GoldenFolder(tmp_path)
    assert folder.names() == ("a", "b")
    assert GoldenFolder(tmp_path / "nowhere").names() == ()
    for name in ("c", "../a", "two words", "a.jsonl"):
        with pytest.raises(NotFoundError, match=r"there are: a, b"):
            folder.texts(name)


def test_what_cannot_be_read_is_refused_by_its_path(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(InputError, match="cannot be read") as refused:
            read_golden_files(path)
        assert refused.value.faults[0].where == str(path)
    (tmp_path / "old.jsonl").write_bytes(LINE.encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16"):
        read_golden_files(tmp_path / "old.jsonl")
