"""Which cross-attention heads align: found out on text, not by which layer comes last.

In:  a lens, pairs of sentences, perhaps links that people drew. Out: `HeadAlignment`.
Does not know: files.

Evidence is either given (Pharaoh links between words), or learnt from the text itself: IBM Model 1
(Brown et al., 1993) in both directions, with fast_align's preference for the diagonal (Dyer et al.,
2013), of which only those links count that both directions draw. Each head, asked about the row that
predicts a token or about the one that reads it, names the source token with the most weight (the end
symbol, where idle heads rest, left out). Agreement is the share of the tokens with evidence for which
that token is among the evidence's. The best head is taken, then whichever helps it most, as long as
one does; half the sentences choose, the other half says how good the choice is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.errors import DataError
from transduce.export.shortlist import collect_links, translation_table
from transduce.lens.alignment import strongest
from transduce.lens.forward import layer_attention, run_pass
from transduce.lens.lens import Lens
from transduce.text.pairs import Pair
from transduce.translate.alignment import pharaoh, word_alignment, words
from transduce.translate.alignment_heads import HeadAlignment

__all__ = ["Evidence", "agreement_of", "choose_heads", "given_links", "learnt_links", "link_words"]

Rows = Literal["predicting", "reading"]
_ROWS: tuple[Rows, ...] = ("predicting", "reading")
_MOST_HEADS = 8
_TENSION = 4.0  # fast_align's λ: how much a link off the diagonal is disliked
_LINK = re.compile(r"(\d+)[-?](\d+)")


@dataclass(frozen=True)
class Evidence:
    """One pair of sentences, as ids, and what is known of its links."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    links: dict[int, frozenset[int]]
    """Target token → the source tokens that it may come from, both from 0; without those unknown."""


@dataclass(frozen=True)
class _Seen:
    """What all heads said about one pair."""

    evidence: Evidence
    weights: Tensor
    """float16, (layers · heads, rows, keys)."""


def learnt_links(lens: Lens, pairs: Iterable[Pair], sentences: int) -> list[Evidence]:
    """Learn links from the text itself.

    Args:
        lens: whose vocabularies are used.
        pairs: the more, the better it learns; 20 million links are read at most.
        sentences: how many of the first pairs to return with their links.

    Raises:
        DataError: no pair has text on both sides.
    """
    known = list(_encoded(lens, pairs))
    forward = _table(known, lens.config.target_vocab_size)
    swapped = [(target, source) for source, target in known]
    reverse = _table(swapped, lens.config.source_vocab_size)
    found = []
    for source, target in known[:sentences]:
        near = _diagonal(len(source), len(target))
        to_source = (forward.of(source, target) * near).argmax(0)
        to_target = (reverse.of(target, source).T * near).argmax(1)
        links = {t: frozenset([int(s)]) for t, s in enumerate(to_source) if to_target[s] == t}
        found.append(Evidence(source, target, links))
    return found


def given_links(lens: Lens, pairs: Iterable[Pair], lines: Iterable[str], sentences: int) -> list[Evidence]:
    """Take links between words that somebody drew, as links between the tokens of those words.

    Args:
        lens: whose vocabularies are used.
        pairs: the sentences.
        lines: for each pair `0-0 1-2`, source word and target word; `0?0` is a possible link.
        sentences: how many to take.

    Raises:
        DataError: a line is no such list, names a word that is not there, or the counts differ.
    """
    found: list[Evidence] = []
    source_tokenizer, target_tokenizer = lens.translator.tokenizers
    for pair, line in _both(pairs, lines):
        source, target = source_tokenizer.encode(pair.source), target_tokenizer.encode(pair.target)
        source_words = words(source_tokenizer.pieces(source))
        target_words = words(target_tokenizer.pieces(target))
        links: dict[int, set[int]] = {}
        for s, t in _pharaoh(line, pair.line):
            if s >= len(source_words) or t >= len(target_words):
                raise DataError(
                    f"line {pair.line} links words {s}-{t}, but the sentences have {len(source_words)} and "
                    f"{len(target_words)} words (counted from 0): are these the same, tokenised files?"
                )
            for token in range(target_words[t].first, target_words[t].end):
                links.setdefault(token, set()).update(range(source_words[s].first, source_words[s].end))
        if len(found) < sentences and source and target:
            found.append(Evidence(tuple(source), tuple(target), {t: frozenset(s) for t, s in links.items()}))
    return found


