"""What a run reports about itself: every figure documented, costs added up, targets kept."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from digits import ROOT
from transduce.batch.collate import SpecialIds, collate
from transduce.batch.config import BatchConfig
from transduce.batch.order import BatchOrder
from transduce.batch.store import TokenStore, build_store
from transduce.errors import RecipeError
from transduce.model import Transformer, TransformerConfig
from transduce.train import costs, loop
from transduce.train.checkpoint import CLOCKED_FIELDS, load_checkpoint, newest_good_checkpoint
from transduce.train.config import TrainConfig
from transduce.train.flops import training_flops, work_of
from transduce.train.history import read_events
from transduce.train.log import CLOCKED_FIGURES
from transduce.train.optimizer import make_optimizer
from transduce.train.parts import Parts, PartsRecord

IDS = SpecialIds(0, 2, 3)
SIZES = {
    "source_vocab_size": 20, "target_vocab_size": 20, "d_model": 8, "d_ff": 8, "num_heads": 2,
    "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.1,
}  # fmt: skip
SETTINGS = {"max_steps": 6, "learning_rate": 1e-2, "log_every": 2, "validate_every": 2, "checkpoint_every": 3}


class Silent:
    def event(self, kind, fields): ...

    def message(self, text): ...

    def close(self): ...


class Meter:
    """A machine that tells: ten joules a look."""

    source = "processor"

    def __init__(self, device): ...

    def joules(self):
        return 10.0


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (rng.integers(4, 20, n).tolist(), rng.integers(4, 20, m).tolist())
        for n, m in rng.integers(1, 9, (24, 2))
    ]
    build_store(tmp_path / "store", rows, vocab_size=20, fingerprint="")
    return TokenStore(tmp_path / "store")


def trainer(store, directory, scores=(10.0, 20.0, 30.0), **changes):
    torch.manual_seed(0)
    given = iter(scores)
    order = BatchOrder(store, BatchConfig(batch_tokens=64, max_len=32), seed=0)
    directory.mkdir(exist_ok=True)
    return loop.Trainer(
        Transformer(TransformerConfig(**SIZES)),
        store,
        order,
        IDS,
        TrainConfig(**(SETTINGS | changes)),
        directory,
        validation=[collate(store, np.arange(4), IDS)],
        validator=lambda model: {"bleu": next(given), "chrf": 50.0},
        parts=PartsRecord(directory / "parts.json", Parts(num_parts=1, part_tokens=64, num_workers=1)),
        remake=lambda: Transformer(TransformerConfig(**SIZES)),
        display=Silent(),
    )


def documented(kind):
    """The names in the table of docs/training.md that follows `kind`."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    table = page[page.index(f"Figures of `{kind}`") :].split("\n\n")[1]
    return set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE))


@pytest.fixture
def told(monkeypatch):
    """A machine that tells its energy, whose peak is known at once."""
    monkeypatch.setattr(costs, "EnergyMeter", Meter)
    monkeypatch.setattr(costs, "matmul_peak", lambda *how: 1e9)
    monkeypatch.setattr(costs, "_PEAK_AFTER", 0.0)


def test_every_figure_is_documented_and_every_documented_one_is_there(store, tmp_path, told):
    trainer(store, tmp_path / "run").run()
    events = read_events(tmp_path / "run")
    for kind, only_elsewhere in (("train", {"gpu_memory_mb"}), ("validate", set())):
        real = {name for event in events if event["event"] == kind for name in event} - {"event", "time"}
        assert real | only_elsewhere == documented(kind)


def test_what_is_left_is_told_by_the_pace_of_the_process_that_runs(store, tmp_path, told, monkeypatch):
    def run_until(step, seconds):
        clock = iter(float(t) for t in range(0, 10_000 * seconds, seconds))
        monkeypatch.setattr(loop.time, "monotonic", lambda: next(clock))
        trainer(store, tmp_path / "run", max_steps=step, validate_every=100, checkpoint_every=100).run()
        return [event for event in read_events(tmp_path / "run") if event["event"] == "train"]

    assert [event["eta_seconds"] for event in run_until(4, seconds=1000)] == [2000.0, 0.0]
    slow = run_until(4, seconds=1000)[-1]["seconds"]
    quick = run_until(12, seconds=1)
    assert [event["done"] for event in quick[2:]] == pytest.approx([0.5, 2 / 3, 5 / 6, 1.0])
    assert [event["eta_seconds"] for event in quick[2:]] == [6.0, 4.0, 2.0, 0.0]
    assert all(event["seconds"] > slow for event in quick[2:])


