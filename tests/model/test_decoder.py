"""The decoder stack: every layer its own cross-attention to the one memory."""

from __future__ import annotations

import pytest
import torch
from tiny_models import model_of
from torch.testing import assert_close

from transduce.model import DecoderCache, causal_visible


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("num_layers", [0, 1, 3])
def test_layers_run_in_order_each_with_its_own_memory(norm, num_layers):
    decoder = model_of(norm=norm, num_decoder_layers=num_layers).decoder
    x, states = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    visible = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], dtype=torch.bool)[:, None, None]
    memory = decoder.remember(states)
    assert len(memory) == len(decoder.layers) == num_layers
    expected = x
    for layer, keys_values in zip(decoder.layers, memory, strict=True):
        assert_close(keys_values.keys, layer.cross_attention.keys_values(states).keys)
        assert_close(keys_values.values, layer.cross_attention.keys_values(states).values)
        expected = layer(expected, causal_visible(4), keys_values, visible)
    if norm == "pre":
        expected = torch.nn.functional.layer_norm(expected, (12,), decoder.norm.weight, decoder.norm.bias)
    assert_close(decoder(x, causal_visible(4), memory, visible), expected)


@torch.no_grad()
def test_with_a_cache_each_layer_keeps_its_own_past():
    decoder = model_of(num_decoder_layers=3).decoder
    x, states = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    visible = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    memory = decoder.remember(states)
    expected = decoder(x, causal_visible(4), memory, visible)
    cache = DecoderCache(memory, visible)
    first = decoder(x[:, :3], causal_visible(3), memory, visible, cache)
    last = decoder(x[:, 3:], None, memory, visible, cache)
    assert_close(torch.cat((first, last), dim=1), expected)
    assert [layer.length for layer in cache.layers] == [4, 4, 4]
