"""What missing labels mean for a run, and what absent ones probably stand for."""

import base64
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.check import Check, Level
from app.domain.decision import decide, results
from app.domain.golden import Question
from app.domain.labels import (
    Catalogue,
    Holdings,
    Near,
    checks,
    chunk_parent,
    documents,
    encodings,
    filtered_out,
    is_filterable,
    is_sortable,
    missing,
    preimages,
    quoted,
    side_checks,
    unguarded,
    variants,
)
from app.domain.outcome import Cause, Missing, Observed, Outcome, place
from app.domain.parents import decoded
from app.domain.query import ParentNames, QuerySettings
from app.domain.reasons import Code, Verdict
from tests.domain.making import absent, asked, kept, run_of

PAY = "https://stcontoso.blob.core.windows.net/docs/pay.pdf"
PAY_ENCODED = "aHR0cHM6Ly9zdGNvbnRvc28uYmxvYi5jb3JlLndpbmRvd3MubmV0L2RvY3MvcGF5LnBkZg2"
BASE64URL, FILE_NAME = ParentNames.BASE64URL, ParentNames.FILE_NAME


def question(name: str, *answers: str, **keys: Any) -> Question:
    return Question(id=name, question=f"what about {name}?", answers=answers, **keys)


def holding(present: str = "", absent: str = "", index: str = "kb-v1", **more: Any) -> Holdings:
    """An index of which these documents, written with spaces between them, are known."""
    return Holdings(index=index, present=frozenset(present.split()), absent=frozenset(absent.split()), **more)


def found(
    questions: Sequence[Question], baseline: Holdings, candidate: Holdings, code: str
) -> list[tuple[Level, tuple[str, ...], tuple[str, ...]]]:
    """Level, documents and questions of the findings of that code."""
    return [
        (each.level, each.documents, each.questions)
        for each in checks(questions, baseline, candidate)
        if each.code == code
    ]


def message(findings: tuple[Check, ...], code: str) -> str:
    return next(each.message for each in findings if each.code == code)


# findings


def test_where_every_document_is_in_both_indexes_there_is_nothing_to_say() -> None:
    both = holding("d1 d2 secret")
    questions = [question("q1", "d1"), question("q2", "d2", forbidden=("secret",)), question("q3")]
    assert checks(questions, both, both) == ()
    assert missing(questions[0], both, both) == Missing()


def test_a_document_in_neither_index_is_a_stale_label_with_the_questions_that_name_it() -> None:
    questions = [question("q1", "d1"), question("q2", "gone", "d1"), question("q3", "gone")]
    before, after = holding("d1", "gone"), holding("d1", "gone", index="kb-v2")
    assert found(questions, before, after, "stale-label") == [(Level.WARNING, ("gone",), ("q2", "q3"))]
    assert missing(questions[1], before, after) == Missing(baseline=("gone",), candidate=("gone",))
    assert found(questions, before, after, "labels-unresolved") == []


def test_a_document_in_the_baseline_only_is_missing_not_stale() -> None:
    questions = [question("q1", "d1")]
    before, after = holding("d1 d2"), holding("d2", "d1", index="kb-v2")
    assert found(questions, before, after, "document-missing") == [(Level.WARNING, ("d1",), ("q1",))]
    assert found(questions, before, after, "stale-label") == []
    assert missing(questions[0], before, after) == Missing(candidate=("d1",))
    assert found(questions, after, before, "document-missing") == []


def test_what_is_unverified_is_said_and_never_taken_for_missing() -> None:
    questions = [question("q1", "d1"), question("q2", "d2", forbidden=("d3",))]
    before, after = holding("d1"), holding("d1 d2 d3", index="kb-v2")
    assert missing(questions[1], before, after) == Missing()
    assert found(questions, before, after, "labels-unverified") == [(Level.WARNING, ("d2", "d3"), ("q2",))]
    assert "2 of 3" in message(checks(questions, before, after), "labels-unverified")
    assert checks(questions, holding("d1 d2 d3"), after) == ()


def test_labels_of_which_none_is_in_either_index_are_unresolved_with_an_example() -> None:
    questions = [question(f"q{number}", f"{PAY}?{number}") for number in range(10)]
    gone = frozenset(documents(questions))
    before = Holdings(index="kb-v1", absent=gone, example=PAY_ENCODED)
    after = Holdings(index="kb-v2", absent=gone, example=PAY_ENCODED)
    said = message(checks(questions, before, after), "labels-unresolved")
    assert "0 of 10 answer ids exist in either index" in said
    assert PAY_ENCODED in said
    assert f"{PAY}?0" in said
    [(level, labels, naming)] = found(questions, before, after, "labels-unresolved")
    assert (level, len(labels), len(naming)) == (Level.BLOCKING, 10, 10)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (holding("d1", "d2"), holding("", "d1 d2")),  # one is there, though only before
        (holding("", "d1 d2"), holding("", "d1")),  # one is not known
    ],
)
def test_one_label_that_is_or_may_be_there_is_enough_to_go_on(before: Holdings, after: Holdings) -> None:
    assert found([question("q1", "d1"), question("q2", "d2")], before, after, "labels-unresolved") == []


