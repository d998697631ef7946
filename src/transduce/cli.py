"""The command line: each verb a few lines that call one function of one room.

Nothing heavy is imported before a verb needs it, so that `--help` answers at once. Results go to
stdout, everything else to stderr. A problem that the user can mend is one line and exit code 2.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer

from transduce import __version__
from transduce import cli_options as options
from transduce.cli_align import align
from transduce.cli_export import export, import_, tune
from transduce.cli_keys import keys
from transduce.cli_options import (
    AllowChanges,
    Memory,
    Model,
    Overrides,
    Repair,
    Source,
    SourceLanguage,
    Target,
    TargetLanguage,
)
from transduce.cli_serve import serve
from transduce.errors import DataError, TransduceError
from transduce.files import what_to_do

if TYPE_CHECKING:
    from transduce.evaluate.scores import Scores
    from transduce.evaluate.significance import Comparison
    from transduce.translate.translator import EngineName

__all__ = ["app", "main"]

_INTERRUPTED = 130  # 128 + SIGINT, as shells say it

app = typer.Typer(
    name="transduce",
    help="Two files of translated sentences in, a translator out: the Transformer, whole.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    try:
        # What a command returns; or, as a number, the code of a typer.Exit, which does not come out here.
        code = app(standalone_mode=False)
    except TransduceError as error:
        _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted; what was finished is kept\n")
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads any more; Python would complain at exit
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        unwritten = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        _fail(f"{where}{what_to_do(error) if unwritten else error.strerror or error}")
    except Exception as error:
        if hasattr(error, "format_message"):  # click's own: a wrong option, a missing argument
            command = _command(getattr(error, "ctx", None))
            _fail(f"{error.format_message()} (`{command} --help` lists what there is)")
        raise
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> NoReturn:
    with contextlib.suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(f"error: {message}\n")
    sys.exit(2)


def _command(context: Any) -> str:  # click.Context, of the click that typer brings
    """The command that was understood when an error came; of `transduce trian`, the first word."""
    if context is None or context.parent is None:
        return "transduce"
    return f"{_command(context.parent)} {context.info_name}"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"transduce {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say it and leave.")
    ] = False,
) -> None:
    """Two files of translated sentences in, a translator out: the Transformer, whole."""
    del version


@app.command()
def quickstart(
    sentences: Annotated[
        list[str] | None, typer.Argument(metavar="[SENTENCE]...", help="Your own, translated at the end.")
    ] = None,
    pair: Annotated[
        str, typer.Option("--pair", help="en-de, en-fr, en-es, en-zh (simplified) or en-zh-hant.")
    ] = "en-de",
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Run directory.")] = None,
    source: Annotated[
        Path | None, typer.Option("--source", metavar="FILE", help="Your own source sentences instead.")
    ] = None,
    target: Target = None,
    minutes: Annotated[float, typer.Option("--minutes", help="Training time.")] = 8.0,
) -> None:
    """Train a real translator from real text, end to end, in minutes.

    Without --source it learns from the translations of an open home-automation program, which
    come from the package index (67 MB, once).

    For example:

    - `transduce quickstart`
    - `transduce quickstart --pair en-fr "Turn on the light."`
    - `transduce quickstart --source mine.en --target mine.de --minutes 20`
    """
    from transduce import quickstart as room

    room.quickstart(
        pair=pair, sentences=sentences or (), out=out, source=source, target=target, minutes=minutes
    )


@app.command()
def check(
    source: Source,
    target: Target = None,
    source_language: SourceLanguage = "",
    target_language: TargetLanguage = "",
    repair: Repair = False,
    json_output: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Say what is in a corpus, what is wrong, where, and what training would drop.

    For example:

    - `transduce check --source train.en --target train.de`
    """
    import json

    from transduce.progress import stderr_console, track
    from transduce.text.check import check_corpus
    from transduce.text.cleaning import CleaningConfig
    from transduce.text.corpus import open_corpus

    corpus = open_corpus(
        source,
        target,
        source_language=source_language or None,
        target_language=target_language or None,
        repair=repair,
    )
    with track(stderr_console(), "reading", "pairs") as tell:
        report = check_corpus(corpus, CleaningConfig(), progress=tell)
    typer.echo(json.dumps(report.to_dict(), ensure_ascii=False) if json_output else report.render())


