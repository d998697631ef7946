"""True maths (contract 5): how a batch is cut or padded does not change the gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transduce.batch.collate import SpecialIds, collate
from transduce.batch.store import TokenStore, build_store
from transduce.model import Transformer, TransformerConfig
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizer, set_rate
from transduce.train.step import accumulate_gradients, train_step

IDS = SpecialIds(0, 2, 3)


def make_model(**changes):
    torch.manual_seed(0)
    config = {
        "source_vocab_size": 30, "target_vocab_size": 30, "d_model": 16, "d_ff": 32, "num_heads": 2,
        "num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.0,
    }  # fmt: skip
    return Transformer(TransformerConfig(**{**config, **changes}))


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (rng.integers(4, 30, rng.integers(1, 9)).tolist(), rng.integers(4, 30, rng.integers(1, 9)).tolist())
        for _ in range(16)
    ]
    build_store(tmp_path / "s", rows, vocab_size=30, fingerprint="")
    return TokenStore(tmp_path / "s")


def gradients(model, batches):
    model.zero_grad()
    loss, nll = accumulate_gradients(model, batches, 0.1)
    return loss, nll, torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("parts", [2, 4, 8, 16])
def test_micro_batches_give_the_gradient_of_the_whole(store, parts):
    model = make_model().train()
    whole = gradients(model, [collate(store, np.arange(16), IDS)])
    cut = gradients(model, [collate(store, rows, IDS) for rows in np.array_split(np.arange(16), parts)])
    assert cut[0] == pytest.approx(whole[0], rel=1e-6)
    assert cut[1] == pytest.approx(whole[1], rel=1e-6)
    assert (cut[2] - whole[2]).norm() <= 1e-6 * whole[2].norm()


def test_unequal_micro_batches_too(store):
    """Where means of means go wrong: one batch of one short pair, one of all others."""
    model = make_model().train()
    shortest = int(np.argmin(store.lengths("target")))
    others = np.array([i for i in range(16) if i != shortest])
    whole = gradients(model, [collate(store, np.arange(16), IDS)])
    cut = gradients(model, [collate(store, np.array([shortest]), IDS), collate(store, others, IDS)])
    assert (cut[2] - whole[2]).norm() <= 1e-6 * whole[2].norm()


def test_more_padding_changes_nothing(store):
    model = make_model().train()
    batch = collate(store, np.arange(16), IDS)
    pad = torch.nn.functional.pad
    wider = type(batch)(
        pad(batch.source, (0, 3)), pad(batch.target, (0, 5)), pad(batch.labels, (0, 5)),
        batch.num_source_tokens, batch.num_target_tokens, batch.rows,
    )  # fmt: skip
    plain, padded = gradients(model, [batch])[2], gradients(model, [wider])[2]
    assert (plain - padded).norm() <= 1e-6 * plain.norm()


def test_one_step_is_adam_after_clipping(store):
    """Against torch's plain cross-entropy and Adam, written out."""
    model, reference = make_model().train(), make_model().train()
    # An epsilon that hides the rounding of gradients near zero, whose sign Adam would follow.
    config = TrainConfig(clip_norm=0.05, label_smoothing=0.1, learning_rate=1e-2, adam_epsilon=1e-3)
    batch = collate(store, np.arange(16), IDS)
    optimizer = make_optimizer(model, config)
    set_rate(optimizer, 1e-2)
    result = train_step(model, optimizer, [batch], config, step=1)

    theirs = torch.optim.Adam(reference.parameters(), lr=1e-2, betas=(0.9, 0.98), eps=1e-3)
    logits = reference(batch.source, batch.target)
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), ignore_index=0, label_smoothing=0.1
    )
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.05)
    theirs.step()
    assert result.loss / result.num_target_tokens == pytest.approx(loss.item(), rel=1e-5)
    assert result.grad_norm == pytest.approx(norm.item(), rel=1e-4)
    for mine, other in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_weight_decay_touches_projections_only(store):
    model = make_model(position="learned").train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    config = TrainConfig(weight_decay=0.1, learning_rate=1.0, warmup_steps=1)
    optimizer = make_optimizer(model, config)
    set_rate(optimizer, 1.0)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    shrunk = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert shrunk == {n for n in before if n.rsplit(".", 2)[-2].startswith("w_") and n.endswith("weight")}


def test_a_gradient_that_is_not_finite_changes_nothing(store):
    model = make_model().train()
    config = TrainConfig(learning_rate=1e-2)
    optimizer = make_optimizer(model, config)
    set_rate(optimizer, 1e-2)
    before = [p.detach().clone() for p in model.parameters()]
    batch = collate(store, np.arange(16), IDS)
    hook = model.encoder.layers[0].register_forward_hook(lambda module, inputs, output: output * float("nan"))
    result = train_step(model, optimizer, [batch], config, step=1)
    hook.remove()
    assert result.skipped
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert not train_step(model, optimizer, [batch], config, step=1).skipped


def test_a_loss_that_is_not_finite_changes_nothing_either(store, monkeypatch):
    """An infinite loss can have a finite gradient: the sum overflowed, not its parts."""
    from transduce.train import step

    model = make_model().train()
    config = TrainConfig(learning_rate=1e-2)
    optimizer = make_optimizer(model, config)
    set_rate(optimizer, 1e-2)
    before = [p.detach().clone() for p in model.parameters()]
    original = step.accumulate_gradients
    monkeypatch.setattr(step, "accumulate_gradients", lambda *a, **k: (float("inf"), original(*a, **k)[1]))
    result = train_step(model, optimizer, [collate(store, np.arange(16), IDS)], config, step=1)
    assert result.skipped
    assert np.isfinite(result.grad_norm)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_model_without_finite_loss_is_not_decoded(store):
    """Search refuses NaN; that must not end a training that may recover."""
    from transduce.train.validate import validate

    model = make_model().train()
    batch = collate(store, np.arange(16), IDS)
    asked = []
    assert "bleu" in validate(model, [batch], lambda m: asked.append(m) or {"bleu": 1.0}, 0.1)
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    figures = validate(model, [batch], lambda m: asked.append(m) or {"bleu": 1.0}, 0.1)
    assert np.isnan(figures["loss"])
    assert len(asked) == 1
    assert model.training
