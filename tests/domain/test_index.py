"""What an index definition tells of its fields; one minimal definition for each way that indexes are made."""

import json
from typing import Any

import pytest

from app.domain.check import Level
from app.domain.index import Definition, Fields, definition_digest, resolve
from app.domain.query import Embedding, Mode, QuerySettings
from app.domain.reasons import Code

# parts of definitions


def text(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": "Edm.String", "searchable": True, "filterable": False, **properties}


def plain(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": "Edm.String", "searchable": False, "filterable": True, **properties}


def vector(name: str, profile: str = "by-text", **properties: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "Collection(Edm.Single)",
        "searchable": True,
        "dimensions": 1536,
        "vectorSearchProfile": profile,
        **properties,
    }


def semantic(name: str, content: str | list[str], title: str | None = None) -> dict[str, Any]:
    names = [content] if isinstance(content, str) else content
    return {
        "name": name,
        "prioritizedFields": {
            "titleField": {"fieldName": title} if title else None,
            "prioritizedContentFields": [{"fieldName": each} for each in names],
            "prioritizedKeywordsFields": [],
        },
    }


_VECTOR_SEARCH = {
    "algorithms": [{"name": "hnsw", "kind": "hnsw"}],
    "profiles": [
        {"name": "by-text", "algorithm": "hnsw", "vectorizer": "embedder"},
        {"name": "by-vector", "algorithm": "hnsw"},
    ],
    "vectorizers": [
        {"name": "embedder", "kind": "azureOpenAI", "azureOpenAIParameters": {"apiKey": "<redacted>"}}
    ],
}


def index(*fields: dict[str, Any], configurations: Any = (), default: str | None = None) -> dict[str, Any]:
    return {
        "@odata.etag": '"0x1"',
        "name": "kb-v1",
        "fields": list(fields),
        "semantic": {"defaultConfiguration": default, "configurations": list(configurations)},
        "vectorSearch": _VECTOR_SEARCH,
    }


# the shapes of azure-facts


_WIZARD = index(
    text("chunk_id", key=True, analyzer="keyword"),
    plain("parent_id"),
    text("chunk"),
    text("title"),
    vector("text_vector"),
    configurations=[semantic("kb-v1-semantic-configuration", "chunk", "title")],
    default="kb-v1-semantic-configuration",
)
_PROJECTION = index(
    text("chunk_id", key=True, analyzer="keyword"),
    plain("parent_id"),
    text("chunk"),
    text("title", filterable=True),
    vector("chunk_vector"),
)
_KNOWLEDGE_SOURCE = index(
    plain("uid", key=True, searchable=True),
    plain("snippet_parent_id"),
    plain("blob_url"),
    text("snippet"),
    vector("snippet_vector"),
    configurations=[semantic("semantic-configuration", "snippet")],
    default="semantic-configuration",
)
_OPENAI_DEMO = index(
    plain("id", key=True),
    text("content"),
    plain("category", facetable=True),
    plain("sourcepage", facetable=True),
    plain("sourcefile", facetable=True),
    plain("storageUrl"),
    vector("embedding3"),
    vector("imageEmbedding", "by-vector"),
    configurations=[semantic("default", "content", "sourcepage")],
    default="default",
)
_LANGCHAIN = index(
    plain("id", key=True),
    text("content"),
    vector("content_vector", "by-vector"),
    text("metadata"),
)
_LLAMA_INDEX = index(
    plain("id", key=True),
    text("chunk"),
    vector("embedding", "by-vector"),
    plain("metadata", filterable=False),
    plain("doc_id"),
    configurations=[semantic("mySemanticConfig", "chunk")],
    default="mySemanticConfig",
)
_HAYSTACK = index(
    plain("id", key=True),
    text("content"),
    vector("embedding", "by-vector"),
    plain("file"),
)

_HYBRID = QuerySettings(semantic=False)
_BROUGHT = QuerySettings(semantic=False, embedding=Embedding(endpoint="https://a", deployment="b"))


@pytest.mark.parametrize(
    ("definition", "query", "fields"),
    [
        pytest.param(
            _WIZARD,
            QuerySettings(),
            Fields(
                key="chunk_id",
                parent="parent_id",
                text="chunk",
                title="title",
                vectors=("text_vector",),
                semantic_configuration="kb-v1-semantic-configuration",
            ),
            id="wizard",
        ),
        pytest.param(
            _PROJECTION,
            _HYBRID,
            Fields(
                key="chunk_id", parent="parent_id", text="chunk", title="title", vectors=("chunk_vector",)
            ),
            id="projection",
        ),
        pytest.param(
            _KNOWLEDGE_SOURCE,
            QuerySettings(),
            Fields(
                key="uid",
                parent="snippet_parent_id",
                text="snippet",
                vectors=("snippet_vector",),
                semantic_configuration="semantic-configuration",
            ),
            id="knowledge-source",
        ),
        pytest.param(
            _OPENAI_DEMO,
            QuerySettings(),
            Fields(
                key="id",
                parent="sourcefile",
                text="content",
                title="sourcepage",
                vectors=("embedding3",),
                semantic_configuration="default",
            ),
            id="openai-demo",
        ),
        pytest.param(
            _LANGCHAIN,
            _BROUGHT,
            Fields(key="id", parent="metadata/source", text="content", vectors=("content_vector",)),
            id="langchain",
        ),
        pytest.param(
            _LLAMA_INDEX,
            QuerySettings(embedding=_BROUGHT.embedding),
            Fields(
                key="id",
                parent="doc_id",
                text="chunk",
                vectors=("embedding",),
                semantic_configuration="mySemanticConfig",
            ),
            id="llama-index",
        ),
        pytest.param(
            _HAYSTACK,
            _BROUGHT,
            Fields(key="id", parent="file", text="content", vectors=("embedding",)),
            id="haystack",
        ),
    ],
)
def test_fields_are_found_without_being_configured(
    definition: Definition, query: QuerySettings, fields: Fields
) -> None:
    resolution = resolve(definition, query, "kb-v1")
    assert resolution.checks == ()
    assert resolution.fields == fields


def test_a_keyword_query_needs_no_vector_field_and_no_vectorizer() -> None:
    fields = resolve(_LANGCHAIN, QuerySettings(mode=Mode.KEYWORD, semantic=False), "kb-v1").fields
    assert fields is not None
    assert fields.vectors == ()


def test_selected_fields_are_top_level_and_stand_once() -> None:
    assert Fields(key="id", parent="metadata/source", text="metadata", title=None).selected == (
        "id",
        "metadata",
    )
    assert Fields(parent="p").selected == ("p",)


# what is refused


def findings(definition: Definition | None, query: QuerySettings) -> list[tuple[str, str]]:
    """Code and message of every finding; all of them blocking and about this index, and no fields."""
    resolution = resolve(definition, query, "kb-v1")
    assert resolution.fields is None
    assert all(check.level is Level.BLOCKING and check.index == "kb-v1" for check in resolution.checks)
    assert all("'kb-v1'" in check.message for check in resolution.checks)
    return [(check.code, check.message) for check in resolution.checks]


def finding(definition: Definition | None, query: QuerySettings) -> tuple[str, str]:
    (only,) = findings(definition, query)
    return only


def _with(definition: dict[str, Any], *fields: dict[str, Any]) -> dict[str, Any]:
    return {**definition, "fields": [*definition["fields"], *fields]}


def _without(definition: dict[str, Any], name: str) -> dict[str, Any]:
    return {**definition, "fields": [each for each in definition["fields"] if each["name"] != name]}


def _changed(definition: dict[str, Any], name: str, **properties: Any) -> dict[str, Any]:
    fields = [{**each, **properties} if each["name"] == name else each for each in definition["fields"]]
    return {**definition, "fields": fields}


_ASKED_BY_TEXT = _changed(_HAYSTACK, "embedding", vectorSearchProfile="by-text")


@pytest.mark.parametrize(
    ("definition", "setting", "choices"),
    [
        (_with(_OPENAI_DEMO, plain("parent_id")), "parent_field", "sourcefile, parent_id"),
        (_with(_ASKED_BY_TEXT, plain("url"), plain("language")), "parent_field", "file, url, language"),
        (_without(_WIZARD, "parent_id"), "parent_field", None),
        (_with(_PROJECTION, text("content")), "text_field", "chunk, content"),
        (
            _with(_without(_PROJECTION, "chunk"), text("body"), text("summary")),
            "text_field",
            "body, summary",
        ),
        (_with(_WIZARD, vector("title_vector")), "vector_fields", "text_vector, title_vector"),
        (_without(_WIZARD, "text_vector"), "vector_fields", None),
    ],
)
def test_an_ambiguous_or_empty_find_is_refused_naming_the_choices(
    definition: Definition, setting: str, choices: str | None
) -> None:
    code, message = finding(definition, _HYBRID)
    assert code == Code.FIELD_MISSING
    expected = f"could be any of {choices}" if choices else "was not found"
    assert f"the field for {setting} {expected}: set {setting} in the golden set's [query]" in message
    assert all(each["name"] in message for each in definition["fields"])


def test_the_only_vector_field_with_a_vectorizer_is_the_one() -> None:
    definition = _with(_WIZARD, vector("image_vector", "by-vector"))
    found = resolve(definition, QuerySettings(), "kb-v1").fields
    assert found is not None
    assert found.vectors == ("text_vector",)


def test_with_vectors_brought_along_every_vector_field_is_a_choice() -> None:
    definition = _with(_WIZARD, vector("image_vector", "by-vector"))
    assert "could be any of text_vector, image_vector" in finding(definition, _BROUGHT)[1]


def test_the_semantic_configuration_says_which_field_is_the_text() -> None:
    definition = index(
        plain("id", key=True),
        plain("doc_id"),
        text("content"),
        text("body"),
        text("summary"),
        configurations=[semantic("a", ["gone", "body", "content"], "summary"), semantic("b", "content")],
        default="a",
    )
    found = resolve(definition, QuerySettings(mode=Mode.KEYWORD), "kb-v1").fields
    assert found is not None
    assert (found.text, found.title, found.semantic_configuration) == ("body", "summary", "a")
    query = QuerySettings(mode=Mode.KEYWORD, semantic_configuration="b")
    found = resolve(definition, query, "kb-v1").fields
    assert found is not None
    assert (found.text, found.title, found.semantic_configuration) == ("content", None, "b")


def test_a_field_that_cannot_be_retrieved_is_not_found() -> None:
    assert (
        finding(_changed(_WIZARD, "parent_id", retrievable=False), QuerySettings())[0] == Code.FIELD_MISSING
    )
    without_key = resolve(_changed(_WIZARD, "chunk_id", retrievable=False), QuerySettings(), "kb-v1").fields
    assert without_key is not None
    assert without_key.key is None  # the key is evidence only


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            QuerySettings(key_field="uid"),
            "has no field 'uid' (key_field); it has: chunk_id, parent_id, chunk, title,",
        ),
        (QuerySettings(parent_field="doc_id"), "has no field 'doc_id' (parent_field); it has: "),
        (QuerySettings(parent_field="metadata/source"), "has no field 'metadata' (parent_field); it has: "),
        (QuerySettings(text_field="Chunk"), "has no field 'Chunk' (text_field); it has: "),
        (QuerySettings(title_field="name"), "has no field 'name' (title_field); it has: "),
        (QuerySettings(vector_fields=("vector",)), "has no field 'vector' (vector_fields); it has: "),
        (
            QuerySettings(vector_fields=("chunk",)),
            "The field 'chunk' (vector_fields) of index 'kb-v1' is not a vector",
        ),
    ],
)
def test_a_configured_field_that_is_not_there_is_refused(query: QuerySettings, message: str) -> None:
    code, found = finding(_WIZARD, query)
    assert code == Code.FIELD_MISSING
    assert message in found


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("key_field", "chunk_id"),
        ("parent_field", "parent_id"),
        ("text_field", "chunk"),
        ("title_field", "title"),
    ],
)
@pytest.mark.parametrize("hidden", [{"retrievable": False}, {"hidden": True}])
def test_a_configured_field_that_cannot_be_retrieved_is_refused(
    setting: str, name: str, hidden: dict[str, bool]
) -> None:
    configured: dict[str, Any] = {setting: name}
    code, message = finding(_changed(_WIZARD, name, **hidden), QuerySettings(**configured))
    assert code == Code.FIELD_MISSING
    assert f"The field {name!r} ({setting}) of index 'kb-v1' is not retrievable" in message


