"""Characters and marks in a line that are seldom meant: the list, and the search for them.

In: a line. Out: the kinds found. Training keeps such lines; the report shows where they are.
Does not know: pairs, what else is wrong with a line (`cleaning.py`).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

__all__ = ["NOT_COMPOSED", "ODDITIES", "Oddity", "find_oddities"]


@dataclass(frozen=True, slots=True)
class Oddity:
    """A kind of odd content: what it is, how to find it, and what training makes of it."""

    kind: str
    title: str
    pattern: re.Pattern[str]
    fate: str = "kept"


def _oddity(kind: str, title: str, pattern: str, fate: str = "kept") -> Oddity:
    return Oddity(kind, title, re.compile(pattern), fate)


_ENTITY = "&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"

ODDITIES: tuple[Oddity, ...] = (
    _oddity("null", "NUL", "\x00"),
    _oddity("tab", "TAB", "\t"),
    _oddity("carriage_return", "lone carriage return", "\r"),
    _oddity("control", "other control character", "[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]"),
    _oddity("line_separator", "separator that ends no line (U+0085, 2028, 2029)", "[\x85\u2028\u2029]"),
    _oddity("no_break_space", "no-break space (U+00A0, U+202F)", "[\xa0\u202f]"),
    _oddity("zero_width", "zero-width space or joiner (U+200B, U+2060)", "[\u200b\u2060]"),
    _oddity("soft_hyphen", "soft hyphen (U+00AD)", "\xad"),
    _oddity("byte_order_mark", "byte-order mark inside the text (U+FEFF)", "\ufeff"),
    _oddity("direction", "direction override (U+202A-202E, U+2066-2069)", "[\u202a-\u202e\u2066-\u2069]"),
    _oddity("private_use", "private-use character", "[\ue000-\uf8ff\U000f0000-\U0010ffff]"),
    _oddity("mojibake", "UTF-8 that was read as Latin-1 (Ã¤, â€)", "[ÂÃ][\x80-\xbf]|â[\x80€]"),
    _oddity("word_boundary", "SentencePiece's word mark (U+2581)", "\u2581", "kept as a space"),
    _oddity("joiner", "@@, the joiner of subword-nmt", "@@"),
    _oddity("entity", "HTML entity (&amp; &apos; &#39;)", _ENTITY),
    _oddity("spaces", "outer or repeated spaces", "^ | $|  ", "kept as one space or none"),
)  # fmt: skip
"""Every kind that a pattern finds, in the order of the report."""

NOT_COMPOSED = Oddity("not_nfc", "not in Unicode normal form C", re.compile("(?!)"), "kept in form C")
"""The one kind that no pattern finds."""

# The characters that every pattern but the plain-text ones needs; most lines have none of them.
_SUSPECT = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\xa0\xadÂÃâ\u200b\u2028-\u202f\u2060-\u2069\u2581\ue000-\uf8ff\ufeff"
    "\U000f0000-\U0010ffff]"
)


def find_oddities(line: str) -> list[Oddity]:
    """The kinds of odd content in a line, each once."""
    found = []
    if (
        "  " in line
        or line[:1] == " "
        or line[-1:] == " "
        or "&" in line
        or "@@" in line
        or _SUSPECT.search(line)
    ):
        found = [oddity for oddity in ODDITIES if oddity.pattern.search(line)]
    if not line.isascii() and not unicodedata.is_normalized("NFC", line):
        found.append(NOT_COMPOSED)
    return found
