"""CTranslate2 itself: imported when first needed, and loaded without taking torch's threads away."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transduce.errors import ModelError

__all__ = ["library", "load_translator"]


def library(path: Path) -> Any:
    """The module.

    Args:
        path: the model that needs it, for the error.

    Raises:
        ModelError: it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise ModelError(
            f"translating with {path} needs ctranslate2, which is not installed ({error}): "
            "pip install ctranslate2"
        ) from error
    return ctranslate2


def load_translator(path: Path, compute_type: str, workers: int, threads: int) -> Any:
    """A `ctranslate2.Translator` on the CPU.

    Args:
        path: CTranslate2's model directory.
        compute_type: number form of the products.
        workers: batches that are computed side by side.
        threads: of each worker.

    Raises:
        ModelError: CTranslate2 is not installed, or cannot load the model.
    """
    module = library(path)
    try:
        with _torch_keeps_its_threads():
            return module.Translator(
                str(path),
                device="cpu",
                compute_type=compute_type,
                inter_threads=workers,
                intra_threads=threads,
            )
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"CTranslate2 cannot load {path} ({' '.join(str(error).split())}): export the model "
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
