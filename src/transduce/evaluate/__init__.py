"""Strings and references → scores: BLEU, chrF and TER by sacreBLEU, and whether a difference is real.

In: lines of translations and their references. Out: numbers, each with the signature that lets
others compute the same, and notes on what may make them misleading.
Does not know: models, tokens, files, torch. sacreBLEU is imported at the first score, not here.
"""

from __future__ import annotations

from transduce.evaluate.scores import Score, Scores, fast_bleu, fast_chrf, score
from transduce.evaluate.significance import Comparison, SystemScore, compare, confidence

__all__ = [
    "Comparison",
    "Score",
    "Scores",
    "SystemScore",
    "compare",
    "confidence",
    "fast_bleu",
    "fast_chrf",
    "score",
]
