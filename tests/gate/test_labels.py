"""What an audit finds out about labels, and what it asks for that, before a service in memory."""

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.domain.errors import BrokenError
from app.domain.golden import GoldenSet, GoldenTexts, Question
from app.domain.index import Definition, resolve
from app.domain.outcome import Missing
from app.domain.query import Mode, ParentNames, QuerySettings
from app.domain.reading import read_golden_set
from app.domain.reasons import Code
from app.gate.labels import Audit, AuditedIndex, Effort, IndexLabels, audit, check_labels
from app.gate.ports import Listing, Page
from tests.fakes.listing import Stored
from tests.fakes.search import DEFINITION, FakeSearch

URL = "https://stcontoso.blob.core.windows.net/docs/{}.pdf"
BASE64URL, FILE_NAME = ParentNames.BASE64URL, ParentNames.FILE_NAME
KEYWORD = QuerySettings(mode=Mode.KEYWORD, semantic=False)


def question(name: str, *answers: str, **keys: Any) -> Question:
    return Question(id=name, question=f"what about {name}?", answers=answers, **keys)


def chunks(*parents: str | None, each: int = 1, **fields: Any) -> list[Stored]:
    """`each` stored chunks of every parent."""
    return [
        {"chunk_id": f"{parent}-{number}", "parent_id": parent, **fields}
        for parent in parents
        for number in range(each)
    ]


def encoded(text: str) -> str:
    """.NET's UrlTokenEncode: a digit for the padding."""
    plain = base64.urlsafe_b64encode(text.encode()).decode()
    return f"{plain.rstrip('=')}{plain.count('=')}"


def plainly_encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def with_parent(**attributes: Any) -> Definition:
    """The usual definition, with other attributes of the parent field."""
    fields = [
        {**each, **attributes} if each["name"] == "parent_id" else each for each in DEFINITION["fields"]
    ]
    return {**DEFINITION, "fields": fields}


@dataclass
class Two:
    """Two indexes, kb-v1 and kb-v2, and audits of them."""

    search: FakeSearch = field(default_factory=FakeSearch)
    query: QuerySettings = KEYWORD
    effort: Effort = field(default_factory=Effort)
    unreadable: bool = False

    def store(self, *parents: str | None, **fields: Any) -> "Two":
        """The same chunks in both indexes."""
        for name in ("kb-v1", "kb-v2"):
            self.search.index(name).stored = chunks(*parents, **fields)
        return self

    def defined(self, **attributes: Any) -> "Two":
        for name in ("kb-v1", "kb-v2"):
            self.search.index(name).definition = with_parent(**attributes)
        return self

    async def audit(self, questions: Sequence[Question]) -> Audit:
        return await audit(
            questions,
            self._audited("kb-v1"),
            self._audited("kb-v2"),
            search=self.search,
            deadline=soon(),
            effort=self.effort,
        )

    def _audited(self, name: str) -> AuditedIndex:
        definition = None if self.unreadable else self.search.index(name).definition
        query = replace(self.query, parent_field="parent_id", text_field="chunk", key_field="chunk_id")
        fields = resolve(definition, query, name).fields
        assert fields is not None
        return AuditedIndex(index=name, fields=fields, query=query, definition=definition)

    @property
    def asked(self) -> list[Listing]:
        """What was asked of the baseline."""
        return [listing for name, listing in self.search.listed if name == "kb-v1"]


@pytest.fixture
def two() -> Two:
    return Two()


