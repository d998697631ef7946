"""A target-vocabulary shortlist: what each source piece can become, learnt from the training text.

In:  source and target ids of parallel sentences. Out: the content of CTranslate2's `vmap.txt`.
Does not know: models, files.

IBM Model 1 (Brown et al., 1993): every target token comes from one source token, any of them alike;
expectation and maximisation by turns find t(target | source):

    share of link (s, t) in a pair  =  t(t | s) / Σ_s' t(t | s'),     t(t | s)  ∝  Σ shares of (s, t)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.errors import DataError

__all__ = ["Links", "collect_links", "translation_table", "vocabulary_map"]

_MOST_LINKS = 20_000_000  # 8 bytes each, a few times over
_MOST_CELLS = 10_000  # links of one pair; longer ones teach little and cost much
_ITERATIONS = 5


@dataclass(frozen=True)
class Links:
    """Every source token of a pair with every target token of it, one pair after another."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    starts: NDArray[np.int64]
    """Where the links of each single target token begin."""


def collect_links(pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Links:
    """Spread pairs out into links, until there are 20 million.

    Raises:
        DataError: no pair has tokens on both sides.
    """
    sources: list[NDArray[np.int64]] = []
    targets: list[NDArray[np.int64]] = []
    widths: list[NDArray[np.int64]] = []
    total = 0
    for source, target in pairs:
        cells = len(source) * len(target)
        if not 0 < cells <= _MOST_CELLS:
            continue
        sources.append(np.tile(np.asarray(source, np.int64), len(target)))
        targets.append(np.repeat(np.asarray(target, np.int64), len(source)))
        widths.append(np.full(len(target), len(source)))
        total += cells
        if total >= _MOST_LINKS:
            break
    if not sources:
        raise DataError("a shortlist needs parallel text, but no pair has tokens on both sides")
    ends = np.cumsum(np.concatenate(widths))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return Links(np.concatenate(sources), np.concatenate(targets), starts)


def translation_table(
    links: Links, target_size: int, iterations: int = _ITERATIONS
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Learn t(target | source).

    Args:
        links: from `collect_links`.
        target_size: pieces of the target vocabulary.
        iterations: rounds of expectation and maximisation.

    Returns:
        Source ids, target ids and probabilities of all pairs that stood in one sentence together.
    """
    codes, which = np.unique(links.sources * target_size + links.targets, return_inverse=True)
    sources, targets = codes // target_size, codes % target_size
    widths = np.diff(np.append(links.starts, len(which)))
    table = np.ones(len(codes))
    for _ in range(iterations):
        shares = table[which]
        shares /= np.repeat(np.add.reduceat(shares, links.starts), widths)
        counts = np.bincount(which, shares, len(codes))
        table = counts / np.bincount(sources, counts)[sources]
    return sources, targets, table


def vocabulary_map(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    *,
    always: Sequence[int] = (),
    per_piece: int = 40,
    frequent: int = 200,
) -> str:
    """The content of `vmap.txt`: a line for each source piece, and one for what is always allowed.

    Args:
        pairs: source and target ids.
        source_pieces: the source vocabulary.
        target_pieces: the target vocabulary.
        always: ids that are allowed whatever the source is (byte pieces, for instance).
        per_piece: likeliest target pieces of each source piece.
        frequent: most frequent target pieces, always allowed.

    Raises:
        DataError: no pair has tokens on both sides.
    """
    links = collect_links(pairs)
    sources, targets, table = translation_table(links, len(target_pieces))
    frequencies = np.bincount(links.targets[links.starts], minlength=len(target_pieces))
    common = np.argsort(-frequencies, kind="stable")[:frequent]
    lines = [_line("", sorted({*common.tolist(), *always}), target_pieces)]
    order = np.lexsort((targets, -table, sources))
    sources, targets = sources[order], targets[order]
    firsts = np.searchsorted(sources, np.arange(len(source_pieces) + 1))
    for source, piece in enumerate(source_pieces):
        first, last = firsts[source], firsts[source + 1]
        if first < last and _writable(piece):
            best = targets[first : min(last, first + per_piece)]
            lines.append(_line(piece, best.tolist(), target_pieces))
    return "\n".join(lines) + "\n"


def _line(piece: str, ids: Sequence[int], target_pieces: Sequence[str]) -> str:
    return f"{piece}\t{' '.join(target_pieces[i] for i in ids if _writable(target_pieces[i]))}"


def _writable(piece: str) -> bool:
    """Whether a piece can stand in the file, whose marks are spaces, tabs and line ends."""
    return bool(piece) and not any(mark in piece for mark in " \t\r\n")
