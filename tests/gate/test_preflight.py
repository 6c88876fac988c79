"""What is found out before the first question: each fault one blocking finding, after a handful of requests."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest

from app.domain.errors import BrokenError, FailureCode, GateError, InputError, QueryError
from app.domain.reasons import Code, Verdict
from app.domain.run import Requests, Run
from app.gate.ports import Listing, Page
from app.gate.preflight import COST, PROBE
from tests.fakes.search import DEFINITION, FakeSearch
from tests.gate.executing import KEYWORD, PLAIN, Executing, blocking, checks, codes, lines, with_fields

HANDFUL = 10  # requests of a run that ends before its first question


@pytest.fixture
def gate() -> Executing:
    return Executing()


async def refused(gate: Executing, code: Code, *words: str, toml: str = PLAIN, **keys: Any) -> Run:
    """A run that ends before its first question, with one finding of that code, which says these words."""
    run = await gate.run(lines(20, **keys), toml=toml)
    assert run.verdict is Verdict.ERROR
    assert gate.asked == []
    assert (run.counts.lost, run.lost, run.gained) == (0, (), ())
    (found,) = blocking(run)
    assert found.code == code
    assert code in codes(run)
    for word in words:
        assert word in found.message
    assert run.requests.comparison == 0
    assert run.requests.other <= HANDFUL
    return run


# the indexes


async def test_an_index_that_is_not_there(gate: Executing) -> None:
    del gate.search.indexes["kb-v2"]
    await refused(gate, Code.INDEX_MISSING, "'kb-v2'")


async def test_an_index_without_documents(gate: Executing) -> None:
    gate.search.index("kb-v1").documents = 0
    await refused(gate, Code.INDEX_EMPTY, "'kb-v1'", "fill it")


async def test_an_index_that_may_not_be_read(gate: Executing) -> None:
    gate.search.index("kb-v2").broken = BrokenError(
        Code.UNAUTHORIZED,
        "Index 'kb-v2': give the identity the role Search Index Data Reader.",
        index="kb-v2",
    )
    run = await refused(gate, Code.UNAUTHORIZED, "'kb-v2'", "Search Index Data Reader")
    assert run.requests.other <= 3


async def test_both_indexes_are_told_at_once(gate: Executing) -> None:
    gate.search.index("kb-v1").documents = 0
    del gate.search.indexes["kb-v2"]
    run = await gate.run(lines(1))
    assert [check.code for check in blocking(run)] == [Code.INDEX_EMPTY, Code.INDEX_MISSING]


async def test_an_index_that_filters_by_the_callers_permissions(gate: Executing) -> None:
    gate.search.index("kb-v2").definition = {**DEFINITION, "permissionFilterOption": "enabled"}
    await refused(gate, Code.ACCESS_CONTROLLED, "'kb-v2'", "public documents only")


async def test_a_vector_field_without_a_vectorizer(gate: Executing) -> None:
    bare = {**DEFINITION, "vectorSearch": {"profiles": [{"name": "profile"}]}}
    gate.search.index("kb-v2").definition = bare
    await refused(gate, Code.NO_VECTORIZER, "'kb-v2'", "'content_vector'", "[query.embedding]")


async def test_a_semantic_configuration_that_an_index_lacks(gate: Executing) -> None:
    toml = f'[query]\nsemantic_configuration = "other"\n{PLAIN}'
    gate.search.index("kb-v2").definition = {
        **DEFINITION,
        "semantic": {"configurations": [{"name": "other", "prioritizedFields": {}}]},
    }
    await refused(gate, Code.SEMANTIC_UNAVAILABLE, "'kb-v1'", "'other'", "default", toml=toml)


async def test_an_alias_is_resolved_and_both_names_are_recorded(gate: Executing) -> None:
    gate.search.aliases["live"] = "kb-v1"
    run = await gate.run(lines(1), baseline_index="live")
    assert run.verdict is Verdict.PASS
    assert (run.baseline.requested, run.baseline.alias, run.baseline.index) == ("live", "live", "kb-v1")
    assert (run.candidate.requested, run.candidate.alias, run.candidate.index) == ("kb-v2", None, "kb-v2")
    assert {each.index for each in gate.search.asked} == {"kb-v1", "kb-v2"}


async def test_an_alias_of_the_other_side_is_the_same_index(gate: Executing) -> None:
    gate.search.aliases["next"] = "kb-v1"
    run = await gate.run(lines(1), candidate_index="next")
    assert codes(run) == [Code.NOTHING_EVALUATED, Code.SAME_INDEX]


async def test_a_setting_that_says_what_the_index_does_anyway_is_no_other_query(gate: Executing) -> None:
    toml = f'[query.candidate]\nsemantic_configuration = "default"\nsearch_mode = "any"\n{PLAIN}'
    run = await gate.run(lines(1), toml=toml, baseline_index="kb-v2")
    assert Code.SAME_INDEX in codes(run)
    other = f'[query.candidate]\nsearch_mode = "all"\n{PLAIN}'
    assert (await gate.run(lines(1), toml=other, baseline_index="kb-v2")).verdict is Verdict.PASS


@dataclass
class Filling(FakeSearch):
    """A service whose index grows with every count."""

    growing: str = ""

    async def document_count(self, index: str, deadline: float) -> int:
        count = await super().document_count(index, deadline)
        if index == self.growing:
            self.index(index).documents += 50
        return count


async def test_an_index_that_does_not_stand_still() -> None:
    gate = Executing(search=Filling(growing="kb-v2"))
    run = await gate.run(lines(5))
    (found,) = blocking(run)
    assert found.code == Code.INDEX_CHANGED
    assert all(part in found.message for part in ("'kb-v2'", "100 documents, 150 moments later", "run again"))
    assert gate.asked == []


async def test_counts_are_compared_seconds_apart(gate: Executing) -> None:
    gate.limit(settle_seconds=0.3)
    loop = asyncio.get_running_loop()
    began = loop.time()
    run = await gate.run(lines(1))
    assert run.verdict is Verdict.PASS
    assert loop.time() - began >= 0.3


async def test_a_candidate_with_far_fewer_documents_is_told(gate: Executing) -> None:
    gate.search.index("kb-v1").documents = 10_000
    gate.search.index("kb-v2").documents = 6_000
    run = await gate.run(lines(1))
    assert run.verdict is Verdict.PASS
    (found,) = checks(run, "fewer-documents")
    assert (found.measured, found.limit, found.index) == (6_000, 10_000, "kb-v2")
    gate.search.index("kb-v2").documents = 9_500
    assert checks(await gate.run(lines(1)), "fewer-documents") == []


async def test_larger_chunks_of_the_same_documents_are_not_missing_ones(gate: Executing) -> None:
    for name, each in (("kb-v1", 4), ("kb-v2", 2)):
        index = gate.search.index(name)
        index.stored = [
            {"chunk_id": f"{parent}-{place}", "parent_id": parent, "chunk": f"{parent} {place}"}
            for parent in ("d1", "x")
            for place in range(each)
        ]
        index.documents = 2 * each
    run = await gate.run(lines(1))
    assert run.inventories is not None
    assert run.inventories.candidate.complete
    assert checks(run, "fewer-documents") == []


# the query


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            BrokenError(Code.SEMANTIC_UNAVAILABLE, "Index 'kb-v2': no ranker.", index="kb-v2"),
            Code.SEMANTIC_UNAVAILABLE,
        ),
        (BrokenError(Code.QUOTA_EXCEEDED, "Index 'kb-v2': used up.", index="kb-v2"), Code.QUOTA_EXCEEDED),
        (QueryError(FailureCode.VECTORIZER, "index 'kb-v2': 502", attempts=4), Code.VECTORIZER_FAILED),
        (QueryError(FailureCode.UNRANKED, "index 'kb-v2': no scores", attempts=4), Code.SEMANTIC_UNAVAILABLE),
        (QueryError(FailureCode.THROTTLED, "index 'kb-v2': 503", attempts=4), Code.THROTTLED),
        (
            QueryError(FailureCode.REJECTED, "index 'kb-v2': Invalid expression", attempts=1),
            Code.FIELD_MISSING,
        ),
    ],
)
async def test_a_query_that_one_side_refuses(gate: Executing, error: GateError, code: Code) -> None:
    gate.search.index("kb-v2").fail(PROBE, error)
    run = await refused(gate, code, "'kb-v2'")
    assert len(gate.search.asked) == 2, "once of each side"
    assert gate.search.listed == [], "nothing is read of indexes that cannot be asked"
    assert run.requests.semantic == 1 + (error.attempts if isinstance(error, QueryError) else 1)


async def test_the_probe_is_the_whole_query(gate: Executing) -> None:
    await gate.run(lines(1), toml=f'[query]\nfilter = "title ne \'x\'"\nsession = "run"\n{PLAIN}')
    first = gate.search.asked[0]
    assert first.text == PROBE
    assert first.query.semantic
    assert first.query.by_vector
    assert (first.filter, first.session) == ("title ne 'x'", "run-001")


async def test_what_is_wrong_with_one_index_on_both_sides_is_said_once(gate: Executing) -> None:
    gate.search.index("kb-v2").fail(PROBE, BrokenError(Code.QUOTA_EXCEEDED, "used up", index="kb-v2"))
    run = await gate.run(lines(1), baseline_index=None, noise_study=True)
    assert [check.code for check in blocking(run)] == [Code.QUOTA_EXCEEDED]


# filters


@dataclass
class Filtering(FakeSearch):
    """A service that knows which documents have a value."""

    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        page = await super().list_documents(index, listing, deadline)
        name = (listing.filter or "").removesuffix(" ne null").removesuffix("/any()")
        if name == listing.filter or not name:
            return page
        rows = tuple(row for row in page.rows if row[name] not in (None, []))
        return replace(page, rows=rows)


GROUPS = {"name": "groups", "type": "Collection(Edm.String)", "filterable": True}
LANGUAGE = {"name": "language", "type": "Edm.String", "filterable": True}


def filtering(**values: Any) -> Executing:
    """Both indexes have the fields `groups` and `language`, but these are the candidate's values."""
    gate = Executing(search=Filtering())
    full = {"chunk_id": "1", "parent_id": "d1", "chunk": "words", "groups": ["hr"], "language": "de"}
    for name, row in (("kb-v1", full), ("kb-v2", {**full, **values})):
        index = gate.search.index(name)
        index.definition = with_fields(DEFINITION, GROUPS, LANGUAGE)
        index.stored = [row]
        index.documents = 1
    return gate


