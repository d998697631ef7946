"""The training loop: batches in, weights out, nothing lost on the way.

It goes on from the newest good checkpoint by itself, validates, saves, stops early and says why.
A first Ctrl-C or SIGTERM finishes the update, saves and returns; a second one breaks off.
Knows: model, batches, callables. Does not know: text, search, scores, HTTP.
"""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.batch.collate import Batch, SpecialIds
from transduce.batch.order import BatchOrder, Position
from transduce.batch.store import TokenStore
from transduce.errors import CheckpointError, TransduceError
from transduce.files import written_or
from transduce.model.transformer import Transformer
from transduce.train.average import MovingAverage
from transduce.train.checkpoint import (
    RunState,
    Window,
    best_checkpoints,
    list_checkpoints,
    load_checkpoint,
    newest_good_checkpoint,
    prune_checkpoints,
    save_checkpoint,
    step_of,
)
from transduce.train.config import Precision, TrainConfig
from transduce.train.costs import Costs
from transduce.train.history import LOWER_IS_BETTER
from transduce.train.log import Display, RunLog
from transduce.train.optimizer import make_optimizer, set_rate
from transduce.train.parts import PartsRecord
from transduce.train.precision import choose_precision
from transduce.train.recovery import checkpoint_is_wanted, in_trouble, roll_back, skip_fields
from transduce.train.schedule import learning_rate, num_batches
from transduce.train.signals import StopWish, stop_signals
from transduce.train.step import StepResult
from transduce.train.update import Updater
from transduce.train.validate import Validator, cut_batches, validate

__all__ = ["Outcome", "Trainer"]

_WORST = -sys.float_info.max  # a score of weights whose validation is not finite


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    reason: str
    """In words, for the log and the person."""
    finished: bool
    """False after a signal: the same command goes on."""
    state: RunState