def test_a_vector_field_need_not_be_retrievable() -> None:
    definition = _changed(_WIZARD, "text_vector", retrievable=False, stored=False)
    assert resolve(definition, QuerySettings(vector_fields=("text_vector",)), "kb-v1").checks == ()
    assert resolve(definition, QuerySettings(), "kb-v1").checks == ()


def test_configured_names_settle_what_is_ambiguous() -> None:
    definition = _with(_OPENAI_DEMO, plain("parent_id"), vector("embedding"))
    query = QuerySettings(parent_field="parent_id", vector_fields=("embedding", "embedding3"))
    fields = resolve(definition, query, "kb-v1").fields
    assert fields is not None
    assert fields.parent == "parent_id"
    assert fields.vectors == ("embedding", "embedding3")


@pytest.mark.parametrize(
    ("definition", "query"),
    [
        (_LANGCHAIN, _HYBRID),
        (_LANGCHAIN, QuerySettings(semantic=False, vector_fields=("content_vector",))),
        (_LANGCHAIN, QuerySettings(semantic=False, mode=Mode.VECTOR)),
        (_changed(_WIZARD, "text_vector", vectorSearchProfile="unknown"), QuerySettings()),
        ({**_WIZARD, "vectorSearch": None}, QuerySettings()),
    ],
)
def test_a_vector_field_without_a_vectorizer_is_refused_unless_vectors_are_brought(
    definition: Definition, query: QuerySettings
) -> None:
    code, message = finding(definition, query)
    assert code == Code.NO_VECTORIZER
    assert "[query.embedding]" in message


