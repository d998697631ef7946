"""Scores: the length penalties' formulas, sound bounds, exact order of equal values."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.errors import SearchError
from transduce.search.scores import (
    best_attainable,
    length_penalty,
    log_probabilities,
    top_tokens,
)


def test_gnmt_penalty_is_that_of_the_paper():
    assert length_penalty("gnmt", 0.6)(1) == 1.0
    assert length_penalty("gnmt", 0.6)(7) == pytest.approx(2**0.6)
    assert length_penalty("gnmt", 1.0)(13) == 3.0


def test_power_penalty_is_that_of_fairseq():
    assert length_penalty("power", 1.0)(7) == 7.0
    assert length_penalty("power", 0.5)(9) == 3.0
    assert length_penalty("power", -1.0)(4) == 0.25


@pytest.mark.parametrize("kind", ["gnmt", "power"])
def test_no_length_counts_as_one(kind):
    assert length_penalty(kind, -2.0)(0) == length_penalty(kind, -2.0)(1) == 1.0


@given(
    st.sampled_from(["gnmt", "power"]),
    st.floats(-3, 3),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 20),
    st.floats(-50, 0),
    st.floats(-50, 0),
)
def test_no_continuation_exceeds_the_bound(kind, alpha, length, extra, chosen, log_prob, fall):
    penalty = length_penalty(kind, alpha)
    last = length + 1 + extra
    bound = best_attainable(
        torch.tensor([log_prob], dtype=torch.float64),
        penalty(length + 1),
        torch.tensor([penalty(last)], dtype=torch.float64),
    )
    attained = (log_prob + fall) / penalty(min(last, length + 1 + chosen))
    assert attained <= float(bound) + 1e-12
    if log_prob:
        reached = max(log_prob / penalty(n) for n in (length + 1, last))
        assert float(bound) == pytest.approx(reached)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_top_tokens_are_those_of_a_stable_sort(data):
    vocab = data.draw(st.sampled_from([1, 2, 5, 63, 64, 65, 700, 2000]))
    rows = data.draw(st.integers(1, 4))
    k = data.draw(st.integers(1, min(vocab, 9)))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**20)))
    levels = data.draw(st.sampled_from([1, 2, 5, 1000, 10**6]))
    values = torch.randint(levels, (rows, vocab), generator=generator).float()
    possible = torch.rand(rows, vocab, generator=generator) < data.draw(st.sampled_from([0.005, 0.5, 1.0]))
    values = values.masked_fill(~possible, -math.inf)
    expected_values, expected_ids = values.sort(dim=1, descending=True, stable=True)
    top, ids = top_tokens(values, k)
    assert torch.equal(top, expected_values[:, :k])
    real = top > -math.inf
    assert torch.equal(ids[real], expected_ids[:, :k][real])


@pytest.mark.parametrize("vocab", [5, 1000, 33000])
def test_log_probabilities_do_not_depend_on_the_number_of_rows(vocab):
    logits = torch.randn(9, vocab, generator=torch.Generator().manual_seed(0))
    together = log_probabilities(logits)
    for row in range(9):
        assert torch.equal(together[row : row + 1], log_probabilities(logits[row : row + 1]))
    assert torch.allclose(together.exp().sum(dim=1), torch.ones(9), atol=1e-4)
    assert (together <= 0).all()


def test_log_probabilities_are_float32_and_leave_the_logits_alone():
    logits = torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)
    log_probs = log_probabilities(logits)
    log_probs.fill_(0)
    assert log_probs.dtype == torch.float32
    assert logits.tolist() == [[1.0, 2.0]]


def test_impossible_rows_stay_impossible_and_broken_rows_are_named():
    inf = math.inf
    rows = torch.tensor([[-inf, -inf], [0.0, -inf]])
    assert log_probabilities(rows).tolist() == [[-inf, -inf], [0.0, -inf]]
    rows = torch.tensor([[-inf, -inf], [0.0, 0.0], [0.0, math.nan], [inf, 0.0]])
    with pytest.raises(SearchError, match=r"NaN in 2 of 4 rows \(first: row 2\)"):
        log_probabilities(rows)
    with pytest.raises(SearchError, match=r"\+inf in 1 of 2 rows \(first: row 0\)"):
        log_probabilities(torch.tensor([[inf, 0.0], [0.0, 0.0]]))
