"""Which lines of which file a class is: the code that runs, and no copy of it.

In:  a class or function. Out: `SourceLines`.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import transduce

__all__ = ["SourceLines", "source_of"]

_ROOT = Path(transduce.__file__).resolve().parent.parent


@dataclass(frozen=True)
class SourceLines:
    """Where something is written."""

    file: str
    """Below the package's parent, as `transduce/model/attention.py`; else the file's name."""
    first: int
    last: int
    text: str

    @property
    def sha256(self) -> str:
        """Of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the text."""
        return {"file": self.file, "first": self.first, "last": self.last}


def source_of(component: type | Callable[..., Any]) -> SourceLines:
    """Find a class or a function in its file.

    Raises:
        OSError: its file is not there.
    """
    return _source_of(inspect.unwrap(component))


@lru_cache(maxsize=256)
def _source_of(component: Any) -> SourceLines:
    lines, first = inspect.getsourcelines(component)
    path = Path(inspect.getsourcefile(component) or "").resolve()
    file = path.relative_to(_ROOT).as_posix() if path.is_relative_to(_ROOT) else path.name
    return SourceLines(file, first, first + len(lines) - 1, "".join(lines))
