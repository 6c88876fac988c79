"""The rule alone; levels worked by hand."""

from app.adapters.pace import Pace, Sent


def _round(pace: Pace, now: float, *, seconds: float = 0.1) -> float:
    """As many at once as are allowed, each answered; the time when all are."""
    sent = [pace.sent(now, place, more=True) for place in range(pace.most())]
    for each in sent:
        pace.answered(each, now + seconds)
    return now + seconds


def _grown(pace: Pace, rounds: int) -> float:
    now = 0.0
    for _ in range(rounds):
        now = _round(pace, now)
    return now


def _at(pace: Pace, now: float, under_way: int) -> Sent:
    return pace.sent(now, under_way, more=True)


def test_it_starts_with_two_and_adds_one_for_each_answer_up_to_the_ceiling() -> None:
    pace = Pace(ceiling=10)
    assert pace.most() == 2
    _grown(pace, 1)
    assert pace.most() == 4
    _grown(pace, 2)
    assert pace.most() == 10
    assert Pace(ceiling=1).most() == 1


def test_it_adds_nothing_while_it_is_not_used_up() -> None:
    pace = Pace(ceiling=10)
    pace.answered(pace.sent(0.0, 0, more=False), 0.1)
    assert pace.most() == 2


def test_a_refusal_halves_what_was_served_and_each_answer_brings_one_back() -> None:
    pace = Pace(ceiling=64)
    now = _grown(pace, 3)  # 2, 4, 8
    assert pace.most() == 16
    pace.refused(_at(pace, now, 8), now)  # the ninth of eight that were served at once
    assert pace.level == 4.0  # half of eight
    for _ in range(3):
        now = _round(pace, now)
    assert pace.level == 8.0


def test_refusals_of_one_wave_count_once() -> None:
    pace = Pace(ceiling=64)
    now = _grown(pace, 3)
    wave = [_at(pace, now, place) for place in range(8, 16)]
    for each in wave:
        pace.refused(each, now)
    assert pace.level == 4.0


def test_a_refusal_of_no_more_at_once_than_were_served_spaces_requests_evenly() -> None:
    pace = Pace(ceiling=2)
    now = _grown(pace, 10)  # one second: 20 answers of 0.1 s, which is 2 at once
    assert pace.pause(now) <= 0
    pace.refused(_at(pace, now, 1), now)
    assert pace.level == 0.95  # half of 1.9: a little less than was served
    _at(pace, now, 0)
    assert round(pace.pause(now), 3) == round(0.1 / 0.95, 3)


def test_after_a_while_without_a_refusal_it_tries_one_more_and_keeps_what_was_served_if_that_is_refused() -> (
    None
):
    pace = Pace(ceiling=64)
    now = _grown(pace, 2)  # 2, 4
    pace.refused(_at(pace, now, 4), now)
    while pace.most() < 5:
        now = _round(pace, now)
    assert now > 2.5
    pace.refused(_at(pace, now, 4), now)
    assert pace.level == 2.0
    now = _round(_settled(pace, now), now + 1)
    assert pace.level == 4.0


def _settled(pace: Pace, now: float) -> Pace:
    for _ in range(3):
        now = _round(pace, now)
    return pace


def test_answers_that_take_longer_stop_it_and_much_longer_ones_take_it_down() -> None:
    pace = Pace(ceiling=64)
    now = _grown(pace, 2)
    assert pace.most() == 8
    for _ in range(3):
        now = _round(pace, now, seconds=0.3)
    held = pace.most()
    for _ in range(20):
        now = _round(pace, now, seconds=0.3)
    assert 2 <= pace.most() < held


def test_a_service_that_is_slower_for_good_is_used_again() -> None:
    pace = Pace(ceiling=8)
    now = _grown(pace, 10)
    for _ in range(300):
        now = _round(pace, now, seconds=0.5)
    assert pace.most() == 8


def test_a_share_of_what_was_served_is_taken_once_there_is_a_limit() -> None:
    pace = Pace(ceiling=64, share=0.5)
    now = _grown(pace, 3)
    assert pace.most() == 16
    pace.refused(_at(pace, now, 8), now)
    for _ in range(5):
        now = _round(pace, now)
    assert pace.most() == 4


def test_refusals_in_a_row_make_longer_pauses_and_the_third_heeds_retry_after() -> None:
    pace = Pace(ceiling=8)
    now = _grown(pace, 1)
    pauses = []
    for _ in range(3):
        pace.refused(_at(pace, now, 0), now, 7.0)
        pauses.append(round(pace._held - now, 3) if pace._held > 0 else 0.0)
    assert pauses == [0.0, 0.1, 7.0]
