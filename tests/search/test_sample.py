"""Samples follow the model's distribution, and nothing but seed, key and number decides them."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from scripted import EOS, Script, Sentence, run

from transduce.errors import SearchError
from transduce.search.config import SearchConfig
from transduce.search.dispatch import search
from transduce.search.sample import sample_search, sampling_distribution

INF = math.inf
ROW = torch.log(torch.tensor([[0.05, 0.4, 0.15, 0.3, 0.1]], dtype=torch.float64)).float()


def distribution(log_probs=ROW, **fields) -> list[float]:
    weights, ids = sampling_distribution(log_probs, SearchConfig(method="sample", **fields))
    dense = torch.zeros(log_probs.shape, dtype=torch.float64).scatter(1, ids, weights)
    return (dense / dense.sum(dim=1, keepdim=True))[0].tolist()


def test_without_settings_it_is_the_models_distribution():
    assert distribution() == pytest.approx([0.05, 0.4, 0.15, 0.3, 0.1], abs=1e-6)


def test_temperature_is_an_exponent():
    powers = [p**2 for p in (0.05, 0.4, 0.15, 0.3, 0.1)]
    expected = [p / sum(powers) for p in powers]
    assert distribution(temperature=0.5) == pytest.approx(expected, abs=1e-6)


def test_top_k_keeps_k_tokens_and_the_lower_id_of_equals():
    assert distribution(top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7, 0], abs=1e-6)
    assert distribution(top_k=9) == pytest.approx(distribution(), abs=1e-12)
    assert distribution(torch.zeros(1, 5), top_k=2) == [0.5, 0.5, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (0.86, 4), (0.96, 5)]
)
def test_top_p_keeps_the_fewest_tokens_that_reach_it(top_p, kept):
    probs = [0.05, 0.4, 0.15, 0.3, 0.1]
    chosen = sorted(range(5), key=lambda i: -probs[i])[:kept]
    mass = sum(probs[i] for i in chosen)
    expected = [probs[i] / mass if i in chosen else 0 for i in range(5)]
    assert distribution(top_p=top_p) == pytest.approx(expected, abs=1e-6)


def test_top_p_counts_within_top_k():
    """Of the two kept by top_k the first has 4/7 = 0.57 of the mass."""
    assert distribution(top_k=2, top_p=0.5) == [0, 1, 0, 0, 0]
    assert distribution(top_k=2, top_p=0.6) == pytest.approx([0, 4 / 7, 0, 3 / 7, 0], abs=1e-6)


@pytest.mark.parametrize("fields", [{}, {"temperature": 0.7, "top_k": 4, "top_p": 0.9}, {"top_p": 0.8}])
def test_samples_follow_the_distribution(fields):
    """Chi-square over the first token of 4000 independent samples; the seed is fixed."""
    script = Script(6)
    script.logits = lambda key, history: [0.0, -0.5, 1.0, 0.3, -1.0, 0.1]
    config = SearchConfig(method="sample", n_best=1000, seed=5, **fields)
    sentences = [Sentence(k, 0) for k in range(4)]
    records = []
    run(sample_search, script, sentences, config, observer=records.append)
    counts = Counter(records[0].tokens.flatten().tolist())
    row = torch.tensor([script.log_probs(0, ())]).float()
    row[0, 0] = -INF  # BOS
    probs = distribution(row, **fields)
    assert set(counts) == {i for i, p in enumerate(probs) if p > 0}
    chi_square = sum((counts[i] - 4000 * p) ** 2 / (4000 * p) for i, p in enumerate(probs) if p)
    assert chi_square < 20  # 5 - 1 degrees of freedom: p < 0.001


def test_a_sample_depends_on_seed_key_and_number_alone():
    sentences = [Sentence(k, 5 + k) for k in range(5)]
    script = Script(6, seed=1, spread=1.0, eos_may_be_fed=True)

    def samples(which, n_best=3, seed=0):
        config = SearchConfig(method="sample", n_best=n_best, seed=seed)
        keys = [100 + s.key for s in which]
        return run(sample_search, script, which, config, keys=keys)

    found = samples(sentences)
    assert samples(sentences[::-1]) == found[::-1]
    assert samples(sentences[2:3]) == found[2:3]
    assert samples(sentences, n_best=2) == [hypotheses[:2] for hypotheses in found]
    assert samples(sentences, seed=1) != found
    assert run(search, script, sentences, SearchConfig(method="sample", n_best=3)) != found
    assert len({h.ids for h in found[4]}) > 1


def test_keys_default_to_positions():
    script = Script(6, seed=1, spread=1.0)
    sentences = [Sentence(k, 6) for k in range(3)]
    config = SearchConfig(method="sample")
    assert run(search, script, sentences, config) == run(search, script, sentences, config, keys=[0, 1, 2])
    with pytest.raises(SearchError, match="2 keys came for 3 sentences"):
        run(search, script, sentences, config, keys=[0, 1])


def test_scores_are_the_models_own():
    script = Script(6, seed=2, spread=1.0, eos_may_be_fed=True)
    config = SearchConfig(method="sample", n_best=4, temperature=2.0, top_k=3, alpha=1.0)
    sentences = [Sentence(k, 5) for k in range(6)]
    found = run(sample_search, script, sentences, config, suppress=(5,))
    assert {h.finished for hypotheses in found for h in hypotheses} == {True, False}
    for sentence, hypotheses in zip(sentences, found, strict=True):
        assert len(hypotheses) == 4
        for h in hypotheses:
            tokens = (*h.ids, *[EOS] * h.finished)
            own = [script.log_probs(sentence.key, h.ids[:i])[t] for i, t in enumerate(tokens)]
            assert list(h.token_log_probs) == own
            assert h.score == h.log_prob / ((5 + len(own)) / 6)
            assert h.finished or len(h.ids) == 5
            assert 5 not in h.ids


def test_a_path_that_is_over_waits_and_changes_nothing():
    """The state asserts grouping; one sentence's samples end at different times."""
    script = Script(5, seed=3, spread=0.5, eos_may_be_fed=True)
    config = SearchConfig(method="sample", n_best=6)
    found = run(sample_search, script, [Sentence(k, 8) for k in range(4)], config)
    assert all(len({len(h.ids) for h in hypotheses}) > 1 for hypotheses in found)
    assert script.rows_fed[0] == 4
    assert script.rows_fed[1] == 24
    assert all(EOS not in h.ids for hypotheses in found for h in hypotheses)


def test_a_forced_prefix_begins_every_sample_and_dead_ends_are_cut():
    script = Script(5, table={(2, 3): [-INF] * 5}, eos_may_be_fed=True)
    config = SearchConfig(method="sample", n_best=3, top_p=0.9)
    sentences = [Sentence(0, 4, (2, 3)), Sentence(1, 4, (4,))]
    found = run(sample_search, script, sentences, config)
    assert [(h.ids, h.finished) for h in found[0]] == [((2, 3), False)] * 3
    assert all(h.ids[0] == 4 for h in found[1])
