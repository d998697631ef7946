"""A text's other segmentations, drawn by a seed: BPE-dropout and unigram sampling.

SentencePiece can draw them too, but salts its generator anew in every process (0.2.3), whatever seed
is set: a run killed while it tokenized would go on with other ids (contract 4). So they are drawn
here, by its rules and from its vocabulary; its generator is not used.

In: SentencePiece's processor, text in its normal form. Out: ids. Does not know: files, corpora.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable
from typing import Any

__all__ = ["Segmenter"]

_UNKNOWN_PENALTY = (
    10.0  # how much worse than the worst piece a character without one is, as SentencePiece has it
)


class Segmenter:
    """Draws segmentations over one vocabulary."""

    def __init__(self, processor: Any) -> None:
        """Read the vocabulary of a `SentencePieceProcessor`."""
        self._normalise = processor.normalize
        self._unknown: int = processor.unk_id()
        self._ids: dict[str, int] = {}
        self._bytes: dict[int, int] = {}
        self._scores: list[float] = []
        for i in range(processor.get_piece_size()):
            self._scores.append(processor.get_score(i))
            if processor.is_byte(i):
                self._bytes[int(processor.id_to_piece(i)[1:-1], 16)] = i
            elif not (processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i)):
                self._ids[processor.id_to_piece(i)] = i
        scores = [self._scores[i] for i in self._ids.values()]
        self._worst = min(scores, default=0.0) - _UNKNOWN_PENALTY
        self._longest = max(map(len, self._ids), default=0)
        self._is_bpe = all(
            score.is_integer() for score in scores
        )  # the order of merges; else log probabilities

    def draw(self, text: str, alpha: float, seed: int) -> list[int]:
        """Ids of one segmentation; the same arguments give the same ids everywhere.

        Args:
            text: as `normalise` leaves it.
            alpha: for BPE the chance to leave a merge out (Provilkov et al. 2020); for unigram the power
                that segmentations' probabilities are raised to (Kudo 2018).
            seed: chooses.
        """
        text, rng = self._normalise(text), random.Random(seed)
        return self._to_ids(
            self._merged(text, alpha, rng) if self._is_bpe else self._walked(text, alpha, rng)
        )

    def _merged(self, text: str, alpha: float, rng: random.Random) -> list[str]:
        """Characters, merged best pair first; each merge that comes up is left out with chance `alpha`."""
        symbols = list(text)  # a merged pair stands in its left place, its right place is empty
        before, after = list(range(-1, len(text) - 1)), list(range(1, len(text) + 1))
        agenda: list[tuple[float, int, int, str]] = []

        def propose(left: int, right: int) -> None:
            if left >= 0 and right < len(symbols):
                piece = symbols[left] + symbols[right]
                if piece in self._ids:
                    heapq.heappush(agenda, (-self._scores[self._ids[piece]], left, right, piece))

        for right in range(1, len(symbols)):
            propose(right - 1, right)
        while agenda:
            _, left, right, piece = heapq.heappop(agenda)
            stale = not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != piece
            if stale or (alpha and rng.random() < alpha):
                continue
            symbols[left], symbols[right] = piece, ""
            after[left] = after[right]
            if after[left] < len(symbols):
                before[after[left]] = left
            propose(before[left], left)
            propose(left, after[left])
        return [symbol for symbol in symbols if symbol]

    def _walked(self, text: str, alpha: float, rng: random.Random) -> list[str]:
        """A path through the lattice of pieces, drawn from its end (forward filtering, backward sampling)."""
        totals = [0.0]  # log of the summed weights of all paths to here
        arcs: list[list[tuple[int, float]]] = [[]]  # to here: from where, log weight of all paths that end so
        for end in range(1, len(text) + 1):
            here = []
            for start in range(max(0, end - self._longest), end):
                i = self._ids.get(text[start:end])
                if i is not None:
                    here.append((start, totals[start] + alpha * self._scores[i]))
                elif start == end - 1:
                    here.append((start, totals[start] + alpha * self._worst))
            most = max(weight for _, weight in here)
            totals.append(most + math.log(sum(math.exp(weight - most) for _, weight in here)))
            arcs.append(here)
        pieces, end = [], len(text)
        while end:
            start = _pick(arcs[end], totals[end], rng.random())
            pieces.append(text[start:end])
            end = start
        return pieces[::-1]

    def _to_ids(self, pieces: Iterable[str]) -> list[int]:
        """Ids of pieces; one that is not in the vocabulary is spelt in bytes, or `<unk>` once in a row."""
        ids: list[int] = []
        for piece in pieces:
            if piece in self._ids:
                ids.append(self._ids[piece])
            elif self._bytes:
                ids += [self._bytes[byte] for byte in piece.encode()]
            elif ids[-1:] != [self._unknown]:
                ids.append(self._unknown)
        return ids


def _pick(arcs: list[tuple[int, float]], total: float, chosen: float) -> int:
    """Where the arc starts that a number between 0 and 1 falls on; the last, if rounding leaves a little."""
    for start, weight in arcs:
        chosen -= math.exp(weight - total)
        if chosen < 0:
            return start
    return arcs[-1][0]
