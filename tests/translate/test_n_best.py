"""The n best are different texts, each with its best score, and a wider beam is asked when too few are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_translators import make_tokenizer, make_translator

from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.translate.n_best import search_distinct


def hypothesis(ids, score, finished=True):
    return Hypothesis(tuple(ids), score, score, (score,), finished)


class Listed:
    """A search over a list that is there already; it notes how wide it was asked."""

    def __init__(self, lists):
        self.lists, self.asked = lists, []

    def __call__(self, chosen, config):
        self.asked.append((list(chosen), config.beam_size, config.n_best))
        return [self.lists[i][: config.n_best] for i in chosen]


def read(ids):
    return "".join("ab"[id_ % 2] for id_ in ids)


scored = st.lists(
    st.tuples(st.lists(st.integers(0, 3), max_size=2).map(tuple), st.booleans()), unique=True, min_size=1,
    max_size=30,
)  # fmt: skip


@given(st.lists(scored, max_size=4), st.integers(2, 4))
def test_texts_differ_the_best_stays_and_order_is_by_score(lists, n_best):
    lists = [
        sorted((hypothesis(ids, -float(i), finished) for i, (ids, finished) in enumerate(one)),
               key=lambda h: (not h.finished, -h.score))
        for one in lists
    ]  # fmt: skip
    search = Listed(lists)
    config = SearchConfig(beam_size=4, n_best=n_best)
    found = search_distinct(search, len(lists), config, read)
    for kept, all_of_them in zip(found, lists, strict=True):
        texts = [read(h.ids) for h in kept]
        assert len(set(texts)) == len(texts) <= n_best
        assert kept == sorted(kept, key=lambda h: (not h.finished, -h.score))
        for h in kept:
            assert h == next(other for other in all_of_them if read(other.ids) == read(h.ids))
        if len(kept) < n_best:
            assert len({read(h.ids) for h in all_of_them[:32]}) == len(kept)
    for before, after in zip(search.asked, search.asked[1:], strict=False):
        assert set(after[0]) <= set(before[0])
        assert after[1] == 2 * before[1] <= 32


def test_one_best_and_samples_are_left_alone():
    twice = [[hypothesis((0,), -1.0), hypothesis((2,), -2.0)]]
    search = Listed(twice)
    samples = SearchConfig(method="sample", n_best=2)
    assert search_distinct(search, 1, samples, read) == twice
    assert search_distinct(search, 1, SearchConfig(n_best=1), read) == [twice[0][:1]]
    assert len(search.asked) == 2


def test_of_a_real_tokenizer(tmp_path):
    translator = make_translator(make_tokenizer(tmp_path))
    texts = ["the light", "hello {name}"]
    for one in translator.translate(texts, n_best=3, max_extra_len=3):
        several = (one, *one.alternatives)
        assert len({t.text for t in several}) == len(several) == 3
        assert [t.score for t in several] == sorted((t.score for t in several), reverse=True)
        assert all(t.tokens for t in several)


@pytest.mark.parametrize("n_best", [2, 5])
def test_fewer_texts_than_asked_for_end(n_best):
    search = Listed([[hypothesis((0,), -1.0), hypothesis((2,), -2.0)]])
    found = search_distinct(search, 1, SearchConfig(beam_size=5, n_best=n_best), read)
    assert [h.ids for h in found[0]] == [(0,)]
    assert [width for _, width, _ in search.asked] == [5, 10, 20, 40]
