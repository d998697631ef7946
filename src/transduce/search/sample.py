"""Sampling: independent draws from the model, sharpened or truncated as asked.

In:  a step, a state with one row per sentence, a request with a key per sentence.
Out: `n_best` hypotheses per sentence, in the order of drawing.
Does not know: models, strings, beams.

A sample is a function of the seed, the sentence's key, its own number and the model's logits,
and of nothing else: not of its neighbours, of their order, or of how many samples there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.scores import top_tokens
from transduce.search.step import Observer, State, Step
from transduce.search.walk import walk

__all__ = ["sample_search", "sampling_distribution"]


def sample_search(
    step: Step, state: State, request: Request, observer: Observer | None = None
) -> list[list[Hypothesis]]:
    """Return for each sentence, in order, `config.n_best` samples, in the order of drawing.

    Scores and log-probabilities are the model's own, before temperature and truncation. A sample
    that holds `limit` tokens and does not draw EOS next is cut there: `finished` is False.

    Raises:
        SearchError: logits are NaN or +inf.
    """
    keys = range(len(request.limits)) if request.keys is None else request.keys
    draw = _Draw(request.config, keys)
    return walk(step, state, request, choose=draw, num_paths=request.config.n_best, observer=observer)


def sampling_distribution(
    log_probs: Float[Tensor, "rows vocab"], config: SearchConfig
) -> tuple[Float[Tensor, "rows kept"], Int[Tensor, "rows kept"]]:
    """Return the weights (float64, not summing to 1) and ids that are drawn from, on the CPU.

    softmax(log_probs / temperature) over the `top_k` likeliest tokens; of these, only the likeliest
    that together reach `top_p`, the one that reaches it included: the others weigh exactly 0.
    """
    vocab = log_probs.shape[1]
    if config.top_k:
        values, ids = top_tokens(log_probs, min(config.top_k, vocab))
    elif config.top_p < 1:
        values, ids = log_probs.sort(dim=1, descending=True, stable=True)
    else:
        values, ids = log_probs, torch.arange(vocab).expand(log_probs.shape)
    logits = values.cpu().double() / config.temperature
    weights = torch.softmax(logits, dim=1).nan_to_num(0.0)  # nan: nothing is allowed in the row
    if config.top_p < 1:
        before = weights.cumsum(dim=1) - weights
        weights = weights.masked_fill(before >= config.top_p, 0.0)
    return weights, ids.cpu()


class _Draw:
    """Draws one id per row, by inverting the cumulative distribution at one uniform number."""

    def __init__(self, config: SearchConfig, keys: Sequence[int]) -> None:
        self._config = config
        self._streams = [  # Random promises to seed from a string alike in every Python
            [Random(f"{config.seed}:{key}:{sample}") for sample in range(config.n_best)] for key in keys
        ]

    def __call__(
        self, log_probs: Float[Tensor, "rows vocab"], sentences: Int[Tensor, " rows"]
    ) -> Int[Tensor, " rows"]:
        weights, ids = sampling_distribution(log_probs, self._config)
        cumulative = weights.cumsum(dim=1)
        total = cumulative[:, -1]
        open_sentences = sentences[:: self._config.n_best].tolist()
        uniform = torch.tensor(
            [stream.random() for s in open_sentences for stream in self._streams[s]],
            dtype=torch.float64,
        )
        target = (uniform * total).unsqueeze(1)  # below the total, as random() <= 1 - 2**-53
        columns = torch.searchsorted(cumulative, target, right=True)
        return ids.gather(1, columns.clamp(max=ids.shape[1] - 1)).squeeze(1)
