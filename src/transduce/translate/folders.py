"""A folder of files to a folder of translated files, with the same tree.

Every file of a known format is translated; what is broken is told, and does not stop the others. With
`resume`, files that are finished are passed over. Hidden files and links to folders are left alone.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from transduce.errors import DataError, TransduceError
from transduce.files import clear_leftovers, written_or
from transduce.text.lines import COMPRESSED_SUFFIXES
from transduce.translate.document_files import translate_document_file
from transduce.translate.documents.registry import FORMATS, format_of
from transduce.translate.files import FileOptions, report
from transduce.translate.line_files import LineFiles, translate_line_file
from transduce.translate.resume import Record, sidecar
from transduce.translate.translator import Translator

__all__ = ["translate_folder"]


def translate_folder(
    translator: Translator,
    source: Path,
    target: Path,
    files: FileOptions,
    record: Record,
    console: Console,
    **options: Any,
) -> None:
    """Translate every known file of a folder.

    Args:
        translator: does the work.
        source: the folder; what lies in `target`, should that be inside it, is not read.
        target: made when missing.
        files: which format, what may be replaced, what is copied.
        record: the model and settings.
        console: where progress and counts are shown.
        options: for `Translator.translate`.

    Raises:
        DataError: `target` stands and may not be written into; or, at the end, some files could not
            be translated.
    """
    _check_target(target, files, record)
    with written_or(DataError, f"{target} could not be written"):
        target.mkdir(parents=True, exist_ok=True)
        record.begin(target)
    work = _Work(translator, files, record, console, options)
    for path in _files(source, target):
        work.do(path, target / path.relative_to(source))
    _tell(work.counts, work.skipped, console)
    if work.broken:
        total = len(work.broken) + work.counts.total() - work.counts["copied"]
        names = ", ".join(map(str, work.broken[:3])) + (" …" if len(work.broken) > 3 else "")
        raise DataError(
            f"{len(work.broken)} of {total} files were not translated: {names}; mend them, and run the same "
            "command with --resume"
        )
    record.end(target)


@dataclass
class _Work:
    """What is done to each file, and what came of it."""

    translator: Translator
    files: FileOptions
    record: Record
    console: Console
    options: dict[str, Any]
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    broken: list[Path] = field(default_factory=list)
    made: set[Path] = field(default_factory=set)

    def do(self, path: Path, output: Path) -> None:
        """Translate, copy or leave out one file."""
        name = format_of(path)
        if name is not None and path.suffix.lower() in COMPRESSED_SUFFIXES:
            output = output.with_suffix("")  # what is written is not compressed
        wanted = "text" if self.files.format == "paragraphs" else self.files.format
        if name is None or wanted not in ("auto", name):
            if self.files.copy_others:
                _copy(path, output)
                self.counts["copied"] += 1
            else:
                self.skipped[path.suffix or path.name] += 1
        elif self.files.resume and output.exists() and not sidecar(output).exists():
            self.counts["finished before"] += 1
        else:
            try:
                self._translate(path, output, name)
                self.counts["translated"] += 1
            except (TransduceError, OSError) as error:
                self.console.print(f"not translated: {error}", markup=False, soft_wrap=True)
                self.broken.append(path)

    def _translate(self, path: Path, output: Path, name: str) -> None:
        if output in self.made:
            raise DataError(f"{path}: {output} is the translation of another file; rename one of them")
        self.made.add(output)
        output.parent.mkdir(parents=True, exist_ok=True)
        files, console = self.files, self.console
        if name != "text" or files.format == "paragraphs":
            translate_document_file(self.translator, path, output, files, console, **self.options)
            return
        lines = LineFiles(
            self.translator, jsonl=False, repair=files.repair, console=console, options=self.options
        )
        translate_line_file(lines, path, output, self.record, resume=files.resume, overwrite=files.overwrite)
        report(lines.flags, lines.notes, console)


def _check_target(target: Path, files: FileOptions, record: Record) -> None:
    """Refuse a folder that holds something, unless it may be written into.

    Raises:
        DataError: it may not.
    """
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; --output for a folder is a folder")
    if not target.exists() or files.overwrite or not any(target.iterdir()):
        return
    if not files.resume:
        raise DataError(
            f"{target} is not empty: --resume goes on with what is missing, --overwrite replaces files"
        )
    if sidecar(target).exists():
        record.check(target)
    clear_leftovers(target)


def _files(source: Path, target: Path) -> Iterator[Path]:
    """Files in order, without hidden ones and what belongs to `target`."""
    inside, record = target.resolve(), sidecar(target).resolve()
    for directory, folders, names in os.walk(source):
        here = Path(directory)
        folders[:] = sorted(n for n in folders if not n.startswith(".") and (here / n).resolve() != inside)
        for name in sorted(names):
            if not name.startswith(".") and (here / name).is_file() and (here / name).resolve() != record:
                yield here / name


def _copy(path: Path, output: Path) -> None:
    with written_or(DataError, f"{output} could not be written"):
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, output)


def _tell(counts: Counter[str], skipped: Counter[str], console: Console) -> None:
    """How many files of which kind."""
    console.print(
        ", ".join(f"{n:,} files {what}" for what, n in counts.items()) or "no files", soft_wrap=True
    )
    if skipped:
        kinds = ", ".join(f"{n:,} {suffix}" for suffix, n in skipped.most_common(8))
        console.print(
            f"{skipped.total():,} files are of no known format and were left out ({kinds}); known are "
            f"{', '.join(s for entry in FORMATS.values() for s in entry.suffixes)}; "
            "--copy-others copies the rest",
            markup=False,
            soft_wrap=True,
        )
