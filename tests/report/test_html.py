"""The page, read by the standard library's parser."""

import base64
import hashlib
import re
from dataclasses import replace
from datetime import date

import pytest
from jinja2 import StrictUndefined, UndefinedError

from app.domain.outcome import Observed
from app.domain.overrides import Override
from app.domain.query import Queries, QuerySettings
from app.domain.review import Review, Ruling, Standing
from app.report.decisions import Decisions
from app.report.html import WITH_CONTEXTS, html
from app.report.sheet import FILE_POLICY, SERVICE_POLICY, TEMPLATES
from tests import examples
from tests.examples import Example
from tests.report.reading import Page
from tests.report.test_junit import EVERY


def source(example: Example) -> str:
    return "".join(html(example.run, example.results))


def page(example: Example) -> Page:
    return Page(source(example))


@pytest.mark.parametrize("example", EVERY)
def test_is_well_formed_with_one_script_of_ours_and_no_reference(example: Example) -> None:
    found = page(example)
    tags = {tag for tag, _ in found.elements}
    assert tags.isdisjoint({"img", "link", "iframe", "object", "base", "video", "use", "image"})
    assert found.count("script") == 1
    for tag, values in found.elements:
        assert not [name for name in values if name.startswith("on") or name in ("src", "style", "action")]
        if "href" in values:
            assert tag == "a"
            assert (values["href"] or "").startswith("#")


@pytest.mark.parametrize("example", EVERY)
def test_every_jump_has_its_target(example: Example) -> None:
    found = page(example)
    ids = [values["id"] for _, values in found.elements if "id" in values]
    assert len(set(ids)) == len(ids)
    targets = {(values["href"] or "")[1:] for tag, values in found.elements if tag == "a"}
    assert targets <= set(ids)


