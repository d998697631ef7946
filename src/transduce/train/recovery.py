"""What a run does about updates that are not finite: name their text, and go back when they do not end.

A loss or gradient that is NaN or infinite never reaches the weights (`step`). After `skip_limit` such
updates in a row the weights themselves are suspect, or the rate is too high for them:

    weights, optimizer, random generators, best score    as the checkpoint has them
    step, position in the text, totals                   go on: the text that failed is not met again
    rate                                                 times `rollback_factor`, from here on
    schedule                                             goes on where the checkpoint's was (`num_lost`)

The first time the newest checkpoint that was due before the trouble is taken: bad numbers were kept
out of it, so it is mostly good, and the least is lost. When trouble comes again before a new one was
due, those weights were bad already, and the one before them is taken, and so on. Without any
checkpoint, training begins anew, with the initial weights.

Steps never go back, so the log is true as it stands, and every run comes to its end. Going back
writes nothing: the next checkpoint that is due seals it. Killed before, the run meets the same
trouble again and goes the same way; and when going back does not help, everything from before the
trouble is still there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from transduce.errors import CheckpointError
from transduce.train.checkpoint import Rollback, RunState, is_damaged, list_checkpoints, step_of
from transduce.train.config import TrainConfig
from transduce.train.log import Fields

if TYPE_CHECKING:
    from transduce.batch.collate import Batch
    from transduce.batch.store import TokenStore
    from transduce.train.step import StepResult

__all__ = ["checkpoint_is_wanted", "in_trouble", "roll_back", "skip_fields"]


def in_trouble(state: RunState) -> bool:
    """Whether the run may have to go back, or further back, before it has made a good checkpoint."""
    return state.num_skipped_in_a_row > 0 or state.num_fruitless > 0


def checkpoint_is_wanted(state: RunState) -> bool:
    """Whether a checkpoint that is due now should be made; after going back, a good one ends the trouble.

    What is saved between going back and the next finite update would stand in the way of those who
    must begin again from before the trouble.
    """
    went_back_now = bool(state.rollbacks) and state.rollbacks[-1].step == state.step
    if state.num_skipped_in_a_row == 0 and not went_back_now:
        state.num_fruitless = 0
    return state.num_fruitless == 0


def skip_fields(state: RunState, group: Sequence[Batch], result: StepResult, store: TokenStore) -> Fields:
    """The log's event for an update that was left out; call it after counting.

    `lines` are the pairs' lines in the training text; `rows` those of the store, where it was made
    without them.
    """
    rows = np.sort(np.concatenate([batch.rows for batch in group]))
    lines = store.lines(rows)
    return {
        "step": state.step,
        "epoch": state.position.epoch,
        "what": "gradient" if math.isfinite(result.loss) else "loss",
        "in_a_row": state.num_skipped_in_a_row,
        "lines" if lines is not None else "rows": (rows if lines is None else np.sort(lines)).tolist(),
    }


def roll_back(
    state: RunState,
    config: TrainConfig,
    directory: Path,
    *,
    load: Callable[[Path], RunState],
    restart: Callable[[], None],
) -> Fields:
    """Go back to older weights and change `state` to match; return the log's event.

    Args:
        state: of the run, `skip_limit` updates that were not finite behind it.
        config: how often the run may go back, and with what rate.
        directory: of the checkpoints.
        load: puts weights, optimizer and random generators as a checkpoint has them.
        restart: puts them as they were before the first update.

    Raises:
        CheckpointError: `max_rollbacks` did not help.
    """
    if state.num_fruitless >= config.max_rollbacks:
        raise CheckpointError(_given_up(state, config))
    path = _choose(state, config, directory)
    if path is None:
        restart()
        saved = RunState()
    else:
        saved = load(path)
        saved.go_on_with(state.text)  # scores on other text do not count
    state.best_score, state.best_step, state.num_stale = saved.best_score, saved.best_step, saved.num_stale
    state.scores = saved.scores
    state.num_updates = saved.num_updates
    state.num_lost = state.step - (saved.step - saved.num_lost)
    state.rollbacks.append(Rollback(step=state.step, to=saved.step))
    state.num_fruitless += 1
    state.num_skipped_in_a_row = 0
    state.rate_scale *= config.rollback_factor
    return {"step": state.step, "to": saved.step, "rate_scale": state.rate_scale}


def _choose(state: RunState, config: TrainConfig, directory: Path) -> Path | None:
    """The checkpoint to go back to; None for the initial weights.

    Only those that were due count: one that an interruption left would lead the interrupted run
    another way than the undisturbed one.
    """
    last_finite = state.step - state.num_skipped_in_a_row
    good = [
        path
        for path in reversed(list_checkpoints(directory))
        if step_of(path) % config.checkpoint_every == 0
        and step_of(path) <= last_finite
        and not state.gave_up(step_of(path))
        and is_damaged(path) is None
    ]
    if not state.num_fruitless:
        return good[0] if good else None
    older = [path for path in good if step_of(path) < state.rollbacks[-1].to]
    return older[0] if older else (good[-1] if good else None)


def _given_up(state: RunState, config: TrainConfig) -> str:
    """What to say when going back does not help."""
    first = state.step - state.num_skipped_in_a_row + 1
    tried = ""
    if count := state.num_fruitless:
        back = ", ".join(str(rollback.to) for rollback in state.rollbacks[-count:])
        times = "once" if count == 1 else f"{count} times"
        tried = f", although training went back {times} (to step {back}) and on with a lower rate"
    return (
        f"the loss or gradient was not finite {config.skip_limit} times in a row (train.skip_limit), from "
        f"step {first} on{tried}: the checkpoints from before are whole; look at the lines of text that the "
        f"skip events of log.jsonl name, or lower train.learning_rate, and run again"
    )