def test_each_vector_field_needs_its_vectorizer() -> None:
    definition = _with(_WIZARD, vector("other", "by-vector"))
    code, message = finding(definition, QuerySettings(vector_fields=("text_vector", "other")))
    assert (code, "'other'" in message, "'text_vector'" in message) == (Code.NO_VECTORIZER, True, False)


# semantic configuration


def test_the_ranker_off_needs_no_configuration() -> None:
    fields = resolve(_WIZARD, _HYBRID, "kb-v1").fields
    assert fields is not None
    assert fields.semantic_configuration is None


def test_a_single_configuration_is_the_one_even_if_it_is_no_default() -> None:
    definition = {**_WIZARD, "semantic": {"configurations": [semantic("only", "chunk")]}}
    fields = resolve(definition, QuerySettings(), "kb-v1").fields
    assert fields is not None
    assert fields.semantic_configuration == "only"


@pytest.mark.parametrize(
    ("of_index", "wanted", "message"),
    [
        ({"configurations": [semantic("a", "chunk")]}, "b", "has no semantic configuration 'b'; it has: a"),
        (None, "b", "has no semantic configuration 'b'; it has: none"),
        (None, None, "Index 'kb-v1' has no semantic configuration ("),
        ({}, None, "Index 'kb-v1' has no semantic configuration ("),
        (
            {"configurations": [semantic("a", "chunk"), semantic("b", "chunk")]},
            None,
            "has no default semantic configuration; choose one of a, b",
        ),
    ],
)
def test_a_ranker_that_cannot_be_used_is_refused(of_index: Any, wanted: str | None, message: str) -> None:
    query = QuerySettings(semantic_configuration=wanted)
    code, found = finding({**_WIZARD, "semantic": of_index}, query)
    assert code == Code.SEMANTIC_UNAVAILABLE
    assert message in found


