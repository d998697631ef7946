"""Which scripts a line is written in.

In: a line. Out: how many letters of each script it has.
Coarse on purpose: blocks of Unicode, not the character database, which Python does not carry.
Does not know: languages (`language.py`), pairs.
"""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["LATIN", "count_letters", "is_latin", "main_script"]

LATIN = "Latin"

# First and last code point of each block of letters, in order.
_BLOCKS = (
    (0x0041, 0x005A, LATIN),
    (0x0061, 0x007A, LATIN),
    (0x00C0, 0x00D6, LATIN),
    (0x00D8, 0x00F6, LATIN),
    (0x00F8, 0x024F, LATIN),
    (0x0370, 0x03FF, "Greek"),
    (0x0400, 0x052F, "Cyrillic"),
    (0x0531, 0x058F, "Armenian"),
    (0x0591, 0x05F4, "Hebrew"),
    (0x0610, 0x06FF, "Arabic"),
    (0x0710, 0x074F, "Syriac"),
    (0x0750, 0x077F, "Arabic"),
    (0x0780, 0x07BF, "Thaana"),
    (0x07C0, 0x07FF, "N'Ko"),
    (0x08A0, 0x08FF, "Arabic"),
    (0x0900, 0x097F, "Devanagari"),
    (0x0980, 0x09FF, "Bengali"),
    (0x0A00, 0x0A7F, "Gurmukhi"),
    (0x0A80, 0x0AFF, "Gujarati"),
    (0x0B00, 0x0B7F, "Odia"),
    (0x0B80, 0x0BFF, "Tamil"),
    (0x0C00, 0x0C7F, "Telugu"),
    (0x0C80, 0x0CFF, "Kannada"),
    (0x0D00, 0x0D7F, "Malayalam"),
    (0x0D80, 0x0DFF, "Sinhala"),
    (0x0E00, 0x0E7F, "Thai"),
    (0x0E80, 0x0EFF, "Lao"),
    (0x0F00, 0x0FFF, "Tibetan"),
    (0x1000, 0x109F, "Myanmar"),
    (0x10A0, 0x10FF, "Georgian"),
    (0x1100, 0x11FF, "Hangul"),
    (0x1200, 0x139F, "Ethiopic"),
    (0x13A0, 0x13FF, "Cherokee"),
    (0x1400, 0x167F, "Canadian syllabics"),
    (0x1780, 0x17FF, "Khmer"),
    (0x1800, 0x18AF, "Mongolian"),
    (0x1C90, 0x1CBF, "Georgian"),
    (0x1E00, 0x1EFF, LATIN),
    (0x1F00, 0x1FFF, "Greek"),
    (0x2D00, 0x2D2F, "Georgian"),
    (0x2D30, 0x2D7F, "Tifinagh"),
    (0x3041, 0x30FF, "Kana"),
    (0x3105, 0x312F, "Bopomofo"),
    (0x3131, 0x318E, "Hangul"),
    (0x31F0, 0x31FF, "Kana"),
    (0x3400, 0x4DBF, "Han"),
    (0x4E00, 0x9FFF, "Han"),
    (0xA000, 0xA4CF, "Yi"),
    (0xAC00, 0xD7AF, "Hangul"),
    (0xF900, 0xFAFF, "Han"),
    (0xFB1D, 0xFB4F, "Hebrew"),
    (0xFB50, 0xFDFF, "Arabic"),
    (0xFE70, 0xFEFC, "Arabic"),
    (0xFF66, 0xFF9D, "Kana"),
    (0x20000, 0x323AF, "Han"),
)
_SCRIPTS = list(dict.fromkeys([LATIN, "Han", "Kana", *(script for _, _, script in _BLOCKS)]))


def _letters_of(*scripts: str) -> str:
    """The class of a regular expression that takes the letters of some scripts."""
    blocks = (f"{chr(first)}-{chr(last)}" for first, last, script in _BLOCKS if script in scripts)
    return f"[{''.join(blocks)}]"


_ANY = _letters_of(*_SCRIPTS)
_NOT_LATIN = re.compile(_letters_of(*_SCRIPTS[1:]))
# One group for each script, in the order of `_SCRIPTS`; the look-ahead passes quickly over the rest.
_RUNS = re.compile(f"(?={_ANY})(?:{'|'.join(f'({_letters_of(script)}+)' for script in _SCRIPTS)})")
_LATIN_LETTERS = re.compile("[A-Za-z]+")
# A line is in another script than Latin from one of its letters in ten.
_LATIN_SHARE = 9


def count_letters(line: str) -> Counter[str]:
    """Count the letters of each script in a line; digits, signs and spaces do not count."""
    if line.isascii():
        letters = sum(map(len, _LATIN_LETTERS.findall(line)))
        return Counter({LATIN: letters}) if letters else Counter()
    counts: Counter[str] = Counter()
    for run in _RUNS.finditer(line):
        counts[_SCRIPTS[(run.lastindex or 1) - 1]] += run.end() - run.start()
    return counts


def is_latin(line: str) -> bool:
    """Whether a line has no letter of another script than Latin (quicker than counting)."""
    return line.isascii() or not _NOT_LATIN.search(line)


def main_script(letters: Counter[str]) -> str | None:
    """The script that carries a line's text, or None for a line without letters.

    Names, code and addresses stay Latin everywhere, so another script wins already with a tenth
    of the letters.
    """
    others = [(count, script) for script, count in letters.items() if script != LATIN]
    if not others:
        return LATIN if letters[LATIN] else None
    if sum(count for count, _ in others) * _LATIN_SHARE >= letters[LATIN]:
        return max(others)[1]
    return LATIN
