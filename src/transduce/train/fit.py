"""Which parts of a batch fit into memory: estimated, and measured where the estimate leaves doubt.

The worst update is made of the longest pairs there are. Its memory is estimated from the shapes; if
that is less than half of what there is, nothing is tried, and small runs start at once. Else a small
part is measured, which corrects the estimate; then the largest parts that seem to fit are really
computed, forwards and backwards, as many at once as there are workers; and so on down to one pair.
Weights, optimizer and random generators are as before afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

from transduce.batch.collate import Batch
from transduce.errors import RecipeError
from transduce.model.config import TransformerConfig
from transduce.model.transformer import Transformer
from transduce.train.config import Precision, TrainConfig
from transduce.train.memory import (
    format_bytes,
    free_bytes,
    is_out_of_memory,
    parse_size,
    peak_bytes_of,
    resident_bytes,
)
from transduce.train.parallel import Workers
from transduce.train.parts import Parts
from transduce.train.step import accumulate_gradients
from transduce.train.validate import cut_batches, validation_loss

__all__ = ["Budget", "Load", "estimated_bytes", "find_budget", "fit"]

_SHARE_OF_FREE = 0.8  # of free memory, the rest is for others
_SHARE_OF_BUDGET = 0.85  # the allocator's gaps, and shapes that were not tried, take the rest
_PLAINLY = 0.5  # of the room: an estimate below needs no trial
_TRIAL_LEN = 256  # tokens of the pairs that correct the estimate
_LEAST_SLOPE = 0.1  # of the estimate: less is noise
_FIXED = 100 << 20  # of a part: chunks of logits, their gradients, libraries' own


@dataclass(frozen=True)
class Budget:
    """Memory that training may take, and what it has taken already; in bytes."""

    total: int
    taken: int

    @property
    def most(self) -> int:
        """What training plans to have at most, the allocator's share set aside."""
        return int(_SHARE_OF_BUDGET * self.total)

    @property
    def room(self) -> int:
        """What of that is left for updates."""
        return self.most - self.taken


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a run computes, as far as memory goes."""

    longest: int
    """Tokens of the longest pair, on its larger side."""
    batch_tokens: int
    """Cells of a batch, likewise."""
    num_batches: int
    """Most batches of one update."""
    validation: Sequence[Batch] = ()
    precision: Precision = "float32"


def find_budget(memory: str, device: torch.device) -> Budget | None:
    """The memory named in words, or a share of what is free; None where the system does not tell."""
    free: int | None
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        taken = torch.cuda.memory_allocated(device)
        free += torch.cuda.memory_reserved(device) - taken
    else:
        free, taken = free_bytes(), resident_bytes()
        if not taken:
            return None
    if memory:
        return Budget(parse_size(memory), taken)
    return None if free is None else Budget(taken + int(_SHARE_OF_FREE * free), taken)


def fit(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    load: Load,
    wanted: Parts,
    budget: Budget | None,
) -> tuple[Parts, str]:
    """The largest parts, not larger than wanted, with which training stays within its budget.

    Args:
        model: in training mode; its gradients are forgotten.
        optimizer: for the size of its state.
        config: how to train.
        load: the longest pair and the batches.
        wanted: parts without a limit, or those that a run began with.
        budget: None for no limit.

    Returns:
        The parts, and a sentence about them (empty without a budget).

    Raises:
        RecipeError: not even one pair of the longest fits.
    """
    if budget is None:
        return wanted, ""
    fitter = _Fitter(model, optimizer, config, load)
    if fitter.needs(wanted) <= _PLAINLY * budget.room:
        return wanted, f"memory: {format_bytes(budget.total)} budget, no need to cut batches for it"
    fitter.correct()
    for parts in _smaller_and_smaller(wanted, load):
        if fitter.needs(parts) <= budget.room and fitter.measure(parts) <= budget.room:
            one = format_bytes(fitter.needs(replace(parts, part_tokens=load.longest, num_workers=1)))
            return parts, (
                f"memory: {format_bytes(budget.total)} budget, parts of {parts.part_tokens:,} tokens, "
                f"{parts.num_workers} at once; the longest pair ({load.longest:,} tokens) needs about {one}"
            )
    raise RecipeError(_too_small(fitter, budget, wanted))


class _Fitter:
    """Estimates what updates need, and learns from what it measures."""

    def __init__(
        self, model: Transformer, optimizer: torch.optim.Optimizer, config: TrainConfig, load: Load
    ) -> None:
        self._model, self._config, self._load = model, config, load
        self.longest = load.longest
        self._slope = 1.0
        """Measured over estimated, of what grows with a part."""
        self._weights = sum(p.numel() * p.element_size() for p in model.parameters())
        self._fixed = self._weights + _FIXED
        """Of a part of any size: its gradients first of all."""
        state = [v for values in optimizer.state.values() for v in values.values() if torch.is_tensor(v)]
        # Adam's two moments come with the first update. (Muon has one.)
        self._coming = max(0, 2 * self._weights - sum(v.numel() * v.element_size() for v in state))
        copies = 2 if config.average == "ema" else 1
        # At a checkpoint weights, averages and moments stand in memory once more, as bytes.
        self._saving = (2 + copies) * self._weights

    def needs(self, parts: Parts, longest: int | None = None) -> int:
        """Bytes above those taken now, for the worst update and for the checkpoint after it."""
        rows, at_once = _worst(parts, self._load, longest)
        grows = self._slope * self._grows(rows, longest or self._load.longest)
        return self._with_rest(int(at_once * (self._fixed + grows)))

    def correct(self) -> None:
        """Compare the estimate with a short pair and a longer one; the first of all warms up."""
        longer = min(self._load.longest, _TRIAL_LEN)
        short = max(1, longer // 4)
        _, first, second = (self._computed(1, length, 1) for length in (short, short, longer))
        grows = self._grows(1, short), self._grows(1, longer)
        if first and second and grows[0] < grows[1]:  # else nobody knows, and the estimate stands
            self._slope = max(_LEAST_SLOPE, (second - first) / (grows[1] - grows[0]))
            self._fixed = max(0, int(first - self._slope * grows[0]))

    def measure(self, parts: Parts) -> int:
        """As `needs`, but really computed, the validation's loss too."""
        rows, at_once = _worst(parts, self._load)
        needed = self._computed(rows, self._load.longest, at_once)
        if not needed:
            return self.needs(parts)
        grows = at_once * self._grows(rows, self._load.longest)
        self._slope = max(_LEAST_SLOPE, (min(needed, 16 * grows) - at_once * self._fixed) / grows)
        if self._load.validation:
            pieces = cut_batches(self._load.validation, parts.part_tokens, self._model.config.pad_id)
            largest = max(pieces, key=lambda batch: batch.num_cells)
            self._model.eval()
            validated = self._tried(lambda: validation_loss(self._model, [largest], 0.0))
            self._model.train()
            needed = max(needed, validated)
        return self._with_rest(needed)

    def _with_rest(self, needed: int) -> int:
        """The update's gradient is still there at the checkpoint, and at the next update."""
        return self._coming + self._weights + max(needed, self._saving)

    def _computed(self, rows: int, length: int, at_once: int) -> int:
        """Bytes that the gradients of such parts took; 0 where the system does not tell."""
        ids = torch.ones(rows, length, dtype=torch.int64, device=self._model.source_embedding.weight.device)
        ids = ids + (self._model.config.pad_id == 1)  # any id that is not padding
        count = rows * length
        batch = Batch(ids, ids, ids, count, count, np.zeros(rows, np.int64))

        def update() -> None:
            with Workers(at_once) as workers, _forgotten(self._model):
                smoothing, r_drop = self._config.label_smoothing, self._config.r_drop
                accumulate_gradients(
                    self._model,
                    [batch] * at_once,
                    smoothing,
                    r_drop,
                    precision=self._load.precision,
                    workers=workers,
                )

        return self._tried(update)

    def _tried(self, work: Callable[[], object]) -> int:
        """Bytes that `work` took at most; far too many if they were not there, 0 if nobody knows."""
        device = self._model.source_embedding.weight.device
        try:
            if device.type != "cuda":
                return peak_bytes_of(work) or 0
            torch.cuda.reset_peak_memory_stats(device)
            before = torch.cuda.memory_allocated(device)
            work()
            return torch.cuda.max_memory_allocated(device) - before
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        return 1 << 60

    def _grows(self, rows: int, length: int) -> int:
        """The estimate of what grows with a part."""
        return estimated_bytes(self._model.config, (2 if self._config.r_drop else 1) * rows, length)


