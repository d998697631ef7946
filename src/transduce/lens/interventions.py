"""What if: heads taken out, another temperature, another mask, in chosen layers, while the model runs.

In:  names of heads and layers, and what to do there. Out: hooks on a model, for the length of a `with`.
Does not know: text, searches. The model's own code does not know that this exists.

An output whose head is ablated is what it would be if that head's vectors were zero: the columns that
it feeds into `w_o` are zero. A temperature divides the scores of every head of a layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

import torch
from torch import Tensor, nn

from transduce.errors import ModelError
from transduce.model.attention import MultiHeadAttention
from transduce.model.config import TransformerConfig
from transduce.model.transformer import Transformer

__all__ = [
    "AttentionKind",
    "HeadName",
    "Interventions",
    "MaskChange",
    "NoSuchPart",
    "Temperature",
    "attention_of",
    "check_head",
    "num_layers",
]


class NoSuchPart(ModelError):  # noqa: N818 -- it says what is the matter
    """What was asked for is not in this model."""


AttentionKind: TypeAlias = Literal["enc_self", "dec_self", "cross"]
"""Self-attention of the encoder, of the decoder, and attention from the decoder to the encoder's output."""


@dataclass(frozen=True)
class HeadName:
    """One head: its kind, layer and number, counted from 0."""

    kind: AttentionKind
    layer: int
    head: int


@dataclass(frozen=True)
class Temperature:
    """τ of all heads of a layer, or of all layers (`layer` None)."""

    kind: AttentionKind
    layer: int | None
    tau: float


@dataclass(frozen=True)
class MaskChange:
    """Another mask in a layer, or in all (`layer` None)."""

    kind: AttentionKind
    layer: int | None
    hide: tuple[int, ...] = ()
    """Positions that no query may look at."""
    causal: bool = True
    """False: queries may look ahead. In writing there is nothing ahead yet: this concerns re-runs only."""


@dataclass(frozen=True)
class Interventions:
    """Everything that is changed at once; nothing by default."""

    ablate: tuple[HeadName, ...] = ()
    tau: tuple[Temperature, ...] = ()
    mask: tuple[MaskChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ablate or self.tau or self.mask)

    def check(self, config: TransformerConfig) -> None:
        """Compare all names with a model.

        Raises:
            NoSuchPart: there is no such kind, layer or head, a temperature is not positive, or only
                decoder self-attention has a causal mask that could be lifted.
        """
        for head in self.ablate:
            check_head(config, head.kind, head.layer, head.head)
        changes: tuple[Temperature | MaskChange, ...] = (*self.tau, *self.mask)
        for change in changes:
            check_head(config, change.kind, change.layer or 0, 0)
        for temperature in self.tau:
            if not 0.01 <= temperature.tau <= 100:
                raise NoSuchPart(f"τ is {temperature.tau}, expected 0.01 to 100: 1 is the model's own")
        for mask in self.mask:
            if not mask.causal and mask.kind != "dec_self":
                raise NoSuchPart(f"{mask.kind} has no causal mask: only dec_self has one that can be lifted")
            if any(position < 0 for position in mask.hide):
                raise NoSuchPart(f"positions to hide count from 0, got {min(mask.hide)}")

    @contextmanager
    def applied(self, model: Transformer) -> Iterator[None]:
        """Change `model` for the length of a `with`, and leave it as it was."""
        with ExitStack() as stack:
            for head in self.ablate:
                attention = attention_of(model, head.kind, head.layer)
                hook = _silence(head.head, attention.w_o.in_features // attention.num_heads)
                stack.callback(attention.w_o.register_forward_pre_hook(hook).remove)
            for temperature in self.tau:
                for attention in _attentions(model, temperature.kind, temperature.layer):
                    stack.callback(setattr, attention, "temperature", attention.temperature)
                    attention.temperature = temperature.tau
            for mask in self.mask:
                for attention in _attentions(model, mask.kind, mask.layer):
                    stack.callback(attention.register_forward_pre_hook(_masked(mask)).remove)
            yield


def num_layers(config: TransformerConfig, kind: AttentionKind) -> int:
    """How many layers have attention of this kind."""
    return config.num_encoder_layers if kind == "enc_self" else config.num_decoder_layers


def check_head(config: TransformerConfig, kind: str, layer: int, head: int) -> None:
    """Raise NoSuchPart if the model has no such head."""
    if kind not in get_args(AttentionKind):
        raise NoSuchPart(f"kind is {kind!r}, but must be one of {', '.join(get_args(AttentionKind))}")
    layers = num_layers(config, cast(AttentionKind, kind))
    for name, value, count in (("layer", layer, layers), ("head", head, config.num_heads)):
        if not count:
            raise NoSuchPart(f"the model has no {kind} attention: that stack has no layers")
        if not 0 <= value < count:
            raise NoSuchPart(f"there is no {name} {value}: {kind} has {name}s 0 to {count - 1}")


def attention_of(model: Transformer, kind: AttentionKind, layer: int) -> MultiHeadAttention:
    """The module."""
    stack = model.encoder if kind == "enc_self" else model.decoder
    name = "cross_attention" if kind == "cross" else "self_attention"
    return cast(MultiHeadAttention, getattr(stack.layers[layer], name))


def _attentions(model: Transformer, kind: AttentionKind, layer: int | None) -> list[MultiHeadAttention]:
    layers = range(num_layers(model.config, kind)) if layer is None else [layer]
    return [attention_of(model, kind, number) for number in layers]


def _silence(head: int, d_v: int) -> Any:
    """A hook before `w_o`: this head's columns become zero."""

    def hook(module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:  # noqa: ARG001 - torch's signature
        joined = args[0].clone()
        joined[..., head * d_v : (head + 1) * d_v] = 0
        return (joined,)

    return hook


def _masked(change: MaskChange) -> Any:
    """A hook before an attention: another `visible`."""

    def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001
        queries, (keys, values), *rest = args
        visible = rest[0] if rest else None
        if visible is None or not change.causal:
            visible = torch.ones(1, 1, 1, keys.shape[2], dtype=torch.bool, device=keys.device)
        hidden = [position for position in change.hide if position < keys.shape[2]]
        if hidden:
            visible = visible.clone()
            visible[..., hidden] = False
        return (queries, type(args[1])(keys, values), visible, *rest[1:])

    return hook
