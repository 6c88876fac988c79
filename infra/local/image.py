"""Builds the image and runs it, with no container engine and no registry: `python -m infra.local.image`.

The base is a Debian that is made here, once. The image is started as a platform would: its own entry point,
variables and user, as process 1, without capabilities, on a root that cannot be written to, with a temporary folder.
It is up when /healthz answers, and is stopped with SIGTERM. Sizes and times are printed.

Wants root, on a Debian: apt-get install --no-install-recommends buildah debootstrap runc
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
BASE = "localhost/python-base:bookworm"
IMAGE = "localhost/search-index-gate:local"
NAME = "search-index-gate"

_READY_SECONDS = 60.0
_STOP_SECONDS = 60.0  # the grace period of infra/main.bicep
_ENVIRONMENT = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
# What lets a build reach its packages from behind this machine's own settings; nothing of it stays in the image.
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

# How the service runs where nobody can sign in: on loopback, before a search service that is not there.
_SETTINGS = {
    "GATE_AUTH": "none",
    "GATE_HOST": "127.0.0.1",
    "GATE_RUNS_URL": "file:///tmp/runs",
    "GATE_SEARCH_ENDPOINT": "https://search.invalid",
}


class ImageError(Exception):
    """The image could not be built, or does not do what it should."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if not _known(BASE):
            at = time.monotonic()
            _make_base(work / "base")
            _say("base made", _seconds(at))
        at = time.monotonic()
        _buildah(
            *("bud", "--quiet", "--network", "host", "--build-arg", f"PYTHON_IMAGE={BASE}"),
            *("--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro", "--tag", IMAGE, str(ROOT)),
        )
        _say("image built", _seconds(at))
        with _mounted(IMAGE) as root:
            _say("packages", _size(root / "venv"))
            _say("application and golden sets", _size(root / "srv"))
            _say("whole file system", _size(root))
            _run(root, _configuration(IMAGE), work)


def _known(image: str) -> bool:
    command = ["buildah", "inspect", "--type", "image", image]
    ended = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, check=False)  # noqa: S603 — our own
    return ended.returncode == 0


def _make_base(root: Path) -> None:
    packages = "python3,python3-venv,ca-certificates"
    _output("debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root))
    made = _buildah("from", "scratch")
    _buildah("add", "--quiet", made, str(root), "/")
    _buildah("config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", made)
    _buildah("commit", "--quiet", "--rm", made, BASE)


@contextmanager
def _mounted(image: str) -> Iterator[Path]:
    container = _buildah("from", image)
    try:
        yield Path(_buildah("mount", container))
    finally:
        _buildah("rm", container)


def _configuration(image: str) -> Mapping[str, Any]:
    """The image's own words on how it is to be run."""
    found = json.loads(_buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    if not found["User"].isdigit() or found["User"] == "0":
        raise ImageError(f"the image's user is {found['User']!r}: not a number, or root")
    return dict(found)


def _run(root: Path, image: Mapping[str, Any], work: Path) -> None:
    port = _free_port()
    user = int(image["User"])
    environment = [
        *image["Env"],
        *(f"{name}={value}" for name, value in _SETTINGS.items()),
        f"GATE_PORT={port}",
    ]
    _output("runc", "spec", at=work)
    spec = json.loads((work / "config.json").read_text(encoding="utf-8"))
    spec["process"] |= {
        "terminal": False,
        "user": {"uid": user, "gid": user},
        "args": image["Entrypoint"],
        "env": environment,
        "cwd": image["WorkingDir"],
        "capabilities": {},
        "noNewPrivileges": True,
    }
    spec["root"] = {"path": str(root), "readonly": True}
    spec["mounts"].append(
        {
            "destination": "/tmp",  # noqa: S108 — the container's own
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777"],
        }
    )
    kinds = [each for each in spec["linux"]["namespaces"] if each["type"] != "network"]
    spec["linux"]["namespaces"] = kinds  # the loopback of this machine, to be asked from outside
    (work / "config.json").write_text(json.dumps(spec), encoding="utf-8")

    log, runc = work / "log", ("runc", "--root", str(work / "runc"))
    at = time.monotonic()
    with (
        log.open("wb") as out,
        subprocess.Popen([*runc, "run", NAME], cwd=work, stdout=out, stderr=out) as process,  # noqa: S603 — our own
    ):
        try:
            _until_up(f"http://127.0.0.1:{port}/healthz", process, log)
            _say("start until /healthz answers", _seconds(at))
            first = int(json.loads(_output(*runc, "state", NAME))["pid"])
            _say("memory of the process", _resident(first))
            _say("user of the process", str(Path(f"/proc/{first}").stat().st_uid))
            _say("root file system", _root_options(first))
            at = time.monotonic()
            _output(*runc, "kill", NAME, "SIGTERM")
            status = process.wait(_STOP_SECONDS)
            _say("SIGTERM until the end", f"{_seconds(at)}, status {status}")
        finally:
            process.kill()
            with suppress(ImageError):  # it is gone where all went well
                _output(*runc, "delete", "--force", NAME)
    if status != 0:
        raise ImageError(f"it ended with status {status}: {log.read_text(encoding='utf-8')}")


def _until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _READY_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with suppress(httpx.TransportError):
            if httpx.get(url, timeout=1, trust_env=False).is_success:
                return
        time.sleep(0.02)
    raise ImageError(f"{url} does not answer: {log.read_text(encoding='utf-8')}")


def _root_options(process: int) -> str:
    """`ro` where the process cannot write to its root; ImageError where it can."""
    mounts = Path(f"/proc/{process}/mountinfo").read_text(encoding="utf-8").splitlines()
    options = next(fields[5] for fields in map(str.split, mounts) if fields[4] == "/")
    if "ro" not in options.split(","):
        raise ImageError(f"the root can be written to: {options}")
    return options


def _resident(process: int) -> str:
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return f"{int(kilobytes) / 1024:.0f} MiB"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _size(folder: Path) -> str:
    return f"{int(_output('du', '-s', '--block-size=1M', str(folder)).split()[0])} MiB"


def _seconds(since: float) -> str:
    return f"{time.monotonic() - since:.1f} s"


def _say(what: str, value: str) -> None:
    print(f"{what:<30} {value}", flush=True)


def _buildah(*arguments: str) -> str:
    return _output("buildah", *arguments)


def _output(*command: str, at: Path = ROOT) -> str:
    return _checked(command, at).stdout.strip()


def _checked(command: Sequence[str], at: Path) -> subprocess.CompletedProcess[str]:
    try:
        ended = subprocess.run(  # noqa: S603 — our own commands
            command, cwd=at, env=_ENVIRONMENT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise ImageError(f"{command[0]} is not installed: apt-get install buildah debootstrap runc") from None
    if ended.returncode != 0:
        raise ImageError(f"{' '.join(command)}: {ended.stderr or ended.stdout}")
    return ended


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        main()
    except ImageError as error:
        sys.exit(f"error: {error}")
