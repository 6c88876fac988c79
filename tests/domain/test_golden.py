"""What a question asks for, and the digest that tells two golden sets apart."""

import json

import pytest

from app.domain.golden import Question
from tests.domain.making import line, read

# entries


def _question(answers: tuple[str | tuple[str, ...], ...], *, require_all: bool = False) -> Question:
    return Question(id="q1", question="how?", answers=answers, require_all=require_all)


def test_the_answers_of_a_plain_question_are_alternatives_of_one_entry() -> None:
    assert _question(("a", "b")).entries == (("a", "b"),)


def test_with_require_all_each_answer_is_an_entry_of_its_own() -> None:
    assert _question(("a", ("b", "c")), require_all=True).entries == (("a",), ("b", "c"))


@pytest.mark.parametrize("require_all", [False, True])
def test_an_unlabelled_question_has_no_entries(require_all: bool) -> None:
    assert _question((), require_all=require_all).entries == ()


def test_labelled_documents_are_listed_once_in_the_order_of_the_file() -> None:
    question = _question((("b", "a"), ("a", "c"), "b"), require_all=True)
    assert question.labelled_documents == ("b", "a", "c")


# digest

_TOML = 'owner = "hr"\n[query]\nk = 60\nfilter = "a eq 1"\n[policy]\nmax_net_loss = 1\n'


def test_the_digest_ignores_layout() -> None:
    expected = read(line("q1", slice="a", critical=True), line("q2"), toml=_TOML).digest
    spaced = json.dumps(
        json.loads(line("q1", slice="a", critical=True)), indent=None, separators=(" ,  ", " : ")
    )
    defaults = line("q2", critical=False, require_all=False, slice=[], forbidden=[], filter="", facts=[])
    reordered = json.dumps(dict(reversed(json.loads(line("q1", critical=True, slice=["a"])).items())))
    policy = "# note\n[policy]\nmax_net_loss = 1\nnoise_runs = 1\n\n"
    query = "[query]\nfilter = 'a eq 1'\nk = 0x3c\nmode = 'hybrid'\n"
    toml = 'owner = """hr"""\r\n' + (policy + query).replace("\n", "\r\n")
    assert read(spaced, line("q2"), toml=_TOML).digest == expected
    assert read(line("q2"), line("q1", slice="a", critical=True), toml=_TOML).digest == expected
    assert read("", defaults, "", reordered, "", toml=toml).digest == expected
    assert read("\ufeff" + spaced, line("q2") + "\r", toml="\ufeff" + _TOML).digest == expected


def test_the_digest_of_an_escaped_character_is_that_of_the_character() -> None:
    escaped = '{"id": "q1", "question": "\\u00fc", "answers": []}'
    assert read(escaped).digest == read(escaped.replace("\\u00fc", "ü")).digest


def test_no_settings_and_settings_that_spell_the_defaults_are_the_same() -> None:
    toml = "[query]\nk = 50\n[query.candidate]\nk = 50\n[policy]\nmax_noisy_share = 0.2\n"
    assert read(line(), toml=toml).digest == read(line()).digest == read(line(), toml="").digest


def test_the_digest_knows_the_effective_query_not_how_it_is_spelt() -> None:
    common = read(line(), toml="[query]\nk = 60").digest
    sides = read(line(), toml="[query.baseline]\nk = 60\n[query.candidate]\nk = 60").digest
    assert common == sides


@pytest.mark.parametrize(
    "keys",
    [
        {"question": "what else?"},
        {"question": "what about q1? "},
        {"answers": []},
        {"answers": ["d2"]},
        {"answers": ["d1", "d2"]},
        {"require_all": True},
        {"critical": True},
        {"slice": "a"},
        {"family": "a"},
        {"filter": "a eq 1"},
        {"forbidden": ["d2"]},
        {"owner": "a"},
        {"note": "a"},
        {"spans": [{"document": "d1", "start": 0, "end": 1}]},
        {"facts": ["a"]},
        {"reference_answer": "a"},
        {"metadata": {"a": 1}},
    ],
    ids=str,
)
def test_the_digest_knows_every_key_of_a_question(keys: dict[str, object]) -> None:
    assert read(line("q1", **keys)).digest != read(line("q1")).digest


@pytest.mark.parametrize(
    "toml",
    [
        "owner = 'a'",
        "review_by = 2027-03-01",
        "[query]\nk = 60",
        "[query.baseline]\nk = 60",
        "[query.candidate]\nk = 60",
        "[query.embedding]\nendpoint = 'http://a'\ndeployment = 'b'",
        "[policy]\nmax_net_loss = 1",
        "[policy]\nevidence_text = false",
    ],
)
def test_the_digest_knows_every_part_of_the_settings(toml: str) -> None:
    assert read(line(), toml=toml).digest != read(line()).digest


def test_sides_do_not_change_places_in_the_digest() -> None:
    assert (
        read(line(), toml="[query.baseline]\nk = 60").digest
        != read(line(), toml="[query.candidate]\nk = 60").digest
    )


def test_the_order_of_answers_and_the_id_are_content() -> None:
    assert read(line("q1", answers=["a", "b"])).digest != read(line("q1", answers=["b", "a"])).digest
    assert read(line("q1", question="a")).digest != read(line("q2", question="a")).digest
