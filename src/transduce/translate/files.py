"""`transduce translate`: lines, documents and folders to their translations.

Nothing but translations goes to stdout; what was split, cut or repaired is counted on stderr. An
output file is never lost in silence: one that stands is replaced only with `overwrite`, and one that
was interrupted goes on with `resume`, and ends byte by byte as if it had not been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from transduce.errors import DataError
from transduce.files import file_sha256
from transduce.text.lines import open_bytes
from transduce.translate.documents.registry import FORMATS, format_of
from transduce.translate.glossary import Glossary
from transduce.translate.line_files import LineFiles, translate_line_file, translate_line_stream
from transduce.translate.resume import Record
from transduce.translate.translator import EngineName, Translator

if TYPE_CHECKING:
    from transduce.search.ensemble import Mean
    from transduce.translate.runtime import Runtime

__all__ = ["FileOptions", "report", "translate_stream"]

_TOLD = {
    "split": "were longer than the model takes at once and were translated in pieces",
    "truncated": "reached the length limit and were cut",
    "repeated": "repeat themselves",
    "copied": "were copied unchanged",
    "length": "are much longer or shorter than their source",
    "empty": "have an empty translation",
    "glossary": "lack a term of the glossary",
    "placeholders": "lost or doubled a protected part",
    "tags": "have tags that could only be put at the end",
}


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How files and folders are read and written."""

    format: str = "auto"
    """One of `FORMATS`; `auto` goes by the file's name, and takes what is unknown for lines of text."""
    resume: bool = False
    """Go on where an interrupted translation stopped."""
    overwrite: bool = False
    """Replace an output that stands."""
    copy_others: bool = False
    """Of a folder, copy the files that are not translated."""
    retranslate: bool = False
    """Translate again what has a translation already (PO, XLIFF, TMX)."""
    fuzzy: bool = True
    """Mark translations as unreviewed (PO, XLIFF)."""
    repair: bool = False
    """Replace bytes that are not in the file's encoding instead of stopping."""

    def __post_init__(self) -> None:
        if self.format not in ("auto", *FORMATS):
            raise DataError(f"unknown --input-format {self.format!r}; there are auto, {', '.join(FORMATS)}")
        if self.resume and self.overwrite:
            raise DataError("--resume keeps what is there and --overwrite replaces it: give one of them")

    def settings(self) -> dict[str, Any]:
        """Those that an output depends on."""
        return {"repair": self.repair, "retranslate": self.retranslate, "fuzzy": self.fuzzy}

    def format_of(self, path: Path | None) -> str:
        """The format of one file."""
        if self.format != "auto":
            return self.format
        return (format_of(path) if path is not None else None) or "text"


def translate_stream(
    model: Path,
    input_file: Path | None,
    output_file: Path | None,
    *,
    jsonl: bool,
    repair: bool,
    console: Console,
    files: FileOptions | None = None,
    alignments: Path | None = None,
    glossary: Path | None = None,
    ensemble: Sequence[Path] = (),
    mean: str = "probability",
    engine: EngineName = "auto",
    runtime: Runtime | None = None,
    **options: Any,
) -> None:
    """Translate the input, whatever it is, in order.

    Args:
        model: model directory or finished run.
        input_file: a file of lines (`.gz` and `.zst` are unpacked), a document, or a folder; None
            for lines from stdin.
        output_file: None for stdout.
        jsonl: a JSON object a line instead of plain text.
        repair: replace bytes that are not UTF-8 instead of stopping.
        console: where progress and counts are shown.
        files: how files and folders are read and written.
        alignments: a file for word alignments in Pharaoh's form, a line for each line.
        glossary: a file of lines `source TAB target`.
        ensemble: models that translate together with `model`.
        mean: what they are averaged by.
        engine: as `Translator.load`; `auto` takes torch where only that can do what is asked for.
        runtime: threads and number form.
        options: for `Translator.translate`: `protect`, and fields of `SearchConfig`.

    Raises:
        TransduceError: the model or the input cannot be read, or the output may not be written.
    """
    files = files or FileOptions(repair=repair)
    name = "folder" if input_file is not None and input_file.is_dir() else files.format_of(input_file)
    _refuse(input_file, output_file, alignments, name, files, jsonl=jsonl)
    if mean != "probability" and not ensemble:
        raise DataError("--ensemble-mean only matters to several models: give --ensemble as well")
    settings = {**options, "jsonl": jsonl, **files.settings(), **({"mean": mean} if ensemble else {})}
    if glossary is not None:
        options["glossary"] = Glossary.load(glossary)
        settings["glossary"] = file_sha256(glossary)
    if engine == "auto" and (glossary is not None or options.get("protect")):
        engine = "torch"  # an export cannot be made to hold phrases
    pipes = [path for path in (input_file, output_file) if path and path.exists() and not path.is_file()]
    if input_file is not None and input_file not in pipes:
        open_bytes(input_file).close()  # what cannot be read is told before a model is loaded
    models = [model, *ensemble]
    translator = Translator.load(
        models if ensemble else model, mean=cast("Mean", mean), engine=engine, runtime=runtime
    )
    settings |= _identity(translator, runtime)
    translator.translate([], **options)  # settings that contradict each other are told before any line
    if name != "text":
        assert input_file is not None, "stdin is lines"
        _translate_documents(translator, models, input_file, output_file, files, settings, console, options)
        return
    lines = LineFiles(translator, jsonl=jsonl, repair=repair, console=console, options=options)
    if input_file is None or output_file is None or pipes:
        translate_line_stream(lines, input_file, output_file, alignments, overwrite=files.overwrite)
    else:
        record, how = Record(models, settings), {"resume": files.resume, "overwrite": files.overwrite}
        translate_line_file(lines, input_file, output_file, record, alignments=alignments, **how)
    report(lines.flags, lines.notes, console)


