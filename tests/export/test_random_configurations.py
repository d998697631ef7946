"""Two hundred random networks: the same ids from torch and from their CTranslate2 exports (contract 6)."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from both_engines import both_engines, random_sources, same_answer
from transduce.search.config import SearchConfig

verdicts: Counter[bool | None] = Counter()

heads = st.sampled_from([(8, 1), (12, 2), (16, 4), (20, 2), (24, 3)])
shapes = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["pre", "post"]),
        "position": st.sampled_from(["sinusoidal", "learned", "rotary"]),
        "sinusoid": st.sampled_from(["interleaved", "halves", "tensor2tensor"]),
        "position_offset": st.integers(0, 3),
        "tie": st.sampled_from(["none", "target", "all"]),
        "activation": st.sampled_from(["relu", "gelu", "swiglu"]),
        "d_ff": st.integers(1, 40),
        "d_k": st.sampled_from([0, 0, 2, 6, 8]),
        "d_v": st.sampled_from([0, 0, 3, 8]),
        "num_encoder_layers": st.integers(1, 3),
        "num_decoder_layers": st.integers(1, 3),
        "bias": st.booleans(),
        "layer_norm_eps": st.sampled_from([1e-6, 1e-5, 1e-3]),
    }
)
searches = st.fixed_dictionaries(
    {
        "beam_size": st.sampled_from([1, 2, 3, 5]),
        "length_penalty": st.sampled_from(["gnmt", "power"]),
        "alpha": st.sampled_from([0.0, 0.6, 1.0]),
        "patience": st.sampled_from([1.0, 2.0, float("inf")]),
    }
)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), shape=shapes, width=heads, search=searches, vocab=st.integers(12, 60))
def test_ids_are_the_same(seed, shape, width, search, vocab):
    d_model, num_heads = width
    config = SearchConfig(n_best=min(2, search["beam_size"]), max_extra_len=8, **search)
    sources = random_sources(4, seed, vocab, longest=8)
    with tempfile.TemporaryDirectory() as directory:
        ours, theirs = both_engines(
            Path(directory), seed, vocab=vocab, d_model=d_model, num_heads=num_heads, **shape
        )
        found = zip(sources, ours.search(sources, config), theirs.search(sources, config), strict=True)
        for source, own, other in found:
            same = same_answer(own, other, config.limit(len(source)))
            assert same is not False, (source, own, other)
            verdicts[same] += 1


@pytest.mark.slow
def test_most_of_them_were_really_compared():
    """Runs after the one above: sentences that ran into their limit are no comparison."""
    assert sum(verdicts.values()) >= 800
    assert verdicts[True] > 3 * verdicts[None]
