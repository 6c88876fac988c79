"""The Markdown report, read by a CommonMark parser with tables."""

from dataclasses import replace
from datetime import date

import pytest

from app.domain.outcome import Observed
from app.domain.query import Mode, Queries, QuerySettings
from app.domain.run import GoldenRef
from app.report.markdown import markdown
from tests import examples
from tests.examples import Example
from tests.report.reading import rows, tokens


def written(example: Example, limit: int = 900_000) -> str:
    return markdown(example.run, example.results, limit_bytes=limit)


def test_begins_with_the_verdict_and_the_headline() -> None:
    example = examples.failing()
    first, second = written(example).split("\n\n")[:2]
    assert first == "# FAIL: hr"
    assert second == example.run.headline


def test_names_the_deciding_reason_with_both_numbers_first() -> None:
    text = written(examples.failing())
    assert "1. **critical-lost (2, limit 0)** (this one decides)." in text
    assert "2. **net-loss (2, limit 0)**." in text
    assert "3. **slice-loss (table: 1, limit 0)**." in text


def test_lists_lost_questions_critical_first_with_all_that_decides_them() -> None:
    table = rows(written(examples.failing()), "Lost questions (4, 2 critical)")
    assert [row[0].split()[0] for row in table] == [
        "leave-carry-over",
        "parental-pay",
        "expense-limit",
        "visa-letter",
    ]
    assert table[0] == [
        "leave-carry-over critical",
        "How many days of leave can I take into next year?",
        "lookup",
        "leave-policy",
        "2, 2 → 9, 9",
        (
            "ranked-out Before at 2, now at 9; the context ends at 5. Keyword rank 2 → none, "
            "vector rank 3 → 4, without the ranker rank 2 → 9: keyword search lost it: look at the analyzer, "
            "the searchable fields and the words that its chunks still carry."
        ),
        "Leave archive 2019 (leave-archive-2019)",
        "hr-content@contoso.example",
    ]
    assert table[1][0] == "parental-pay critical unsteady"
    assert table[1][4] == "3, 3 → 5, 6"
    assert table[2][6] == "Hotel rates (hotel-rates); Canteen (canteen); Payroll (payroll)"
    assert table[2][7] == "finance@contoso.example"
    assert table[3][4:6] == [
        "1, 1 → none, none",
        (
            "document-missing The candidate index does not hold visa-letters: index it again, or correct the label if "
            "it is gone on purpose."
        ),
    ]


def test_lists_errors_stale_noisy_and_gained_questions() -> None:
    text = written(examples.failing())
    assert [row[0] for row in rows(text, "Not measured (1)")] == ["payroll-date"]
    assert rows(text, "Not measured")[0][2] == "candidate: throttled: 503: the service is busy"
    assert [row[0] for row in rows(text, "Stale labels (2)")] == ["handbook", "half-stale"]
    assert [row[0:3:2] for row in rows(text, "Noisy (1)")] == [["badge-colour", "5, 6 → 6, 6"]]
    assert [row[0:3:2] for row in rows(text, "Gained (1)")] == [["remote-days", "7, 7 → 2, 2"]]


def test_tells_what_was_compared() -> None:
    text = written(examples.failing())
    for told in (
        'kb-v1; asked for as kb-live (an alias); 1,204 chunks; etag "0x8DD0AAA"',
        "kb-v2; 1,967 chunks",
        "digest `sha256:cccc`",
        "due by 2027-03-01",
        "hybrid; semantic ranker (default configuration); top 50; k 50; context 5 chunks",
        "max_net_loss 0; protected_slices table; max_question_errors 1",
        "49 comparison queries, 12 others, 51 charged as semantic",
        "**warning** `k-below-candidates`: k (30) is below candidates (50).",
    ):
        assert told in text


