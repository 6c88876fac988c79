"""The geometry of the pictures, by hand."""

import pytest

from app.domain.reasons import Verdict
from app.report.pictures import TREND_LINE, Past, Point, latency, ranks, slice_bars, trend


def point(before: int | None, after: int | None, kind: str = "kept", name: str = "q") -> Point:
    return Point(before=before, after=after, kind=kind, title=name, href=f"#{name}")


def test_marks_lie_on_the_side_of_the_edge_where_their_ranks_are() -> None:
    picture = ranks([point(5, 6, "lost"), point(6, 5, "gained"), point(1, 1)], (5, 5), 50)
    kept, gained, lost = picture.marks  # lost ones are drawn last, on top
    assert lost.x < picture.edge_x < gained.x
    assert gained.y < picture.edge_y < lost.y
    assert kept.x < lost.x
    assert picture.kinds == ("lost", "gained", "kept")


def test_what_was_not_found_lies_beyond_every_rank() -> None:
    picture = ranks([point(1, None, "lost"), point(1, 50, "lost")], (5, 5), 50)
    nowhere, last = picture.marks
    assert nowhere.y == picture.none_at > last.y


def test_a_few_questions_at_one_place_are_apart_and_many_are_one_mark_with_their_number() -> None:
    few = ranks([point(1, None, "lost", f"q{each}") for each in range(7)], (5, 5), 50).marks
    assert [mark.href for mark in few] == [f"#q{each}" for each in range(7)]
    assert len({(mark.x, mark.y) for mark in few}) == 7
    many = ranks([point(1, None, "lost") for _ in range(8)], (5, 5), 50).marks
    assert [(mark.count, mark.title) for mark in many] == [
        (8, "8 questions lost, rank 1 before, not found after")
    ]


@pytest.mark.parametrize("deepest", [1, 5, 1000])
def test_every_depth_can_be_drawn(deepest: int) -> None:
    picture = ranks([point(1, deepest)], (1, 1), deepest)
    assert all(46 <= mark.x <= 372 and 46 <= mark.y <= 372 for mark in picture.marks)
    assert picture.ticks


def test_slices_with_the_greatest_net_loss_come_first() -> None:
    bars = slice_bars({"a": (10, 1, 2), "b": (10, 4, 1), "c": (10, 0, 0)})
    assert [(bar.name, bar.left, bar.right) for bar in bars] == [
        ("b", 100.0, 25.0),
        ("c", 0.0, 0.0),
        ("a", 25.0, 50.0),
    ]


def test_times_share_one_scale() -> None:
    picture = latency([100.0] * 20, [200.0] * 19 + [400.0])
    baseline, candidate = picture.sides
    assert (baseline.median, baseline.p95, candidate.median, candidate.p95) == (100, 100, 200, 200)
    assert picture.most == 420  # 400 and a little
    assert candidate.median_at == pytest.approx(2 * baseline.median_at, abs=0.2)
    assert latency([], []).sides == ()


def test_a_trend_shows_gained_above_and_lost_below() -> None:
    runs = [
        Past(run=f"r{each}", verdict=Verdict.FAIL, lost=lost, gained=gained, title="")
        for each, (lost, gained) in enumerate([(4, 0), (0, 2), (0, 0)])
    ]
    columns = trend("hr", runs).columns
    assert [(column.down, column.up) for column in columns] == [(20.0, 0.0), (0.0, 10.0), (0.0, 0.0)]
    assert all(column.up <= TREND_LINE for column in columns)
