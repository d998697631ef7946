"""How a model is run: threads, number form, size of batches; the same words for every engine.

Does not know: torch, CTranslate2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from transduce.errors import ModelError

__all__ = ["ComputeType", "Runtime"]

ComputeType = Literal["default", "float32", "int8", "int16"]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """How a model is run.

    Raises:
        ModelError: a value is out of its range.
    """

    threads: int = 0
    """Threads in all; 0: the physical cores that the process may use, or `OMP_NUM_THREADS`."""
    compute_type: ComputeType = "default"
    """Number form of the matrix products; `default` is that of the weights. Another form gives other
    answers now and then. The torch engine has `float32` and `int8`."""
    exact: bool = False
    """The torch engine's answers are those of float32: with `int8`, greedy search proposes in int8 and
    float32 checks the whole sentence in one pass; beams and samples run in
    float32. Takes the memory of both."""
    batch_tokens: int = 0
    """Most source tokens, padding counted, of a batch (in torch, times the beam); 0: as suits the engine."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise ModelError(f"threads is {self.threads}, but must be 0 (automatic) or more")
        if self.compute_type not in get_args(ComputeType):
            known = ", ".join(get_args(ComputeType))
            raise ModelError(f"compute_type is {self.compute_type!r}, but must be one of {known}")
        if self.batch_tokens < 0:
            raise ModelError(f"batch_tokens is {self.batch_tokens}, but must be 0 (automatic) or more")