@pytest.mark.parametrize(
    ("example", "owner", "pipeline"),
    [
        (examples.failing(), "Decide each lost question below.", "Do not switch."),
        (examples.unmeasured(), "Nothing to decide", "Do not switch: nothing was proven."),
        (examples.unlabelled_only(), "Correct the golden set", "Do not switch: nothing was proven."),
        (examples.stale_critical(), "Correct the golden set", "Do not switch: nothing was proven."),
        (examples.broken(), "Nothing to decide", "Do not switch: nothing was proven."),
        (examples.errors_are_no_losses(), "Nothing to decide", "Do not switch: nothing was proven."),
        (examples.passing(), "Nothing to decide", "The candidate may be promoted within 72 hours"),
    ],
)
def test_tells_every_reader_what_to_do_next(example: Example, owner: str, pipeline: str) -> None:
    text = written(example)
    assert f"- **Content owner**: {owner}" in text
    assert f"- **Pipeline**: {pipeline}" in text
    assert "- **Operations**: " in text


def test_nothing_evaluated_is_told_and_what_was_skipped_is_listed() -> None:
    text = written(examples.unmeasured())
    assert text.startswith("# ERROR: hr")
    assert "0 of 12 labelled questions evaluated" in text
    assert len(rows(text, "Not measured (12)")) == 12
    for example in (examples.empty(), examples.broken(), examples.unlabelled_only()):
        assert "0 of 0 labelled questions evaluated" in written(example)


def test_a_stale_critical_question_is_listed_and_not_lost() -> None:
    text = written(examples.stale_critical())
    table = rows(text, "Stale labels (1)")
    assert table[0][0] == "q003"
    assert table[0][2].startswith("label not in either index: hr-policy-2019")
    assert "Lost questions" not in text


def test_errors_are_neither_lost_nor_gained() -> None:
    text = written(examples.errors_are_no_losses())
    assert [row[0] for row in rows(text, "Not measured (2)")] == ["q1", "q2"]
    assert "Lost questions" not in text
    assert "Gained" not in text


def test_a_noisy_question_keeps_its_ranks_and_an_unsteady_critical_one_is_lost() -> None:
    text = written(examples.unsteady())
    assert [row[0:3:2] for row in rows(text, "Noisy (1)")] == [["q07", "5, 6 → 6, 6"]]
    assert rows(text, "Lost questions (1, 1 critical)")[0][0] == "q08 critical unsteady"


def test_forbidden_documents_come_first() -> None:
    text = written(examples.forbidden())
    assert [row[0:3:2] for row in rows(text, "Forbidden documents shown (2)")] == [
        ["q1", "board-pay at 7"],
        ["q2", "board-pay at 2"],
    ]


# hostile text ----------------------------------------------------------------------------------------------


def test_text_from_outside_makes_no_markup() -> None:
    text = written(examples.hostile())
    text.encode()  # no lone surrogates
    kinds = {token.type for token in tokens(text)}
    assert kinds.isdisjoint(
        {"link_open", "image", "html_inline", "html_block", "fence", "code_block", "hr", "blockquote_open"}
    )
    titles = [line for line in text.split("\n") if line.startswith("#")]
    assert [title for title in titles if title.startswith("# ")] == [titles[0]]
    assert {title.split(" (")[0] for title in titles[1:]} == {
        "## Why",
        "## What to do next",
        "## Lost questions",
        "## What changed",
        "## How much this run can and cannot know",
        "## Noise",
        "## Measures",
        "## Checks",
        "## What was compared",
    }


def test_no_renderer_finds_an_address_outside_of_code() -> None:
    plain = [
        child.content
        for token in tokens(written(examples.hostile()))
        for child in token.children or ()
        if child.type == "text"
    ]
    seen = " ".join(plain)
    assert "//" not in seen
    assert "@" not in seen
    assert "www." not in seen
    assert "evil.example" not in seen


