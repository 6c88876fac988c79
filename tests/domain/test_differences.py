"""What changed between two sides: each difference by its kind, and what only follows from it by none."""

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.domain.change import ChangeKind
from app.domain.check import Level
from app.domain.differences import (
    Facts,
    VectorSample,
    VectorStorage,
    change_checks,
    differences,
    input_limit,
    input_limit_checks,
    kinds,
    lost_documents,
    vectors_missing,
)
from app.domain.golden import Question
from app.domain.index import resolve
from app.domain.inventory import Inventory, Method, Stocktaking, not_taken
from app.domain.query import Embedding, Mode, QuerySettings, SearchMode
from tests.scripted import wizard_definition

Json = dict[str, Any]
Change = Callable[[Json], object]


def wizard(name: str) -> Json:
    """As the import wizard makes it: everything carries the index's name."""
    return {
        "name": name,
        "description": f"Built for {name}",
        "@odata.etag": f'"{name}"',
        "fields": [
            {"name": "chunk_id", "type": "Edm.String", "key": True, "sortable": True, "analyzer": "keyword"},
            {"name": "parent_id", "type": "Edm.String", "searchable": False, "filterable": True},
            {"name": "chunk", "type": "Edm.String", "searchable": True, "synonymMaps": []},
            {"name": "title", "type": "Edm.String", "searchable": True},
            {
                "name": "text_vector",
                "type": "Collection(Edm.Single)",
                "searchable": True,
                "dimensions": 1024,
                "vectorSearchProfile": f"{name}-azureOpenAi-text-profile",
            },
        ],
        "scoringProfiles": [],
        "similarity": {"@odata.type": "#Microsoft.Azure.Search.BM25Similarity"},
        "semantic": {
            "defaultConfiguration": f"{name}-semantic-configuration",
            "configurations": [
                {
                    "name": f"{name}-semantic-configuration",
                    "prioritizedFields": {
                        "titleField": {"fieldName": "title"},
                        "prioritizedContentFields": [{"fieldName": "chunk"}],
                    },
                }
            ],
        },
        "vectorSearch": {
            "algorithms": [
                {"name": f"{name}-algorithm", "kind": "hnsw", "hnswParameters": {"metric": "cosine", "m": 4}}
            ],
            "profiles": [
                {
                    "name": f"{name}-azureOpenAi-text-profile",
                    "algorithm": f"{name}-algorithm",
                    "vectorizer": f"{name}-azureOpenAi-text-vectorizer",
                }
            ],
            "vectorizers": [
                {
                    "name": f"{name}-azureOpenAi-text-vectorizer",
                    "kind": "azureOpenAI",
                    "azureOpenAIParameters": {
                        "resourceUri": f"https://{name}.openai.azure.com",
                        "deploymentId": "embed",
                        "apiKey": name,
                        "modelName": "text-embedding-3-large",
                    },
                }
            ],
        },
    }


def side(name: str, *changes: Change, query: QuerySettings | None = None, **facts: Any) -> Facts:
    definition = wizard(name)
    for change in changes:
        change(definition)
    settings = query or QuerySettings()
    fields = resolve(definition, settings, name).fields
    return Facts(index=name, query=settings, definition=definition, fields=fields, **facts)


def field(definition: Json, name: str) -> Json:
    found: Json = next(each for each in definition["fields"] if each["name"] == name)
    return found


def changed(name: str, **attributes: Any) -> Change:
    return lambda definition: field(definition, name).update(attributes)


def vectorizer(**parameters: Any) -> Change:
    return lambda definition: definition["vectorSearch"]["vectorizers"][0]["azureOpenAIParameters"].update(
        parameters
    )


def algorithm(**parameters: Any) -> Change:
    return lambda definition: definition["vectorSearch"]["algorithms"][0]["hnswParameters"].update(parameters)


def compressed(definition: Json) -> None:
    definition["vectorSearch"]["compressions"] = [{"name": "c", "kind": "scalarQuantization"}]
    definition["vectorSearch"]["profiles"][0]["compression"] = "c"


def exhaustive(definition: Json) -> None:
    definition["vectorSearch"]["algorithms"][0]["kind"] = "exhaustiveKnn"


