import pytest

from app.domain.check import Level
from app.domain.inventory import HASHES_KEPT, Inventory, Lengths, Method, Stocktaking, in_tokens, not_taken
from app.domain.query import ParentNames


def taken(*rows: tuple[str | None, str | None], decodings: tuple[ParentNames, ...] = ()) -> Inventory:
    stock = Stocktaking(decodings)
    for parent, text in rows:
        stock.add(parent, text)
    return stock.inventory(Method.KEY_RANGES, complete=True, note=None, requests=1)


def test_chunks_are_counted_by_parent() -> None:
    found = taken(("a", "one"), ("b", "two"), ("a", "three"))
    assert {name: parent.chunks for name, parent in found.parents.items()} == {"a": 2, "b": 1}
    assert found.chunks == 3


def test_lengths_are_percentiles_in_characters_and_tokens_of_four() -> None:
    found = taken(*(("a", "x" * length) for length in range(1, 101)))
    assert found.lengths.percentile(0.5) == 50
    assert found.lengths.percentile(0.95) == 95
    assert (found.record.tokens_median, found.record.tokens_95, found.record.tokens_most) == (13, 24, 25)
    assert found.lengths.above(24) == 4


def test_lengths_keep_three_digits_so_that_there_are_few_of_them() -> None:
    found = taken(*(("a", "x" * length) for length in range(12_340, 12_350)))
    assert found.lengths == Lengths(((12_300, 10),))


def test_tokens_are_begun_ones() -> None:
    assert [in_tokens(length) for length in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_without_text_there_are_no_lengths() -> None:
    found = taken(("a", None), ("a", " "), (None, None))
    assert (found.without_text, found.without_parent) == (3, 1)
    assert found.record.tokens_median is None
    assert found.parents["a"].chunks == 2


def test_duplicates_are_chunks_that_say_what_an_earlier_one_says() -> None:
    found = taken(("a", "same"), ("b", "same"), ("a", "same"), ("a", "other"))
    assert found.duplicates == 2
    assert (found.parents["a"].repeated, found.parents["a"].distinct) == (1, 2)


def test_beyond_the_kept_hashes_duplicates_are_estimated() -> None:
    stock = Stocktaking()
    for number in range(3 * HASHES_KEPT):
        stock._texts.add((number % (2 * HASHES_KEPT)) * 0x9E3779B97F4A7C15 & ((1 << 64) - 1))
    assert stock._texts.repeated == pytest.approx(HASHES_KEPT, rel=0.05)
    assert len(stock._texts.counts) < 2 * HASHES_KEPT


def test_the_digest_knows_no_order_and_no_keys() -> None:
    one, other = taken(("a", "x"), ("b", "y")), taken(("b", "y"), ("a", "x"))
    assert one.digest == other.digest
    assert one.digest is not None
    assert one.digest.startswith("sha256:")


@pytest.mark.parametrize(
    "rows",
    [
        [("a", "x")],
        [("a", "x"), ("b", "y"), ("b", "y")],
        [("a", "y"), ("b", "x")],
        [("a", "x"), ("b", None)],
        [("a", "x"), (None, "y")],
    ],
)
def test_the_digest_tells_other_contents_apart(rows: list[tuple[str | None, str | None]]) -> None:
    assert taken(*rows).digest != taken(("a", "x"), ("b", "y")).digest


def test_parents_are_decoded_and_those_that_become_one_name_are_ambiguous() -> None:
    urls = ("https://x/eu/leave.md", "https://x/us/leave.md", "https://x/eu/dental.md")
    found = taken(*((url, url) for url in urls), decodings=(ParentNames.FILE_NAME,))
    assert set(found.parents) == {"leave.md", "dental.md"}
    assert found.collisions == {"leave.md": list(urls[:2])}
    (check,) = found.checks("kb-v1")
    assert (check.code, check.level, check.documents) == ("parent-ambiguous", Level.BLOCKING, ("leave.md",))


def test_an_inventory_that_was_not_taken_says_why() -> None:
    (check,) = not_taken("the key is missing.").checks("kb-v1")
    assert check.level is Level.WARNING
    assert check.message == "No inventory could be taken of index 'kb-v1': the key is missing."


def test_a_whole_inventory_has_nothing_to_say() -> None:
    assert taken(("a", "x")).checks("kb-v1") == ()
