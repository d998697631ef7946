"""`transduce export`: a model directory in, another format out, a report in the card and on the screen."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from rich.console import Console

from transduce.errors import ModelError
from transduce.export.ctranslate2 import Quantization, export_ctranslate2
from transduce.export.parity import measure_parity, sample_sources
from transduce.files import write_atomic, written_or
from transduce.translate.model_directory import ModelDirectory

__all__ = ["export_model", "with_section"]

_TITLE = "CTranslate2 export"


def export_model(
    model: Path, to: str, quantization: str, out: Path | None, sample: Path | None, console: Console
) -> str:
    """Export, compare, and return the report.

    Args:
        model: model directory or finished run.
        to: `ct2`.
        quantization: number form of the exported weights.
        out: instead of `MODEL/ct2`.
        sample: sentences to compare on; else random ids.
        console: where it is shown what is being done.

    Raises:
        TransduceError: the format is unknown, a setting cannot be carried, a file cannot be read, or
            the export cannot be written.
    """
    if to != "ct2":
        raise ModelError(f"there is no format {to!r} to export to; there is ct2")
    if quantization not in get_args(Quantization):
        known = ", ".join(get_args(Quantization))
        raise ModelError(f"quantization is {quantization!r}, but must be one of {known}")
    directory = ModelDirectory(model)
    sources = sample_sources(directory, sample)
    if not sources:
        raise ModelError(f"{sample} holds no sentence to compare the export on: give a file with text")
    path = export_ctranslate2(directory, quantization=quantization, out=out)  # type: ignore[arg-type]
    size = sum(file.stat().st_size for file in path.iterdir())
    facts = [f"{quantization}, {size / 1e6:,.1f} MB, in {path.name}/"]
    if find_spec("torch") is None:
        facts.append("not compared with the model: torch is not installed")
    else:
        console.print("comparing the export with the model", soft_wrap=True)
        facts += measure_parity(directory, path, sources, of_text=sample is not None).lines()
    with written_or(ModelError, f"the card of {directory.path} could not be written"):
        write_atomic(directory.path / "card.md", with_section(directory.card, _TITLE, facts))
    return "\n".join([f"exported to {path}", *facts])


def with_section(card: str, title: str, facts: list[str]) -> str:
    """The card with this section, in the place of an older one or at the end."""
    section = "\n".join([f"## {title}", "", *(f"- {fact}" for fact in facts), ""])
    older = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if older.search(card):
        return older.sub(lambda found: section + ("" if found.end() == len(card) else "\n"), card, count=1)
    return f"{card.rstrip()}\n\n{section}" if card.strip() else section