def test_a_set_without_labels_has_nothing_unresolved() -> None:
    assert checks([question("q1")], holding(), holding()) == ()


def test_a_forbidden_document_in_neither_index_guards_nothing_and_blocks_where_it_is_critical() -> None:
    questions = [
        question("q1", "d1", forbidden=("secret", "d2")),
        question("q2", "d1", forbidden=("secret", "board"), critical=True),
    ]
    before, after = holding("d1 d2", "secret board"), holding("d1 d2", "secret board")
    assert found(questions, before, after, "forbidden-absent") == [(Level.WARNING, ("secret",), ("q1",))]
    assert found(questions, before, after, Code.CRITICAL_STALE) == [
        (Level.BLOCKING, ("secret", "board"), ("q2",))
    ]
    assert "guard nothing" in message(checks(questions, before, after), Code.CRITICAL_STALE)
    assert found(questions, before, holding("d1 d2 secret", "board"), "forbidden-absent") == []


def test_two_parents_that_become_one_name_block_and_both_are_named() -> None:
    side = holding("pay.pdf", clashes={"pay.pdf": ("https://a/hr/pay.pdf", "https://a/it/pay.pdf")})
    [check] = side_checks([question("q1", "pay.pdf")], side)
    assert (check.code, check.level, check.index) == (Code.PARENT_AMBIGUOUS, Level.BLOCKING, "kb-v1")
    assert check.documents == ("pay.pdf",)
    assert "'https://a/hr/pay.pdf' and 'https://a/it/pay.pdf'" in check.message


def test_an_answer_that_the_filter_hides_is_told_by_index() -> None:
    questions = [question("q1", "d1", filter="lang eq 'de'"), question("q2", "d1")]
    before, after = holding("d1"), holding("d1", index="kb-v2", filtered_out={"q1": ("d1",)})
    assert found(questions, before, after, "filtered-out") == [(Level.WARNING, ("d1",), ("q1",))]
    assert filtered_out(questions[0], before, after) == Missing(candidate=("d1",))
    assert filtered_out(questions[1], before, after) == Missing()


def test_what_could_not_be_looked_up_is_not_evaluated() -> None:
    side = holding("d1", unknown=("which documents index 'kb-v1' holds (503: busy)",))
    [check] = side_checks([question("q1", "d1")], side)
    assert (check.code, check.level) == (Code.NOT_EVALUATED, Level.WARNING)
    assert "503: busy" in check.message


def test_one_index_on_both_sides_is_told_once() -> None:
    side = holding("d1", filtered_out={"q1": ("d1",)})
    assert len(checks([question("q1", "d1")], side, side)) == 1


def test_many_documents_are_listed_in_full_and_described_in_part() -> None:
    questions = [question(f"q{number}", f"d{number}") for number in range(30)] + [question("q", "here")]
    gone = holding("here", " ".join(f"d{number}" for number in range(30)))
    [check] = checks(questions, gone, gone)
    assert len(check.documents) == len(check.questions) == 30
    assert "'d4', 25 more" in check.message
    assert "'d5'" not in check.message


def test_names_are_shown_with_what_is_not_seen_and_not_at_any_length() -> None:
    assert quoted("pay\u200b\n.pdf") == r"'pay\u200b\n.pdf'"
    assert len(quoted("x" * 100_000)) < 200


# outcomes and causes: S05 in the domain


def test_a_critical_question_whose_document_was_deleted_is_stale_and_no_pass() -> None:
    """S05: four questions are fine, q003 is critical and its only document is in neither index."""
    gone = Missing(baseline=("hr-policy-2019",), candidate=("hr-policy-2019",))
    deleted = absent("q003", answers=("hr-policy-2019",), critical=True, missing=gone)
    questions = [kept("q001"), kept("q002"), deleted, kept("q004"), kept("q005")]
    side = holding("d1", "hr-policy-2019")
    run = run_of(checks=checks(questions, side, side))
    decision = decide(run, results(questions, run.query))
    assert decision.verdict is Verdict.ERROR
    assert Code.CRITICAL_STALE in [reason.code for reason in decision.reasons]
    assert (decision.counts.stale, decision.counts.lost, decision.counts.gained) == (1, 0, 0)
    assert [each.outcome for each in results(questions, run.query)][2] is Outcome.STALE
    assert found(questions, side, side, "stale-label") == [(Level.WARNING, ("hr-policy-2019",), ("q003",))]


