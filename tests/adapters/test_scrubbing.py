"""Texts as services and libraries word them; what is hidden is written out by hand."""

import pytest

from app.adapters.scrubbing import scrubbed

KEY = "3fK9sLq2VbN7xTz1Wc8RyPm4JhGd6AeU5oXiQk0BnMvZtSgCw7Df"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Unknown semantic configuration 'default'.\r\nParameter name: x", None),
        (f"key {KEY} refused", "key [hidden] refused"),
        ("Authorization: Bearer abc.def", "Authorization: [hidden]"),
        ("sent bearer abc, twice", "sent bearer [hidden], twice"),
        ("https://x/c?sv=2024&sig=a%2Bb%3D&se=1", "https://x/c?sv=2024&sig=[hidden]&se=1"),
        ('{"api-key": "abc", "x": 1}', '{"api-key": "[hidden]", "x": 1}'),
        ("AccountName=a;AccountKey=Zm9v;", "AccountName=a;AccountKey=[hidden];"),
        ("token eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJ4In0.c2ln end", "token [hidden] end"),
        ("index 'rag-1748553314805-semantic-configuration' is fine", None),
        ("request 11111111-2222-3333-4444-555555555555 failed", None),
        ("a\x00b\x1b[31mc\u202ed\ud83de", "a b [31mc d e"),
        ("InvalidRequestParameter, UnknownField: status code: 400, code=x", None),
        ("", ""),
    ],
)
def test_secrets_are_hidden_and_the_rest_stays(text: str, shown: str | None) -> None:
    assert scrubbed(text) == (shown if shown is not None else " ".join(text.split()))


def test_known_secrets_are_hidden_whatever_they_look_like() -> None:
    assert scrubbed("it says hello to you", ["hello", ""]) == "it says [hidden] to you"


def test_long_texts_are_cut_to_500_characters() -> None:
    text = scrubbed("word " * 200)
    assert len(text) == 500
    assert text.endswith("…")


def test_a_very_long_text_is_scrubbed_in_no_time() -> None:
    assert len(scrubbed("a1" * 500_000)) <= 500
    assert len(scrubbed("eyJ" + "a." * 500_000)) <= 500