class Trainer:
    """One run: its model, its data, its directory."""

    def __init__(
        self,
        model: Transformer,
        store: TokenStore,
        order: BatchOrder,
        ids: SpecialIds,
        config: TrainConfig,
        directory: Path,
        *,
        validation: Sequence[Batch],
        validator: Validator | None,
        parts: PartsRecord,
        remake: Callable[[], Transformer],
        display: Display,
    ) -> None:
        """Prepare a run, or one that goes on.

        Args:
            model: freshly initialised; a checkpoint's weights replace it.
            store: training pairs.
            order: their batches.
            ids: pad, start and end symbol.
            config: how to train.
            directory: of the run; `checkpoints/`, `log.jsonl` and `tensorboard/` are kept there.
            validation: batches for the validation loss.
            validator: figures from real decoding; None for none.
            parts: how each batch is cut and shared by threads.
            remake: makes `model` once more as it was given, for a run that must go back and has no
                checkpoint.
            display: where progress is shown.
        """
        self.model = model
        self.config = config
        self._store, self._order, self._ids = store, order, ids
        self._validation, self._validator = validation, validator
        self._directory = directory
        self._checkpoints = directory / "checkpoints"
        self._remake = remake
        self._display = display
        self._optimizer = make_optimizer(model, config)
        self._average = MovingAverage(model, config.ema_decay) if config.average == "ema" else None
        self._updater = Updater(model, self._optimizer, store, order, ids, config, parts, display.message)
        self._costs = Costs(model, config, ids.pad_id)
        self.state = RunState()
        self._saved_step = -1
        self._rate = 0.0
        self._precision: Precision = "float32"
        self._begun = 0.0, 0.0
        """Seconds and share of the run that were over when this process took it up."""

    def run(self) -> Outcome:
        """Train until a limit, early stopping or a signal.

        Raises:
            CheckpointError: saved state cannot be read or written, the gradient stays infinite, or an
                update or a validation broke off; what was saved is whole.
            RecipeError: the longest pair does not fit into `train.memory`.
        """
        with closing(self._display):
            with written_or(CheckpointError, f"there is no place for checkpoints in {self._directory}"):
                self._checkpoints.mkdir(parents=True, exist_ok=True)  # told now, not after an hour
            self._resume()
            parts = self._updater.fit(self.state.step + 1, self._validation, self._precision)
            self._validation = cut_batches(self._validation, parts.part_tokens, self._ids.pad_id)
            with (
                self._updater.at_work(parts),
                RunLog(self._directory, self._display, from_step=self.state.step) as log,
                stop_signals() as wish,
            ):
                self._costs.begin(self.state, self._precision, self._updater.workers)
                self._begun = self.state.seconds, self._share_done()
                try:
                    outcome = self._train(log, wish)
                except (TransduceError, OSError):
                    raise
                except Exception as error:
                    raise CheckpointError(self._broke_off(log, error)) from error
                log.event("stop", {"step": self.state.step, "reason": outcome.reason})
        return outcome

    def _resume(self) -> None:
        """Take up the newest good checkpoint, if there is one."""
        path = newest_good_checkpoint(self._checkpoints, self._display.message)
        if path is not None:
            self.state = self._load(path)
            self._saved_step = self.state.step
            if path == list_checkpoints(self._checkpoints)[-1]:  # else what it would keep is damaged
                self._prune()  # a kill may have left more than the undisturbed run has to go back to
            self._display.message(f"going on from step {self.state.step}")
        self.state.go_on_with(self._store.info.fingerprint)
        self._precision = self._settled_precision()

    def _settled_precision(self) -> Precision:
        """The configured precision; `auto` is measured once, and a continued run keeps what came out."""
        if self.config.precision != "auto":
            return self.config.precision
        if self.state.precision is None:
            self.state.precision = choose_precision("auto", self.model.source_embedding.weight.device)
            self._display.message(f"matrix products are computed in {self.state.precision}")
        return self.state.precision

    def _load(self, path: Path) -> RunState:
        """Put everything that is trained as a checkpoint has it."""
        self._optimizer.state.clear()  # a parameter without saved moments has none
        return load_checkpoint(path, self.model, self._optimizer, self._average)

    def _restart(self) -> None:
        """Put everything that is trained as it was before the first update."""
        self._optimizer.state.clear()
        self.model.load_tensors(self._remake().tensors())
        if self._average is not None:
            self._average.restart()

    def _train(self, log: RunLog, wish: StopWish) -> Outcome:
        """The loop itself."""
        state = self.state
        self.model.train()
        batches = self._batches(state.position)
        while (reason := self._reason_to_stop()) is None and not wish.stop:
            result, group = self._update(*next(batches))
            if result.skipped:
                self._recover(group, result, log)
            self._milestones(log)
        if reason is not None and str(state.step) not in state.scores:
            self._validate(log)
        if self._saved_step != state.step:
            self._save(log)
        if reason is None:
            return Outcome(f"stopped by {wish.name}; run the same command to go on", False, state)
        self._prune(over=True)
        return Outcome(reason, True, state)

    def _update(
        self, batches: Sequence[NDArray[np.int64]], after: Position
    ) -> tuple[StepResult, list[Batch]]:
        """One update of the weights, counted and timed."""
        state, started = self.state, time.monotonic()
        updates = state.step - state.num_lost
        rate = learning_rate(updates + 1, self._share_done(), self.config, self.model.config.d_model)
        self._rate = rate * state.rate_scale
        set_rate(self._optimizer, self._rate)
        result, group = self._updater.update(state.step + 1, batches)
        state.step += 1
        state.position = after
        seconds = time.monotonic() - started
        self._costs.count(state, group, seconds)
        self._count(result, seconds)
        if self._average is not None and not result.skipped:
            self._average.update(state.num_updates)
        return result, group

    def _recover(self, group: Sequence[Batch], result: StepResult, log: RunLog) -> None:
        """Tell of an update that was not finite, and go back when there were too many in a row."""
        state, config = self.state, self.config
        log.event("skip", skip_fields(state, group, result, self._store))
        if state.num_skipped_in_a_row >= config.skip_limit:
            back = roll_back(state, config, self._checkpoints, load=self._load, restart=self._restart)
            log.event("rollback", back)

    def _broke_off(self, log: RunLog, error: Exception) -> str:
        """What to say of an error that nobody foresaw; the log keeps where it came from."""
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
        trace = "".join(traceback.format_exception(error))
        log.event("crash", {"step": self.state.step, "error": what, "trace": trace})
        saved = f"step {self._saved_step}" if self._saved_step >= 0 else "the beginning"
        return (
            f"training broke off after step {self.state.step} ({what}): nothing saved is lost, and the same "
            f"command goes on from {saved}; the last line of log.jsonl says where it came from"
        )

    def _count(self, result: StepResult, seconds: float) -> None:
        """Add an update to the run's totals and to the sums of the next log line."""
        state, window = self.state, self.state.window
        if result.skipped:  # its figures are no numbers, and would spoil the sums
            state.num_skipped += 1
            state.num_skipped_in_a_row += 1
            state.seconds += seconds
            window.seconds += seconds
            return
        state.num_skipped_in_a_row = 0
        state.num_updates += 1
        window.grad_norm = result.grad_norm
        window.loss += result.loss
        window.nll += result.nll
        window.num_cells += result.num_cells
        for total in (state, window):
            total.num_source_tokens += result.num_source_tokens
            total.num_target_tokens += result.num_target_tokens
            total.seconds += seconds

    def _milestones(self, log: RunLog) -> None:
        """What comes due after an update: a log line, a validation, a checkpoint."""
        step, config = self.state.step, self.config
        if step % config.log_every == 0 and self.state.window.num_target_tokens:
            log.event("train", self._figures())
            self.state.window = Window()
        due = config.validate_every and step % config.validate_every == 0
        if due or self._reason_to_stop() is not None:  # before it is saved: the last score belongs to it
            self._validate(log)
        if step % config.checkpoint_every == 0 and checkpoint_is_wanted(self.state):
            self._save(log)

    def _batches(self, position: Position) -> Iterator[tuple[list[NDArray[np.int64]], Position]]:
        """The store rows of each of an update's batches, with the position after them."""
        walk = self._order.walk(position)
        while True:
            taken = list(islice(walk, num_batches(self._share_done(), self.config)))
            yield [rows for rows, _ in taken], taken[-1][1]

    def _reason_to_stop(self) -> str | None:
        """Why training is over, or None while it is not."""
        state, config = self.state, self.config
        if config.max_steps and state.step >= config.max_steps:
            return f"train.max_steps reached ({config.max_steps})"
        if config.max_epochs and state.position.epoch >= config.max_epochs:
            return f"train.max_epochs reached ({config.max_epochs})"
        if config.max_minutes and state.seconds >= 60 * config.max_minutes:
            return f"train.max_minutes reached ({config.max_minutes:g})"
        if (reached := self._target_reached()) is not None:
            return reached
        if config.patience and state.num_stale >= config.patience:
            return (
                f"no better {config.stop_metric} for {state.num_stale} validations "
                f"(train.patience); the best was at step {state.best_step}"
            )
        return None

    def _target_reached(self) -> str | None:
        """That `stop_at` was reached, in words; None while it was not."""
        stop_at, metric, best = self.config.stop_at, self.config.stop_metric, self.state.best_score
        falls = metric in LOWER_IS_BETTER  # scores are negated then
        if not stop_at or best is None or best < (-stop_at if falls else stop_at):
            return None
        return f"train.stop_at reached ({metric} {abs(best):.4g} {'≤' if falls else '≥'} {stop_at:g})"

    def _validate(self, log: RunLog) -> None:
        """Measure the weights, or their moving average; remember the best, count the stale."""
        started = time.monotonic()
        with self._average.in_place() if self._average is not None else nullcontext():
            figures = validate(self.model, self._validation, self._validator, self.config.label_smoothing)
        state = self.state
        state.seconds += time.monotonic() - started
        self._costs.look(state)
        metric = self.config.stop_metric if self.config.stop_metric in figures else "loss"
        score = -figures[metric] if metric == "loss" else figures[metric]
        score = score if math.isfinite(score) else _WORST
        state.scores[str(state.step)] = score
        if state.best_score is None or score > state.best_score:
            state.best_score, state.best_step, state.num_stale = score, state.step, 0
        else:
            state.num_stale += 1
        log.event("validate", {"step": state.step, **figures, "seconds": round(state.seconds, 1)})

    def _save(self, log: RunLog) -> None:
        log.flush()  # what a checkpoint follows from is not told again
        self._costs.look(self.state)
        save_checkpoint(self._checkpoints, self.model, self._optimizer, self.state, self._average)
        self._saved_step = self.state.step
        self._prune()

    def _prune(self, *, over: bool = False) -> None:
        """Delete what is not wanted, or a kill left; in trouble that is known when training is `over`."""
        if in_trouble(self.state) and not over:
            return
        config = self.config
        best = [step_of(path) for path in best_checkpoints(self._checkpoints, config, self.state)]
        every = config.checkpoint_every
        prune_checkpoints(self._checkpoints, config.keep_checkpoints, every, best, state=self.state)

    def _figures(self) -> dict[str, float | str]:
        """The training event: means since the last one."""
        state, window = self.state, self.state.window
        labels = window.num_target_tokens
        tokens = labels + window.num_source_tokens
        nll = window.nll / labels
        figures: dict[str, float | str] = {
            "step": state.step,
            "epoch": state.position.epoch,
            "loss": window.loss / labels,
            "nll": nll,
            "perplexity": math.exp(min(nll, 100.0)),
            "learning_rate": self._rate,
            "grad_norm": window.grad_norm,
            "tokens_per_second": tokens / window.seconds,
            "padding": 1 - tokens / window.num_cells,
            "seconds": round(state.seconds, 1),
            "skipped": state.num_skipped,
            **self._costs.figures(state),
        }
        done = self._share_done()
        if done > 0:
            figures["done"] = done
        seconds, share = self._begun
        if done > share:  # by this process's pace: the one before may have had another machine
            figures["eta_seconds"] = round((state.seconds - seconds) * (1 - done) / (done - share), 1)
        return figures

    def _share_done(self) -> float:
        """How much of the run is over, by the limit that comes first."""
        config, state = self.config, self.state
        shares = [0.0]
        if config.max_steps:
            shares.append(state.step / config.max_steps)
        if config.max_epochs:
            shares.append(state.position.epoch / config.max_epochs)
        if config.max_minutes:
            shares.append(state.seconds / (60 * config.max_minutes))
        return min(1.0, max(shares))
