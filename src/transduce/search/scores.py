"""From logits to comparable numbers: log-probabilities, length penalty, bounds, exact top-k.

In:  logits or log-probabilities of rows.
Out: log-probabilities, the k best tokens in a fixed order, scores.
Does not know: histories, sentences, EOS.

A hypothesis's score is `log_prob / penalty(len)` (paper, section 6.1; GNMT, Wu et al. 2016,
equation 14). `len` counts every token whose log-probability is in the sum, hence EOS too.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.errors import SearchError
from transduce.search.penalty import length_penalty

__all__ = ["best_attainable", "length_penalty", "log_probabilities", "top_tokens"]

_BLOCK = 64  # columns per block in `top_tokens`: the fastest of 16..256 measured on one CPU thread


def best_attainable(
    log_probs: Float[Tensor, " sentences"],
    next_penalty: float,
    last_penalty: Float[Tensor, " sentences"],
) -> Float[Tensor, " sentences"]:
    """Return a score that no continuation can exceed.

    A sum of log-probabilities only falls, and a penalty is monotone in the length, so the best case
    is the present sum divided by the larger of the penalties at the shortest length still possible
    (`next_penalty`) and at the longest (`last_penalty`). Right for either sign of alpha.
    """
    return log_probs / last_penalty.clamp(min=next_penalty)


def log_probabilities(logits: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
    """Normalise each row in float32: logits - log(sum(exp(logits))), in a new tensor.

    `log_softmax` and not `logsumexp`: the latter's sum depends, in its last bit, on how many rows
    there are. A row of nothing but -inf stays so: a dead end.

    Raises:
        SearchError: a row holds NaN or +inf.
    """
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    broken = log_probs[:, 0].isnan()  # NaN, +inf or all -inf anywhere make the whole row NaN
    if broken.any():
        dead = (logits == -math.inf).all(dim=-1)
        wrong = (broken & ~dead).nonzero().flatten().tolist()
        if wrong:
            what = "NaN" if bool(logits[wrong[0]].isnan().any()) else "+inf"
            raise SearchError(
                f"the model's logits hold {what} in {len(wrong)} of {len(logits)} rows (first: row "
                f"{wrong[0]}), expected finite numbers or -inf: check the weights for NaN, and if "
                "they are sound, compute in float32"
            )
        log_probs[dead] = -math.inf
    return log_probs


def top_tokens(
    log_probs: Float[Tensor, "rows vocab"], k: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """Return each row's k largest values and their ids: largest first, equal ones by lower id.

    `torch.topk` leaves open the order of equal values, and which of them it takes if not all fit.
    One value more than asked for shows whether that happened. Of -inf values, any may come.
    """
    values, ids = _top(log_probs, min(k + 1, log_probs.shape[1]))
    tied = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > -math.inf)
    if tied.any():
        ids, order = ids.sort(dim=1)
        values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
        ids = ids.gather(1, order)
        cut = tied[:, k - 1 :].any(dim=1).nonzero().flatten()  # rows whose k-th value has an equal
        if len(cut):
            ids[cut, :k] = _first_of_equals(log_probs[cut], values[cut, :k])
    return values[:, :k], ids[:, :k]


def _top(
    log_probs: Float[Tensor, "rows vocab"], k: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """Return `torch.topk`, ties in any order, but two to three times as fast on a CPU.

    The k largest values lie in the k blocks whose maxima are largest (or equal values do): each of
    these maxima is at least as large as anything in another block.
    """
    num_blocks = log_probs.shape[1] // _BLOCK
    if num_blocks <= 2 * k:
        return log_probs.topk(k, dim=1)
    end = num_blocks * _BLOCK
    blocks = log_probs[:, :end].reshape(-1, num_blocks, _BLOCK)
    best = blocks.amax(dim=2).topk(k, dim=1, sorted=False).indices.unsqueeze(2)  # (rows, k, 1)
    inside = torch.arange(_BLOCK, device=log_probs.device)
    values = blocks.gather(1, best.expand(-1, -1, _BLOCK)).flatten(1)  # (rows, k * block)
    ids = (best * _BLOCK + inside).flatten(1)
    rest = torch.arange(end, log_probs.shape[1], device=log_probs.device)
    values = torch.cat([values, log_probs[:, end:]], dim=1)
    ids = torch.cat([ids, rest.expand(len(ids), -1)], dim=1)
    values, columns = values.topk(k, dim=1)
    return values, ids.gather(1, columns)


def _first_of_equals(
    log_probs: Float[Tensor, "rows vocab"], values: Float[Tensor, "rows k"]
) -> Int[Tensor, "rows k"]:
    """Return the ids of the k largest values, `values`, all finite; equal ones by lower id."""
    rows, ids = (log_probs >= values[:, -1:]).nonzero().unbind(1)  # by row, then id
    order = log_probs[rows, ids].sort(descending=True, stable=True).indices
    order = order[rows[order].sort(stable=True).indices]  # by row, then value, then id
    starts = torch.searchsorted(rows, torch.arange(len(values), device=rows.device))  # of each row
    wanted = starts.unsqueeze(1) + torch.arange(values.shape[1], device=rows.device)
    return ids[order[wanted]]
