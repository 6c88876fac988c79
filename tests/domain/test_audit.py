"""The audit's records: the chain that they form, and what can be read from them."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.audit import (
    Entry,
    Kind,
    Record,
    ended,
    ever_live,
    history,
    lineage,
    open_flip,
    opened,
    sealed,
    settled,
    targets,
    verify,
)
from app.domain.fingerprint import json_digest

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ENTRY = Entry(kind=Kind.REFUSED, at=NOON, actor="ops", run="run-1", reason="for a reason")


def chain(*entries: Entry) -> dict[int, bytes]:
    """The documents of these, linked as they are kept."""
    documents: dict[int, bytes] = {}
    digest = None
    for number, entry in enumerate(entries, start=1):
        documents[number] = sealed(entry, number, digest)
        digest = opened(documents[number]).digest
    return documents


def records(*entries: Entry) -> list[Record]:
    return [opened(data) for data in chain(*entries).values()]


def entry(kind: Kind, before: str | None = None, after: str | None = None, **members: Any) -> Entry:
    return replace(ENTRY, kind=kind, before=before, after=after, **members)


def flip(kind: Kind, before: str, after: str, *etags: str) -> Entry:
    old, new = etags or (None, None)
    return entry(kind, before, after, etag_before=old, etag_after=new)


def promoted(before: str, after: str, *etags: str) -> Entry:
    return flip(Kind.PROMOTED, before, after, *etags)


def rolled_back(before: str, after: str) -> Entry:
    return flip(Kind.ROLLED_BACK, before, after)


def faults(documents: dict[int, bytes]) -> list[str]:
    return [str(fault) for fault in verify(documents).faults]


FIVE = [replace(ENTRY, reason=f"reason {number}") for number in range(1, 6)]


# the chain


def test_each_record_names_the_one_before_and_a_whole_chain_is_found_whole() -> None:
    first, second = records(*FIVE[:2])
    assert (first.number, first.previous) == (1, None)
    assert (second.number, second.previous) == (2, first.digest)
    found = verify(chain(*FIVE))
    assert (found.whole, found.records, found.faults) == (True, 5, ())
    assert found.head == records(*FIVE)[-1].digest


def test_no_records_are_a_whole_chain() -> None:
    found = verify({})
    assert (found.whole, found.records, found.head) == (True, 0, None)


def test_a_record_is_read_as_it_was_written() -> None:
    (read,) = records(ENTRY)
    assert {name: getattr(read, name) for name in ("kind", "at", "actor", "run", "reason")} == {
        "kind": Kind.REFUSED,
        "at": NOON,
        "actor": "ops",
        "run": "run-1",
        "reason": "for a reason",
    }


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_missing_link_is_named(number: int) -> None:
    documents = chain(*FIVE)
    del documents[number]
    assert faults(documents) == [f"audit/{number:08d}.json: is missing"]


def test_several_missing_links_are_named_as_a_range() -> None:
    documents = chain(*FIVE)
    for number in (2, 3, 4):
        del documents[number]
    assert faults(documents) == ["audit/00000002.json to 00000004: is missing"]


@pytest.mark.parametrize("number", [1, 3, 5])
def test_an_altered_record_is_named(number: int) -> None:
    documents = chain(*FIVE)
    content = json.loads(documents[number])
    documents[number] = json.dumps({**content, "actor": "mallory"}).encode()
    found = faults(documents)
    assert found[0] == (
        f"audit/{number:08d}.json: was altered: its content does not give the digest that it carries"
    )
    assert all(text.startswith(f"audit/{number + 1:08d}.json: does not follow") for text in found[1:])


def test_a_record_that_was_altered_together_with_its_digest_shows_in_the_next_one() -> None:
    documents = chain(*FIVE)
    forged = opened(documents[2])
    documents[2] = sealed(replace(FIVE[1], actor="mallory"), 2, forged.previous)
    (found,) = faults(documents)
    assert found.startswith("audit/00000003.json: does not follow the record before it: it names sha256:")


def test_two_records_that_changed_places_are_named() -> None:
    documents = chain(*FIVE)
    documents[2], documents[3] = documents[3], documents[2]
    found = faults(documents)
    assert any(
        text.startswith("audit/00000002.json: was moved: it says that it is record 3") for text in found
    )
    assert any(
        text.startswith("audit/00000003.json: was moved: it says that it is record 2") for text in found
    )


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b'{"number": 3}', b"[" * 100_000])
def test_what_is_no_record_is_named(data: bytes) -> None:
    documents = chain(*FIVE)
    documents[3] = data
    assert any(text.startswith("audit/00000003.json: was altered: ") for text in faults(documents))


def test_a_record_of_a_later_version_with_more_in_it_still_is_a_link() -> None:
    documents = chain(*FIVE[:1])
    content = {**json.loads(documents[1]), "of_tomorrow": [1, {"a": None}]}
    del content["digest"]

    documents[1] = json.dumps({**content, "digest": json_digest(content)}).encode()
    first = opened(documents[1])
    documents[2] = sealed(FIVE[1], 2, first.digest)
    assert verify(documents).whole


@given(st.text(), st.text())
def test_any_text_can_be_recorded_and_read_again(actor: str, reason: str) -> None:
    hostile = replace(ENTRY, actor=actor, reason=reason + "\ud83d\x00</script>")
    read = opened(sealed(hostile, 1, None))
    assert read.actor == actor
    assert read.reason == reason + "?\x00</script>"


@given(st.integers(1, 5), st.data())
def test_any_changed_byte_is_found(number: int, data: st.DataObject) -> None:
    documents = chain(*FIVE)
    text = bytearray(documents[number])
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    documents[number] = bytes(text)
    same = False
    with suppress(ValueError):
        same = json.loads(bytes(text)) == json.loads(chain(*FIVE)[number])
    assert same or not verify(documents).whole


# what is open


def test_nothing_is_open_where_nothing_was_begun() -> None:
    assert open_flip([]) is None
    assert open_flip(records(ENTRY)) is None


def test_an_intent_is_open_until_its_end_is_recorded() -> None:
    intent = entry(Kind.PROMOTING, "a", "b")
    begun = records(ENTRY, intent, entry(Kind.OVERRIDE_USED, intent=2), ENTRY)
    assert open_flip(begun) == begun[1]
    assert ended(begun, begun[1]) is None
    for kind in (Kind.PROMOTED, Kind.CLOSED):
        done = records(ENTRY, intent, ENTRY, entry(kind, intent=2))
        assert open_flip(done) is None
        assert ended(done, done[1]) == done[3]


def test_a_roll_back_is_open_in_the_same_way() -> None:
    intent = entry(Kind.ROLLING_BACK, "b", "a")
    begun = records(intent)
    assert open_flip(begun) == begun[0]
    assert open_flip(records(intent, entry(Kind.ROLLED_BACK, intent=1))) is None


def test_an_end_of_a_former_intent_does_not_end_the_next_one() -> None:
    begun = records(
        entry(Kind.PROMOTING),
        entry(Kind.CLOSED, intent=1),
        entry(Kind.PROMOTING),
        entry(Kind.PROMOTED, intent=1),
    )
    assert open_flip(begun) == begun[2]


def test_a_change_that_was_given_up_and_made_after_all_ended_as_made() -> None:
    done = records(entry(Kind.PROMOTING), entry(Kind.CLOSED, intent=1), entry(Kind.PROMOTED, intent=1))
    assert ended(done, done[0]) == done[2]


# settling


INTENT = records(
    entry(Kind.PROMOTING, "kb-v1", "kb-v2", etag_before="A", override="o1", golden_set="sha256:1")
)[0]
LATER = NOON + timedelta(minutes=5)


def test_what_was_meant_with_another_etag_was_written_and_is_completed() -> None:
    end = settled(INTENT, ("kb-v2", "B"), at=LATER, by="the next one")
    assert (end.kind, end.intent, end.etag_before, end.etag_after) == (Kind.PROMOTED, 1, "A", "B")
    assert (end.actor, end.run, end.override, end.golden_set) == ("ops", "run-1", "o1", "sha256:1")
    assert end.reason is not None
    assert end.reason.startswith("Completed by the next one")


def test_what_was_there_before_with_the_same_etag_is_closed_as_not_happened() -> None:
    end = settled(INTENT, ("kb-v1", "A"), at=LATER, by="the next one")
    assert (end.kind, end.etag_after) == (Kind.CLOSED, None)
    assert end.reason == "Closed by the next one: it did not happen; nothing was written."


@pytest.mark.parametrize("found", [("kb-v9", "B"), ("kb-v1", "B"), None])
def test_anything_else_was_changed_by_hand_and_is_told_so(found: tuple[str, str] | None) -> None:
    end = settled(INTENT, found, at=LATER, by="the next one")
    assert end.kind is Kind.CLOSED
    assert "changed by hand" in str(end.reason)
    assert (repr(found[0]) if found else "nothing") in str(end.reason)


def test_a_roll_back_and_a_creation_are_settled_in_the_same_way() -> None:
    back = replace(INTENT, kind=Kind.ROLLING_BACK)
    assert settled(back, ("kb-v2", "B"), at=LATER, by="x").kind is Kind.ROLLED_BACK
    creation = replace(INTENT, before=None, etag_before=None)
    assert settled(creation, ("kb-v2", "B"), at=LATER, by="x").kind is Kind.PROMOTED
    assert "did not happen" in str(settled(creation, None, at=LATER, by="x").reason)


# history, and where to go back to


def moves(found: Sequence[Record]) -> list[tuple[str | None, str | None]]:
    return [(each.before, each.after) for each in found]


def test_the_history_is_what_happened_and_nothing_else() -> None:
    found = records(
        ENTRY,
        entry(Kind.PROMOTING, "a", "b"),
        promoted("a", "b"),
        entry(Kind.DRILLED, "b", "a"),
        entry(Kind.PROMOTING, "b", "c"),
        entry(Kind.CLOSED, "b", "c", intent=5),
        rolled_back("b", "a"),
    )
    assert moves(history(found)) == [("a", "b"), ("b", "a")]


def test_a_change_that_was_recorded_late_stands_where_it_happened() -> None:
    found = records(promoted("b", "c", "2", "3"), promoted("a", "b", "1", "2"))
    assert moves(history(found)) == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize(
    ("flips", "live", "expected"),
    [
        ([], "a", ()),
        ([promoted("a", "b")], "b", ("a",)),
        ([promoted("a", "b"), promoted("b", "c")], "c", ("b", "a")),
        ([promoted("a", "b"), rolled_back("b", "a")], "a", ()),  # never to b again
        ([promoted("a", "b"), promoted("b", "c"), rolled_back("c", "b")], "b", ("a",)),  # further back
        ([promoted("a", "b"), promoted("b", "c"), rolled_back("c", "a")], "a", ()),
        ([promoted("a", "b"), rolled_back("b", "a"), promoted("a", "c")], "c", ("a",)),
        ([promoted("a", "b"), promoted("b", "a")], "a", ("b",)),  # promoted anew: b was before it
        ([promoted("a", "b"), promoted("b", "a"), rolled_back("a", "b")], "b", ("a",)),
        ([promoted("a", "b"), rolled_back("b", "a"), rolled_back("a", "b")], "b", ("a",)),  # named explicitly
        ([promoted("a", "b"), promoted("x", "c")], "c", ("x", "b", "a")),  # x was named by hand in between
        ([promoted("a", "b")], "x", ("a",)),  # by hand: to what was before the last promotion
        ([promoted("a", "b"), promoted("b", "c")], "b", ("a",)),  # rolled back by hand
        ([promoted("a", "b")], "a", ()),
        ([promoted("a", "b")], None, ("a",)),
    ],
)
def test_a_roll_back_goes_to_what_was_live_before_the_last_promotion(
    flips: list[Entry], live: str | None, expected: tuple[str, ...]
) -> None:
    assert targets(records(*flips), live) == expected


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8))
def test_rolling_back_again_and_again_never_comes_to_an_index_twice(path: list[str]) -> None:
    made = [
        promoted(before, after) for before, after in zip(["a", *path], path, strict=False) if before != after
    ]
    live = made[-1].after if made else "a"
    seen = []
    while near := targets(records(*made), live):
        seen.append(near[0])
        made.append(rolled_back(str(live), near[0]))
        live = near[0]
        assert len(seen) <= len(path)
    assert lineage(records(*made)) in {(live,), ()}


def test_every_index_that_was_live_is_known() -> None:
    assert ever_live(records(promoted("a", "b"), rolled_back("b", "a"), promoted("x", "c"))) == set("abcx")
