"""The command line, `gate`. Heavy imports wait until a command needs them, so that help is there at once.

Exit status: 0 PASS, 1 FAIL, 2 everything else: a gate that did not run never looks green.
"""

import gc
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


_service = click.option(
    "--service", metavar="URL", help="The gate's service (or GATE_SERVICE_URL, with how to sign in to it)."
)


@gate.command()
@_service
@click.option(
    "--name", "name_only", is_flag=True, help="Nothing but the name of the live index, for scripts."
)
def live(service: str | None, *, name_only: bool) -> None:
    """What is live, since when and by which run, and what could be returned to."""
    from app.operate import live_command

    sys.exit(live_command(_settings(), service, name_only=name_only))


@gate.command()
@click.argument("run_id")
@_service
@click.option("--check", is_flag=True, help="Only say whether the run is cleared, and what is not.")
@click.option("--create", is_flag=True, help="Make the key or alias where it does not exist yet.")
@click.option("--reason", metavar="TEXT", help="For the audit, if there is more to say than the run does.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop waiting for the watch after so long.",
)
def promote(service: str | None, **options: object) -> None:
    """Make the candidate of RUN_ID the live index, and wait until its critical questions hold there.

    Status 0: it is live, and they hold. 1: the run is not cleared, live was changed in between, or the watch
    failed. 2: anything else.
    """
    from app.operate import Promoting, promote_command

    sys.exit(promote_command(_settings(), service, Promoting(**options)))  # type: ignore[arg-type]


@gate.command()
@_service
@click.option("--to", metavar="INDEX", help="Another index than the one before the last promotion.")
@click.option(
    "--confirm-live", metavar="INDEX", help="The live index, where it was changed by hand: that it may go."
)
@click.option("--drill", is_flag=True, help="Everything but the write; says what would have happened.")
@click.option("--reason", metavar="TEXT", help="For the audit.")
def rollback(service: str | None, **options: object) -> None:
    """Make the index live again that was live before the last promotion. Needs no verdict.

    Status 0: done, or the drill went well. 1: refused, with what to do. 2: anything else.
    """
    from app.operate import RollingBack, rollback_command

    sys.exit(rollback_command(_settings(), service, RollingBack(**options)))  # type: ignore[arg-type]


@gate.command()
@_service
def retire(service: str | None) -> None:
    """Name the indexes that are of no use any more, as advice. Nothing is ever deleted."""
    from app.operate import retire_command

    sys.exit(retire_command(_settings(), service))


@gate.group(invoke_without_command=True)
@click.pass_context
@_service
def audit(context: click.Context, service: str | None) -> None:
    """What was done to the live index, by whom and why, the newest first."""
    from app.operate import audit_command

    if context.invoked_subcommand is None:
        sys.exit(audit_command(_settings(), service))


@audit.command("verify")
@_service
def audit_verify(service: str | None) -> None:
    """Check every link of the audit. Status 0: it is whole. 2: it is not; every broken link is named."""
    from app.operate import verify_command

    sys.exit(verify_command(_settings(), service))


@gate.command()
def serve() -> None:
    """Serve the HTTP API and the pages (GATE_HOST, GATE_PORT)."""
    gc.disable()  # until it serves: nothing that is loaded by then is ever let go
    from app.command import serve_command

    sys.exit(serve_command())


def _settings() -> "Settings":
    from app.settings import read_settings, unknown

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
