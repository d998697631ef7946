"""`transduce export`: the verb's options; `cli.py` has all others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["export"]


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, or a finished run.")],
    to: Annotated[str, typer.Option("--to", help="Whose format: ct2 (CTranslate2).")] = "ct2",
    quantization: Annotated[
        str,
        typer.Option("--quantization", help="int8 (small), int16 or float32 (torch's own answers)."),
    ] = "int8",
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Instead of MODEL/ct2.")] = None,
    sample: Annotated[
        Path | None,
        typer.Option("--sample", metavar="FILE", help="Sentences to compare the export on; else random ids."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="FILE", help="With --target: learn a shortlist from this text."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", metavar="FILE", help="Target sentences, line by line.")
    ] = None,
) -> None:
    """Write a model in a format that other programs run; `ct2` is fast and needs no torch.

    How well it agrees with the model is measured where torch is installed, told, and kept in the card.
    With --source and --target (the training text) only such target pieces are computed as the source's
    pieces became there: faster with a large vocabulary, and now and then another word.

    For example:

    - `transduce export runs/en-de --to ct2`
    - `transduce export runs/en-de --to ct2 --quantization float32 --sample test.en`
    - `transduce export runs/en-de --to ct2 --source train.en --target train.de --sample test.en`
    """
    from transduce.export.verb import export_model
    from transduce.progress import stderr_console

    text = None if source is None else (source, target)
    typer.echo(export_model(model, to, quantization, out, sample, stderr_console(), shortlist=text))
