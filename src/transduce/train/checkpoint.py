"""A run's saved state: whole or absent, checksummed, readable without pickle.

    checkpoints/step-00001200/
        model.safetensors       every parameter once
        average.safetensors     their moving average, with `train.average = "ema"`
        optimizer.safetensors   Adam's moments, and the random generators' states
        state.json              step, data position, best score, … (`RunState`)
        SHA256SUMS              of all these, in the form of `sha256sum -c`

The newest checkpoint whose sums agree is the one a run goes on from; a damaged one is passed over
and named. Everything that decides the next update is here, so that a continued run repeats the
undisturbed one bit for bit on CPU (contract 4).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from transduce.batch.order import Position
from transduce.errors import CheckpointError
from transduce.files import atomic_directory, file_sha256, written_or
from transduce.model.transformer import Transformer
from transduce.train.average import MovingAverage
from transduce.train.config import Precision, TrainConfig

__all__ = [
    "CLOCKED_FIELDS",
    "Rollback",
    "RunState",
    "Window",
    "average_checkpoints",
    "best_checkpoints",
    "choose_checkpoints",
    "finished_weights",
    "is_damaged",
    "list_checkpoints",
    "load_checkpoint",
    "newest_good_checkpoint",
    "prune_checkpoints",
    "save_checkpoint",
    "step_of",
]

CLOCKED_FIELDS = frozenset({"seconds", "update_seconds", "energy_joules", "peak_flops", "peak_memory_mb"})
"""Fields of `RunState` and `Window` in which two equal runs differ: clock and meters."""

_NAME = re.compile(r"step-(\d{8,})")
_FILES = ("model.safetensors", "optimizer.safetensors", "state.json")
_AVERAGE = "average.safetensors"


@dataclass(kw_only=True)
class Window:
    """Sums since the last log line; saved, so that a continued run logs the same means."""

    loss: float = 0.0
    nll: float = 0.0
    num_source_tokens: int = 0
    num_target_tokens: int = 0
    num_cells: int = 0
    flops: int = 0
    seconds: float = 0.0
    grad_norm: float = 0.0
    """Of the latest update."""


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """The run went back to older weights (`recovery`)."""

    step: int
    """The last update before it; the next one is `step` + 1, whatever the weights."""
    to: int
    """Step of the checkpoint it went back to; 0 means the initial weights."""


@dataclass(kw_only=True)
class RunState:
    """Where a run stands; the numbers beside the tensors."""

    step: int = 0
    """Updates done."""
    position: Position = field(default_factory=Position)
    """The next batch."""
    seconds: float = 0.0
    """Training time so far, interruptions not counted."""
    num_source_tokens: int = 0
    """Real source tokens trained on."""
    num_target_tokens: int = 0
    """Real target tokens trained on."""
    precision: Precision | None = None
    """What `auto` became at the run's beginning; None where it was not asked for."""
    num_updates: int = 0
    """Updates that the weights have behind them: neither left out nor lost by going back."""
    num_skipped: int = 0
    """Updates left out because the loss or the gradient was not finite."""
    num_skipped_in_a_row: int = 0
    """Of these, the latest without a finite one between them."""
    rollbacks: list[Rollback] = field(default_factory=list)
    """Each time the run went back to older weights."""
    num_fruitless: int = 0
    """Of these, how many since the last checkpoint that was due."""
    num_lost: int = 0
    """Updates that are not in the weights because the run went back; the schedule does not count them."""
    rate_scale: float = 1.0
    """What the schedule's rate is multiplied by; lower after the run went back."""
    best_score: float | None = None
    """Best value of the stop metric (higher is better; a loss is negated)."""
    best_step: int = 0
    """When it was reached."""
    num_stale: int = 0
    """Validations since then."""
    scores: dict[str, float] = field(default_factory=dict)
    """Stop metric at each validated step (keys are steps, as JSON wants text)."""
    window: Window = field(default_factory=Window)
    """What the next log line will tell."""
    flops: int = 0
    """Model FLOPs of all updates (train/flops.py)."""
    update_seconds: float = 0.0
    """The part of `seconds` that went into updates; the rest is validation."""
    energy_joules: float = 0.0
    """What the machine took during training, where it tells."""
    energy_source: str = ""
    """Which parts of the machine that counts; empty when it does not tell."""
    peak_flops: float = 0.0
    """FLOP/s of plain matrix products on the last machine; 0 when not measured yet."""
    peak_memory_mb: int = 0
    """Most memory that the process ever held."""
    machines: list[str] = field(default_factory=list)
    """What the run was trained on, in order."""
    text: str = ""
    """Fingerprint of the text that `position` and `scores` belong to."""

    def go_on_with(self, text: str) -> None:
        """Begin a pass over other text than before: scores on the old validation text no longer count."""
        if self.text and self.text != text:
            begun = self.position.batch > 0
            self.position = Position(self.position.epoch + begun, 0)
            self.best_score, self.best_step, self.num_stale = None, 0, 0
            self.scores = {}
        self.text = text

    def gave_up(self, step: int) -> bool:
        """Whether the weights after `step` were given up when the run went back to older ones."""
        return any(rollback.to < step < rollback.step for rollback in self.rollbacks)


