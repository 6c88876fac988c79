"""Builds an index of a set of documents: cut, embedded, uploaded through the official SDK, counted.

    documents -> chunks -> rows -> embeddings (POST /openai/deployments/{model}/embeddings) -> index

An index carries the digest of what it was built from in its description. Building it again from the same
documents by the same recipe finds it there and does nothing.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError, ServiceRequestError
from azure.search.documents import SearchClient
from azure.search.documents.indexes import SearchIndexClient
from azure.search.documents.indexes.models import (
    AzureOpenAIVectorizer,
    AzureOpenAIVectorizerParameters,
    HnswAlgorithmConfiguration,
    SearchField,
    SearchIndex,
    SemanticConfiguration,
    SemanticField,
    SemanticPrioritizedFields,
    SemanticSearch,
    VectorSearch,
    VectorSearchProfile,
)
from tokenizers import Tokenizer

from infra.local.chunkers import Chunk, Document, Span, Tokens, by_headings, by_size
from infra.local.models import BERT_TOKENIZER

_EMBEDDING_BATCH = 32
_UPLOAD_BATCH = 200
_REQUEST_SECONDS = 120.0
_COUNT_SECONDS = 30.0
_COUNT_PAUSE_SECONDS = 0.2
_SAFE_KEY = re.compile(r"(?!_)[A-Za-z0-9_\-=]{1,1000}")
_EMBEDDING_API = "2024-10-21"
_MODEL_HOST = "https://stand-in.invalid"  # where the vectorizer's deployments would be; never called


class BuildError(Exception):
    """The index was not built; the message says why."""


class Chunker(StrEnum):
    FIXED = "fixed"
    HEADINGS = "headings"


class PathPlace(StrEnum):
    """Where the path of headings goes. Embedded it is in either case."""

    CHUNK = "chunk"
    """Above the chunk's text; the title field holds the document's title."""
    TITLE = "title"
    """Into the title field, in place of the document's title, which it begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How documents become an index. Sizes in word pieces of the BERT vocabulary.

    `overlap` is of fixed chunks; `least` and `path` are of those by headings.
    """

    chunker: Chunker
    size: int
    overlap: int = 0
    least: int = 0
    path: PathPlace = PathPlace.TITLE
    model: str
    analyzer: str

    def __str__(self) -> str:
        if self.chunker is Chunker.FIXED:
            more = f"overlapping by {self.overlap}"
        else:
            more = f"at least {self.least}, path in the {self.path}"
        return f"{self.chunker} {self.size} tokens, {more}; {self.model}; {self.analyzer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The service to build on: search and embeddings at one address, as the stand-in has them."""

    endpoint: str
    api_key: str


Report = Callable[[str], None]
"""Takes one line of progress."""


def build(target: Target, name: str, documents: Sequence[Document], recipe: Recipe, report: Report) -> int:
    """The number of rows of the index, which is complete when this returns. `BuildError` otherwise.

    An index of that name that was built of anything else is replaced.
    """
    with _explained(name):
        chunks = chunked(documents, recipe)
        rows = [_row(chunk, recipe) for chunk in chunks]
        _check(rows, documents)
        digest = _digest(recipe, rows)
        credential = AzureKeyCredential(target.api_key)
        with (
            SearchIndexClient(target.endpoint, credential) as indexes,
            SearchClient(target.endpoint, name, credential) as search,
        ):
            if _is_built(indexes, search, name, digest, len(rows)):
                report(f"{name}: {len(rows)} chunks, unchanged ({recipe})")
                return len(rows)
            report(f"{name}: {len(rows)} chunks of {len(documents)} documents ({recipe})")
            vectors = _embedded(
                target, recipe.model, [_embedded_text(chunk, recipe) for chunk in chunks], report
            )
            index = _definition(name, recipe, len(vectors[0]), f"Built from {digest}")
            with contextlib.suppress(ResourceNotFoundError):
                indexes.delete_index(name)
            indexes.create_index(index)
            _upload(
                search, [row | {"text_vector": vector} for row, vector in zip(rows, vectors, strict=True)]
            )
            _wait_for(search, len(rows))
            report(f"{name}: built")
            return len(rows)