# access control inside the index


@pytest.mark.parametrize("option", ["enabled", "Enabled"])
def test_an_index_that_filters_by_permission_is_refused(option: str) -> None:
    code, message = finding({**_WIZARD, "permissionFilterOption": option}, QuerySettings())
    assert code == Code.ACCESS_CONTROLLED
    assert "permissionFilterOption" in message


def test_a_field_with_a_permission_filter_is_refused_by_its_name() -> None:
    definition = _with(
        _WIZARD, {**plain("groups"), "type": "Collection(Edm.String)", "permissionFilter": "groupIds"}
    )
    code, message = finding(definition, QuerySettings())
    assert (code, "(groups)" in message) == (Code.ACCESS_CONTROLLED, True)


@pytest.mark.parametrize("option", ["disabled", None])
def test_an_index_that_does_not_filter_is_accepted(option: str | None) -> None:
    definition = _changed({**_WIZARD, "permissionFilterOption": option}, "parent_id", permissionFilter=None)
    assert resolve(definition, QuerySettings(), "kb-v1").checks == ()


def test_all_findings_come_at_once() -> None:
    definition = {
        **_without(_LANGCHAIN, "metadata"),
        "permissionFilterOption": "enabled",
    }
    codes = [code for code, _ in findings(definition, QuerySettings(title_field="gone"))]
    assert sorted(codes) == sorted(
        [
            Code.FIELD_MISSING,  # parent
            Code.FIELD_MISSING,  # title, once
            Code.NO_VECTORIZER,
            Code.SEMANTIC_UNAVAILABLE,
            Code.ACCESS_CONTROLLED,
        ]
    )


