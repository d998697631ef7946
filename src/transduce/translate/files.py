"""`transduce translate`: lines, documents and folders to their translations.

Nothing but translations goes to stdout; what was split, cut or repaired is counted on stderr. An
output file is never lost in silence: one that stands is replaced only with `overwrite`, and one that
was interrupted goes on with `resume`, and ends byte by byte as if it had not been.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console

from transduce.errors import DataError
from transduce.progress import track
from transduce.text.lines import count_lines, iter_lines, open_bytes
from transduce.translate.documents.registry import FORMATS, format_of
from transduce.translate.model_directory import ModelDirectory
from transduce.translate.resume import Record, cut_to_whole_lines, sidecar
from transduce.translate.stream import translate_lines
from transduce.translate.translator import Translation, Translator

__all__ = ["FileOptions", "report", "settings_of", "translate_line_file", "translate_stream"]

_TOLD = {
    "split": "were longer than the model takes at once and were translated in pieces",
    "truncated": "reached the length limit and were cut",
    "repeated": "repeat themselves",
    "copied": "were copied unchanged",
    "tags": "have tags that could only be put at the end",
    "placeholders": "lost or doubled a placeholder",
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
    **search: Any,
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
        search: fields of `SearchConfig`.

    Raises:
        TransduceError: the model or the input cannot be read, or the output may not be written.
    """
    files = files or FileOptions(repair=repair)
    if output_file is not None and input_file is not None and output_file.resolve() == input_file.resolve():
        raise DataError(f"{output_file} is the input as well: choose another --output")
    is_folder = input_file is not None and input_file.is_dir()
    name = files.format_of(None if is_folder else input_file)
    if input_file is None or output_file is None:
        _refuse_without_files(input_file, name, files, is_folder=is_folder)
    if jsonl and (is_folder or name != "text"):
        raise DataError("--jsonl writes a line for each line of a text file: not for documents and folders")
    if input_file is not None and not is_folder:
        with open_bytes(input_file):
            pass  # what cannot be read is told before a model is loaded
    translator = Translator.load(model)
    if is_folder or name != "text":
        from transduce.translate.document_files import translate_document_file
        from transduce.translate.folders import translate_folder

        assert input_file is not None, "stdin is no document"
        if is_folder:
            assert output_file is not None, "a folder goes into a folder"
            record = Record(ModelDirectory(model).path, settings_of(files, jsonl=False, search=search))
            translate_folder(translator, input_file, output_file, files, record, console, **search)
        else:
            translate_document_file(translator, input_file, output_file, files, console, **search)
    elif input_file is None or output_file is None or (output_file.exists() and not output_file.is_file()):
        _translate_plain(
            translator, input_file, output_file, jsonl=jsonl, repair=repair, console=console, **search
        )
    else:
        record = Record(ModelDirectory(model).path, settings_of(files, jsonl=jsonl, search=search))
        translate_line_file(
            translator, input_file, output_file, files, record, console, jsonl=jsonl, **search
        )


def settings_of(files: FileOptions, *, jsonl: bool, search: dict[str, Any]) -> dict[str, Any]:
    """What an output depends on, beside model and input."""
    return {
        **search,
        "jsonl": jsonl,
        "repair": files.repair,
        "retranslate": files.retranslate,
        "fuzzy": files.fuzzy,
    }


def translate_line_file(
    translator: Translator,
    input_file: Path,
    output_file: Path,
    files: FileOptions,
    record: Record,
    console: Console,
    *,
    jsonl: bool,
    **search: Any,
) -> None:
    """Translate a file of lines into a file of lines, so that it can be interrupted at any moment.

    Args:
        translator: does the work.
        input_file: `.gz` and `.zst` are unpacked.
        output_file: grows line by line.
        files: `resume`, `overwrite` and `repair` matter here.
        record: the model and settings.
        console: where progress and counts are shown.
        jsonl: a JSON object a line instead of plain text.
        search: fields of `SearchConfig`.

    Raises:
        DataError: the output stands and may not be replaced, or is not what `record` says.
    """
    record = record.of(input_file)
    total = count_lines(input_file)
    done = _lines_done(output_file, total, files, record)
    if done is None:
        console.print(f"{output_file} has all of its {total:,} lines; nothing to do", soft_wrap=True)
        return
    with ExitStack() as stack:
        if done:
            console.print(f"{output_file} has {done:,} of {total:,} lines and goes on there", soft_wrap=True)
        target = stack.enter_context(output_file.open("ab" if done else "wb"))
        if not done:
            record.begin(output_file)
        source = stack.enter_context(open_bytes(input_file))
        how: dict[str, Any] = {
            "skip": done,
            "patient": True,
            "repair": files.repair,
            "jsonl": jsonl,
            "console": console,
        }
        _translate_lines(translator, source, str(input_file), target, total, stack, **how, **search)
        os.fsync(target.fileno())
    record.end(output_file)


