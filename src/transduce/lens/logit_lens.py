"""What the decoder would have said had it stopped after a layer (nostalgebraist's logit lens, 2020).

In:  a model and its `Pass`. Out: `LensRow`s, one a decoder row.
Does not know: text.

    pre-norm    logits_l = LayerNorm_final(x_l) W^T      the norm above the stack, on a layer it was not
                                                         trained for
    post-norm   logits_l = x_l W^T                       each layer ends in a norm of its own

Both are approximate but at the last layer, where they are the model's answer itself: no layer but the
last was trained to be read by the output projection.
Axes: tgt_len, d_model, vocab.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from transduce.lens.forward import Pass
from transduce.lens.interventions import NoSuchPart
from transduce.lens.steps import StepFigures, step_figures
from transduce.model.transformer import Transformer

__all__ = ["LensRow", "logit_lens", "note"]


@dataclass(frozen=True)
class LensRow:
    """One decoder row after one layer."""

    row: int
    """It reads token `row` and predicts token `row + 1`."""
    figures: StepFigures


def logit_lens(
    model: Transformer, done: Pass, layer: int, following: Sequence[int | None], k: int
) -> list[LensRow]:
    """Read a layer's output as if it were the last's.

    Args:
        model: the one that made `done`, with the same hooks.
        done: from `run_pass`.
        layer: counted from 0; -1 is the embedding below the first layer.
        following: the id that follows each row, or None.
        k: how many of the likeliest tokens to tell.

    Raises:
        NoSuchPart: there is no such layer.
    """
    count = len(done.decoder_inputs) - 1
    if not -1 <= layer < count:
        raise NoSuchPart(
            f"there is no layer {layer}: the decoder has layers 0 to {count - 1}, and -1 is the embedding"
        )
    with torch.inference_mode():
        logits = model.output(model.decoder.norm(done.decoder_inputs[layer + 1])).float().cpu()
    return [LensRow(row, figures) for row, figures in enumerate(step_figures(logits, following, k))]


def note(model: Transformer) -> str:
    """In one sentence, what to think of it."""
    if model.config.norm == "pre":
        return (
            "Approximate: the norm above the decoder was trained for the last layer only, where this is "
            "the model's own answer."
        )
    return (
        "Approximate: each layer ends in a norm of its own, and only the last was trained to be read by the "
        "output projection; there this is the model's own answer."
    )
