"""Beam at full width = the best of all sequences, whatever is asked for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Script, Sentence, all_sequences, run

from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig


@settings(max_examples=80)
@given(st.data())
def test_full_width_finds_the_best_of_all_sequences(data):
    """Both penalties, minimum length, forced prefix, n-best, n-gram block, suppressed ids, neighbours."""
    vocab, limit = data.draw(st.sampled_from([(4, 4), (5, 3), (3, 5), (7, 2), (4, 0)]))
    config = SearchConfig(
        beam_size=vocab ** max(1, limit),
        n_best=min(data.draw(st.integers(1, 12)), vocab ** max(1, limit)),
        length_penalty=data.draw(st.sampled_from(["gnmt", "power"])),
        alpha=data.draw(st.sampled_from([0.0, 0.6, 1.0, 2.5, -0.5])),
        min_len=data.draw(st.integers(0, min(limit, 2))),
        no_repeat_ngram=data.draw(st.sampled_from([0, 0, 1, 2])),
    )
    suppress = data.draw(st.sampled_from([(), (2,)]))
    ids = st.integers(2, vocab - 1)
    sentences = [
        Sentence(key, limit, tuple(data.draw(st.lists(ids, max_size=min(limit, 2)))))
        for key in range(data.draw(st.integers(1, 2)))
    ]
    script = Script(vocab, seed=data.draw(st.integers(0, 999)), spread=3.0)
    for sentence, found in zip(sentences, run(beam_search, script, sentences, config, suppress), strict=True):
        expected = all_sequences(script, sentence, config, suppress)[: config.n_best]
        assert [h for h in found if h.finished] == expected
