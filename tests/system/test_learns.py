"""It learns: small tasks whose answer is known, end to end through the real loop."""

from __future__ import annotations

import random

import pytest
import torch

from transduce.batch.collate import SpecialIds, collate
from transduce.batch.config import BatchConfig
from transduce.batch.order import BatchOrder, Position
from transduce.batch.store import TokenStore, build_store
from transduce.model import Transformer, TransformerConfig
from transduce.search.config import SearchConfig
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizer, set_rate
from transduce.train.schedule import learning_rate
from transduce.train.step import train_step
from transduce.translate.torch_engine import TorchEngine

IDS = SpecialIds(0, 2, 3)
TASKS = {"copy": list, "reverse": lambda x: x[::-1], "sort": sorted}


def examples(task, count, seed):
    rng = random.Random(seed)
    sources = [[rng.randrange(4, 20) for _ in range(rng.randint(1, 10))] for _ in range(count)]
    return [(source, TASKS[task](source)) for source in sources]


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("task", TASKS)
def test_small_tasks_are_learnt(tmp_path, task, norm):
    torch.manual_seed(0)
    build_store(tmp_path / "s", examples(task, 4000, 0), vocab_size=20, fingerprint="")
    store = TokenStore(tmp_path / "s")
    model = Transformer(
        TransformerConfig(
            source_vocab_size=20, target_vocab_size=20, d_model=64, d_ff=128, num_heads=4,
            num_encoder_layers=2, num_decoder_layers=2, dropout=0.0, norm=norm,
        )
    )  # fmt: skip
    config = TrainConfig(max_steps=700, learning_rate=3e-3, warmup_steps=100, schedule="linear")
    optimizer = make_optimizer(model, config)
    order = BatchOrder(store, BatchConfig(batch_tokens=1024, max_len=16), seed=1)
    walk = order.walk(Position())
    for step in range(1, config.max_steps + 1):
        set_rate(optimizer, learning_rate(step, (step - 1) / config.max_steps, config, 64))
        train_step(model, optimizer, [collate(store, next(walk)[0], IDS)], config, step=step)
    held_out = examples(task, 200, 99)
    found = TorchEngine(model.eval(), IDS).search([s for s, _ in held_out], SearchConfig(beam_size=2))
    right = sum(list(best[0].ids) == list(target) for best, (_, target) in zip(found, held_out, strict=True))
    assert right >= 198, f"{task}, {norm}-norm: {right} of 200 right"
