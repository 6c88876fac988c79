"""The preflight through the real client: before a scripted service, and on the stand-in."""

from collections.abc import Iterator
from typing import Any, Self

import pytest
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.credentials_async import AsyncTokenCredential

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.reasons import Code, Verdict
from app.report.markdown import markdown
from app.report.run_json import run_json
from tests.gate.executing import KEYWORD, PLAIN, Executing, blocking, checks, codes, lines
from tests.local.conftest import KEY, VERSION, StandIn, definition
from tests.scripted import Fault, ScriptedSearch, wizard_definition

CLIENT_ID = "11111111-2222-3333-4444-555555555555"
TOKEN = "eyJ0b2tlbg.e30.c2ln"


class Tokens(AsyncTokenCredential):
    """An identity's token."""

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        return AccessToken(TOKEN, 4_000_000_000)

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def opened(url: str, credential: AzureKeyCredential | Tokens) -> AzureSearch:
    return AzureSearch(
        endpoint=url,
        credential=credential,
        client_id=CLIENT_ID,
        enforce_https=not isinstance(credential, Tokens),
        limiter=Limiter(ceiling=2),
        query_timeout_seconds=10,
    )


async def executed(
    url: str, jsonl: str, toml: str, credential: AzureKeyCredential | Tokens
) -> tuple[Any, Executing]:
    gate = Executing()
    async with opened(url, credential) as search:
        run = await gate.execute(await gate.start(jsonl, toml=toml), search=search)
    return run, gate


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "5"}])
@pytest.mark.parametrize("definitions", [True, False])
async def test_s11_a_refused_identity_is_named_with_its_role(
    headers: dict[str, str], definitions: bool
) -> None:
    """Refused to ask, its definitions readable or not; a service for keys only refuses everything."""
    async with ScriptedSearch() as service:
        for name in ("kb-v1", "kb-v2"):
            service.index(name, otherwise=["d1"])
        for on in ("search", "listing") if definitions else ("search", "listing", "definition", "count"):
            service.fault("kb-v2", Fault(status=403, headers=headers), on=on)
        run, gate = await executed(service.url, lines(10), PLAIN, Tokens())
        refused = [
            each
            for each in service.requests
            if each.index == "kb-v2" and each.on in {"search", "listing", "count"}
        ]
    assert (run.verdict, run.lost, run.counts.lost) == (Verdict.ERROR, (), 0)
    assert Code.UNAUTHORIZED in codes(run)
    (found,) = blocking(run)
    for words in ("'kb-v2'", CLIENT_ID, "Search Index Data Reader", "API keys only", "Settings > Keys"):
        assert words in found.message
    assert len([each for each in refused if each.on != "count"]) <= 1
    assert len(refused) <= 2
    told = run_json(run).decode() + markdown(run, []) + str(gate.store.documents)
    assert CLIENT_ID in told
    assert TOKEN not in told


async def test_a_field_that_the_service_alone_knows_to_be_unreadable_is_one_finding() -> None:
    """S09 where definitions may not be read: the first query says what is wrong."""
    toml = (
        '[query]\nparent_field = "parent_id"\ntext_field = "chunk"\nvector_fields = ["text_vector"]\n'
        f'semantic_configuration = "default"\n{PLAIN}'
    )
    text = "Could not find a property named 'parent_id' on type 'search.document'."
    async with ScriptedSearch() as service:
        for name in ("kb-v1", "kb-v2"):
            service.index(name, definition=None, otherwise=["d1"])
        for on in ("search", "listing"):
            service.fault("kb-v2", Fault(status=400, message=text), on=on)
        run, _ = await executed(service.url, lines(20), toml, AzureKeyCredential(KEY))
        assert len(service.searches("kb-v2")) == 1
    (found,) = blocking(run)
    assert found.code == Code.FIELD_MISSING
    assert "'kb-v2'" in found.message
    assert "'parent_id'" in found.message
    assert run.counts.lost == 0
    assert len(checks(run, "definition-unreadable")) == 2


async def test_a_ranker_that_is_off_for_the_service() -> None:
    async with ScriptedSearch() as service:
        for name in ("kb-v1", "kb-v2"):
            service.index(name, otherwise=["d1"])
            service.fault(
                name,
                Fault(
                    status=400, code="SemanticQueriesNotAvailable", message="Semantic search is not enabled."
                ),
            )
        run, _ = await executed(service.url, lines(20), PLAIN, AzureKeyCredential(KEY))
        assert len(service.searches()) == 2
    assert [check.code for check in blocking(run)] == [Code.SEMANTIC_UNAVAILABLE] * 2
    assert all("semantic = false" in check.message for check in blocking(run))


async def test_permissions_inside_an_index() -> None:
    guarded = {**wizard_definition("kb-v2"), "permissionFilterOption": "enabled"}
    async with ScriptedSearch() as service:
        service.index("kb-v1", otherwise=["d1"])
        service.index("kb-v2", definition=guarded, otherwise=["d1"])
        run, _ = await executed(service.url, lines(20), PLAIN, AzureKeyCredential(KEY))
        assert service.searches() == []
    assert [check.code for check in blocking(run)] == [Code.ACCESS_CONTROLLED]


# on the stand-in, whose filters are another's reading of the same language


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    running = StandIn(folder=tmp_path_factory.mktemp("preflight")).start()
    yield running
    assert running.stop() == 0


def fill(stand_in: StandIn, name: str, **values: Any) -> None:
    """An index of one chunk with these values."""
    fields = [field for field in definition(name)["fields"] if field["name"] != "text_vector"]
    stand_in.call("DELETE", f"/indexes('{name}')?{VERSION}")
    made = stand_in.call("PUT", f"/indexes('{name}')?{VERSION}", {"name": name, "fields": fields})
    assert made.status == 201, made.text
    row = {"chunk_id": "1", "parent_id": "d1", "chunk": "question one", **values}
    sent = stand_in.call("POST", f"/indexes('{name}')/docs/search.index?{VERSION}", {"value": [row]})
    assert sent.status == 200, sent.text


@pytest.mark.parametrize("empty", [None, "tags", "pages", "public"])
async def test_empty_filter_fields_on_the_stand_in(stand_in: StandIn, empty: str | None) -> None:
    full = {"tags": ["hr"], "pages": 3, "public": False}
    fill(stand_in, "kb-v1", **full)
    fill(stand_in, "kb-v2", **{name: value for name, value in full.items() if name != empty})
    under = "tags/any(tag: tag eq 'hr') and pages ge 1 and public eq false"
    jsonl = lines(1, filter=under)
    run, _ = await executed(stand_in.url, jsonl, KEYWORD + PLAIN, AzureKeyCredential(KEY))
    if empty is None:
        assert run.verdict is Verdict.PASS, run.headline
        return
    (found,) = blocking(run)
    assert found.code == Code.FIELD_MISSING
    assert f"Index 'kb-v2': the filter field '{empty}' is empty" in found.message
