"""Several steps as one: the mean is the one that is named, and a state follows its rows."""

from __future__ import annotations

import math

import jaxtyping
import pytest
import torch
from scripted import EOS, History, Script, Sentence, run

from transduce.errors import SearchError
from transduce.search.config import SearchConfig
from transduce.search.dispatch import search
from transduce.search.ensemble import EnsembleState, EnsembleStep
from transduce.search.request import Request

INF = math.inf


def run_together(scripts, sentences, config, mean="probability"):
    state = EnsembleState(tuple(script.start([s.key for s in sentences]) for script in scripts))
    request = Request(bos_id=0, eos_id=EOS, limits=[s.limit for s in sentences], config=config)
    return search(EnsembleStep(scripts, mean), state, request)


@pytest.mark.parametrize("mean", ["probability", "log_probability"])
@pytest.mark.parametrize("config", [SearchConfig(beam_size=3, n_best=3), SearchConfig(beam_size=1)])
def test_a_model_with_itself_is_the_model(mean, config):
    sentences = [Sentence(key, 5 + key) for key in range(4)]
    alone = run(search, Script(6), sentences, config)
    together = run_together([Script(6), Script(6)], sentences, config, mean)
    for one, other in zip(alone, together, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)


@pytest.mark.parametrize("mean", ["probability", "log_probability"])
def test_the_mean_is_the_one_named(mean):
    first = [math.log(p) for p in (0.1, 0.2, 0.3, 0.4)]
    second = [math.log(p) for p in (0.4, 0.1, 0.45, 0.05)]
    scripts = [Script(4, table={(): first}), Script(4, table={(): second})]
    step = EnsembleStep(scripts, mean)
    log_probs, _ = step(torch.tensor([0]), EnsembleState(tuple(s.start([0]) for s in scripts)))
    if mean == "probability":
        assert log_probs.exp()[0].tolist() == pytest.approx([0.25, 0.15, 0.375, 0.225], abs=1e-6)
    else:
        assert log_probs.exp()[0].tolist() == pytest.approx(
            [0.2, math.sqrt(0.02), math.sqrt(0.135), math.sqrt(0.02)], abs=1e-6
        )


def test_what_one_excludes():
    scripts = [Script(3, table={(): [-INF, 0.0, -INF]}), Script(3, table={(): [-INF, 0.0, 0.0]})]
    state = EnsembleState(tuple(s.start([0]) for s in scripts))
    assert EnsembleStep(scripts)(torch.tensor([0]), state)[0].exp()[0].tolist() == pytest.approx(
        [0, 0.75, 0.25]
    )
    state = EnsembleState(tuple(s.start([0]) for s in scripts))
    excluded = EnsembleStep(scripts, "log_probability")(torch.tensor([0]), state)[0][0]
    assert excluded.tolist() == [-INF, pytest.approx(math.log(0.5) / 2), -INF]


def test_the_order_of_models_does_not_matter():
    sentences = [Sentence(key, 8) for key in range(5)]
    config = SearchConfig(beam_size=3)
    orders = [[Script(7, seed=s) for s in seeds] for seeds in ([1, 2, 3], [3, 1, 2], [2, 3, 1])]
    found = [run_together(scripts, sentences, config) for scripts in orders]
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert one[0].ids == two[0].ids
            assert one[0].score == pytest.approx(two[0].score, abs=1e-5)
    alone = run(search, Script(7, seed=1), sentences, config)
    assert [h[0].ids for h in alone] != [h[0].ids for h in found[0]]


def test_a_state_selects_in_each_of_its_own():
    script = Script(4)
    state = EnsembleState((script.start([0, 1, 2]), script.start([0, 1, 2])))
    chosen = state.select(torch.tensor([0, 2]))
    assert all(isinstance(own, History) and [key for key, _ in own.rows] == [0, 2] for own in chosen.states)


def test_broken_logits_are_named():
    scripts = [Script(3), Script(3, table={(): [0.0, math.nan, 0.0]})]
    with pytest.raises(SearchError, match="NaN"):
        run_together(scripts, [Sentence(0, 3)], SearchConfig())


def test_an_unknown_mean_names_the_known_ones():
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)  # beartype would be the first to complain
    try:
        with pytest.raises(SearchError, match="must be one of probability, log_probability"):
            EnsembleStep([Script(3)], "median")
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
