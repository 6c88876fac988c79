"""What a scanner of infrastructure finds in the Bicep files. It knows neither Container Apps nor App Configuration, and
is no substitute for test_bicep.py; each finding that is let stand carries its reason in the file.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
VERSION = "3.3.30"
HOME = ROOT / ".tools" / f"checkov-{VERSION}"  # beside our own packages it would pin others' versions

pytestmark = pytest.mark.timeout(900)  # the first time it is installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    status: int
    failed: frozenset[str]
    skipped: dict[str, str]
    passed: int
    unread: list[str]


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter that has the scanner."""
    HOME.parent.mkdir(exist_ok=True)
    python, installed = HOME / "bin" / "python", HOME / "installed"
    with HOME.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists():
            shutil.rmtree(HOME, ignore_errors=True)
            pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            commands: tuple[tuple[str | Path, ...], ...] = (
                (sys.executable, "-m", "venv", HOME),
                (*pip, f"checkov=={VERSION}"),
            )
            for command in commands:
                ended = subprocess.run(command, capture_output=True, text=True, check=False)
                if ended.returncode != 0:
                    cannot_scan(ended.stderr)
            installed.touch()
    return python


def cannot_scan(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(f"THE BICEP FILES ARE NOT SCANNED: {reason}")


def scanned(python: Path, folder: Path) -> Found:
    ended = subprocess.run(
        [python, "-m", "checkov.main", "-d", folder, "--framework", "bicep", "--output", "json"],
        env={**os.environ, "LOG_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout, ended.stderr
    results: dict[str, Any] = json.loads(ended.stdout)["results"]
    return Found(
        status=ended.returncode,
        failed=frozenset(each["check_id"] for each in results["failed_checks"]),
        skipped={
            each["check_id"]: each["check_result"]["suppress_comment"] for each in results["skipped_checks"]
        },
        passed=len(results["passed_checks"]),
        unread=results["parsing_errors"],
    )


def test_the_scanner_finds_nothing_that_is_not_meant(python: Path) -> None:
    found = scanned(python, INFRA)
    assert (found.status, found.failed, found.unread) == (0, frozenset(), [])
    assert found.passed > 0
    assert set(found.skipped) == {"CKV_AZURE_35", "CKV_AZURE_43", "CKV_AZURE_131", "CKV_AZURE_206"}
    assert all(len(reason) > 40 for reason in found.skipped.values())


def test_the_scanner_refuses_a_spoilt_copy(python: Path, tmp_path: Path) -> None:
    """A file that it cannot read leaves the status of one without faults: what it could not read has to be asked."""
    text = (INFRA / "main.bicep").read_text(encoding="utf-8")
    (tmp_path / "main.bicep").write_text(text.replace("'TLS1_2'", "'TLS1_0'"), encoding="utf-8")
    (tmp_path / "broken.bicep").write_text("resource {{", encoding="utf-8")
    found = scanned(python, tmp_path)
    assert found.failed == {"CKV_AZURE_44"}
    assert [Path(each).name for each in found.unread] == ["broken.bicep"]
