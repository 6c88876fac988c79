"""The filter of a question, and which legs a query has."""

import pytest

from app.domain.query import Mode, QuerySettings, joined_filter


@pytest.mark.parametrize(
    ("of_set", "of_question", "joined"),
    [
        ("", "", None),
        ("  ", "\t", None),
        ("a eq 1", "", "a eq 1"),
        (" a eq 1 or b eq 2 ", " ", "a eq 1 or b eq 2"),
        ("", "c eq 3", "c eq 3"),
        ("a eq 1 or b eq 2", "c eq 3 or d eq 4", "(a eq 1 or b eq 2) and (c eq 3 or d eq 4)"),
    ],
)
def test_both_filters_hold_together(of_set: str, of_question: str, joined: str | None) -> None:
    assert joined_filter(of_set, of_question) == joined


@pytest.mark.parametrize(
    ("mode", "by_text", "by_vector"),
    [(Mode.HYBRID, True, True), (Mode.KEYWORD, True, False), (Mode.VECTOR, False, True)],
)
def test_a_mode_says_which_legs_are_asked(mode: Mode, by_text: bool, by_vector: bool) -> None:
    query = QuerySettings(mode=mode)
    assert (query.by_text, query.by_vector) == (by_text, by_vector)
