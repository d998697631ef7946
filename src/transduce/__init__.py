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

    from transduce.search.ensemble import Mean
    from transduce.translate.runtime import Runtime
    from transduce.translate.translator import EngineName, Translator

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(
    model: str | Path | Sequence[str | Path],
    *,
    mean: Mean = "probability",
    engine: EngineName = "auto",
    runtime: Runtime | None = None,
) -> Translator:
    """Load a finished model directory (`runs/NAME/model`) as a `Translator`; several translate as one.

    Args:
        model: where it lies; several must have the same vocabularies.
        mean: what several are averaged by: `probability` or `log_probability`.
        engine: `ctranslate2` or `onnx`, its exports; `torch`, its weights; `auto`, the former if any.
        runtime: threads and number form of the export.

    Raises:
        ModelError: a directory is missing, incomplete or of a newer schema; vocabularies differ.
    """
    from transduce.translate.translator import Translator

    return Translator.load(model, mean=mean, engine=engine, runtime=runtime)
