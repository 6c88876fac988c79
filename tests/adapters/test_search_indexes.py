"""What the search adapter says of indexes: definitions, aliases, counts."""

import pytest

from app.adapters.search import AzureSearch
from app.domain.errors import BrokenError
from app.domain.reasons import Code
from tests.adapters.conftest import KEY, Open, soon
from tests.scripted import Fault, ScriptedSearch


async def broken(search: AzureSearch, name: str) -> BrokenError:
    with pytest.raises(BrokenError) as caught:
        await search.describe(name, soon())
    return caught.value


async def test_a_definition_is_given_as_it_stands_with_properties_that_no_client_knows(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    index = service.index("kb-v1", etag="0x7")
    assert index.definition is not None
    index.definition["permissionFilterOption"] = "enabled"
    index.definition["fields"][1]["fromTomorrow"] = {"a": [1, None]}
    described = await search.describe("kb-v1", soon())
    assert (described.name, described.alias, described.etag) == ("kb-v1", None, '"0x7"')
    assert described.definition == {"@odata.etag": '"0x7"', **index.definition}


async def test_an_etag_that_stands_in_the_header_only_is_found(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    body = b'{"name": "kb-v1", "fields": []}'
    service.fault("kb-v1", Fault(body=body, headers={"ETag": '"0x9"'}), on="definition")
    assert (await search.describe("kb-v1", soon())).etag == '"0x9"'


async def test_a_changed_etag_and_count_are_seen(search: AzureSearch, service: ScriptedSearch) -> None:
    assert await search.document_count("kb-v1", soon()) == 1000
    service.index("kb-v1", etag="0x2", documents=1001)
    assert await search.document_count("kb-v1", soon()) == 1001
    assert (await search.describe("kb-v1", soon())).etag == '"0x2"'


async def test_an_alias_is_resolved_to_its_concrete_index(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    service.alias("kb-live", "kb-v1")
    described = await search.describe("kb-live", soon())
    assert (described.name, described.alias) == ("kb-v1", "kb-live")
    assert described.definition is not None
    assert described.definition["name"] == "kb-v1"


async def test_an_alias_is_resolved_where_the_service_repeats_the_alias_as_the_name(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    service.alias("kb-live", "kb-v1")
    service.fault("kb-live", Fault(body=b'{"name": "kb-live", "fields": []}'), on="definition")
    described = await search.describe("kb-live", soon())
    assert (described.name, described.alias) == ("kb-v1", "kb-live")


@pytest.mark.parametrize("status", [401, 403, 404, 400, 405])
async def test_without_leave_to_read_aliases_the_definitions_name_tells_the_index(
    search: AzureSearch, service: ScriptedSearch, status: int
) -> None:
    service.alias("kb-live", "kb-v1")
    service.fault("kb-live", Fault(status=status), on="alias")
    described = await search.describe("kb-live", soon())
    assert (described.name, described.alias) == ("kb-v1", "kb-live")


async def test_an_alias_of_an_index_that_is_gone_is_missing(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    service.alias("kb-live", "kb-v0")
    del service.indexes["kb-v0"]
    error = await broken(search, "kb-live")
    assert (error.code, error.index) == (Code.INDEX_MISSING, "kb-v0")
    assert "'kb-live'" in str(error)


async def test_an_alias_of_several_indexes_is_refused(search: AzureSearch, service: ScriptedSearch) -> None:
    body = b'{"name": "kb-live", "indexes": ["kb-v1", "kb-v2"]}'
    service.fault("kb-live", Fault(body=body), on="alias")
    error = await broken(search, "kb-live")
    assert error.code == Code.INDEX_MISSING
    assert "kb-v1, kb-v2" in str(error)


async def test_a_name_of_neither_is_missing_and_says_what_to_check(search: AzureSearch) -> None:
    error = await broken(search, "kb-v9")
    assert (error.code, error.index) == (Code.INDEX_MISSING, "kb-v9")
    assert "GATE_SEARCH_ENDPOINT" in str(error)


async def test_a_definition_that_may_not_be_read_is_none(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    service.index("kb-v1", definition=None)
    described = await search.describe("kb-v1", soon())
    assert (described.name, described.alias, described.definition, described.etag) == (
        "kb-v1",
        None,
        None,
        None,
    )


async def test_a_refused_identity_is_unauthorized(search: AzureSearch, service: ScriptedSearch) -> None:
    service.fault("kb-v1", Fault(status=401), on="definition")
    assert (await broken(search, "kb-v1")).code == Code.UNAUTHORIZED
    for status in (401, 403):
        service.clear_faults()
        service.fault("kb-v1", Fault(status=status), on="count")
        with pytest.raises(BrokenError) as caught:
            await search.document_count("kb-v1", soon())
        assert caught.value.code == Code.UNAUTHORIZED
        assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(status=429), Code.THROTTLED),
        (Fault(status=503, headers={"Retry-After": "1"}), Code.THROTTLED),
        (Fault(status=500), Code.UNREACHABLE),
        (Fault(drop="before"), Code.UNREACHABLE),
        (Fault(drop="mid"), Code.UNREACHABLE),
        (Fault(status=408), Code.TIMED_OUT),
    ],
    ids=repr,
)
@pytest.mark.parametrize("on", ["definition", "alias", "count"])
async def test_a_lasting_fault_breaks_the_run_after_four_requests(
    search: AzureSearch, service: ScriptedSearch, fault: Fault, code: Code, on: str
) -> None:
    service.fault("kb-v1", fault, on=on)
    call = search.document_count if on == "count" else search.describe
    with pytest.raises(BrokenError) as caught:
        await call("kb-v1", soon())
    assert caught.value.code == code
    assert "(requests: 4)" in str(caught.value)
    assert len([request for request in service.requests if request.on == on]) == 4


@pytest.mark.parametrize("on", ["definition", "alias", "count"])
async def test_a_passing_fault_is_outlived(search: AzureSearch, service: ScriptedSearch, on: str) -> None:
    service.fault("kb-v1", Fault(status=503), on=on, nth=(1, 2))
    assert (await search.describe("kb-v1", soon())).name == "kb-v1"
    assert await search.document_count("kb-v1", soon()) == 1000


@pytest.mark.parametrize(
    ("on", "body"),
    [
        ("definition", b"[]"),
        ("definition", b"<html>"),
        ("definition", b'{"fields"'),
        ("count", b"many"),
        ("count", b""),
        ("alias", b'{"name": "kb-v1"}'),
    ],
)
async def test_nonsense_breaks_the_run(
    search: AzureSearch, service: ScriptedSearch, on: str, body: bytes
) -> None:
    service.fault("kb-v1", Fault(body=body), on=on)
    call = search.document_count if on == "count" else search.describe
    with pytest.raises(BrokenError) as caught:
        await call("kb-v1", soon())
    assert caught.value.code == Code.UNREACHABLE


@pytest.mark.parametrize("body", [b"12", b"\xef\xbb\xbf12", b" 12 "])
@pytest.mark.parametrize("content_type", ["text/plain", "text/plain; charset=utf-8", "application/json"])
async def test_a_count_is_read_with_and_without_a_byte_order_mark(
    search: AzureSearch, service: ScriptedSearch, body: bytes, content_type: str
) -> None:
    service.fault("kb-v1", Fault(body=body, content_type=content_type), on="count")
    assert await search.document_count("kb-v1", soon()) == 12


async def test_a_name_that_the_service_refuses_is_no_index(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    service.fault("KB", Fault(status=400, message="Index name must be lower case."), on="definition")
    error = await broken(search, "KB")
    assert error.code == Code.INDEX_MISSING
    assert "lower case" in str(error)


async def test_the_deadline_holds_for_inspections_too(search: AzureSearch, service: ScriptedSearch) -> None:
    service.fault("kb-v1", Fault(delay=60), on="count")
    with pytest.raises(BrokenError) as caught:
        await search.document_count("kb-v1", soon(0.1))
    assert caught.value.code == Code.TIMED_OUT


async def test_an_endpoint_with_a_slash_at_its_end_is_the_same_endpoint(
    service: ScriptedSearch, open_search: Open
) -> None:
    search = await open_search(endpoint=f"{service.url}/")
    assert (await search.describe("kb-v1", soon())).name == "kb-v1"


# the names of all indexes


async def test_the_names_of_all_indexes_are_given_sorted(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    for name in ("kb-v2", "kb-v10", "kb-v1"):
        service.index(name)
    assert await search.index_names(soon()) == ("kb-v1", "kb-v10", "kb-v2")


async def test_names_that_may_not_be_listed_are_none(search: AzureSearch, service: ScriptedSearch) -> None:
    service.index("kb-v1")
    service.fault("", Fault(status=403, body=b""), on="list")
    assert await search.index_names(soon()) is None


async def test_names_that_cannot_be_had_end_it_after_a_few_tries(
    search: AzureSearch, service: ScriptedSearch
) -> None:
    service.fault("", Fault(status=503), on="list")
    with pytest.raises(BrokenError):
        await search.index_names(soon())
    assert 1 < len([each for each in service.requests if each.on == "list"]) < 10


async def test_a_list_that_is_none_is_a_broken_promise(search: AzureSearch, service: ScriptedSearch) -> None:
    service.fault("", Fault(body=b'{"value": 3}'), on="list")
    with pytest.raises(BrokenError) as caught:
        await search.index_names(soon())
    assert caught.value.code == Code.UNREACHABLE
