"""What a model cannot write, carried past it: emoji, unknown scripts, placeholders.

In: tagged text. Out: the same text with more tags in it, which are taken out again after translation,
so that what they stand for comes back character by character, where the alignment says.

    emoji, symbols, words    that the model has no pieces for: taken out of the text it sees, because
    of unknown scripts       they would be bytes to it, and everything behind them is then often lost
    placeholders, URLs       stay in the text (a sentence needs its nouns), unless the model has no pieces
                             for them; what the model made of each is replaced by what it was

Does not know: models, formats.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from transduce.translate.documents.inline import Element, Inline, plain_text
from transduce.translate.protect import Protection, Span, find_spans

__all__ = ["LINE", "Keeper", "Knows", "line_core", "unknown_runs"]

Knows = Callable[[str], bool]
"""Whether a model has learnt a piece for a character."""

# What ends a line, and what parts the columns of one; the greedy end keeps \r\n and blank lines whole.
LINE: Final = re.compile(r"[^\n\r\t\v\f\x85\u2028\u2029]*(?:[\n\r\t\v\f\x85\u2028\u2029]+|\Z)")
"""A line of text with all that ends it, or the rest of one."""

# Symbols with what joins and modifies them: skin tones, joiners, variation selectors, keycaps, tags.
_SYMBOLS: Final = re.compile(
    "[\u2190-\u2bff\u3030\u303d\u3297\u3299\ufffc\ufffd\U0001f000-\U0001faff]"
    "[\u200d\ufe0e\ufe0f\u20e3\u2190-\u2bff\U0001f000-\U0001faff\U000e0020-\U000e007f]*"
    "|[#*0-9]\ufe0f?\u20e3"
    "|[\ue000-\uf8ff\U000f0000-\U0010ffff]+"
)
_WORD: Final = re.compile(r"[^\W\d_][\w\u0300-\u036f\u200c\u200d]*")

_MOST: Final = 256  # of one line; nobody wrote more, and placing them takes the square of their number

_Place = tuple[int, int]


def unknown_runs(text: str, knows: Knows | None) -> list[_Place]:
    """Symbols and words that a model has no pieces for; only spaces between them make them one."""
    if text.isascii():
        return []
    found = [m.span() for m in _SYMBOLS.finditer(text) if knows is None or not all(map(knows, m.group()))]
    if knows is not None:
        found += [m.span() for m in _WORD.finditer(text) if _is_foreign(m.group(), knows)]
    runs: list[_Place] = []
    for start, end in sorted(found):
        if runs and not text[runs[-1][1] : start].strip(" "):
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((start, end))
    return runs


def _is_foreign(word: str, knows: Knows) -> bool:
    """Whether most of a word's letters are unknown: one rare letter may stand in any name."""
    letters = [c for c in unicodedata.normalize("NFC", word) if c.isalpha()]
    return 2 * sum(not knows(letter) for letter in letters) > len(letters)


def line_core(line: str, runs: Sequence[_Place]) -> _Place:
    """What a model is given of a line: white space and unknown runs at both ends stay outside."""
    start, end = 0, len(line)
    ahead, behind = list(runs), list(reversed(runs))
    while start < end and (line[start].isspace() or (ahead and ahead[0][0] == start)):
        start = ahead.pop(0)[1] if ahead and ahead[0][0] == start else start + 1
    while end > start and (line[end - 1].isspace() or (behind and behind[0][1] == end)):
        end = max(start, behind.pop(0)[0] if behind and behind[0][1] == end else end - 1)
    return start, end


class Keeper:
    """Tags what is kept in one inline, and takes these tags out again."""

    def __init__(self, inline: Inline, knows: Knows | None, protection: Protection | None) -> None:
        """Find what is to be kept.

        Args:
            inline: the text with its own tags.
            knows: None leaves words alone, and takes no symbol for known.
            protection: what counts as a placeholder; None keeps none.
        """
        self._knows, self._protection = knows, protection
        self._texts: dict[int, str] = {}  # by the key of the element that stands for it
        self._outside = _outside(plain_text(inline), knows)
        self._at = 0
        self.inline = self._tagged(inline)

    @property
    def keeps(self) -> bool:
        """Whether there is anything."""
        return bool(self._texts)

    def restored(self, inline: Inline) -> Inline:
        """A translation of `self.inline` with what was kept in place of its tags."""
        parts: list[str | Element] = []
        for part in inline:
            if isinstance(part, Element) and part.key not in self._texts:
                parts.append(Element(part.key, self.restored(part.content), part.fixed))
                continue
            text = part if isinstance(part, str) else self._texts[part.key]
            if parts and isinstance(parts[-1], str):
                parts[-1] += text
            else:
                parts.append(text)
        return tuple(parts)

    def _tagged(self, inline: Inline) -> Inline:
        parts: list[str | Element] = []
        for part in inline:
            if isinstance(part, str):
                parts += self._split(part)
                self._at += len(part)
            elif part.fixed:
                parts.append(part)
                self._at += len(plain_text(part.content))
            else:
                parts.append(Element(part.key, self._tagged(part.content), part.fixed))
        return tuple(parts)

    def _split(self, text: str) -> Iterator[str | Element]:
        """The text, with elements in place of what is kept."""
        at = 0
        for start, end, seen in self._places(text):
            if start > at:
                yield text[at:start]
            key = -1 - len(self._texts)  # formats count theirs from 0
            self._texts[key] = text[start:end]
            yield Element(key, (text[start:end],) if seen else (), seen)
            at = end
        if at < len(text):
            yield text[at:]

    def _places(self, text: str) -> list[tuple[int, int, bool]]:
        """Where what is kept begins and ends, and whether the model is to see it; without overlaps."""
        spans = find_spans(text, self._protection) if self._protection is not None else ()
        places = [self._place_of(text, span) for span in spans]
        for start, end in unknown_runs(text, self._knows):
            if not any(a <= self._at + start and self._at + end <= b for a, b in self._outside):
                places.append(_widened(text, start, end))
        found: list[tuple[int, int, bool]] = []
        for place in sorted(places, key=lambda place: (place[0], not place[2])):
            if not found or place[0] >= found[-1][1]:
                found.append(place)
        return found[:_MOST]

    def _place_of(self, text: str, span: Span) -> tuple[int, int, bool]:
        """A placeholder; one whose characters the model has no pieces for would only confuse it."""
        if self._knows is None or all(map(self._knows, span.text)):
            return span.start, span.end, True
        return _widened(text, span.start, span.end)


def _outside(text: str, knows: Knows | None) -> list[_Place]:
    """The ends of lines, which no model is given: what is unknown there needs no tag."""
    if text.isascii():
        return []
    found, at = [], 0
    for line in filter(None, LINE.findall(text)):
        start, end = line_core(line, unknown_runs(line, knows))
        found += [(at, at + start), (at + end, at + len(line))]
        at += len(line)
    return found


def _widened(text: str, start: int, end: int) -> tuple[int, int, bool]:
    """A run inside a line, with the space before it, or two would meet; seen where words would."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if before == " " and not after.isalnum():
        return start - 1, end, False
    return start, end, before.isalnum() and after.isalnum()