def test_every_hostile_row_keeps_its_eight_cells_and_shows_what_was_there() -> None:
    table = rows(written(examples.hostile()), "Lost questions (7")
    assert [len(row) for row in table] == [8] * 7
    assert table[0][0] == 'q<1>&"'
    assert table[0][1] == r"a\u000b\u001b[31m b \ud83d ]]> \uffff & <c>"
    assert table[1][1] == examples.SCRIPT
    assert table[4][1].startswith(r"invoice\u202egpj.exe\u202c")
    assert "d\\t1" in table[0][3]


def test_no_line_holds_a_pipeline_command_or_an_unseen_character() -> None:
    text = written(examples.hostile())
    assert "##vso[" not in text
    assert "##[" not in text
    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert not set(text) & set("\x7f\x9b\u202e\u202c\u2066\u2069\u200b\uffff")


def test_no_passage_is_in_the_summary() -> None:
    assert "Eine lange Passage" not in written(examples.hostile())


# the limit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [4_000, 5_000, 6_500, 8_000, 20_000])
@pytest.mark.parametrize("example", [examples.failing(), examples.hostile(), examples.unmeasured()])
def test_stays_under_its_limit_without_cutting_a_row(example: Example, limit: int) -> None:
    whole, text = written(example), written(example, limit)
    assert len(text.encode()) <= limit
    assert text.startswith(whole.split("\n", maxsplit=1)[0])
    extra = [line for line in text.split("\n") if line not in whole.split("\n")]
    assert all(line.startswith("**Left out here for size**: ") for line in extra)
    assert bool(extra) is (text != whole)


def test_says_how_many_lost_questions_were_left_out() -> None:
    questions = [
        examples.asked(
            Observed(id=f"q{number:04}", question=f"Question {number}?", answers=("d1",)),
            (1, 1),
            (9, 9),
        )
        for number in range(1_000)
    ]
    text = written(examples.example(examples.a_run(), questions), 100_000)
    table = rows(text, "Lost questions (1000, 0 critical)")
    assert 100 < len(table) < 1_000
    assert [row[0] for row in table] == [f"q{number:04}" for number in range(len(table))]
    assert f"**Left out here for size**: {1_000 - len(table):,} lost questions." in text
    assert "## What was compared" in text
    assert len(text.encode()) > 95_000


def test_refuses_a_limit_that_no_report_fits_in() -> None:
    example = examples.passing()
    with pytest.raises(ValueError, match="4000"):
        written(example, 3_999)


def test_a_run_without_a_verdict_says_so() -> None:
    text = markdown(examples.a_run(), ())
    assert text.startswith("# No verdict yet (queued): hr")
    assert "Wait for the verdict." in text


def test_only_a_trusted_comparison_of_two_indexes_is_offered_for_promotion() -> None:
    passing = examples.passing().run
    for change in ({"trusted": False}, {"noise_study": True}, {"candidate": passing.baseline}):
        assert "- **Pipeline**: Nothing to switch" in markdown(replace(passing, **change), ())


def test_an_overdue_review_and_an_unknown_owner_are_told() -> None:
    golden = GoldenRef(name="hr", digest="sha256:cccc", owner=None, review_by=date(2026, 11, 29))
    text = written(examples.example(examples.a_run(golden_set=golden), examples.passing().questions))
    assert "OVERDUE since 2026-11-29" in text
    assert "unknown: the set names no owner" in text
    assert "name an owner in the golden set" in text


def test_two_queries_are_told_apart() -> None:
    queries = Queries(
        baseline=QuerySettings(semantic=False, mode=Mode.KEYWORD),
        candidate=QuerySettings(min_reranker_score=1.5, filter="lang eq 'en'"),
    )
    text = markdown(examples.a_run(query=queries), ())
    assert "**Query of the baseline**: keyword; no semantic ranker; top 50; context 5 chunks\n" in text
    assert "k 50; context 5 chunks; min_reranker_score 1.5; filter lang eq 'en'\n" in text
