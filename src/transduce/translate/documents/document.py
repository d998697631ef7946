"""What every document is: segments to translate, in order, and a way to write them back.

In: a file's bytes. Out: `segments`; after translation, the file again with everything else as it was.
Does not know: translators, models, the command line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from transduce.errors import DataError
from transduce.files import write_atomic, written_or
from transduce.translate.documents.inline import Inline, plain_text
from transduce.translate.documents.placing import place

__all__ = ["Document", "DocumentOptions", "RangeDocument", "decode"]


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """How a document is read and written."""

    source_language: str = ""
    """Such as en; TMX needs it, where the file does not say it."""
    target_language: str = ""
    """Such as de; written where a format has a place for it."""
    retranslate: bool = False
    """Translate again what has a translation already (PO, XLIFF, TMX)."""
    fuzzy: bool = True
    """Mark translations in PO files as fuzzy, and in XLIFF as needing review."""
    repair: bool = False
    """Replace bytes that are not in the file's encoding instead of stopping."""
    max_unpacked: int = 512 * 2**20
    """Most bytes that an archive (DOCX) may unpack to."""


class Document(ABC):
    """A file that was read; `write` gives it back with translations in place."""

    binary: ClassVar[bool] = False

    def __init__(self, data: bytes, name: str, options: DocumentOptions) -> None:
        """Read a document.

        Args:
            data: the file's content.
            name: for messages.
            options: how to read it.

        Raises:
            DataError: the content is not of this format.
        """
        self.data, self.name, self.options = data, name, options
        self.inlines: list[Inline] = []
        """The texts to translate with their tags, in order."""
        self.notes: Counter[str] = Counter()
        """What was met on the way: `kept` (translated already), `skipped` (cannot be changed in place),
        `plural` (a PO header that does not tell the plural forms)."""
        self.read()

    @property
    def segments(self) -> list[str]:
        """The texts to translate, without tags."""
        return [plain_text(inline) for inline in self.inlines]

    def write(self, path: Path, translations: Sequence[str | Inline]) -> None:
        """Write the document with its translations, whole or not at all.

        Args:
            path: replaced when it exists.
            translations: one for each of `segments`; for a plain string the tags of its segment go
                where they can without alignment (see `placing.place`).

        Raises:
            DataError: their number is not that of `segments`, or the file cannot be written.
        """
        self.save(path, self.translated(translations))

    def save(self, path: Path, data: bytes) -> None:
        """Write what `translated` gave.

        Raises:
            DataError: the file cannot be written.
        """
        with written_or(DataError, f"{path} could not be written"):
            write_atomic(path, data)

    def translated(self, translations: Sequence[str | Inline]) -> bytes:
        """As `write`, as bytes.

        Raises:
            DataError: the number of translations is not that of `segments`.
        """
        if len(translations) != len(self.inlines):
            raise DataError(
                f"{self.name} has {len(self.inlines)} segments, and {len(translations)} translations came"
            )
        placed = []
        for source, given in zip(self.inlines, translations, strict=True):
            inline = place(source, given).inline if isinstance(given, str) else given
            placed.append(source if inline == source else inline)
        return self.render(placed)

    def doubt(self, index: int) -> None:  # noqa: B027 -- most formats have no mark for it
        """Something is wrong with the translation of segment `index`: a format that can, marks it."""

    @abstractmethod
    def read(self) -> None:
        """Fill `inlines` from `data`."""

    @abstractmethod
    def render(self, translations: Sequence[Inline]) -> bytes:
        """The file with translations; one that *is* its source's object was left as it is."""


class RangeDocument(Document):
    """A text file of which only certain ranges are replaced: all else stays, character by character."""

    def read(self) -> None:
        """Decode, then let the format find the ranges."""
        self.text, self.encoding = decode(
            self.data, self.name, repair=self.options.repair, declared=self.declared_encoding()
        )
        self.ranges: list[tuple[int, int]] = []
        self.find()

    def declared_encoding(self) -> str | None:
        """The encoding that the file's own content names, if any."""
        return None

    @abstractmethod
    def find(self) -> None:
        """Fill `ranges` and `inlines`; ranges do not overlap and come in order."""

    @abstractmethod
    def spell(self, index: int, inline: Inline) -> str:
        """How a translation of segment `index` is written in this format."""

    def render(self, translations: Sequence[Inline]) -> bytes:
        """Splice what changed into the text."""
        parts, at = [], 0
        for index, (start, end) in enumerate(self.ranges):
            if translations[index] is not self.inlines[index]:
                parts += [self.text[at:start], self.spell(index, translations[index])]
                at = end
        parts.append(self.text[at:])
        return self.encode("".join(parts))

    def encode(self, text: str) -> bytes:
        """Back to the file's encoding."""
        return text.encode(self.encoding, "strict" if self.encoding.startswith("utf") else "replace")


def decode(data: bytes, name: str, *, repair: bool = False, declared: str | None = None) -> tuple[str, str]:
    """Text and encoding of a file: what its byte-order mark says, else what it declares, else UTF-8.

    `text.encode(encoding)` is `data` again, the mark included.

    Raises:
        DataError: it is not in that encoding and `repair` is off.
    """
    encoding = "utf-8"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16-le" if data.startswith(b"\xff\xfe") else "utf-16-be"  # the mark stays in the text
    elif declared and not data.startswith(b"\xef\xbb\xbf") and not declared.startswith(("utf-16", "utf-32")):
        encoding = declared  # a declaration that could be read is not in two-byte characters
    try:
        return data.decode(encoding), encoding
    except LookupError:
        raise DataError(f"{name} says that it is written in {encoding!r}, which is not known here") from None
    except UnicodeDecodeError as error:
        if repair:
            return data.decode(encoding, "replace"), encoding
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}:{line}: byte 0x{data[error.start]:02x} is not {encoding.upper()}; convert the file with "
            "iconv, or pass --repair to replace such bytes with U+FFFD"
        ) from None