def save_checkpoint(
    directory: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    state: RunState,
    average: MovingAverage | None = None,
) -> Path:
    """Write `step-N` under `directory`, atomically; return its path.

    Raises:
        CheckpointError: the disk is full or not writable; earlier checkpoints are untouched.
    """
    path = directory / f"step-{state.step:08d}"
    contents = {
        "model.safetensors": save({n: t.contiguous() for n, t in model.tensors().items()}),
        "optimizer.safetensors": save(_optimizer_tensors(model, optimizer) | _random_states()),
        "state.json": json.dumps(asdict(state), indent=2).encode() + b"\n",
    }
    if average is not None:
        contents[_AVERAGE] = save({n: t.contiguous() for n, t in average.tensors().items()})
    what = f"the checkpoint of step {state.step} could not be written to {directory} (earlier ones are whole)"
    with written_or(CheckpointError, what), atomic_directory(path) as temporary:
        for name, content in contents.items():
            (temporary / name).write_bytes(content)
        sums = "".join(f"{file_sha256(temporary / name)}  {name}\n" for name in contents)
        (temporary / "SHA256SUMS").write_text(sums, encoding="ascii")
    return path


def load_checkpoint(
    path: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage | None = None,
) -> RunState:
    """Put model, optimizer, average and random generators back as they were saved.

    An average that was not saved (`train.average` was another then) begins with the weights.

    Raises:
        ModelError: the weights belong to another configuration.
        CheckpointError: a file cannot be read.
    """
    try:
        model.load_tensors(load_file(path / "model.safetensors"))
        saved = load_file(path / "optimizer.safetensors")
        if average is not None:
            average.restart(load_file(path / _AVERAGE) if (path / _AVERAGE).exists() else None)
        state = _read_state(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); delete it to go on from an earlier one"
        ) from error
    _restore_random_states(saved)
    _restore_optimizer(model, optimizer, saved)
    return state


def list_checkpoints(directory: Path) -> list[Path]:
    """All checkpoints, oldest first, whether whole or not."""
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=step_of)


def newest_good_checkpoint(directory: Path, report: Callable[[str], None]) -> Path | None:
    """The newest checkpoint whose checksums agree; each damaged one is reported and passed over."""
    for path in reversed(list_checkpoints(directory)):
        problem = is_damaged(path)
        if problem is None:
            return path
        report(f"checkpoint {path.name} is damaged ({problem}) and is passed over")
    return None


