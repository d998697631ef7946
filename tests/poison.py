"""A layer whose output is NaN in chosen updates: for tests of what training does about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from transduce.batch.collate import Batch
from transduce.train.loop import Trainer

Updates = Callable[[int], bool]


def poison(monkeypatch: pytest.MonkeyPatch, bad: Updates) -> dict[int, Sequence[Batch]]:
    """Let the first encoder layer give NaN in each update that `bad` says; return what those were made of."""
    original = Trainer._update
    met: dict[int, Sequence[Batch]] = {}

    def poisoned(self, batches, after):
        step = self.state.step + 1
        if not bad(step):
            return original(self, batches, after)
        layer = self.model.encoder.layers[0]
        hook = layer.register_forward_hook(lambda module, inputs, output: output * float("nan"))
        try:
            result, met[step] = original(self, batches, after)
        finally:
            hook.remove()
        return result, met[step]

    monkeypatch.setattr(Trainer, "_update", poisoned)
    return met
