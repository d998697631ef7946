"""A document through the service: its bytes in, the translated file's bytes out.

In: an upload, its format and languages. Out: the file, and what is to be known about it.
Does not know: HTTP, what formats are made of (translate/documents).

Files are read in threads, few at a time: a large one must not stop what others are waiting for.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from transduce.errors import DataError
from transduce.serve.problems import Problem
from transduce.serve.texts import Way, translate_inlines
from transduce.translate.documents import (
    FORMATS,
    Document,
    DocumentOptions,
    document_of,
    format_of,
    plain_text,
)

__all__ = ["MEDIA_TYPES", "DocumentDesk", "TranslatedDocument", "file_name"]

_AT_ONCE: Final = 2
_MOST_HANDED_IN: Final = 8
_UNPACKED: Final = 20  # times the greatest size of an upload
_UNSAFE: Final = re.compile(r"[^\w .,()+=@-]", re.ASCII)

MEDIA_TYPES: Final = {
    "text": "text/plain; charset=utf-8",
    "paragraphs": "text/plain; charset=utf-8",
    "po": "text/x-gettext-translation",
    "xliff": "application/xliff+xml",
    "tmx": "application/x-tmx+xml",
    "srt": "application/x-subrip",
    "vtt": "text/vtt",
    "html": "text/html",
    "markdown": "text/markdown",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}


@dataclass(frozen=True, kw_only=True)
class TranslatedDocument:
    """The file, and what is to be known about it."""

    data: bytes
    name: str
    media_type: str
    segments: int
    flags: dict[str, int]
    """How many segments have each flag (see `Rendered`)."""
    notes: dict[str, int]
    """What was met on the way (see `Document.notes`)."""


class DocumentDesk:
    """Where documents are handed in."""

    def __init__(self, *, max_bytes: int, max_characters: int) -> None:
        """Open it.

        Args:
            max_bytes: of a file as it comes; an archive may unpack to twenty times as much.
            max_characters: to translate of one document.
        """
        self._max_unpacked, self._max_characters = _UNPACKED * max_bytes, max_characters
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._handed_in = 0

    async def translate(
        self,
        data: bytes,
        name: str,
        format: str | None,  # noqa: A002 -- the word the request uses
        way: Way,
        *,
        protect: bool = True,
        retranslate: bool = False,
        fuzzy: bool = True,
    ) -> TranslatedDocument:
        """Translate a document.

        Args:
            data: the file.
            name: as the client calls it: tells the format, and nothing else.
            format: instead of by the name.
            way: from which language to which.
            protect: keep placeholders, URLs, addresses and code.
            retranslate: replace translations that PO, XLIFF and TMX files hold.
            fuzzy: mark translations as unreviewed (PO, XLIFF).

        Raises:
            Problem: 413 for too much text, 415 for an unknown format, 429 for too many at once, or as
                `TranslationService.translate`.
            DataError: the file cannot be read, or is not safe to read.
        """
        name = file_name(name)
        model = way.service.registry.choose(way.source, way.target)
        options = DocumentOptions(
            source_language=way.source or model.source,
            target_language=way.target or model.target,
            retranslate=retranslate,
            fuzzy=fuzzy,
            max_unpacked=self._max_unpacked,
        )
        known = self._format(format, name)
        async with self._place():
            document = await asyncio.to_thread(document_of, data, name, known, options=options)
            self._check(document)
            rendered = await translate_inlines(way, document.inlines, protect=protect)
            flags: Counter[str] = Counter()
            for index, segment in enumerate(rendered):
                flags.update(segment.flags)
                if segment.flags & {"placeholders", "tags"}:
                    document.doubt(index)
            done = await asyncio.to_thread(document.translated, [one.inline for one in rendered])
        return TranslatedDocument(
            data=done,
            name=name,
            media_type=MEDIA_TYPES[known],
            segments=len(rendered),
            flags=dict(flags),
            notes=dict(document.notes),
        )

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """One of few: files that wait are held in memory.

        Raises:
            Problem: too many wait.
        """
        if self._handed_in >= _MOST_HANDED_IN:
            raise Problem(
                429,
                "Too many documents",
                f"{self._handed_in} documents are being translated or wait, the most that may: try again "
                "in a few seconds",
                "too-many-documents",
                {"max_documents": _MOST_HANDED_IN},
                {"Retry-After": "5"},
            )
        self._handed_in += 1
        try:
            async with self._places:
                yield
        finally:
            self._handed_in -= 1

    def _format(self, format: str | None, name: str) -> str:  # noqa: A002
        found = format_of(PurePosixPath(name)) if format is None else format if format in FORMATS else None
        if found is None or name.lower().endswith((".gz", ".zst")):
            raise Problem(
                415,
                "The format is not known",
                f"the file is called {name!r}, and its `format` is {format and format[:40]!r}: give one of "
                f"{', '.join(FORMATS)} as `format`, for a file that is not compressed",
                "unknown-format",
                {"formats": list(FORMATS)},
            )
        return found

    def _check(self, document: Document) -> None:
        count = sum(len(plain_text(inline)) for inline in document.inlines)
        if count > self._max_characters:
            raise Problem(
                413,
                "A limit is passed",
                f"the document has {count} characters to translate, but at most {self._max_characters} are "
                "allowed here: send it in parts",
                "max-document-characters",
                {"max_document_characters": self._max_characters},
            )


def file_name(given: str) -> str:
    """A client's name for a file, harmless: its last part, of usual characters, not long.

    Raises:
        DataError: nothing of it is left.
    """
    last = PureWindowsPath(PurePosixPath(given.replace("\0", "")).name).name
    stem, dot, suffix = last.rpartition(".")
    name = _UNSAFE.sub("_", f"{stem[-80:]}{dot}{suffix[:12]}").strip(" .")
    if not name:
        raise DataError(
            f"the file has no name that can be used ({given[:40]!r}): give it one, such as app.po"
        )
    return name
