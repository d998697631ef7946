"""What a search returns: token ids with their score.

Does not know: torch, how it was found. An engine without torch returns the same.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Hypothesis"]


@dataclass(frozen=True)
class Hypothesis:
    """One translation as token ids."""

    ids: tuple[int, ...]
    """The tokens, without BOS and without EOS; a forced prefix is part of them."""
    score: float
    """`log_prob / penalty(len(token_log_probs))`: what hypotheses are compared by."""
    log_prob: float
    """The sum of `token_log_probs`, added from first to last in float64."""
    token_log_probs: tuple[float, ...]
    """The model's log-probability of each of `ids`, and last of EOS if `finished`."""
    finished: bool
    """The model ended it with EOS. False: it was cut at its limit, or nothing could follow."""
