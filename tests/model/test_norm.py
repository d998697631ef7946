"""Add & Norm: the residual path, normalised after (the paper) or before."""

from __future__ import annotations

import pytest
import torch
from tiny_models import config_of
from torch import nn
from torch.testing import assert_close

from transduce.model.dropout import Dropout
from transduce.model.norm import AddNorm, final_norm


def layer_norm(x, norm, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * norm.weight + norm.bias


def add_norm_of(**changes):
    torch.manual_seed(0)
    module = AddNorm(config_of(d_model=6, **changes)).double().eval()
    nn.init.normal_(module.norm.weight)
    nn.init.normal_(module.norm.bias)
    return module


def sublayer(x):
    return 2 * x.flip(-1) - 1


X = torch.randn(2, 3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_post_norm_normalises_the_sum(eps):
    module = add_norm_of(norm="post", layer_norm_eps=eps)
    assert_close(module(X, sublayer), layer_norm(X + sublayer(X), module.norm, eps))


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_pre_norm_normalises_what_the_sublayer_reads(eps):
    module = add_norm_of(norm="pre", layer_norm_eps=eps)
    assert_close(module(X, sublayer), X + sublayer(layer_norm(X, module.norm, eps)))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_what_is_dropped_is_the_sublayers_output_not_the_residual(norm):
    module = add_norm_of(norm=norm, dropout=0.5)
    undropped = module(X, sublayer)
    assert torch.equal(undropped, add_norm_of(norm=norm)(X, sublayer))
    module.train()
    torch.manual_seed(5)
    got = module(X, sublayer)
    torch.manual_seed(5)
    drop = Dropout(0.5).train()
    if norm == "post":
        expected = layer_norm(X + drop(sublayer(X)), module.norm, 1e-5)
    else:
        expected = X + drop(sublayer(layer_norm(X, module.norm, 1e-5)))
    assert_close(got, expected)
    assert not torch.allclose(got, undropped)


def test_only_a_pre_norm_stack_is_normalised_on_top():
    assert isinstance(final_norm(config_of(norm="post")), nn.Identity)
    norm = final_norm(config_of(norm="pre", layer_norm_eps=0.25))
    assert isinstance(norm, nn.LayerNorm)
    assert norm.normalized_shape == (12,)
    assert norm.eps == 0.25
