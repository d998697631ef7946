"""Options that several verbs share, those of `transduce translate`, and what they come to as arguments.

Does not know: how anything is translated. Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.errors import SearchError

if TYPE_CHECKING:
    from transduce.translate.runtime import Runtime

__all__ = [
    "Alignments",
    "AllowChanges",
    "BeamSize",
    "ComputeType",
    "CopyOthers",
    "Engine",
    "Ensemble",
    "EnsembleMean",
    "Exact",
    "Fuzzy",
    "GlossaryFile",
    "InputFile",
    "InputFormat",
    "Jsonl",
    "Memory",
    "Model",
    "NBest",
    "OutputFile",
    "Overrides",
    "Overwrite",
    "Protect",
    "ProtectPattern",
    "Repair",
    "Resume",
    "Retranslate",
    "Sample",
    "Seed",
    "Source",
    "SourceLanguage",
    "Target",
    "TargetLanguage",
    "Temperature",
    "Threads",
    "TopK",
    "TopP",
    "protection_settings",
    "runtime",
    "sampling_settings",
    "search_settings",
]

_FILES = "Files, documents and folders"
_HOLD = "What a translation must hold"
_SAMPLING = "Sampling"

Source = Annotated[
    Path,
    typer.Option("--source", metavar="FILE", help="Source sentences, or TSV/JSONL/TMX with both sides."),
]
Target = Annotated[
    Path | None, typer.Option("--target", metavar="FILE", help="Target sentences, line by line.")
]
SourceLanguage = Annotated[str, typer.Option("--source-language", metavar="CODE", help="Such as en.")]
TargetLanguage = Annotated[str, typer.Option("--target-language", metavar="CODE", help="Such as de.")]
Repair = Annotated[
    bool, typer.Option("--repair", help="Replace bytes that are not UTF-8 instead of stopping.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, or a finished run.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="ROOM.FIELD=VALUE", help="Change one setting; may be given again."),
]

Memory = Annotated[
    str, typer.Option("--memory", metavar="SIZE", help="Most memory to take, such as 8GB; else what is free.")
]
AllowChanges = Annotated[
    bool, typer.Option("--allow-changes", help="Go on although settings or text changed.")
]

Alignments = Annotated[
    Path | None,
    typer.Option("--alignments", metavar="FILE", help="Write alignments of words (0-0 1-2), line by line."),
]
BeamSize = Annotated[int | None, typer.Option("--beam-size", help="1 is greedy and fastest.")]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option("--ensemble", metavar="MODEL", help="Average with this model; may be given again."),
]
EnsembleMean = Annotated[
    str, typer.Option("--ensemble-mean", help="Average of probability, or of log_probability.")
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help="`ctranslate2` or `onnx` (need an export), `torch`, or `auto`: CTranslate2 if exported.",
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", help="Threads for an export; by default all physical cores.")
]
ComputeType = Annotated[
    str | None,
    typer.Option("--compute-type", help="Number form for an export: float32, int8; default: its own."),
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="float32's answers: it checks what --compute-type int8 proposes (torch)."),
]
GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary", metavar="FILE", help="Lines: source phrase, tab, target phrase.", rich_help_panel=_HOLD
    ),
]
Protect = Annotated[
    str,
    typer.Option(
        "--protect",
        metavar="KINDS",
        help="Keep these as they are: `usual` (code,url,email,braces,printf), or a list; also tags,numbers.",
        rich_help_panel=_HOLD,
    ),
]
ProtectPattern = Annotated[
    list[str] | None,
    typer.Option(
        "--protect-pattern",
        metavar="REGEX",
        help="Keep what this matches as it is; may be given again.",
        rich_help_panel=_HOLD,
    ),
]
Sample = Annotated[
    bool,
    typer.Option("--sample", help="Draw translations instead of the best.", rich_help_panel=_SAMPLING),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", help="The same seed draws the same samples.", rich_help_panel=_SAMPLING),
]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", help="Below 1 bolder, above 1 wilder.", rich_help_panel=_SAMPLING),
]
TopK = Annotated[
    int | None, typer.Option("--top-k", help="Only the K likeliest tokens.", rich_help_panel=_SAMPLING)
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p", help="Only the likeliest tokens that reach this probability.", rich_help_panel=_SAMPLING
    ),
]

InputFile = Annotated[
    Path | None, typer.Option("--input", metavar="FILE|DIR", help="Instead of stdin; also a folder.")
]
Jsonl = Annotated[
    bool, typer.Option("--jsonl", help="A JSON object a line: score, tokens, alignment, flags.")
]
NBest = Annotated[int | None, typer.Option("--n-best", help="Alternatives a line (with --jsonl).")]
OutputFile = Annotated[Path | None, typer.Option("--output", metavar="FILE|DIR", help="Instead of stdout.")]
InputFormat = Annotated[
    str,
    typer.Option(
        "--input-format",
        metavar="FORMAT",
        help="auto (by name), text, paragraphs, po, xliff, tmx, srt, vtt, html, markdown or docx.",
        rich_help_panel=_FILES,
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on where an interrupted translation stopped.", rich_help_panel=_FILES),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output that exists.", rich_help_panel=_FILES)
]
CopyOthers = Annotated[
    bool,
    typer.Option("--copy-others", help="Of a folder, copy files of unknown formats.", rich_help_panel=_FILES),
]
Retranslate = Annotated[
    bool,
    typer.Option(
        "--retranslate",
        help="Replace translations that PO, XLIFF and TMX files hold.",
        rich_help_panel=_FILES,
    ),
]
Fuzzy = Annotated[
    bool,
    typer.Option(
        "--fuzzy/--no-fuzzy", help="Mark translations as unreviewed (PO, XLIFF).", rich_help_panel=_FILES
    ),
]


def sampling_settings(sample: bool, **settings: float | int | None) -> dict[str, Any]:
    """Search settings of `--sample` and the options that go with it.

    Raises:
        SearchError: an option is given that only sampling uses, without `--sample`.
    """
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if given and not sample:
        option = "--" + next(iter(given)).replace("_", "-")
        raise SearchError(f"{option} only matters to samples: give --sample as well, or leave it out")
    return {"method": "sample", **given} if sample else {}


def search_settings(beam_size: int | None, n_best: int | None, overrides: Sequence[str]) -> dict[str, Any]:
    """Fields of `SearchConfig` by their own options, and by `--set search.…`."""
    own = {"beam_size": beam_size, "n_best": n_best}
    given: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    if overrides:  # reading recipes loads pydantic: an export starts without it
        from transduce.recipe import search_overrides

        given |= search_overrides(overrides)
    return given


def runtime(threads: int | None, compute_type: str | None, exact: bool = False) -> Runtime | None:
    """What was asked for, or None."""
    if threads is None and compute_type is None and not exact:
        return None
    from transduce.translate.runtime import Runtime

    return Runtime(threads=threads or 0, compute_type=compute_type or "default", exact=exact)  # type: ignore[arg-type]


def protection_settings(kinds: str, patterns: Sequence[str]) -> dict[str, Any]:
    """The translator's `protect` for `--protect` and `--protect-pattern`.

    Raises:
        DataError: an unknown kind, or a pattern that is no regular expression.
    """
    if not kinds and not patterns:
        return {}
    from transduce.translate.protect import DEFAULT_KINDS, Protection

    chosen: Any = (
        DEFAULT_KINDS if kinds == "usual" else tuple(filter(None, kinds.replace(" ", "").split(",")))
    )
    return {"protect": Protection(chosen, tuple(patterns))}
