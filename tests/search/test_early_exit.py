"""When a beam ends: exactly by default, earlier by name, and what that costs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Script, Sentence, reference_beam, run
from test_beam import cases

from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.required import required_search

INF = math.inf


@pytest.mark.parametrize("function", [beam_search, required_search])
@settings(max_examples=60)
@given(case=cases(), early_exit=st.sampled_from(["beam", "first"]))
def test_each_ends_where_it_says(function, case, early_exit):
    script, sentences, fields, suppress = case
    config = SearchConfig(**fields, early_exit=early_exit)
    found = run(function, script, sentences, config, suppress)
    assert found == [reference_beam(script, s, config, suppress) for s in sentences]


@settings(max_examples=60)
@given(cases(), st.sampled_from([0.0, -0.5]))
def test_without_a_reward_for_length_the_first_is_the_best(case, alpha):
    """Nothing alive can catch up with a sum that is ahead of it: sums only fall."""
    script, sentences, fields, suppress = case
    exact = SearchConfig(**{**fields, "n_best": 1, "alpha": alpha})
    first = replace(exact, early_exit="first")
    assert run(beam_search, script, sentences, first, suppress) == run(
        beam_search, script, sentences, exact, suppress
    )


def test_the_price_is_a_longer_one_that_would_have_won():
    table = {
        (): [-INF, math.log(0.5), math.log(0.4), math.log(0.1)],
        (2,): [-INF, math.log(0.01), math.log(0.97), math.log(0.02)],
        (2, 2): [-INF, math.log(0.97), math.log(0.01), math.log(0.02)],
    }
    config = SearchConfig(beam_size=2, length_penalty="power", alpha=1.0)
    ids = {}
    for early_exit in ("exact", "beam", "first"):
        script = Script(4, table=table, spread=0.1)
        best = run(beam_search, script, [Sentence(0, 4)], replace(config, early_exit=early_exit))[0][0]
        ids[early_exit] = (best.ids, len(script.rows_fed))
    assert ids["exact"][0] == (2, 2)
    assert ids["first"] == ((), 1)
    assert ids["beam"][1] <= ids["exact"][1]


def test_steps_are_saved():
    sentences = [Sentence(key, 30) for key in range(8)]
    steps = {}
    for early_exit in ("exact", "beam", "first"):
        script = Script(5, seed=1)
        run(beam_search, script, sentences, SearchConfig(alpha=1.0, early_exit=early_exit))
        steps[early_exit] = sum(script.rows_fed)
    assert steps["first"] < steps["exact"] / 2
    assert steps["beam"] < steps["exact"] / 2
