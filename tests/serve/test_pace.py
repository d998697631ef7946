"""Whether threads share a lone sentence: what is slow is left for a while, then tried again."""

from __future__ import annotations

import pytest

from transduce.serve import pace as room
from transduce.serve.pace import Crowd, Pace


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

    monkeypatch.setattr(room.time, "monotonic", lambda: Clock.now)
    return Clock


def test_threads_share_as_long_as_that_is_faster(clock):
    pace = Pace()
    assert pace.together
    for _ in range(20):
        pace.note(together=True, tokens=10, seconds=0.01)
        pace.note(together=False, tokens=10, seconds=0.02)
        pace.note(together=True, tokens=20, seconds=0.03)
    assert pace.together


def test_what_is_slower_than_one_thread_is_left_and_tried_again(clock):
    pace = Pace()
    pace.note(together=False, tokens=10, seconds=0.01)
    pauses = []
    for _ in range(8):
        assert pace.together
        pace.note(together=True, tokens=10, seconds=1.0)
        begun = clock.now
        while not pace.together:
            clock.now += 1
        pauses.append(clock.now - begun)
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    for _ in range(3):
        pace.note(together=True, tokens=10, seconds=0.005)
    assert pace.together
    pace.note(together=True, tokens=10, seconds=1.0)
    clock.now += 5
    assert pace.together, "a few successes and the pause is short again"


def test_one_slow_batch_is_chance_and_three_are_not(clock):
    pace = Pace()
    pace.note(together=False, tokens=10, seconds=0.02)
    for _ in range(3):
        pace.note(together=True, tokens=10, seconds=0.01)
    pace.note(together=True, tokens=10, seconds=0.15)  # somebody else had a core for a moment
    assert pace.together
    for _ in range(3):
        pace.note(together=True, tokens=10, seconds=0.15)
    assert not pace.together


def test_much_slower_than_ever_needs_no_comparison(clock):
    pace = Pace()
    pace.note(together=True, tokens=10, seconds=0.01)
    pace.note(together=True, tokens=10, seconds=0.03)  # a longer sentence, perhaps
    assert pace.together
    pace.note(together=True, tokens=10, seconds=0.5)
    assert not pace.together


def test_a_crowd_is_remembered_for_a_moment(clock):
    crowd = Crowd()
    assert crowd.most == 0
    for present in (1, 2, 5, 1):
        crowd.note(present)
    assert crowd.most == 5
    clock.now += 0.3
    crowd.note(2)
    assert crowd.most == 5
    clock.now += 0.3
    assert crowd.most == 2
    clock.now += 10
    assert crowd.most == 0
