"""The observations of a run in progress, kept compressed so that a large run stays small in memory."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields

from app.domain.golden import Question
from app.domain.observation import Observation, in_context
from app.domain.outcome import Missing, Observed, Tally, counted, differ
from app.domain.query import Queries, Side
from app.gate.records import Entry, packed, unpacked

_GOLDEN_KEYS = tuple(field.name for field in fields(Question))


class Ledger:
    """What was observed so far. Observations of one question and side are numbered from 0; each counts once."""

    def __init__(self, questions: Iterable[Question], queries: Queries) -> None:
        self._questions = {question.id: question for question in questions}
        self._queries = queries
        self._lines: dict[tuple[str, Side], dict[int, bytes]] = defaultdict(dict)
        self._inside: dict[tuple[str, Side], dict[int, bool | None]] = defaultdict(dict)
        self._missing: Mapping[str, Missing] = {}
        self._filtered_out: Mapping[str, Missing] = {}

    def know(self, *, missing: Mapping[str, Missing], filtered_out: Mapping[str, Missing]) -> None:
        """What the label audit found, by question."""
        self._missing, self._filtered_out = missing, filtered_out

    def add(self, entry: Entry) -> bytes | None:
        """The entry's journal line; None if it was there already, or its question is not in the set."""
        place = (entry.question, entry.side)
        question = self._questions.get(entry.question)
        if question is None or entry.number in self._lines[place]:
            return None
        line = packed(entry)
        self._lines[place][entry.number] = line
        query = self._queries.of(entry.side)
        self._inside[place][entry.number] = in_context(question, entry.observation, query)
        return line

    def has(self, question: Question, side: Side, number: int) -> bool:
        return number in self._lines[(question.id, side)]

    def must_confirm(self, question: Question) -> bool:
        """Whether the candidate is asked again: the question is critical, or its first observations differ."""
        return question.critical or differ(
            first_baseline=self._inside[question.id, Side.BASELINE].get(0),
            first_candidate=self._inside[question.id, Side.CANDIDATE].get(0),
        )

    def tallies(self, question: Question) -> tuple[Tally, Tally]:
        """How often the answer was in context, on the baseline and on the candidate."""
        baseline, candidate = (list(self._inside[question.id, side].values()) for side in Side)
        return counted(baseline), counted(candidate)

    def observed(self, question: Question) -> Observed:
        """The question with all its observations, in their order."""
        golden = {name: getattr(question, name) for name in _GOLDEN_KEYS}
        return Observed(
            **golden,
            missing=self._missing.get(question.id, Missing()),
            filtered_out=self._filtered_out.get(question.id, Missing()),
            baseline=self._observations(question, Side.BASELINE),
            candidate=self._observations(question, Side.CANDIDATE),
        )

    def _observations(self, question: Question, side: Side) -> tuple[Observation, ...]:
        lines = self._lines[(question.id, side)]
        return tuple(unpacked(lines[number]).observation for number in sorted(lines))
