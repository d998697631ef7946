"""Saved state is whole, checked and averaged exactly."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from transduce.errors import CheckpointError, ModelError
from transduce.model import Transformer, TransformerConfig
from transduce.train.average import MovingAverage
from transduce.train.checkpoint import (
    RunState,
    average_checkpoints,
    choose_checkpoints,
    list_checkpoints,
    load_checkpoint,
    newest_good_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizer


def make(seed=0, **changes):
    torch.manual_seed(seed)
    config = {
        "source_vocab_size": 12, "target_vocab_size": 12, "d_model": 8, "d_ff": 8, "num_heads": 2,
        "num_encoder_layers": 1, "num_decoder_layers": 1,
    }  # fmt: skip
    model = Transformer(TransformerConfig(**{**config, **changes}))
    optimizer = make_optimizer(model, TrainConfig(learning_rate=1e-3))
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model, optimizer


def test_comes_back_as_it_was(tmp_path):
    model, optimizer = make()
    state = RunState(step=7, seconds=1.5, best_score=3.0, scores={"7": 3.0})
    path = save_checkpoint(tmp_path, model, optimizer, state)
    other, other_optimizer = make(seed=1)
    assert load_checkpoint(path, other, other_optimizer) == state
    for mine, saved in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, saved)
        for key, value in optimizer.state[saved].items():
            assert torch.equal(other_optimizer.state[mine][key], value)


def test_tied_matrices_are_saved_once(tmp_path):
    model, optimizer = make()
    path = save_checkpoint(tmp_path, model, optimizer, RunState(step=1))
    names = load_file(path / "model.safetensors").keys()
    assert [n for n in names if "embedding" in n or n.startswith("output")] == ["source_embedding.weight"]


@pytest.mark.parametrize(
    "file",
    ["model.safetensors", "average.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"],
)
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path, file, damage):
    model, optimizer = make()
    good = save_checkpoint(tmp_path, model, optimizer, RunState(step=1))
    bad = save_checkpoint(tmp_path, model, optimizer, RunState(step=2), MovingAverage(model, 0.9))
    content = bytearray((bad / file).read_bytes())
    if damage == "gone":
        (bad / file).unlink()
    elif damage == "cut":
        (bad / file).write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 0xFF
        (bad / file).write_bytes(content)
    told = []
    assert newest_good_checkpoint(tmp_path, told.append) == good
    assert len(told) == 1
    assert "step-00000002 is damaged" in told[0]


def test_none_is_none(tmp_path):
    assert newest_good_checkpoint(tmp_path / "nowhere", print) is None
    assert list_checkpoints(tmp_path / "nowhere") == []


def test_leftovers_of_a_kill_are_no_checkpoints_and_are_removed(tmp_path):
    model, optimizer = make()
    (tmp_path / ".step-00000009.abc.tmp").mkdir()
    for step in (1, 2, 3, 4):
        save_checkpoint(tmp_path, model, optimizer, RunState(step=step))
    assert len(list_checkpoints(tmp_path)) == 4
    prune_checkpoints(tmp_path, keep=2, every=1, keep_steps=[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-0000000{n}" for n in (1, 3, 4)]


@pytest.mark.parametrize(
    ("keep", "every", "left"),
    [
        (1, 1, [6]),
        (2, 1, [5, 6]),
        (9, 1, [1, 2, 3, 4, 5, 6]),
        (2, 2, [4, 6]),
        (9, 2, [2, 4, 6]),
        (2, 4, [4, 6]),
    ],
)
def test_which_stay(tmp_path, keep, every, left):
    """The newest, and of the others those that were due: an interruption's own checkpoint goes."""
    for step in range(1, 7):
        (tmp_path / f"step-0000000{step}").mkdir()
    prune_checkpoints(tmp_path, keep, every)
    assert [int(path.name[5:]) for path in list_checkpoints(tmp_path)] == left


def test_average_is_the_mean(tmp_path):
    paths, models = [], []
    for step in (1, 2, 3):
        model, optimizer = make(seed=step)
        models.append(model)
        paths.append(save_checkpoint(tmp_path, model, optimizer, RunState(step=step)))
    mean = average_checkpoints(paths)
    for name, tensor in mean.items():
        expected = torch.stack([m.tensors()[name].double() for m in models]).mean(0).float()
        assert torch.equal(tensor, expected)
        assert tensor.dtype == torch.float32
    with pytest.raises(CheckpointError, match="no checkpoint to average"):
        average_checkpoints([])
    other = save_checkpoint(tmp_path / "x", *make(d_model=4), RunState(step=1))
    with pytest.raises(CheckpointError, match="other weights"):
        average_checkpoints([paths[0], other])


def test_which_are_averaged(tmp_path):
    model, optimizer = make()
    for step in (1, 2, 3, 4):
        save_checkpoint(tmp_path, model, optimizer, RunState(step=step))
    state = RunState(step=4, scores={"1": 9.0, "2": 5.0, "3": 7.0})

    def steps(**settings):
        config = TrainConfig(learning_rate=1.0, **settings)
        return [int(p.name[5:]) for p in choose_checkpoints(tmp_path, config, state)]

    assert steps(average="last", average_checkpoints=2) == [3, 4]
    assert steps(average="best", average_checkpoints=2) == [1, 3]
    assert steps(average="none") == [1]
    state = RunState(step=4)
    assert steps(average="none") == [4]
    assert steps(average="best", average_checkpoints=2) == [3, 4]


def test_a_foreign_checkpoint_is_refused(tmp_path):
    path = save_checkpoint(tmp_path, *make(), RunState(step=1))
    with pytest.raises(ModelError, match="has shape"):
        load_checkpoint(path, *make(d_ff=16))
