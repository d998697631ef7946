"""Updates that are not finite: named, skipped; the run goes back, goes on, and is exact all the while."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from test_resume import quiet

from digits import TINY_SETTINGS, digit_pairs
from kills import dies_at
from poison import poison
from same_run import differences, events
from transduce.errors import CheckpointError, RecipeError
from transduce.pipeline import train
from transduce.recipe import load_recipe
from transduce.text.tokenizer import load_tokenizers
from transduce.train import loop, update
from transduce.train.checkpoint import Rollback, RunState, step_of
from transduce.train.config import TrainConfig
from transduce.train.loop import Trainer
from transduce.train.recovery import roll_back

SETTINGS = [
    *TINY_SETTINGS,
    "model.d_model=16",
    "model.d_ff=16",
    "model.dropout=0.2",
    "train.max_steps=24",
    "train.validate_every=8",
    "train.validate_sentences=0",
    "train.checkpoint_every=5",
    "train.keep_checkpoints=3",
    "train.average_checkpoints=2",
    "train.log_every=1",
    "train.accumulate=2",
    "train.skip_limit=3",
    "train.max_rollbacks=2",
    "data.holdout_pairs=4",
    "search.max_extra_len=2",
]


@pytest.fixture(scope="module")
def text(tmp_path_factory, write_pairs):
    return write_pairs(tmp_path_factory.mktemp("text") / "train", digit_pairs(600))


@pytest.fixture(scope="module")
def recipe(text):
    return load_recipe(overrides=SETTINGS, data={"source": str(text[0]), "target": str(text[1])})


@pytest.fixture(scope="module")
def undisturbed(recipe, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    run(recipe, path)
    return path


@pytest.fixture
def path(undisturbed, tmp_path):
    """A run whose text is ready, and nothing more."""
    for name in ("recipe.toml", "text", "store"):
        copy = shutil.copytree if (undisturbed / name).is_dir() else shutil.copyfile
        (tmp_path / "run").mkdir(exist_ok=True)
        copy(undisturbed / name, tmp_path / "run" / name)
    return tmp_path / "run"


def run(recipe, path):
    console = quiet()
    try:
        return train(recipe, path, console)
    finally:
        console.file.close()


def of_kind(path, kind):
    return [event for event in events(path) if event["event"] == kind]


def steps(path):
    return sorted(int(directory.name[5:]) for directory in (path / "checkpoints").iterdir())


def test_one_update_is_left_out_and_its_text_is_named(recipe, path, text, monkeypatch):
    met = poison(monkeypatch, lambda step: step == 7)
    outcome = run(recipe, path)
    assert outcome.finished
    assert (outcome.state.num_skipped, outcome.state.rollbacks) == (1, [])
    (skip,) = of_kind(path, "skip")
    assert (skip["step"], skip["in_a_row"], skip["what"]) == (7, 1, "loss")

    # The named lines of the text are the pairs of that update, and no others.
    assert len(met[7]) >= 2
    lines = text[0].read_text().splitlines()
    source, _ = load_tokenizers(path / "text")
    named = sorted(source.encode_batch([lines[n - 1] for n in skip["lines"]]))
    pairs = [row for batch in met[7] for row in batch.source.tolist()]
    eos = source.eos_id
    assert named == sorted(row[: row.index(eos)] for row in pairs)

    # Every other update is told, with figures that are numbers.
    assert [event["step"] for event in of_kind(path, "train")] == [s for s in range(1, 25) if s != 7]
    log = (path / "log.jsonl").read_text()
    assert "NaN" not in log
    assert "Infinity" not in log
    assert "1 updates were left out" in (path / "model" / "card.md").read_text()


def test_many_in_a_row_go_back_with_a_lower_rate(recipe, path, monkeypatch):
    poison(monkeypatch, lambda step: 12 <= step <= 14)
    after = {}
    original = Trainer._recover

    def watched(self, *arguments):
        position = self.state.position
        original(self, *arguments)
        if self.state.step == 14:
            after.update({name: tensor.clone() for name, tensor in self.model.tensors().items()})
            assert self.state.position == position  # the text goes on

    saved = path / "checkpoints" / "step-00000010"
    monkeypatch.setattr(Trainer, "_recover", watched)
    outcome = run(recipe, path)
    state = outcome.state
    assert outcome.finished
    assert state.step == 24
    assert [(r.step, r.to) for r in state.rollbacks] == [(14, 10)]
    assert (state.rate_scale, state.num_lost, state.num_fruitless) == (0.5, 4, 0)
    assert state.num_updates == 20
    kept = steps(path)
    assert 10 in kept
    assert kept[-1] == 24
    weights = load_file(saved / "model.safetensors")
    assert all(torch.equal(after[name], tensor) for name, tensor in weights.items())
    (back,) = of_kind(path, "rollback")
    assert back == {"event": "rollback", "step": 14, "to": 10, "rate_scale": 0.5}

    # In warm-up the rate counts updates that are in the weights: 15 is the 11th, at half the rate.
    rates = {event["step"]: event["learning_rate"] for event in of_kind(path, "train")}
    full = rates[10] / 10 * 11
    share = (1 - 14 / 24) / (1 - 9 / 24)
    assert rates[15] == pytest.approx(0.5 * full * share)
    assert "went back to the weights of step 10" in (path / "model" / "card.md").read_text()


def test_trouble_that_comes_again_goes_further_back(recipe, path, monkeypatch):
    poison(monkeypatch, lambda step: 12 <= step <= 17)
    state = run(recipe, path).state
    assert [(r.step, r.to) for r in state.rollbacks] == [(14, 10), (17, 5)]
    assert state.rate_scale == 0.25
    assert 10 not in steps(path)  # given up, and not averaged
    assert "steps 20, 24" in (path / "model" / "card.md").read_text()
    assert "8" not in state.scores  # of weights that were given up
    assert state.best_step in (16, 24)


def test_without_a_checkpoint_it_begins_anew(recipe, path, monkeypatch):
    poison(monkeypatch, lambda step: 2 <= step <= 4)
    seen = {}
    original = Trainer._update

    def watched(self, group, after):
        if self.state.step in (0, 4):
            moments = len(self._optimizer.state)
            tensors = {name: tensor.clone() for name, tensor in self.model.tensors().items()}
            seen[self.state.step] = (moments, tensors)
        return original(self, group, after)

    monkeypatch.setattr(Trainer, "_update", watched)
    assert [(r.step, r.to) for r in run(recipe, path).state.rollbacks] == [(4, 0)]
    first, again = seen[0], seen[4]
    assert (first[0], again[0]) == (0, 0)
    assert all(torch.equal(tensor, again[1][name]) for name, tensor in first[1].items())


def test_trouble_without_end_is_told_and_nothing_is_lost(recipe, path, undisturbed, monkeypatch):
    with monkeypatch.context() as patch:
        poison(patch, lambda step: step >= 12)
        told = r"not finite 3 times in a row .*from step 18 .*back 2 times \(to step 10, 5\).*lines of text"
        with pytest.raises(CheckpointError, match=told):
            run(recipe, path)
        assert steps(path) == [5, 10]
        with pytest.raises(CheckpointError, match=told):
            run(recipe, path)
    assert run(recipe, path).finished  # as after a repair: from step 10, at the full rate
    assert differences(path, undisturbed) == []
    assert events(path) == events(undisturbed)


def test_no_going_back_when_none_is_wanted(recipe, text, path, monkeypatch):
    poison(monkeypatch, lambda step: step >= 12)
    data = {"source": str(text[0]), "target": str(text[1])}
    strict = load_recipe(overrides=[*SETTINGS, "train.max_rollbacks=0"], data=data)
    shutil.rmtree(path)
    with pytest.raises(CheckpointError, match=r"from step 12 on: the checkpoints") as error:
        run(strict, path)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def troubled(recipe, undisturbed, tmp_path_factory):
    """Undisturbed but for its poison: twice in a row, and once more later."""
    path = tmp_path_factory.mktemp("troubled") / "run"
    shutil.copytree(undisturbed / "text", path / "text")
    shutil.copytree(undisturbed / "store", path / "store")
    shutil.copyfile(undisturbed / "recipe.toml", path / "recipe.toml")
    with pytest.MonkeyPatch.context() as patch:
        poison(patch, lambda step: 12 <= step <= 17 or step == 20)
        run(recipe, path)
    return path


@pytest.mark.parametrize("killed_at", [13, 14, 16, 18, 21])
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_run_that_went_back_resumes_exactly(recipe, path, troubled, monkeypatch, how, killed_at):
    poison(monkeypatch, lambda step: 12 <= step <= 17 or step == 20)
    original = update.train_step
    count = 0

    class Killed(BaseException):
        pass

    def dying(*arguments, **keywords):
        nonlocal count
        count += 1
        if count == killed_at:
            if how == "killed":
                raise Killed
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(update, "train_step", dying)
        if how == "killed":
            with pytest.raises(Killed):
                run(recipe, path)
        else:
            assert run(recipe, path).state.step == killed_at
    assert run(recipe, path).finished
    assert differences(path, troubled) == (["log.jsonl differs"] if how == "stopped" else [])  # of the stop
    assert [e for e in events(path) if e["event"] != "stop"] == [
        e for e in events(troubled) if e["event"] != "stop"
    ]


@pytest.mark.parametrize("bad", [(12, 14), (2, 4)])
def test_a_moving_average_goes_back_as_well(text, tmp_path, monkeypatch, bad):
    """With the weights: to a checkpoint's, or to the initial ones."""
    data = {"source": str(text[0]), "target": str(text[1])}
    recipe = load_recipe(overrides=[*SETTINGS, "train.average=ema", "train.ema_decay=0.8"], data=data)
    poison(monkeypatch, lambda step: bad[0] <= step <= bad[1])
    original = Trainer._recover
    seen = {}

    def watched(self, *arguments):
        original(self, *arguments)
        if self.state.rollbacks and not seen:
            seen["to"] = self.state.rollbacks[-1].to
            seen["average"] = {name: tensor.clone() for name, tensor in self._average.tensors().items()}
            seen["weights"] = {name: tensor.clone() for name, tensor in self.model.tensors().items()}

    monkeypatch.setattr(Trainer, "_recover", watched)
    run(recipe, tmp_path / "run")
    saved = tmp_path / "run" / "checkpoints" / f"step-{seen['to']:08d}" / "average.safetensors"
    expected = load_file(saved) if seen["to"] else seen["weights"]
    assert seen["average"].keys() == expected.keys()
    assert all(torch.equal(seen["average"][name], tensor) for name, tensor in expected.items())


