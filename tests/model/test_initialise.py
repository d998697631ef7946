"""Initialisation: every weight begins as the table in `initialise.py` says."""

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import config_of
from torch import nn

from transduce.model import Transformer
from transduce.model.initialise import initialise

WIDE = {"d_model": 64, "d_ff": 96, "source_vocab_size": 400, "target_vocab_size": 400, "pad_id": 3}


def wide(seed=0, **changes):
    torch.manual_seed(seed)
    return Transformer(config_of(**{**WIDE, **changes}))


def assert_normal(weight, std):
    assert weight.std().item() == pytest.approx(std, rel=0.06)
    assert abs(weight.mean().item()) < 0.1 * std
    assert weight.abs().max() > 2.5 * std  # a uniform draw would end at √3 · std


def assert_uniform(weight, bound):
    assert 0.97 * bound < weight.max() <= bound
    assert -bound <= weight.min() < -0.97 * bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_embeddings_are_normal_and_their_padding_row_is_zero(tie):
    model = wide(tie=tie)
    for embedding in (model.source_embedding, model.target_embedding):
        real = torch.cat((embedding.weight[:3], embedding.weight[4:]))
        assert_normal(real.detach(), 1 / 8)  # 1/√64
        assert (embedding.weight[3] == 0).all()
        assert (real != 0).any(1).all()
    assert (model.output.weight[3] == 0).all() == (tie != "none")
    assert_normal(model.output.weight.detach(), 1 / 8)


def test_learned_positions_are_normal():
    model = wide(position="learned", max_len=200)
    assert_normal(model.source_position.weight.detach(), 1 / 8)
    assert_normal(model.target_position.weight.detach(), 1 / 8)
    assert not torch.equal(model.source_position.weight, model.target_position.weight)


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_projections_are_xavier_uniform_with_half_the_variance_in_queries_keys_and_values(activation):
    model = wide(activation=activation, d_k=16, d_v=24)
    layers = [*model.encoder.layers, *model.decoder.layers]
    attentions = [layer.self_attention for layer in layers]
    attentions += [layer.cross_attention for layer in model.decoder.layers]
    for attention in attentions:
        assert_uniform(attention.w_q.weight.detach(), math.sqrt(6 / (64 + 32) / 2))
        assert_uniform(attention.w_k.weight.detach(), math.sqrt(6 / (64 + 32) / 2))
        assert_uniform(attention.w_v.weight.detach(), math.sqrt(6 / (64 + 48) / 2))
        assert_uniform(attention.w_o.weight.detach(), math.sqrt(6 / (48 + 64)))
    for layer in layers:
        for name, weight in layer.feed_forward.named_parameters():
            if name.endswith("weight"):
                assert_uniform(weight.detach(), math.sqrt(6 / (64 + 96)))


def test_square_attention_matches_the_bound_of_the_three_stacked_matrices():
    weight = wide().encoder.layers[0].self_attention.w_q.weight.detach()
    stacked = nn.MultiheadAttention(64, 2).in_proj_weight.detach()
    assert_uniform(weight, math.sqrt(6 / (64 + 3 * 64)))
    assert_uniform(stacked, math.sqrt(6 / (64 + 3 * 64)))


def test_biases_and_norms_begin_neutral():
    model = wide(norm="pre", output_bias=True)
    initialise(model)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name


def test_initialise_draws_every_parameter_anew():
    model = wide(norm="pre", position="learned", tie="none")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(77.0)
    initialise(model)
    assert not any((parameter == 77).any() for parameter in model.parameters())


def test_the_seed_decides():
    first, again, other = wide(seed=1), wide(seed=1), wide(seed=2)
    name = "decoder.layers.1.cross_attention.w_v.weight"
    assert all(torch.equal(first.tensors()[n], again.tensors()[n]) for n in first.tensors())
    assert not torch.equal(first.tensors()[name], other.tensors()[name])
    assert not torch.equal(
        first.encoder.layers[0].feed_forward.w_1.weight, first.encoder.layers[1].feed_forward.w_1.weight
    )
