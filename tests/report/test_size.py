"""A run of 5,000 questions is shown in the memory of what is shown, not of what was observed."""

import json
import tracemalloc
from collections.abc import Callable, Iterable, Iterator

import pytest

from app.domain.decision import decide, decided, results
from app.domain.observation import Hit, Observation
from app.domain.outcome import Observed, QuestionResult
from app.domain.outline import outlined
from app.domain.run import Run
from app.report.decisions import Decisions
from app.report.html import first_page, html, list_page, shown_lost
from app.report.junit import junit
from app.report.lists import Filter, Lists
from app.report.markdown import markdown
from app.report.run_json import json_chunks
from tests import examples

QUESTIONS = 5_000
LOST = 300
EVIDENCE = 5_000 * 3 * 5 * 2_000  # bytes: three observations of five passages a question, 150 MB


def questions() -> Iterator[Observed]:
    """Made one at a time: 300 lost, all others kept."""
    for number in range(QUESTIONS):
        lost = number % 16 == 0 and number < 16 * LOST
        yield Observed(
            id=f"q{number:05}",
            question=f"What is said about {number}?",
            answers=(f"d{number}",),
            baseline=(_seen(number, 1), _seen(number, 1)),
            candidate=(_seen(number, None if lost else 1),),
        )


def _seen(number: int, rank: int | None) -> Observation:
    parents = [f"d{number}" if place == rank else f"x{number}-{place}" for place in range(1, 6)]
    hits = tuple(
        Hit(rank=place, key=f"{parent}-c", parent=parent, score=1.0, text=f"{parent} ".ljust(2_000, "."))
        for place, parent in enumerate(parents, start=1)
    )
    return Observation(rank=rank, elapsed_ms=100.0, attempts=1, hits=hits)


def outlines(run: Run) -> Iterator[Observed]:
    return (outlined(each, run.query) for each in results(questions(), run.query))


def shown(run: Run, lists: Lists, number: int) -> Lists:
    """The lists with the contexts of one page of the lost questions."""
    ids = shown_lost(lists, Filter(), number)
    whole = (each for each in questions() if each.id in ids)
    return lists.with_contexts(run, results(whole, run.query))


@pytest.fixture(scope="module")
def run() -> Run:
    asked = examples.a_run()
    return decided(asked, decide(asked, results(questions(), asked.query)), on=examples.TODAY)


def peak(write: Callable[[Iterable[QuestionResult]], int], run: Run) -> tuple[int, int]:
    """Bytes written, and the most that was held while writing."""
    tracemalloc.start()
    try:
        size = write(results(questions(), run.query))
        return size, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_page_holds_what_it_shows(run: Run) -> None:
    size, held = peak(lambda found: sum(len(piece) for piece in html(run, found)), run)
    assert size < 6_000_000
    assert held < 20_000_000 < EVIDENCE


def test_the_file_has_every_question_and_the_passages_of_the_first_200_lost(run: Run) -> None:
    text = "".join(html(run, results(questions(), run.query)))
    assert text.count('<article class="card"') == LOST
    assert text.count('<div class="sides">') == 200
    assert text.count("<tr id=") == QUESTIONS - LOST


def test_the_served_page_is_small(run: Run) -> None:
    lists = Lists.of(run, results(outlines(run), run.query), contexts=0)
    text = first_page(run, shown(run, lists, 1), Decisions(), Filter())
    assert len(text.encode()) < 2_000_000
    assert text.count('<article class="card"') == 50
    for number in range(1, 7):
        page = list_page(run, shown(run, lists, number), Decisions(), Filter(), name="lost", number=number)
        assert page is not None
        assert len(page.encode()) < 2_000_000
        assert page.count('<article class="card"') == page.count('<div class="sides">') == 50
    assert list_page(run, lists, Decisions(), Filter(), name="lost", number=7) is None
    last = list_page(run, lists, Decisions(), Filter(), name="unchanged", number=24)
    assert last is not None
    assert last.count("<tr id=") == 100  # 4,700 = 23 x 200 + 100


def test_what_is_kept_at_hand_of_a_run_holds_no_passages(run: Run) -> None:
    tracemalloc.start()
    try:
        lists = Lists.of(run, results(outlines(run), run.query), contexts=0)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(lists.lost) == LOST
    assert held < 10_000_000


def test_the_page_comes_in_pieces(run: Run) -> None:
    pieces = list(html(run, results(questions(), run.query)))
    assert len(pieces) > 20
    assert max(len(piece) for piece in pieces) < sum(len(piece) for piece in pieces) / 2


def test_json_holds_one_question_at_a_time(run: Run) -> None:
    size, held = peak(lambda found: sum(len(piece) for piece in json_chunks(run, found)), run)
    assert size > EVIDENCE
    assert held < 5_000_000


def test_json_of_all_questions_is_one_document(run: Run) -> None:
    found = json.loads(b"".join(json_chunks(run, results(questions(), run.query))))
    assert len(found["questions"]) == QUESTIONS
    assert len(found["lost"]) == LOST


def test_markdown_holds_its_rows(run: Run) -> None:
    size, held = peak(lambda found: len(markdown(run, found).encode()), run)
    assert size < 900_000
    assert held < 10_000_000


def test_junit_holds_its_cases(run: Run) -> None:
    size, held = peak(lambda found: len(junit(run, found)), run)
    assert size < 3_000_000
    assert held < 30_000_000
