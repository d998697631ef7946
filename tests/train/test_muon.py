"""Muon against its formula, its neighbour Adam, and a task that must be learnt."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from transduce.errors import RecipeError
from transduce.model import Transformer, TransformerConfig
from transduce.train.config import TrainConfig
from transduce.train.loss import batch_loss
from transduce.train.muon import MuonAdam, orthogonalise
from transduce.train.optimizer import make_optimizer, set_rate

SHAPES = [(8, 8), (6, 20), (20, 6), (1, 7), (7, 1)]


def make_model(**changes):
    torch.manual_seed(0)
    config = {
        "source_vocab_size": 30, "target_vocab_size": 30, "d_model": 16, "d_ff": 32, "num_heads": 2,
        "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.0, "position": "learned",
    }  # fmt: skip
    return Transformer(TransformerConfig(**{**config, **changes}))


def muon_config(**changes):
    return TrainConfig(**{"optimizer": "muon", "learning_rate": 1e-2, **changes})


def reference_orthogonalise(gradient):
    """The algorithm as its authors print it (Jordan et al., 2024), in float64, one matrix."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = gradient.double()
    x = x / (x.norm() + 1e-7)
    if gradient.shape[0] > gradient.shape[1]:
        x = x.T
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if gradient.shape[0] > gradient.shape[1] else x


def with_gradients(parameters, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("shape", [(24, 24), (24, 60), (60, 24)])
def test_singular_values_come_near_one(shape):
    """Whatever they were, over two orders of magnitude; the singular vectors stay."""
    torch.manual_seed(0)
    u, _, vt = torch.linalg.svd(torch.randn(3, *shape, dtype=torch.double), full_matrices=False)
    values = torch.logspace(0, -2, 24, dtype=torch.double)
    done = orthogonalise((u * values) @ vt)
    inner = u.mT @ done @ vt.mT
    reached = inner.diagonal(dim1=-2, dim2=-1)
    assert reached.min() > 0.65
    assert reached.max() < 1.2
    assert (inner - torch.diag_embed(reached)).abs().max() < 1e-9


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonalise_equals_the_printed_algorithm(shape):
    torch.manual_seed(1)
    stack = torch.randn(4, *shape) * torch.tensor([1.0, 1e-3, 1e3, 1.0])[:, None, None]
    for mine, gradient in zip(orthogonalise(stack), stack, strict=True):
        torch.testing.assert_close(mine.double(), reference_orthogonalise(gradient), rtol=1e-4, atol=2e-5)


def test_a_gradient_of_zeros_moves_nothing():
    assert torch.equal(orthogonalise(torch.zeros(2, 3, 5)), torch.zeros(2, 3, 5))


def test_updates_are_the_formula():
    """Three updates of matrices of all shapes, each against the formula written out by itself."""
    torch.manual_seed(2)
    start = [torch.randn(shape) for shape in [*SHAPES, (20, 6), (8, 8)]]
    matrices = [nn.Parameter(tensor.clone()) for tensor in start]
    optimizer = MuonAdam(
        matrices, [], momentum=0.9, scale=0.3, weight_decay=0.1, adam={}, adam_rate_factor=1.0
    )
    expected = [tensor.double() for tensor in start]
    momenta = [torch.zeros_like(tensor) for tensor in expected]
    for step, rate in enumerate([0.1, 0.05, 0.2]):
        with_gradients(matrices, seed=step)
        set_rate(optimizer, rate)
        optimizer.step()
        for i, matrix in enumerate(matrices):
            gradient = matrix.grad.double()
            momenta[i] = 0.9 * momenta[i] + 0.1 * gradient
            update = reference_orthogonalise(0.1 * gradient + 0.9 * momenta[i])
            expected[i] = (1 - rate * 0.1) * expected[i] - rate * 0.3 * max(matrix.shape) ** 0.5 * update
    for matrix, theirs in zip(matrices, expected, strict=True):
        torch.testing.assert_close(matrix.double(), theirs, rtol=1e-4, atol=1e-4)


def test_an_update_is_as_large_as_adams():
    """scale is the root mean square of an update at a rate of 1, whatever the shape."""
    torch.manual_seed(3)
    matrices = [nn.Parameter(torch.zeros(shape)) for shape in [(40, 40), (30, 90), (90, 30)]]
    optimizer = MuonAdam(
        matrices, [], momentum=0.95, scale=0.2, weight_decay=0.0, adam={}, adam_rate_factor=1.0
    )
    with_gradients(matrices)
    set_rate(optimizer, 1.0)
    optimizer.step()
    for matrix in matrices:
        assert 0.12 < matrix.square().mean().sqrt() < 0.24


def test_muon_takes_the_projections_and_adam_the_rest():
    """Adam's part equals torch's AdamW on the same gradients, bit for bit, at its own rate."""
    model, other = make_model(), make_model()
    config = muon_config(weight_decay=0.1, adam_rate_factor=0.5)
    mine = make_optimizer(model, config)
    theirs = torch.optim.AdamW(
        other.parameters(), lr=5e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
    )
    for seed in range(3):
        with_gradients(model.parameters(), seed)
        with_gradients(other.parameters(), seed)
        set_rate(mine, 1e-2)
        mine.step()
        theirs.step()
    same = {
        name
        for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True)
        if torch.equal(p, q)
    }
    projections = {
        n for n in model.tensors() if n.rsplit(".", 2)[-2].startswith("w_") and n.endswith("weight")
    }
    assert same == set(model.tensors()) - projections
    keys = {n: set(mine.state[p]) for n, p in model.named_parameters()}
    assert all(keys[n] == {"momentum"} for n in projections)
    assert all(keys[n] == {"step", "exp_avg", "exp_avg_sq"} for n in same)


