"""`python -m infra.local`: the local stand-ins. Commands import late, so that the command line starts at once."""

import sys
from pathlib import Path

import click


@click.group()
def main() -> None:
    """Azure AI Search and what goes with it, on this machine."""


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8300, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option(
    "--folder",
    default=Path(".local/search"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where indexes and documents are kept.",
)
@click.option(
    "--api-key",
    default="local-search-key",
    show_default=True,
    envvar="LOCAL_SEARCH_API_KEY",
    help="The key clients must send; also LOCAL_SEARCH_API_KEY.",
)
@click.option("--threads", default=2, show_default=True, help="Threads a model may use.")
def serve(host: str, port: int, folder: Path, api_key: str, threads: int) -> None:
    """Serve the search stand-in until stopped."""
    from infra.local import server  # noqa: PLC0415 - half a second of engines

    try:
        server.serve(host=host, port=port, folder=folder, api_key=api_key, threads=threads)
    except server.PortTakenError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