@pytest.mark.parametrize(
    ("missing_", "filtered", "expected"),
    [
        (("d1",), (), Cause.DOCUMENT_MISSING),
        ((), ("d1",), Cause.FILTERED_OUT),
        ((), (), Cause.NOT_RETRIEVED),
    ],
)
def test_the_cause_of_a_loss_tells_deleted_from_hidden(
    missing_: tuple[str, ...], filtered: tuple[str, ...], expected: Cause
) -> None:
    lost = Observed(
        id="q1",
        question="?",
        answers=("d1",),
        missing=Missing(candidate=missing_),
        filtered_out=Missing(candidate=filtered),
    )
    assert place(lost, ("d1",), None, QuerySettings()) is expected


def test_an_entry_of_which_one_document_is_deleted_and_the_other_hidden_is_hidden() -> None:
    lost = Observed(
        id="q1",
        question="?",
        answers=("d1", "d2"),
        missing=Missing(candidate=("d1",)),
        filtered_out=Missing(candidate=("d2",)),
    )
    assert place(lost, ("d1", "d2"), None, QuerySettings()) is Cause.FILTERED_OUT


def test_what_the_filter_hides_on_the_baseline_alone_is_no_cause() -> None:
    lost = Observed(id="q1", question="?", answers=("d1",), filtered_out=Missing(baseline=("d1",)))
    assert place(lost, ("d1",), None, QuerySettings()) is Cause.NOT_RETRIEVED


def test_critical_questions_that_the_baseline_does_not_answer_guard_nothing_yet() -> None:
    gone = Missing(baseline=("d1",), candidate=("d1",))
    questions = [
        asked("never", [6, None], [1], critical=True),
        asked("sometimes", [6, 5], [1], critical=True),
        asked("failed", [6, "!"], [1], critical=True),
        absent("plain"),
        absent("stale", missing=gone, critical=True),
        absent("unlabelled", answers=(), critical=True),
    ]
    [check] = unguarded(questions, QuerySettings())
    assert (check.code, check.level, check.questions) == ("critical-absent", Level.WARNING, ("never",))
    assert unguarded(questions[1:], QuerySettings()) == ()


# near misses


@pytest.mark.parametrize("raw", [PAY_ENCODED, base64.urlsafe_b64encode(PAY.encode()).decode()])
def test_encoded_parents_are_recognised_in_both_forms_of_padding(raw: str) -> None:
    near = Catalogue([raw, "other"], ()).near(PAY)
    assert near == Near(names=(raw,), because="it is encoded", parent_names=(BASE64URL,))
    assert 'add parent_names = ["base64url"]' in str(near)


def test_a_file_name_for_a_url_and_an_encoded_url() -> None:
    of_url, of_key = Catalogue([PAY], ()).near("pay.pdf"), Catalogue([PAY_ENCODED], ()).near("pay.pdf")
    assert of_url is not None
    assert of_url.parent_names == (FILE_NAME,)
    assert of_key is not None
    assert of_key.parent_names == (BASE64URL, FILE_NAME)


def test_labels_that_are_encoded_while_the_set_decodes() -> None:
    near = Catalogue([PAY_ENCODED], (BASE64URL,)).near(PAY_ENCODED)
    assert near is not None
    assert near.parent_names == ()
    assert "leave parent_names out" in str(near)


@pytest.mark.parametrize(
    ("label", "name", "why"),
    [
        ("Pay.PDF", "pay.pdf", "letter case"),
        ("STRASSE", "straße", "letter case"),
        (unicodedata.normalize("NFD", "Überstunden"), "Überstunden", "Unicode form"),
        ("ﬁnance", "finance", "Unicode form"),
        (" pay  rules ", "pay rules", "spaces"),
        ("pay\u00a0rules", "pay rules", "Unicode form"),
        ("pay\u200b.pdf", "pay.pdf", "invisible"),
        ("\ufeffpay.pdf", "pay.pdf", "invisible"),
        ("pay\ufe0f.pdf", "pay.pdf", "invisible"),
        (" Pay\u200b.pdf", "pay.pdf", "letter case, spaces, Unicode form or invisible"),
        ("https://other/x/pay.pdf", PAY, "its file name is the same"),
        ("pay", "pay.docx", "but for the ending"),
        ("https://other/x/pay.docx", PAY_ENCODED, "but for the ending"),
        ("hr-polcy-2019", "hr-policy-2019", "spelled alike"),
    ],
)
def test_the_nearest_name_is_suggested_with_what_tells_it_from_the_label(
    label: str, name: str, why: str
) -> None:
    near = Catalogue([name, "something-else-entirely"], ()).near(label)
    assert near is not None
    assert near.names == (name,)
    assert near.parent_names is None
    assert why in near.because
    assert str(near).startswith("did you mean ")


