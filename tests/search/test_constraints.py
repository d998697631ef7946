"""Constraints forbid what they say and nothing else; contradictory requests are named."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Script, Sentence, run

from transduce.errors import SearchError
from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.constraints import forbid_repeats, forbid_tokens, force_tokens
from transduce.search.dispatch import search
from transduce.search.request import Request


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_forbid_repeats_blocks_exactly_the_tokens_that_would_repeat(data):
    length, n = data.draw(st.integers(0, 8)), data.draw(st.integers(1, 4))
    histories = data.draw(
        st.lists(st.lists(st.integers(0, 3), min_size=length, max_size=length), min_size=1, max_size=4)
    )
    log_probs = torch.zeros(len(histories), 5)
    history = torch.tensor(histories, dtype=torch.long).view(len(histories), length)
    forbid_repeats(log_probs, history, n)
    for row, past in enumerate(histories):
        seen = {tuple(past[i : i + n]) for i in range(length - n + 1)}
        for token in range(5):
            repeats = tuple([*past, token][length + 1 - n :]) in seen if length >= n else False
            assert bool(log_probs[row, token] == -math.inf) == repeats


def test_forbid_and_force_change_only_what_they_name():
    log_probs = torch.arange(12.0).view(3, 4)
    forbid_tokens(log_probs, torch.tensor([0, 3]))
    assert log_probs.tolist() == [[-math.inf, 4 * r + 1, 4 * r + 2, -math.inf] for r in range(3)]
    force_tokens(log_probs, torch.tensor([2]), torch.tensor([3]), torch.tensor([-5.0]))
    assert log_probs[:2].isfinite().sum() == 4
    assert log_probs[2].tolist() == [-math.inf] * 3 + [-5.0]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("method", ["beam", "sample"])
def test_no_ngram_occurs_twice(n, method):
    config = SearchConfig(method=method, beam_size=3, n_best=3, no_repeat_ngram=n, min_len=5)
    script = Script(8, seed=n, eos_may_be_fed=True)
    for hypotheses in run(search, script, [Sentence(k, 12) for k in range(5)], config):
        for h in hypotheses:
            ngrams = [h.ids[i : i + n] for i in range(len(h.ids) - n + 1)]
            assert len(ngrams) == len(set(ngrams))


def test_repeats_are_allowed_without_the_block():
    script = Script(3)
    script.logits = lambda key, history: [0.0, 0.0, 5.0]
    best = run(beam_search, script, [Sentence(0, 6)], SearchConfig(beam_size=1, min_len=6))[0][0]
    assert best.ids == (2,) * 6


@pytest.mark.parametrize("method", ["beam", "sample"])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_minimum_length_and_suppressed_ids_hold(method, beam_size):
    config = SearchConfig(method=method, beam_size=beam_size, min_len=4, alpha=0.0)
    sentences = [Sentence(k, 9) for k in range(6)]
    found = run(search, Script(6, eos_may_be_fed=True), sentences, config, suppress=(3, 5))
    assert all(len(h.ids) >= 4 for hs in found for h in hs)
    assert {id_ for hs in found for h in hs for id_ in h.ids} <= {2, 4}
    eager = Script(6)
    eager.logits = lambda key, history: [0.0, 9.0, 1.0, 0.0, 0.0, 0.0]
    best = run(search, eager, [Sentence(0, 9)], SearchConfig(beam_size=beam_size, min_len=4))[0][0]
    assert len(best.ids) == 4


@pytest.mark.parametrize(
    ("sentences", "config", "kwargs", "message"),
    [
        ([Sentence(0, 9), Sentence(1, 2)], {"min_len": 3}, {}, r"min_len \(3\).*sentence 1 \(2"),
        ([Sentence(0, -1)], {}, {}, "limit of sentence 0 is -1"),
        ([Sentence(0, 9), Sentence(1, 1, (2, 2))], {}, {}, "sentence 1 has 2 tokens.*limit is 1"),
        ([Sentence(0, 9, (2, 1))], {}, {}, r"sentence 0 holds eos_id \(1\)"),
        ([Sentence(0, 9, (-2,))], {}, {}, "prefixes holds -2"),
        ([Sentence(0, 9, (7,))], {}, {}, "prefixes holds 7, but the model has ids 0 to 5"),
        ([Sentence(0, 9)], {}, {"suppress": (1,)}, "suppress holds 1, which is eos_id"),
        ([Sentence(0, 9)], {}, {"suppress": (-1,)}, "suppress holds -1"),
        ([Sentence(0, 9)], {}, {"suppress": (6,)}, "suppress holds 6, but the model has ids 0 to 5"),
    ],
)
@pytest.mark.parametrize("method", ["beam", "sample"])
@pytest.mark.parametrize("beam_size", [1, 2])
def test_contradictory_requests_are_named(sentences, config, kwargs, message, method, beam_size):
    config = SearchConfig(method=method, beam_size=beam_size, **config)
    with pytest.raises(SearchError, match=message):
        run(search, Script(6), sentences, config, **kwargs)


def test_one_prefix_per_sentence():
    script = Script(6)
    with pytest.raises(SearchError, match="1 prefixes came for 2 sentences"):
        beam_search(
            script,
            script.start([0, 1]),
            Request(bos_id=0, eos_id=1, limits=[3, 3], config=SearchConfig(), prefixes=[()]),
        )
