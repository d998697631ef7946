"""Matrix products in bfloat16: only they, close to float32, and chosen by measuring."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from transduce.batch.collate import SpecialIds, collate
from transduce.batch.store import TokenStore, build_store
from transduce.model import Transformer, TransformerConfig
from transduce.train import precision as precision_module
from transduce.train.config import TrainConfig
from transduce.train.loss import smoothed_loss
from transduce.train.optimizer import make_optimizer, set_rate
from transduce.train.precision import autocast, choose_precision, half_precision_gain
from transduce.train.step import accumulate_gradients, train_step

IDS = SpecialIds(0, 2, 3)
CPU = torch.device("cpu")


@pytest.fixture
def batch(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(rng.integers(4, 60, n).tolist(), rng.integers(4, 60, 9).tolist()) for n in range(2, 18)]
    build_store(tmp_path / "s", rows, vocab_size=60, fingerprint="")
    return collate(TokenStore(tmp_path / "s"), np.arange(16), IDS)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(
            source_vocab_size=60, target_vocab_size=60, d_model=32, d_ff=64, num_heads=2,
            num_encoder_layers=2, num_decoder_layers=2, dropout=0.1,
        )
    ).train()  # fmt: skip


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_the_gradient_is_float32_and_close(model, batch, r_drop):
    found = {}
    for precision in ("float32", "bfloat16"):
        loss, nll = accumulate_gradients(model, [batch], 0.1, r_drop, precision=precision)
        assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
        found[precision] = loss, nll, torch.cat([p.grad.flatten() for p in model.parameters()])
    exact, rough = found["float32"], found["bfloat16"]
    assert rough[0] == pytest.approx(exact[0], rel=0.01)
    assert rough[1] == pytest.approx(exact[1], rel=0.01)
    error = (rough[2] - exact[2]).norm() / exact[2].norm()
    assert 1e-4 < error < 0.03, "other numbers, by about what 8 bits lose"


def test_which_numbers_are_in_half_precision(model, batch):
    seen = {}
    layer = model.encoder.layers[0]
    for name, module in layer.named_modules():
        module.register_forward_hook(lambda m, i, out, name=name: seen.update({name: out.dtype}))
    records = []
    layer.self_attention.observer = records.append
    accumulate_gradients(model, [batch], 0.1, precision="bfloat16")
    half = {name for name, dtype in seen.items() if dtype == torch.bfloat16}
    assert {n.rsplit(".", 1)[-1] for n in half} >= {"w_q", "w_k", "w_v", "w_o", "w_1", "w_2"}
    norms = {name: dtype for name, dtype in seen.items() if name.endswith("norm")}
    assert norms
    assert set(norms.values()) == {torch.float32}
    assert records[0].queries.dtype == records[0].weights.dtype == torch.float32
    assert seen[""] == torch.float32, "the residual sum"


@pytest.mark.parametrize("kind", ["muon", "adam"])
def test_the_optimizer_multiplies_in_half_precision_and_keeps_float32(model, batch, kind):
    """Muon's matrices move by other numbers, small singular values most; Adam's as before, to the bit."""
    config = TrainConfig(optimizer=kind, clip_norm=0.0)
    moved = {}
    for precision in ("float32", "bfloat16"):
        mine = copy.deepcopy(model)
        optimizer = make_optimizer(mine, config)
        set_rate(optimizer, 1e-2)
        accumulate_gradients(mine, [batch], 0.1)
        with autocast(CPU, precision):
            optimizer.step()
        states = [value for state in optimizer.state.values() for value in state.values()]
        assert {tensor.dtype for tensor in [*states, *mine.parameters()]} == {torch.float32}
        moved[precision] = {name: tensor - model.tensors()[name] for name, tensor in mine.tensors().items()}
    for name, exact in moved["float32"].items():
        error = (moved["bfloat16"][name] - exact).norm() / exact.norm()
        is_matrix = kind == "muon" and ".w_" in name and name.endswith("weight")
        assert (1e-4 < error < 0.2) if is_matrix else error == 0, name


def test_an_update_has_the_precision_of_its_gradient(model, batch):
    """Muon's products are the forward pass's: an update in bfloat16 runs its optimizer in bfloat16."""
    seen = []

    class Watching(torch.optim.SGD):
        def step(self, closure=None):
            seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)

    optimizer = Watching(model.parameters(), lr=0.0)
    for precision in ("float32", "bfloat16"):
        train_step(model, optimizer, [batch], TrainConfig(), step=1, precision=precision)
    assert seen == [torch.float32, torch.bfloat16]


def test_chunks_of_the_output_projection_add_up_in_float32():
    """In bfloat16 a sum stops growing at 256 times its terms."""
    torch.manual_seed(0)
    states = torch.ones(2048, 4, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.zeros(8, 4, requires_grad=True)
    labels = torch.zeros(2048, dtype=torch.int64)
    smoothed_loss(states, weight, None, labels, 0.0, chunk_cells=8).loss.backward()
    torch.testing.assert_close(weight.grad[1], torch.full((4,), 2048 / 8))


@pytest.mark.parametrize(("gain", "chosen"), [(0.1, "float32"), (1.29, "float32"), (1.31, "bfloat16")])
def test_auto_takes_what_is_faster(monkeypatch, gain, chosen):
    monkeypatch.setattr(precision_module, "half_precision_gain", lambda device: gain)
    assert choose_precision("auto", CPU) == chosen
    assert choose_precision("float32", CPU) == "float32"
    assert choose_precision("bfloat16", CPU) == "bfloat16"


def test_measuring_compares_the_two_and_draws_no_random_numbers(monkeypatch):
    before = torch.get_rng_state()
    assert half_precision_gain(CPU) > 0
    assert torch.equal(torch.get_rng_state(), before)
    seconds = {torch.float32: 6.0, torch.bfloat16: 2.0}
    monkeypatch.setattr(precision_module, "_product_seconds", lambda device, dtype: seconds[dtype])
    assert half_precision_gain(CPU) == 3.0