def choose_heads(lens: Lens, evidence: Sequence[Evidence], what: str) -> HeadAlignment:
    """Find the heads that agree best with the evidence.

    Args:
        lens: over the model.
        evidence: at least two pairs with links.
        what: the evidence in a few words, to be kept with the choice.

    Raises:
        DataError: there is too little evidence, or the decoder has no layers.
    """
    usable = [one for one in evidence if one.links and len(one.source) <= lens.limits.source_tokens]
    if len(usable) < 2 or not lens.config.num_decoder_layers:
        raise DataError(
            f"{len(usable)} pairs have links to compare with, but at least 2 are needed: give more text"
        )
    seen = [_look(lens, one) for one in usable]
    chooses, tells = seen[::2], seen[1::2]
    count = lens.config.num_heads
    best: tuple[float, tuple[int, ...], Rows] = (-1.0, (), "predicting")
    for rows in _ROWS:
        score, heads = _greedily(chooses, rows)
        if score > best[0]:
            best = (score, heads, rows)
    _, heads, rows = best
    singles = [_agreement(seen, (head,), rows) for head in range(len(seen[0].weights))]
    return HeadAlignment(
        heads=tuple((head // count, head % count) for head in sorted(heads)),
        row=rows,
        agreement=_agreement(tells, heads, rows),
        sentences=len(usable),
        evidence=what,
        scores=tuple(tuple(singles[i : i + count]) for i in range(0, len(singles), count)),
    )


def agreement_of(lens: Lens, evidence: Sequence[Evidence], heads: HeadAlignment) -> float:
    """How well given heads agree with the evidence, 0 to 1."""
    count = lens.config.num_heads
    seen = [_look(lens, one) for one in evidence if one.links]
    return _agreement(seen, [layer * count + head for layer, head in heads.heads], heads.row)


def link_words(lens: Lens, pair: Pair, heads: HeadAlignment) -> str | None:
    """Links between the words of a sentence and of its translation, as `0-0 1-2`; None if too long."""
    tokenizers = lens.translator.tokenizers
    source, target = (
        tok.encode(text) for tok, text in zip(tokenizers, (pair.source, pair.target), strict=True)
    )
    if max(len(source), len(target)) > min(lens.limits.source_tokens, lens.body.longest - 1):
        return None
    if not (source and target):
        return ""
    seen = _look(lens, Evidence(tuple(source), tuple(target), {}))
    chosen = [layer * lens.config.num_heads + head for layer, head in heads.heads]
    found = strongest(seen.weights[chosen].float().mean(0), len(source), len(target), heads.row)
    sides = (words(tok.pieces(ids)) for tok, ids in zip(tokenizers, (source, target), strict=True))
    return pharaoh(word_alignment([(s, t - 1) for s, t in found], *sides))


def _greedily(seen: Sequence[_Seen], rows: Rows) -> tuple[float, tuple[int, ...]]:
    """The best head, and whichever helps most, as long as one does."""
    chosen: tuple[int, ...] = ()
    reached = -1.0
    candidates = range(len(seen[0].weights))
    while len(chosen) < _MOST_HEADS:
        tried = [
            (_agreement(seen, (*chosen, head), rows), -head) for head in candidates if head not in chosen
        ]
        score, head = max(tried, default=(-1.0, 0))
        if score <= reached:
            break
        reached, chosen = score, (*chosen, -head)
    return reached, chosen


def _agreement(seen: Sequence[_Seen], heads: Sequence[int], rows: Rows) -> float:
    """Share of the tokens with evidence that the heads' mean links alike."""
    right = total = 0
    for one in seen:
        mean = one.weights[list(heads)].float().mean(0)
        for s, t in strongest(mean, len(one.evidence.source), len(one.evidence.target), rows):
            expected = one.evidence.links.get(t - 1)
            if expected is not None:
                right += s in expected
                total += 1
    return right / max(1, total)


def _look(lens: Lens, evidence: Evidence) -> _Seen:
    """All cross-attention on one pair, the output being given."""
    with lens.alone() as model:
        done = run_pass(model, [*evidence.source, lens.ids.eos_id], [lens.ids.bos_id, *evidence.target])
        layers = range(lens.config.num_decoder_layers)
        weights = [layer_attention(model, done, "cross", layer).record.weights[0] for layer in layers]
    return _Seen(evidence, torch.cat(weights).half().cpu())


@dataclass(frozen=True)
class _Table:
    """t(target | source) of the pairs that stood in one sentence together, sorted by code."""

    codes: NDArray[np.int64]
    values: NDArray[np.float64]
    target_size: int

    def of(self, source: Sequence[int], target: Sequence[int]) -> NDArray[np.float64]:
        """(source tokens, target tokens)."""
        codes = np.asarray(source)[:, None] * self.target_size + np.asarray(target)[None, :]
        places = np.searchsorted(self.codes, codes).clip(max=len(self.codes) - 1)
        return np.where(self.codes[places] == codes, self.values[places], 0.0)


def _table(pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], target_size: int) -> _Table:
    sources, targets, values = translation_table(collect_links(pairs), target_size)
    return _Table(sources * target_size + targets, values, target_size)


def _diagonal(src_len: int, tgt_len: int) -> NDArray[np.float64]:
    """How likely tokens are linked by their places alone, (source tokens, target tokens)."""
    source = (np.arange(src_len) + 0.5) / src_len
    target = (np.arange(tgt_len) + 0.5) / tgt_len
    likely: NDArray[np.float64] = np.exp(-_TENSION * np.abs(source[:, None] - target[None, :]))
    return likely


def _encoded(lens: Lens, pairs: Iterable[Pair]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    source_tokenizer, target_tokenizer = lens.translator.tokenizers
    most = min(lens.limits.source_tokens, lens.body.longest - 1)
    for pair in pairs:
        source, target = source_tokenizer.encode(pair.source), target_tokenizer.encode(pair.target)
        if 0 < len(source) <= most and 0 < len(target) <= most:
            yield tuple(source), tuple(target)


def _both(pairs: Iterable[Pair], lines: Iterable[str]) -> Iterator[tuple[Pair, str]]:
    try:
        yield from zip(pairs, lines, strict=True)
    except ValueError as error:
        raise DataError(
            "there is not one line of links for each pair of sentences: line N of the links belongs to line N"
        ) from error


def _pharaoh(line: str, number: int) -> list[tuple[int, int]]:
    found = []
    for part in line.split():
        link = _LINK.fullmatch(part)
        if link is None:
            raise DataError(
                f"line {number} of the links holds {part[:20]!r}, but expected pairs such as 0-0 1-2"
            )
        found.append((int(link[1]), int(link[2])))
    return found