def test_a_checkpoint_in_the_midst_of_trouble_does_not_stand_in_the_way(text, tmp_path, monkeypatch):
    """It holds the weights from before; the one that leads further back stays until the trouble is over."""
    data = {"source": str(text[0]), "target": str(text[1])}
    one = ["train.keep_checkpoints=1", "train.average_checkpoints=1"]
    recipe = load_recipe(overrides=[*SETTINGS, *one], data=data)
    poison(monkeypatch, lambda step: 10 <= step <= 12)
    state = run(recipe, tmp_path / "run").state
    assert [(r.step, r.to) for r in state.rollbacks] == [(12, 5)]


def test_a_checkpoint_is_made_although_its_update_was_left_out(recipe, path, monkeypatch):
    poison(monkeypatch, lambda step: step in (15, 20))
    state = run(recipe, path).state
    assert {15, 20} <= set(steps(path))
    assert state.rollbacks == []


def test_weights_that_cannot_be_validated_are_the_worst(recipe, path, monkeypatch):
    figures = iter([{"loss": float("nan"), "nll": float("nan"), "perplexity": float("inf")}])
    original = loop.validate
    monkeypatch.setattr(loop, "validate", lambda *a: next(figures, None) or original(*a))
    state = run(recipe, path).state
    assert state.best_step in (16, 24)
    first = of_kind(path, "validate")[0]
    assert (first["loss"], first["perplexity"]) == (None, None)
    json.loads((path / "log.jsonl").read_text().splitlines()[0])


