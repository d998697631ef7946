"""Several models as one: a step over several steps, that averages what they say.

In:  steps over the same vocabulary. Out: one step, whose state holds theirs.
Does not know: where the models come from, what searches them.

    probability       log(mean(p_i))      what any of them thinks possible stays possible; the default
    log_probability   mean(log p_i)       all must agree; a token that one model excludes is excluded

Averages are taken in float64, so that their rounding does not depend on how many rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.errors import SearchError
from transduce.search.scores import log_probabilities
from transduce.search.step import State, Step

__all__ = ["EnsembleState", "EnsembleStep", "Mean"]

Mean: TypeAlias = Literal["probability", "log_probability"]


@dataclass(frozen=True)
class EnsembleState:
    """One state of each model, with the same rows."""

    states: tuple[State, ...]

    def select(self, rows: Int[Tensor, " new_rows"]) -> EnsembleState:
        """Select the rows in every state."""
        return EnsembleState(tuple(state.select(rows) for state in self.states))


class EnsembleStep:
    """Feeds every model and averages their next-token distributions."""

    def __init__(self, steps: Sequence[Step], mean: Mean = "probability") -> None:
        """Put steps together.

        Args:
            steps: one for each model.
            mean: of what.

        Raises:
            SearchError: an unknown mean.
        """
        if mean not in get_args(Mean):
            raise SearchError(f"the mean is {mean!r}, but must be one of {', '.join(get_args(Mean))}")
        self._steps, self._mean = tuple(steps), mean

    def __call__(
        self, ids: Int[Tensor, " rows"], state: State
    ) -> tuple[Float[Tensor, "rows vocab"], EnsembleState]:
        """Return the average as log-probabilities, and the models' new states.

        Raises:
            SearchError: a model's logits are NaN or +inf.
        """
        assert isinstance(state, EnsembleState), "the search hands back the state that it was given"
        results = [step(ids, own) for step, own in zip(self._steps, state.states, strict=True)]
        said = torch.stack([log_probabilities(logits).double() for logits, _ in results])
        if self._mean == "probability":
            average = said.logsumexp(dim=0) - math.log(len(results))
        else:
            average = said.mean(dim=0)
        return average.float(), EnsembleState(tuple(following for _, following in results))
