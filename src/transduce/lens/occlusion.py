"""What each source token does: how much less likely the output becomes when it is hidden.

In:  a model and its `Pass`. Out: a matrix, (tgt_len, src_len), in nats.
Does not know: text.

Attention shows where a head looked, not what the answer depended on. Here a source token is hidden from
all of the encoder and from the decoder, as padding is, and the same output is scored again: a positive
cell says that the token made this output token likelier (occlusion: Zeiler and Fergus, 2014).
Axes: tgt_len, src_len; each hidden token is a row of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.lens.forward import Pass
from transduce.model.transformer import Transformer

__all__ = ["occlusion"]

_CELLS = 4_000_000  # logits computed at once


def occlusion(model: Transformer, done: Pass, following: Sequence[int | None]) -> Tensor:
    """Hide each source token in turn.

    Args:
        model: the one that made `done`, with the same hooks.
        done: from `run_pass`.
        following: the id that follows each row; a row without one stays 0.

    Returns:
        log p(token with all of the source) - log p(token without one source token).
    """
    src_len, tgt_len = len(done.source), len(done.target)
    rows = torch.tensor([row for row, token in enumerate(following) if token is not None])
    wanted = torch.tensor([token for token in following if token is not None], device=done.target.device)
    whole = _log_probs(model, done.source[None], done.target, rows, wanted)[0]
    hidden = done.source.repeat(src_len, 1)
    hidden.fill_diagonal_(model.config.pad_id)
    at_once = max(1, _CELLS // (tgt_len * model.config.target_vocab_size))
    parts = [_log_probs(model, part, done.target, rows, wanted) for part in torch.split(hidden, at_once)]
    change = torch.zeros(tgt_len, src_len)
    change[rows] = (whole - torch.cat(parts)).T.float().cpu()
    return change


def _log_probs(model: Transformer, source: Tensor, target: Tensor, rows: Tensor, wanted: Tensor) -> Tensor:
    """Log-probability of each wanted token, (sentences, rows)."""
    with torch.inference_mode():
        states = model.decode(target.expand(len(source), -1), model.encode(source))[:, rows]
        logits = model.output(states).log_softmax(-1)
        return logits.gather(2, wanted.expand(len(source), -1)[..., None])[..., 0]
