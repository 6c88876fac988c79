"""Which of two policies allows more."""

from dataclasses import fields, replace
from typing import Any

import pytest

from app.domain.policy import Policy, looser_settings

_MIDDLE = Policy(
    max_net_loss=2,
    protected_slices=("table", "lookup"),
    max_question_errors=2,
    noise_runs=2,
    confirm_runs=2,
    max_noisy_share=0.5,
    min_evaluated_share=0.5,
    max_lost_documents_share=0.5,
    max_net_destabilised=2,
    max_documents_changed=2,
    max_verdict_age_hours=48,
    evidence_text=True,
    auto_rollback=True,
)

_LOOSER_AND_STRICTER: dict[str, tuple[Any, Any]] = {
    "max_net_loss": (3, 1),
    "protected_slices": (("table",), ("table", "lookup", "exception")),
    "max_question_errors": (3, 1),
    "noise_runs": (1, 3),
    "confirm_runs": (1, 3),
    "max_noisy_share": (0.6, 0.4),
    "min_evaluated_share": (0.4, 0.6),
    "max_lost_documents_share": (None, 0.4),
    "max_net_destabilised": (None, 1),
    "max_documents_changed": (3, 1),
    "max_verdict_age_hours": (49, 47),
}
_NEITHER: dict[str, Any] = {"evidence_text": False}


def test_every_setting_is_covered_here() -> None:
    assert {each.name for each in fields(Policy)} == {
        *_LOOSER_AND_STRICTER,
        *_NEITHER,
        "auto_rollback",
    }


@pytest.mark.parametrize("name", _LOOSER_AND_STRICTER)
def test_each_setting_is_looser_one_way_only(name: str) -> None:
    looser, stricter = _LOOSER_AND_STRICTER[name]
    assert looser_settings(replace(_MIDDLE, **{name: looser}), _MIDDLE) == (name,)
    assert looser_settings(replace(_MIDDLE, **{name: stricter}), _MIDDLE) == ()


def test_not_rolling_back_by_itself_is_looser_where_the_set_does() -> None:
    stays = replace(_MIDDLE, auto_rollback=False)
    assert looser_settings(stays, _MIDDLE) == ("auto_rollback",)
    assert looser_settings(_MIDDLE, stays) == ()


@pytest.mark.parametrize("name", _NEITHER)
def test_what_is_kept_of_the_evidence_is_neither_looser_nor_stricter(name: str) -> None:
    other = replace(_MIDDLE, **{name: _NEITHER[name]})
    assert looser_settings(other, _MIDDLE) == looser_settings(_MIDDLE, other) == ()


def test_a_policy_is_not_looser_than_itself() -> None:
    assert looser_settings(_MIDDLE, _MIDDLE) == ()
    assert looser_settings(Policy(), Policy()) == ()


@pytest.mark.parametrize("name", ["max_lost_documents_share", "max_net_destabilised"])
def test_an_unset_limit_allows_everything(name: str) -> None:
    values: tuple[Any, ...] = (None, 0, 1)
    unset, zero, one = (replace(_MIDDLE, **{name: value}) for value in values)
    assert looser_settings(unset, one) == (name,)
    assert looser_settings(zero, unset) == ()
    assert looser_settings(one, zero) == (name,)
    assert looser_settings(zero, one) == ()


def test_another_slice_in_place_of_a_protected_one_is_looser() -> None:
    other = replace(_MIDDLE, protected_slices=("table", "exception"))
    assert looser_settings(other, _MIDDLE) == ("protected_slices",)


def test_the_order_of_protected_slices_makes_no_difference() -> None:
    assert looser_settings(replace(_MIDDLE, protected_slices=("lookup", "table")), _MIDDLE) == ()


def test_all_looser_settings_are_named_and_a_stricter_one_makes_up_for_none() -> None:
    other = replace(_MIDDLE, max_net_loss=3, min_evaluated_share=0.1, max_question_errors=0)
    assert looser_settings(other, _MIDDLE) == ("max_net_loss", "min_evaluated_share")