@app.command()
def train(
    recipe: Annotated[Path | None, typer.Argument(metavar="[RECIPE]", help="A recipe file (TOML).")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="FILE", help="Source sentences, or TSV/JSONL/TMX with both."),
    ] = None,
    target: Target = None,
    valid_source: Annotated[
        Path | None, typer.Option("--valid-source", metavar="FILE", help="Held-out source sentences.")
    ] = None,
    valid_target: Annotated[
        Path | None, typer.Option("--valid-target", metavar="FILE", help="Their translations.")
    ] = None,
    source_language: SourceLanguage = "",
    target_language: TargetLanguage = "",
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Run directory.")] = Path("runs/model"),
    preset: Annotated[
        str | None, typer.Option("--preset", help="`transduce presets` lists them; default small.")
    ] = None,
    from_model: Annotated[
        Path | None,
        typer.Option("--from", metavar="MODEL", help="Begin with the weights of this finished model."),
    ] = None,
    new_vocabulary: Annotated[
        bool,
        typer.Option("--new-vocabulary", help="With --from: learn new pieces; shared ones are kept."),
    ] = False,
    overrides: Overrides = None,
    repair: Repair = False,
    memory: Memory = "",
    allow_changes: AllowChanges = False,
) -> None:
    """Train a translator; run the same command again to go on after any interruption.

    For example:

    - `transduce train --source train.en --target train.de --out runs/en-de`
    - `transduce train --source train.en --target train.de --preset tiny --set train.max_minutes=60`
    - `transduce train recipe.toml --out runs/en-de`
    - `transduce train --from runs/en-de --source own.en --target own.de --out runs/own`
    """
    from functools import partial

    from transduce.finetune import inherit
    from transduce.pipeline import train as train_run
    from transduce.progress import stderr_console
    from transduce.recipe import load_recipe

    data: dict[str, str | bool] = {
        "source": str(source or ""),
        "target": str(target or ""),
        "valid_source": str(valid_source or ""),
        "valid_target": str(valid_target or ""),
        "source_language": source_language,
        "target_language": target_language,
        "repair": repair,
    }
    own = [f"train.memory={memory}"] if memory else []
    settings = load_recipe(
        preset=preset,
        file=recipe,
        overrides=[*(overrides or ()), *own],
        data=data,
        start={"from_model": str(from_model or ""), "new_vocabulary": new_vocabulary},
        inherit=partial(inherit, out),
    )
    outcome = train_run(settings, out, stderr_console(), allow_changes=allow_changes)
    if outcome is not None and not outcome.finished:
        typer.echo(outcome.reason, err=True)
        raise typer.Exit(_INTERRUPTED)


@app.command()
def evaluate(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="Translates --source; or give --hypothesis.")
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option("--reference", metavar="FILE", help="Right translations; may be given again."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--source", metavar="FILE", help="Source sentences, for MODEL.")
    ] = None,
    hypothesis: Annotated[
        list[Path] | None,
        typer.Option("--hypothesis", metavar="FILE", help="Translations to score; several are compared."),
    ] = None,
    tokenize: Annotated[
        str | None, typer.Option("--tokenize", help="BLEU's tokenizer; `none` for tokenised text.")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    target_language: TargetLanguage = "",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Keep MODEL's translations.")
    ] = None,
    engine: options.Engine = "auto",
    threads: options.Threads = None,
    compute_type: options.ComputeType = None,
    exact: options.Exact = False,
    overrides: Overrides = None,
    json_output: Annotated[bool, typer.Option("--json", help="The scores as JSON.")] = False,
) -> None:
    """Score a model or files of translations: BLEU, chrF and TER, each with its sacreBLEU signature.

    Several --hypothesis files are compared with the first by paired bootstrap.

    For example:

    - `transduce evaluate runs/en-de --source test.en --reference test.de`
    - `transduce evaluate --hypothesis ours.de --reference test.de`
    - `transduce evaluate --hypothesis old.de --hypothesis new.de --reference test.de`
    """
    import json

    from transduce import scoring
    from transduce.progress import stderr_console

    files = hypothesis or []
    if not reference:
        raise DataError("evaluate needs right translations to compare with: --reference FILE")
    if bool(files) == (model is not None) or (model is None) != (source is None):
        raise DataError("evaluate takes either MODEL with --source, or --hypothesis FILE")
    how: dict[str, Any] = {"tokenize": tokenize, "lowercase": lowercase}
    results: list[Scores] | list[Comparison]
    if model is not None and source is not None:
        how |= {"output": output, "overrides": overrides or (), "console": stderr_console()}
        how |= {"engine": engine, "runtime": options.runtime(threads, compute_type, exact)}
        results = [scoring.score_model(model, source, reference, **how)]
    elif len(files) == 1:
        results = [scoring.score_file(files[0], reference, target_language=target_language, **how)]
    else:
        compared = scoring.compare_files(files, reference, target_language=target_language, **how)
        results = list(compared.values())
    for result in results:
        typer.echo(json.dumps(result.to_dict(), ensure_ascii=False) if json_output else result.render())