def renamed_vector(definition: Json) -> None:
    field(definition, "text_vector")["name"] = "text_vector_3"


def added(definition: Json) -> None:
    definition["fields"].append({"name": "region", "type": "Edm.String"})


def weighted(definition: Json) -> None:
    definition["scoringProfiles"] = [{"name": "titles", "text": {"weights": {"title": 3}}}]


def without_title(definition: Json) -> None:
    del definition["semantic"]["configurations"][0]["prioritizedFields"]["titleField"]


def own_analyzer(definition: Json) -> None:
    definition["analyzers"] = [{"name": f"{definition['name']}-words", "tokenizer": "whitespace"}]
    field(definition, "chunk")["analyzer"] = f"{definition['name']}-words"


def test_names_that_carry_the_indexs_name_are_no_difference() -> None:
    assert differences(side("kb-v1"), side("kb-v2")) == ()
    assert differences(side("kb-v1", own_analyzer), side("kb-v2", own_analyzer)) == ()


def test_a_query_that_names_each_sides_own_configuration_is_no_difference() -> None:
    one, other = (
        side(name, query=QuerySettings(semantic_configuration=f"{name}-semantic-configuration"))
        for name in ("kb-v1", "kb-v2")
    )
    assert differences(one, other) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("chunk", analyzer="en.microsoft"), "analyzer of chunk: standard.lucene, now en.microsoft."),
        (
            changed("chunk", searchAnalyzer="stop"),
            "search analyzer of chunk: standard.lucene, now stop.",
        ),
        (changed("title", searchable=False), "searchable of title: yes, now no."),
        (changed("parent_id", filterable=False), "filterable of parent_id: yes, now no."),
        (changed("chunk", synonymMaps=["hr"]), "synonym maps of chunk: none, now hr."),
        (added, "field region: none, now Edm.String."),
        (weighted, "scoring profiles: 0, now text weights title 3."),
        (own_analyzer, "analyzer of chunk: standard.lucene, now <index>-words."),
        (lambda d: d["similarity"].update(k1=1.6), "similarity: k1 1.2, now k1 1.6."),
    ],
)
def test_a_change_of_the_schema_is_named(change: Change, message: str) -> None:
    found = differences(side("kb-v1"), side("kb-v2", change))
    assert message in [each.message for each in found]
    assert kinds(found) == (ChangeKind.SCHEMA,)


def test_other_fields_for_the_ranker_are_schema() -> None:
    found = differences(side("kb-v1"), side("kb-v2", without_title))
    assert [each.what for each in found] == ["semantic configuration"]
    assert kinds(found) == (ChangeKind.SCHEMA,)


@pytest.mark.parametrize(
    "changes",
    [
        [vectorizer(modelName="text-embedding-3-small")],
        [vectorizer(modelName="text-embedding-3-small"), changed("text_vector", dimensions=1536)],
        [vectorizer(deploymentId="embed-2")],
        [changed("text_vector", dimensions=256)],
        [changed("text_vector", type="Collection(Edm.Half)")],
        [algorithm(metric="dotProduct")],
        [compressed],
        [
            renamed_vector,
            vectorizer(modelName="text-embedding-3-small"),
            changed("text_vector_3", dimensions=512),
        ],
    ],
)
def test_another_embedding_is_one_kind_with_all_that_follows_from_it(changes: list[Change]) -> None:
    assert kinds(differences(side("kb-v1"), side("kb-v2", *changes))) == (ChangeKind.EMBEDDING,)


def test_the_resource_that_runs_a_model_and_its_key_are_no_difference() -> None:
    one, other = (
        side("kb-v1"),
        side("kb-v2", vectorizer(resourceUri="https://eu.openai.azure.com", apiKey="x")),
    )
    assert differences(one, other) == ()


def test_a_vector_field_that_was_only_renamed_is_schema() -> None:
    assert kinds(differences(side("kb-v1"), side("kb-v2", renamed_vector))) == (ChangeKind.SCHEMA,)


@pytest.mark.parametrize("change", [algorithm(m=10), algorithm(efSearch=1000), exhaustive])
def test_another_graph_is_vector_search(change: Change) -> None:
    assert kinds(differences(side("kb-v1"), side("kb-v2", change))) == (ChangeKind.VECTOR_SEARCH,)


