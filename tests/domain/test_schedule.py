"""In which order questions and sides are asked."""

from itertools import pairwise

from app.domain.golden import Question
from app.domain.query import Side
from app.domain.schedule import shuffled, sides_first

_QUESTIONS = [Question(id=f"q{n}", question="how?", answers=()) for n in range(200)]


def test_every_question_is_asked_once_in_a_pass() -> None:
    assert sorted(each.id for each in shuffled(_QUESTIONS, 1, 1)) == sorted(each.id for each in _QUESTIONS)


def test_a_seed_and_a_pass_have_an_order_that_does_not_depend_on_the_file() -> None:
    assert shuffled(_QUESTIONS, 1, 1) == shuffled(reversed(_QUESTIONS), 1, 1)


def test_seeds_and_passes_have_different_orders() -> None:
    orders = [[each.id for each in shuffled(_QUESTIONS, seed, n)] for seed in (1, 2) for n in (0, 1)]
    assert all(order != other for n, order in enumerate(orders) for other in orders[n + 1 :])


def test_the_sides_of_a_question_follow_one_another_and_take_turns_at_being_first() -> None:
    asked = list(sides_first(_QUESTIONS, 7))
    assert len(asked) == 400
    pairs = [pair for n, pair in enumerate(pairwise(asked)) if n % 2 == 0]
    assert all(first[0] is second[0] and {first[1], second[1]} == set(Side) for first, second in pairs)
    baseline_first = sum(first[1] is Side.BASELINE for first, _ in pairs)
    assert 60 < baseline_first < 140  # 100 expected, with a standard deviation of 7


def test_the_order_is_the_same_again_for_the_same_seed() -> None:
    assert list(sides_first(_QUESTIONS, 7)) == list(sides_first(_QUESTIONS, 7))
    assert list(sides_first(_QUESTIONS, 7)) != list(sides_first(_QUESTIONS, 8))
