"""The moving average of the weights: its formula, its place in a run, its way into the finished model."""

from __future__ import annotations

import os

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from digits import TINY_SETTINGS, digit_pairs
from transduce.errors import CheckpointError, RecipeError
from transduce.model import Transformer, TransformerConfig
from transduce.pipeline import train
from transduce.recipe import load_recipe
from transduce.train import loop, update
from transduce.train.average import MovingAverage
from transduce.train.checkpoint import (
    RunState,
    best_checkpoints,
    choose_checkpoints,
    finished_weights,
    load_checkpoint,
    save_checkpoint,
    step_of,
)
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizer
from transduce.train.step import StepResult

SKIPPED = 4  # the update of the pipeline test whose gradient is not finite


def make(seed=0):
    torch.manual_seed(seed)
    return Transformer(
        TransformerConfig(
            source_vocab_size=12, target_vocab_size=12, d_model=8, d_ff=8, num_heads=2,
            num_encoder_layers=1, num_decoder_layers=1,
        )
    )  # fmt: skip


def copied(tensors):
    return {name: tensor.clone() for name, tensor in tensors.items()}


def equal(mine, theirs):
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def closed_form(history, decay):
    """Σ_t (1 - d_t) · Π_{s>t} d_s · W_t, in float64; the initial weights W_0 have 1 in place of (1 - d_0)."""
    decays = [0.0, *(min(decay, (1 + t) / (10 + t)) for t in range(1, len(history)))]
    shares = [1.0 - d for d in decays]
    for t in range(len(history)):
        for later in decays[t + 1 :]:
            shares[t] *= later
    assert sum(shares) == pytest.approx(1.0)
    return {
        name: sum(share * weights[name].double() for share, weights in zip(shares, history, strict=True))
        for name in history[0]
    }


def assert_close(mine, theirs):
    for name, tensor in theirs.items():
        assert mine[name].dtype == torch.float32
        torch.testing.assert_close(mine[name].double(), tensor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.999])
def test_it_is_the_closed_formula(decay):
    """0.3 ends the warm-up of the decay at the third update; with 0.999 it never ends here."""
    model = make()
    average = MovingAverage(model, decay)
    history = [copied(model.tensors())]
    for t in range(1, 8):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight))
        average.update(t)
        history.append(copied(model.tensors()))
    assert equal(model.tensors(), history[-1])
    assert_close(average.tensors(), closed_form(history, decay))
    if decay == 0.0:
        assert equal(average.tensors(), history[-1])


def test_in_place_comes_and_goes_bit_for_bit():
    """Also when validation breaks off; the memory of a parameter stays where it is."""
    model, other = make(0), make(1)
    average = MovingAverage(model, 0.9)
    average.restart(other.tensors())
    before, addresses = copied(model.tensors()), [p.data_ptr() for p in model.parameters()]

    def look():
        with average.in_place():
            assert equal(model.tensors(), other.tensors())
            assert [p.data_ptr() for p in model.parameters()] == addresses
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look()
    assert equal(model.tensors(), before)
    assert equal(average.tensors(), other.tensors())
    assert [p.data_ptr() for p in model.parameters()] == addresses


def test_a_checkpoint_brings_it_back(tmp_path):
    model = make(0)
    optimizer = make_optimizer(model, TrainConfig(learning_rate=1.0))
    average = MovingAverage(model, 0.9)
    average.restart(make(1).tensors())
    with_it = save_checkpoint(tmp_path, model, optimizer, RunState(step=1), average)
    without = save_checkpoint(tmp_path, model, optimizer, RunState(step=2))
    found = make(2)
    found_average = MovingAverage(found, 0.9)
    load_checkpoint(with_it, found, optimizer, found_average)
    assert equal(found.tensors(), model.tensors())
    assert equal(found_average.tensors(), average.tensors())
    load_checkpoint(without, found, optimizer, found_average)
    assert equal(found_average.tensors(), model.tensors())