def test_defaults_written_out_are_no_difference() -> None:
    out = side(
        "kb-v2", algorithm(efConstruction=400, efSearch=500), changed("chunk", analyzer="standard.lucene")
    )
    assert differences(side("kb-v1"), out) == ()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (QuerySettings(k=20), "k: 50, now 20."),
        (QuerySettings(semantic=False), "semantic: yes, now no."),
        (QuerySettings(search_mode=SearchMode.ALL), "search_mode: any, now all."),
        (QuerySettings(filter="region eq 'EU'"), "filter: none, now region eq 'EU'."),
        (QuerySettings(exhaustive=True), "exhaustive: no, now yes."),
    ],
)
def test_another_query_is_named(query: QuerySettings, message: str) -> None:
    for name in ("kb-v1", "kb-v2"):
        found = differences(side("kb-v1"), side(name, query=query))
        assert message in [each.message for each in found]
        assert kinds(found) == (ChangeKind.QUERY,)


def test_settings_that_a_query_does_not_use_are_no_difference() -> None:
    words = QuerySettings(mode=Mode.KEYWORD)
    assert differences(side("kb-v1", query=words), side("kb-v2", query=replace(words, k=5))) == ()
    assert differences(side("kb-v1"), side("kb-v2", query=QuerySettings(search_mode=SearchMode.ANY))) == ()


def test_another_deployment_that_embeds_the_questions_is_embedding() -> None:
    def asked(deployment: str) -> QuerySettings:
        return QuerySettings(
            embedding=Embedding(endpoint="https://x.openai.azure.com", deployment=deployment)
        )

    found = differences(side("kb-v1", query=asked("a")), side("kb-v2", query=asked("b")))
    assert kinds(found) == (ChangeKind.EMBEDDING,)


def test_without_definitions_queries_are_still_compared() -> None:
    one = Facts(index="kb-v1", query=QuerySettings(scoring_profile="kb-v1-profile"))
    assert differences(one, Facts(index="kb-v2", query=QuerySettings(scoring_profile="kb-v2-profile"))) == ()
    other = Facts(index="kb-v2", query=QuerySettings(scoring_profile="boosted", k=9))
    assert [each.what for each in differences(one, other)] == ["scoring_profile", "k"]


def test_the_definitions_that_the_other_tests_use_can_be_compared() -> None:
    one, other = (
        Facts(index=name, query=QuerySettings(), definition=wizard_definition(name)) for name in ("a1", "b1")
    )
    assert differences(one, other) == ()


SAMPLES = Path(__file__).parents[3] / "shared" / "azure-samples"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the service's own samples are not there")
@pytest.mark.parametrize("sample", ["07_get_index_wizard_schema.json", "08_get_index_spec_full.json"])
def test_the_services_own_definitions_differ_from_themselves_under_another_name_in_nothing(
    sample: str,
) -> None:
    text = json.dumps(json.loads((SAMPLES / sample).read_text("utf-8"))["body"])
    definition = json.loads(text)
    name = definition["name"]
    other = json.loads(text.replace(name, "other-index"))
    one = Facts(index=name, query=QuerySettings(), definition=definition)
    assert differences(one, Facts(index="other-index", query=QuerySettings(), definition=other)) == ()


# contents


def inventory(documents: Iterable[tuple[str, Sequence[str]]], *, complete: bool = True) -> Inventory:
    stock = Stocktaking()
    for name, texts in documents:
        for text in texts:
            stock.add(name, text)
    note = None if complete else "a sample."
    return stock.inventory(Method.KEY_RANGES, complete=complete, note=note, requests=1)


def text(number: int, words: int = 300) -> list[str]:
    return [f"d{number}w{place}" for place in range(words)]


def cut(words: Sequence[str], size: int) -> list[str]:
    return [" ".join(words[start : start + size]) for start in range(0, len(words), size)]


def corpus(size: int = 100, documents: int = 40) -> dict[str, list[str]]:
    return {f"d{number}": cut(text(number), size) for number in range(documents)}


