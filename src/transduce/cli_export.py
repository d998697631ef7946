"""`transduce export`, `tune` and `import`: the verbs' options; `cli.py` has all others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["export", "import_", "tune"]


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, or a finished run.")],
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="FORM", help="ct2 (CTranslate2), hf (Hugging Face), onnx (ONNX Runtime)."
        ),
    ] = "ct2",
    quantization: Annotated[
        str,
        typer.Option("--quantization", help="Of ct2: int8 (small), int16 or float32 (torch's own answers)."),
    ] = "int8",
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Instead of MODEL/FORM.")] = None,
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
    """Write a model in a form that other programs run: `ct2` is fast and needs no torch.

    How well that one agrees with the model is measured where torch is installed, told, and kept in the
    card. With --source and --target (the training text) only such target pieces are computed as the
    source's pieces became there: faster with a large vocabulary, and now and then another word.

    For example:

    - `transduce export runs/en-de --to ct2`
    - `transduce export runs/en-de --to ct2 --quantization float32 --sample test.en`
    - `transduce export runs/en-de --to ct2 --source train.en --target train.de --sample test.en`
    - `transduce export runs/en-de --to hf --out en-de-hf`
    - `transduce export runs/en-de --to onnx`
    """
    from transduce.export.verb import export_model
    from transduce.progress import stderr_console

    text = None if source is None else (source, target)
    typer.echo(export_model(model, to, quantization, out, sample, stderr_console(), shortlist=text))


def import_(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A Marian directory of Hugging Face, as OPUS-MT's.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="The model directory to make.")],
) -> None:
    """Make a model directory of an OPUS-MT (Hugging Face Marian) one.

    For example:

    - `transduce import opus-mt-en-de --out runs/opus-en-de`
    """
    from transduce.export.forms import import_model

    for note in import_model(path, out):
        typer.echo(note, err=True)
    typer.echo(out)


def tune(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model with an export for CTranslate2.")],
    among: Annotated[
        str, typer.Option("--among", metavar="FORMS", help="Number forms to choose from: float32,int8,int16.")
    ] = "",
    sample: Annotated[
        Path | None,
        typer.Option("--sample", metavar="FILE", help="Sentences to measure with; else random pieces."),
    ] = None,
) -> None:
    """Measure which threads and number form are quickest on this machine, and use them from now on.

    The export keeps what was found; --threads and --compute-type still win. Another number form gives
    another answer now and then, so it changes only among those that --among names.

    For example:

    - `transduce tune runs/en-de`
    - `transduce tune runs/en-de --among float32,int8 --sample test.en`
    """
    from transduce.translate.tune import tune_model

    typer.echo(tune_model(model, among, sample))