def soon(seconds: float = 60.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def codes(found: Audit | IndexLabels) -> list[str]:
    return [str(check.code) for check in found.checks]


def message(found: Audit | IndexLabels, code: str) -> str:
    return next(check.message for check in found.checks if check.code == code)


# membership


async def test_labels_that_are_all_there_cost_one_lookup_an_index_and_leave_no_finding(two: Two) -> None:
    two.store("d1", "d2", "secret", None)
    found = await two.audit([question("q1", "d1", "d2", forbidden=("secret",)), question("q2")])
    assert found.checks == ()
    assert found.missing == found.filtered_out == {}
    assert found.requests == len(two.search.listed) == 2
    [listing] = two.asked
    assert listing.filter == "search.in(parent_id, 'd1|d2|secret', '|')"
    assert (listing.select, listing.top) == (("parent_id",), 1000)


async def test_a_set_that_names_no_document_asks_for_nothing(two: Two) -> None:
    found = await two.audit([question("q1")])
    assert (found.requests, found.checks) == (0, ())


async def test_one_index_under_one_query_is_looked_up_once(two: Two) -> None:
    two.store("d1")
    side = two._audited("kb-v1")
    found = await audit([question("q1", "d1")], side, side, search=two.search, deadline=soon())
    assert found.requests == len(two.search.listed) == 1
    other = replace(side, query=replace(side.query, context_size=3))
    found = await audit([question("q1", "d1")], side, other, search=two.search, deadline=soon())
    assert found.requests == 1


async def test_missing_documents_by_question_and_side(two: Two) -> None:
    two.search.index("kb-v1").stored = chunks("d1", "d2")
    two.search.index("kb-v2").stored = chunks("d2", "d3")
    questions = [question("q1", "d1"), question("q2", "d2"), question("q3", "d1", "d3", "d4")]
    found = await two.audit(questions)
    assert found.missing == {
        "q1": Missing(candidate=("d1",)),
        "q3": Missing(baseline=("d3", "d4"), candidate=("d1", "d4")),
    }
    assert codes(found) == ["stale-label", "document-missing"]


async def test_labels_are_looked_up_in_batches(two: Two) -> None:
    names = [f"d{number}" for number in range(120)]
    two.store(*names)
    found = await two.audit([question(f"q{name}", name) for name in names])
    assert found.checks == ()
    assert len(two.asked) == 3
    assert max(str(listing.filter).count("|") for listing in two.asked) < 51


async def test_a_batch_with_more_chunks_than_a_page_is_asked_again_without_what_it_showed(two: Two) -> None:
    names = [f"d{number}" for number in range(10)]
    two.store(*names, each=700)
    found = await two.audit([question(f"q{name}", name) for name in (*names, "gone")])
    assert found.baseline.absent == {"gone"}
    assert found.baseline.present == set(names)
    lookups = [listing for listing in two.asked if listing.filter and "d9" in listing.filter]
    assert len(lookups) == 5  # a page shows the 700 chunks of one and 300 of the next
    assert "'d2|" in str(lookups[1].filter)


async def test_one_document_may_have_more_chunks_than_a_page(two: Two) -> None:
    two.store("d1", "d2", each=2500)
    found = await two.audit([question("q1", "d1", "d2")])
    assert (found.checks, found.requests) == ((), 4)


@dataclass
class CutShort(FakeSearch):
    """A service that shows one row at a time, and none of some documents."""

    hidden: str = ""

    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        page = await super().list_documents(index, listing, deadline)
        rows = tuple(row for row in page.rows if row["parent_id"] != self.hidden)
        return Page(rows=rows[:1], complete=False)


async def test_what_a_service_that_cuts_its_answers_short_never_shows_is_unverified(two: Two) -> None:
    two.search = CutShort(hidden="d3")
    two.store("d1", "d2", "d3", "d4", "d5")
    found = await two.audit([question("q1", "d1", "d2", "d3", "d4", "d5")])
    assert found.baseline.present == {"d1", "d2", "d4", "d5"}
    assert found.baseline.absent == frozenset()
    assert found.missing == {}
    assert codes(found) == ["labels-unverified"] * 2
    assert len(two.asked) < 12


HOSTILE = (
    "it's",
    "a,b",
    "a|b",
    "a;b|c,d",
    "|;,~^!*",
    "|;,~^!*'",
    " spaced ",
    "söß-日本語-🦄",
    "a' or parent_id ne '",
    "x" * 500,
    "$(rm -rf)",
    "a%20b&c#d?e=f",
    '{"a": "b"}',
    "[^a]\\d",
)


async def test_labels_with_quotes_and_marks_in_them_are_found_as_they_are(two: Two) -> None:
    two.store(*HOSTILE)
    found = await two.audit([question(f"q{number}", name) for number, name in enumerate(HOSTILE)])
    assert found.baseline.absent == frozenset()
    assert found.checks == ()


async def test_labels_with_quotes_and_marks_in_them_are_absent_as_they_are(two: Two) -> None:
    two.store("plain", "a", "b", "it")
    found = await two.audit([question(f"q{number}", name) for number, name in enumerate(HOSTILE)])
    assert found.baseline.absent == set(HOSTILE)


# a parent field that cannot be looked up


async def test_where_the_parent_field_is_not_filterable_the_whole_index_is_read_if_it_is_small(
    two: Two,
) -> None:
    two.defined(filterable=False).store("d1", "d2", each=800)
    found = await two.audit([question("q1", "d1"), question("q2", "gone")])
    assert found.missing == {"q2": Missing(baseline=("gone",), candidate=("gone",))}
    assert [listing.filter for listing in two.asked] == [None, None]
    assert [listing.skip for listing in two.asked] == [0, 1000]


async def test_what_a_part_of_an_index_does_not_show_is_unverified(two: Two) -> None:
    two.effort = Effort(scan_pages=2)
    two.defined(filterable=False).store("d1", "d2", "d3", "d4", each=800)
    questions = [question("q1", "d1"), question("q2", "d4", "d3"), question("q3", "gone")]
    found = await two.audit(questions)
    assert found.missing == {}
    assert found.baseline.present == {"d1", "d2", "d3"} & {"d1", "d3"}
    assert codes(found) == ["labels-unverified"] * 2
    assert found.checks[0].documents == ("d4", "gone")
    assert "2 of 4 labelled or forbidden documents could not be verified" in found.checks[0].message


async def test_reading_ends_when_every_label_was_seen(two: Two) -> None:
    two.defined(filterable=False).store("d1", "d2", "d3", each=2000)
    found = await two.audit([question("q1", "d1")])
    assert (found.checks, found.requests) == ((), 2)


@dataclass
class Unstable(FakeSearch):
    """A service that shows the first page twice: without an order nothing keeps it from that."""

    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        shifted = replace(listing, skip=0) if listing.skip == 1000 and not listing.order_by else listing
        return await super().list_documents(index, shifted, deadline)


async def test_an_index_read_without_an_order_counts_only_where_no_chunk_came_twice(two: Two) -> None:
    two.search = Unstable()
    two.defined(filterable=False).store("d1", "d2", "d3", each=900)
    unordered = await two.audit([question("q1", "d1"), question("q2", "gone")])
    assert unordered.baseline.absent == frozenset()
    two.defined(filterable=False, sortable=True)
    ordered = await two.audit([question("q1", "d1"), question("q2", "gone")])
    assert ordered.baseline.absent == {"gone"}


@dataclass
class Refusing(FakeSearch):
    """A service that refuses filters, as it does where the field is not filterable."""

    code: str = Code.FIELD_MISSING

    async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
        page = await super().list_documents(index, listing, deadline)
        if listing.filter:
            raise BrokenError(self.code, "'parent_id' is not a filterable field.", index=index)
        return page


async def test_where_the_definition_may_not_be_read_a_lookup_is_tried(two: Two) -> None:
    two.unreadable = True
    two.store("d1")
    assert (await two.audit([question("q1", "d1", "gone")])).baseline.absent == {"gone"}
    two.search = Refusing()
    two.store("d1", each=3)
    found = await two.audit([question("q1", "d1", "gone")])
    assert found.baseline.absent == {"gone"}
    assert [bool(listing.filter) for listing in two.asked] == [True, False]


async def test_filters_of_questions_cannot_be_judged_where_the_parent_field_cannot_stand_in_one(
    two: Two,
) -> None:
    two.defined(filterable=False).store("d1")
    found = await two.audit([question("q1", "d1", filter="lang eq 'de'")])
    assert codes(found) == [Code.NOT_EVALUATED] * 2
    assert "answers of 1 questions under their filters" in found.checks[0].message


# encoded parents: S04


async def test_none_of_ten_labels_resolves_where_the_parents_are_encoded(two: Two) -> None:
    labels = [URL.format(name) for name in ("pay", *(f"doc{number}" for number in range(9)))]
    two.store(*(encoded(label) for label in labels), each=3)
    found = await two.audit([question(f"q{number}", label) for number, label in enumerate(labels)])
    assert codes(found) == [Code.LABELS_UNRESOLVED, "stale-label"]
    said = message(found, Code.LABELS_UNRESOLVED)
    assert "0 of 10 answer ids exist in either index" in said
    assert repr(encoded(labels[0])) in said
    assert repr(labels[0]) in said
    assert 'add parent_names = ["base64url"]' in said


async def test_keys_of_chunks_as_labels_are_reported_the_same_way(two: Two) -> None:
    key = encoded(URL.format("pay"))
    two.store(key)
    found = await two.audit([question("q1", f"9d800bdacc0e_{key}_pages_2")])
    said = message(found, Code.LABELS_UNRESOLVED)
    assert "0 of 1 answer id exist in either index" in said
    assert "labels name parent documents" in said
    assert repr(key) in said


@pytest.mark.parametrize("encode", [encoded, plainly_encoded])
@pytest.mark.parametrize("name", ["pay", "pays", "payed"])  # two, one and no padding
async def test_decoding_resolves_both_forms_of_padding(two: Two, encode: Any, name: str) -> None:
    two.query = replace(KEYWORD, parent_names=(BASE64URL,))
    two.store(encode(URL.format(name)), each=3)
    found = await two.audit([question("q1", URL.format(name))])
    assert (found.checks, found.missing, found.requests) == ((), {}, 2)


async def test_parents_that_are_not_encoded_resolve_as_they_are_under_a_decoding(two: Two) -> None:
    two.query = replace(KEYWORD, parent_names=(BASE64URL,))
    two.store("leave-policy")
    assert (await two.audit([question("q1", "leave-policy")])).checks == ()


async def test_one_document_under_both_forms_is_two_parents_of_one_name(two: Two) -> None:
    two.query = replace(KEYWORD, parent_names=(BASE64URL,))
    first, second = encoded(URL.format("pays")), plainly_encoded(URL.format("pays"))
    two.store(first, second)
    found = await two.audit([question("q1", URL.format("pays"))])
    assert codes(found) == [Code.PARENT_AMBIGUOUS] * 2
    assert repr(first) in found.checks[0].message
    assert repr(second) in found.checks[0].message


async def test_file_names_are_read_from_the_whole_index(two: Two) -> None:
    two.query = replace(KEYWORD, parent_names=(BASE64URL, FILE_NAME))
    two.store(*(encoded(URL.format(name)) for name in ("pay", "leave")), "https://a/x.pdf", "https://b/x.pdf")
    found = await two.audit([question("q1", "pay.pdf"), question("q2", "gone.pdf")])
    assert found.baseline.present == {"pay.pdf"}
    assert found.baseline.absent == {"gone.pdf"}
    assert codes(found) == ["stale-label", Code.PARENT_AMBIGUOUS, Code.PARENT_AMBIGUOUS]
    assert "'https://a/x.pdf' and 'https://b/x.pdf' are both 'x.pdf'" in message(found, Code.PARENT_AMBIGUOUS)


async def test_file_names_of_an_index_that_is_too_large_to_be_read_are_unverified(two: Two) -> None:
    two.query = replace(KEYWORD, parent_names=(FILE_NAME,))
    two.effort = Effort(scan_pages=1)
    two.store("https://a/pay.pdf", "https://a/leave.pdf", each=1000)
    found = await two.audit([question("q1", "pay.pdf"), question("q2", "leave.pdf")])
    assert found.baseline.unverified(["pay.pdf", "leave.pdf"]) == ("leave.pdf",)


async def test_sides_that_name_their_parents_differently_are_each_read_their_own_way(two: Two) -> None:
    two.search.index("kb-v1").stored = chunks(URL.format("pay"))
    two.search.index("kb-v2").stored = chunks(encoded(URL.format("pay")))
    before, after = two._audited("kb-v1"), two._audited("kb-v2")
    after = replace(after, query=replace(after.query, parent_names=(BASE64URL,)))
    questions = [question("q1", URL.format("pay"))]
    found = await audit(questions, before, after, search=two.search, deadline=soon())
    assert (found.checks, found.missing) == ((), {})


# near misses


async def test_a_misspelt_critical_label_is_stale_and_told_what_was_meant(two: Two) -> None:
    two.store("hr-policy-2019", "leave", each=2)
    found = await two.audit([question("q1", "hr-polcy-2019", critical=True), question("q2", "leave")])
    assert found.missing == {"q1": Missing(baseline=("hr-polcy-2019",), candidate=("hr-polcy-2019",))}
    assert "did you mean 'hr-policy-2019'?" in message(found, "stale-label")


async def test_what_the_sample_does_not_show_is_looked_up_by_its_variants(two: Two) -> None:
    two.effort = Effort(sample_pages=1)
    two.store("large", each=1000)
    for name in ("kb-v1", "kb-v2"):
        stored = two.search.index(name).stored
        assert stored is not None
        stored.extend(chunks("pay.pdf", encoded(URL.format("leave"))))
    found = await two.audit([question("q1", "large", "Pay\u200b.pdf", URL.format("leave"))])
    near = found.baseline.near
    assert near["Pay\u200b.pdf"].names == ("pay.pdf",)
    assert near[URL.format("leave")].parent_names == (BASE64URL,)


async def test_suggestions_are_bounded_in_requests(two: Two) -> None:
    two.effort = Effort(sample_pages=2, varied=10)
    two.store("d", each=2001)
    found = await two.audit([question(f"q{number}", f"Absent {number}/ü.pdf") for number in range(100)])
    assert codes(found) == [Code.LABELS_UNRESOLVED, "stale-label"]
    assert [listing.skip for listing in two.asked if not listing.filter] == [0, 1000]
    assert len(two.asked) <= 2 + 2 + 3  # 100 labels, 2 pages, and up to 60 variants of each of 10 labels


async def test_where_suggestions_cannot_be_had_the_audit_stands(two: Two) -> None:
    class Tired(FakeSearch):
        async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
            if not listing.filter:
                raise BrokenError(Code.THROTTLED, "503")
            return await super().list_documents(index, listing, deadline)

    two.search = Tired()
    two.store("d1")
    found = await two.audit([question("q1", "d1", "D1")])
    assert found.baseline.absent == {"D1"}
    assert codes(found) == ["stale-label"]


# filters


async def test_an_answer_that_is_there_but_not_under_the_filter_is_filtered_out(two: Two) -> None:
    two.search.index("kb-v1").stored = [*chunks("d1", lang="de"), *chunks("d2", lang="en")]
    two.search.index("kb-v2").stored = chunks("d1", "d2", lang="en")
    questions = [
        question("q1", "d1", "gone", filter="lang eq 'de'"),
        question("q2", "d2", filter="lang eq 'de'"),
        question("q3", "d1"),
    ]
    found = await two.audit(questions)
    assert found.filtered_out == {
        "q1": Missing(candidate=("d1",)),
        "q2": Missing(baseline=("d2",), candidate=("d2",)),
    }
    assert found.missing == {"q1": Missing(baseline=("gone",), candidate=("gone",))}
    under = [listing.filter for listing in two.asked if listing.filter and "lang" in listing.filter]
    assert under == ["(lang eq 'de') and search.in(parent_id, 'd1|d2', '|')"]
    assert codes(found) == ["stale-label", "filtered-out", "filtered-out"]


async def test_the_filter_of_the_set_is_joined_with_the_question_s(two: Two) -> None:
    two.query = replace(KEYWORD, filter="lang eq 'de'")
    two.store("d1", lang="de", team="hr")
    found = await two.audit(
        [question("q1", "d1", filter="team eq 'hr'"), question("q2", "d1", filter="team eq 'it'")]
    )
    assert found.filtered_out == {"q2": Missing(baseline=("d1",), candidate=("d1",))}
    assert any("((lang eq 'de') and (team eq 'it')) and" in str(listing.filter) for listing in two.asked)


async def test_decoded_names_are_looked_up_under_filters_by_their_raw_values(two: Two) -> None:
    two.query = replace(KEYWORD, parent_names=(BASE64URL,), filter="lang eq 'de'")
    two.search.index("kb-v1").stored = chunks(encoded(URL.format("pay")), lang="de")
    two.search.index("kb-v2").stored = chunks(encoded(URL.format("pay")), lang="en")
    found = await two.audit([question("q1", URL.format("pay"))])
    assert found.filtered_out == {"q1": Missing(candidate=(URL.format("pay"),))}


async def test_more_filters_than_are_looked_up_are_said_not_to_be_evaluated(two: Two) -> None:
    two.effort = Effort(filters=3)
    two.store("d1", team="0")
    found = await two.audit([question(f"q{n}", "d1", filter=f"team eq '{n}'") for n in range(5)])
    assert sorted(found.filtered_out) == ["q1", "q2"]
    assert codes(found).count(Code.NOT_EVALUATED) == 2
    assert "answers of 2 questions" in message(found, Code.NOT_EVALUATED)


async def test_a_filter_that_the_service_refuses_leaves_the_others_judged(two: Two) -> None:
    class Picky(FakeSearch):
        async def list_documents(self, index: str, listing: Listing, deadline: float) -> Page:
            if listing.filter and "nowhere" in listing.filter:
                raise BrokenError(Code.FIELD_MISSING, "Could not find a property named 'nowhere'.")
            return await super().list_documents(index, listing, deadline)

    two.search = Picky()
    two.store("d1", team="hr")
    questions = [
        question("q1", "d1", filter="nowhere eq 'x'"),
        question("q2", "d1", filter="team eq 'it'"),
    ]
    found = await two.audit(questions)
    assert sorted(found.filtered_out) == ["q2"]
    assert "nowhere" in message(found, Code.NOT_EVALUATED)


# a service that does not answer


@pytest.mark.parametrize("code", [Code.THROTTLED, Code.UNREACHABLE, Code.UNAUTHORIZED, Code.TIMED_OUT])
async def test_a_service_that_does_not_answer_leaves_the_labels_not_evaluated(two: Two, code: Code) -> None:
    two.search.index("kb-v1").broken = BrokenError(code, "503: the service is busy", index="kb-v1")
    two.search.index("kb-v2").stored = chunks("d1")
    found = await two.audit([question("q1", "d1", "gone")])
    assert found.missing == {"q1": Missing(candidate=("gone",))}
    assert {Code.NOT_EVALUATED, "labels-unverified"} <= set(codes(found))
    assert "which documents of the golden set index 'kb-v1' holds" in message(found, Code.NOT_EVALUATED)
    assert Code.LABELS_UNRESOLVED not in codes(found)


async def test_the_deadline_ends_an_audit(two: Two) -> None:
    two.search.latency = 0.05
    two.store("d1")
    sides = two._audited("kb-v1"), two._audited("kb-v2")
    found = await audit([question("q1", "d1")], *sides, search=two.search, deadline=soon(0.01))
    assert codes(found).count(Code.NOT_EVALUATED) == 2


# a check alone


def golden(*questions: dict[str, Any], toml: str = "") -> GoldenSet:
    jsonl = "\n".join(json.dumps({"question": "?", **each}) for each in questions)
    query = "" if "[query]" in toml else '[query]\nmode = "keyword"\nsemantic = false\n'
    return read_golden_set(GoldenTexts(name="hr", jsonl=jsonl, toml=f"{query}{toml}"))


async def checked(two: Two, of: GoldenSet, name: str = "kb-v1") -> IndexLabels:
    return await check_labels(of, name, search=two.search, deadline=soon())


async def test_a_check_tells_who_names_what_the_index_lacks(two: Two) -> None:
    two.store("pay.pdf", "d2")
    two.search.aliases["live"] = "kb-v1"
    of = golden(
        {"id": "q1", "answers": ["Pay.pdf"], "critical": True},
        {"id": "q2", "answers": ["d2"], "forbidden": ["board-minutes"]},
    )
    found = await checked(two, of, "live")
    assert (found.requested, found.index, found.documents, found.found) == ("live", "kb-v1", 3, 1)
    pay, board = found.absent
    assert (pay.document, pay.questions, pay.critical, pay.forbidden) == ("Pay.pdf", ("q1",), True, False)
    assert pay.suggestions == ("pay.pdf",)
    assert pay.hint == "did you mean 'pay.pdf'? it differs in letter case"
    assert (board.document, board.forbidden, board.hint) == ("board-minutes", True, None)
    assert not found.clean
    assert found.requests == 1 + len(two.search.listed)


async def test_a_check_without_a_fault_is_clean_and_so_is_one_that_cannot_tell(two: Two) -> None:
    two.store("d1")
    of = golden({"id": "q1", "answers": ["d1"]})
    assert (await checked(two, of)).clean
    two.defined(filterable=False).store("x", each=21_000)
    found = await checked(two, of)
    assert found.unverified == ("d1",)
    assert found.clean


@pytest.mark.parametrize(("name", "expected"), [("kb-v9", Code.INDEX_MISSING), ("kb-v1", Code.FIELD_MISSING)])
async def test_an_index_that_cannot_be_asked_is_a_finding(two: Two, name: str, expected: Code) -> None:
    two.store("d1")
    of = golden({"id": "q1", "answers": ["d1"]}, toml='parent_field = "parentId"\n')
    found = await checked(two, of, name)
    assert codes(found) == [expected]
    assert not found.clean


async def test_an_index_may_be_either_side_of_the_set_s_query(two: Two) -> None:
    """S09 (a): the parent field has another name in the candidate, and the set says so."""
    renamed = [
        {**each, "name": "parentId"} if each["name"] == "parent_id" else each for each in DEFINITION["fields"]
    ]
    two.search.index("kb-v2").definition = {**DEFINITION, "fields": renamed}
    two.search.index("kb-v1").stored = chunks("d1")
    two.search.index("kb-v2").stored = [{"chunk_id": "1", "parentId": "d1"}]
    toml = '[query]\nmode = "keyword"\nsemantic = false\nparent_field = "parent_id"\n'
    of = golden({"id": "q1", "answers": ["d1"]}, toml=f'{toml}[query.candidate]\nparent_field = "parentId"\n')
    assert (await checked(two, of, "kb-v1")).clean
    assert (await checked(two, of, "kb-v2")).clean
    alone = await checked(two, golden({"id": "q1", "answers": ["d1"]}, toml=toml), "kb-v2")
    assert codes(alone) == [Code.FIELD_MISSING]


async def test_of_two_ways_to_name_parents_the_one_that_finds_more_counts(two: Two) -> None:
    two.store(encoded(URL.format("pay")))
    toml = '[query]\nmode = "keyword"\nsemantic = false\n[query.candidate]\nparent_names = ["base64url"]\n'
    found = await checked(two, golden({"id": "q1", "answers": [URL.format("pay")]}, toml=toml))
    assert found.clean
    assert found.requests == 1 + len(two.search.listed)
