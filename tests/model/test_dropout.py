"""Dropout: the share asked for, unbiased, the same mask both ways."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import transduce.model.dropout as dropout_module
from transduce.model.dropout import Dropout

few = settings(max_examples=20, deadline=None, derandomize=True)
N = 200_000


def almost_certain(p: float, n: int) -> float:
    """How far a share of n draws may stray from p: Hoeffding's bound, wrong once in 10^9 seeds."""
    return math.sqrt(math.log(2e9) / (2 * n))


def dropped(p, shape=(N,), seed=0):
    torch.manual_seed(seed)
    return Dropout(p).train()(torch.ones(shape))


@pytest.mark.parametrize("p", [0.05, 0.1, 0.3, 0.5, 0.9])
def test_the_share_dropped_is_p(p):
    assert abs((dropped(p) == 0).double().mean() - p) < almost_certain(p, N)


@pytest.mark.parametrize("p", [0.003, 25.5 / 256, 1e-4])
def test_a_share_between_two_multiples_of_1_in_256_is_honoured(p):
    """A mask made of bytes could drop k / 256 only."""
    n = 1_000_000
    six_sigma = 6 * math.sqrt(p * (1 - p) / n)
    share = (dropped(p, (n,)) == 0).double().mean()
    assert abs(share - p) < six_sigma
    assert abs(round(p * 256) / 256 - p) > six_sigma  # so this test would notice


@pytest.mark.parametrize("dropped_of_all", [1, 6554, 32768, 65535])
def test_of_all_numbers_exactly_the_lowest_are_dropped(monkeypatch, dropped_of_all):
    numbers = torch.arange(-32768, 32768).short()
    monkeypatch.setattr(dropout_module, "_random_bits", lambda count: numbers[:count])
    out = dropped(dropped_of_all / 65536, (65536,))
    assert (out[:dropped_of_all] == 0).all()
    assert (out[dropped_of_all:] > 0).all()
    assert out.double().mean() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_kept_elements_are_scaled_so_that_the_expectation_stays(p):
    kept = dropped(p)[dropped(p) != 0]
    kept_share = 1 - round(p * 65536) / 65536
    assert_close(kept, torch.full_like(kept, 1 / kept_share))
    assert abs(dropped(p).double().mean() - 1) < almost_certain(p, N) / (1 - p)


@pytest.mark.parametrize("lane", range(4))
def test_each_of_the_four_lanes_of_a_random_word_drops_equally(lane):
    """torch's plain random_() leaves the sign bit zero: the highest lane would drop nothing at p = 0.5."""
    for p in (0.1, 0.5, 0.75):
        share = (dropped(p)[lane::4] == 0).double().mean()
        assert abs(share - p) < almost_certain(p, N // 4)


def test_every_random_bit_is_set_half_of_the_time():
    torch.manual_seed(0)
    bits = dropout_module._random_bits(N).view(-1, 4).int() & 0xFFFF
    assert bits.shape == (N // 4, 4)
    for bit in range(16):
        shares = ((bits >> bit) & 1).double().mean(0)
        assert (shares - 0.5).abs().max() < almost_certain(0.5, N // 4)


@few
@given(count=st.integers(0, 50))
def test_as_many_random_numbers_as_asked_for(count):
    bits = dropout_module._random_bits(count)
    assert bits.shape == (count,)
    assert bits.dtype == torch.int16
    assert bits.untyped_storage().nbytes() == 8 * math.ceil(count / 4)  # and no more are drawn


def test_neighbours_are_dropped_independently():
    mask = (dropped(0.5) == 0).double() - 0.5
    for distance in (1, 2, 3, 4, 8):
        correlation = (mask[:-distance] * mask[distance:]).mean() * 4
        assert abs(correlation) < 2 * almost_certain(0.5, N)


@few
@given(
    p=st.floats(0, 0.99),
    shape=st.lists(st.integers(0, 5), max_size=4),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_any_shape_any_dtype_and_evaluation_changes_nothing(p, shape, dtype):
    x = torch.randn(shape, dtype=dtype)
    layer = Dropout(p)
    assert layer.eval()(x) is x
    out = layer.train()(x)
    assert out.shape == x.shape
    assert out.dtype == dtype
    scaled = x / (1 - round(p * 65536) / 65536)
    assert_close(out, torch.where(out == 0, torch.zeros_like(x), scaled))


def test_zero_drops_nothing():
    x = torch.randn(100)
    assert Dropout(0.0).train()(x) is x


def test_almost_one_drops_almost_everything():
    out = dropped(0.999_999)
    assert (out == 0).double().mean() > 0.999
    assert out.isfinite().all()


def test_the_gradient_passes_where_the_value_passed():
    torch.manual_seed(0)
    x = torch.randn(50, 7, requires_grad=True)
    towards = torch.randn(50, 7)
    out = Dropout(0.4).train()(x)
    out.backward(towards)
    kept = out != 0
    scale = 65536 / (65536 - round(0.4 * 65536))
    assert 0 < kept.sum() < kept.numel()
    assert_close(x.grad, torch.where(kept, towards * scale, torch.zeros(())))


def test_the_input_is_left_alone():
    x = torch.ones(100)
    Dropout(0.5).train()(x)
    assert (x == 1).all()


def test_the_same_seed_drops_the_same_elements_and_another_seed_others():
    assert torch.equal(dropped(0.3, seed=1), dropped(0.3, seed=1))
    assert not torch.equal(dropped(0.3, seed=1), dropped(0.3, seed=2))
    torch.manual_seed(1)
    layer = Dropout(0.3).train()
    first, second = layer(torch.ones(99)), layer(torch.ones(99))
    assert not torch.equal(first, second)


def test_other_devices_use_torchs_own(monkeypatch):
    calls = []
    monkeypatch.setattr(dropout_module.F, "dropout", lambda x, p: calls.append((x, p)) or x)
    x = torch.ones(9, device="meta")
    layer = Dropout(0.3)
    assert layer.train()(x) is layer.eval()(x) is x
    assert calls == [(x, 0.3)]


def test_it_prints_its_share():
    assert repr(Dropout(0.3)) == "Dropout(p=0.3)"
