"""Which source token each output token came from, by cross-attention heads that were chosen by evidence.

In:  a `Trace`, and the heads to ask. Out: pairs of tokens and of words.
Does not know: how the heads were chosen (see evidence.py).

Where no evidence was gathered, all heads of the layer before the last are asked: it aligns best on
average (Garg et al., 2019). The end symbol, on which heads rest that have nothing to do, is left out.
Attention is not proof of alignment (Jain and Wallace, 2019).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from transduce.errors import ModelError
from transduce.files import write_atomic
from transduce.translate.alignment import pharaoh, word_alignment, words

if TYPE_CHECKING:
    from transduce.lens.traces import Trace
    from transduce.model.config import TransformerConfig

__all__ = [
    "ALIGNMENT_FILE",
    "HeadAlignment",
    "TokenAlignment",
    "align",
    "read_heads",
    "strongest",
    "write_heads",
]

ALIGNMENT_FILE = "alignment.json"
"""Beside the weights, which it does not touch."""
_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class HeadAlignment:
    """Which cross-attention heads align best, and how well."""

    heads: tuple[tuple[int, int], ...]
    """(layer, head), asked together."""
    row: Literal["predicting", "reading"] = "predicting"
    """Which decoder row tells about a token: the one that predicts it, or the one that reads it."""
    agreement: float | None = None
    """Share of the tokens with evidence that they link alike, on sentences that did not choose; None: nothing
    was measured."""
    sentences: int = 0
    """Sentences measured on."""
    evidence: str = ""
    """What they were compared with."""
    scores: tuple[tuple[float, ...], ...] = ()
    """The agreement of each single head, by layer."""

    @classmethod
    def usual(cls, config: TransformerConfig) -> HeadAlignment:
        """Where nothing was measured: all heads of the layer before the last."""
        layer = max(0, config.num_decoder_layers - 2)
        heads = range(config.num_heads) if config.num_decoder_layers else ()
        return cls(heads=tuple((layer, head) for head in heads))

    def check(self, config: TransformerConfig) -> None:
        """Raise ModelError if the model has no such heads."""
        for layer, head in self.heads:
            if not (0 <= layer < config.num_decoder_layers and 0 <= head < config.num_heads):
                raise ModelError(
                    f"{ALIGNMENT_FILE} names layer {layer}, head {head}, which this model has not: "
                    "run `transduce align` again"
                )


@dataclass(frozen=True)
class TokenAlignment:
    """What the heads said."""

    pairs: tuple[tuple[int, int], ...]
    """(index in the trace's source, index in its target), one for each output token."""
    word_pairs: tuple[tuple[int, int], ...]
    """(source word, target word), each once."""
    heads: HeadAlignment

    @property
    def pharaoh(self) -> str:
        """The words' pairs as `0-0 1-2`."""
        return pharaoh(self.word_pairs)


def align(trace: Trace, heads: HeadAlignment) -> TokenAlignment:
    """Ask the heads about a trace's output.

    Args:
        trace: whose output is aligned.
        heads: which cross-attention heads.
    """
    src_len = sum(token.kind != "eos" for token in trace.source)
    tgt_len = sum(token.kind not in ("bos", "eos") for token in trace.target)
    if not (src_len and tgt_len and heads.heads):
        return TokenAlignment((), (), heads)
    layers = {layer: trace.attention("cross", layer).record.weights[0] for layer, _ in heads.heads}
    weights = torch.stack([layers[layer][head] for layer, head in heads.heads]).mean(0).cpu()
    found = strongest(weights, src_len, tgt_len, heads.row)
    source, target = ([token.piece for token in side] for side in (trace.source[:src_len], trace.target[1:]))
    plain = [(s, t - 1) for s, t in found]
    return TokenAlignment(found, word_alignment(plain, words(source), words(target[:tgt_len])), heads)


def strongest(
    weights: Tensor, src_len: int, tgt_len: int, row: Literal["predicting", "reading"]
) -> tuple[tuple[int, int], ...]:
    """For each output token the source token with the most weight.

    Args:
        weights: (rows, keys); row i reads token i of the target (0 is the start symbol).
        src_len: keys that are text.
        tgt_len: output tokens, without start and end symbol.
        row: which row tells about a token.

    Returns:
        (source token, target token), the start symbol being target token 0.
    """
    first = 0 if row == "predicting" else 1
    best = weights[first : first + tgt_len, :src_len].argmax(-1).tolist()
    return tuple((s, t) for t, s in enumerate(best, 1))


def write_heads(heads: HeadAlignment, directory: Path) -> Path:
    """Keep the choice in a model directory; return its file."""
    file = directory / ALIGNMENT_FILE
    text = json.dumps({"schema": _SCHEMA, **asdict(heads)}, indent=2)
    write_atomic(file, (text + "\n").encode())
    return file


def read_heads(directory: Path, config: TransformerConfig) -> HeadAlignment:
    """The choice kept in a model directory; the usual heads where there is none.

    Raises:
        ModelError: the file is damaged, of a newer schema, or another model's.
    """
    file = directory / ALIGNMENT_FILE
    if not file.exists():
        return HeadAlignment.usual(config)
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read ({error}): run `transduce align` again") from error
    heads = _heads_of(table, file)
    heads.check(config)
    return heads


def _heads_of(table: Any, file: Path) -> HeadAlignment:
    if not isinstance(table, Mapping) or table.get("schema") != _SCHEMA:
        raise ModelError(f"{file} is not of schema {_SCHEMA}: run `transduce align` again")
    try:
        return HeadAlignment(
            heads=tuple((int(layer), int(head)) for layer, head in table["heads"]),
            row="reading" if table["row"] == "reading" else "predicting",
            agreement=None if table["agreement"] is None else float(table["agreement"]),
            sentences=int(table["sentences"]),
            evidence=str(table["evidence"]),
            scores=tuple(tuple(float(score) for score in layer) for layer in table["scores"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{file} is incomplete ({error}): run `transduce align` again") from error