@app.command()
def translate(
    model: Model,
    input_file: options.InputFile = None,
    output_file: options.OutputFile = None,
    input_format: options.InputFormat = "auto",
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    copy_others: options.CopyOthers = False,
    retranslate: options.Retranslate = False,
    fuzzy: options.Fuzzy = True,
    beam_size: options.BeamSize = None,
    n_best: options.NBest = None,
    jsonl: options.Jsonl = False,
    alignments: options.Alignments = None,
    glossary: options.GlossaryFile = None,
    protect: options.Protect = "",
    protect_pattern: options.ProtectPattern = None,
    ensemble: options.Ensemble = None,
    ensemble_mean: options.EnsembleMean = "probability",
    sample: options.Sample = False,
    seed: options.Seed = None,
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    repair: Repair = False,
    engine: options.Engine = "auto",
    threads: options.Threads = None,
    compute_type: options.ComputeType = None,
    exact: options.Exact = False,
    overrides: Overrides = None,
) -> None:
    """Translate lines: N lines in, N lines out, in order; or documents, or a folder of them.

    For example:

    - `echo "I love you." | transduce translate runs/en-de`
    - `transduce translate runs/en-de --input test.en --output test.de --beam-size 1`
    - `transduce translate runs/en-de --jsonl --n-best 3 < test.en > test.jsonl`
    - `transduce translate runs/en-de --glossary terms.tsv --protect usual < test.en`
    - `transduce translate runs/en-de --input large.en --output large.de --resume`
    - `transduce translate runs/en-de --input app.po --output app.de.po`
    - `transduce translate runs/en-de --input site --output site-de --copy-others`
    - `transduce translate runs/en-de --sample --seed 7 --temperature 0.8 < test.en`
    """
    from transduce.progress import stderr_console
    from transduce.translate.files import FileOptions, translate_stream

    translate_stream(
        model,
        input_file,
        output_file,
        jsonl=jsonl,
        repair=repair,
        console=stderr_console(),
        files=FileOptions(
            format=input_format, resume=resume, overwrite=overwrite, copy_others=copy_others,
            retranslate=retranslate, fuzzy=fuzzy, repair=repair,
        ),
        alignments=alignments,
        glossary=glossary,
        ensemble=ensemble or (),
        mean=ensemble_mean,
        engine=cast("EngineName", engine),
        runtime=options.runtime(threads, compute_type, exact),
        **options.protection_settings(protect, protect_pattern or ()),
        **options.sampling_settings(sample, seed=seed, temperature=temperature, top_k=top_k, top_p=top_p),
        **options.search_settings(beam_size, n_best, overrides or ()),
    )  # fmt: skip


app.command()(export)
app.command(name="import")(import_)
app.command()(tune)
app.command()(serve)
app.command()(align)
app.add_typer(keys)


@app.command()
def info(model: Model) -> None:
    """Show a model's card."""
    from transduce.translate.model_directory import ModelDirectory

    typer.echo(ModelDirectory(model).card)


@app.command()
def presets() -> None:
    """List the presets for `train --preset`."""
    from transduce.recipe import load_recipe, preset_names

    for name in preset_names():
        typer.echo(f"{name:12} {load_recipe(preset=name).description}")
