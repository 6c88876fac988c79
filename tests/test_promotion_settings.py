"""What the environment says of promotions."""

import pytest

from app.domain.errors import InputError
from app.main import _flip_limits, _rules
from app.settings import Settings, read_settings


def read(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return read_settings()


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("hr", ("hr",)),
        ("hr,it", ("hr", "it")),
        (" hr , it,,hr, ", ("hr", "it")),
        ("", ()),
        (",", ()),
    ],
)
def test_required_sets_are_names_between_commas(
    monkeypatch: pytest.MonkeyPatch, value: str, names: tuple[str, ...]
) -> None:
    assert read(monkeypatch, GATE_REQUIRED_SETS=value).required_sets == names


def test_what_promotions_are_bound_to_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = read(monkeypatch)
    assert (_rules(strict).required_sets, _rules(strict).sent_sets, _rules(strict).four_eyes) == (
        (),
        False,
        True,
    )
    settings = read(
        monkeypatch,
        GATE_REQUIRED_SETS="hr,it",
        GATE_PROMOTE_SENT_SETS="true",
        GATE_FOUR_EYES="false",
        GATE_FLIP_SETTLE_SECONDS="10",
        GATE_WATCH_PAUSE_SECONDS="0.5",
        GATE_PROPAGATION_SECONDS="45",
        GATE_RETIRE_AFTER_HOURS="48",
        GATE_MAX_CONCURRENCY="7",
    )
    rules, limits = _rules(settings), _flip_limits(settings)
    assert (rules.required_sets, rules.sent_sets, rules.four_eyes) == (("hr", "it"), True, False)
    assert (limits.settle_seconds, limits.write_seconds) == (10, 5)
    assert (limits.watch_pause_seconds, limits.watch_concurrency) == (0.5, 7)
    assert limits.propagation_seconds == 45
    assert limits.retire_after.total_seconds() == 48 * 3600


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GATE_FLIP_SETTLE_SECONDS", "0"),
        ("GATE_FOUR_EYES", "perhaps"),
        ("GATE_PROPAGATION_SECONDS", "-1"),
        ("GATE_RETIRE_AFTER_HOURS", "-1"),
        ("GATE_WATCH_PAUSE_SECONDS", "nan"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(monkeypatch, **{name: value})
    assert [fault.where for fault in caught.value.faults] == [name]
