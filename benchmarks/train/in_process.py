"""One training loop of this process for some seconds: ours, a plain one, and other people's models in it.

    python benchmarks/train/in_process.py --system transduce --shape small --work DIR --seconds 45

All of them take the same batches in the same order (`BatchOrder`, `collate`), Adam, a gradient clipped
to length 1, dropout 0.1 on embeddings and sub-layer outputs, and nothing dropped inside them. Prints one
JSON line.

    transduce            what `transduce train` runs: `train_step`, `make_optimizer`, `keep_freed_memory`
    plain                plain.py: the same maths, as a newcomer would write it
    nn.Transformer       torch's own stacks, in the same plain loop
    transformers-eager   MarianMTModel, attention written out, in the same plain loop
    transformers-sdpa    MarianMTModel, torch's fused attention, in the same plain loop
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path

import numpy as np
import torch
from corpus import EOS_ID, PAD_ID, START_ID, VOCAB_SIZE
from numpy.typing import NDArray
from plain import PlainTransformer, plain_loss
from shapes import SHAPES, Shape, model_config
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.batch.collate import Batch, SpecialIds, collate
from transduce.batch.config import BatchConfig
from transduce.batch.order import BatchOrder, Position
from transduce.batch.store import TokenStore
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.memory import keep_freed_memory
from transduce.train.optimizer import make_optimizer, set_rate
from transduce.train.parallel import Workers, choose_num_workers
from transduce.train.step import train_step

__all__ = ["IN_PROCESS", "Rows", "Text", "Update", "plain_update", "transduce_model", "transduce_update"]

Rows = NDArray[np.int64]
"""Which pairs of the store make a batch."""
Update = Callable[[Rows], float]
"""One update of the weights; the mean smoothed loss of the batch."""

BATCH_TOKENS = 4096
LEARNING_RATE = 3e-4
_BETAS, _EPSILON, _CLIP_NORM = (0.9, 0.98), 1e-9, 1.0


class Text:
    """The prepared pairs, in batches of at most 4,096 tokens a side."""

    def __init__(self, store: Path) -> None:
        self._store = TokenStore(store)
        self._lengths = self._store.lengths("source") + self._store.lengths("target") + 2  # end symbols

    def batches(self, seed: int) -> Iterator[Rows]:
        """Batches without end; which ones depends on the seed alone."""
        order = BatchOrder(self._store, BatchConfig(batch_tokens=BATCH_TOKENS), seed)
        return (rows for rows, _ in order.walk(Position()))

    def collate(self, rows: Rows) -> Batch:
        """Padded tensors."""
        return collate(self._store, rows, SpecialIds(PAD_ID, START_ID, EOS_ID))

    def num_tokens(self, rows: Rows) -> int:
        """Real source and target tokens."""
        return int(self._lengths[rows].sum())


# --- ours ---------------------------------------------------------------------------------------


def transduce_model(shape: Shape, dropout: float) -> Transformer:
    """Ours in `shape`, as the paper wires it."""
    return Transformer(model_config(shape, VOCAB_SIZE, PAD_ID, dropout))


def transduce_update(model: Transformer, text: Text) -> Update:
    """What `transduce train` does with a batch. The one place that knows how our step is called."""
    config = TrainConfig(
        adam_beta_1=_BETAS[0],
        adam_beta_2=_BETAS[1],
        adam_epsilon=_EPSILON,
        clip_norm=_CLIP_NORM,
        label_smoothing=0.1,
    )
    keep_freed_memory()
    optimizer = make_optimizer(model, config)
    set_rate(optimizer, LEARNING_RATE)
    workers = Workers(choose_num_workers(config.workers, BATCH_TOKENS, torch.device("cpu")))
    steps = count(1)
    model.train()

    def update(rows: Rows) -> float:
        parts = [text.collate(part) for part in np.array_split(rows, min(workers.num_workers, len(rows)))]
        result = train_step(model, optimizer, parts, config, step=next(steps), workers=workers)
        return result.loss / result.num_target_tokens

    return update


# --- everybody else: full logits, cross_entropy, torch's Adam -----------------------------------


def plain_update(model: nn.Module, logits: Callable[[Batch], Tensor], text: Text) -> Update:
    """The loop that everybody writes first."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=_BETAS, eps=_EPSILON)
    model.train()

    def update(rows: Rows) -> float:
        batch = text.collate(rows)
        optimizer.zero_grad()
        loss = plain_loss(logits(batch), batch.labels, PAD_ID)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        optimizer.step()
        return loss.item()

    return update


