"""What a search asks of a model: one `step`, and a `state` whose rows can be re-ordered.

In:  one token id per row, and the state that remembers the rows' histories.
Out: the logits of each row's next token, and the state that remembers one token more.
Does not know: layers, caches, encoders, vocabulary strings. A table of numbers can be a model here.
Axes: rows (live hypotheses, grouped by sentence), vocab, sentences, candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Observer", "State", "Step", "StepRecord", "reorder"]


@runtime_checkable
class State(Protocol):
    """The memory behind the rows: keys and values, encoder output, or whatever the model keeps.

    Rows are grouped by sentence. A search starts with one row per sentence, in the caller's order;
    once, it widens every sentence to `width` rows (`beam_size`, or the number of samples), and from
    then on rows `[s * width, (s + 1) * width)` belong to the s-th sentence that is still open.
    A `select` may drop whole sentences and re-order or repeat rows inside a sentence; it never
    moves a row to another sentence and never changes the sentences' order. An implementation may
    rely on that, for instance to keep the encoder's output once per sentence.
    """

    def select(self, rows: Int[Tensor, " new_rows"]) -> State:
        """Return the state whose row i is this state's row `rows[i]`.

        `rows` lies on the search's `device`. A selection that would change nothing is never asked
        for. This state is not used again, so its memory may be reused.
        """
        ...


@runtime_checkable
class Step(Protocol):
    """One step of the model for all rows at once; a row's logits depend on that row alone."""

    def __call__(self, ids: Int[Tensor, " rows"], state: State) -> tuple[Float[Tensor, "rows vocab"], State]:
        """Feed one token to each row; return the next token's logits and the new state.

        Logits are unnormalised log-probabilities, -inf for what is impossible; the search
        normalises them in float32 and leaves the given tensor as it is.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What one step considered, for whoever watches: the layer of a beam tree, on the CPU."""

    length: int
    """How many tokens every live hypothesis held before this step."""
    sentences: Int[Tensor, " sentences"]
    """Which sentences are open: positions in the caller's order."""
    parents: Int[Tensor, "sentences candidates"]
    """The slot, within its sentence, of the hypothesis that the candidate continues."""
    tokens: Int[Tensor, "sentences candidates"]
    """The candidate's token id."""
    log_probs: Float[Tensor, "sentences candidates"]
    """The token's log-probability."""
    totals: Float[Tensor, "sentences candidates"]
    """The candidate's sum of log-probabilities; -inf: not a candidate."""
    finished: Bool[Tensor, "sentences candidates"]
    """The candidate ended here, with EOS."""
    slots: Int[Tensor, "sentences candidates"]
    """The candidate's slot at the next step, -1 if it does not go on."""


Observer: TypeAlias = Callable[[StepRecord], None]


def reorder(state: State, rows: Int[Tensor, " new_rows"], num_rows: int, device: torch.device | str) -> State:
    """Select `rows` (on the CPU) of the state's `num_rows` rows; skip it if nothing would change."""
    if len(rows) == num_rows and torch.equal(rows, torch.arange(num_rows)):
        return state
    return state.select(rows.to(device))
