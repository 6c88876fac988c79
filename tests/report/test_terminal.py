"""What a terminal shows, drawn without colours."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from app.domain.check import Check, Level
from app.domain.overrides import Override
from app.domain.reasons import Code
from app.report.terminal import last_line, terminal
from tests import examples
from tests.demo_run import demo_run
from tests.examples import Example
from tests.report.test_junit import EVERY


def drawn(example: Example, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(terminal(example.run))
    return out.getvalue()


def words(example: Example, width: int = 200) -> str:
    return " ".join(drawn(example, width).split())


def test_begins_with_the_verdict() -> None:
    assert drawn(examples.failing()).startswith("FAIL  hr · kb-v2 against kb-v1  (run 01JDHR)\n")


def test_tells_reasons_what_changed_what_is_known_and_the_noise() -> None:
    text = words(examples.failing())
    told = (
        "· critical-lost: Critical questions lost their answer",
        "Lost (4)",
        "Gained: remote-days",
        "Changed: chunking (2 differences), content (1 difference)",
        "Certainty: Of 8 questions that the baseline had in context in every observation, 3 lost still leaves",
        "Noise: answers moved in or out of the context: baseline asked again 1 of 11 (9.1%); candidate 5 of 11",
        "· warning: 2 kinds of change at once",
    )
    places = [text.index(each) for each in told]
    assert places == sorted(places)


def test_lost_questions_say_where_the_answer_went_and_what_took_its_place() -> None:
    text = drawn(examples.failing(), 200)
    line = next(each for each in text.split("\n") if "leave-carry-over How many" in each)
    assert "critical: " in line
    assert "2 → 9" in line
    assert "ranked-out" in line
    assert "leave-archive-2019" in line
    missing = next(each for each in text.split("\n") if "visa-letter Who" in each)
    assert "1 → none" in missing
    assert "document-missing" in missing


def test_lost_questions_say_why_with_the_evidence_and_the_leg() -> None:
    text = drawn(examples.failing())
    assert "  leave-carry-over: Before at 2, now at 9; the context ends at 5. Keyword rank 2 → none" in text
    assert "  visa-letter: The candidate index does not hold visa-letters: index it again" in text


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("example", [*EVERY, demo_run()])
def test_fits_on_forty_lines_with_the_last_one(example: Example, width: int) -> None:
    assert len(drawn(example, width).splitlines()) <= 39


def test_many_lost_questions_reasons_and_warnings_are_counted() -> None:
    checks = tuple(Check(code="x", level=Level.WARNING, message=f"Warning {number}.") for number in range(9))
    blocking = tuple(
        Check(code=code, level=Level.BLOCKING, message=f"{code}.") for code in list(Code) if "index" in code
    )
    failing = examples.failing()
    many = [
        examples.asked(replace(failing.questions[0], id=f"q{number}"), (1, 1), (9, 9)) for number in range(50)
    ]
    example = examples.example(examples.a_run(checks=(*checks, *blocking)), many)
    text = words(example)
    assert "and 44 more: see the report" in text
    assert "and 5 more warnings: see the report" in text
    assert len(drawn(example).splitlines()) <= 39


def test_what_was_not_evaluated_comes_before_other_warnings() -> None:
    run = examples.unknown_rule().run
    other = Check(code="x", level=Level.WARNING, message="Something else.")
    text = words(replace(examples.unknown_rule(), run=replace(run, checks=(other, *run.checks))))
    assert text.index("· not evaluated: Stale labels could not be looked up") < text.index("Something else.")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_text_from_outside_commands_no_terminal_and_no_agent(width: int) -> None:
    text = drawn(examples.hostile(), width)
    text.encode()
    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert not set(text) & set("\x7f\x9b\u202e\u202c\u2066\u2069\u200b\uffff")
    assert "##vso[" not in text
    assert "##[" not in text


def test_a_waived_run_says_so_with_name_and_reason() -> None:
    waived = Override(
        id="o1", run="01JDHR", reason="old set\x1b[2J", watch="the help desk", by="Ada", at=examples.STARTED
    )
    out = io.StringIO()
    Console(file=out, width=200).print(terminal(examples.failing().run, waived))
    first, second = out.getvalue().splitlines()[:2]
    assert first.startswith("FAIL  hr")
    told = "Waived by: Ada, 2026-11-30 09:00 UTC. Reason: old set\\u001b[2J. Watched by: the help desk"
    assert second.rstrip() == f"WAIVED. {told}"


def test_text_from_outside_styles_nothing() -> None:
    out = io.StringIO()
    example = examples.hostile()
    Console(file=out, width=120, force_terminal=True, color_system="standard").print(terminal(example.run))
    assert "\x1b[2J" not in out.getvalue()
    assert "[31mred" not in out.getvalue().replace("\\u001b[31mred", "")


def test_a_run_without_a_verdict_says_nothing_of_certainty() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(terminal(examples.a_run()))
    assert out.getvalue().strip() == ""


def test_the_last_line_is_one_line() -> None:
    for example in EVERY:
        assert "\n" not in last_line(example.run)
