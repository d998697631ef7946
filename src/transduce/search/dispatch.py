"""One door to all searches: the config says which.

In:  a step, a state with one row per sentence, limits, a config.
Out: per sentence, its hypotheses.
Does not know: how any of them works.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.sample import sample_search
from transduce.search.step import Observer, State, Step

__all__ = ["search"]


def search(
    step: Step,
    state: State,
    *,
    bos_id: int,
    eos_id: int,
    limits: Sequence[int],
    config: SearchConfig,
    keys: Sequence[int] | None = None,
    suppress: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    device: torch.device | str = "cpu",
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Search by `config.method`: samples, or the best by beam; a beam of size 1 is greedy search.

    Returns for each sentence, in order, a list of at least one and at most `config.n_best`
    hypotheses. `keys` matter to sampling alone. The other arguments are described in `Request`.

    Raises:
        SearchError: the request contradicts itself, or logits are NaN or +inf.
    """
    if config.method == "sample":
        return sample_search(
            step,
            state,
            bos_id=bos_id,
            eos_id=eos_id,
            limits=limits,
            config=config,
            keys=keys,
            suppress=suppress,
            prefixes=prefixes,
            device=device,
            observer=observer,
        )
    return beam_search(
        step,
        state,
        bos_id=bos_id,
        eos_id=eos_id,
        limits=limits,
        config=config,
        suppress=suppress,
        prefixes=prefixes,
        device=device,
        observer=observer,
    )
