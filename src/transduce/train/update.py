"""Updates in parts that fit into memory: decided at the start, mended where memory ends nevertheless."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.batch.collate import Batch, SpecialIds, collate
from transduce.batch.order import BatchOrder
from transduce.batch.store import TokenStore
from transduce.model.transformer import Transformer
from transduce.train.config import Precision, TrainConfig
from transduce.train.fit import Budget, Load, find_budget, fit
from transduce.train.memory import give_back_freed_memory, resident_bytes
from transduce.train.parallel import Workers
from transduce.train.parts import Parts, PartsRecord
from transduce.train.step import StepResult, train_step

__all__ = ["Updater"]


class Updater:
    """Computes a run's updates: collates store rows, shares parts between workers, stays within memory."""

    def __init__(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        store: TokenStore,
        order: BatchOrder,
        ids: SpecialIds,
        config: TrainConfig,
        record: PartsRecord,
        report: Callable[[str], None],
    ) -> None:
        """Put together what updates need; nothing is decided before `fit`."""
        self._model, self._optimizer, self._config = model, optimizer, config
        self._store, self._order, self._ids = store, order, ids
        self._record, self._report = record, report
        self._device = model.source_embedding.weight.device
        self._budget: Budget | None = None
        self._precision: Precision = "float32"
        self.workers = Workers()

    def fit(self, step: int, validation: Sequence[Batch], precision: Precision) -> Parts:
        """Decide how batches are cut from update `step` on, or check that what was decided fits today.

        Raises:
            RecipeError: the longest pair does not fit into `train.memory`.
        """
        config, record = self._config, self._record
        wanted = record.wanted(step) if config.workers else record.at(step)
        self._budget, self._precision = find_budget(config.memory, self._device), precision
        load = Load(
            longest=self._order.longest,
            batch_tokens=self._order.batch_tokens,
            num_batches=max(config.accumulate, config.accumulate_final),
            validation=validation,
            precision=precision,
        )
        self._model.train()
        parts, sentence = fit(self._model, self._optimizer, config, load, wanted, self._budget)
        if sentence:
            self._report(sentence)
        if record.is_new:
            record.decide(1, parts)
        elif parts != record.at(step):
            record.decide(step, parts)
            self._report(f"from update {step} on, batches are cut into other parts than before")
        return parts

    @contextmanager
    def at_work(self, parts: Parts) -> Iterator[None]:
        """With as many threads as compute at once."""
        with Workers(parts.num_workers) as self.workers:
            yield

    def update(self, step: int, batches: Sequence[NDArray[np.int64]]) -> tuple[StepResult, list[Batch]]:
        """One update; also returns the parts it was computed in.

        Args:
            step: its number.
            batches: store rows of each.

        Raises:
            CheckpointError: not even a single pair fits into memory.
        """

        def in_parts(parts: Sequence[NDArray[np.int64]], at_once: int) -> tuple[StepResult, list[Batch]]:
            group = [collate(self._store, rows, self._ids).to(self._device) for rows in parts]
            workers = self.workers if at_once > 1 else None
            result = train_step(
                self._model,
                self._optimizer,
                group,
                self._config,
                step=step,
                precision=self._precision,
                workers=workers,
            )
            return result, group

        done = self._record.compute(step, batches, self._order.widths, in_parts, self._report)
        if self._budget is not None and self._device.type == "cpu" and resident_bytes() > self._budget.most:
            give_back_freed_memory()  # gaps between what is kept have grown
        return done
