"""How pairs are grouped into batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from transduce.errors import RecipeError

__all__ = ["BatchConfig"]


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """Batches are measured in tokens, not in sentences (paper, section 5.1).

    Raises:
        RecipeError: a batch could not hold one pair of the longest allowed length.
    """

    batch_tokens: int = 4096
    """Cells of a batch on its larger side, padding counted: rows · longest row."""
    max_len: int = 256
    """Longest source or target, in tokens with the end symbol; longer pairs are counted and told."""
    too_long: Literal["drop", "cut"] = "drop"
    """What becomes of pairs longer than `max_len`: left out (`drop`), or both sides cut there and closed by
    the end symbol (`cut`), though what is left of them need not say the same on both sides."""
    curriculum_epochs: int = 0
    """Epochs in which short batches tend to come first, less so each epoch; 0 is off."""

    def __post_init__(self) -> None:
        if self.max_len < 2:
            raise RecipeError(
                f"batch.max_len must be at least 2 (a token and the end symbol), got {self.max_len}"
            )
        if self.curriculum_epochs < 0:
            raise RecipeError(f"batch.curriculum_epochs must not be negative, got {self.curriculum_epochs}")
        if self.batch_tokens < self.max_len:
            raise RecipeError(
                f"batch.batch_tokens ({self.batch_tokens}) is smaller than batch.max_len ({self.max_len}): "
                f"a pair of the longest allowed length would not fit; raise one or lower the other"
            )