UNDER = "groups/any(g: search.in(g, 'hr')) and language eq 'de'"


async def test_filter_fields_that_have_values_cost_a_request_each_and_side() -> None:
    gate = filtering()
    run = await gate.run(lines(3, filter=UNDER))
    assert run.verdict is Verdict.PASS
    looked = [listing.filter for _, listing in gate.search.listed if listing.top == 1]
    assert looked == ["groups/any()", "language ne null"] * 2


async def test_a_filter_field_that_an_index_lacks() -> None:
    gate = filtering()
    gate.search.index("kb-v2").definition = with_fields(DEFINITION, GROUPS)
    await refused(gate, Code.FIELD_MISSING, "'kb-v2'", "'language'", "does not exist", filter=UNDER)


async def test_a_filter_field_that_is_not_filterable() -> None:
    gate = filtering()
    gate.search.index("kb-v2").definition = with_fields(DEFINITION, GROUPS, {**LANGUAGE, "filterable": False})
    await refused(gate, Code.FIELD_MISSING, "'kb-v2'", "'language'", "not filterable", filter=UNDER)


@pytest.mark.parametrize("values", [{"language": None}, {"groups": []}])
async def test_a_filter_field_that_is_empty(values: dict[str, Any]) -> None:
    gate = filtering(**values)
    (name,) = values
    await refused(gate, Code.FIELD_MISSING, "'kb-v2'", repr(name), "empty", "fill it", filter=UNDER)