def test_an_index_without_fields_is_refused_in_words() -> None:
    found = findings({"name": "kb-v1"}, QuerySettings())
    assert {code for code, _ in found} == {Code.FIELD_MISSING, Code.SEMANTIC_UNAVAILABLE}
    assert any("The index has: no fields." in message for _, message in found)


# a definition that may not be read


def test_configured_names_serve_where_the_definition_may_not_be_read() -> None:
    query = QuerySettings(
        key_field="id",
        parent_field="metadata/source",
        text_field="content",
        title_field="title",
        vector_fields=("a", "b"),
        semantic_configuration="default",
    )
    resolution = resolve(None, query, "kb-v1")
    assert resolution.checks == ()
    assert resolution.fields == Fields(
        key="id",
        parent="metadata/source",
        text="content",
        title="title",
        vectors=("a", "b"),
        semantic_configuration="default",
    )


def test_without_definition_the_names_that_are_missing_are_asked_for() -> None:
    code, message = finding(None, QuerySettings())
    assert code == Code.FIELD_MISSING
    assert "does not name parent_field, text_field, vector_fields:" in message
    assert "Microsoft.Search/searchServices/indexes/read" in message
    assert "does not name vector_fields:" in finding(None, QuerySettings(parent_field="p", text_field="t"))[1]


def test_without_definition_a_keyword_query_without_ranker_needs_parent_and_text() -> None:
    query = QuerySettings(
        mode=Mode.KEYWORD,
        semantic=False,
        semantic_configuration="unused",
        parent_field="p",
        text_field="t",
        vector_fields=("unused",),
    )
    assert resolve(None, query, "kb-v1").fields == Fields(parent="p", text="t")


# digest


def test_the_digest_does_not_depend_on_etag_secrets_or_the_order_of_keys() -> None:
    other = json.loads(json.dumps(_WIZARD))
    other["@odata.etag"] = '"0x2"'
    other["vectorSearch"]["vectorizers"][0]["azureOpenAIParameters"]["apiKey"] = "another"
    other["encryptionKey"] = {"accessCredentials": {"applicationSecret": "s"}}
    reference = json.loads(json.dumps(_WIZARD))
    reference["encryptionKey"] = {"accessCredentials": {"applicationSecret": None}}
    assert definition_digest(dict(reversed(other.items()))) == definition_digest(reference)
    assert definition_digest(reference).startswith("sha256:")


def test_a_secret_that_is_there_or_not_makes_no_difference() -> None:
    other = json.loads(json.dumps(_WIZARD))
    del other["vectorSearch"]["vectorizers"][0]["azureOpenAIParameters"]["apiKey"]
    assert definition_digest(other) == definition_digest(_WIZARD)


@pytest.mark.parametrize(
    "other",
    [
        _changed(_WIZARD, "chunk", analyzer="de.microsoft"),
        _changed(_WIZARD, "chunk_id", key=False),
        _changed(_WIZARD, "text_vector", dimensions=256),
        _with(_WIZARD, plain("language")),
        _without(_WIZARD, "title"),
        {**_WIZARD, "scoringProfiles": [{"name": "fresh"}]},
        {**_WIZARD, "similarity": {"@odata.type": "#Microsoft.Azure.Search.BM25Similarity", "k1": 1.3}},
    ],
)
def test_the_digest_knows_the_definition(other: Definition) -> None:
    assert definition_digest(other) != definition_digest(_WIZARD)
