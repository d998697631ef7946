"""CTranslate2's translator, its threads and its batches.

Many sentences: as many workers as there are threads, each alone in its batch, so that nobody waits
for anybody. A lone sentence: one worker with all threads that are idle. Weights are in memory once
for each of the two kinds that was needed. Calls may come from several threads at once.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transduce.errors import ModelError
from transduce.translate.batches import batches
from transduce.translate.runtime import Runtime
from transduce.translate.threads import available_threads, idle_threads

__all__ = ["Workers"]

_BATCH_TOKENS = 1024
_LONE = 2  # sentences per thread, below which threads work together on each


class Workers:
    """`ctranslate2.Translator`s over one export, loaded when first used."""

    def __init__(self, path: Path, runtime: Runtime) -> None:
        """Remember what to load.

        Args:
            path: CTranslate2's model directory.
            runtime: threads and number form.
        """
        self._path, self.runtime = path, runtime
        self.batch_tokens = runtime.batch_tokens or _BATCH_TOKENS
        self.threads = runtime.threads or available_threads()
        # Threads that share one sentence wait for each other at every product: where other work takes
        # their turns, that is slower than one alone, by orders of magnitude.
        self._together = runtime.threads or idle_threads(self.threads)
        self.crowded = False
        """Set by who keeps several calls under way: each then keeps to one worker, in large batches."""
        self._loaded: dict[str, Any] = {}
        self._loading = threading.Lock()

    def for_sentences(self, count: int) -> Any:
        """The translator for a call with `count` sentences.

        Raises:
            ModelError: CTranslate2 is not installed, or cannot load the model.
        """
        many = self.crowded or self._together == 1 or count >= _LONE * self.threads
        if many or ("many" in self._loaded and "lone" not in self._loaded):  # no second copy for a few
            return self._load("many", self.threads, 1)
        return self._load("lone", 1, self._together)

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
        _ctranslate2(self._path).set_random_seed(seed % 2**32)  # seeds the threads that start now
        return self._new(1, 1 if self.crowded else self._together)

    def _load(self, kind: str, workers: int, threads: int) -> Any:
        with self._loading:
            if kind not in self._loaded:
                self._loaded[kind] = self._new(workers, threads)
            return self._loaded[kind]

    def _new(self, workers: int, threads: int) -> Any:
        library = _ctranslate2(self._path)
        try:
            with _torch_keeps_its_threads():
                return library.Translator(
                    str(self._path),
                    device="cpu",
                    compute_type=self.runtime.compute_type,
                    inter_threads=workers,
                    intra_threads=threads,
                )
        except (RuntimeError, ValueError) as error:
            raise ModelError(
                f"CTranslate2 cannot load {self._path} ({' '.join(str(error).split())}): export the model "
                "again, or translate with --engine torch"
            ) from error


@contextmanager
def _torch_keeps_its_threads() -> Iterator[None]:
    """Loading sets the number of OpenMP threads of the calling thread, which is torch's as well."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else 0
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)


def _ctranslate2(path: Path) -> Any:
    try:
        import ctranslate2
    except ImportError as error:
        raise ModelError(
            f"translating with {path} needs ctranslate2, which is not installed ({error}): "
            "pip install ctranslate2"
        ) from error
    return ctranslate2
