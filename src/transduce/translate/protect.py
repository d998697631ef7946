"""Spans that a translation must hold as they are: `{name}`, `%s`, URLs, addresses, code.

In:  a source text, and what counts as a span. Out: the spans, and, after translating, which of them
     are lost or came in addition.
Does not know: models, tokenizers, document formats.

How they are kept. An ordinary model has learnt no placeholder symbol, and a text that is cut around its
spans loses its context and the target's word order. So the source stays as it is, and the search is made
to write each span as often as the source holds it, wherever the model likes it best
(`Translator.translate(..., protect=True)`, by the constrained beam of `search/phrases.py`). That is exact
as far as the length limit lets it; `compare` says afterwards what is true, whoever translated.

For another tool's use without that search: `spans = find_spans(source)`, translate,
`compare(spans, translation)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from transduce.errors import DataError
from transduce.translate.words import has_edge

__all__ = ["DEFAULT_KINDS", "Difference", "Kind", "Protection", "Span", "compare", "find_spans"]

Kind: TypeAlias = Literal["code", "url", "email", "braces", "printf", "tags", "numbers"]

DEFAULT_KINDS: Final[tuple[Kind, ...]] = ("code", "url", "email", "braces", "printf")
"""Numbers are left out: languages write them differently (1,000 and 1.000). Tags belong to documents."""

# Characters that end a URL although they are no spaces: quotes, brackets of markup, and scripts that
# write no spaces.
_NOT_IN_URL = r"\s<>\"'`“”„«»\u3000-\u303f\u3040-\u30ff\u3400-\u9fff\uff01-\uff60"
# What repeats is bounded, or cannot begin inside itself: 20,000 characters of anything take no second.
_PATTERNS: Final[dict[Kind, str]] = {
    "code": r"(?P<ticks>`{1,3})(?!`)[^\n]{1,1000}?(?<!`)(?P=ticks)(?!`)",
    "url": rf"(?<![A-Za-z0-9])(?:(?:https?|ftps?|file|ssh|wss?)://|mailto:|www\.)[^{_NOT_IN_URL}]+",
    "email": r"(?<![\w.+\-])[\w.+\-]++@[\w\-]+(?:\.[\w\-]+)+",
    # {{ name }}, {% tag %}, ${name}, %{name}, #{name}, {name}, {0:.2f}, {}
    "braces": r"\{\{[^{}\n]*\}\}|\{%[^\n]{0,300}?%\}|[$%#]?\{[^{}\s]*\}",
    # %(name)s, %1$s, %-5.2f, %@, %%; a percentage (100% sure, 5%) is none
    "printf": (
        r"%\(\w{1,200}\)[\-+#0]{0,5}\d{0,4}(?:\.\d{1,4})?[diouxXeEfFgGcrsa]"
        r"|(?<!%)%%(?!%)"
        r"|(?<![\d%])%(?:\d{1,4}\$)?[\-+#0]{0,5}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?"
        r"(?:hh|h|ll|l|z|j|t|L)?[diouxXeEfFgGcsp@]"
    ),
    "tags": r"</?[A-Za-z][^<>\n]*>|&(?:#\d+|#x[0-9A-Fa-f]+|\w+);",
    "numbers": r"(?<!\w)(?<!\d[.,:/\-])[+\-]?\d+(?:[.,:/\-]\d+)*(?!\w)",
}
_TRAILING = ".,;:!?…*_"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


class Span(NamedTuple):
    """A part of a text that is not translated: `source[start:end] == text`."""

    start: int
    end: int
    text: str
    kind: str
    """A `Kind`, or `own` for a pattern of the user's."""
    apart: bool
    """It touches no letter or digit in the source, so that it must not in the translation either."""


class Difference(NamedTuple):
    """What a translation did to its source's spans; one entry for each occurrence."""

    lost: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True)
class Protection:
    """What counts as a span.

    Raises:
        DataError: an unknown kind, or a pattern that is no regular expression.
    """

    kinds: tuple[Kind, ...] = DEFAULT_KINDS
    patterns: tuple[str, ...] = ()
    """Regular expressions of one's own (Python's `re`); they come before the kinds."""
    force: bool = True
    """Let the search write each span. False: translate as ever, and only say what was lost."""

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in get_args(Kind):
                raise DataError(
                    f"unknown kind of protected text {kind!r}; there are {', '.join(get_args(Kind))}"
                )
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise DataError(
                    f"the pattern {pattern!r} is no regular expression ({error}): "
                    "escape what is meant literally with a backslash"
                ) from error

    @cached_property
    def searches(self) -> list[tuple[str, re.Pattern[str]]]:
        """Kind and compiled pattern, in order of preference."""
        own = [("own", re.compile(pattern)) for pattern in self.patterns]
        return own + [(kind, re.compile(_PATTERNS[kind])) for kind in self.kinds]


def find_spans(text: str, protection: Protection | None = None) -> tuple[Span, ...]:
    """Find the spans of a text, from left to right, without overlaps.

    Of spans that overlap the one that begins first is taken, then the longer, then the kind that
    `protection` names first. A URL ends before punctuation that belongs to the sentence.
    """
    protection = protection or Protection()
    found = []
    for rank, (kind, pattern) in enumerate(protection.searches):
        for match in pattern.finditer(text):
            start, end = match.span()
            if kind == "url":
                end = start + len(_without_trailing(match.group()))
            if end > start:
                apart = has_edge(text[max(0, start - 1) : start], "a") and has_edge("a", text[end : end + 1])
                found.append((start, -end, rank, Span(start, end, text[start:end], kind, apart)))
    spans: list[Span] = []
    for start, _, _, span in sorted(found, key=lambda item: item[:3]):
        if not spans or start >= spans[-1].end:
            spans.append(span)
    return tuple(spans)


def compare(spans: Sequence[Span], translation: str, protection: Protection | None = None) -> Difference:
    """Say which spans of a source its translation lacks, and which it has too many of.

    Args:
        spans: of the source, as `find_spans` gave them.
        translation: the whole translation of that source.
        protection: what the spans were found with.
    """
    wanted = Counter(span.text for span in spans)
    numbers = {span.text for span in spans if span.kind == "numbers"}
    found = Counter(span.text for span in find_spans(translation, protection))
    lost: list[str] = []
    for text, count in wanted.items():
        there = found[text]
        if there < count and text not in numbers:  # what touches a span may hide its edge; 5 in 15 is no 5
            there = max(there, translation.count(text))
        lost += [text] * (count - there)
    added = [text for text, count in (found - wanted).items() for _ in range(count)]
    return Difference(tuple(lost), tuple(added))


def _without_trailing(url: str) -> str:
    """The URL without the punctuation of the sentence around it; a bracket it opened itself stays."""
    counts = Counter(url)
    end = len(url)
    while end:
        last = url[end - 1]
        opens = _BRACKETS.get(last)
        if last not in _TRAILING and not (opens and counts[last] > counts[opens]):
            break
        counts[last] -= 1
        end -= 1
    return url[:end]