def chunked(documents: Iterable[Document], recipe: Recipe) -> list[Chunk]:
    tokens = word_pieces()
    chunks: list[Chunk] = []
    for document in documents:
        if recipe.chunker is Chunker.FIXED:
            chunks += by_size(document, tokens, size=recipe.size, overlap=recipe.overlap)
        else:
            chunks += by_headings(document, tokens, size=recipe.size, least=recipe.least)
    return chunks


def word_pieces() -> Tokens:
    """The tokenizer of the BERT models, which the embedding models and the ranker read with."""
    tokenizer = Tokenizer.from_file(str(BERT_TOKENIZER.locate()))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def tokens(text: str) -> Sequence[Span]:
        offsets: Sequence[Span] = tokenizer.encode(text, add_special_tokens=False).offsets
        return offsets

    return tokens


def read_corpus(folder: Path) -> list[Document]:
    """The Markdown files below a folder, by id; `metadata.json` gives their region and status.

    A file's name is its document's id, its first line (`# …`) the title.
    """
    metadata = json.loads((folder / "metadata.json").read_text("utf-8"))
    documents = []
    for path in sorted(folder.rglob("*.md"), key=lambda path: path.stem):
        text = path.read_text("utf-8")
        known = metadata[path.stem]
        documents.append(
            Document(
                id=path.stem,
                title=text.partition("\n")[0].removeprefix("# ").strip(),
                text=text,
                region=known["region"],
                status=known["status"],
            )
        )
    return documents


def read_documents(path: Path) -> list[Document]:
    """The documents of a JSONL file, `{id, title, text}` and perhaps region and status. `BuildError` by line."""
    documents = []
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"cannot read {path}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                documents.append(_document(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                raise BuildError(f"{path}:{number}: not a document {{id, title, text}}: {error!r}") from error
    return documents


def _document(given: dict[str, Any]) -> Document:
    return Document(
        id=str(given["id"]),
        title=str(given["title"]),
        text=str(given["text"]),
        region=given.get("region"),
        status=given.get("status"),
    )


def _row(chunk: Chunk, recipe: Recipe) -> dict[str, str | None]:
    document = chunk.document
    in_title = recipe.path is PathPlace.TITLE
    return {
        "chunk_id": f"{_key(document.id)}-{chunk.ordinal}",
        "parent_id": document.id,
        "title": chunk.path if in_title else document.title,
        "chunk": chunk.text if in_title or recipe.chunker is Chunker.FIXED else _under_path(chunk),
        "region": document.region,
        "status": document.status,
    }


def _embedded_text(chunk: Chunk, recipe: Recipe) -> str:
    return chunk.text if recipe.chunker is Chunker.FIXED else _under_path(chunk)


def _under_path(chunk: Chunk) -> str:
    return f"{chunk.path}\n\n{chunk.text}"


def _key(document_id: str) -> str:
    """The id where a key may look so, else its URL-safe base64."""
    if _SAFE_KEY.fullmatch(document_id):
        return document_id
    return "b64-" + base64.urlsafe_b64encode(document_id.encode()).decode()


def _check(rows: Sequence[dict[str, str | None]], documents: Sequence[Document]) -> None:
    twice = [each for each, count in Counter(document.id for document in documents).items() if count > 1]
    if twice:
        raise BuildError(f"more than one document has the id {', '.join(sorted(twice)[:5])}")
    if not rows:
        raise BuildError("there is nothing to index: no document has any text")


