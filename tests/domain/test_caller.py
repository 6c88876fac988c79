"""Signatures tell one caller from another by what never changes."""

import pytest

from app.domain.caller import Caller, same_caller, shown_name


def signature(name: str, of: str) -> str:
    return Caller(id=of, name=name, roles=frozenset()).signature


def test_a_caller_stays_the_same_under_another_name() -> None:
    assert same_caller(signature("Ada Byron", "o-1"), signature("Ada King", "o-1"))
    assert not same_caller(signature("Ada", "o-1"), signature("Ada", "o-2"))


@pytest.mark.parametrize("name", ["Ada [o-2]", "Ada [o-2] [", "]\n[o-2]", "[", ""])
def test_a_name_cannot_pass_for_another_caller(name: str) -> None:
    assert same_caller(signature(name, "o-1"), signature("Ada", "o-1"))
    assert not same_caller(signature(name, "o-1"), signature("Bob", "o-2"))


def test_what_is_no_signature_is_itself() -> None:
    assert same_caller(None, None)
    assert same_caller("ada", "ada")
    assert not same_caller(None, signature("Ada", "o-1"))


def test_a_name_is_shown_on_one_line() -> None:
    assert shown_name("  Ada\u202e\ud800\nByron ") == "Ada Byron"
    assert shown_name("x" * 200) == "x" * 100