def test_which_checkpoint_it_is_taken_from(tmp_path):
    """The best that has one; the newest when nothing was validated."""
    model = make()
    optimizer = make_optimizer(model, TrainConfig(learning_rate=1.0))
    config = TrainConfig(learning_rate=1.0, average="ema", average_checkpoints=3)
    state = RunState(step=4, scores={"1": 9.0, "2": 5.0, "3": 7.0})
    save_checkpoint(tmp_path, model, optimizer, RunState(step=1))
    with pytest.raises(
        CheckpointError, match=r'no checkpoint in .* holds a moving average.*train on with "ema"'
    ):
        choose_checkpoints(tmp_path, config, state)
    for step in (2, 3, 4):
        average = MovingAverage(model, 0.9)
        average.restart(make(step).tensors())
        save_checkpoint(tmp_path, model, optimizer, RunState(step=step), average)
    assert [step_of(path) for path in best_checkpoints(tmp_path, config, state)] == [3]
    assert [step_of(path) for path in choose_checkpoints(tmp_path, config, state)] == [3]
    newest = choose_checkpoints(tmp_path, config, RunState(step=4))
    assert [step_of(path) for path in newest] == [4]
    assert equal(finished_weights(newest, config), make(4).tensors())


def test_a_run_keeps_validates_and_hands_it_over(tmp_path, write_pairs, monkeypatch):
    """Eight updates, one of them skipped; what was validated is what was saved, and what is the model."""
    history, validated = [], {}
    original_step, original_validate = update.train_step, loop.validate

    def recorded_step(model, optimizer, batches, config, **named):
        if not history:
            history.append(copied(model.tensors()))
        if len(history) == SKIPPED and None not in history:
            history.append(None)
            return StepResult(
                loss=1.0, nll=1.0, num_source_tokens=1, num_target_tokens=1, num_cells=2,
                grad_norm=float("nan"), skipped=True,
            )  # fmt: skip
        result = original_step(model, optimizer, batches, config, **named)
        history.append(copied(model.tensors()))
        return result

    def recorded_validate(model, *arguments):
        validated[len(history) - 1] = copied(model.tensors())
        return original_validate(model, *arguments)

    monkeypatch.setattr(update, "train_step", recorded_step)
    monkeypatch.setattr(loop, "validate", recorded_validate)
    changes = [
        "train.max_steps=8", "train.validate_every=4", "train.checkpoint_every=4", "train.stop_metric=loss",
        "train.validate_sentences=0", "train.average=ema", "train.ema_decay=0.4",
        "train.average_checkpoints=99",
    ]  # fmt: skip
    source, target = write_pairs(tmp_path / "train", digit_pairs(400))
    recipe = load_recipe(
        overrides=[*TINY_SETTINGS, *changes], data={"source": str(source), "target": str(target)}
    )
    with open(os.devnull, "w") as stream:  # noqa: PTH123
        outcome = train(recipe, tmp_path / "run", Console(file=stream))
    assert outcome.state.num_skipped == 1
    weights = [tensors for tensors in history if tensors is not None]
    assert len(weights) == 8
    for step, moved in ((4, 3), (8, 7)):
        saved = tmp_path / "run" / "checkpoints" / f"step-{step:08d}"
        assert equal(load_file(saved / "model.safetensors"), weights[moved])
        assert equal(load_file(saved / "average.safetensors"), validated[step])
        assert_close(validated[step], closed_form(weights[: moved + 1], 0.4))
    model = tmp_path / "run" / "model"
    assert equal(load_file(model / "model.safetensors"), validated[outcome.state.best_step])
    assert (
        f"moving average of the weights at step {outcome.state.best_step}\n"
        in (model / "card.md").read_text()
    )


def test_a_decay_out_of_range_is_told():
    with pytest.raises(RecipeError, match=r"ema_decay must be at least 0 and below 1, got 1\.0"):
        TrainConfig(ema_decay=1.0)
