"""Real documents indexed in two ways on the stand-in: what changed is named by kind, without being told.

Each case builds a baseline and a candidate, takes both inventories through the real client, and compares.
"""

import asyncio
import itertools
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.search.documents.indexes import SearchIndexClient
from azure.search.documents.indexes.models import HnswAlgorithmConfiguration, HnswParameters

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.change import ChangeKind
from app.domain.difference import Difference
from app.domain.differences import Facts, change_checks, differences, kinds
from app.domain.index import resolve
from app.domain.query import QuerySettings
from app.gate.inventory import gather_facts
from infra.local.build import Chunker, PathPlace, Recipe, Target, build, read_corpus, read_documents
from infra.local.chunkers import Document
from infra.local.demo import CORPUS
from tests.e2e.programs import ROOT

DATA = ROOT.parent / "shared" / "data"
KEY = "a-key-for-tests"
QUERY = QuerySettings(semantic=False)

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the data sets are not at {DATA}")

FIXED = Recipe(chunker=Chunker.FIXED, size=100, model="wordllama-256", analyzer="en.lucene")
LONGER = replace(FIXED, size=300)
OVERLAPPING = replace(FIXED, size=256, overlap=64)
HEADED = replace(FIXED, chunker=Chunker.HEADINGS, size=256, least=64)
HEADED_IN_TEXT = replace(HEADED, path=PathPlace.CHUNK)
OTHER_MODEL = replace(FIXED, model="bge-small-en-v1.5")
WORDS = replace(FIXED, analyzer="whitespace")
CHINESE = replace(FIXED, analyzer="zh-Hans.lucene")

Documents = Sequence[Document]


def handbook(count: int = 40) -> Documents:
    return read_documents(DATA / "contoso_hr_pages" / "documents.jsonl")[100 : 100 + count]


def few() -> Documents:
    return handbook(8)


def chinese() -> Documents:
    every = read_documents(DATA / "xquad" / "documents.jsonl")
    return [each for each in every if each.id.startswith("zh-")][:12]


def tables() -> Documents:
    return read_documents(DATA / "tatqa" / "documents.jsonl")[:40]


def corpus() -> Documents:
    return read_corpus(CORPUS)


def without_some(documents: Documents) -> Documents:
    """Every twentieth document left out."""
    return [each for place, each in enumerate(documents) if place % 20 != 7]


def altered(documents: Documents) -> Documents:
    """In every fifth document one of twenty sentences, at least one, says something else."""
    chance = random.Random(7)
    return [_altered(each, chance) if place % 5 == 2 else each for place, each in enumerate(documents)]