async def test_the_sets_own_filter_is_looked_at_too() -> None:
    gate = filtering(language=None)
    await refused(
        gate, Code.FIELD_MISSING, "'language'", toml=f"[query]\nfilter = \"language eq 'de'\"\n{PLAIN}"
    )


@dataclass
class Forbidding(Filtering):
    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        if index == "kb-v2":
            self.listed.append((index, listing))
            raise BrokenError(Code.UNAUTHORIZED, "Index 'kb-v2': 403", index=index)
        return await super().list_documents(index, listing, deadline)


async def test_a_side_that_refuses_one_filter_field_is_not_asked_for_the_next() -> None:
    made = filtering()
    gate = Executing(search=Forbidding(indexes=made.search.indexes))
    gate.search.index("kb-v2").stored = made.search.index("kb-v2").stored
    await refused(gate, Code.UNAUTHORIZED, "'kb-v2'", filter=UNDER)
    assert [index for index, _ in gate.search.listed].count("kb-v2") == 1


# the cost


async def test_the_cost_is_said_before_it_is_spent(gate: Executing) -> None:
    told: list[tuple[str, int]] = []

    def note(run: Run) -> None:
        told.extend((check.message, len(gate.asked)) for check in checks(run, COST))

    run = await gate.start(lines(10), toml="[policy]\nnoise_runs = 2\nconfirm_runs = 1\n")
    done = await gate.execute(run, on_progress=note)
    message, asked = told[0]
    assert asked == 0
    # 10 questions: 3 looks at the baseline and at most 2 at the candidate
    assert message == (
        "At most 50 comparison queries, 50 of them semantic, and 50 embedding calls (the vectorizer's included)."
    )
    assert done.requests.comparison == 40, "each side once, and the baseline twice more"
    assert done.requests.semantic == 40 + 2, "with the probes"


