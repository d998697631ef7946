"""What follows from CTranslate2's hypotheses, without CTranslate2."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.search.config import SearchConfig
from transduce.search.penalty import length_penalty
from transduce.translate.ctranslate2_beam import (
    Found,
    Run,
    best_ended,
    endless,
    exponent,
    filled_up,
    first_run,
    joined,
    needs,
)

SAFE = SearchConfig(beam_size=2, max_extra_len=20)


def ended(total: float, length: int = 3) -> Found:
    return Found(("a",) * length, total, ended=True)


def alive(total: float, length: int) -> Found:
    return Found(("b",) * length, total, ended=False)


def test_a_safe_search_goes_on_while_something_alive_could_win():
    run = Run(6, 14)
    assert needs([ended(-2.0), alive(-30.0, 6)], run, 20, SAFE) is None
    assert needs([ended(-9.0), alive(-1.0, 6)], run, 20, SAFE) == Run(12, 26)
    assert needs([alive(-1.0, 6)], run, 20, SAFE) == Run(12, 26)
    assert needs([ended(-9.0), alive(-1.0, 6)], Run(15, 32), 20, SAFE) == Run(21, 44)
    assert needs([ended(-9.0), alive(-1.0, 6)], Run(21, 44), 20, SAFE) is None  # the limit


def test_where_all_of_the_last_step_ended_the_least_of_them_bounds_what_is_hidden():
    run = Run(4, 10)
    assert needs([ended(-2.0, 3), ended(-2.1, 3)], run, 20, SAFE) == Run(8, 18)
    assert needs([ended(-2.0, 1), ended(-30.0, 3)], run, 20, SAFE) is None


def test_patience_counts_endings_in_the_order_of_time():
    config = SearchConfig(beam_size=2, patience=1.0, alpha=0.0)
    found = [ended(-1.0, 9), ended(-5.0, 2), ended(-4.0, 3)]
    assert [h.total for h in best_ended(found, 20, config)] == [-4.0]
    assert [h.total for h in best_ended(found, 20, SAFE)] == [-1.0]
    assert best_ended(found, 1, SAFE) == []


def test_a_neighbours_limit_is_not_ones_own():
    config = SearchConfig(beam_size=2, patience=1.0)
    assert needs([ended(-1.0, 9), ended(-2.0, 3)], Run(31, 2), 5, config) == Run(6, 6)
    assert needs([ended(-9.0, 9), ended(-2.0, 3)], Run(31, 2), 5, config, 0.6) is None  # nothing can beat it
    assert needs([ended(-1.0, 3), ended(-2.0, 3)], Run(31, 2), 5, config) is None


def test_what_was_left_out_is_asked_for_only_if_it_could_win():
    config = SearchConfig(beam_size=2, patience=1.0, alpha=0.6)
    power = exponent(config, [28])
    assert needs([ended(-1.0), ended(-40.0)], Run(31, 2), 30, config, power) is None
    near = [ended(-9.0, 29), ended(-9.1, 29)]
    assert needs(near, Run(61, 2), 60, config, power) is None  # what is left out is at least as long or worse
    assert needs(near, Run(61, 2), 60, config, 0.6) == Run(30, 6)  # to where it stopped
    assert needs(near, Run(30, 6), 60, config, 0.6) is None  # fewer came than were asked for
    assert needs(3 * near, Run(30, 6), 60, config, 0.6) == Run(30, 62)
    power_alike = SearchConfig(beam_size=2, patience=1.0, alpha=0.6, length_penalty="power")
    assert needs(near, Run(61, 2), 60, power_alike, 0.6) is None  # ranked as we rank


def test_what_a_second_run_hides_may_be_what_had_stopped_the_first():
    """An early ending that is not shown would have left the later ones out."""
    config = SearchConfig(beam_size=2, patience=1.0, alpha=0.6, n_best=2)
    found = [
        alive(-1.36, 8),
        ended(-0.99, 0),
        ended(-3.95, 4),
        ended(-4.11, 5),
        ended(-4.41, 7),
        ended(-4.31, 6),
    ]
    assert needs(found, Run(8, 6), 14, config, 0.214) == Run(8, 18)


def test_what_was_alive_at_the_limit_may_have_taken_the_place_of_what_had_ended():
    power = SearchConfig(beam_size=2, patience=1.0, alpha=1.0, length_penalty="power")
    both_alive = [alive(-7.0, 11), alive(-9.0, 11)]
    assert needs(both_alive, Run(11, 2), 10, power, 1.0) == Run(11, 24)  # nothing would stop it sooner
    assert needs([ended(-12.0), *both_alive], Run(11, 6), 10, power, 1.0) is None
    # What is not shown is worse than what is, and of that one has ended.
    assert needs([ended(-2.0), alive(-9.0, 11)], Run(11, 2), 10, power, 1.0) is None


def test_a_longer_run_than_its_own_serves_a_sentence_if_nothing_stopped_it():
    config = SearchConfig(beam_size=2, patience=1.0, alpha=1.0, length_penalty="power")
    for setting in (config, SAFE):
        assert needs([alive(-7.0, 31), alive(-9.0, 31)], endless(setting, 31), 10, setting, 1.0) is None
        assert needs([ended(-7.0, 20), ended(-9.0, 21)], endless(setting, 31), 10, setting, 1.0) is None
    assert needs([ended(-7.0, 20), ended(-9.0, 21)], Run(31, 2), 10, config, 1.0) == endless(config, 11)


def test_endless_runs_are_joined_under_the_longest_and_others_only_with_their_like():
    wanted = [(Run(6, 14), "a"), (Run(6, 8), "b"), (Run(9, 20), "c"), (Run(6, 8), "d"), (Run(12, 8), "e")]
    assert joined(wanted, SAFE) == {Run(9, 20): ["a", "c"], Run(6, 8): ["b", "d"], Run(12, 8): ["e"]}
    assert joined(wanted[1:2], SAFE) == {Run(6, 8): ["b"]}
    assert joined([], SAFE) == {}


def test_what_was_alive_at_the_limit_comes_behind_what_ended():
    three = SearchConfig(beam_size=4, n_best=3, max_extra_len=20)
    best = [ended(-9.0)]
    found = [
        ended(-9.0),
        alive(-3.0, 6),
        ended(-1.0, 2),
        alive(-2.0, 5),
        alive(-4.0, 4),
        Found(("a",) * 3, -1.0, False),
    ]
    assert filled_up(best, found, three) == [ended(-9.0), alive(-2.0, 5), alive(-3.0, 6)]
    assert filled_up([], found[1:2], three) == [alive(-3.0, 6)]
    # A limit of 0: what ended before its first token is not told again as cut there.
    assert filled_up([ended(-1.0, 0)], [alive(0.0, 0)], three) == [ended(-1.0, 0)]


def test_runs_begin_short_and_within_every_limit():
    assert first_run(SAFE, [10, 4], [30, 24]) == Run(20, 42)
    assert first_run(SAFE, [10, 4], [30, 5]).steps == 6
    assert first_run(SearchConfig(beam_size=4, patience=2.0), [10, 4], [30, 24]) == Run(31, 8)


@pytest.mark.parametrize(("alpha", "kind"), [(0.0, "gnmt"), (0.0, "power")])
def test_the_exponent_is_never_zero(alpha, kind):
    """CTranslate2 would stop at the first ending of the top hypothesis."""
    assert 0 < exponent(SearchConfig(alpha=alpha, length_penalty=kind, patience=1.0), [9]) < 1e-6


@given(
    totals=st.lists(st.tuples(st.floats(-50, -0.1), st.integers(1, 19)), min_size=1, max_size=8),
    hidden=st.tuples(st.floats(-50, 0), st.integers(7, 20)),
    alpha=st.floats(-1, 2),
    kind=st.sampled_from(["gnmt", "power"]),
)
def test_nothing_that_could_follow_beats_an_answer_that_is_called_sure(totals, hidden, alpha, kind):
    """Whatever a hypothesis alive after 6 steps becomes, its sum only falls."""
    config = SearchConfig(beam_size=2, max_extra_len=20, alpha=alpha, length_penalty=kind)
    run = Run(6, 14)
    found = [ended(total, length % 5) for total, length in totals]
    total, steps = hidden
    found.append(alive(total, 6))
    if needs(found, run, 20, config) is None:
        penalty = length_penalty(kind, alpha)
        best = best_ended(found, 20, config)[0]
        assert total / penalty(steps) <= best.total / penalty(best.steps) + 1e-9
        assert not math.isnan(best.total)


@pytest.mark.parametrize("patience", [1000.0, math.inf])
def test_more_patience_than_there_are_hypotheses_asks_for_all_of_them(patience):
    config = SearchConfig(beam_size=2, patience=patience, max_extra_len=20)
    run = first_run(config, [10], [30])
    assert run.endings == 2 * (run.steps + 1)
    assert best_ended([ended(-1.0), ended(-2.0)], 20, config) == [ended(-1.0)]
