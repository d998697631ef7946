"""N best translations whose texts differ.

A text can be cut into tokens in more than one way, and the model finds several of them (TRAPS 29): of
hypotheses with the same text the best-scored stays. Where too few are left, the beam is made wider,
for these sentences only, up to `_MOST` times; a short sentence may have fewer translations than asked for.
Does not know: engines, tokenizers; it is given a search and a way to read ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis

__all__ = ["Search", "search_distinct"]

Search: TypeAlias = Callable[[Sequence[int], SearchConfig], list[list[Hypothesis]]]
"""From the numbers of the sentences to search for, and how, to the hypotheses of each."""

_MOST = 8


def search_distinct(
    search: Search, num_sentences: int, config: SearchConfig, read: Callable[[Sequence[int]], str]
) -> list[list[Hypothesis]]:
    """Return for each sentence at most `config.n_best` hypotheses of different text, best first.

    Samples are returned as drawn: they are independent, and may be equal. So is a single best.

    Args:
        search: finds hypotheses.
        num_sentences: how many sentences there are.
        config: what is asked for.
        read: the text of ids.
    """
    found = search(range(num_sentences), config)
    if config.method == "sample" or config.n_best == 1:
        return found
    kept = [_distinct(hypotheses, read) for hypotheses in found]
    width = config.beam_size
    while width < _MOST * config.beam_size:
        width *= 2
        lacking = [i for i, hypotheses in enumerate(kept) if len(hypotheses) < config.n_best]
        if not lacking:
            break
        wider = replace(config, beam_size=width, n_best=width)
        for i, more in zip(lacking, search(lacking, wider), strict=True):
            kept[i] = _distinct([*kept[i], *more], read)
    return [hypotheses[: config.n_best] for hypotheses in kept]


def _distinct(hypotheses: Iterable[Hypothesis], read: Callable[[Sequence[int]], str]) -> list[Hypothesis]:
    """The best of each text, best first: finished ones before those that were cut."""
    best: dict[str, Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=lambda h: (not h.finished, -h.score)):
        best.setdefault(read(hypothesis.ids), hypothesis)
    return list(best.values())
