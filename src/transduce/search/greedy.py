"""Greedy search: the likeliest token at each step, and nothing else.

In:  a step, a state with one row per sentence, a request.
Out: one hypothesis per sentence.
Does not know: models, strings, beams.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from transduce.errors import SearchError
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.scores import top_tokens
from transduce.search.step import Observer, State, Step
from transduce.search.walk import walk

__all__ = ["greedy_search"]


def greedy_search(
    step: Step, state: State, request: Request, observer: Observer | None = None
) -> list[list[Hypothesis]]:
    """Return for each sentence, in order, a list of one hypothesis.

    Of equally likely tokens the one with the lowest id is taken. A hypothesis that holds `limit`
    tokens and whose likeliest next token is not EOS is cut there: `finished` is False.
    The config's beam size and sampling fields are not used.

    Raises:
        SearchError: `n_best` is above 1, or logits are NaN or +inf.
    """
    if request.config.n_best > 1:
        raise SearchError(
            f"n_best is {request.config.n_best}, but greedy search finds 1 hypothesis: "
            "raise beam_size to n_best or more"
        )
    return walk(step, state, request, choose=_likeliest, num_paths=1, observer=observer)


def _likeliest(
    log_probs: Float[Tensor, "rows vocab"],
    sentences: Int[Tensor, " rows"],  # noqa: ARG001 - the same for every sentence
) -> Int[Tensor, " rows"]:
    return top_tokens(log_probs, 1)[1].squeeze(1)
