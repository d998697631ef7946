"""Which cross-attention heads align a model's output with its source: kept beside the weights.

In:  a model directory. Out: `HeadAlignment`.
Does not know: torch, how heads are compared (see lens/evidence.py).

Where nothing was measured, all heads of the layer before the last are asked: it aligns best on average
(Garg et al., 2019). Attention is no proof of alignment (Jain and Wallace, 2019).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from transduce.errors import ModelError
from transduce.files import write_atomic

if TYPE_CHECKING:
    from transduce.model.config import TransformerConfig

__all__ = ["ALIGNMENT_FILE", "HeadAlignment", "read_heads", "write_heads"]

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
