"""Where the tags of a sentence go in its translation, by the links between their words.

In: a tagged sentence, its translation without tags, links between characters of both.
Out: the tagged translation: every element exactly once, inside the same elements as before, and how
many could only be put at the end. Does not know: formats, tokens, translators.

An element around text goes around the stretch of the translation where most words come from inside
it and fewest from outside (the stretch of greatest sum, +1 and -1 a word). An element without text
goes before what comes from the word after it, or behind what comes from the word before it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from transduce.translate.documents.inline import Element, Inline, plain_text
from transduce.translate.protect import find_spans

__all__ = ["Link", "Placed", "place"]

# A word, or a single mark; in scripts written without spaces every character may begin a word.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNIT = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+|[^\w\s]")
_MOST_SPANS = 256  # side by side in one sentence; more than that nobody wrote, and they go to the end
_MARK_WEIGHT = 0.25  # what attention says about punctuation is worth little


class Link(NamedTuple):
    """Characters of the source (from, to) that characters of the translation (from, to) come from."""

    source: tuple[int, int]
    target: tuple[int, int]


class Placed(NamedTuple):
    """A translation with its tags."""

    inline: Inline
    unplaced: int
    """Elements that nothing told a place for: they stand at the end of what they are inside."""


def place(source: Inline, text: str, links: Sequence[Link] = ()) -> Placed:
    """Put the elements of `source` into its translation `text`.

    Args:
        source: the tagged sentence.
        text: its translation, without tags.
        links: which characters come from which; without them only elements around everything, at the
            beginning or at the end find their place.
    """
    if text == plain_text(source):
        return Placed(source, 0)
    roots = _spans(source)
    if not roots:
        return Placed((text,) if text else (), 0)
    page = _Page(plain_text(source), text, links)
    end = len(text.rstrip())
    page.place(roots, (0, len(page.source)), (min(len(text) - len(text.lstrip()), end), end))
    return Placed(_built(text, roots, 0, len(text)), page.unplaced)


@dataclass(eq=False)
class _Span:
    """An element, where it stands in the source, and where in the translation."""

    element: Element
    start: int
    end: int
    children: list[_Span]
    target: tuple[int, int] = field(default=(0, 0))
    apart: bool = False
    """It has text of its own, and nothing tells its place: a space parts it from what is there."""


def _spans(inline: Inline, start: int = 0) -> list[_Span]:
    """The elements of one level with their places in the plain text."""
    found, at = [], start
    for part in inline:
        if isinstance(part, str):
            at += len(part)
            continue
        end = at + len(plain_text(part.content))
        children = [] if part.fixed else _spans(part.content, at)
        found.append(_Span(part, at, end, children))
        at = end
    return found


def _built(text: str, spans: Sequence[_Span], start: int, end: int) -> Inline:
    """text[start:end] with `spans`, which do not overlap, at their places."""
    parts: list[str | Element] = []
    at = start
    for span in sorted(spans, key=lambda s: s.target[0]):
        a, b = max(at, span.target[0]), max(at, span.target[1])
        if a > at:
            parts.append(text[at:a])
        if span.apart and parts:
            parts.append(" ")
        content = span.element.content if span.element.fixed else _built(text, span.children, a, b)
        parts.append(Element(span.element.key, content, span.element.fixed))
        at = b
    if end > at:
        parts.append(text[at:end])
    return tuple(parts)


class _Page:
    """A sentence and its translation, cut into units, with what links them."""

    def __init__(self, source: str, target: str, links: Sequence[Link]) -> None:
        self.source, self.target = source, target
        self.units = _units(target)
        links = sorted(links, key=lambda link: link.target)
        starts = [link.target[0] for link in links]
        longest = max((link.target[1] - link.target[0] for link in links), default=0)
        self.origins: list[list[tuple[int, int]]] = []
        for a, b in self.units:
            near = links[bisect_left(starts, a - longest) : bisect_left(starts, b)]
            self.origins.append([link.source for link in near if link.target[1] > a])
        self._link_copies()
        self.unplaced = 0

    def _link_copies(self) -> None:
        """A placeholder comes from the same placeholder, whatever attention says."""
        left = list(find_spans(self.source))
        for index, (a, b) in enumerate(self.units):
            copied = next((span for span in left if span.text == self.target[a:b]), None)
            if copied is not None:
                left.remove(copied)
                self.origins[index] = [(copied.start, copied.end)]

    def place(self, spans: Sequence[_Span], source: tuple[int, int], target: tuple[int, int]) -> None:
        """Give every span of one level a place within `target`; `source` is what their parent holds."""
        taken: list[tuple[int, int]] = []
        around = [span for span in spans if self.source[span.start : span.end].strip()]
        waiting = [span for span in around if not self._settle(span, source, target, taken)]
        best = {id(span): self._best(span, target, taken) for span in waiting[:_MOST_SPANS]}
        while best:  # the surest first; the others make do with what is left
            span = max((s for s in waiting if id(s) in best), key=lambda s: best[id(s)][0])
            score, place = best.pop(id(span))
            if score <= 0:
                break
            span.target = place
            taken.append(place)
            waiting.remove(span)
            for other in waiting:
                if id(other) in best and _overlap(best[id(other)][1], place):
                    best[id(other)] = self._best(other, target, taken)
        for span in waiting:
            span.target, span.apart = (target[1], target[1]), span.element.fixed
        self.unplaced += len(waiting)
        has_text = {id(span) for span in around}
        for span in spans:
            if id(span) not in has_text:
                span.target = self._point(span, source, target, taken)
        for span in spans:
            self.place(span.children, (span.start, span.end), span.target)

    def _settle(
        self, span: _Span, source: tuple[int, int], target: tuple[int, int], taken: list[tuple[int, int]]
    ) -> bool:
        """Place what needs no links: a span around all there is, or fixed text that stands there once."""
        outside = self.source[source[0] : span.start] + self.source[span.end : source[1]]
        if not outside.strip() and not span.element.fixed:
            span.target = target
        else:
            text = self.source[span.start : span.end]
            if not span.element.fixed or self.target.count(text, *target) != 1:
                return False
            at = self.target.index(text, *target)
            span.target = (at, at + len(text))
            if any(_overlap(span.target, other) for other in taken):
                return False
        taken.append(span.target)
        return True

    def _best(
        self, span: _Span, target: tuple[int, int], taken: Sequence[tuple[int, int]]
    ) -> tuple[float, tuple[int, int]]:
        """The stretch of free units within `target` that speaks most for `span`, and how much."""
        best, place = 0.0, (target[1], target[1])
        total, start = 0.0, None
        # Marks only count inside, or at an end where the source has one too: words do not come down
        # to a full stop, and a bracket around a tag stays outside.
        text = self.source[span.start : span.end].strip()
        may_begin, may_end = not text[0].isalnum(), not text[-1].isalnum()
        for (a, b), origins in zip(self.units, self.origins, strict=True):
            if a < target[0] or b > target[1] or any(_overlap((a, b), other) for other in taken):
                total, start = 0.0, None
                continue
            is_word = any(map(str.isalnum, self.target[a:b]))
            if start is None and not is_word and not may_begin:
                continue
            gain = _vote(origins, span) * (1.0 if is_word else _MARK_WEIGHT)
            if total + gain <= 0:
                total, start = 0.0, None
                continue
            total, start = total + gain, a if start is None else start
            better = total > best or (total == best and self._nearer(span, (start, b), place))
            if better and (is_word or may_end):
                best, place = total, (start, b)
        return best, place

    def _nearer(self, span: _Span, new: tuple[int, int], old: tuple[int, int]) -> bool:
        """Whether a stretch lies, in proportion, nearer to where the span stands in the source."""
        scale = (len(self.target) or 1) / (len(self.source) or 1)
        wanted = (span.start + span.end) * scale
        return abs(sum(new) - wanted) < abs(sum(old) - wanted)

    def _point(
        self,
        span: _Span,
        source: tuple[int, int],
        target: tuple[int, int],
        taken: Sequence[tuple[int, int]],
    ) -> tuple[int, int]:
        """The place of an element without text."""
        before, after = self.source[source[0] : span.start], self.source[span.end : source[1]]
        if not before.strip():
            at = target[0]
        elif not after.strip():
            at = target[1]
        else:
            glued = not before[-1].isspace() and not after[0].isalnum()  # it belongs to the word before it
            tries = (self._behind, self._ahead) if glued else (self._ahead, self._behind)
            found = next((p for find in tries if (p := find(span, target)) is not None), None)
            self.unplaced += found is None
            at = target[1] if found is None else found
        for a, b in taken:
            if a < at < b:
                at = a if at - a < b - at else b
        return at, at

    def _ahead(self, span: _Span, target: tuple[int, int]) -> int | None:
        """Before the first unit that comes from the source word after `span`."""
        word = _UNIT.search(self.source, span.end)
        units = self._from(word, target)
        return units[0][0] if units else None

    def _behind(self, span: _Span, target: tuple[int, int]) -> int | None:
        """Behind the last unit that comes from the source word before `span`."""
        words = [match for match in _UNIT.finditer(self.source) if match.end() <= span.start]
        units = self._from(words[-1] if words else None, target)
        return units[-1][1] if units else None

    def _from(self, word: re.Match[str] | None, target: tuple[int, int]) -> list[tuple[int, int]]:
        """Units within `target` that come from a word of the source."""
        if word is None:
            return []
        return [
            unit
            for unit, origins in zip(self.units, self.origins, strict=True)
            if target[0] <= unit[0]
            and unit[1] <= target[1]
            and any(a < word.end() and word.start() < b for a, b in origins)
        ]


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two stretches share a character."""
    return one[0] < other[1] and other[0] < one[1]


def _units(text: str) -> list[tuple[int, int]]:
    """Words, marks, and what is never cut: placeholders, URLs, addresses."""
    units, at = [], 0
    for start, end in [*((span.start, span.end) for span in find_spans(text)), (len(text), len(text))]:
        units += [match.span() for match in _UNIT.finditer(text, at, start)]
        units += [(start, end)] if end > start else []
        at = end
    return units


def _vote(origins: Sequence[tuple[int, int]], span: _Span) -> float:
    """1 when a unit comes from inside the span, -1 from outside, something between when from both."""
    if not origins:
        return 0.0
    shares = [
        max(0, min(b, span.end) - max(a, span.start)) / (b - a)
        if b > a
        else float(span.start <= a < span.end)
        for a, b in origins
    ]
    return 2 * sum(shares) / len(shares) - 1
