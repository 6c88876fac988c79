"""What is told beside the questions, read from the Markdown and from the page; numbers as `examples` works them out."""

from dataclasses import replace

import pytest

from app.domain.change import ChangeKind
from app.domain.check import Check, Level
from app.domain.difference import difference
from app.domain.inventory import Method
from app.domain.outcome import Observed
from app.domain.policy import Policy
from app.report.findings import inventory_in_short
from app.report.html import html
from app.report.markdown import markdown
from tests import examples
from tests.examples import Example
from tests.report.reading import Page, lines, rows, table, tokens

CHANGED = "What changed"
KNOWLEDGE = "How much this run can and cannot know"
ALL_MEASURES = "All evaluated questions"
WATCH = "Watch list"
TEMPTING = "Questions without an answer"
GONE = "Documents of the baseline that the candidate lacks"


def written(example: Example, limit: int = 900_000) -> str:
    return markdown(example.run, example.results, limit_bytes=limit)


def page(example: Example) -> Page:
    return Page("".join(html(example.run, example.results)))


# what changed ----------------------------------------------------------------------------------------------


def test_differences_are_grouped_by_kind_after_the_warnings() -> None:
    assert lines(written(examples.failing()), CHANGED) == [
        "Warning: 2 of 312 documents of the baseline (0.6%) are not in the candidate; 1 of them answer 1 questions.",
        "Warning: 2 kinds of change at once (chunking, content): a regression cannot be attributed.",
        "Warning: A change of content was found and not declared (chunking was).",
        "Declared with the run: chunking.",
        "Chunking: how documents are cut into chunks",
        "chunks a document: 3.9, now 6.3.",
        "tokens a chunk: median 220, now median 118.",
        "Content: the documents themselves",
        "Documents gone: 2 of 312, such as 'old-canteen-menu', 'visa-letters'.",
        (
            "Baseline kb-v1: 1,204 chunks of 312 parent documents read by ranges of the key; complete; length in "
            "tokens (estimated) 220 median, 250 95th percentile, 256 most."
        ),
        (
            "Candidate kb-v2: 1,967 chunks of 310 parent documents read by ranges of the key; complete; length in "
            "tokens (estimated) 118 median, 125 95th percentile, 128 most; 3 chunks that repeat another."
        ),
        "Documents of the baseline that the candidate lacks",
    ]


def test_every_vanished_document_is_told_with_the_questions_that_it_answers() -> None:
    expected = [["visa-letters", "visa-letter"], ["old-canteen-menu", "none of this set"]]
    assert table(written(examples.failing()), GONE) == expected
    assert page(examples.failing()).cells(GONE)[1:] == expected


def test_no_difference_is_called_nothing_only_where_everything_was_read() -> None:
    nothing = "Nothing: definitions, query settings, documents and chunks show no difference."
    assert lines(written(examples.same_again()), CHANGED)[0] == nothing
    for example, told in (
        (examples.passing(), "No difference is recorded. What the indexes hold was not read"),
        (examples.unknown_rule(), "No difference was found. The indexes were not read whole"),
        (examples.broken(), "Not known: the run ended before both indexes were looked at."),
    ):
        text = written(example)
        assert lines(text, CHANGED)[0].startswith(told)
        assert "Nothing:" not in text
    study = replace(examples.same_again().run, noise_study=True)
    assert lines(markdown(study, ()), CHANGED)[0] == "Nothing: this is one index against itself."


def test_differences_without_inventories_say_what_they_cannot_show() -> None:
    found = (difference(ChangeKind.SCHEMA, "analyzer of chunk", "standard", "de.lucene"),)
    told = lines(markdown(replace(examples.passing().run, differences=found), ()), CHANGED)
    assert told[1:3] == [
        "Schema: fields, and how their words are read and weighed",
        "analyzer of chunk: standard, now de.lucene.",
    ]
    assert told[3].startswith("What the indexes hold was not read")


def test_of_many_differences_the_first_twenty_are_shown_and_the_others_counted() -> None:
    found = tuple(
        difference(ChangeKind.SCHEMA, f"field f{number:02}", None, "Edm.String") for number in range(33)
    )
    told = lines(markdown(replace(examples.passing().run, differences=found), ()), CHANGED)
    assert told[2:22] == [f"field f{number:02}: none, now Edm.String." for number in range(20)]
    assert told[22] == "and 13 more, which are in run.json"


