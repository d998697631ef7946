"""Every preset is what it says: the paper's sizes, and a model that takes a step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from transduce.batch.collate import SpecialIds, collate
from transduce.batch.store import TokenStore, build_store
from transduce.model import Transformer
from transduce.recipe import load_recipe, preset_names
from transduce.train.optimizer import make_optimizer, set_rate
from transduce.train.schedule import learning_rate
from transduce.train.step import train_step

PAPER_MILLIONS = {
    "base": 65, "big": 213,
    "table3-A1": 65, "table3-A2": 65, "table3-A3": 65, "table3-A4": 65,
    "table3-B1": 58, "table3-B2": 60,
    "table3-C1": 36, "table3-C2": 50, "table3-C3": 80, "table3-C4": 28, "table3-C5": 168,
    "table3-C6": 53, "table3-C7": 90,
    "table3-D1": 65, "table3-D2": 65, "table3-D3": 65, "table3-D4": 65, "table3-E": 65,
}  # fmt: skip
"""Parameters in the paper's Table 3; rows without a figure are base's."""


def model_of(name, vocab_size, device):
    recipe = load_recipe(preset=name)
    config = dataclasses.replace(recipe.model, source_vocab_size=vocab_size, target_vocab_size=vocab_size)
    with torch.device(device):
        return Transformer(config)


def test_every_row_of_table_3_is_there():
    assert set(PAPER_MILLIONS) <= set(preset_names())


@pytest.mark.parametrize("name", sorted(PAPER_MILLIONS.keys() - {"big"}))
def test_the_size_is_the_papers(name):
    """The table's figures fit 40,750 shared rows, its "about 37,000": each row within 0.7 M."""
    ours = model_of(name, 40_750, "meta").num_parameters / 1e6
    assert ours == pytest.approx(PAPER_MILLIONS[name], abs=0.7)


@pytest.mark.parametrize("name", ["base", "big"])
def test_base_and_big_with_37000_pieces(name):
    ours = model_of(name, 37_000, "meta").num_parameters / 1e6
    assert ours == pytest.approx(PAPER_MILLIONS[name], rel=0.03)


@pytest.mark.parametrize(("row", "field", "value"), [
    ("A1", "num_heads", 1), ("A2", "num_heads", 4), ("A3", "num_heads", 16), ("A4", "num_heads", 32),
    ("B1", "d_k", 16), ("B2", "d_k", 32), ("C1", "num_encoder_layers", 2), ("C2", "num_decoder_layers", 4),
    ("C3", "num_encoder_layers", 8), ("C4", "d_model", 256), ("C5", "d_model", 1024), ("C6", "d_ff", 1024),
    ("C7", "d_ff", 4096), ("D1", "dropout", 0.0), ("D2", "dropout", 0.2), ("E", "position", "learned"),
])  # fmt: skip
def test_a_row_changes_what_the_paper_changed(row, field, value):
    base, changed = load_recipe(preset="base"), load_recipe(preset=f"table3-{row}")
    assert getattr(changed.model, field) == value
    assert getattr(base.model, field) != value
    assert changed.train == base.train


def test_label_smoothing_rows():
    assert load_recipe(preset="table3-D3").train.label_smoothing == 0.0
    assert load_recipe(preset="table3-D4").train.label_smoothing == 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_every_preset_takes_a_step(name, tmp_path):
    """The real widths and depths on a small vocabulary; the loss falls on the pairs it was trained on."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    rows = [(rng.integers(4, 50, 5).tolist(), rng.integers(4, 50, 6).tolist()) for _ in range(4)]
    build_store(tmp_path / "s", rows, vocab_size=50, fingerprint="")
    batch = collate(TokenStore(tmp_path / "s"), np.arange(4), SpecialIds(0, 2, 3))
    recipe = load_recipe(preset=name)
    model = model_of(name, 50, "cpu").train()
    optimizer = make_optimizer(model, recipe.train)
    set_rate(
        optimizer, learning_rate(recipe.train.warmup_steps, 0.0, recipe.train, recipe.model.d_model) / 10
    )
    model.eval()  # without dropout the same batch can be compared with itself
    before = train_step(model, optimizer, [batch], recipe.train, step=1)
    after = train_step(model, optimizer, [batch], recipe.train, step=1)
    assert not before.skipped
    assert after.loss < before.loss
