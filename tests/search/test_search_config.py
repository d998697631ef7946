"""SearchConfig: the paper's defaults, and words for what does not fit."""

from __future__ import annotations

import math

import jaxtyping
import pytest

from transduce.errors import SearchError
from transduce.search.config import SearchConfig


def test_defaults_are_the_papers():
    config = SearchConfig()
    assert (config.beam_size, config.length_penalty, config.alpha) == (4, "gnmt", 0.6)
    assert config.limit(10) == 60


@pytest.mark.parametrize(
    ("ratio", "extra", "source_len", "limit"),
    [(1.0, 50, 0, 50), (1.5, 3, 5, 10), (0.0, 7, 100, 7), (2.0, 0, 4, 8), (1.2, 1, 7, 9)],
)
def test_limit_follows_the_sentences_own_length(ratio, extra, source_len, limit):
    config = SearchConfig(max_len_ratio=ratio, max_extra_len=extra)
    assert config.limit(source_len) == limit


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"beam_size": 0}, "beam_size is 0, but must be at least 1"),
        ({"n_best": 0}, "n_best is 0"),
        ({"n_best": 5}, r"n_best \(5\) is larger than beam_size \(4\)"),
        ({"min_len": -1}, "min_len is -1"),
        ({"max_extra_len": -1}, "max_extra_len is -1"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram is -1"),
        ({"top_k": -1}, "top_k is -1"),
        ({"max_len_ratio": -0.1}, "max_len_ratio is -0.1"),
        ({"max_len_ratio": math.inf}, "max_len_ratio is inf"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"alpha": 11.0}, "alpha is 11"),
        ({"temperature": 0.0}, "temperature is 0.*beam_size 1"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_p": 0.0}, "top_p is 0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"patience": 0.0}, "patience is 0.0, but must be above 0"),
        ({"patience": 1e30}, r"patience is 1e\+30, but must be at most 1000, or inf"),
        ({"patience": 0.5, "n_best": 3}, r"ends the search at 2 hypotheses, fewer than n_best \(3\)"),
    ],
)
def test_what_does_not_fit_is_named(fields, message):
    with pytest.raises(SearchError, match=message):
        SearchConfig(**fields)


@pytest.mark.parametrize(
    ("patience", "endings"), [(1.0, 4), (0.5, 2), (1.13, 5), (1.12, 4), (math.inf, math.inf)]
)
def test_patience_counts_in_beams(patience, endings):
    assert SearchConfig(patience=patience).num_endings == endings


def test_samples_may_outnumber_the_beam():
    assert SearchConfig(method="sample", n_best=9).n_best == 9
    assert SearchConfig(n_best=4).n_best == 4


@pytest.fixture
def without_type_checks():
    """With jaxtyping's import hook on, beartype would be the first to complain."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "bean"}, "method is 'bean', but must be one of beam, sample"),
        ({"length_penalty": "avg"}, "'avg', but must be one of gnmt, power"),
    ],
)
def test_a_misspelt_choice_is_answered_with_the_choices(fields, message):
    with pytest.raises(SearchError, match=message):
        SearchConfig(**fields)