def test_use_of_the_peak_is_flops_by_time_by_peak(store, tmp_path, told, monkeypatch):
    clock = iter(float(t) for t in range(0, 10_000, 2))  # every look at the clock takes two seconds
    monkeypatch.setattr(loop.time, "monotonic", lambda: next(clock))
    run = trainer(store, tmp_path / "run", accumulate=2)
    config = run.model.config
    groups = run._batches(run.state.position)
    batches = [[collate(store, rows, IDS) for rows in next(groups)[0]] for _ in range(6)]
    per_step = [training_flops(config, work_of(group, 0)) for group in batches]
    state = run.run().state
    train = [event for event in read_events(tmp_path / "run") if event["event"] == "train"]
    assert [event["flops"] for event in train] == [sum(per_step[:n]) for n in (2, 4, 6)]
    assert train[1]["mfu"] == pytest.approx(sum(per_step[2:4]) / (2 * 2.0) / 1e9)
    assert state.flops == sum(per_step)
    assert state.update_seconds == 6 * 2.0
    assert state.seconds == 6 * 2.0 + 3 * 2.0  # three validations


def test_two_passes_are_twice_the_work(store, tmp_path):
    once = trainer(store, tmp_path / "once").run().state
    twice = trainer(store, tmp_path / "twice", r_drop=1.0).run().state
    assert twice.flops == 2 * once.flops
    assert twice.num_target_tokens == once.num_target_tokens


def test_short_runs_are_spared_the_measuring(store, tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "matmul_peak", lambda *how: pytest.fail("measured"))
    trainer(store, tmp_path / "run").run()
    assert not any("mfu" in event for event in read_events(tmp_path / "run"))


def test_a_continued_run_adds_up(store, tmp_path, told):
    trainer(store, tmp_path / "run", max_steps=3).run()
    optimizer_of = trainer(store, tmp_path / "other")
    path = newest_good_checkpoint(tmp_path / "run" / "checkpoints", print)
    saved = load_checkpoint(path, optimizer_of.model, make_optimizer(optimizer_of.model, optimizer_of.config))
    assert saved.energy_joules > 0
    assert saved.peak_flops == 1e9
    state = trainer(store, tmp_path / "run").run().state
    assert state.energy_joules > saved.energy_joules
    assert state.flops > saved.flops
    assert len(state.machines) == 1
    assert state.peak_memory_mb > 0


def test_another_machine_is_named_and_its_peak_measured_anew(store, tmp_path, told, monkeypatch):
    trainer(store, tmp_path / "run", max_steps=3).run()
    monkeypatch.setattr(costs, "_PEAK_AFTER", 1e9)
    monkeypatch.setattr(costs, "machine_name", lambda device: "another")
    state = trainer(store, tmp_path / "run").run().state
    assert state.machines[1:] == ["another, float32"]
    assert state.peak_flops == 0.0


def test_the_peak_is_that_of_the_products_precision(store, tmp_path, told, monkeypatch):
    measured = []
    monkeypatch.setattr(costs, "matmul_peak", lambda device, dtype, workers: measured.append(dtype) or 1e9)
    trainer(store, tmp_path / "run", max_steps=3).run()
    state = trainer(store, tmp_path / "run", precision="bfloat16").run().state
    assert measured == [torch.float32, torch.bfloat16]
    assert [machine.rpartition(", ")[2] for machine in state.machines] == ["float32", "bfloat16"]