def _plain(shape: Shape, text: Text) -> Update:
    model = PlainTransformer(shape, VOCAB_SIZE, PAD_ID, dropout=0.1)
    return plain_update(model, lambda batch: model(batch.source, batch.target), text)


class _TorchTransformer(PlainTransformer):
    """`nn.Transformer` between plain embeddings and a plain output."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(replace(shape, num_layers=0), VOCAB_SIZE, PAD_ID, dropout=0.1)
        layers = shape.num_layers
        self.stacks = nn.Transformer(
            shape.d_model, shape.num_heads, layers, layers, shape.d_ff, dropout=0.1, batch_first=True
        )
        for module in self.stacks.modules():  # nothing dropped inside sub-layers, as everywhere
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout = nn.Identity()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = torch.zeros(source.shape).masked_fill(source == self.pad_id, -math.inf)
        states = self.stacks(
            self._embed(source),
            self._embed(target),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.shape[1]),
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(states, self.source_embedding.weight)


def _torch_transformer(shape: Shape, text: Text) -> Update:
    model = _TorchTransformer(shape)
    return plain_update(model, lambda batch: model(batch.source, batch.target), text)


def _marian(shape: Shape, text: Text, attention: str) -> Update:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCAB_SIZE,
        d_model=shape.d_model,
        encoder_layers=shape.num_layers,
        decoder_layers=shape.num_layers,
        encoder_attention_heads=shape.num_heads,
        decoder_attention_heads=shape.num_heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD_ID,
        bos_token_id=START_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=START_ID,
        forced_eos_token_id=None,
        use_cache=False,
        attn_implementation=attention,
    )
    model = MarianMTModel(config)

    def logits(batch: Batch) -> Tensor:
        mask = (batch.source != PAD_ID).long()
        out: Tensor = model(
            input_ids=batch.source, attention_mask=mask, decoder_input_ids=batch.target
        ).logits
        return out

    return plain_update(model, logits, text)


def _transduce(shape: Shape, text: Text) -> Update:
    return transduce_update(transduce_model(shape, dropout=0.1), text)


IN_PROCESS: dict[str, tuple[Callable[[Shape, Text], Update], str]] = {
    "transduce": (_transduce, "transduce"),
    "plain": (_plain, "torch"),
    "nn.Transformer": (_torch_transformer, "torch"),
    "transformers-eager": (partial(_marian, attention="eager"), "transformers"),
    "transformers-sdpa": (partial(_marian, attention="sdpa"), "transformers"),
}
"""By system: how to make its update, and the distribution whose version counts."""


# --- measuring ----------------------------------------------------------------------------------


def measure(update: Update, text: Text, seed: int, seconds: float, warm_up: int) -> dict[str, float]:
    """Train for `seconds` after `warm_up` updates, making batches included."""
    feed = text.batches(seed)
    for _ in range(warm_up):
        update(next(feed))
    losses, num_tokens, started = [], 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        rows = next(feed)
        losses.append(update(rows))
        num_tokens += text.num_tokens(rows)
    last = losses[-5:]
    return {"tok_s": num_tokens / elapsed, "updates": len(losses), "loss": sum(last) / len(last)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", choices=IN_PROCESS, required=True)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--work", type=Path, required=True, help="directory that throughput.py prepared")
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--warm-up", type=int, default=3, help="updates before the clock starts")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    make, distribution = IN_PROCESS[options.system]
    text = Text(options.work / "store")
    update = make(SHAPES[options.shape], text)
    result = measure(update, text, options.seed, options.seconds, options.warm_up)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    versions = {"version": version(distribution), "torch": torch.__version__}
    print(json.dumps({**result, "peak_mb": peak_mb, **versions}))


if __name__ == "__main__":
    main()
