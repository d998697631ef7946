"""Plain text: line by line, or paragraph by paragraph where lines are only as wide as a page.

Everything but the translated text stays byte by byte: blank lines, indents, line ends.
"""

from __future__ import annotations

import re
from typing import Final

from transduce.translate.documents.document import RangeDocument
from transduce.translate.documents.inline import Inline, plain_text

__all__ = ["ParagraphDocument", "TextDocument"]

_LINE: Final = re.compile(r"[^\n]+")
_PARAGRAPH: Final = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")


class TextDocument(RangeDocument):
    """A line is a segment."""

    pattern = _LINE

    def find(self) -> None:
        """Everything between white space."""
        for match in self.pattern.finditer(self.text):
            text = match.group().strip("\ufeff \t\r\n")
            if text:
                start = self.text.index(text[0], match.start())
                self.ranges.append(
                    (start, start + len(match.group()[start - match.start() :].rstrip(" \t\r\n")))
                )
                self.inlines.append((self._shown(self.text[slice(*self.ranges[-1])]),))

    def spell(self, index: int, inline: Inline) -> str:
        """As it is; a line stays one."""
        return plain_text(inline).replace("\r", " ").replace("\n", " ")

    def _shown(self, text: str) -> str:
        return text


class ParagraphDocument(TextDocument):
    """What stands between blank lines is a segment, written as one line."""

    pattern = _PARAGRAPH

    def _shown(self, text: str) -> str:
        return re.sub(r"[ \t]*\r?\n[ \t]*", " ", text)
