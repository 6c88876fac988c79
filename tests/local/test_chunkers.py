"""Chunks worked by hand, with words for tokens; then what must hold for every document of the corpus."""

import re
from pathlib import Path

import pytest

from infra.local.build import read_corpus, word_pieces
from infra.local.chunkers import Chunk, Document, Span, by_headings, by_size

CORPUS = Path("infra/local/corpus")


def words(text: str) -> list[Span]:
    return [word.span() for word in re.finditer(r"\S+", text)]


def document(text: str, title: str = "Pumps") -> Document:
    return Document(id="pumps", title=title, text=text)


def sized(text: str, *, size: int, overlap: int = 0) -> list[str]:
    return [chunk.text for chunk in by_size(document(text), words, size=size, overlap=overlap)]


def headed(text: str, *, size: int = 100, least: int = 0) -> list[tuple[str, str]]:
    return [(each.path, each.text) for each in by_headings(document(text), words, size=size, least=least)]


TABLE = """\
| Code | Meaning |
| --- | --- |
| E-01 | wire broken |
| E-02 | sensor short |
| E-03 | no flow |
"""


def test_windows_of_a_size_share_the_overlap() -> None:
    assert sized("a b c d e f g", size=3, overlap=1) == ["a b c", "c d e", "e f g"]


def test_the_last_window_may_be_shorter() -> None:
    assert sized("a b c d e f", size=3, overlap=1) == ["a b c", "c d e", "e f"]
    assert sized("a b c d", size=3) == ["a b c", "d"]


def test_no_window_repeats_only_what_the_one_before_had() -> None:
    assert sized("a b c d e", size=3, overlap=2) == ["a b c", "b c d", "c d e"]
    assert sized("a b", size=5, overlap=4) == ["a b"]


def test_a_window_keeps_the_line_breaks_inside_it() -> None:
    assert sized("  a\n\nb c\n", size=2) == ["a\n\nb", "c"]


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_document_without_words_has_no_chunks(text: str) -> None:
    assert sized(text, size=3) == []
    assert headed(text) == []


@pytest.mark.parametrize(("size", "overlap"), [(3, 3), (3, 4), (3, -1), (0, 0)])
def test_an_overlap_that_leaves_no_room_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="overlap"):
        by_size(document("a b"), words, size=size, overlap=overlap)


def test_a_size_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        by_headings(document("a b"), words, size=0)


def test_chunks_are_counted_from_0_and_name_their_document() -> None:
    chunks = by_size(document("a b c"), words, size=2, overlap=0)
    assert [(each.document.id, each.path, each.ordinal) for each in chunks] == [
        ("pumps", "Pumps", 0),
        ("pumps", "Pumps", 1),
    ]


def test_offsets_are_those_of_the_body_in_the_document() -> None:
    text = "# Pumps\n\nAbove.\n\n## Codes\n\nBelow it."
    first, second = by_headings(document(text), words, size=100)
    assert (first.start, first.end) == (9, 15)
    assert (second.start, second.end) == (27, 36)


def test_a_section_stands_under_its_path_of_headings() -> None:
    text = "# Pumps\n\nAll.\n\n## Codes\n\nTwo.\n\n### Alarms\n\nThree.\n\n## Care\n\nFour.\n"
    assert headed(text) == [
        ("Pumps", "All."),
        ("Pumps > Codes", "Two."),
        ("Pumps > Codes > Alarms", "Three."),
        ("Pumps > Care", "Four."),
    ]


def test_the_title_leads_the_path_of_a_document_that_does_not_repeat_it() -> None:
    assert headed("Plain.\n\n## Codes ##\n\nTwo.") == [("Pumps", "Plain."), ("Pumps > Codes", "Two.")]


def test_an_empty_section_is_left_out_and_lives_on_in_the_paths_below_it() -> None:
    assert headed("## Codes\n\n### Alarms\n\nThree.") == [("Pumps > Codes > Alarms", "Three.")]


def test_nothing_but_headings_is_one_chunk() -> None:
    assert headed("# Pumps\n\n## Reserved\n") == [("Pumps", "# Pumps\n\n## Reserved")]


def test_a_hash_in_fenced_code_is_no_heading() -> None:
    text = "## Codes\n\n```\n# not a heading\n```\n"
    assert headed(text) == [("Pumps > Codes", "```\n# not a heading\n```")]


def test_paragraphs_are_packed_as_long_as_they_fit_under_the_path() -> None:
    # the path "Pumps > Codes" has three words, which leaves five for the text
    text = "## Codes\n\na b\n\nc d e\n\nf g"
    assert headed(text, size=8) == [("Pumps > Codes", "a b\n\nc d e"), ("Pumps > Codes", "f g")]


def test_a_long_paragraph_is_cut_after_sentences_and_a_long_sentence_between_tokens() -> None:
    assert headed("a b c. d e f. g h i j k l.", size=5) == [
        ("Pumps", "a b c."),
        ("Pumps", "d e f."),
        ("Pumps", "g h i j"),
        ("Pumps", "k l."),
    ]


def test_a_path_too_long_for_the_size_still_leaves_half_of_it_to_the_text() -> None:
    path = "one two three four five"
    assert headed(f"## {path}\n\na b c d e", size=4) == [
        (f"Pumps > {path}", "a b"),
        (f"Pumps > {path}", "c d"),
        (f"Pumps > {path}", "e"),
    ]


