"""One layer of each stack: which sub-layers, in which order, seeing what."""

from __future__ import annotations

import pytest
import torch
from tiny_models import config_of
from torch import nn
from torch.testing import assert_close

from transduce.model import KeysValues, causal_visible
from transduce.model.cache import LayerCache
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.position import RotaryPosition


def layer_of(kind, rotary=None, **changes):
    torch.manual_seed(0)
    layer = kind(config_of(**changes), rotary).double().eval()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def vectors(seed, batch=2, length=5):
    return torch.randn(batch, length, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def around(add_norm, norm, x, sublayer):
    """The residual connection of the paper's section 3.1, or its pre-norm variant."""
    if norm == "post":
        return add_norm.norm(x + sublayer(x))
    return x + sublayer(add_norm.norm(x))


VISIBLE = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], dtype=torch.bool)[:, None, None]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_encoder_layer_attends_to_itself_then_feeds_forward(norm):
    layer, x = layer_of(EncoderLayer, norm=norm), vectors(1)
    attention = layer.self_attention
    expected = around(
        layer.self_attention_add_norm,
        norm,
        x,
        lambda y: attention(y, KeysValues(*attention.keys_values(y)), VISIBLE),
    )
    expected = around(layer.feed_forward_add_norm, norm, expected, layer.feed_forward)
    assert_close(layer(x, VISIBLE), expected)
    assert [name for name, _ in layer.named_children()] == [
        "self_attention",
        "self_attention_add_norm",
        "feed_forward",
        "feed_forward_add_norm",
    ]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_layer_attends_to_itself_then_to_the_memory_then_feeds_forward(norm):
    layer, x = layer_of(DecoderLayer, norm=norm), vectors(1, length=3)
    memory = layer.cross_attention.keys_values(vectors(2))
    attention, causal = layer.self_attention, causal_visible(3)
    expected = around(
        layer.self_attention_add_norm,
        norm,
        x,
        lambda y: attention(y, attention.keys_values(y), causal),
    )
    expected = around(
        layer.cross_attention_add_norm,
        norm,
        expected,
        lambda y: layer.cross_attention(y, memory, VISIBLE),
    )
    expected = around(layer.feed_forward_add_norm, norm, expected, layer.feed_forward)
    assert_close(layer(x, causal, memory, VISIBLE), expected)
    assert [name for name, _ in layer.named_children()] == [
        "self_attention",
        "self_attention_add_norm",
        "cross_attention",
        "cross_attention_add_norm",
        "feed_forward",
        "feed_forward_add_norm",
    ]


def test_rotary_positions_are_told_in_self_attention_only():
    rotary = RotaryPosition(6, 0, 16)
    layer = layer_of(DecoderLayer, rotary)
    assert layer.self_attention.rotary is rotary
    assert layer.cross_attention.rotary is None
    assert layer_of(EncoderLayer, rotary).self_attention.rotary is rotary


@pytest.mark.parametrize("rotary", [None, RotaryPosition(6, 0, 16).double()])
@pytest.mark.parametrize("splits", [(1, 1, 1, 1), (2, 2), (3, 1)])
def test_with_a_past_a_layer_says_the_same_piece_by_piece(rotary, splits):
    layer, x = layer_of(DecoderLayer, rotary), vectors(1, length=4)
    memory = layer.cross_attention.keys_values(vectors(2))
    past, pieces, start = LayerCache(), [], 0
    with torch.no_grad():
        expected = layer(x, causal_visible(4), memory, VISIBLE)
        for length in splits:
            piece = x[:, start : start + length]
            visible = causal_visible(length, start)
            pieces.append(layer(piece, visible, memory, VISIBLE, past))
            start += length
            assert past.length == start
    assert_close(torch.cat(pieces, dim=1), expected)


def test_hypotheses_of_one_sentence_share_its_memory():
    layer, group = layer_of(DecoderLayer), 3
    x = vectors(1, batch=2 * group, length=4)
    memory = layer.cross_attention.keys_values(vectors(2))
    copied = KeysValues(*(t.repeat_interleave(group, dim=0) for t in memory))
    shared = layer(x, causal_visible(4), memory, VISIBLE)
    assert_close(shared, layer(x, causal_visible(4), copied, VISIBLE.repeat_interleave(group, dim=0)))
