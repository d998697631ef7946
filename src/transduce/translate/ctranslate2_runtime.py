"""CTranslate2's translator, its threads and its batches.

Many sentences: as many workers as there are threads, each alone in its batch, so that nobody waits
for anybody. A few: one worker with all threads that are idle, if it is computed in floating point;
eight-bit products of one sentence are slower with two threads than with one. Weights are in memory once
for each of the two kinds that was needed. Calls may come from several threads at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transduce.translate.batches import batches
from transduce.translate.ctranslate2_library import library, load_translator
from transduce.translate.runtime import ComputeType, Runtime
from transduce.translate.threads import available_threads, idle_threads
from transduce.translate.tuning import Layout, Tuning, read_tuning

__all__ = ["Workers"]

_BATCH_TOKENS = 1024
_SHARED_ROWS = 4  # hypotheses a thread, up to which threads had better work on all of them together


class Workers:
    """`ctranslate2.Translator`s over one export, loaded when first used."""

    def __init__(self, path: Path, runtime: Runtime, stored: ComputeType = "float32") -> None:
        """Remember what to load.

        Args:
            path: CTranslate2's model directory.
            runtime: threads and number form.
            stored: the number form of its weights.
        """
        self._path, self.runtime = path, runtime
        self.batch_tokens = runtime.batch_tokens or _BATCH_TOKENS
        self.threads = runtime.threads or available_threads()
        # Threads that share one sentence wait for each other at every product: where other work takes
        # their turns, that is slower than one alone, by orders of magnitude.
        self._together = runtime.threads or idle_threads(self.threads)
        self._many = Layout(workers=self.threads, threads=1)
        self._lone = Layout(workers=1, threads=self._together)
        self._compute_type: ComputeType = runtime.compute_type
        if (stored if runtime.compute_type == "default" else runtime.compute_type) != "float32":
            self._lone = self._many
        self._follow(read_tuning(path, self.threads))
        self.crowded = False
        """Set by who keeps several calls under way: each then keeps to one worker, in large batches."""
        self._loaded: dict[Layout, Any] = {}
        self._loading = threading.Lock()

    def _follow(self, tuning: Tuning | None) -> None:
        """Take what was measured on this machine, where nothing else was asked for."""
        if tuning is None:
            return
        if self.runtime.compute_type == "default":
            self._compute_type = tuning.compute_type
        self._many = tuning.many
        if tuning.lone.threads <= self._together:  # else other work would take their turns
            self._lone = tuning.lone

    @property
    def copies(self) -> int:
        """How often the weights have been read: once for each kind that was needed."""
        return len(self._loaded)

    def together(self, beam_size: int = 1) -> int:
        """How many sentences at once threads had better work on together; 0: none."""
        threads = self._lone.threads
        return max(1, _SHARED_ROWS * threads // beam_size) if threads > 1 else 0

    def for_sentences(self, count: int, beam_size: int = 1) -> Any:
        """The translator for a call with `count` sentences.

        Raises:
            ModelError: CTranslate2 is not installed, or cannot load the model.
        """
        many = self.crowded or self._together == 1 or count > max(1, self.together(beam_size))
        loaded = self._many in self._loaded and self._lone not in self._loaded
        return self._load(self._many if many or loaded else self._lone)  # no second copy for a few

    def batches(self, lengths: Sequence[int], translator: Any) -> Iterator[list[int]]:
        """Indices in batches of similar lengths; with several workers, each gets two batches at least.

        A crowded one's callers have cut their batches themselves.
        """
        workers = 1 if self.crowded else translator.num_translators
        share = sum(lengths) // (2 * workers) if workers > 1 else self.batch_tokens
        return batches(lengths, max(1, min(self.batch_tokens, share)))

    def fresh(self, seed: int) -> Any:
        """A translator of its own, one worker, whose random numbers begin with `seed`.

        Raises:
            ModelError: as `for_sentences`.
        """
        library(self._path).set_random_seed(seed % 2**32)  # seeds the threads that start now
        return self._new(Layout(workers=1, threads=1 if self.crowded else self._together))

    def _load(self, layout: Layout) -> Any:
        with self._loading:
            if layout not in self._loaded:
                self._loaded[layout] = self._new(layout)
            return self._loaded[layout]

    def _new(self, layout: Layout) -> Any:
        return load_translator(self._path, self._compute_type, layout.workers, layout.threads)