def prune_checkpoints(
    directory: Path,
    keep: int,
    every: int,
    keep_steps: Sequence[int] = (),
    *,
    state: RunState | None = None,
) -> None:
    """Delete what is no longer wanted, and what a kill left behind.

    Args:
        directory: of the checkpoints.
        keep: how many of the newest that were due stay, and the newest of all.
        every: updates between two; an older one out of step was made by an interruption, and would
            make the average another than the undisturbed run's.
        keep_steps: steps that stay besides.
        state: names the steps that were given up; their checkpoints go.
    """
    *older, newest = list_checkpoints(directory)
    lost = {path for path in older if state is not None and state.gave_up(step_of(path))}
    regular = [path for path in (*older, newest) if step_of(path) % every == 0 and path not in lost]
    wanted = {newest, *regular[max(0, len(regular) - keep) :]}
    wanted |= {path for path in older if step_of(path) in keep_steps} - lost
    for path in older:
        if path not in wanted:
            shutil.rmtree(path)
    for leftover in directory.glob(".step-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def choose_checkpoints(directory: Path, config: TrainConfig, state: RunState) -> list[Path]:
    """The checkpoints that `train.average` asks for, oldest first; for `ema` and `none`, the best one.

    Without validated checkpoints, best means newest.

    Raises:
        CheckpointError: no checkpoint holds the moving average that is asked for.
    """
    paths = _candidates(directory, config, state)
    if config.average == "ema" and not paths:
        raise CheckpointError(
            f"no checkpoint in {directory} holds a moving average, since train.average was another when "
            f'they were made: raise train.max_steps to train on with "ema", or choose last, best or none'
        )
    best = best_checkpoints(directory, config, state)
    if config.average == "last" or not best:
        return paths[-config.average_checkpoints if config.average in ("last", "best") else -1 :]
    return sorted(best, key=step_of)


def best_checkpoints(directory: Path, config: TrainConfig, state: RunState) -> list[Path]:
    """The validated checkpoints with the best scores, best first; of equals the older.

    As many as `average = best` wants; else one.
    """
    count = config.average_checkpoints if config.average == "best" else 1
    candidates = _candidates(directory, config, state)
    scored = [path for path in candidates if str(step_of(path)) in state.scores]
    return sorted(scored, key=lambda path: -state.scores[str(step_of(path))])[:count]


def _candidates(directory: Path, config: TrainConfig, state: RunState) -> list[Path]:
    """The checkpoints that the finished model can come from, oldest first."""
    paths = [path for path in list_checkpoints(directory) if not state.gave_up(step_of(path))]
    return [path for path in paths if config.average != "ema" or (path / _AVERAGE).exists()]


def finished_weights(paths: Sequence[Path], config: TrainConfig) -> dict[str, Tensor]:
    """What the finished model is made of: the mean of checkpoints, or the moving average in one.

    Args:
        paths: from `choose_checkpoints`.
        config: the same.

    Raises:
        CheckpointError: as `average_checkpoints`.
    """
    return average_checkpoints(paths, _AVERAGE if config.average == "ema" else "model.safetensors")


def average_checkpoints(paths: Sequence[Path], file: str = "model.safetensors") -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, summed in float64 (paper, section 6.1; TRAPS 31).

    Raises:
        CheckpointError: there are none, or their weights have different names or shapes.
    """
    if not paths:
        raise CheckpointError("there is no checkpoint to average")
    sums: dict[str, Tensor] = {}
    for path in paths:
        tensors = load_file(path / file)
        if sums and _shapes(sums) != _shapes(tensors):
            raise CheckpointError(f"{path} has other weights than {paths[0]}: they cannot be averaged")
        for name, tensor in tensors.items():
            sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    return {name: (total / len(paths)).float() for name, total in sums.items()}


def _read_state(path: Path) -> RunState:
    raw: dict[str, Any] = json.loads((path / "state.json").read_text(encoding="utf-8"))
    nested = {
        "position": Position(**raw["position"]),
        "window": Window(**raw["window"]),
        "rollbacks": [Rollback(**rollback) for rollback in raw.get("rollbacks", [])],
    }
    raw.setdefault("num_updates", raw["step"] - raw["num_skipped"])  # not yet counted by older versions
    return RunState(**{**raw, **nested})


def step_of(path: Path) -> int:
    """The update after which a checkpoint was saved."""
    match = _NAME.fullmatch(path.name)
    assert match is not None, f"{path} is not named like a checkpoint"
    return int(match[1])


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def is_damaged(path: Path) -> str | None:
    """What is wrong with a checkpoint, in a few words; None when its checksums agree."""
    try:
        lines = (path / "SHA256SUMS").read_text(encoding="ascii").splitlines()
        sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
        for name in sorted({*_FILES, *sums}):
            if sums.get(name) != file_sha256(path / name):
                return f"{name} does not match its checksum"
    except (OSError, ValueError) as error:
        return str(error)
    return None


def _optimizer_tensors(model: Transformer, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's state under readable names: `exp_avg/encoder.layers.0.…`."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = torch.as_tensor(value).contiguous()
    return tensors


def _restore_optimizer(
    model: Transformer, optimizer: torch.optim.Optimizer, saved: Mapping[str, Tensor]
) -> None:
    states: dict[str, dict[str, Tensor]] = {}
    for full_name, tensor in saved.items():
        key, _, name = full_name.partition("/")
        states.setdefault(name, {})[key] = tensor
    for name, parameter in model.named_parameters():
        if name in states:
            optimizer.state[parameter] = {
                # Adam counts its steps on the host; the moments live beside the weights.
                key: tensor.clone() if key == "step" else tensor.to(parameter.device, copy=True)
                for key, tensor in states[name].items()
            }


def _random_states() -> dict[str, Tensor]:
    """The generators that training draws from; on the CPU, dropout is drawn anew from seed and step."""
    return {f"random/cuda{i}": torch.cuda.get_rng_state(i) for i in range(torch.cuda.device_count())}


def _restore_random_states(saved: Mapping[str, Tensor]) -> None:
    for index in range(torch.cuda.device_count()):
        if f"random/cuda{index}" in saved:
            torch.cuda.set_rng_state(saved[f"random/cuda{index}"], index)
