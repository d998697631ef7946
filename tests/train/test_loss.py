"""The chunked loss is torch's cross-entropy, gradients too, whatever the chunk (TRAPS 16)."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from transduce.batch.collate import SpecialIds, pad_rows
from transduce.model import Transformer, TransformerConfig
from transduce.train.loss import batch_loss, smoothed_loss


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows_per_chunk", [1, 5, 37, 100])
def test_equals_torch(bias, smoothing, rows_per_chunk):
    torch.manual_seed(0)
    states = torch.randn(37, 8, requires_grad=True)
    weight = torch.randn(19, 8, requires_grad=True)
    inputs = [states, weight] + ([torch.randn(19, requires_grad=True)] if bias else [])
    labels = torch.randint(0, 19, (37,))
    ours = smoothed_loss(
        states, weight, inputs[2] if bias else None, labels, smoothing, chunk_cells=19 * rows_per_chunk
    )
    logits = F.linear(*inputs)
    theirs = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(ours.loss, theirs)
    torch.testing.assert_close(ours.nll, F.cross_entropy(logits, labels, reduction="sum"))
    for mine, reference in zip(
        torch.autograd.grad(ours.loss / 3, inputs), torch.autograd.grad(theirs / 3, inputs), strict=True
    ):
        torch.testing.assert_close(mine, reference)


def test_large_logits_stay_finite():
    states, weight = torch.full((2, 1), 300.0), torch.tensor([[1.0], [-1.0]])
    sums = smoothed_loss(states, weight, None, torch.tensor([0, 1]), 0.0)
    assert sums.nll.item() == pytest.approx(600.0)


def test_nll_carries_no_gradient_and_no_grad_mode_works():
    states = torch.randn(3, 4, requires_grad=True)
    assert not smoothed_loss(states, torch.randn(5, 4), None, torch.tensor([0, 1, 2]), 0.1).nll.requires_grad
    with torch.no_grad():
        assert not smoothed_loss(
            states, torch.randn(5, 4), None, torch.tensor([0, 1, 2]), 0.1
        ).loss.requires_grad


def test_padding_positions_count_nowhere():
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            source_vocab_size=20, target_vocab_size=20, d_model=16, d_ff=32, num_heads=2,
            num_encoder_layers=1, num_decoder_layers=1,
        )
    ).eval()  # fmt: skip
    ids = SpecialIds(0, 2, 3)
    rows = [[5, 6, 7], [8], [9, 10]]
    source, labels = pad_rows(rows, ids), pad_rows(rows, ids)
    target = torch.cat([torch.full((3, 1), 2), labels[:, :-1]], 1)
    together = batch_loss(model, source, target, labels, 0.1)
    alone = [
        batch_loss(
            model,
            source[i : i + 1, : len(r) + 1],
            target[i : i + 1, : len(r) + 1],
            labels[i : i + 1, : len(r) + 1],
            0.1,
        )
        for i, r in enumerate(rows)
    ]
    torch.testing.assert_close(together.loss, sum(sums.loss for sums in alone))
    torch.testing.assert_close(together.nll, sum(sums.nll for sums in alone))
