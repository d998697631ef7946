"""Rows of shared pieces are copied bit for bit, others are means or as drawn, in every way to tie."""

from __future__ import annotations

import pytest
import torch

from transduce.model import Transformer, TransformerConfig
from transduce.train.transfer import transfer

PARTS = {"source": [(0,), (1,), (4,), (), (2, 3), (6,), ()], "target": [(0,), (), (2, 2, 5), (1,), (3,)]}


def model(tie, seed, source, target):
    torch.manual_seed(seed)
    network = Transformer(
        TransformerConfig(
            source_vocab_size=source, target_vocab_size=target, d_model=8, d_ff=8, num_heads=2, tie=tie,
            num_encoder_layers=1, num_decoder_layers=1, output_bias=True,
        )
    )  # fmt: skip
    torch.nn.init.normal_(network.output.bias)
    return network


@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_every_row_is_what_it_is_made_of(tie):
    joint = tie == "all"
    parts = {"source": PARTS["source"], "target": PARTS["source" if joint else "target"]}
    old = model(tie, 1, 7, 7 if joint else 6)
    new = model(tie, 2, len(parts["source"]), len(parts["target"]))
    before, drawn = old.tensors(), {name: t.clone() for name, t in new.tensors().items()}
    tensors = transfer(before, new.tensors(), parts["source"], parts["target"])
    new.load_tensors(tensors)  # every name and shape fits
    rows = [
        ("source", old.source_embedding.weight, new.source_embedding.weight, "source_embedding.weight"),
        ("target", old.target_embedding.weight, new.target_embedding.weight, "target_embedding.weight"),
        ("target", old.output.weight, new.output.weight, "output.weight"),
        ("target", old.output.bias, new.output.bias, "output.bias"),
    ]
    for side, was, now, name in rows:
        for row, ids in enumerate(parts[side]):
            if len(ids) == 1:
                assert torch.equal(now[row], was[ids[0]])
            elif ids:
                torch.testing.assert_close(now[row], sum(was[i] for i in ids) / len(ids))
            elif name in drawn:
                assert torch.equal(now[row], drawn[name][row])
    changed = {name for name in drawn if drawn[name].shape != before[name].shape}
    for name in drawn.keys() - {row[3] for row in rows}:
        assert torch.equal(tensors[name], before[name])
        assert name not in changed
    assert new.num_parameters == sum(t.numel() for t in tensors.values())


def test_the_old_weights_and_the_drawn_ones_are_left_alone():
    old, new = model("none", 1, 7, 6), model("none", 2, 7, 5)
    copies = [{name: t.clone() for name, t in m.tensors().items()} for m in (old, new)]
    transfer(old.tensors(), new.tensors(), PARTS["source"], PARTS["target"])
    for m, copy in zip((old, new), copies, strict=True):
        for name, tensor in m.tensors().items():
            assert torch.equal(tensor, copy[name])
