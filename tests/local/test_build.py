"""Indexes built on a running stand-in, through the SDK."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.search.documents.models import VectorizableTextQuery

from infra.local.build import (
    BuildError,
    Chunker,
    PathPlace,
    Recipe,
    Target,
    build,
    chunked,
    read_corpus,
    read_documents,
)
from infra.local.chunkers import Document
from tests.local.conftest import KEY, StandIn

SECTIONS = Recipe(chunker=Chunker.HEADINGS, size=60, model="wordllama-256", analyzer="en.lucene")
PAGES = Recipe(chunker=Chunker.FIXED, size=12, overlap=3, model="wordllama-256", analyzer="standard.lucene")

DOCUMENTS = [
    Document(
        id="leave",
        title="Annual leave",
        text="# Annual leave\n\nThirty days a year.\n\n## Carrying over\n\nUnused days lapse at the end of March.\n",
        region="de",
        status="current",
    ),
    Document(
        id="pumps/CP 3300",
        title="Pump CP-3300",
        text="# Pump CP-3300\n\nThe pump never runs dry, not even for a test of its direction of rotation.\n",
        region="all",
        status="superseded",
    ),
]


def made(stand_in: StandIn, recipe: Recipe, documents: list[Document] | None = None) -> list[str]:
    """Build the index `built`; the lines of progress."""
    lines: list[str] = []
    target = Target(endpoint=stand_in.url, api_key=KEY)
    build(target, "built", DOCUMENTS if documents is None else documents, recipe, lines.append)
    return lines


def rows(stand_in: StandIn) -> dict[str, dict[str, object]]:
    with stand_in.search_client("built") as client:
        return {row["chunk_id"]: dict(row) for row in client.search("*", top=50)}


def etag(stand_in: StandIn) -> str | None:
    with stand_in.index_client() as client:
        return client.get_index("built").e_tag


def test_rows_carry_parent_path_and_filters(stand_in: StandIn) -> None:
    made(stand_in, SECTIONS)
    found = rows(stand_in)
    assert len(found) == 3
    assert {name: found["leave-1"][name] for name in ("parent_id", "title", "chunk", "region", "status")} == {
        "parent_id": "leave",
        "title": "Annual leave > Carrying over",
        "chunk": "Unused days lapse at the end of March.",
        "region": "de",
        "status": "current",
    }


def test_the_path_may_go_above_the_text_instead(stand_in: StandIn) -> None:
    made(stand_in, replace(SECTIONS, path=PathPlace.CHUNK))
    row = rows(stand_in)["leave-1"]
    assert row["title"] == "Annual leave"
    assert row["chunk"] == "Annual leave > Carrying over\n\nUnused days lapse at the end of March."


def test_an_id_that_cannot_be_a_key_is_encoded_and_the_parent_left_as_it_is(stand_in: StandIn) -> None:
    made(stand_in, SECTIONS)
    assert rows(stand_in)["b64-cHVtcHMvQ1AgMzMwMA==-0"]["parent_id"] == "pumps/CP 3300"


def test_the_index_embeds_questions_with_the_model_of_its_rows(stand_in: StandIn) -> None:
    made(stand_in, SECTIONS)
    with stand_in.search_client("built") as client:
        question = VectorizableTextQuery(
            text="When do my unused days lapse?", k_nearest_neighbors=3, fields="text_vector"
        )
        found = list(client.search(vector_queries=[question], filter="region eq 'de'"))
    assert found[0]["chunk_id"] == "leave-1"
    assert {row["parent_id"] for row in found} == {"leave"}
    assert found[0]["@search.score"] > found[1]["@search.score"]


def test_the_index_ranks_semantically_by_default(stand_in: StandIn) -> None:
    made(stand_in, SECTIONS)
    with stand_in.search_client("built") as client:
        found = list(client.search("Can the pump run dry?", query_type="semantic"))
    assert found[0]["parent_id"] == "pumps/CP 3300"
    assert found[0]["@search.reranker_score"] > 0


def test_the_analyzer_is_the_recipes(stand_in: StandIn) -> None:
    made(stand_in, PAGES)
    with stand_in.search_client("built") as client:
        assert not list(client.search("lapses"))
    made(stand_in, SECTIONS)
    with stand_in.search_client("built") as client:
        assert [row["chunk_id"] for row in client.search("lapses")] == ["leave-1"]


def test_an_unchanged_index_is_left_alone(stand_in: StandIn) -> None:
    made(stand_in, SECTIONS)
    before = etag(stand_in)
    assert made(stand_in, SECTIONS) == [f"built: 3 chunks, unchanged ({SECTIONS})"]
    assert etag(stand_in) == before


def test_another_recipe_or_another_text_replaces_the_index(stand_in: StandIn) -> None:
    made(stand_in, SECTIONS)
    first = etag(stand_in)
    made(stand_in, PAGES)
    second = etag(stand_in)
    assert len({row["title"] for row in rows(stand_in).values()}) == 2
    made(stand_in, PAGES, DOCUMENTS[:1])
    assert len({first, second, etag(stand_in)}) == 3
    assert {row["parent_id"] for row in rows(stand_in).values()} == {"leave"}


def test_an_index_that_lost_a_row_is_built_again(stand_in: StandIn) -> None:
    made(stand_in, SECTIONS)
    with stand_in.search_client("built") as client:
        client.delete_documents([{"chunk_id": "leave-0"}])
    assert made(stand_in, SECTIONS)[-1] == "built: built"
    assert len(rows(stand_in)) == 3


def test_progress_says_how_far_the_embedding_is(stand_in: StandIn) -> None:
    many = [Document(id=f"d{number}", title="T", text="word") for number in range(40)]
    assert made(stand_in, PAGES, many)[1:] == ["  embedded 32 of 40", "  embedded 40 of 40", "built: built"]


def test_an_unknown_model_leaves_the_index_as_it_was(stand_in: StandIn) -> None:
    made(stand_in, SECTIONS)
    before = etag(stand_in)
    with pytest.raises(BuildError, match="built: the model gpt-9 gave no embeddings: 404"):
        made(stand_in, replace(SECTIONS, model="gpt-9"))
    assert etag(stand_in) == before


def test_an_illegal_name_is_refused_by_the_service_and_explained(stand_in: StandIn) -> None:
    target = Target(endpoint=stand_in.url, api_key=KEY)
    with pytest.raises(BuildError, match="Hand_Book_: "):
        build(target, "Hand_Book_", DOCUMENTS, SECTIONS, lambda _: None)
    with stand_in.index_client() as client, pytest.raises(ResourceNotFoundError):
        client.get_index("Hand_Book_")


def test_rows_that_the_service_refuses_are_an_error(stand_in: StandIn) -> None:
    too_much = Document(id="d", title="T", text="word", region=3)  # type: ignore[arg-type]
    with pytest.raises(BuildError, match=r"1 of 1 rows were refused; d-0: "):
        made(stand_in, PAGES, [too_much])


def test_nothing_to_index_is_an_error(stand_in: StandIn) -> None:
    with pytest.raises(BuildError, match="nothing to index"):
        made(stand_in, PAGES, [])


def test_two_documents_with_one_id_are_an_error(stand_in: StandIn) -> None:
    with pytest.raises(BuildError, match="more than one document has the id leave"):
        made(stand_in, PAGES, [DOCUMENTS[0], DOCUMENTS[0]])


def test_a_wrong_key_is_an_error(stand_in: StandIn) -> None:
    with pytest.raises(BuildError, match="built: the search service refused"):
        build(Target(endpoint=stand_in.url, api_key="x"), "built", DOCUMENTS, PAGES, lambda _: None)


def test_the_corpus_is_read_with_titles_regions_and_statuses() -> None:
    documents = {each.id: each for each in read_corpus(Path("infra/local/corpus"))}
    assert len(documents) >= 60
    leave = documents["annual-leave-germany"]
    assert (leave.region, leave.status) == ("de", "current")
    assert leave.text.startswith(f"# {leave.title}\n")


def test_every_document_of_the_corpus_has_a_chunk() -> None:
    documents = read_corpus(Path("infra/local/corpus"))
    for recipe in (PAGES, SECTIONS):
        assert {chunk.document.id for chunk in chunked(documents, recipe)} == {each.id for each in documents}


def test_documents_are_read_from_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "documents.jsonl"
    line = json.dumps({"id": "a", "title": "A", "text": "One\u2028two.", "region": "uk"}, ensure_ascii=False)
    file.write_text(f"{line}\n\n", encoding="utf-8")
    assert read_documents(file) == [Document(id="a", title="A", text="One\u2028two.", region="uk")]


@pytest.mark.parametrize("line", ["{", "[]", '{"id": "a", "title": "A"}', "3"])
def test_a_line_that_is_no_document_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "documents.jsonl"
    file.write_text(f'{{"id": "a", "title": "A", "text": "x"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(BuildError, match=r"documents\.jsonl:2: not a document"):
        read_documents(file)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot read"):
        read_documents(tmp_path / "none.jsonl")
