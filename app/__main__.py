"""The command line, `gate`. Heavy imports wait until a command needs them, so that help is there at once.

Exit status: 0 PASS, 1 FAIL, 2 everything else: a gate that did not run never looks green.
"""

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from app import VERSION

if TYPE_CHECKING:
    from app.settings import Settings

ERROR_STATUS = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="gate", message="%(prog)s %(version)s")
def gate() -> None:
    """A blue-green gate for Azure AI Search: ask two indexes the same questions before the switch."""


@gate.command()
@click.option("--candidate", metavar="NAME", help="The index that may go live.")
@click.option("--baseline", metavar="NAME", help="The index that users get now; left out: the live one.")
@click.option(
    "--golden",
    "golden",
    multiple=True,
    metavar="PATH_OR_NAME",
    help="A .jsonl file, or a deployed set's name. Repeatable: several sets are several runs.",
)
@click.option("--service", metavar="URL", help="Start the run there and wait for it (or GATE_SERVICE_URL).")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where run.json, report.html, report.md and junit.xml go.",
)
@click.option(
    "--passages/--no-passages",
    default=True,
    help="Whether those quote the documents; not where more people read them than may read the documents.",
)
@click.option(
    "--noise-runs", type=click.IntRange(min=0), metavar="N", help="Further observations of the baseline."
)
@click.option(
    "--confirm-runs",
    type=click.IntRange(min=0),
    metavar="N",
    help="Further observations of the candidate where they matter.",
)
@click.option("--noise-study", is_flag=True, help="Compare the candidate with itself.")
@click.option(
    "--slice", "slices", multiple=True, metavar="NAME", help="Only the questions of this slice. Repeatable."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop waiting after so long.",
)
@click.option(
    "--resume",
    metavar="RUN_ID",
    help="Go on with a run that was interrupted, or wait again for one of the service.",
)
@click.option("--idempotency-key", metavar="KEY", help="The same key and request start one run only.")
@click.option(
    "--change-kind",
    "kinds",
    multiple=True,
    type=click.Choice(["chunking", "embedding", "schema", "vector-search", "query", "content"]),
    help="What was changed. Repeatable.",
)
@click.option("--change-summary", metavar="TEXT")
@click.option("--commit", metavar="SHA")
@click.option("--build-id", metavar="ID")
@click.option("--build-url", metavar="URL")
def run(**options: object) -> None:
    """Compare CANDIDATE with BASELINE; the last line says PASS, FAIL or ERROR, and why."""
    from app.command import RunOptions, run_command

    settings = _settings()
    sys.exit(run_command(RunOptions(**options), settings))  # type: ignore[arg-type]


@gate.group()
def golden() -> None:
    """Golden sets."""


@golden.command("check")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="NAME",
    help="Look the set's documents up in this index or alias (GATE_SEARCH_ENDPOINT). Repeatable.",
)
def golden_check(path: Path, indexes: tuple[str, ...]) -> None:
    """Read a golden set as a run would, and list everything wrong with it.

    Status 0: nothing is wrong. 2: the set has faults, or an index lacks a document that it names, confuses two of
    them, or could not be asked. A document that cannot be verified is told, and leaves 0.
    """
    from app.command import check_command

    sys.exit(check_command(path, indexes, _settings() if indexes else None))


@gate.command()
@click.argument("run_id", metavar="RUN", required=False)
@click.option(
    "--policy",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A .toml file whose [policy] names the settings to replace.",
)
@click.option(
    "--since",
    metavar="DATE",
    type=click.DateTime(["%Y-%m-%d"]),
    help="All kept runs since that day (UTC), instead of one.",
)
def judge(run_id: str | None, policy: Path, since: datetime | None) -> None:
    """Decide a kept RUN again under another policy, without a query; nothing is kept of it."""
    from app.command import judge_command

    if (run_id is None) == (since is None):
        raise click.UsageError("name one RUN, or --since DATE for all of them")
    sys.exit(judge_command(run_id, policy, since, _settings()))


@gate.command()
def serve() -> None:
    """Serve the HTTP API and the pages (GATE_HOST, GATE_PORT)."""
    from app.command import serve_command

    sys.exit(serve_command(_settings(warn=False)))


def _settings(*, warn: bool = True) -> "Settings":
    from app.settings import read_settings, unknown

    if warn:
        for fault in unknown(os.environ):
            click.echo(f"warning: {fault}", err=True)
    return read_settings()


def main() -> None:
    """Run the command; whatever goes wrong leaves status 2 and says what it was."""
    from app.domain.errors import GateError

    try:
        gate(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(ERROR_STATUS)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(ERROR_STATUS)
    except GateError as error:
        for line in str(error).splitlines():
            click.echo(f"error: {line}", err=True)
        sys.exit(ERROR_STATUS)
    except Exception:  # noqa: BLE001 — Python's own status for it is 1, which here means FAIL
        import traceback

        traceback.print_exc()
        click.echo("error: this is a fault of the gate itself; the lines above say where", err=True)
        sys.exit(ERROR_STATUS)


if __name__ == "__main__":
    main()
