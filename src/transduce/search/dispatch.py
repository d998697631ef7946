"""One door to all searches: the config says which.

In:  a step, a state with one row per sentence, a request.
Out: per sentence, its hypotheses.
Does not know: how any of them works.
"""

from __future__ import annotations

from transduce.search.beam import beam_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.required import required_search
from transduce.search.sample import sample_search
from transduce.search.step import Observer, State, Step

__all__ = ["search"]


def search(
    step: Step, state: State, request: Request, observer: Observer | None = None
) -> list[list[Hypothesis]]:
    """Search by `config.method`: samples, or the best by beam; a beam of size 1 is greedy search.

    Where phrases are required, all sentences go the way of `required.py`.

    Returns for each sentence, in order, a list of at least one and at most `config.n_best`
    hypotheses.

    Raises:
        SearchError: logits are NaN or +inf.
    """
    if request.config.method == "sample":
        return sample_search(step, state, request, observer)
    if any(request.required or ()):
        return required_search(step, state, request, observer)
    return beam_search(step, state, request, observer)
