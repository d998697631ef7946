"""Greedy search by proposal: somebody quick writes a translation, the model itself checks it in one pass.

In:  who proposes (a quick, less exact form of the model), who checks, a request.
Out: what `greedy_search` by the checker alone would have found, token for token.
Does not know: models, number forms, beams.

The checker reads a whole proposal at once, which costs its weights one way through memory instead of one
for each token. Up to the first token where it chooses otherwise the proposal stands; from there the
proposer goes on, until nothing is left to mend (Leviathan et al. 2023, arXiv 2211.17192, section 2, for
the likeliest token). Axes: sentences, length (of the longest proposal, EOS counted), vocab, rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.greedy import greedy_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.step import State, Step

__all__ = ["Check", "Propose", "proposed_search"]

Propose: TypeAlias = Callable[[Sequence[int], Request], list[list[Hypothesis]]]
"""From sentences, as places in the whole request, and their own request, to a hypothesis of each."""
Check: TypeAlias = Callable[[Sequence[int], Sequence[Sequence[int]]], Float[Tensor, "sentences length vocab"]]
"""From sentences and their proposed ids to the logits after BOS and after each of these ids."""


def proposed_search(propose: Propose, check: Check, request: Request) -> list[list[Hypothesis]]:
    """Return for each sentence, in order, a list of one hypothesis.

    Raises:
        SearchError: `n_best` is above 1, or logits are NaN or +inf.
    """
    found: dict[int, list[Hypothesis]] = {}
    prefixes = [list(prefix) for prefix in request.prefixes or [()] * len(request.limits)]
    open_ = list(range(len(request.limits)))
    while open_:
        own = _of(request, open_, prefixes)
        proposals = [hypotheses[0].ids for hypotheses in propose(open_, own)]
        replay = _Replay(check(open_, proposals), proposals, request.eos_id)
        results = greedy_search(cast(Step, replay.step), _Place(torch.arange(len(open_)), 0), own)
        for place, sentence in enumerate(open_):
            if place in replay.mended:
                prefixes[sentence] = replay.mended[place]
            else:
                found[sentence] = results[place]
        open_ = [open_[place] for place in sorted(replay.mended)]
    return [found[sentence] for sentence in range(len(request.limits))]


def _of(request: Request, sentences: Sequence[int], prefixes: Sequence[Sequence[int]]) -> Request:
    """The request of some sentences alone, with other prefixes."""
    return replace(
        request,
        limits=[request.limits[i] for i in sentences],
        prefixes=[prefixes[i] for i in sentences],
        keys=None if request.keys is None else [request.keys[i] for i in sentences],
    )


@dataclass
class _Place:
    """Which proposals the rows belong to, and how many tokens they hold."""

    rows: Int[Tensor, " rows"]
    length: int

    def select(self, rows: Int[Tensor, " new_rows"]) -> _Place:
        return _Place(self.rows[rows.cpu()], self.length)


class _Replay:
    """A step that reads logits from the checker's table while its search writes what was proposed."""

    def __init__(
        self, logits: Float[Tensor, "sentences length vocab"], proposals: list[tuple[int, ...]], eos_id: int
    ) -> None:
        self._logits, self._proposals, self._eos = logits, proposals, eos_id
        self.mended: dict[int, list[int]] = {}
        """By sentence, the proposal's tokens that stand and the checker's own after them."""

    def step(self, ids: Int[Tensor, " rows"], place: State) -> tuple[Float[Tensor, "rows vocab"], State]:
        assert isinstance(place, _Place), "a replay begins at a place"
        length = place.length
        # A row that left its proposal has no logits here: it is ended, and its result is not used.
        for row, id_ in zip(place.rows.tolist(), ids.tolist() if length else [], strict=False):
            proposal = self._proposals[row]
            if row not in self.mended and proposal[length - 1 : length] != (id_,):
                self.mended[row] = [*proposal[: length - 1], id_]
        rows = place.rows.to(self._logits.device)
        logits = self._logits[rows, min(length, self._logits.shape[1] - 1)]
        left = [i for i, row in enumerate(place.rows.tolist()) if row in self.mended]
        if left:
            logits[left] = -math.inf
            logits[left, self._eos] = 0.0
        return logits, _Place(place.rows, length + 1)