@pytest.mark.parametrize("where", ["train_step", "validate"])
def test_an_error_that_nobody_foresaw_loses_nothing(recipe, path, undisturbed, monkeypatch, where):
    room = {"train_step": update, "validate": loop}[where]
    original = getattr(room, where)
    count = 0

    def failing(*arguments, **keywords):
        nonlocal count
        count += 1
        if count == {"train_step": 13, "validate": 2}[where]:
            raise RuntimeError("mat1 and mat2\ndo not fit")
        return original(*arguments, **keywords)

    monkeypatch.setattr(room, where, failing)
    with pytest.raises(CheckpointError) as error:
        run(recipe, path)
    message = str(error.value)
    assert "\n" not in message
    saved = {"train_step": 10, "validate": 15}[where]
    for part in ("RuntimeError: mat1 and mat2 do not fit", f"goes on from step {saved}", "log.jsonl"):
        assert part in message
    crash = json.loads((path / "log.jsonl").read_text().splitlines()[-1])
    assert crash["event"] == "crash"
    assert "in failing" in crash["trace"]
    assert run(recipe, path).finished
    assert differences(path, undisturbed) == []
    assert events(path) == events(undisturbed)


def fake_checkpoints(directory, *steps):
    for step in steps:
        files = {"model.safetensors": b"m", "optimizer.safetensors": b"o", "state.json": b"{}"}
        path = directory / f"step-{step:08d}"
        path.mkdir()
        for name, content in files.items():
            (path / name).write_bytes(content)
        sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
        (path / "SHA256SUMS").write_text(sums)


