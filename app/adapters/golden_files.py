"""Golden sets in a folder: `<name>.jsonl` with `<name>.toml` beside it."""

import re
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import Fault, InputError, NotFoundError
from app.domain.golden import GoldenTexts
from app.domain.reading import decoded

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class GoldenFolder:
    """The deployed sets."""

    folder: Path

    def names(self) -> tuple[str, ...]:
        """The sets' names, sorted; none where the folder is not there."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.jsonl") if _NAME.fullmatch(path.stem)))

    def texts(self, name: str) -> GoldenTexts:
        """The set's texts. NotFoundError for an unknown name, InputError for another encoding."""
        if name not in self.names():
            have = ", ".join(self.names()) or "none"
            raise NotFoundError(f"There is no golden set {name!r} in {self.folder}; there are: {have}.")
        return read_golden_files(self.folder / f"{name}.jsonl")


def read_golden_files(path: Path) -> GoldenTexts:
    """The texts of a `.jsonl` file and of the `.toml` beside it. InputError if they cannot be read."""
    jsonl = _text(path)
    beside = path.with_suffix(".toml")
    return GoldenTexts(name=path.stem, jsonl=jsonl, toml=_text(beside) if beside.exists() else None)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise InputError([Fault(where=str(path), message=message)]) from None
    return decoded(data, str(path))
