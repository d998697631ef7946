"""The encoder stack: the layers in order, and a norm on top only before pre-norm sums."""

from __future__ import annotations

import pytest
import torch
from tiny_models import ids_of, model_of
from torch.testing import assert_close


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("num_layers", [0, 1, 3])
def test_layers_run_in_order(norm, num_layers):
    encoder = model_of(norm=norm, num_encoder_layers=num_layers).encoder
    x = torch.randn(2, 5, 12)
    visible = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], dtype=torch.bool)[:, None, None]
    expected = x
    assert len(encoder.layers) == num_layers
    for layer in encoder.layers:
        expected = layer(expected, visible)
    if norm == "pre":
        expected = torch.nn.functional.layer_norm(expected, (12,), encoder.norm.weight, encoder.norm.bias)
    assert_close(encoder(x, visible), expected)


def test_every_source_token_sees_every_other():
    model, source = model_of(), ids_of(1, 6)
    states = model.encode(source).states
    for position in range(6):
        changed = source.clone()
        changed[0, position] = 2 + (source[0, position] - 1) % 17
        moved = (model.encode(changed).states - states).abs().amax(-1)[0]
        assert (moved > 1e-5).all()
