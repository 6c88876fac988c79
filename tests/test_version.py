"""The version stands in two places; they agree."""

import tomllib
from pathlib import Path

from app import VERSION


def test_the_package_and_the_project_have_one_version() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == VERSION