@pytest.mark.parametrize(
    ("changes", "to"),
    [
        ({}, 10),
        ({"damaged": 10}, 5),
        ({"num_skipped_in_a_row": 5}, 5),  # 10 was saved when the trouble had begun
        ({"rollbacks": [Rollback(step=9, to=5)]}, 10),
        ({"rollbacks": [Rollback(step=11, to=5)]}, 5),  # 10 was given up
        ({"rollbacks": [Rollback(step=11, to=10)], "num_fruitless": 1}, 5),
        ({"rollbacks": [Rollback(step=11, to=5)], "num_fruitless": 1}, 5),  # the oldest there is
    ],
)
def test_where_it_goes_back_to(tmp_path, changes, to):
    """Of 5, 10, 12 (which an interruption left) and 15 (which lies ahead)."""
    fake_checkpoints(tmp_path, 5, 10, 12, 15)
    changes = dict(changes)
    if damaged := changes.pop("damaged", None):
        (tmp_path / f"step-{damaged:08d}" / "model.safetensors").write_bytes(b"?")
    state = RunState(**{"step": 14, "num_skipped_in_a_row": 1, **changes})
    config = TrainConfig(skip_limit=1, checkpoint_every=5, max_rollbacks=9)
    back = roll_back(state, config, tmp_path, load=lambda path: RunState(step=step_of(path)), restart=None)
    assert back == {"step": 14, "to": to, "rate_scale": 0.5}


def test_what_a_kill_left_is_nothing_to_go_back_to(recipe, path, undisturbed, monkeypatch):
    """Killed between a checkpoint and the deleting of those that are no longer kept."""
    with dies_at(loop, "prune_checkpoints", 4):
        run(recipe, path)
    assert steps(path) == [5, 10, 15, 20]
    monkeypatch.setattr(Trainer, "_train", lambda *a: loop.Outcome("", False, a[0].state))
    run(recipe, path)
    assert steps(path) == [10, 15, 20]


@pytest.mark.parametrize("setting", [{"skip_limit": 0}, {"rollback_factor": 0.0}, {"max_rollbacks": -1}])
def test_settings_that_make_no_sense(setting):
    with pytest.raises(RecipeError, match=next(iter(setting))):
        TrainConfig(**setting)


def test_a_store_says_where_its_pairs_stand(tmp_path):
    from transduce.batch.store import TokenStore, build_store

    pairs = [([5], [6])] * 6
    build_store(tmp_path / "s", pairs, vocab_size=9, fingerprint="", num_copies=2, lines=np.array([2, 3, 9]))
    assert TokenStore(tmp_path / "s").lines(np.array([0, 2, 3, 5])).tolist() == [2, 9, 2, 9]
    build_store(tmp_path / "s", pairs, vocab_size=9, fingerprint="", num_copies=2)
    assert TokenStore(tmp_path / "s").lines(np.array([0])) is None