def test_names_are_suggested_as_labels_would_write_them() -> None:
    near = Catalogue([PAY_ENCODED], (BASE64URL,)).near(PAY.upper())
    assert near is not None
    assert near.names == (PAY,)


def test_nothing_near_is_no_suggestion() -> None:
    assert Catalogue(["pay.pdf", "leave.pdf"], ()).near("canteen-menu") is None
    assert Catalogue([], ()).near("pay.pdf") is None
    assert Catalogue(["hr-policy-2019"], ()).near("hr-polcy-2019", similar=False) is None


@pytest.mark.parametrize(
    ("label", "parent"),
    [
        (f"9d800bdacc0e_{PAY_ENCODED}_pages_2", PAY_ENCODED),
        ("9d800bdacc0e_a_b-c_pages_10", "a_b-c"),
        ("9d800bdacc0e_a_b_normalized_images_3", "a_b"),
        ("9d800bdacc0e_pay", None),
        ("hr_policy_pages_2", None),
        (PAY, None),
    ],
)
def test_keys_of_chunks_are_recognised(label: str, parent: str | None) -> None:
    assert chunk_parent(label) == parent


def test_the_key_of_a_chunk_is_told_with_its_parent() -> None:
    label = f"9d800bdacc0e_{PAY_ENCODED}_pages_2"
    raw = Catalogue([PAY_ENCODED], ()).near(label)
    assert raw is not None
    assert raw.names == (PAY_ENCODED,)
    assert "labels name parent documents" in str(raw)
    assert f'under parent_names = ["base64url"] that is {PAY!r}' in str(raw)
    readable = Catalogue([PAY_ENCODED], (BASE64URL,)).near(label)
    assert readable is not None
    assert readable.names == (PAY,)
    elsewhere = Catalogue(["https://new/docs/pay.pdf"], ()).near(label)
    assert elsewhere is not None
    assert elsewhere.names == ("https://new/docs/pay.pdf",)
    nowhere = Catalogue(["x"], ()).near(label)
    assert nowhere is not None
    assert nowhere.names == ()
    assert f"its parent {PAY!r} is not there either" in str(nowhere)


def test_variants_hold_what_an_index_may_call_it_instead() -> None:
    assert {PAY_ENCODED, base64.urlsafe_b64encode(PAY.encode()).decode(), "pay.pdf", "pay"} <= set(
        variants(PAY)
    )
    assert PAY in variants(PAY_ENCODED)
    assert "pay.pdf" in variants(" Pay.pdf")
    assert PAY in variants(f"9d800bdacc0e_{PAY_ENCODED}_pages_2")
    assert "https://a/b c" in variants("https://a/b%20c")
    assert "https://a/b%20c" in variants("https://a/b c")


@given(st.text(min_size=1))
def test_variants_are_bounded_and_never_the_label_itself(label: str) -> None:
    found_ = variants(label)
    assert label not in found_
    assert "" not in found_
    assert len(found_) < 150


@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
@example(
    "0000" + "\u00a0" * 8 + "5"
)  # its plain form ends in 1, and can be read as another name's digit form
def test_what_decodes_to_a_name_is_found_of_its_encodings(name: str) -> None:
    raws = preimages(name, (BASE64URL,))
    by_digit, plain = encodings(name)
    assert by_digit in raws
    assert (plain in raws) == (decoded(plain, (BASE64URL,)) == name)
    assert all(decoded(raw, (BASE64URL,)) == name for raw in raws)
    assert preimages(name, ()) == (name,)


# the parent field

DEFINITION = {
    "fields": [
        {"name": "parent_id", "type": "Edm.String", "filterable": True, "sortable": False},
        {"name": "title", "type": "Edm.String", "filterable": False},
        {"name": "tags", "type": "Collection(Edm.String)", "filterable": True},
        {"name": "metadata", "type": "Edm.String", "filterable": True},
        {"name": "unsaid", "type": "Edm.String"},
        {
            "name": "source",
            "type": "Edm.ComplexType",
            "fields": [{"name": "id", "type": "Edm.String", "filterable": True, "sortable": True}],
        },
    ]
}


@pytest.mark.parametrize(
    ("path", "filterable", "sortable"),
    [
        ("parent_id", True, False),
        ("title", False, False),
        ("tags", False, False),
        ("metadata/source", False, False),  # inside a JSON string
        ("source/id", True, True),
        ("unsaid", None, False),
        ("nowhere", False, False),
    ],
)
def test_whether_the_parent_field_can_be_looked_up(
    path: str, filterable: bool | None, sortable: bool
) -> None:
    assert is_filterable(DEFINITION, path) is filterable
    assert is_sortable(DEFINITION, path) is sortable


def test_of_a_definition_that_may_not_be_read_nothing_is_known() -> None:
    assert is_filterable(None, "parent_id") is None
    assert is_sortable(None, "parent_id") is False
