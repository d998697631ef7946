"""When a beam ends: exactly by default, earlier with a finite patience, and what that costs."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Script, Sentence, reference_beam, run
from test_beam import cases

from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.required import required_search

INF = math.inf


@settings(max_examples=60)
@given(case=cases(), patience=st.sampled_from([1.0, 1.5]))
def test_the_search_for_phrases_has_the_same_patience(case, patience):
    script, sentences, fields, suppress = case
    config = SearchConfig(**{**fields, "patience": patience})
    found = run(required_search, script, sentences, config, suppress)
    assert found == [reference_beam(script, s, config, suppress) for s in sentences]


def test_the_price_is_a_longer_one_that_would_have_won():
    table = {
        (): [-INF, math.log(0.5), math.log(0.4), math.log(0.1)],
        (2,): [-INF, math.log(0.01), math.log(0.97), math.log(0.02)],
        (2, 2): [-INF, math.log(0.97), math.log(0.01), math.log(0.02)],
    }
    config = SearchConfig(beam_size=2, length_penalty="power", alpha=1.0)
    found = {}
    for patience in (INF, 0.5):
        script = Script(4, table=table, spread=0.1)
        best = run(beam_search, script, [Sentence(0, 4)], replace(config, patience=patience))[0][0]
        found[patience] = (best.ids, len(script.rows_fed))
    assert found[INF][0] == (2, 2)
    assert found[0.5] == ((), 1)


def test_steps_are_saved():
    sentences = [Sentence(key, 30) for key in range(8)]
    steps = {}
    for patience in (INF, 1.0):
        script = Script(5, seed=1)
        run(beam_search, script, sentences, SearchConfig(alpha=1.0, patience=patience))
        steps[patience] = sum(script.rows_fed)
    assert steps[1.0] < steps[INF] / 2