def test_adam_is_what_it_was():
    """The default is AdamW itself, one rate for all."""
    optimizer = make_optimizer(make_model(), TrainConfig(adam_rate_factor=0.5))
    assert type(optimizer) is torch.optim.AdamW
    set_rate(optimizer, 0.1)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.1]


def test_a_parameter_without_gradient_stays():
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.tensors().items()}
    optimizer = make_optimizer(model, muon_config(weight_decay=0.1))
    set_rate(optimizer, 0.1)
    optimizer.step()
    w_q = model.encoder.layers[0].self_attention.w_q.weight
    w_q.grad = torch.ones_like(w_q)
    optimizer.step()
    moved = [name for name, tensor in model.tensors().items() if not torch.equal(tensor, before[name])]
    assert moved == ["encoder.layers.0.self_attention.w_q.weight"]


def loss_after(optimizer_kind, rate, updates=40):
    """Of copying six symbols: the mean of the last five updates; the same batches for each optimizer."""
    model = make_model(position="sinusoidal", d_model=32, d_ff=64).train()
    config = TrainConfig(optimizer=optimizer_kind, learning_rate=rate)
    optimizer = make_optimizer(model, config)
    generator = torch.Generator().manual_seed(0)
    latest = []
    for step in range(updates):
        source = torch.randint(4, 12, (32, 6), generator=generator)
        target = torch.cat([torch.full((32, 1), 2), source[:, :-1]], dim=1)
        set_rate(optimizer, rate * min(1.0, (step + 1) / 10))
        optimizer.zero_grad()
        loss = batch_loss(model, source, target, source, 0.0).loss / source.numel()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimizer.step()
        latest = [*latest[-4:], loss.item()]
    return sum(latest) / len(latest)


def test_it_learns_faster_than_adam():
    """Each at its own rate: of 0.003, 0.01 and 0.03, 0.01 is Adam's best here, 0.03 Muon's."""
    assert loss_after("muon", 0.03) < loss_after("adam", 0.01) - 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"muon_momentum": 1.0}, r"muon_momentum must be at least 0 and below 1, got 1\.0"),
        ({"muon_scale": 0.0}, r"muon_scale \(0\.0\).*must be above 0"),
        ({"adam_rate_factor": -1.0}, r"adam_rate_factor \(-1\.0\) must be above 0"),
    ],
)
def test_values_out_of_range_are_told(changes, message):
    with pytest.raises(RecipeError, match=message):
        muon_config(**changes)
