"""The length penalty: what makes sums of log-probabilities of unequal lengths comparable.

A hypothesis's score is `log_prob / penalty(len)` (paper, section 6.1; GNMT, Wu et al. 2016,
equation 14). `len` counts every token whose log-probability is in the sum, hence EOS too.
Does not know: torch. An engine without torch scores alike.
"""

from __future__ import annotations

from collections.abc import Callable

from transduce.search.config import LengthPenalty

__all__ = ["length_penalty"]


def length_penalty(kind: LengthPenalty, alpha: float) -> Callable[[int], float]:
    """Return the function of a length: ((5 + len) / 6)^alpha for `gnmt`, len^alpha for `power`.

    Length 0 (nothing generated, the limit being 0) counts as 1.
    """
    if kind == "gnmt":
        return lambda length: ((5 + max(length, 1)) / 6) ** alpha
    return lambda length: float(max(length, 1)) ** alpha
