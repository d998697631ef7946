"""The learning rate (paper, eq. 3) and its relatives."""

from __future__ import annotations

import pytest

from transduce.errors import RecipeError
from transduce.train.config import TrainConfig
from transduce.train.schedule import learning_rate, num_batches, peak_rate


@pytest.mark.parametrize("step", [1, 100, 3999, 4000, 4001, 100_000])
def test_default_is_the_papers_equation_3(step):
    config = TrainConfig(warmup_steps=4000)
    paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(step, 0.3, config, 512) == pytest.approx(paper, rel=1e-12)


def test_first_step_is_neither_zero_nor_huge():
    config = TrainConfig(learning_rate=1e-3, warmup_steps=1000)
    assert learning_rate(1, 0.0, config, 512) == pytest.approx(1e-6)
    none = TrainConfig(learning_rate=1e-3, warmup_steps=0)
    assert learning_rate(1, 0.0, none, 512) == pytest.approx(1e-3)
    assert learning_rate(4, 0.0, none, 512) == pytest.approx(5e-4)


def test_peak_is_reached_at_the_end_of_warm_up():
    config = TrainConfig(learning_rate=7e-4, warmup_steps=10, schedule="constant")
    assert learning_rate(10, 0.9, config, 512) == learning_rate(99, 0.9, config, 512) == 7e-4
    assert learning_rate(5, 0.9, config, 512) == pytest.approx(3.5e-4)
    assert peak_rate(config, 512) == 7e-4


def test_falling_schedules_follow_the_share_done():
    linear = TrainConfig(learning_rate=1.0, warmup_steps=1, schedule="linear")
    cosine = TrainConfig(learning_rate=1.0, warmup_steps=1, schedule="cosine")
    assert [learning_rate(9, done, linear, 512) for done in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]
    assert learning_rate(9, 0.5, cosine, 512) == pytest.approx(0.5)
    assert learning_rate(9, 0.25, cosine, 512) == pytest.approx(0.8535533905932737)
    assert learning_rate(9, 1.0, cosine, 512) == pytest.approx(0.0)


def test_what_cannot_be_followed_is_refused():
    with pytest.raises(RecipeError, match="needs an end"):
        TrainConfig(max_steps=0)
    with pytest.raises(
        RecipeError, match=r"average_checkpoints \(9\) must lie between 1 and keep_checkpoints"
    ):
        TrainConfig(average_checkpoints=9)
    with pytest.raises(RecipeError, match="needs warmup_steps"):
        TrainConfig(warmup_steps=0)


def test_batches_grow_by_one_each_for_an_equal_share_of_the_run():
    config = TrainConfig(accumulate=2, accumulate_final=4)
    assert [num_batches(step / 6, config) for step in range(7)] == [2, 2, 3, 3, 4, 4, 4]


def test_batches_stay_unless_told_to_grow():
    assert {num_batches(step / 6, TrainConfig(accumulate=3)) for step in range(7)} == {3}


def test_batches_that_would_shrink_are_refused():
    with pytest.raises(RecipeError, match=r"accumulate_final \(2\) is smaller than accumulate \(3\)"):
        TrainConfig(accumulate=3, accumulate_final=2)
