"""Feed-forward: the paper's equation 2 and its two variants."""

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import config_of
from torch.testing import assert_close

from transduce.model.dropout import Dropout
from transduce.model.feed_forward import FeedForward, GatedFeedForward, make_feed_forward


def relu(x):
    return torch.where(x > 0, x, torch.zeros_like(x))


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def silu(x):
    return x / (1 + torch.exp(-x))


def feed_forward_of(**changes):
    torch.manual_seed(0)
    layer = make_feed_forward(config_of(d_model=6, d_ff=11, **changes)).double().eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


def linear(layer, x):
    return x @ layer.weight.T + layer.bias


@pytest.mark.parametrize(("activation", "formula"), [("relu", relu), ("gelu", gelu)])
def test_plain(activation, formula):
    layer = feed_forward_of(activation=activation)
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    assert isinstance(layer, FeedForward)
    assert layer.w_1.weight.shape == (11, 6)
    assert layer.w_2.weight.shape == (6, 11)
    assert_close(layer(x), linear(layer.w_2, formula(linear(layer.w_1, x))))


def test_swiglu():
    layer = feed_forward_of(activation="swiglu")
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    assert isinstance(layer, GatedFeedForward)
    assert layer.w_g.weight.shape == layer.w_1.weight.shape == (11, 6)
    assert_close(layer(x), linear(layer.w_2, silu(linear(layer.w_g, x)) * linear(layer.w_1, x)))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_each_position_is_worked_on_by_itself(activation):
    layer = feed_forward_of(activation=activation)
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    assert_close(layer(x)[:, 2:3], layer(x[:, 2:3]))


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_the_inner_units_are_dropped_in_training(activation):
    layer = feed_forward_of(activation=activation, activation_dropout=0.5)
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    expected = layer(x)
    assert torch.equal(expected, feed_forward_of(activation=activation)(x))
    layer.train()
    torch.manual_seed(3)
    got = layer(x)
    torch.manual_seed(3)
    if activation == "relu":
        inner = relu(linear(layer.w_1, x))
    else:
        inner = silu(linear(layer.w_g, x)) * linear(layer.w_1, x)
    assert_close(got, linear(layer.w_2, Dropout(0.5).train()(inner)))
    assert not torch.allclose(got, expected)
