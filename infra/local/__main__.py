"""`python -m infra.local`: the local stand-ins. Commands import late, so that the command line starts at once."""

import sys
from functools import partial
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
@click.option(
    "--configuration-port",
    type=int,
    help="Port of the configuration stand-in; 0 takes a free one. Default: the next one after --port.",
)
def serve(
    *, host: str, port: int, folder: Path, api_key: str, threads: int, configuration_port: int | None
) -> None:
    """Serve the stand-ins of search and of configuration until stopped."""
    from infra.local import server  # noqa: PLC0415 - half a second of engines

    try:
        server.serve(
            host=host,
            port=port,
            folder=folder,
            api_key=api_key,
            threads=threads,
            configuration_port=configuration_port,
        )
    except server.CannotStartError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


@main.command()
@click.option(
    "--documents",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSONL, a document a line: id, title, text, perhaps region and status.",
)
@click.option("--index", required=True, help="Name of the index; one that is there is replaced.")
@click.option("--chunker", required=True, type=click.Choice(["fixed", "headings"]))
@click.option("--size", default=256, show_default=True, help="Most tokens of a chunk.")
@click.option("--overlap", default=0, show_default=True, help="Tokens shared by neighbours (fixed only).")
@click.option(
    "--least", default=0, show_default=True, help="Join sections shorter than this (headings only)."
)
@click.option(
    "--path",
    default="title",
    show_default=True,
    type=click.Choice(["title", "chunk"]),
    help="The field that gets the path of headings (headings only).",
)
@click.option("--model", required=True, help="Embedding deployment: wordllama-256, bge-small-en-v1.5 …")
@click.option("--analyzer", default="en.lucene", show_default=True)
@click.option("--endpoint", default="http://127.0.0.1:8300", show_default=True)
@click.option("--api-key", default="local-search-key", show_default=True, envvar="LOCAL_SEARCH_API_KEY")
def build(
    *,
    documents: Path,
    index: str,
    chunker: str,
    size: int,
    overlap: int,
    least: int,
    path: str,
    model: str,
    analyzer: str,
    endpoint: str,
    api_key: str,
) -> None:
    """Build an index of documents on a stand-in that is being served."""
    from infra.local import build as builder  # noqa: PLC0415 - the search client and a tokenizer

    try:
        recipe = builder.Recipe(
            chunker=builder.Chunker(chunker),
            size=size,
            overlap=overlap,
            least=least,
            path=builder.PathPlace(path),
            model=model,
            analyzer=analyzer,
        )
        target = builder.Target(endpoint=endpoint, api_key=api_key)
        builder.build(target, index, builder.read_documents(documents), recipe, partial(click.echo, err=True))
    except builder.BuildError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


@main.command()
@click.option(
    "--folder",
    default=Path(".local/demo"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where indexes, scores, runs and reports are kept.",
)
def demo(folder: Path) -> None:
    """Gate two candidates of a company's handbook against the index its users get now."""
    from infra.local import demo as show  # noqa: PLC0415 - the search client and a tokenizer
    from infra.local.build import BuildError  # noqa: PLC0415 - the same

    try:
        sys.exit(show.demo(folder))
    except (BuildError, show.DemoError) as error:
        click.echo(str(error), err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
