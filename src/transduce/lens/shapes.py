"""Every tensor of one real pass, in the order in which it was computed.

In:  a model, source ids, target ids. Out: `Walk`: name, shape in letters and in numbers, what each axis
     means, figures, formula, parameters, and the lines of code that made it.
Does not know: text.

Hooks write down what the modules are given and give; nothing is computed a second time but the softmax
over the vocabulary, and the heads' product, which the model does not hand out.

    B sentences   S source tokens   T target tokens   d d_model   h heads   d_k, d_v   f d_ff   V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.lens.formulas import FORMULAS
from transduce.lens.source_code import SourceLines, source_of
from transduce.model.attention import AttentionRecord, MultiHeadAttention, explicit_attention
from transduce.model.embedding import Embedding, OutputProjection
from transduce.model.feed_forward import FeedForward, GatedFeedForward
from transduce.model.norm import AddNorm
from transduce.model.position import LearnedPosition, SinusoidalPosition
from transduce.model.transformer import Transformer
from transduce.search.scores import log_probabilities

__all__ = ["AXES", "Entry", "Walk", "Walker", "walk_shapes"]

_SAMPLE = 8

AXES = {
    "B": "sentences at once",
    "S": "source tokens, end symbol included",
    "T": "target tokens that the decoder reads, start symbol included",
    "d": "d_model: width of every vector that travels through the stacks",
    "h": "heads",
    "d_k": "columns of one head's queries and keys",
    "d_v": "columns of one head's values",
    "h·d_k": "all heads' queries, or keys, side by side",
    "h·d_v": "all heads' values side by side",
    "f": "d_ff: inner width of the feed-forward layer",
    "V": "vocabulary of the target",
    "V_s": "vocabulary of the source",
    "1": "the same for all",
}
"""What the letters of `Entry.symbolic` stand for."""


@dataclass(frozen=True)
class Entry:
    """One tensor on the way."""

    n: int
    name: str
    """As the paper would say it: `decoder.layers.0.cross_attention.scores`."""
    stack: str
    """`encoder`, `decoder` or `output`."""
    layer: int | None
    part: str
    """`embedding`, `position`, `self_attention`, `cross_attention`, `feed_forward`, `norm` or `output`."""
    title: str
    symbolic: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    min: float
    mean: float
    max: float
    sample: tuple[float, ...]
    """The first values, in row-major order."""
    formula: str
    """A key of `FORMULAS`."""
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    """Name and shape of the weights that made it."""
    component: str
    """The class or function that made it."""
    source: SourceLines

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        flat = asdict(self)
        return {
            **flat,
            "axes": [AXES[letter] for letter in self.symbolic],
            "formula_text": FORMULAS[self.formula].text,
            "parameters": [{"name": name, "shape": shape} for name, shape in self.parameters],
            "num_parameters": sum(torch.Size(shape).numel() for _, shape in self.parameters),
            "source": self.source.to_dict(),
        }


@dataclass(frozen=True)
class Walk:
    """The whole pass."""

    sizes: dict[str, int]
    """What each letter is here."""
    entries: tuple[Entry, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "symbols": {
                letter: {"size": size, "meaning": AXES[letter]} for letter, size in self.sizes.items()
            },
            "walk": [entry.to_dict() for entry in self.entries],
        }


def walk_shapes(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Walk:
    """Run the model once, and write down what it computes.

    Args:
        model: in evaluation mode; with whatever hooks are wanted.
        source: ids with the end symbol.
        target: ids with the start symbol.
    """
    device = model.source_embedding.weight.device
    walk = Walker(model, len(source), len(target))
    with torch.inference_mode(), ExitStack() as stack:
        walk.watch(stack)
        source_ids = torch.tensor([list(source)], device=device)
        target_ids = torch.tensor([list(target)], device=device)
        memory = model.encode(source_ids)
        walk.side = "decoder"
        logits = model.output(model.decode(target_ids, memory))
        walk.add("probabilities", logits.softmax(-1), "B T V", "softmax", log_probabilities)
    return Walk(walk.sizes, tuple(walk.entries))


class Walker:
    """Collects entries while the model runs."""

    def __init__(self, model: Transformer, src_len: int, tgt_len: int) -> None:
        config = model.config
        self._model = model
        self._names = {module: name for name, module in model.named_modules()}
        self._parameters = {id(p): name for name, p in model.named_parameters()}
        self.side = "encoder"
        self.entries: list[Entry] = []
        h = config.num_heads
        self.sizes = {
            "B": 1, "S": src_len, "T": tgt_len, "d": config.d_model, "h": h,
            "d_k": config.key_width, "d_v": config.value_width,
            "h·d_k": h * config.key_width, "h·d_v": h * config.value_width,
            "f": config.d_ff, "V": config.target_vocab_size,
        }  # fmt: skip

    def add(
        self,
        name: str,
        value: Tensor,
        symbolic: str,
        formula: str,
        component: Any,
        parameters: Sequence[Tensor | None] = (),
    ) -> None:
        """Write one tensor down."""
        symbols = tuple(symbolic.split())
        assert len(symbols) == value.dim(), f"{name}: {symbolic} for {tuple(value.shape)}"
        numbers = value.double()
        stack, layer, part = _place(name)
        self.entries.append(
            Entry(
                n=len(self.entries),
                name=name,
                stack=stack,
                layer=layer,
                part=part,
                title=name.rsplit(".", 1)[-1],
                symbolic=symbols,
                shape=tuple(value.shape),
                dtype=str(value.dtype).removeprefix("torch."),
                min=_short(numbers.min()),
                mean=_short(numbers.mean()),
                max=_short(numbers.max()),
                sample=tuple(_short(number) for number in numbers.flatten()[:_SAMPLE]),
                formula=formula,
                parameters=tuple(
                    (self._parameters[id(p)], tuple(p.shape)) for p in parameters if p is not None
                ),
                component=component.__name__,
                source=source_of(component),
            )
        )

    @property
    def _length(self) -> str:
        """The letter of the side that is running."""
        return "S" if self.side == "encoder" else "T"

    def watch(self, stack: ExitStack) -> None:
        """Hook everything; the hooks go with `stack`."""
        for module in self._names:
            before, after = None, None
            if isinstance(module, Embedding):
                after = self._embedded
            elif isinstance(module, (SinusoidalPosition, LearnedPosition)):
                after = self._positioned
            elif isinstance(module, MultiHeadAttention):
                self._watch_attention(stack, module)
            elif isinstance(module, (FeedForward, GatedFeedForward)):
                self._watch_feed_forward(stack, module)
            elif isinstance(module, AddNorm):
                self._watch_add_norm(stack, module)
            elif isinstance(module, OutputProjection):
                after = self._projected
            if before is not None:
                stack.callback(module.register_forward_pre_hook(before).remove)
            if after is not None:
                stack.callback(module.register_forward_hook(after).remove)
        for side in ("encoder", "decoder"):
            norm = getattr(self._model, side).norm
            if isinstance(norm, nn.LayerNorm):
                stack.callback(norm.register_forward_hook(self._normalised).remove)

    def _embedded(self, module: nn.Module, args: tuple[Tensor], out: Tensor) -> None:
        embedding, prefix = cast(Embedding, module), f"{_side(self.side)}_embedding"
        ids, weight = args[0], embedding.weight
        self.add(f"{prefix}.ids", ids, f"B {self._length}", "ids", Embedding)
        rows = F.embedding(ids, weight, embedding.pad_id)
        self.add(f"{prefix}.rows", rows, f"B {self._length} d", "lookup", Embedding, [weight])
        self.add(f"{prefix}.scaled", out, f"B {self._length} d", "embedding", Embedding, [weight])

    def _positioned(self, module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        prefix, length = f"{_side(self.side)}_position", args[0].shape[1]
        if isinstance(module, LearnedPosition):
            table = module.weight[module.offset : module.offset + length]
            self.add(
                f"{prefix}.table",
                table,
                f"{self._length} d",
                "learned_position",
                type(module),
                [module.weight],
            )
        else:
            table = cast(SinusoidalPosition, module).table[:length]
            self.add(f"{prefix}.table", table, f"{self._length} d", "position_table", type(module))
        self.add(f"{prefix}.sum", out, f"B {self._length} d", "position", type(module))

    def _watch_attention(self, stack: ExitStack, attention: MultiHeadAttention) -> None:
        name = self._names[attention]
        keys_of = "S" if name.endswith("cross_attention") or name.startswith("encoder") else "T"
        queries_of = "S" if name.startswith("encoder") else "T"

        def project(part: str, letter: str, symbol: str, formula: str) -> None:
            linear = cast(nn.Linear, getattr(attention, part))

            def hook(module: nn.Module, args: tuple[Tensor], out: Tensor) -> None:  # noqa: ARG001
                weights = [linear.weight, linear.bias]
                self.add(f"{name}.{part}", out, f"B {letter} {symbol}", formula, MultiHeadAttention, weights)

            stack.callback(linear.register_forward_hook(hook).remove)

        project("w_q", queries_of, "h·d_k", "queries")
        project("w_k", keys_of, "h·d_k", "keys")
        project("w_v", keys_of, "h·d_v", "values")
        visible: list[Tensor | None] = []

        def see(module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: ARG001
            visible.append(args[2] if len(args) > 2 else None)

        def attended(record: AttentionRecord) -> None:
            self._attended(name, queries_of, keys_of, record, visible.pop(), attention)

        def joined(module: nn.Module, args: tuple[Tensor], out: Tensor) -> None:  # noqa: ARG001
            w_o = attention.w_o
            self.add(f"{name}.concat", args[0], f"B {queries_of} h·d_v", "concat", MultiHeadAttention)
            self.add(
                f"{name}.output",
                out,
                f"B {queries_of} d",
                "attention_output",
                MultiHeadAttention,
                [w_o.weight, w_o.bias],
            )

        stack.callback(attention.register_forward_pre_hook(see).remove)
        stack.callback(attention.w_o.register_forward_hook(joined).remove)
        stack.callback(setattr, attention, "observer", attention.observer)
        attention.observer = attended

    def _attended(
        self,
        name: str,
        queries_of: str,
        keys_of: str,
        record: AttentionRecord,
        visible: Tensor | None,
        attention: MultiHeadAttention,
    ) -> None:
        """The heads: split, compared, masked, shared out, mixed."""
        split = "split" if attention.rotary is None else "rotary"
        own = MultiHeadAttention if attention.rotary is None else type(attention.rotary)
        self.add(f"{name}.queries", record.queries, f"B h {queries_of} d_k", split, own)
        self.add(f"{name}.keys", record.keys, f"B h {keys_of} d_k", split, own)
        self.add(f"{name}.values", record.values, f"B h {keys_of} d_v", "split", MultiHeadAttention)
        square = f"B h {queries_of} {keys_of}"
        self.add(f"{name}.scores", record.scores, square, "scores", explicit_attention)
        if visible is not None:
            rows = queries_of if visible.shape[2] == self.sizes[queries_of] else "1"
            self.add(f"{name}.mask", visible, f"1 1 {rows} {keys_of}", "mask", explicit_attention)
        self.add(f"{name}.weights", record.weights, square, "weights", explicit_attention)
        mixed = record.weights @ record.values
        self.add(f"{name}.heads", mixed, f"B h {queries_of} d_v", "heads", explicit_attention)

    def _watch_feed_forward(self, stack: ExitStack, module: FeedForward | GatedFeedForward) -> None:
        name, kind = self._names[module], type(module)
        gated = isinstance(module, GatedFeedForward)
        letter = "S" if name.startswith("encoder") else "T"

        def widened(part: str) -> Any:
            def hook(linear: nn.Linear, args: tuple[Tensor], out: Tensor) -> None:  # noqa: ARG001
                self.add(f"{name}.{part}", out, f"B {letter} f", "linear", kind, [linear.weight, linear.bias])

            return hook

        def narrowed(linear: nn.Linear, args: tuple[Tensor], out: Tensor) -> None:
            self.add(f"{name}.inner", args[0], f"B {letter} f", "gated_inner" if gated else "inner", kind)
            self.add(
                f"{name}.output", out, f"B {letter} d", "feed_forward", kind, [linear.weight, linear.bias]
            )

        for part in ("w_g", "w_1") if gated else ("w_1",):
            stack.callback(getattr(module, part).register_forward_hook(widened(part)).remove)
        stack.callback(module.w_2.register_forward_hook(narrowed).remove)

    def _watch_add_norm(self, stack: ExitStack, module: AddNorm) -> None:
        name, norm = self._names[module], module.norm
        letter = "S" if name.startswith("encoder") else "T"

        def normalised(layer_norm: nn.Module, args: tuple[Tensor], out: Tensor) -> None:  # noqa: ARG001
            if not module.pre:
                self.add(f"{name}.residual", args[0], f"B {letter} d", "residual", AddNorm)
            self.add(f"{name}.norm", out, f"B {letter} d", "norm", AddNorm, [norm.weight, norm.bias])

        def added(add_norm: nn.Module, args: tuple[Any, ...], out: Tensor) -> None:  # noqa: ARG001
            self.add(f"{name}.residual", out, f"B {letter} d", "residual", AddNorm)

        stack.callback(norm.register_forward_hook(normalised).remove)
        if module.pre:
            stack.callback(module.register_forward_hook(added).remove)

    def _normalised(self, module: nn.Module, args: tuple[Tensor], out: Tensor) -> None:  # noqa: ARG002
        norm, name = cast(nn.LayerNorm, module), self._names[module]
        letter = "S" if name.startswith("encoder") else "T"
        self.add(
            name,
            out,
            f"B {letter} d",
            "norm",
            type(getattr(self._model, name.split(".")[0])),
            [norm.weight, norm.bias],
        )

    def _projected(self, module: nn.Module, args: tuple[Tensor], out: Tensor) -> None:  # noqa: ARG002
        output = cast(OutputProjection, module)
        self.add("output.logits", out, "B T V", "logits", OutputProjection, [output.weight, output.bias])


def _short(number: Tensor) -> float:
    """The shortest decimal that is the same float32."""
    return float(str(np.float32(number.item())))


def _side(stack: str) -> str:
    return "source" if stack == "encoder" else "target"


def _place(name: str) -> tuple[str, int | None, str]:
    """Stack, layer and part, from a name."""
    parts = name.split(".")
    if parts[0] in ("output", "probabilities"):
        return "output", None, "output"
    stack = {"source": "encoder", "target": "decoder"}.get(parts[0].split("_")[0], parts[0])
    if parts[0].endswith(("_embedding", "_position")):
        return stack, None, parts[0].split("_", 1)[1]
    if len(parts) < 4:
        return stack, None, "norm"
    return stack, int(parts[2]), parts[3].removesuffix("_add_norm")