def _translate_plain(
    translator: Translator,
    input_file: Path | None,
    output_file: Path | None,
    *,
    jsonl: bool,
    repair: bool,
    console: Console,
    **search: Any,
) -> None:
    """Lines to a terminal, a pipe or a device, or from one: nothing to be continued."""
    total = count_lines(input_file) if input_file is not None else None
    with ExitStack() as stack:
        source, name = _input(input_file, stack)
        target = sys.stdout.buffer if output_file is None else stack.enter_context(output_file.open("wb"))
        how: dict[str, Any] = {
            "patient": input_file is not None,
            "repair": repair,
            "jsonl": jsonl,
            "console": console,
        }
        _translate_lines(translator, source, name, target, total, stack, **how, **search)


def _translate_lines(
    translator: Translator,
    source: BinaryIO,
    name: str,
    target: BinaryIO,
    total: int | None,
    stack: ExitStack,
    *,
    repair: bool,
    jsonl: bool,
    console: Console,
    patient: bool,
    skip: int = 0,
    **search: Any,
) -> None:
    """From one open stream to another."""
    flags: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    tell = stack.enter_context(track(console, "translating", "lines", total))
    lines = iter_lines(source, name, repair=repair, notes=notes)
    progress = _flushing(target, tell)
    for line, translation in translate_lines(
        translator, lines, patient=patient, skip=skip, progress=progress, alignment=jsonl, **search
    ):
        target.write(_formatted(line, translation, jsonl=jsonl).encode() + b"\n")
        flags.update(translation.flags)
    target.flush()
    stack.callback(report, flags, notes, console)


def _lines_done(output: Path, total: int, files: FileOptions, record: Record) -> int | None:
    """Lines that need not be translated again; None when all are there.

    Raises:
        DataError: what stands in `output` may neither be replaced nor continued.
    """
    if not output.exists() or files.overwrite or not (output.stat().st_size or sidecar(output).exists()):
        sidecar(output).unlink(missing_ok=True)  # of a file that is no more
        return 0
    if not files.resume:
        interrupted = (
            "is an interrupted translation: --resume continues it, " if sidecar(output).exists() else ""
        )
        raise DataError(f"{output} {interrupted or 'exists: '}--overwrite replaces it")
    if not sidecar(output).exists() and count_lines(output) == total:
        return None
    record.check(output)
    done = cut_to_whole_lines(output)
    if done > total:
        raise DataError(
            f"{output} has {done:,} lines, more than the {total:,} of the input: it is another file's "
            "translation; --overwrite begins anew"
        )
    if done == total:
        record.end(output)
        return None
    return done


def _refuse_without_files(input_file: Path | None, name: str, files: FileOptions, *, is_folder: bool) -> None:
    """Say what needs --input or --output.

    Raises:
        DataError: one that is needed is missing.
    """
    if input_file is None and name != "text":
        raise DataError(f"--input-format {name} reads a file: give --input FILE")
    if files.resume:
        raise DataError("--resume continues a file: give --input FILE and --output FILE")
    if is_folder:
        raise DataError(f"{input_file} is a folder: give --output DIR, where its translations go")


def _input(file: Path | None, stack: ExitStack) -> tuple[BinaryIO, str]:
    if file is None:
        return sys.stdin.buffer, "stdin"
    return stack.enter_context(open_bytes(file)), str(file)


def _flushing(target: BinaryIO, tell: Callable[[int], None]) -> Callable[[int], None]:
    """Progress that also hands on what was written: a person at a pipe waits for it."""

    def progress(done: int) -> None:
        target.flush()
        tell(done)

    return progress


def _formatted(line: str, translation: Translation, *, jsonl: bool) -> str:
    """One line of output, without its end."""
    if jsonl:
        return json.dumps({"source": line, **translation.to_dict()}, ensure_ascii=False)
    # The model never writes a line end, but a long text is joined with what stood between its pieces.
    return translation.text.replace("\r", " ").replace("\n", " ")


def report(flags: Counter[str], notes: Counter[str], console: Console, *, unit: str = "lines") -> None:
    """Say what happened to how many lines or segments."""
    for flag, count in flags.items():
        console.print(f"{count:,} {unit} {_TOLD.get(flag, f'are flagged {flag!r}')}", soft_wrap=True)
    if notes["repaired"]:
        console.print(f"{notes['repaired']:,} lines were not UTF-8 and were repaired", soft_wrap=True)