def test_a_table_that_fits_is_not_cut_but_moved_into_the_next_chunk() -> None:
    # the table has 28 words, the path one
    text = f"a b c\n\n{TABLE}"
    assert headed(text, size=30) == [("Pumps", "a b c"), ("Pumps", TABLE.strip())]
    assert headed(text, size=32) == [("Pumps", text.strip())]


def test_a_table_that_does_not_fit_is_cut_between_rows_and_its_header_repeated() -> None:
    # path 1, header 5 + 5, rows 6, 6 and 6: two rows would make 23
    header = "| Code | Meaning |\n| --- | --- |\n"
    assert headed(TABLE, size=22) == [
        ("Pumps", header + "| E-01 | wire broken |"),
        ("Pumps", header + "| E-02 | sensor short |"),
        ("Pumps", header + "| E-03 | no flow |"),
    ]
    assert headed(TABLE, size=23) == [
        ("Pumps", header + "| E-01 | wire broken |\n| E-02 | sensor short |"),
        ("Pumps", header + "| E-03 | no flow |"),
    ]


def test_the_repeated_header_is_not_part_of_the_body() -> None:
    _, second = by_headings(document(TABLE), words, size=23)
    assert TABLE[second.start : second.end] == "| E-03 | no flow |"


def test_a_row_too_long_for_the_size_stays_whole() -> None:
    rows = [text.splitlines()[2:] for _, text in headed(TABLE, size=2)]
    assert rows == [["| E-01 | wire broken |"], ["| E-02 | sensor short |"], ["| E-03 | no flow |"]]


def test_text_goes_on_after_a_table_that_was_cut() -> None:
    last = headed(f"{TABLE}\nAsk us.", size=23)[-1]
    assert last == ("Pumps", "| Code | Meaning |\n| --- | --- |\n| E-03 | no flow |\n\nAsk us.")


SHORT = "## A\n\na b c\n\n## B\n\nd e f\n\n## C\n\ng h i j k l m\n"


def test_short_sections_are_joined_under_what_their_paths_have_in_common() -> None:
    # A and B have six tokens each with their paths; joined, with both headings and the title, eleven
    assert headed(SHORT, size=12, least=7) == [
        ("Pumps", "## A\n\na b c\n\n## B\n\nd e f"),
        ("Pumps > C", "g h i j k l m"),
    ]


def test_sections_are_not_joined_beyond_the_size() -> None:
    assert [path for path, _ in headed(SHORT, size=10, least=7)] == ["Pumps > A", "Pumps > B", "Pumps > C"]


def test_sections_that_are_long_enough_are_not_joined() -> None:
    assert [path for path, _ in headed(SHORT, size=12, least=6)] == ["Pumps > A", "Pumps > B", "Pumps > C"]


def test_a_section_joined_with_those_below_it_keeps_its_own_path() -> None:
    assert headed("## A\n\na\n\n### A1\n\nb", least=50) == [("Pumps > A", "a\n\n### A1\n\nb")]


def test_the_rest_of_a_section_keeps_its_path_when_the_next_is_joined_to_it() -> None:
    assert headed("## A\n\na b c d e\n\nf\n\n## B\n\ng", size=8, least=6) == [
        ("Pumps > A", "a b c d e"),
        ("Pumps > A", "f\n\n## B\n\ng"),
    ]


def of_corpus() -> list[tuple[Document, list[list[Chunk]]]]:
    pieces = word_pieces()
    return [
        (
            each,
            [
                by_size(each, pieces, size=120, overlap=30),
                by_headings(each, pieces, size=120),
                by_headings(each, pieces, size=256, least=64),
            ],
        )
        for each in read_corpus(CORPUS)
    ]


def test_every_body_of_the_corpus_is_a_slice_of_its_document_and_every_word_is_in_one() -> None:
    for each, ways in of_corpus():
        lines = [line for line in re.split(r"(?<=\n)", each.text) if not line.startswith("#")]
        for chunks in ways:
            assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
            assert [chunk.start for chunk in chunks] == sorted({chunk.start for chunk in chunks})
            assert all(chunk.text.endswith(each.text[chunk.start : chunk.end]) for chunk in chunks)
            held = {place for chunk in chunks for place in range(chunk.start, chunk.end)}
            start = 0
            for line in lines:
                start = each.text.index(line, start)
                assert all(
                    place in held
                    for place in range(start, start + len(line))
                    if not each.text[place].isspace()
                ), (each.id, line)
                start += len(line)


def test_no_row_of_the_corpus_is_cut_and_every_one_stands_under_its_header() -> None:
    for each, (_, *ways) in of_corpus():
        tables = re.findall(r"^\|.*\n\|[ |:-]+\|\n(?:\|.*(?:\n|\Z))+", each.text, flags=re.MULTILINE)
        for chunks in ways:
            for table in tables:
                names, delimiter, *rows = table.strip().split("\n")
                for row in rows:
                    holders = [chunk.text.split("\n") for chunk in chunks if row in chunk.text.split("\n")]
                    assert any(f"{names}\n{delimiter}" in "\n".join(holder) for holder in holders), row


def test_no_chunk_of_the_corpus_by_headings_is_longer_than_the_size() -> None:
    pieces = word_pieces()
    for each, (_, *ways) in of_corpus():
        for chunks, size in zip(ways, (120, 256), strict=True):
            long = [chunk for chunk in chunks if len(pieces(chunk.path)) + len(pieces(chunk.text)) > size]
            assert not long, each.id
