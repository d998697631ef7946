"""Greedy search takes the likeliest token, and says when the limit ended a translation."""

from __future__ import annotations

import math

import pytest
from scripted import EOS, Script, Sentence, run

from transduce.errors import SearchError
from transduce.search.config import SearchConfig
from transduce.search.greedy import greedy_search

INF = math.inf


@pytest.mark.parametrize("seed", range(4))
def test_takes_the_likeliest_token_at_each_step(seed):
    script = Script(6, seed=seed, spread=1.0)
    sentences = [Sentence(k, 3 + k) for k in range(8)]
    for sentence, (found,) in zip(
        sentences, run(greedy_search, script, sentences, SearchConfig()), strict=True
    ):
        ids, log_probs = (), []
        while True:
            after = script.log_probs(sentence.key, ids)
            best = max(range(1, 6), key=lambda i: after[i])
            if best != EOS and len(ids) == sentence.limit:
                break
            log_probs.append(after[best])
            if best == EOS:
                break
            ids = (*ids, best)
        assert found.ids == ids
        assert list(found.token_log_probs) == log_probs
        assert found.finished == (len(log_probs) == len(ids) + 1)
        assert found.score == found.log_prob / ((5 + len(log_probs)) / 6) ** 0.6


def test_of_equals_the_lowest_id():
    flat = Script(200)
    flat.logits = lambda key, history: [0.0] * 200
    assert run(greedy_search, flat, [Sentence(0, 2)], SearchConfig(min_len=2))[0][0].ids == (2, 2)


def test_sentences_leave_when_they_are_over():
    script = Script(4)
    script.logits = lambda key, history: [-INF, 0.0 if len(history) == key else -1.0, -0.5, -2.0]
    found = run(greedy_search, script, [Sentence(k, 2) for k in (3, 0, 2, 1)], SearchConfig())
    assert [(h.ids, h.finished) for (h,) in found] == [
        ((2, 2), False),
        ((), True),
        ((2, 2), True),
        ((2,), True),
    ]
    assert script.rows_fed == [4, 3, 2]
    assert script.num_selects == 2


def test_a_dead_end_is_cut():
    script = Script(4, table={(): [-INF, -INF, 0.0, -INF], (2,): [-INF] * 4})
    found = run(greedy_search, script, [Sentence(0, 5)], SearchConfig())[0][0]
    assert (found.ids, found.finished, found.log_prob) == ((2,), False, 0.0)


def test_an_observer_sees_each_choice():
    records = []
    script = Script(5, seed=1)
    found = run(
        greedy_search,
        script,
        [Sentence(0, 4), Sentence(1, 6)],
        SearchConfig(),
        observer=records.append,
    )
    for sentence, (hypothesis,) in enumerate(found):
        seen, total = [], 0.0
        for length, record in enumerate(records):
            assert record.length == length
            if sentence in record.sentences.tolist():
                row = record.sentences.tolist().index(sentence)
                goes_on = int(record.slots[row, 0]) == 0
                if goes_on or bool(record.finished[row, 0]):
                    seen.append(int(record.tokens[row, 0]))
                    total = float(record.totals[row, 0])
        assert tuple(seen) == (*hypothesis.ids, *[EOS] * hypothesis.finished)
        assert total == hypothesis.log_prob


def test_one_hypothesis_is_all_there_is():
    with pytest.raises(SearchError, match="n_best is 2, but greedy search finds 1"):
        run(greedy_search, Script(4), [Sentence(0, 4)], SearchConfig(n_best=2))
