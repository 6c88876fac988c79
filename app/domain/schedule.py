"""How often, and in which order, questions and sides are asked: shuffled, and the same again for the same seed."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from app.domain.golden import Question
from app.domain.policy import Policy
from app.domain.query import Side


def shuffled(questions: Iterable[Question], seed: int, pass_number: int) -> list[Question]:
    """The questions in an order that depends on nothing but seed, pass and ids."""
    return sorted(questions, key=lambda question: _draw(seed, pass_number, question.id))


def sides_first(questions: Sequence[Question], seed: int) -> Iterator[tuple[Question, Side]]:
    """Each question on both sides, one right after the other; which goes first is drawn per question."""
    for question in shuffled(questions, seed, 0):
        sides = (Side.BASELINE, Side.CANDIDATE)
        swapped = _draw(seed, -1, question.id)[0] % 2 == 1
        yield from ((question, side) for side in (reversed(sides) if swapped else sides))


def planned(questions: Sequence[Question], policy: Policy) -> int:
    """How many observations a run plans; more are made where an answer has to be confirmed."""
    critical = sum(question.critical for question in questions)
    return len(questions) * (2 + policy.noise_runs) + critical * policy.confirm_runs


def _draw(seed: int, pass_number: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}/{pass_number}/{name}".encode()).digest()
