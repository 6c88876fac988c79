"""The locks hold what the project asks for, by hash, and name no index."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUN = PROJECT["project"]["dependencies"]
MONITOR = [*RUN, *PROJECT["project"]["optional-dependencies"]["monitor"]]
ALL = [*MONITOR, *(each for group in PROJECT["dependency-groups"].values() for each in group)]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(file: str) -> dict[str, str]:
    """Versions by name."""
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    return {
        normal(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE)
    }


@pytest.mark.parametrize(("file", "asked"), [("run.txt", RUN), ("monitor.txt", MONITOR), ("dev.txt", ALL)])
def test_everything_that_is_asked_for_is_locked(file: str, asked: list[str]) -> None:
    names = {normal(re.split(r"[\[<>=!~ ;]", each)[0]) for each in asked}
    assert names <= locked(file).keys()


@pytest.mark.parametrize("file", ["run.txt", "monitor.txt"])
def test_what_runs_is_what_was_tested(file: str) -> None:
    run, dev = locked(file), locked("dev.txt")
    assert {name: dev.get(name) for name in run} == run


@pytest.mark.parametrize("file", ["run.txt", "monitor.txt", "dev.txt"])
def test_locks_name_no_index(file: str) -> None:
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    assert "://" not in text
    assert text.count("--hash=sha256:") >= len(locked(file))
