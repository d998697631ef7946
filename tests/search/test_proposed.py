"""Whatever is proposed, the checker's own greedy translation comes out."""

from __future__ import annotations

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import BOS, EOS, Script

from transduce.errors import SearchError
from transduce.search.config import SearchConfig
from transduce.search.greedy import greedy_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.proposed import proposed_search
from transduce.search.request import Request


def make_check(script, keys, asked):
    """The script's logits for whole proposals; rows that are shorter are filled with nonsense."""

    def check(sentences, proposals):
        asked.append(len(sentences))
        longest = max(map(len, proposals)) + 1
        table = torch.full((len(sentences), longest, script.vocab), 7.0)
        for row, (sentence, ids) in enumerate(zip(sentences, proposals, strict=True)):
            for length in range(len(ids) + 1):
                table[row, length] = torch.tensor(script.logits(keys[sentence], tuple(ids[:length])))
        return table

    return check


def quick_search(script, keys, request):
    return greedy_search(script, script.start(keys), request)


def proposer(script, keys):
    return lambda sentences, own: quick_search(script, [keys[i] for i in sentences], own)


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    other=st.integers(0, 3),
    limits=st.lists(st.integers(2, 7), min_size=1, max_size=6),
    min_len=st.integers(0, 2),
    no_repeat_ngram=st.integers(0, 2),
    prefixed=st.booleans(),
)
def test_equals_the_checkers_greedy_search(seed, other, limits, min_len, no_repeat_ngram, prefixed):
    exact, quick = Script(6, seed=seed, spread=1.0), Script(6, seed=seed + other, spread=1.0)
    keys = list(range(len(limits)))
    request = Request(
        bos_id=BOS,
        eos_id=EOS,
        limits=limits,
        config=SearchConfig(beam_size=1, min_len=min_len, no_repeat_ngram=no_repeat_ngram),
        suppress=[5],
        prefixes=[(2, 5)[: i % 3] for i in range(len(limits))] if prefixed else None,
    )
    asked: list[int] = []
    found = proposed_search(proposer(quick, keys), make_check(exact, keys, asked), request)
    assert found == quick_search(exact, keys, request)
    if other == 0:
        assert asked == [len(limits)]  # nothing to mend: one look


def test_what_is_proposed_need_not_make_sense():
    script, keys = Script(8, seed=3, spread=1.0), list(range(5))
    request = Request(bos_id=BOS, eos_id=EOS, limits=[6] * 5, config=SearchConfig(beam_size=1))
    random = Random(1)

    def nonsense(sentences, own):
        ids = [
            (*prefix, *(random.randrange(2, 8) for _ in range(random.randrange(6 - len(prefix) + 1))))
            for prefix in own.prefixes
        ]
        return [[Hypothesis(row, 0.0, 0.0, (), finished=True)] for row in ids]

    assert proposed_search(nonsense, make_check(script, keys, []), request) == quick_search(
        script, keys, request
    )


def test_only_what_was_wrong_is_looked_at_again():
    script, keys = Script(6, seed=1, spread=1.0), [0, 1, 2]
    request = Request(bos_id=BOS, eos_id=EOS, limits=[5] * 3, config=SearchConfig(beam_size=1, min_len=3))
    right = quick_search(script, keys, request)

    def propose(sentences, own):
        found = quick_search(script, [keys[i] for i in sentences], own)
        if len(sentences) == 3:  # the second time it is right
            ids = found[1][0].ids
            found[1] = [Hypothesis((5 if ids[0] != 5 else 4, *ids[1:]), 0.0, 0.0, (), finished=True)]
        return found

    asked: list[int] = []
    assert proposed_search(propose, make_check(script, keys, asked), request) == right
    assert asked == [3, 1]


def test_one_hypothesis_is_all_it_finds():
    request = Request(
        bos_id=BOS, eos_id=EOS, limits=[3], config=SearchConfig(beam_size=2, n_best=2), prefixes=None
    )
    with pytest.raises(SearchError, match="greedy search finds 1 hypothesis"):
        proposed_search(proposer(Script(6), [0]), make_check(Script(6), [0], []), request)
