"""Audits of labels through the real client: before a scripted service, and on the stand-in."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential

from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.golden import GoldenSet, GoldenTexts
from app.domain.index import resolve
from app.domain.outcome import Missing
from app.domain.query import QuerySettings
from app.domain.reading import read_golden_set
from app.domain.reasons import Code
from app.gate.labels import Audit, AuditedIndex, audit, check_labels
from tests.e2e.programs import SEARCH_KEY, Gate, questions
from tests.fakes.listing import Stored
from tests.local.conftest import KEY, VERSION, StandIn, definition
from tests.scripted import Fault, ScriptedSearch

HOSTILE = ("it's", "a,b;c|d", "|;,~^!*", "söß-日本語-🦄", " spaced ", "a' or parent_id ne '", "a%20b&c#d")
KEYWORD = '[query]\nmode = "keyword"\nsemantic = false\n'


def chunks(*parents: str, each: int = 1, **fields: Any) -> list[Stored]:
    return [
        {"chunk_id": f"{place}-{number}", "parent_id": parent, "chunk": "words", **fields}
        for place, parent in enumerate(parents)
        for number in range(each)
    ]


def golden(*answers: Sequence[str], toml: str = KEYWORD, **keys: Any) -> GoldenSet:
    lines = (
        json.dumps({"id": f"q{number}", "question": "?", "answers": list(each), **keys})
        for number, each in enumerate(answers, start=1)
    )
    return read_golden_set(GoldenTexts(name="hr", jsonl="\n".join(lines), toml=toml))


def soon() -> float:
    return asyncio.get_running_loop().time() + 60


def opened(url: str, key: str = KEY) -> AzureSearch:
    return AzureSearch(
        endpoint=url,
        credential=AzureKeyCredential(key),
        limiter=Limiter(ceiling=2),
        query_timeout_seconds=10,
        jitter=lambda: 0.0,
    )


async def audited(search: AzureSearch, of: GoldenSet, *names: str) -> Audit:
    """An audit of two indexes, their definitions read as a run reads them."""
    sides = [await _side(search, name, of.baseline_query) for name in names]
    return await audit(of.questions, *sides, search=search, deadline=soon())


async def _side(search: AzureSearch, name: str, query: QuerySettings) -> AuditedIndex:
    described = await search.describe(name, soon())
    fields = resolve(described.definition, query, name).fields
    assert fields is not None
    return AuditedIndex(index=name, fields=fields, query=query, definition=described.definition)


# before a scripted service


async def test_the_lookups_that_are_sent() -> None:
    async with ScriptedSearch() as service, opened(service.url) as search:
        service.index("kb-v1", stored=chunks("d1", "it's", each=700))
        service.index("kb-v2", stored=chunks("d1", "it's"))
        found = await audited(search, golden(["d1"], ["it's", "gone"]), "kb-v1", "kb-v2")
        bodies = [each.body for each in service.requests if each.on == "listing" and each.index == "kb-v1"]
    assert found.missing == {"q2": Missing(baseline=("gone",), candidate=("gone",))}
    assert found.requests == sum(each.on == "listing" for each in service.requests)
    assert bodies[0] == {
        "search": "*",
        "filter": "search.in(parent_id, 'd1|it''s|gone', '|')",
        "select": "parent_id",
        "top": 1000,
    }
    assert bodies[1]["filter"] == "search.in(parent_id, 'gone', '|')"


async def test_a_page_that_the_service_cuts_short_is_not_the_end() -> None:
    async with ScriptedSearch() as service, opened(service.url) as search:
        for name in ("kb-v1", "kb-v2"):
            service.index(name, stored=chunks("d1"))
        body = b'{"value": [], "@search.nextPageParameters": {"skip": 0}}'
        service.fault("kb-v1", Fault(body=body), on="listing", nth=1)
        found = await audited(search, golden(["d1", "d2"]), "kb-v1", "kb-v2")
    assert found.baseline.present == {"d1"}
    assert found.baseline.absent == {"d2"}


async def test_a_throttled_lookup_is_tried_again_and_then_not_evaluated() -> None:
    async with ScriptedSearch() as service, opened(service.url) as search:
        service.index("kb-v1", stored=chunks("d1"))
        service.index("kb-v2", stored=chunks("d1"))
        service.fault("kb-v1", Fault(status=503), on="listing", nth=(1, 2))
        assert (await audited(search, golden(["d1"]), "kb-v1", "kb-v2")).checks == ()
        service.fault("kb-v2", Fault(status=503), on="listing")
        found = await audited(search, golden(["d1"]), "kb-v1", "kb-v2")
    assert [check.code for check in found.checks] == ["labels-unverified", Code.NOT_EVALUATED]
    assert found.missing == {}


async def test_a_field_that_turns_out_not_to_be_filterable_is_read_instead() -> None:
    message = "Invalid expression: 'parent_id' is not a filterable field. Only filterable fields can be used."
    toml = f'{KEYWORD}parent_field = "parent_id"\ntext_field = "chunk"\nkey_field = "chunk_id"\n'
    async with ScriptedSearch() as service, opened(service.url) as search:
        for name in ("kb-v1", "kb-v2"):
            service.index(name, stored=chunks("d1"), definition=None)
            service.fault(name, Fault(status=400, message=message), on="listing", nth=1)
        found = await audited(search, golden(["d1"], ["gone"], toml=toml), "kb-v1", "kb-v2")
    assert found.missing == {"q2": Missing(baseline=("gone",), candidate=("gone",))}


# on the stand-in, whose filters are another's reading of the same language


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    running = StandIn(folder=tmp_path_factory.mktemp("labels")).start()
    yield running
    assert running.stop() == 0


def fill(stand_in: StandIn, name: str, rows: Sequence[Stored], **parent: Any) -> None:
    """An index of these chunks, to be asked by keyword."""
    fields = [
        {**field, **parent} if field["name"] == "parent_id" else field
        for field in definition(name)["fields"]
        if field["name"] != "text_vector"
    ]
    made = stand_in.call("PUT", f"/indexes('{name}')?{VERSION}", {"name": name, "fields": fields})
    assert made.status in {201, 204}, made.text
    sent = stand_in.call("POST", f"/indexes('{name}')/docs/search.index?{VERSION}", {"value": list(rows)})
    assert sent.status == 200, sent.text


async def test_what_the_stand_in_holds_is_found_and_what_it_lacks_is_not(stand_in: StandIn) -> None:
    fill(stand_in, "both-1", [*chunks(*HOSTILE, title="hr"), {"chunk_id": "none", "chunk": "no parent"}])
    fill(stand_in, "both-2", chunks(*HOSTILE[1:], title="hr"))
    of = golden(*([name] for name in HOSTILE), ["gone", "It's"])
    async with opened(stand_in.url) as search:
        found = await audited(search, of, "both-1", "both-2")
    assert found.baseline.present == set(HOSTILE)
    assert found.missing == {
        "q1": Missing(candidate=("it's",)),
        f"q{len(HOSTILE) + 1}": Missing(baseline=("gone", "It's"), candidate=("gone", "It's")),
    }
    assert [check.code for check in found.checks] == ["stale-label", "document-missing"]
    assert '"It\'s" (did you mean "it\'s"? it differs in letter case)' in found.checks[0].message


async def test_filters_and_unfilterable_parents_on_the_stand_in(stand_in: StandIn) -> None:
    fill(stand_in, "some-1", chunks("d1", "d2", tags=["hr"]))
    fill(stand_in, "some-2", chunks("d1", tags=["it"]), filterable=False)
    of = golden(["d1"], ["d2"], filter="tags/any(tag: tag eq 'it')")
    async with opened(stand_in.url) as search:
        found = await audited(search, of, "some-1", "some-2")
        alone = await check_labels(of, "some-1", search=search, deadline=soon())
        nowhere = await check_labels(of, "some-9", search=search, deadline=soon())
    assert found.missing == {"q2": Missing(candidate=("d2",))}
    assert found.filtered_out == {"q1": Missing(baseline=("d1",)), "q2": Missing(baseline=("d2",))}
    assert [check.code for check in found.checks] == ["document-missing", "filtered-out", Code.NOT_EVALUATED]
    assert (alone.found, alone.absent) == (2, ())
    assert [check.code for check in nowhere.checks] == [Code.INDEX_MISSING]


# the command


@pytest.fixture
def search() -> Iterator[ScriptedSearch]:
    with ScriptedSearch(key=SEARCH_KEY) as service:
        service.index("kb-v1", stored=chunks("d1", "Pay.pdf"))
        service.index("kb-v2", stored=chunks("d1"))
        yield service


def test_the_command_tells_what_each_index_lacks(tmp_path: Path, search: ScriptedSearch) -> None:
    gate = Gate(folder=tmp_path, search=search)
    of = [*questions("q1"), *questions("q2", answers=["pay.pdf\u202e"], critical=True)]
    path = gate.golden("hr", of, KEYWORD)
    clean = gate.ended("golden", "check", gate.golden("ok", questions("q1"), KEYWORD), "--index", "kb-v1")
    assert (clean.status, clean.err) == (0, "")
    assert "kb-v1: 1 of 1 documents found" in clean.out
    found = gate.ended("golden", "check", path, "--index", "kb-v1", "--index", "kb-v2")
    assert found.status == 2
    assert "kb-v1: 1 of 2 documents found, 1 absent\n" in found.out
    assert r"  absent 'pay.pdf\u202e' (critical, q2): did you mean 'Pay.pdf'?" in found.out
    assert "\u202e" not in found.said
    assert "kb-v2: 1 of 2 documents found, 1 absent\n" in found.out
    assert gate.kept == []


def test_an_index_that_is_not_there_leaves_status_2(tmp_path: Path, search: ScriptedSearch) -> None:
    gate = Gate(folder=tmp_path, search=search)
    path = gate.golden("hr", questions("q1"), KEYWORD)
    found = gate.ended("golden", "check", path, "--index", "kb-v9")
    assert found.status == 2
    assert "blocking index-missing" in found.out


def test_without_an_index_no_service_is_asked_and_with_one_the_settings_are_needed(
    tmp_path: Path, search: ScriptedSearch
) -> None:
    gate = Gate(folder=tmp_path, search=search)
    path = gate.golden("hr", questions("q1"), KEYWORD)
    assert gate.ended("golden", "check", path, GATE_SEARCH_ENDPOINT=None).status == 0
    unset = gate.ended("golden", "check", path, "--index", "kb-v1", GATE_SEARCH_ENDPOINT=None)
    assert unset.status == 2
    assert "error: GATE_SEARCH_ENDPOINT: is not set" in unset.err
    gate.ended("golden", "check", gate.golden("bad", "x\n"), "--index", "kb-v1").refused("bad.jsonl:1")
    assert search.requests == []
