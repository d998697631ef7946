"""Exact resume (contract 4): n + k steps = n steps, a kill, a new start, k steps; bit for bit on CPU."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice

import pytest
from rich.console import Console

from digits import ROOT, TINY_SETTINGS, digit_pairs
from kills import dies_at
from same_run import contents, differences, events
from transduce import pipeline
from transduce.batch.order import BatchOrder, Position
from transduce.batch.store import TokenStore
from transduce.errors import CheckpointError, DataError, RecipeError
from transduce.pipeline import train
from transduce.recipe import load_recipe
from transduce.train import loop, precision, update
from transduce.train.parts import Parts

SETTINGS = [
    *TINY_SETTINGS,
    "model.dropout=0.2",
    "train.max_steps=24",
    "train.validate_every=8",
    "train.validate_sentences=10",
    "train.checkpoint_every=5",
    "train.log_every=4",
    "train.average_checkpoints=3",
    "train.accumulate=2",
    "train.workers=2",
    "data.holdout_pairs=40",
]


@pytest.fixture(scope="module")
def text(tmp_path_factory, write_pairs):
    return write_pairs(tmp_path_factory.mktemp("text") / "train", digit_pairs(600))


def recipe(text, *changes):
    data = {"source": str(text[0]), "target": str(text[1])}
    return load_recipe(overrides=[*SETTINGS, *changes], data=data)


def quiet():
    return Console(file=open(os.devnull, "w"), stderr=False)  # noqa: PTH123


def run(recipe, path):
    console = quiet()
    try:
        return train(recipe, path, console)
    finally:
        console.file.close()


@pytest.fixture(scope="module")
def undisturbed(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    assert run(recipe(text), path).finished
    return path


def run_and_kill(recipe, path, step):
    """Run until update `step` and die in the middle of it."""
    with dies_at(update, "train_step", step):
        run(recipe, path)


@pytest.mark.parametrize("killed_at", [1, 5, 9, 13, 24])
def test_a_killed_run_ends_as_if_it_never_was(text, tmp_path, undisturbed, killed_at):
    """Killed in the middle of an update, whatever had been logged since the last checkpoint."""
    run_and_kill(recipe(text), tmp_path / "run", killed_at)
    assert run(recipe(text), tmp_path / "run").finished
    assert differences(tmp_path / "run", undisturbed) == []


@pytest.mark.parametrize(
    ("room", "function", "call"),
    [
        (pipeline, "prepare", 1),
        (loop, "prune_checkpoints", 5),  # after the last checkpoint
        (loop, "validate", 3),
        (loop, "save_checkpoint", 5),
        (pipeline, "finish", 1),
        (pipeline, "write_model_directory", 1),
    ],
)
def test_killed_on_the_threshold_of_anything(text, tmp_path, undisturbed, room, function, call):
    """Between two things that belong together: saved and pruned, told and saved, trained and finished."""
    with dies_at(room, function, call):
        run(recipe(text), tmp_path / "run")
    assert run(recipe(text), tmp_path / "run").finished
    assert differences(tmp_path / "run", undisturbed) == []


def test_what_a_kill_left_behind_goes(text, tmp_path, undisturbed):
    """A killed process cannot tidy up; the next one does, wherever it was writing."""
    path = tmp_path / "run"
    for name in ("text/.tokenizer.model.ab12cd_9.tmp", ".recipe.toml.ab12cd_9.tmp"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("half")
    for name in (
        "store/.train.ab12cd_9.tmp",
        "checkpoints/.step-00000099.ab12cd_9.tmp",
        ".model.ab12cd_9.tmp",
    ):
        (path / name).mkdir(parents=True)
        (path / name / "half").write_text("half")
    shutil.rmtree(path / "checkpoints")  # training has not begun
    assert run(recipe(text), path).finished
    assert differences(path, undisturbed) == []


def test_the_last_score_is_in_the_last_checkpoint(text, tmp_path):
    """It is measured before the checkpoint that falls on the last update, though no validation was due."""
    run(recipe(text, "train.max_steps=10"), tmp_path / "run")
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-00000010" / "state.json").read_text())
    assert list(state["scores"]) == ["8", "10"]


def test_a_damaged_checkpoint_does_not_cost_the_good_one(text, tmp_path):
    """With one checkpoint kept, the damaged newest must not count as the one to keep."""
    path, one = tmp_path / "run", ["train.keep_checkpoints=1", "train.average_checkpoints=1"]
    one.append("train.validate_every=0")
    run(recipe(text, *one, "train.max_steps=5"), path)
    good = path / "checkpoints" / "step-00000005"
    shutil.copytree(good, path / "checkpoints" / "step-00000010")
    (path / "checkpoints" / "step-00000010" / "state.json").write_text("half")
    shutil.rmtree(path / "model")
    outcome = run(recipe(text, *one, "train.max_steps=5"), path)
    assert outcome.finished
    assert outcome.state.step == 5
    assert good.exists()


@pytest.mark.parametrize(
    "changes",
    [
        ["train.optimizer=muon", "train.weight_decay=0.1", "train.adam_rate_factor=0.5"],
        ["train.average=ema", "train.ema_decay=0.8"],
    ],
)
def test_whatever_else_moves_the_weights_goes_on_exactly(text, tmp_path, undisturbed, changes):
    """State that only some settings have is in the checkpoint as well; an average moves nothing."""
    settings = recipe(text, *changes)
    assert run(settings, tmp_path / "whole").finished
    run_and_kill(settings, tmp_path / "killed", 13)
    assert run(settings, tmp_path / "killed").finished
    assert differences(tmp_path / "killed", tmp_path / "whole") == []
    last = "checkpoints/step-00000024/optimizer.safetensors"
    same = contents(tmp_path / "whole")[last] == contents(undisturbed)[last]
    assert same == ("train.average=ema" in changes)


@pytest.mark.parametrize("stopped_at", [3, 10, 22])
def test_a_stopped_run_ends_as_if_it_never_was(text, tmp_path, undisturbed, monkeypatch, stopped_at):
    """Ctrl-C saves out of step; that checkpoint must not enter the average."""
    steps = 0
    original = update.train_step

    def interrupted(*arguments, **more):
        nonlocal steps
        steps += 1
        if steps == stopped_at:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **more)

    monkeypatch.setattr(update, "train_step", interrupted)
    outcome = run(recipe(text), tmp_path / "run")
    assert not outcome.finished
    assert outcome.state.step == stopped_at
    assert run(recipe(text), tmp_path / "run").finished
    assert differences(tmp_path / "run", undisturbed) == ["log.jsonl differs"]  # it tells of the stop
    assert [e for e in events(tmp_path / "run") if e["event"] != "stop"] == [
        e for e in events(undisturbed) if e["event"] != "stop"
    ]


def test_a_killed_run_with_r_drop_and_growing_batches_too(text, tmp_path, monkeypatch):
    """Dropout of both passes and the number of batches of an update follow from the checkpoint."""
    changes = [
        "train.max_steps=8",
        "train.average=none",
        "train.validate_sentences=0",
        "data.holdout_pairs=5",
    ]
    short = recipe(text, "train.r_drop=2.0", "train.accumulate_final=4", *changes)
    whole = run(short, tmp_path / "whole")
    order = BatchOrder(TokenStore(tmp_path / "whole/store/train"), short.batch, short.train.seed)
    num_walked = sum([2, 2, 2, 3, 3, 3, 4, 4])
    assert whole.state.position == list(islice(order.walk(Position()), num_walked))[-1][1]

    original = update.train_step
    left = iter(range(7))

    def dying(*arguments, **named):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return original(*arguments, **named)

    monkeypatch.setattr(update, "train_step", dying)
    with pytest.raises(KeyboardInterrupt):
        run(short, tmp_path / "run")
    monkeypatch.setattr(update, "train_step", original)
    assert run(short, tmp_path / "run").finished
    assert differences(tmp_path / "run", tmp_path / "whole") == []


def test_an_update_that_was_split_for_memory_is_split_again_after_a_kill(text, tmp_path, monkeypatch):
    """Memory ends once, at update 7; the run is killed at 9 and goes on from 5, with memory to spare."""
    from transduce.train import step

    original, original_step = step.accumulate_gradients, update.train_step
    killed, short = False, True

    class Killed(BaseException):
        pass

    def updating(*arguments, **more):
        if more["step"] == 9 and killed:
            raise Killed
        return original_step(*arguments, **more)

    def short_of_memory(model, batches, *arguments, draw, **more):
        largest = max(len(batch.rows) for batch in batches)
        if short and draw[1] == 7 and largest > 8:
            raise MemoryError
        return original(model, batches, *arguments, draw=draw, **more)

    monkeypatch.setattr(update, "train_step", updating)
    monkeypatch.setattr(step, "accumulate_gradients", short_of_memory)
    ten = recipe(text, "train.max_steps=10")
    assert run(ten, tmp_path / "whole").finished
    killed = True
    with pytest.raises(Killed):
        run(ten, tmp_path / "run")
    killed = short = False
    assert run(ten, tmp_path / "run").finished
    assert [entry["from_step"] for entry in json.loads((tmp_path / "run/parts.json").read_text())] == [1, 7]
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
    assert events(tmp_path / "run") == events(tmp_path / "whole")


def test_parts_that_were_fitted_stay_when_there_is_more_memory_later(text, tmp_path, monkeypatch):
    small = Parts(num_parts=1, part_tokens=100, num_workers=1)
    monkeypatch.setattr(update, "fit", lambda *arguments: (small, "memory: little"))
    run(recipe(text, "train.max_steps=5"), tmp_path / "run")
    monkeypatch.undo()
    console = quiet()
    train(recipe(text, "train.max_steps=8"), tmp_path / "run", console, allow_changes=True)
    console.file.close()
    record = json.loads((tmp_path / "run/parts.json").read_text())
    assert record == [{"from_step": 1, "num_parts": 1, "part_tokens": 100, "num_workers": 1}]
    smaller = replace(small, part_tokens=50)
    monkeypatch.setattr(update, "fit", lambda *arguments: (smaller, ""))
    console = quiet()
    train(recipe(text, "train.max_steps=11"), tmp_path / "run", console, allow_changes=True)
    console.file.close()
    record = json.loads((tmp_path / "run/parts.json").read_text())
    assert [(entry["from_step"], entry["part_tokens"]) for entry in record] == [(1, 100), (9, 50)]


def test_running_again_says_done_and_changes_nothing(text, tmp_path, undisturbed):
    before = contents(undisturbed)
    assert run(recipe(text), undisturbed) is None
    assert contents(undisturbed) == before


def test_text_that_changed_under_a_run_is_told(tmp_path, write_pairs):
    """Another vocabulary under the old weights would train on, and nobody would know."""
    files = write_pairs(tmp_path / "train", digit_pairs(600))
    loop_steps = "train.max_steps=5"
    run(recipe(files, loop_steps), tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")  # as if it had been stopped before the end
    before = contents(tmp_path / "run")
    write_pairs(tmp_path / "train", digit_pairs(600, seed=8))
    with pytest.raises(DataError, match=r"not what its training began with.*--allow-changes.*new --out"):
        run(recipe(files, loop_steps), tmp_path / "run")
    assert contents(tmp_path / "run") == before
    write_pairs(tmp_path / "train", digit_pairs(600))
    assert run(recipe(files, loop_steps), tmp_path / "run").finished


def test_a_second_process_is_kept_off(text, tmp_path):
    from filelock import FileLock

    (tmp_path / "run").mkdir()
    with (
        FileLock(tmp_path / "run" / ".lock"),
        pytest.raises(CheckpointError, match="another process is working on"),
    ):
        run(recipe(text), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_other_settings_are_refused_with_their_names(text, undisturbed):
    with pytest.raises(RecipeError, match=r"train\.max_steps: 24 → 25.*--allow-changes"):
        run(recipe(text, "train.max_steps=25"), undisturbed)
    with pytest.raises(RecipeError, match=r"another model or vocabulary \(model\.d_ff: 128 → 64"):
        run(recipe(text, "model.d_ff=64"), undisturbed)


def test_allowed_changes_go_on_from_where_it_was(text, tmp_path):
    path = tmp_path / "run"
    run(recipe(text, "train.max_steps=5"), path)
    console = quiet()
    outcome = train(recipe(text, "train.max_steps=8"), path, console, allow_changes=True)
    console.file.close()
    assert outcome.state.step == 8
    assert [e["step"] for e in events(path) if e["event"] == "stop"] == [5, 8]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_real_signal_to_a_real_process(text, tmp_path, undisturbed, sent):
    """SIGINT and SIGTERM save first and say how to go on; SIGKILL cannot. All end the same."""
    command = [sys.executable, "-c", "from transduce.cli import main; main()", "train"]
    command += ["--source", str(text[0]), "--target", str(text[1]), "--out", str(tmp_path / "run")]
    for setting in SETTINGS:
        command += ["--set", setting]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    log = tmp_path / "run" / "log.jsonl"
    while not (log.exists() and log.read_text()) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(sent)
    _, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    if sent is not signal.SIGKILL:
        stopped = f"stopped by {sent.name}; run the same command to go on" in err
        assert process.returncode == (130 if stopped else 0)  # it may just have finished
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    told = [] if sent is signal.SIGKILL or process.returncode == 0 else ["log.jsonl differs"]
    assert differences(tmp_path / "run", undisturbed) == told


def test_auto_precision_is_measured_once(text, tmp_path, monkeypatch):
    """A continued run keeps what was found, though the machine would now answer otherwise."""
    monkeypatch.setattr(precision, "half_precision_gain", lambda device: 5.0)
    short = recipe(text, "train.precision=auto", "train.max_steps=6", "train.validate_every=0")
    whole = tmp_path / "whole"
    assert run(short, whole).finished
    original = update.train_step

    def interrupted(*arguments, **more):
        result = original(*arguments, **more)
        if more["step"] == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(update, "train_step", interrupted)
        assert not run(short, tmp_path / "run").finished
    monkeypatch.setattr(precision, "half_precision_gain", lambda device: 0.1)
    assert run(short, tmp_path / "run").finished
    assert differences(tmp_path / "run", whole) == ["log.jsonl differs"]  # it tells of the stop


@pytest.mark.slow
def test_the_script_that_kills_fifty_times(tmp_path):
    """Three trials of it; the fifty are run by hand."""
    script = ROOT / "benchmarks" / "resume" / "kill_fifty.py"
    command = [sys.executable, script, "--kills", "3", "--seed", "2", "--work", tmp_path / "work"]
    command += ["--set", "train.max_steps=9", "--set", "train.validate_every=4"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr
    line = json.loads(result.stdout.splitlines()[-1])
    assert line["equal"] == line["trials"] == 3
    assert line["processes_killed"] >= 3
    assert [path.name for path in (tmp_path / "work").glob("trial-*")] == []


@pytest.mark.parametrize(
    "mistake",
    [
        "train.max_steps=9",
        "tokenizer.vocab_size=300",
        "model.d_ff=64",
        "data.holdout_pairs=20",
        "train.workers=1",
    ],
)
def test_before_a_checkpoint_other_settings_begin_anew(text, tmp_path, undisturbed, mistake):
    """The first command had a mistake and died in the fifth update: nobody needs another --out."""
    run_and_kill(recipe(text, mistake), tmp_path / "run", 5)
    assert events(tmp_path / "run")
    assert run(recipe(text), tmp_path / "run").finished
    assert differences(tmp_path / "run", undisturbed) == []


def test_text_too_small_to_begin_with_does_not_take_the_directory(text, tmp_path, write_pairs, undisturbed):
    too_few = write_pairs(tmp_path / "few", digit_pairs(3))
    with pytest.raises(DataError, match=r"too few clean pairs \(\d+\) to hold any out"):
        run(recipe(too_few), tmp_path / "run")
    assert run(recipe(text), tmp_path / "run").finished
    assert differences(tmp_path / "run", undisturbed) == []
