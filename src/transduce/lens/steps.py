"""What the model expected at each place of its output: the whole vocabulary's distribution, summed up.

In:  logits, one row a decoder position. Out: `StepFigures`, in natural logarithms.
Does not know: text, how the output was found.
Axes: tgt_len, vocab.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.search.scores import log_probabilities, top_tokens

__all__ = ["Chosen", "StepFigures", "step_figures"]


@dataclass(frozen=True)
class Chosen:
    """The token that was taken."""

    id: int
    logit: float
    logp: float
    rank: int
    """How many tokens were likelier: 0 is the likeliest."""


@dataclass(frozen=True)
class StepFigures:
    """One distribution over the vocabulary."""

    chosen: Chosen | None
    """None where the output was cut."""
    top: tuple[tuple[int, float, float], ...]
    """(id, logit, log-probability) of the likeliest, likeliest first."""
    logsumexp: float
    """Logit less this is log-probability."""
    entropy: float
    """In nats."""
    rest: float
    """Probability of all that is not in `top`."""


def step_figures(logits: Tensor, chosen: Sequence[int | None], k: int) -> list[StepFigures]:
    """Sum up each row of logits.

    Args:
        logits: (tgt_len, vocab).
        chosen: the id that follows each row, or None.
        k: how many of the likeliest to tell.
    """
    with torch.inference_mode():
        log_probs = log_probabilities(logits)
        values, ids = top_tokens(log_probs, min(k, logits.shape[1]))
        probabilities = log_probs.double().exp()
        # A log-probability of -inf would make 0 · inf, not a number.
        entropies = -(probabilities * log_probs.double().clamp(min=-1e6)).sum(1)
        rests = (1 - probabilities.gather(1, ids).sum(1)).clamp(min=0)
        totals = logits.double().logsumexp(1)
        figures = []
        for row, token in enumerate(chosen):
            own = None
            if token is not None:
                logp = log_probs[row, token]
                rank = int((log_probs[row] > logp).sum())
                own = Chosen(token, float(logits[row, token]), float(logp), rank)
            figures.append(
                StepFigures(
                    chosen=own,
                    top=tuple(
                        zip(
                            ids[row].tolist(),
                            logits[row, ids[row]].tolist(),
                            values[row].tolist(),
                            strict=True,
                        )
                    ),
                    logsumexp=float(totals[row]),
                    entropy=float(entropies[row]),
                    rest=float(rests[row]),
                )
            )
    return figures