def test_a_peak_that_training_beats_is_measured_again_and_the_best_counts(store, tmp_path, told, monkeypatch):
    """Something else ran while the first was measured: no share is above one for it."""
    given = [1.0, 3.0, 2.0, 1e12]
    monkeypatch.setattr(costs, "matmul_peak", lambda *how: given.pop(0))
    state = trainer(store, tmp_path / "run").run().state
    assert (given, state.peak_flops) == ([], 1e12)
    shares = [event["mfu"] for event in read_events(tmp_path / "run") if event["event"] == "train"]
    assert len(shares) == 3
    assert all(0 < share < 1 for share in shares)


def test_training_faster_than_every_product_is_the_peak_itself(store, tmp_path, told, monkeypatch):
    measured = []
    monkeypatch.setattr(costs, "matmul_peak", lambda *how: measured.append(how) or 1.0)
    state = trainer(store, tmp_path / "run").run().state
    assert len(measured) == 5
    shares = [event["mfu"] for event in read_events(tmp_path / "run") if event["event"] == "train"]
    assert max(shares) == shares[0] == 1.0
    assert state.peak_flops > 1.0


def test_measuring_changes_no_weight_and_no_other_figure(store, tmp_path, monkeypatch):
    """With dropout: a number drawn by the measuring would shift all that follow."""
    trainer(store, tmp_path / "plain").run()
    monkeypatch.setattr(costs, "_PEAK_AFTER", 0.0)
    monkeypatch.setattr("transduce.train.machine._SECONDS_PER_SHAPE", 0.01)
    measured = trainer(store, tmp_path / "measured").run().state
    assert measured.peak_flops > 0
    checkpoints = [tmp_path / run / "checkpoints" for run in ("plain", "measured")]
    plain, other = (newest_good_checkpoint(path, print) for path in checkpoints)
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (plain / name).read_bytes() == (other / name).read_bytes()
    states = [json.loads((path / "state.json").read_text()) for path in (plain, other)]
    assert {k for k in states[0] if states[0][k] != states[1][k]} <= CLOCKED_FIELDS | {"window"}
    events = [read_events(tmp_path / run) for run in ("plain", "measured")]
    for one, two in zip(*events, strict=True):
        assert {k for k in one | two if one.get(k) != two.get(k)} <= CLOCKED_FIGURES


@pytest.mark.parametrize(
    ("settings", "step", "reason"),
    [
        ({"stop_at": 20.0}, 4, "train.stop_at reached (bleu 20 ≥ 20)"),
        ({"stop_at": 15.0}, 4, "train.stop_at reached (bleu 20 ≥ 15)"),
        ({"stop_at": 31.0}, 6, "train.max_steps reached (6)"),
        ({}, 6, "train.max_steps reached (6)"),
        ({"stop_at": 50.0, "stop_metric": "chrf"}, 2, "train.stop_at reached (chrf 50 ≥ 50)"),
        ({"stop_at": 0.01, "stop_metric": "loss"}, 6, "train.max_steps reached (6)"),
    ],
)
def test_training_stops_at_the_target(store, tmp_path, settings, step, reason):
    outcome = trainer(store, tmp_path / "run", **settings).run()
    assert (outcome.reason, outcome.state.step, outcome.finished) == (reason, step, True)
    again = trainer(store, tmp_path / "run", scores=(), **settings).run()
    assert (again.reason, again.state.step) == (reason, step)


def test_a_loss_stops_from_above(store, tmp_path):
    outcome = trainer(store, tmp_path / "run", stop_metric="loss", stop_at=50.0).run()
    assert outcome.state.step == 2
    assert re.fullmatch(r"train\.stop_at reached \(loss [\d.]+ ≤ 50\)", outcome.reason)


def test_a_target_that_nothing_will_show_is_refused():
    with pytest.raises(RecipeError, match="stop_at = 36 waits for bleu"):
        TrainConfig(stop_at=36, validate_sentences=0)
    with pytest.raises(RecipeError, match="stop_at must be a value of loss"):
        TrainConfig(stop_at=-2.0, stop_metric="loss")
    TrainConfig(stop_at=2.0, stop_metric="loss", validate_sentences=0)
