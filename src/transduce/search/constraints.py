"""What a translation may not do, or must: forbidden ids, least length, repeats, forced prefixes.

In:  log-probabilities of rows, changed in place: -inf for what is not allowed.
Out: the same tensor. Probabilities are not normalised again: what stays allowed keeps the model's
     own log-probability, so scores remain comparable.
Does not know: beams, scores, sampling, what an id means.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.request import Request

__all__ = ["Constraints", "forbid_repeats", "forbid_tokens", "force_tokens"]

_FREE = -1  # in a table of forced ids: nothing is forced


def forbid_tokens(log_probs: Float[Tensor, "rows vocab"], ids: Int[Tensor, " ids"]) -> None:
    """Forbid the given ids in every row."""
    log_probs.index_fill_(1, ids, -math.inf)


def forbid_repeats(
    log_probs: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows length"], n: int
) -> None:
    """Forbid in each row the tokens that would complete an n-gram which its history holds."""
    if history.shape[1] < n:
        return
    ngrams = history.unfold(1, n, 1)  # (rows, length - n + 1, n)
    present = history[:, history.shape[1] - (n - 1) :].unsqueeze(1)  # (rows, 1, n - 1)
    rows, starts = (ngrams[:, :, :-1] == present).all(dim=2).nonzero().unbind(1)
    last = ngrams[rows, starts, n - 1]
    log_probs[rows.to(log_probs.device), last.to(log_probs.device)] = -math.inf


def force_tokens(
    log_probs: Float[Tensor, "rows vocab"],
    rows: Int[Tensor, " forced"],
    ids: Int[Tensor, " forced"],
    values: Float[Tensor, " forced"],
) -> None:
    """Forbid in the given rows all but one id, whose log-probability becomes `values`."""
    log_probs[rows] = -math.inf
    log_probs[rows, ids] = values


class Constraints:
    """All constraints of one request, with the histories that they need.

    Forced tokens come before every other rule: a prefix may hold an id that is otherwise forbidden,
    may repeat itself, and counts towards `min_len`.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._forbidden = torch.tensor(request.forbidden, dtype=torch.long, device=request.device)
        self._eos = torch.tensor([request.eos_id], device=request.device)
        self._history = torch.empty(len(request.limits), 0, dtype=torch.long)
        prefixes = request.prefixes or [()] * len(request.limits)
        self._longest = max(map(len, prefixes), default=0)
        self._prefixes = torch.tensor(
            [[*prefix, *[_FREE] * (self._longest - len(prefix))] for prefix in prefixes],
            dtype=torch.long,
        ).view(len(prefixes), self._longest)

    def forced(self, sentences: Int[Tensor, " rows"], length: int) -> Int[Tensor, " rows"]:
        """Return the id that each sentence must take after `length` tokens, -1 for a free choice."""
        if length >= self._longest:
            return torch.full_like(sentences, _FREE)
        return self._prefixes[sentences, length]

    def all_forced(self, sentences: Int[Tensor, " sentences"], length: int) -> bool:
        """Return whether none of the sentences has a choice after `length` tokens."""
        return length < self._longest and bool((self.forced(sentences, length) != _FREE).all())

    def apply(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        sentences: Int[Tensor, " rows"],
        length: int,
    ) -> None:
        """Change in place the log-probabilities of rows that hold `length` tokens each.

        Raises:
            SearchError: an id of the request is not in the model's vocabulary.
        """
        if length == 0:
            self._request.check_vocab(log_probs.shape[1])
        if length < self._longest:
            forced = self.forced(sentences, length)
            rows = (forced != _FREE).nonzero().flatten()
            ids, rows = forced[rows].to(log_probs.device), rows.to(log_probs.device)
            own = log_probs[rows, ids]
        forbid_tokens(log_probs, self._forbidden)
        if length < self._request.config.min_len:
            forbid_tokens(log_probs, self._eos)
        if self._request.config.no_repeat_ngram:
            forbid_repeats(log_probs, self._history, self._request.config.no_repeat_ngram)
        if length < self._longest:
            force_tokens(log_probs, rows, ids, own)

    def advance(self, rows: Int[Tensor, " new_rows"] | None, ids: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue the old row `rows[i]`, or with None itself, with `ids[i]`."""
        if self._request.config.no_repeat_ngram:
            history = self._history if rows is None else self._history[rows]
            self._history = torch.cat([history, ids.unsqueeze(1)], dim=1)