@contextmanager
def _forgotten(model: Transformer) -> Iterator[None]:
    """Leave no gradient behind, and a device's random numbers as they were."""
    devices = [model.source_embedding.weight.device] if model.source_embedding.weight.is_cuda else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        for parameter in model.parameters():
            parameter.grad = None


def estimated_bytes(config: TransformerConfig, rows: int, length: int) -> int:
    """What is kept between the way forward and the way back, for `rows` pairs of `length` tokens a side.

    Counted generously, in numbers a token: what each layer keeps, with dropout's masks; and, where
    attention's weights drop out and are therefore written down, what is kept of each of them.
    """
    inner = (6 if config.activation == "swiglu" else 3) * config.d_ff
    encoder = config.num_encoder_layers * (14 * config.d_model + inner)
    decoder = config.num_decoder_layers * (24 * config.d_model + inner)
    attentions = config.num_encoder_layers + 2 * config.num_decoder_layers
    weights = 7 * attentions * config.num_heads * length if config.attention_dropout else 0
    return 4 * rows * length * (encoder + decoder + weights + 8 * config.d_model)


def _worst(parts: Parts, load: Load, longest: int | None = None) -> tuple[int, int]:
    """Rows of the largest part of longest pairs, and how many such parts are computed at once."""
    longest = longest or load.longest
    in_batch = max(1, load.batch_tokens // longest)
    rows = max(1, min(-(-in_batch // parts.num_parts), parts.part_tokens // longest))
    return rows, max(1, min(parts.num_workers, load.num_batches * in_batch // rows))


def _smaller_and_smaller(wanted: Parts, load: Load) -> Iterator[Parts]:
    """As wanted; then with half the rows, and half again; then fewer at once."""
    yield wanted
    parts = wanted
    rows, _ = _worst(wanted, load)
    while rows > 1:
        rows //= 2
        parts = replace(wanted, part_tokens=rows * load.longest)
        yield parts
    while parts.num_workers > 1:
        parts = replace(parts, num_workers=parts.num_workers // 2)
        yield parts


def _too_small(fitter: _Fitter, budget: Budget, wanted: Parts) -> str:
    """What fits instead, in a sentence."""
    one = replace(wanted, part_tokens=1, num_workers=1)
    needed = fitter.needs(one)
    fits, too_long = 1, fitter.longest
    while too_long - fits > 1:  # `fits` fits or is 1, `too_long` does not
        middle = (fits + too_long) // 2
        fits, too_long = (middle, too_long) if fitter.needs(one, middle) <= budget.room else (fits, middle)
    raised = format_bytes(1.05 * (budget.taken + needed) / _SHARE_OF_BUDGET)
    remedy = f", or lower batch.max_len to {fits}" if fits > 1 else ""
    return (
        f"memory: training on the longest pair ({fitter.longest:,} tokens) needs about "
        f"{format_bytes(budget.taken + needed)}, which is too much for a budget of "
        f"{format_bytes(budget.total)}: raise --memory to {raised}{remedy}"
    )