def test_the_policy_allows_the_file_its_own_style_and_script_only() -> None:
    text = source(examples.failing())
    inside = {}
    for name in ("style", "script"):
        found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        assert found is not None
        inside[name] = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert "url(" not in found[1]
        assert "@import" not in found[1]
    assert (
        f"default-src 'none'; style-src 'sha256-{inside['style']}'; script-src 'sha256-{inside['script']}'; "
        "base-uri 'none'; form-action 'none'"
    ) == FILE_POLICY
    policies = [
        values["content"]
        for _, values in Page(text).elements
        if values.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == [FILE_POLICY]
    assert "unsafe" not in FILE_POLICY + SERVICE_POLICY


@pytest.mark.parametrize("example", EVERY)
def test_tells_verdict_headline_reasons_and_next_steps(example: Example) -> None:
    text = page(example).text
    assert f" {example.run.verdict} " in text
    assert "Content owner" in text
    for reason in example.run.reasons:
        assert reason.code in text


def test_the_headline_is_the_title_of_the_page() -> None:
    example = examples.failing()
    assert example.run.headline is not None
    assert example.run.headline in page(example).text


def test_lost_questions_show_both_contexts_side_by_side() -> None:
    found = page(examples.failing())
    lost = found.section("lost")
    assert lost.startswith("Lost questions (4)")
    places = [
        lost.index(name) for name in ("leave-carry-over", "parental-pay", "expense-limit", "visa-letter")
    ]
    assert places == sorted(places)
    first = lost[places[0] : places[1]]
    assert "Expected Leave policy leave-policy Rank before → after 2, 2 → 9, 9" in first
    assert "Why ranked-out Before at 2, now at 9; the context ends at 5. Keyword rank 2 → none" in first
    assert first.count("the context ends at 5") == 2  # why, and below the candidate's chunks where it is now
    assert "Took its place Leave archive 2019 (leave-archive-2019)" in first
    before, after = first[first.index("Before: kb-v1") :].split("After: kb-v2")
    assert "2 Leave policy answer gone leave-policy · score 0.031, ranker 2.8" in before
    assert examples.PASSAGES["leave-policy"] in before
    assert "1 Leave archive 2019 new leave-archive-2019" in after
    assert "2 Parental leave parental-leave" in after
    assert "Answer: at 9 of 9, and the context ends at 5" in after
    # 4 cards of 2 sides of 5 chunks; answers: 2 + 1 + 1 + 1 before, 0 after but parental-pay at 5 is another
    assert found.count("li", "chunk") == 40
    assert found.count("li", "answer") == 5


def test_the_first_observation_that_shows_the_flip_is_shown() -> None:
    lost = page(examples.unsteady()).section("lost")
    assert "3, 3 → 5, 6" in lost
    assert "Answer: at 6 of 10" in lost  # the second of the candidate's; in the first it is in context
    assert "unsteady: not every time" in lost


def test_the_other_lists_hold_their_questions() -> None:
    found = page(examples.failing())
    assert "badge-colour" in found.section("noisy")
    assert "5, 6 → 6, 6" in found.section("noisy")
    assert "parental-pay" not in found.section("noisy")
    assert "remote-days" in found.section("gained")
    assert "candidate: throttled: 503: the service is busy" in found.section("errors")
    assert "label not in either index: hr-policy-2019" in found.section("stale")
    assert "half-stale" in found.section("stale")
    assert "smalltalk" in found.section("unlabelled")
    unchanged = found.section("unchanged")
    for name in ("it-hotline", "canteen-hours", "org-chart", "two-forms", "half-stale"):
        assert name in unchanged
    assert found.count("details") == 1


def test_the_record_tells_what_was_compared() -> None:
    record = page(examples.failing()).section("record")
    for told in ("sha256:cccc", "pipeline 77", "max_net_loss 0", "49 comparison queries", "Manifest: seed 7"):
        assert told in record
    assert record.index("k (30) is below candidates (50).") < record.index("The candidate holds 1,967 chunks")


def test_nothing_evaluated_renders_with_what_was_skipped() -> None:
    found = page(examples.unmeasured())
    assert "Not measured (12)" in found.section("errors")
    assert "0 of 12 labelled questions evaluated" in found.text
    assert "Unlabelled questions (12)" in page(examples.unlabelled_only()).section("unlabelled")
    assert page(examples.empty()).section("lost") == "Lost questions (0) None."


def test_forbidden_documents_stand_before_the_lost_questions() -> None:
    found = page(examples.forbidden())
    assert "board-pay at 7" in found.section("forbidden")
    assert found.text.index("Forbidden documents shown (2)") < found.text.index("Lost questions (0)")


def test_without_passages_their_place_says_so() -> None:
    text = page(examples.without_passages()).text
    for passage in examples.PASSAGES.values():
        assert passage not in text
    assert text.count("Passage not kept (evidence_text = false); fingerprint 0123456789ab.") == 40


def test_a_passage_is_shown_by_its_first_600_characters() -> None:
    for run in re.findall(r"(?:Eine lange Passage\. )+", page(examples.hostile()).text):
        assert len(run) <= 600


# hostile text ----------------------------------------------------------------------------------------------


def test_text_from_outside_stays_text() -> None:
    text = source(examples.hostile())
    text.encode()
    shown = Page(text).text
    assert examples.SCRIPT in shown
    assert r"a\u000b\u001b[31m b \ud83d ]]> \uffff & <c>" in shown
    assert r"invoice\u202egpj.exe\u202c" in shown
    assert "{{ 7*7 }}" in shown
    assert r"d\t1" in shown
    assert "[click](https://evil.example/x)" in shown
    assert not set(text) & set("\x00\x07\x0b\x1b\x7f\x9b\u202e\u202c\u2066\u2069\u200b\uffff")
    assert "##vso[" not in text
    assert "##[" not in text


def test_a_missing_name_in_a_template_is_a_fault_and_escaping_is_on() -> None:
    environment = TEMPLATES
    assert environment.autoescape is True
    assert environment.undefined is StrictUndefined
    assert environment.from_string("{{ text }}").render(text="<\u202e>") == r"&lt;\u202e&gt;"
    with pytest.raises(UndefinedError):
        environment.from_string("{{ nothing }}").render()


# size ------------------------------------------------------------------------------------------------------


def test_beyond_200_lost_questions_only_critical_ones_show_their_contexts() -> None:
    questions = [
        examples.asked(
            Observed(id=f"q{number}", question=f"Question {number}?", answers=("d1",), critical=number > 205),
            (1, 1),
            (9, 9),
        )
        for number in range(1, 208)
    ]
    found = page(examples.example(examples.a_run(), questions))
    assert found.count("article") == 207
    assert found.count("div", "sides") == WITH_CONTEXTS + 2
    assert found.text.count("are left out to keep the page small") == 5


def test_a_side_that_gave_no_chunks_says_why() -> None:
    question = Observed(id="q1", question="First?", answers=("d1",), critical=True)
    lost = examples.asked(question, (1, 1), ())
    nothing = examples.seen(question, ())
    run = examples.a_run()
    found = page(examples.example(run, [replace(lost, candidate=(nothing, nothing))]))
    assert "The service returned no chunks." in found.section("lost")
    assert "nothing: the candidate returned no chunks" in found.section("lost")


def test_a_run_without_a_verdict_shows_its_progress() -> None:
    found = Page("".join(html(examples.a_run(), ())))
    assert "No verdict yet" in found.text
    assert "The run is queued: 0 of 0 observations made." in found.text


def test_a_chunk_below_the_cut_off_is_marked() -> None:
    """Rank 2 on both sides with 2.8; a cut-off of 2.85 leaves the first of the five chunks alone (2.9)."""
    queries = Queries(baseline=QuerySettings(), candidate=QuerySettings(min_reranker_score=2.85))
    question = examples.asked(Observed(id="q1", question="First?", answers=("d1",)), (2, 2), (2, 2))
    lost = page(examples.example(examples.a_run(query=queries), [question])).section("lost")
    assert "2, 2 → 2 (below cut-off), 2 (below cut-off)" in lost
    assert "Answer: at 2 of 10, but below the score cut-off" in lost
    assert "2 D1 answer below cut-off d1" in lost
    assert lost.count("below cut-off new") == 3


def test_require_all_shows_where_every_document_went() -> None:
    """Ranks 1 and 2 before; after, the form at 1 and the other one at 6, its alternative at 7."""
    question = Observed(id="q1", question="Both?", answers=("form", ("a", "b")), require_all=True)
    before = examples.seen(question, ("form", "a"))
    after = examples.seen(question, ("form", "w", "x", "y", "z", "b", "a"))
    run = examples.a_run()
    both = replace(question, baseline=(before, before), candidate=(after, after))
    lost = page(examples.example(run, [both])).section("lost")
    assert "Expected Form form (rank 1 → 1) and A a or B b (rank 2 → 6)" in lost
    assert "2, 2 → 6, 6" in lost
    assert "Answer: a or b: at 6 of 7, and the context ends at 5" in lost


# decisions -------------------------------------------------------------------------------------------------


def test_the_file_shows_what_was_decided_and_that_the_run_is_waived() -> None:
    found = examples.failing()
    taken = Review(
        question="visa-letter",
        decision=Ruling.ACCEPTABLE,
        reason="<b>rare</b>",
        expires=date(2026, 12, 31),
        watch="weekly look",
        id="1",
        run=found.run.id,
        by="ann",
        at=examples.STARTED,
    )
    former = replace(taken, question="expense-limit", run="earlier", expires=date(2026, 1, 1), by=None)
    waived = Override(
        reason="shown on Monday", watch="help desk", id="2", run=found.run.id, by="bob", at=examples.STARTED
    )
    decisions = Decisions(
        reviews=(taken,),
        standing={"visa-letter": Standing(review=taken, expired=False)},
        carried={"expense-limit": (Standing(review=former, expired=True),)},
        overrides=(waived,),
        waived=waived,
    )
    read = Page("".join(html(found.run, found.results, decisions)))
    assert "FAIL WAIVED" in read.text
    assert "Waived by: bob, 2026-11-30 09:00 UTC" in read.text
    lost = read.section("lost")
    assert "1 of 4 decided." in lost
    assert "Decided: acceptable · ann, 2026-11-30 09:00 UTC" in lost
    assert "Reason <b>rare</b> Until 2026-12-31 Watched by weekly look" in lost
    assert (
        "Decided in an earlier run: acceptable expired: does not count · somebody who was not signed in"
        in lost
    )
    assert "Your decision" not in read.text
