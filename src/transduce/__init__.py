"""transduce: the Transformer of *Attention Is All You Need*, whole.

Two files of translated sentences in, a translator out. `transduce.load` gives the translator;
the rooms (`transduce.text`, `.batch`, `.model`, `.train`, `.search`, `.evaluate`, `.translate`)
are importable one by one and none is imported here, so that `import transduce` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from transduce.translate.translator import Translator

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(model: str | Path | Sequence[str | Path]) -> Translator:
    """Load a finished model directory (`runs/NAME/model`) as a `Translator`; several translate as one.

    Raises:
        ModelError: a directory is missing, incomplete or of a newer schema; vocabularies differ.
    """
    from transduce.translate.translator import Translator

    return Translator.load(model)
