"""The model as a tree of its parts: what each is, how many numbers it has learnt, where its code stands.

In:  a model. Out: nested dictionaries for JSON.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import nn

from transduce.lens.source_code import source_of
from transduce.model.attention import MultiHeadAttention
from transduce.model.decoder import Decoder
from transduce.model.embedding import Embedding, OutputProjection
from transduce.model.encoder import Encoder
from transduce.model.feed_forward import FeedForward, GatedFeedForward
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.norm import AddNorm
from transduce.model.position import LearnedPosition, RotaryPosition, SinusoidalPosition
from transduce.model.transformer import Transformer

__all__ = ["configuration", "module_tree"]

_FORMULAS: dict[type[nn.Module], str] = {
    Transformer: "transformer",
    Encoder: "stack",
    Decoder: "stack",
    EncoderLayer: "encoder_layer",
    DecoderLayer: "decoder_layer",
    MultiHeadAttention: "attention",
    FeedForward: "feed_forward",
    GatedFeedForward: "gated_inner",
    AddNorm: "add_norm_post",
    Embedding: "embedding",
    SinusoidalPosition: "position",
    LearnedPosition: "learned_position",
    RotaryPosition: "rotary",
    OutputProjection: "logits",
    nn.LayerNorm: "norm",
    nn.Linear: "linear",
}
_SILENT = ("Dropout", "Identity", "NoPosition", "ModuleList")


def configuration(model: Transformer) -> dict[str, Any]:
    """Every field of the configuration, the widths of a head filled in."""
    return {**asdict(model.config), "d_k": model.config.key_width, "d_v": model.config.value_width}


def module_tree(model: Transformer) -> dict[str, Any]:
    """The whole model; parts that do nothing in use (dropout) are left out."""
    first_names = {id(p): name for name, p in model.named_parameters()}
    return _described(model, "", first_names)


def _described(module: nn.Module, name: str, first_names: dict[int, str]) -> dict[str, Any]:
    kind = type(module)
    ours = kind.__module__.startswith("transduce.")
    formula = _FORMULAS.get(kind, "")
    if isinstance(module, AddNorm) and module.pre:
        formula = "add_norm_pre"
    return {
        "name": name,
        "class": kind.__name__,
        "component": kind.__name__ if ours else None,
        "formula": formula or None,
        "num_parameters": sum(p.numel() for p in module.parameters()),
        "parameters": [_parameter(f"{name}.{own}".lstrip("."), own, p, first_names)
                       for own, p in module.named_parameters(recurse=False)],
        "source": source_of(kind).to_dict() if ours else None,
        "children": [_described(child, own, first_names) for own, child in _children(module, name)],
    }  # fmt: skip


def _children(module: nn.Module, name: str) -> list[tuple[str, nn.Module]]:
    """The parts that do something, lists of layers opened; a shared part stands where it is named first."""
    found: list[tuple[str, nn.Module]] = []
    for own, child in module.named_children():
        full = f"{name}.{own}".lstrip(".")
        if isinstance(child, nn.ModuleList):
            found += [(f"{full}.{number}", layer) for number, layer in enumerate(child)]
        elif type(child).__name__ not in _SILENT:
            found.append((full, child))
    return found


def _parameter(full: str, own: str, parameter: nn.Parameter, first_names: dict[int, str]) -> dict[str, Any]:
    first = first_names[id(parameter)]
    return {"name": own, "shape": list(parameter.shape), "tied_to": first if first != full else None}