def _altered(document: Document, chance: random.Random) -> Document:
    sentences = re.split(r"(?<=[.!?])\s+", document.text)
    long = [place for place, sentence in enumerate(sentences) if len(sentence.split()) > 8]
    for place in chance.sample(long, max(1, len(sentences) // 20)):
        words = sentences[place].split()
        chance.shuffle(words)
        sentences[place] = " ".join(words)
    return replace(document, text=" ".join(sentences))


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("search")
    command = [sys.executable, "-m", "infra.local", "serve", "--port", "0", "--api-key", KEY]
    with subprocess.Popen(
        [*command, "--folder", str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "listening on http://" in line, line
        yield Target(endpoint=line.split()[-1], api_key=KEY)
        process.terminate()


@pytest.fixture(scope="module")
def indexed(stand_in: Target) -> Callable[..., str]:
    """Builds an index of documents by a recipe, each once; `graph`: other HNSW parameters."""
    names: dict[object, str] = {}
    numbers = itertools.count(1)

    def made(documents: Documents, recipe: Recipe, *, graph: bool = False) -> str:
        what = (tuple(documents), recipe, graph)
        if what not in names:
            names[what] = f"handbook-v{next(numbers)}"
            build(stand_in, names[what], documents, recipe, lambda _: None)
            if graph:
                _change_graph(stand_in, names[what])
        return names[what]

    return made


def _change_graph(target: Target, name: str) -> None:
    with SearchIndexClient(target.endpoint, AzureKeyCredential(target.api_key)) as indexes:
        index = indexes.get_index(name)
        assert index.vector_search is not None
        parameters = HnswParameters(m=8, ef_search=200, ef_construction=400, metric="cosine")
        index.vector_search.algorithms = [HnswAlgorithmConfiguration(name="hnsw", parameters=parameters)]
        indexes.create_or_update_index(index)


@pytest.fixture
async def search(stand_in: Target) -> AsyncIterator[AzureSearch]:
    async with AzureSearch(
        endpoint=stand_in.endpoint,
        credential=AzureKeyCredential(KEY),
        limiter=Limiter(ceiling=2),
        query_timeout_seconds=30,
    ) as opened:
        yield opened


async def facts(search: AzureSearch, index: str, query: QuerySettings = QUERY) -> Facts:
    deadline = asyncio.get_running_loop().time() + 60
    described = await search.describe(index, deadline)
    fields = resolve(described.definition, query, index).fields
    assert fields is not None
    documents = await search.document_count(index, deadline)
    known, _ = await gather_facts(
        index, fields, described.definition, query, search, documents=documents, deadline=deadline
    )
    assert known.taken.complete, known.taken.note
    return known


async def found(search: AzureSearch, baseline: str, candidate: str) -> tuple[Difference, ...]:
    return differences(await facts(search, baseline), await facts(search, candidate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Documents by one recipe, and after a change by the same or another one."""

    documents: Callable[[], Documents] = handbook
    change: Callable[[Documents], Documents] = list
    before: Recipe = FIXED
    after: Recipe
    graph: bool = False
    kinds: tuple[ChangeKind, ...]


@pytest.mark.parametrize(
    "case",
    [
        Case(after=LONGER, kinds=(ChangeKind.CHUNKING,)),
        Case(after=OVERLAPPING, kinds=(ChangeKind.CHUNKING,)),
        Case(before=LONGER, after=HEADED_IN_TEXT, kinds=(ChangeKind.CHUNKING,)),
        Case(documents=corpus, before=LONGER, after=HEADED, kinds=(ChangeKind.CHUNKING,)),
        Case(documents=corpus, after=HEADED_IN_TEXT, kinds=(ChangeKind.CHUNKING,)),
        Case(documents=tables, after=HEADED_IN_TEXT, kinds=(ChangeKind.CHUNKING,)),
        Case(
            documents=chinese, before=CHINESE, after=replace(CHINESE, size=300), kinds=(ChangeKind.CHUNKING,)
        ),
        Case(documents=few, after=OTHER_MODEL, kinds=(ChangeKind.EMBEDDING,)),
        Case(documents=chinese, before=CHINESE, after=WORDS, kinds=(ChangeKind.SCHEMA,)),
    ],
)
async def test_one_change_of_the_recipe_is_named_and_nothing_else(
    search: AzureSearch, indexed: Callable[..., str], case: Case
) -> None:
    documents = case.documents()
    differing = await found(search, indexed(documents, case.before), indexed(documents, case.after))
    assert kinds(differing) == case.kinds, differing


async def test_documents_dropped_and_altered_are_content(
    search: AzureSearch, indexed: Callable[..., str]
) -> None:
    baseline = indexed(handbook(), FIXED)
    for change, what in ((without_some, "documents gone"), (altered, "documents altered")):
        differing = await found(search, baseline, indexed(change(handbook()), FIXED))
        assert kinds(differing) == (ChangeKind.CONTENT,), differing
        assert what in {each.what for each in differing}


async def test_parameters_of_the_graph_are_vector_search(
    search: AzureSearch, indexed: Callable[..., str]
) -> None:
    differing = await found(search, indexed(few(), FIXED), indexed(few(), FIXED, graph=True))
    assert kinds(differing) == (ChangeKind.VECTOR_SEARCH,), differing
    assert differing[0].message == (
        "hnsw parameters of text_vector: m 4, efSearch 500, now m 8, efSearch 200."
    )


@pytest.mark.parametrize(
    "case",
    [
        Case(change=without_some, after=LONGER, kinds=(ChangeKind.CHUNKING, ChangeKind.CONTENT)),
        Case(change=altered, after=LONGER, kinds=(ChangeKind.CHUNKING, ChangeKind.CONTENT)),
        Case(change=altered, after=HEADED_IN_TEXT, kinds=(ChangeKind.CHUNKING, ChangeKind.CONTENT)),
        Case(after=WORDS, graph=True, kinds=(ChangeKind.SCHEMA, ChangeKind.VECTOR_SEARCH)),
        Case(after=LONGER, graph=True, kinds=(ChangeKind.CHUNKING, ChangeKind.VECTOR_SEARCH)),
        Case(change=without_some, after=WORDS, kinds=(ChangeKind.SCHEMA, ChangeKind.CONTENT)),
    ],
)
async def test_two_changes_at_once_are_both_named(
    search: AzureSearch, indexed: Callable[..., str], case: Case
) -> None:
    after = indexed(case.change(case.documents()), case.after, graph=case.graph)
    differing = await found(search, indexed(case.documents(), case.before), after)
    assert kinds(differing) == case.kinds, differing
    assert [check.code for check in change_checks(differing)] == ["several-kinds"]


async def test_an_embedding_and_a_chunk_size_at_once(
    search: AzureSearch, indexed: Callable[..., str]
) -> None:
    differing = await found(search, indexed(few(), FIXED), indexed(few(), replace(OTHER_MODEL, size=300)))
    assert kinds(differing) == (ChangeKind.CHUNKING, ChangeKind.EMBEDDING), differing


async def test_the_same_documents_by_the_same_recipe_are_no_change(
    search: AzureSearch, indexed: Callable[..., str], stand_in: Target
) -> None:
    build(stand_in, "handbook-again", list(reversed(handbook())), FIXED, lambda _: None)
    one, other = await facts(search, indexed(handbook(), FIXED)), await facts(search, "handbook-again")
    assert differences(one, other) == ()
    assert one.taken.digest == other.taken.digest


async def test_another_query_of_one_index_is_a_change_of_the_query_alone(
    search: AzureSearch, indexed: Callable[..., str]
) -> None:
    index = indexed(few(), FIXED)
    one, other = await facts(search, index), await facts(search, index, replace(QUERY, k=10))
    assert [each.message for each in differences(one, other)] == ["k: 50, now 10."]