async def test_a_run_that_the_months_allowance_does_not_cover_is_refused(gate: Executing) -> None:
    first = await gate.run(lines(10), toml=PLAIN)
    assert first.requests.semantic == 22
    gate.limit(semantic_allowance=41)
    gate.search.asked.clear()
    run = await refused(gate, Code.QUOTA_EXCEEDED, "used 22 of this month's 41", "19 are left")
    reason = next(each for each in run.reasons if each.code is Code.QUOTA_EXCEEDED)
    assert (reason.measured, reason.limit, reason.setting) == (40, 19, "GATE_SEMANTIC_ALLOWANCE")
    assert gate.search.asked == [], "not even the probe is paid for"


async def test_what_was_used_before_this_month_does_not_count(gate: Executing) -> None:
    first = await gate.run(lines(10), toml=PLAIN)
    stored, etag = await gate.records.read(first.id)
    october = first.created_at.replace(month=10)
    await gate.records.replace(replace(stored, created_at=october, requests=Requests(semantic=99)), etag)
    gate.limit(semantic_allowance=22)
    assert (await gate.run(lines(10), toml=PLAIN)).verdict is Verdict.PASS


async def test_a_run_without_the_ranker_needs_no_allowance(gate: Executing) -> None:
    gate.limit(semantic_allowance=0)
    assert (await gate.run(lines(3), toml=KEYWORD + PLAIN)).verdict is Verdict.PASS


# the request


async def test_a_slice_to_be_protected_that_no_question_is_in_is_refused(gate: Executing) -> None:
    with pytest.raises(InputError, match="no question is in the slice 'tabel'"):
        await gate.start(lines(2, slice="table"), policy={"protected_slices": ["table", "tabel"]})
    assert gate.store.documents == {}


async def test_a_study_of_noise_asks_one_query(gate: Executing) -> None:
    toml = f'[query.candidate]\nsearch_mode = "all"\n{PLAIN}'
    with pytest.raises(InputError, match="noise_study: the set's query differs"):
        await gate.start(lines(2), toml=toml, baseline_index=None, noise_study=True)