def test_a_long_difference_is_clipped() -> None:
    found = (difference(ChangeKind.SCHEMA, "synonym map", "a" * 5_000, None),)
    told = lines(markdown(replace(examples.passing().run, differences=found), ()), CHANGED)
    assert len(told[2]) == 400
    assert told[2].endswith("…")


@pytest.mark.parametrize(("limit", "word"), [(0.0, "Breaks a rule"), (None, "Warning")])
def test_lost_documents_say_whether_they_break_a_rule(limit: float | None, word: str) -> None:
    check = Check(
        code="lost-documents", level=Level.WARNING, message="Gone.", measured=0.01, documents=("d9",)
    )
    run = examples.a_run(
        checks=(check,),
        policy=Policy(max_lost_documents_share=limit),
        inventories=examples.inventories(parents=311),
    )
    text = written(examples.example(run, examples.passing().questions))
    assert f"{word}: Gone." in lines(text, CHANGED)
    assert table(text, GONE) == [["d9", "none of this set"]]


def test_a_declared_change_that_was_not_found_is_a_note() -> None:
    check = Check(code="declared-change-not-found", level=Level.INFO, message="None was found.")
    text = written(examples.example(examples.a_run(checks=(check,)), examples.passing().questions))
    assert "Note: None was found." in lines(text, CHANGED)


@pytest.mark.parametrize(
    ("method", "how"),
    [
        (Method.KEY_RANGES, "by ranges of the key"),
        (Method.PARENT_RANGES, "by ranges of the parent field"),
        (Method.SKIP_IN_ORDER, "one after the other in the key's order"),
        (Method.SKIP, "one after the other, in an order that the service does not promise"),
    ],
)
def test_an_inventory_tells_how_it_was_taken(method: Method, how: str) -> None:
    record = examples.inventory(method=method, complete=False, note="It stopped.", tokens_median=None)
    assert inventory_in_short(record) == (
        f"1,204 chunks of 312 parent documents read {how}; NOT complete: It stopped"
    )


def test_an_inventory_that_was_not_taken_says_why() -> None:
    record = examples.inventory(method=Method.NOT_TAKEN, complete=False, note="403: refused.")
    assert inventory_in_short(record) == "not read: 403: refused"


# how much the run can know ---------------------------------------------------------------------------------


def test_the_honest_sentence_comes_first() -> None:
    assert lines(written(examples.same_again()), KNOWLEDGE) == [
        (
            "Of 12 questions that the baseline had in context in every observation, none lost still leaves a true loss "
            "rate of up to 22.1% at 95% confidence, for questions like these."
        ),
        "Of 12 questions, 0 lost and 0 gained: nothing moved.",
    ]


def test_slices_that_are_too_small_are_named_with_what_they_had() -> None:
    told = lines(written(examples.measured()), KNOWLEDGE)
    assert "1 lost still leaves a true loss rate of up to 75.1%" in told[0]
    assert (
        told[1]
        == "Of 4 questions, 1 lost and 0 gained: too few to tell from chance (exact McNemar test, p = 1.000)."
    )
    assert told[2].startswith("Too small to show a loss: slices lookup (2), table (2).")


def test_the_page_tells_what_changed_and_how_certain_it_is_beside_the_reasons() -> None:
    why = page(examples.failing()).section("why")
    assert "Changed chunking (2 differences), content (1 difference)" in why
    assert "Certainty Of 8 questions" in why
    assert "up to 22.1%" in page(examples.same_again()).section("why")


# noise -----------------------------------------------------------------------------------------------------


def test_the_noise_floor_stands_beside_the_change() -> None:
    expected = [
        ["pairs of answers compared", "4", "4"],
        ["answer moved in or out of the context", "0 of 4 (0.0%)", "1 of 4 (25.0%)"],
        ["mean movement of the answer's rank", "0.25 (over 4 pairs)", "1.25 (over 4 pairs)"],
        ["answer listed in one of the two only", "0", "0"],
        [
            "mean movement of scores at the edge of the context",
            "0.005 (over 4 pairs)",
            "0.0238 (over 4 pairs)",
        ],
    ]
    assert table(written(examples.measured()), "Movement between") == expected
    assert page(examples.measured()).cells("Movement between")[1:] == expected


def test_the_watch_list_says_why() -> None:
    assert table(written(examples.measured()), f"{WATCH}: questions that a small change may flip (2)") == [
        ["m3: The third?", "kept", "5, 4 → 4", "answer at most one rank from the end of the context (5)"],
        [
            "m4: The fourth?",
            "kept",
            "1, 1 → 1",
            "scores at the edge are 0.005 apart, and move by 0.02 by themselves",
        ],
    ]


