"""Passages: cut to what matters, the question's words marked, nothing of them trusted."""

from app.report.passages import passage, terms


def test_the_words_of_a_question_are_those_that_say_something() -> None:
    found = terms("Which forms does a new colleague sign, and wann? HX-4410")
    assert found == {"form", "new", "colleague", "sign", "wann", "4410"}


def test_words_are_marked_whatever_their_case_and_plural() -> None:
    found = passage("The Form and the forms, not the platform.", terms("Which form?"))
    assert found == "The <mark>Form</mark> and the <mark>forms</mark>, not the platform."


def test_a_short_text_stays_whole_without_its_empty_lines() -> None:
    assert passage(" one\n\n  two \n", frozenset()) == "one\ntwo"


def test_a_long_text_is_cut_around_most_of_the_words() -> None:
    text = "form " + "filler " * 300 + "the form that a colleague signs " + "filler " * 300
    found = passage(text, terms("Which form does a colleague sign?"))
    assert found.startswith("…")
    assert found.endswith("…")
    assert "<mark>form</mark> that a <mark>colleague</mark> <mark>signs</mark>" in found
    plain = found.replace("<mark>", "").replace("</mark>", "").strip("…")
    assert 500 < len(plain) <= 600
    assert plain.startswith("filler ")


def test_a_long_text_without_the_words_is_cut_at_its_start() -> None:
    found = passage("filler " * 300, terms("form"))
    assert found.startswith("filler")
    assert found.endswith("filler…")
    assert len(found) <= 601


def test_nothing_of_the_text_is_trusted() -> None:
    found = passage("<b>form</b> & ##vso[x] \x1b[31m \u202e", terms("form vso"))
    assert found == r"&lt;b&gt;<mark>form</mark>&lt;/b&gt; &amp; \u0023#<mark>vso</mark>[x] \u001b[31m \u202e"