def between(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[tuple[str, str]]:
    one = Facts(index="kb-v1", query=QuerySettings(), inventory=inventory(before.items()))
    other = Facts(index="kb-v2", query=QuerySettings(), inventory=inventory(after.items()))
    return [(str(each.kind), each.what) for each in differences(one, other)]


def test_the_same_contents_are_no_difference() -> None:
    assert between(corpus(), corpus()) == []


def test_longer_chunks_are_chunking_and_nothing_else() -> None:
    assert between(corpus(100), corpus(150)) == [
        ("chunking", "chunks a document"),
        ("chunking", "tokens a chunk"),
    ]


def test_a_line_above_each_chunk_is_chunking_though_there_are_as_many() -> None:
    headed = {name: [f"The title\n\n{chunk}" for chunk in chunks] for name, chunks in corpus().items()}
    assert between(corpus(), headed) == [("chunking", "tokens a chunk")]


def test_documents_gone_and_new_are_content() -> None:
    after = corpus()
    del after["d3"]
    after["e1"] = cut(text(99), 100)
    assert between(corpus(), after) == [("content", "documents gone"), ("content", "documents new")]


def test_altered_text_is_content_in_whatever_chunks() -> None:
    after = corpus(75)
    for name in ("d4", "d9"):
        after[name][1] = after[name][1].replace("w1", "x1")
    assert ("content", "documents altered") in between(corpus(75), after)
    assert {kind for kind, _ in between(corpus(100), after)} == {"chunking", "content"}


def test_a_word_put_in_everywhere_is_content_though_a_chunker_could_have_put_it_there() -> None:
    plain = {f"d{number}": [" ".join(text(number, 120))] for number in range(40)}
    dated = {name: [chunk.replace("w15 ", "v15 ") for chunk in chunks] for name, chunks in plain.items()}
    assert {kind for kind, _ in between(plain, dated)} == {"content"}


def test_chunks_uploaded_twice_are_duplicates_and_no_other_chunking() -> None:
    after = corpus()
    after["d1"] = after["d1"] * 2
    assert between(corpus(), after) == [("content", "duplicate chunks")]


def test_a_sample_tells_of_lengths_only() -> None:
    one = Facts(
        index="kb-v1", query=QuerySettings(), inventory=inventory(corpus(100).items(), complete=False)
    )
    short = inventory(list(corpus(30).items())[:20], complete=False)
    assert kinds(differences(one, Facts(index="kb-v2", query=QuerySettings(), inventory=short))) == (
        ChangeKind.CHUNKING,
    )
    same = inventory(list(corpus(100).items())[:20], complete=False)
    assert differences(one, Facts(index="kb-v2", query=QuerySettings(), inventory=same)) == ()


def test_indexes_without_a_document_in_common_are_told_so() -> None:
    renamed = {f"https://x/{name}": chunks for name, chunks in corpus().items()}
    one = Facts(index="kb-v1", query=QuerySettings(), inventory=inventory(corpus().items()))
    other = Facts(index="kb-v2", query=QuerySettings(), inventory=inventory(renamed.items()))
    found = differences(one, other)
    assert kinds(found) == (ChangeKind.CONTENT,)
    assert "parent_names" in found[0].message


# vectors


@pytest.mark.parametrize(
    ("documents", "size", "missing"),
    [
        (100, 100 * 1024 * 4, 0.0),
        (100, 110 * 1024 * 4, 0.0),  # the graph around them
        (100, 80 * 1024 * 4, 0.2),
        (100, 0, 1.0),
        (100, None, None),
        (50, 50 * 1024 * 4, None),  # the statistics lag behind the count
    ],
)
def test_missing_vectors_show_in_their_size(documents: int, size: int | None, missing: float | None) -> None:
    stored = VectorStorage(documents=documents, vector_bytes=size)
    found = vectors_missing(side("kb-v1", documents=100, stored=stored))
    assert found == (None if missing is None else pytest.approx(missing))


def test_quantized_vectors_need_a_byte_a_dimension() -> None:
    stored = VectorStorage(documents=100, vector_bytes=100 * 1024)
    assert vectors_missing(side("kb-v1", compressed, documents=100, stored=stored)) == 0.0


def test_vectors_that_are_not_kept_in_a_graph_cannot_be_counted_but_sampled() -> None:
    stored = VectorStorage(documents=100, vector_bytes=0)
    assert vectors_missing(side("kb-v1", exhaustive, documents=100, stored=stored)) is None
    sample = VectorSample(rows=50, missing=5)
    assert vectors_missing(side("kb-v1", exhaustive, stored=stored, sample=sample)) == 0.1


def test_vectors_missing_in_the_candidate_are_embedding() -> None:
    one = side("kb-v1", documents=100, stored=VectorStorage(documents=100, vector_bytes=430_000))
    other = side("kb-v2", documents=100, stored=VectorStorage(documents=100, vector_bytes=200_000))
    found = differences(one, other)
    assert [(each.kind, each.what) for each in found] == [(ChangeKind.EMBEDDING, "vectors missing")]
    assert differences(other, one) == ()


def test_chunks_longer_than_their_model_reads_are_a_warning() -> None:
    long = inventory([("d1", ["x" * 4 * 257, "x" * 4 * 256])])
    (check,) = input_limit_checks(side("kb-v1", vectorizer(modelName="all-MiniLM-L6-v2"), inventory=long))
    assert (check.level, check.measured, check.limit) == (Level.WARNING, 1, 256)
    assert input_limit_checks(side("kb-v1", inventory=long)) == ()


@pytest.mark.parametrize(
    ("model", "limit"),
    [("text-embedding-3-small", 8191), ("all-minilm-l6-v2", 256), ("bge-small-en-v1.5", 512), ("ours", None)],
)
def test_input_limits_are_those_of_the_models(model: str, limit: int | None) -> None:
    assert input_limit(model) == limit


# what follows


def two_kinds() -> tuple[Facts, Facts]:
    return side("kb-v1"), side("kb-v2", algorithm(m=8), changed("chunk", analyzer="simple"))


def test_two_kinds_at_once_are_a_warning() -> None:
    (check,) = change_checks(differences(*two_kinds()))
    assert (check.code, check.level, check.measured) == (
        "several-kinds",
        Level.WARNING,
        ["schema", "vector-search"],
    )


def test_what_was_not_declared_is_a_warning_by_name_and_what_was_not_found_an_information() -> None:
    checks = change_checks(differences(*two_kinds()), [ChangeKind.SCHEMA, ChangeKind.CHUNKING])
    assert [(each.code, each.level, each.measured) for each in checks] == [
        ("several-kinds", Level.WARNING, ["schema", "vector-search"]),
        ("undeclared-change", Level.WARNING, "vector-search"),
        ("declared-change-not-found", Level.INFO, "chunking"),
    ]


def test_the_declared_change_alone_has_nothing_to_say() -> None:
    found = differences(side("kb-v1"), side("kb-v2", algorithm(m=8)))
    assert change_checks(found, [ChangeKind.VECTOR_SEARCH]) == ()
    assert change_checks(found) == ()


QUESTIONS = [
    Question(id="q1", question="?", answers=("d3",)),
    Question(id="q2", question="?", answers=("d1", "d3")),
    Question(id="q3", question="?", answers=("d1",)),
]


def lost(*names: str, of: int = 10, complete: bool = True) -> Any:
    before = corpus(documents=of)
    after = {name: chunks for name, chunks in before.items() if name not in names}
    candidate = inventory(after.items(), complete=complete)
    return lost_documents(inventory(before.items()), candidate, QUESTIONS)


def test_lost_documents_name_the_questions_that_they_answer() -> None:
    check = lost("d7", "d3")
    assert (check.code, check.level, check.measured) == ("lost-documents", Level.WARNING, 0.2)
    assert (check.questions, check.documents) == (("q1", "q2"), ("d3", "d7"))


def test_no_lost_document_is_no_check() -> None:
    assert lost() is None


def test_without_whole_inventories_nothing_is_said_of_lost_documents() -> None:
    assert lost("d7", complete=False) is None
    assert lost_documents(not_taken("403."), inventory([]), QUESTIONS) is None


def test_comparing_changes_nothing() -> None:
    one, other = two_kinds()
    before = copy.deepcopy((one.definition, other.definition))
    differences(one, other)
    assert (one.definition, other.definition) == before