def test_the_watch_list_shows_twenty() -> None:
    questions = [
        examples.asked(Observed(id=f"q{number:02}", question="?", answers=("d1",)), (5, 5), (5,))
        for number in range(31)
    ]
    text = written(examples.example(examples.a_run(), questions))
    shown = table(text, "Watch list: questions that a small change may flip (31); the first 20 of them")
    assert [row[0] for row in shown] == [f"q{number:02}: ?" for number in range(20)]


def test_a_baseline_asked_once_has_no_noise_floor() -> None:
    question = examples.asked(Observed(id="q1", question="?", answers=("d1",)), (1,), (1,))
    text = written(examples.example(examples.a_run(), (question,)))
    assert lines(text, "Noise")[0].startswith("The baseline was asked once")
    assert table(text, "Movement between")[1] == [
        "answer moved in or out of the context",
        "not measured",
        "0 of 1 (0.0%)",
    ]


def test_probes_say_what_the_noise_is_consistent_with() -> None:
    told = lines(written(examples.failing()), "Noise")
    assert told[1].endswith(
        "the noise is consistent in 1 question (badge-colour) with replicas that answer differently."
    )
    assert "No noisy question was probed." in lines(written(examples.unsteady()), "Noise")
    assert "probed" not in written(examples.same_again()).lower()


# measures --------------------------------------------------------------------------------------------------


def test_measures_stand_side_by_side_with_their_difference() -> None:
    found = {row[0].split(":")[0]: row[1:] for row in table(written(examples.measured()), ALL_MEASURES)}
    assert found["success"] == ["1.000", "0.750", "-0.250", "4"]
    assert found["recall"] == ["1.000", "0.750", "-0.250", "4"]
    assert found["reciprocal rank"][0] == "0.675"
    assert found["nDCG"] == ["0.754", "0.608", "-0.147", "4"]
    assert found["context precision"] == ["0.200", "0.150", "-0.050", "4"]
    assert found["different documents in context"] == ["5.000", "5.000", "0.000", "4"]
    assert found["success before the semantic ranker"] == ["1.000", "0.750", "-0.250", "4"]
    assert found["elapsed, median (ms)"] == ["120", "200", "+80", "6"]
    assert found["elapsed, 95th percentile (ms)"] == ["120", "200", "+80", "6"]


def test_the_page_has_the_same_measures() -> None:
    from_page = page(examples.measured()).cells(ALL_MEASURES)
    assert from_page[0] == ["measure", "baseline", "candidate", "difference", "n"]
    assert from_page[1:] == table(written(examples.measured()), ALL_MEASURES)


def test_slices_show_success_and_their_net_change() -> None:
    found = table(written(examples.measured()), "Slices")
    assert [row[:4] for row in found] == [["lookup", "2", "1.000", "0.500"], ["table", "2", "1.000", "0.500"]]
    assert all(row[4].startswith("-1 of 2 (") for row in found)
    assert all(row[4].endswith("too small to show a loss") for row in found)


def test_churned_questions_and_the_overlap_are_told() -> None:
    told = lines(written(examples.measured()), "Measures")
    assert told[0].startswith("Of the documents in context, 15% are the same on both sides")
    assert told[1] == (
        "3 questions kept the answer while most documents around it changed (overlap under 0.5): m1, m3, m4."
    )


def test_unlabelled_questions_whose_top_score_rose_are_named() -> None:
    text = written(examples.measured())
    assert "rose (1 of 2, mean 1.350 → 1.500)" in text
    assert table(text, TEMPTING) == [["u1: Weather u1?", "1.200", "2.000", "+0.800"]]
    assert not table(written(examples.failing()), TEMPTING)


def test_without_an_evaluated_question_no_measure_is_made_up() -> None:
    text = written(examples.unmeasured())
    assert lines(text, "Measures")[0] == "No question was evaluated, so no ranking was measured."
    assert table(text, ALL_MEASURES)[0] == ["success: the answer is in context", "–", "–", "–", "0"]
    assert not [row for row in table(text, ALL_MEASURES) if row[0].startswith("elapsed")]


# rules, forbidden documents, fingerprint -------------------------------------------------------------------


def test_a_rule_that_was_not_evaluated_stands_at_the_top() -> None:
    told = "Stale labels could not be looked up in index 'kb-v1': the parent field is not filterable."
    top = written(examples.unknown_rule()).split("\n## ", maxsplit=1)[0]
    assert f"**Not evaluated**: {told}" in top
    assert f"Not evaluated: {told}" in page(examples.unknown_rule()).section("why")


