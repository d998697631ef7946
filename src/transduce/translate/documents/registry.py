"""Which formats there are, by name and by file name; each is loaded when it is asked for."""

from __future__ import annotations

import importlib
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from transduce.errors import DataError
from transduce.text.lines import COMPRESSED_SUFFIXES
from transduce.translate.documents.document import Document, DocumentOptions
from transduce.translate.documents.safety import MAX_BYTES, read_document

__all__ = ["FORMATS", "document_of", "format_of", "open_document"]


class _Format(NamedTuple):
    suffixes: tuple[str, ...]
    module: str
    name: str
    needs: tuple[str, ...] = ()
    """Packages of the extra `documents`."""


FORMATS: Final[dict[str, _Format]] = {
    "text": _Format((".txt", ".text"), "text", "TextDocument"),
    "paragraphs": _Format((), "text", "ParagraphDocument"),
    "po": _Format((".po", ".pot"), "po", "PoDocument", ("polib",)),
    "xliff": _Format((".xlf", ".xliff"), "xliff", "XliffDocument"),
    "tmx": _Format((".tmx",), "tmx", "TmxDocument"),
    "srt": _Format((".srt",), "subtitles", "SubtitleDocument"),
    "vtt": _Format((".vtt",), "subtitles", "VttDocument"),
    "html": _Format((".html", ".htm", ".xhtml"), "html", "HtmlDocument"),
    "markdown": _Format((".md", ".markdown"), "markdown", "MarkdownDocument", ("markdown_it",)),
    "docx": _Format((".docx",), "docx", "DocxDocument", ("docx",)),
}
"""By the name that `--input-format` takes."""


def format_of(path: PurePath) -> str | None:
    """The format that a file's name tells, `.gz` and `.zst` passed over; None for an unknown one."""
    name = PurePath(path.stem) if path.suffix.lower() in COMPRESSED_SUFFIXES else path
    suffix = name.suffix.lower()
    return next((known for known, entry in FORMATS.items() if suffix in entry.suffixes), None)


def open_document(
    path: Path,
    format: str | None = None,  # noqa: A002 -- the word the command line uses
    *,
    options: DocumentOptions | None = None,
    max_bytes: int = MAX_BYTES,
) -> Document:
    """Read a document.

    Args:
        path: the file.
        format: one of `FORMATS`; None tells it by the name, and takes what is unknown for text.
        options: how to read and write it.
        max_bytes: larger files are refused.

    Raises:
        DataError: the file cannot be read, is not of that format, or is not safe to read; or the
            format needs a package that is not installed.
    """
    entry = _entry(format or format_of(path) or "text", str(path))
    return _read(entry, read_document(path, max_bytes=max_bytes), str(path), options)


def document_of(
    data: bytes,
    name: str,
    format: str,  # noqa: A002
    *,
    options: DocumentOptions | None = None,
) -> Document:
    """As `open_document`, of a file that is in memory.

    Args:
        data: the file.
        name: for messages; nothing is opened.
        format: one of `FORMATS`.
        options: how to read and write it.

    Raises:
        DataError: as `open_document`.
    """
    return _read(_entry(format, name), data, name, options)


def _entry(format: str, name: str) -> _Format:  # noqa: A002
    """A format that can be read here."""
    if format not in FORMATS:
        raise DataError(f"unknown format {format!r}; there are {', '.join(FORMATS)}")
    entry = FORMATS[format]
    for package in entry.needs:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise DataError(
                f"{name}: reading {format} files needs packages that are not installed ({error}): "
                "pip install 'transduce[documents]'"
            ) from error
    return entry


def _read(entry: _Format, data: bytes, name: str, options: DocumentOptions | None) -> Document:
    module = importlib.import_module(f"transduce.translate.documents.{entry.module}")
    try:
        document: Document = getattr(module, entry.name)(data, name, options or DocumentOptions())
    except DataError:
        raise
    except Exception as error:  # a stranger's file, and libraries that fail on it in ways of their own
        kind = next(known for known, value in FORMATS.items() if value is entry)
        raise DataError(
            f"{name} cannot be read as {kind} ({type(error).__name__}: {error}); open it in a program for "
            "such files, and save it again"
        ) from error
    return document