def _digest(recipe: Recipe, rows: Sequence[dict[str, str | None]]) -> str:
    """Names everything the index is made of, dimensions aside: they are the model's."""
    definition = _definition("any", recipe, 2, "").as_dict()
    canonical = json.dumps([asdict(recipe), definition, rows], sort_keys=True, ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _definition(name: str, recipe: Recipe, dimensions: int, description: str) -> SearchIndex:
    """The fields that the portal's import wizard makes, and two more to filter by."""
    return SearchIndex(
        name=name,
        description=description,
        fields=[
            SearchField(
                name="chunk_id", type="Edm.String", key=True, searchable=True, analyzer_name="keyword"
            ),
            SearchField(name="parent_id", type="Edm.String", searchable=False, filterable=True),
            SearchField(name="chunk", type="Edm.String", searchable=True, analyzer_name=recipe.analyzer),
            SearchField(name="title", type="Edm.String", searchable=True, analyzer_name=recipe.analyzer),
            SearchField(name="region", type="Edm.String", searchable=False, filterable=True),
            SearchField(name="status", type="Edm.String", searchable=False, filterable=True),
            SearchField(
                name="text_vector",
                type="Collection(Edm.Single)",
                searchable=True,
                stored=False,
                hidden=True,
                vector_search_dimensions=dimensions,
                vector_search_profile_name="default",
            ),
        ],
        vector_search=VectorSearch(
            algorithms=[HnswAlgorithmConfiguration(name="hnsw")],
            profiles=[
                VectorSearchProfile(
                    name="default", algorithm_configuration_name="hnsw", vectorizer_name=recipe.model
                )
            ],
            vectorizers=[
                AzureOpenAIVectorizer(
                    vectorizer_name=recipe.model,
                    parameters=AzureOpenAIVectorizerParameters(
                        resource_url=_MODEL_HOST, deployment_name=recipe.model, model_name=recipe.model
                    ),
                )
            ],
        ),
        semantic_search=SemanticSearch(
            default_configuration_name="default",
            configurations=[
                SemanticConfiguration(
                    name="default",
                    prioritized_fields=SemanticPrioritizedFields(
                        title_field=SemanticField(field_name="title"),
                        content_fields=[SemanticField(field_name="chunk")],
                    ),
                )
            ],
        ),
    )


def _is_built(indexes: SearchIndexClient, search: SearchClient, name: str, digest: str, rows: int) -> bool:
    try:
        description = indexes.get_index(name).description
    except ResourceNotFoundError:
        return False
    return description == f"Built from {digest}" and search.get_document_count() == rows


def _embedded(target: Target, model: str, texts: Sequence[str], report: Report) -> list[list[float]]:
    """One vector a text, in their order."""
    vectors: list[list[float]] = []
    with httpx.Client(timeout=_REQUEST_SECONDS, headers={"api-key": target.api_key}) as client:
        for batch in _batches(texts, _EMBEDDING_BATCH):
            response = client.post(
                f"{target.endpoint.rstrip('/')}/openai/deployments/{model}/embeddings",
                params={"api-version": _EMBEDDING_API},
                json={"input": batch},
            )
            if response.is_error:
                raise BuildError(
                    f"the model {model} gave no embeddings: {response.status_code} {response.text[:300]}"
                )
            data = sorted(response.json()["data"], key=lambda part: part["index"])
            vectors += [part["embedding"] for part in data]
            report(f"  embedded {len(vectors)} of {len(texts)}")
    return vectors


def _upload(search: SearchClient, rows: Sequence[dict[str, Any]]) -> None:
    for batch in _batches(rows, _UPLOAD_BATCH):
        refused = [result for result in search.upload_documents(batch) if not result.succeeded]
        if refused:
            raise BuildError(
                f"{len(refused)} of {len(batch)} rows were refused; {refused[0].key}: {refused[0].error_message}"
            )


def _wait_for(search: SearchClient, rows: int) -> None:
    """The count follows the upload after a moment."""
    end = time.monotonic() + _COUNT_SECONDS
    while (count := search.get_document_count()) != rows:
        if time.monotonic() > end:
            raise BuildError(f"the index counts {count} rows; {rows} were uploaded")
        time.sleep(_COUNT_PAUSE_SECONDS)


def _batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Every way a service can fail, as one error that names the index."""
    try:
        yield
    except (BuildError, ValueError) as error:
        raise BuildError(f"{name}: {error}") from error
    except HttpResponseError as error:
        raise BuildError(f"{name}: the search service refused: {error.message}") from error
    except (ServiceRequestError, httpx.HTTPError) as error:
        raise BuildError(f"{name}: the service cannot be reached: {error}") from error