def _identity(translator: Translator, runtime: Runtime | None) -> dict[str, str]:
    """What computes: another engine or number form may write other words."""
    compute_type = runtime.compute_type if runtime else "default"
    return {"engine": type(translator.engine).__name__, "compute_type": compute_type}


def report(flags: Counter[str], notes: Counter[str], console: Console, *, unit: str = "lines") -> None:
    """Say what happened to how many lines or segments."""
    for flag, count in flags.items():
        console.print(f"{count:,} {unit} {_TOLD[flag]}", soft_wrap=True)
    if notes["repaired"]:
        console.print(f"{notes['repaired']:,} lines were not UTF-8 and were repaired", soft_wrap=True)


def _translate_documents(
    translator: Translator,
    models: Sequence[Path],
    input_file: Path,
    output_file: Path | None,
    files: FileOptions,
    settings: dict[str, Any],
    console: Console,
    options: dict[str, Any],
) -> None:
    """A document or a folder; their libraries are only loaded here."""
    from transduce.translate.document_files import translate_document_file
    from transduce.translate.folders import translate_folder

    if input_file.is_dir():
        assert output_file is not None, "a folder goes into a folder"
        record = Record(models, settings)
        translate_folder(translator, input_file, output_file, files, record, console, **options)
    else:
        translate_document_file(translator, input_file, output_file, files, console, **options)


def _refuse(
    input_file: Path | None,
    output_file: Path | None,
    alignments: Path | None,
    name: str,
    files: FileOptions,
    *,
    jsonl: bool,
) -> None:
    """Say which files are missing, or are named twice.

    Raises:
        DataError: what is asked for cannot be done.
    """
    _refuse_same_file("--output", output_file, input_file)
    _refuse_same_file("--alignments", alignments, input_file)
    if alignments is not None and output_file is not None and alignments.resolve() == output_file.resolve():
        raise DataError(f"{alignments} is the output as well: choose another --alignments")
    if input_file is None and name != "text":
        raise DataError(f"--input-format {name} reads a file: give --input FILE")
    if files.resume and (input_file is None or output_file is None):
        raise DataError("--resume continues a file: give --input FILE and --output FILE")
    if name == "folder" and output_file is None:
        raise DataError(f"{input_file} is a folder: give --output DIR, where its translations go")
    if name != "text" and (jsonl or alignments is not None):
        option = "--jsonl" if jsonl else "--alignments"
        raise DataError(f"{option} writes a line for each line of a text file: not for documents and folders")


def _refuse_same_file(option: str, file: Path | None, input_file: Path | None) -> None:
    """Writing over what is being read would destroy it."""
    if file is not None and input_file is not None and file.resolve() == input_file.resolve():
        raise DataError(f"{file} is the input as well: choose another {option}")
