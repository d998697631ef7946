"""A folder of files to a folder of translated files, with the same tree.

Every file of a known format is translated; what is broken is told, and does not stop the others. With
`resume`, files that are finished are passed over. Hidden files and links to folders are left alone.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
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
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    broken: list[Path] = []
    made: set[Path] = set()
    for path in _files(source, target):
        output = target / path.relative_to(source)
        name = format_of(path)
        if name is not None and path.suffix.lower() in COMPRESSED_SUFFIXES:
            output = output.with_suffix("")  # what is written is not compressed
        if name is None or files.format not in ("auto", name, *(["paragraphs"] if name == "text" else [])):
            if files.copy_others:
                _copy(path, output)
                counts["copied"] += 1
            else:
                skipped[path.suffix or path.name] += 1
        elif files.resume and output.exists() and not sidecar(output).exists():
            counts["finished before"] += 1
        else:
            try:
                if output in made:
                    raise DataError(
                        f"{path}: {output} is the translation of another file; rename one of them"
                    )
                made.add(output)
                _translate(translator, path, output, files, record, console, **options)
                counts["translated"] += 1
            except (TransduceError, OSError) as error:
                console.print(f"not translated: {error}", markup=False, soft_wrap=True)
                broken.append(path)
    _tell(counts, skipped, console)
    if broken:
        raise DataError(
            f"{len(broken)} of {len(broken) + counts.total() - counts['copied']} files were not translated: "
            f"{', '.join(map(str, broken[:3]))}{' …' if len(broken) > 3 else ''}; mend them, and run "
            "the same command with --resume"
        )
    record.end(target)


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


def _translate(
    translator: Translator,
    path: Path,
    output: Path,
    files: FileOptions,
    record: Record,
    console: Console,
    **options: Any,
) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    if format_of(path) == "text" and files.format != "paragraphs":
        lines = LineFiles(translator, jsonl=False, repair=files.repair, console=console, options=options)
        translate_line_file(lines, path, output, record, resume=files.resume, overwrite=files.overwrite)
        report(lines.flags, lines.notes, console)
    else:
        translate_document_file(translator, path, output, files, console, **options)


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