def test_a_rule_that_is_set_and_was_not_measured_is_named() -> None:
    run = examples.a_run(policy=Policy(max_lost_documents_share=0.01))
    example = examples.example(run, examples.passing().questions)
    assert example.run.verdict == "ERROR"
    top = written(example).split("\n## ", maxsplit=1)[0]
    assert (
        "**Not evaluated**: max_lost_documents_share is set, and what this rule needs was not measured."
        in top
    )


def test_forbidden_documents_of_the_baseline_are_reported_and_decide_nothing() -> None:
    example = examples.forbidden_today()
    assert example.run.verdict == "PASS"
    text = written(example)
    found = rows(text, "Forbidden documents that the baseline shows (1)")
    assert [row[0:3:2] for row in found] == [["q1", "board-pay at 2"]]
    assert "Forbidden documents shown" not in text
    assert "board-pay at 2" in page(example).section("forbidden-now")
    assert not page(example).section("forbidden")


def test_the_fingerprint_is_in_the_record() -> None:
    told = lines(written(examples.failing()), "What was compared")
    assert (
        "Fingerprint of the candidate: kb-v2; definition sha256:def2; etag etag-2; chunks 1,967; "
        "synonym maps not known; inventory sha256:inv2"
    ) in told
    assert (
        "Fingerprint of what was asked: golden set sha256:cccc; query sha256:9999; policy sha256:pppp"
    ) in told
    assert "Fingerprint: not taken" in lines(written(examples.passing()), "What was compared")


def test_checks_stay_listed_with_what_was_probably_meant() -> None:
    assert (
        "warning stale-label: 2 answer documents are in neither index: 'hr-policy-2019' (did you mean "
        "'hr-policy-2020'?), 'travel-2018'. Correct the golden set."
    ) in lines(written(examples.failing()), "Checks")


# order, size, hostile text ---------------------------------------------------------------------------------


def test_what_a_reader_needs_first_comes_first() -> None:
    titles = [
        line[3:].split(" (")[0] for line in written(examples.failing()).split("\n") if line[:3] == "## "
    ]
    assert titles == [
        *(
            "Why",
            "What to do next",
            "Lost questions",
            "Not measured",
            CHANGED,
            KNOWLEDGE,
            "Noise",
            "Measures",
        ),
        *("Stale labels", "Noisy", "Gained", "Unlabelled", "Checks", "What was compared"),
    ]


def test_findings_keep_their_room_however_many_questions_are_lost() -> None:
    questions = [
        examples.asked(
            Observed(id=f"q{number:04}", question=f"Number {number}?", answers=("d1",)), (1, 1), (9, 9)
        )
        for number in range(600)
    ]
    text = written(examples.example(examples.a_run(), questions), 60_000)
    assert len(text.encode()) <= 60_000
    assert "600 lost still leaves a true loss rate of up to 100.0%" in text
    assert table(text, ALL_MEASURES)
    assert "**Left out here for size**: " in text


def test_a_page_before_the_verdict_has_no_findings() -> None:
    found = Page("".join(html(examples.a_run(), ())))
    assert not found.section("changed")
    assert not found.section("knowledge")
    assert "Certainty" not in found.text


def test_every_table_of_the_page_has_a_caption_or_a_heading_of_its_own() -> None:
    found = page(examples.failing())
    named = [name for name, _ in found.tables if name]
    assert {GONE, "Movement between two answers to the same question"} <= set(named)
    assert len(named) == found.count("caption")
    assert len(set(named)) == len(named)


def test_hostile_differences_and_names_are_shown_and_do_nothing() -> None:
    text = written(examples.hostile())
    kinds = {token.type for token in tokens(text)}
    assert kinds.isdisjoint({"link_open", "image", "html_inline", "html_block", "fence", "code_block"})
    told = lines(text, CHANGED)
    for shown in (
        examples.SCRIPT,
        r"\u202egpj.exe",
        r"\u001b[2J",
        r"\ud83d a",
        r"1. x\n\n# heading\n| a | b |",
    ):
        assert any(shown in line for line in told)
    assert [row[0] for row in table(text, GONE)] == [r"d\t1", f"{examples.SCRIPT}|"]
    found = page(examples.hostile())
    assert examples.SCRIPT in found.section("changed")
    assert found.count("script") == 1
    assert [row[0] for row in found.cells(GONE)[1:]] == [r"d\t1", f"{examples.SCRIPT}|"]
