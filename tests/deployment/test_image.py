"""The Dockerfile and what reaches its build. The image itself is built and started by `make image`."""

import json
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from app import settings
from infra.local import image

ROOT = Path(__file__).parents[2]
HADOLINT = Path(sysconfig.get_path("scripts")) / "hadolint"


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """(instruction, rest), continuation lines joined, comments left out."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines()]


@pytest.fixture(scope="module")
def last_stage(instructions: list[tuple[str, str]]) -> list[tuple[str, str]]:
    starts = [number for number, (name, _) in enumerate(instructions) if name == "FROM"]
    return instructions[starts[-1] :]


def lint(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HADOLINT, "--no-color", file], capture_output=True, text=True, check=False)


def test_hadolint_finds_nothing() -> None:
    result = lint(ROOT / "Dockerfile")
    assert (result.returncode, result.stdout) == (0, "")


def test_hadolint_refuses_a_spoilt_copy(tmp_path: Path) -> None:
    spoilt = tmp_path / "Dockerfile"
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    spoilt.write_text(text.replace("USER 10001", "USER root"), encoding="utf-8")
    result = lint(spoilt)
    assert result.returncode == 1
    assert "DL3002" in result.stdout


def test_the_base_can_be_replaced(instructions: list[tuple[str, str]]) -> None:
    assert instructions[0] == ("ARG", "PYTHON_IMAGE=python:3.11-slim-bookworm")
    bases = [rest.split(" ")[0] for name, rest in instructions if name == "FROM"]
    assert bases == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]


def test_packages_are_checked_against_their_hashes(instructions: list[tuple[str, str]]) -> None:
    installs = [rest for name, rest in instructions if name == "RUN" and "pip install" in rest]
    assert len(installs) == 1
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(installs[0].split())
    copies = [rest for name, rest in instructions if name == "COPY"]
    assert copies[0] == "requirements/monitor.txt ./", "what the telemetry needs is in it, and off unless set"


def test_the_image_holds_the_application_and_its_golden_sets_only(last_stage: list[tuple[str, str]]) -> None:
    copies = [rest for name, rest in last_stage if name in {"COPY", "ADD"}]
    assert copies == ["--from=packages /venv /venv", "app ./app", "golden ./golden"]


def test_no_start_compiles_the_application(last_stage: list[tuple[str, str]]) -> None:
    after = last_stage.index(("COPY", "app ./app"))
    before = next(place for place, (name, _) in enumerate(last_stage) if name == "USER")
    assert ("RUN", "python -m compileall -q app") in last_stage[after:before]


def test_only_those_files_reach_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules == ["*", "!app", "!golden", "!requirements/monitor.txt", "**/__pycache__"]


def test_the_process_is_nobody_and_gets_the_signals(last_stage: list[tuple[str, str]]) -> None:
    said = dict(last_stage)
    assert said["USER"].isdigit()
    assert said["USER"] != "0"
    assert json.loads(said["ENTRYPOINT"]) == ["python", "-m", "app", "serve"]
    assert said["STOPSIGNAL"] == "SIGTERM"
    assert "CMD" not in said


def test_it_listens_on_the_port_that_it_exposes(last_stage: list[tuple[str, str]]) -> None:
    said = dict(last_stage)
    environment = dict(pair.split("=", 1) for pair in said["ENV"].split())
    assert environment["GATE_HOST"] == "0.0.0.0"  # noqa: S104 within a container
    assert environment["GATE_PORT"] == said["EXPOSE"]
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_the_image_is_tried_with_settings_that_there_are() -> None:
    assert set(image._SETTINGS) <= set(settings.variables())
