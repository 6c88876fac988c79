"""Texts found again in other texts, however both were cut."""

import random
from collections.abc import Iterable, Sequence

import pytest

from app.domain.sketch import KEPT, Overlap, Sketch, overlaps


def words(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return [f"w{chance.randrange(5000)}" for _ in range(count)]


def chunks(text: Sequence[str], size: int, overlap: int = 0) -> list[str]:
    return [" ".join(text[start : start + size]) for start in range(0, len(text), size - overlap)]


def sketch(texts: Iterable[str]) -> Sketch:
    made = Sketch()
    for text in texts:
        made.add(text)
    return made


def overlap(first: Sketch, second: Sketch) -> Overlap:
    return next(overlaps([(first, second)]))[0]


def test_a_text_is_found_in_itself_whole_whatever_the_order_of_its_chunks() -> None:
    cut = chunks(words(3000), 100)
    assert overlap(sketch(cut), sketch(reversed(cut))).containment == 1.0
    assert sketch(cut).grams == sketch(reversed(cut)).grams


@pytest.mark.parametrize(("size", "overlap_"), [(300, 0), (100, 25), (77, 3), (5000, 0)])
def test_a_text_cut_anew_is_found_whole(size: int, overlap_: int) -> None:
    text = words(2000)
    one, other = sketch(chunks(text, 100)), sketch(chunks(text, size, overlap_))
    assert overlap(one, other).missing == 0
    assert overlap(other, one).missing == 0


def test_without_its_borders_the_same_cut_would_look_like_missing_text() -> None:
    """A border of two chunks breaks four 5-grams: of 96 5-grams in 100 words, four are not in the other cut."""
    text = words(2000)
    one, other = sketch(chunks(text, 2000)), sketch(chunks(text, 50))
    assert overlap(one, other).missing == 0
    other.borders = other.borders[:0] if other.borders is not None else None
    assert overlap(one, other).missing >= 3


def test_a_cut_within_words_is_no_missing_text() -> None:
    text = " ".join(f"word{each}" for each in words(1500))
    pieces = [text[start : start + 403] for start in range(0, len(text), 403)]
    one, other = sketch([text]), sketch(pieces)
    assert overlap(one, other).missing == 0
    assert overlap(other, one).missing == 0


@pytest.mark.parametrize("between", ["\n\n", "\n", ": "])
def test_a_title_written_above_each_chunk_is_the_chunkers(between: str) -> None:
    plain, titled = [], []
    for number in range(30):
        text = words(600, seed=number)
        plain.append(sketch(chunks(text, 150)))
        title = " ".join(words(2 + number % 6, seed=1000 + number))
        titled.append(sketch(f"{title}{between}{chunk}" for chunk in chunks(text, 90)))
    there = [each[0].missing for each in overlaps(zip(plain, titled, strict=True))]
    back = [each[0] for each in overlaps(zip(titled, plain, strict=True))]
    assert there == [0] * 30
    assert sum(each.missing for each in back) <= 2
    assert all(each.containment >= 0.98 for each in back)


def test_headings_left_out_of_the_text_are_the_chunkers() -> None:
    whole, bodies = [], []
    for number in range(20):
        sections = [words(60, seed=number * 50 + each) for each in range(8)]
        text = "\n\n".join(
            f"## Heading {number} {each} of it\n\n{' '.join(body)}" for each, body in enumerate(sections)
        )
        whole.append(sketch([text]))
        bodies.append(sketch(" ".join(body) for body in sections))
    found = [each[0] for each in overlaps(zip(whole, bodies, strict=True))]
    assert sum(each.missing for each in found) <= 2


def test_one_sentence_in_twenty_is_missing_when_it_was_altered() -> None:
    text = words(400)
    altered = [*text[:200], *words(20, seed=9), *text[220:]]
    found = overlap(sketch(chunks(text, 100)), sketch(chunks(altered, 100)))
    # 20 words in the middle touch 24 of 396 5-grams; those at the borders of both cuts aside
    assert found.containment == pytest.approx(1 - 24 / 396, abs=0.03)


def test_texts_without_a_word_in_common_are_not_found() -> None:
    assert overlap(sketch(chunks(words(500), 100)), sketch(["something else " * 50])).containment == 0.0


def test_a_part_is_found_in_the_whole_and_not_the_reverse() -> None:
    text = words(900)
    part, whole = sketch([" ".join(text[:300])]), sketch([" ".join(text)])
    assert overlap(part, whole).containment == 1.0
    assert overlap(whole, part).containment == pytest.approx(1 / 3, abs=0.12)


def test_the_number_of_5_grams_is_exact_when_they_are_few_and_estimated_beyond() -> None:
    assert sketch([" ".join(f"a{number}" for number in range(100))]).size == 96
    many = sketch([" ".join(f"a{number}" for number in range(20_000))])
    assert many.size == pytest.approx(19_996, rel=0.3)
    assert len(many.grams) == KEPT


def test_a_text_of_very_many_chunks_keeps_a_sketch_of_bounded_size_and_forgives_what_borders_break() -> None:
    text = words(30_000)
    many = sketch(chunks(text, 20))
    assert many.borders is None
    assert overlap(sketch(chunks(text, 20_000)), many).missing == 0


@pytest.mark.parametrize("text", ["", " \n", "one", "one two three four", "\ud800 x", "|", "# ", "\n\n\n"])
def test_any_chunk_can_be_read(text: str) -> None:
    made = sketch([text, text])
    assert overlap(made, made).missing == 0


def test_chinese_is_read_by_its_characters() -> None:
    text = "员工每年享有二十五天带薪假期未使用的天数在三月失效" * 2
    altered = text.replace("二十五", "三十")
    assert sketch([text]).size > 20
    assert overlap(sketch([text]), sketch([altered])).containment < 0.9
