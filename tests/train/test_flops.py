"""Model FLOPs equal what torch counts where nothing is padded; padding changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from transduce.batch.collate import Batch, SpecialIds, collate
from transduce.batch.store import TokenStore, build_store
from transduce.model import Transformer, TransformerConfig
from transduce.model.projection import plain_products
from transduce.train.flops import Work, forward_flops, training_flops, work_of

BATCH, SOURCE_LEN, TARGET_LEN = 3, 7, 5
VARIANTS = [
    {"norm": "post", "tie": "all"},
    {"norm": "pre", "tie": "all"},
    {"norm": "post", "tie": "none", "source_vocab_size": 40},
    {"norm": "pre", "tie": "target", "source_vocab_size": 40, "activation": "swiglu"},
    {"num_encoder_layers": 3, "num_decoder_layers": 1, "d_k": 4, "d_v": 6, "bias": False},
]


def make_model(**changes):
    sizes = {
        "source_vocab_size": 30, "target_vocab_size": 30, "d_model": 16, "d_ff": 24, "num_heads": 2,
        "num_encoder_layers": 1, "num_decoder_layers": 2, "dropout": 0.0,
    }  # fmt: skip
    model = Transformer(TransformerConfig(**(sizes | changes)))
    for module in model.modules():
        if hasattr(module, "observer"):
            module.observer = lambda record: None  # torch does not count its fused CPU kernel
    return model


def unpadded():
    generator = torch.Generator().manual_seed(0)
    source, target, labels = (
        torch.randint(4, 30, (BATCH, length), generator=generator)
        for length in (SOURCE_LEN, TARGET_LEN, TARGET_LEN)
    )
    return Batch(source, target, labels, source.numel(), labels.numel(), torch.arange(BATCH).numpy())


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_without_padding_it_is_what_torch_counts(variant):
    model, batch = make_model(**variant), unpadded()
    work = work_of([batch], pad_id=0)
    with plain_products(), FlopCounterMode(display=False) as forward:  # torch does not count oneDNN's either
        logits = model(batch.source, batch.target)
    assert forward_flops(model.config, work) == forward.get_total_flops()
    with plain_products(), FlopCounterMode(display=False) as backward:
        F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten()).backward()
    assert training_flops(model.config, work) == forward.get_total_flops() + backward.get_total_flops()


def test_work_is_counted_by_hand():
    assert work_of([unpadded(), unpadded()], pad_id=0) == Work(
        num_source_tokens=2 * 21,
        num_target_tokens=2 * 15,
        num_source_pairs=2 * 3 * 49,
        num_target_pairs=2 * 3 * 25,
        num_cross_pairs=2 * 3 * 35,
    )


def test_padding_counts_nowhere(tmp_path):
    """A padded batch of unequal pairs is as much work as each pair by itself."""
    rows = [([5] * 3, [6] * 8), ([5] * 9, [6] * 2), ([5], [6])]
    build_store(tmp_path / "s", rows, vocab_size=30, fingerprint="")
    store, ids = TokenStore(tmp_path / "s"), SpecialIds(0, 2, 3)
    together = [collate(store, torch.arange(3).numpy(), ids)]
    alone = [collate(store, torch.tensor([row]).numpy(), ids) for row in range(3)]
    assert work_of(together, 0) == work_of(alone, 0)
    assert work_of(together, 0).num_target_tokens == together[0].num_target_tokens
    assert work_of(together, 0).num_source_tokens == together[0].num_source_tokens
