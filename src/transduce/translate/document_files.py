"""One document file to another, through a translator.

Does not know: formats (the `documents` room), lines, folders.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from transduce.errors import DataError
from transduce.progress import track
from transduce.translate.documents import Document, DocumentOptions, open_document
from transduce.translate.engine import RequiringEngine
from transduce.translate.files import FileOptions, report
from transduce.translate.protect import Protection
from transduce.translate.segments import translate_inlines
from transduce.translate.translator import Translator

__all__ = ["translate_document", "translate_document_file"]

_NOTES: Final = {
    "kept": "{n:,} texts had a translation and were kept (--retranslate replaces them)",
    "skipped": "{n:,} texts could not be changed in place and were left as they are",
    "plural": "the header tells no plural forms: two are written, as in English",
}


def translate_document_file(
    translator: Translator,
    input_file: Path,
    output_file: Path | None,
    files: FileOptions,
    console: Console,
    **options: Any,
) -> None:
    """Translate one document; the output appears whole, or not at all.

    Args:
        translator: does the work.
        input_file: the document.
        output_file: None writes to stdout, which formats that are text allow.
        files: format, and what may be replaced.
        console: where progress and counts are shown.
        options: for `Translator.translate`; without `protect`, placeholders, URLs and code are
            protected, where the engine can write what it must.

    Raises:
        DataError: the document cannot be read, or the output stands and may not be replaced.
    """
    special = output_file is not None and output_file.exists() and not output_file.is_file()
    if output_file is not None and output_file.exists() and not files.overwrite and not special:
        if files.resume:
            console.print(f"{output_file} is there and whole; nothing to do", soft_wrap=True)
            return
        raise DataError(f"{output_file} exists: --overwrite replaces it")
    document = open_document(
        input_file,
        files.format_of(input_file),
        options=DocumentOptions(
            source_language=translator.languages[0],
            target_language=translator.languages[1],
            retranslate=files.retranslate,
            fuzzy=files.fuzzy,
            repair=files.repair,
        ),
    )
    if output_file is None and document.binary:
        raise DataError(f"{input_file} cannot be written to a terminal or pipe: give --output FILE")
    data = translate_document(translator, document, console, **options)
    if output_file is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif special:  # a device or a pipe: never replaced by a file
        output_file.write_bytes(data)
    else:
        document.save(output_file, data)


def translate_document(translator: Translator, document: Document, console: Console, **options: Any) -> bytes:
    """The translated document, as bytes; says on `console` what happened.

    Args:
        translator: does the work.
        document: what was read.
        console: where progress and counts are shown.
        options: for `Translator.translate`; without `protect`, placeholders, URLs and code are
            protected, where the engine can write what it must.
    """
    options = {"protect": _protection(translator, options), "details": False, **options}
    with track(console, "translating", "sentences") as tell:
        rendered = translate_inlines(translator, document.inlines, progress=tell, **options)
    flags: Counter[str] = Counter()
    for index, segment in enumerate(rendered):
        flags.update(segment.flags)
        if segment.flags & {"placeholders", "tags"}:
            document.doubt(index)
    data = document.translated([segment.inline for segment in rendered])
    for name, count in document.notes.items():
        console.print(_NOTES[name].format(n=count), soft_wrap=True)
    report(flags, Counter(), console, unit="segments")
    return data


def _protection(translator: Translator, options: dict[str, Any]) -> Protection:
    """Force the search to write what must stay, if the engine can; and say what was lost in any case."""
    samples = options.get("method", translator.config.method) == "sample"
    return Protection(force=isinstance(translator.engine, RequiringEngine) and not samples)
