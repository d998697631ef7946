"""A page as what it is made of: text, tags, comments, declarations, each with its place.

The parts, put together, are the page, however badly it is written. Time grows with the page's length and
with nothing else: the standard library's parser took minutes for 100 KB of `<` or of unclosed comments
(CPython before 3.13.6 and 3.14), and read broken pages in another way in each version.

As HTML reads it: an unclosed comment goes to the end; what `<script>` and `<style>` hold is text. Unlike
HTML: a tag that holds a bare `<`, or is never closed, is text; a quote that is never closed is no quote.
Does not know: which elements there are, what is translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

__all__ = ["Part", "html_parts"]

# Possessive throughout: nothing is read twice. A quote only means something behind an equals sign.
_MARKUP: Final = re.compile(
    r"(?P<comment><!--.*?(?:--!?>|\Z))"
    r"|(?P<other><!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*+(?:>|\Z)|</[^a-zA-Z>][^>]*+(?:>|\Z))"
    r"|<(?P<close>/?)(?P<name>[a-zA-Z][^\s/<>\"'=]*+)"
    r"(?P<attributes>(?:[^<>\"'=]++|=[\t\n\r\f ]*+(?:\"[^\"]*+\"|'[^']*+')|[=\"'])*+)>",
    re.DOTALL,
)
_RAW: Final = frozenset({"script", "style"})


class Part(NamedTuple):
    """A stretch of a page."""

    kind: Literal["text", "open", "close", "empty", "comment", "other"]
    """`empty`: an opening tag with a slash at its end. `other`: declarations and instructions."""
    start: int
    end: int
    name: str = ""
    """Of a tag, in lower case."""


def html_parts(text: str) -> Iterator[Part]:
    """The parts of a page, in order; no two texts stand side by side."""
    at, raw = 0, ""
    while match := _MARKUP.search(text, _raw_end(text, at, raw) if raw else at):
        start, end = match.span()
        if start > at:
            yield Part("text", at, start)
        part = _part(match)
        yield part
        at, raw = end, part.name if part.kind == "open" and part.name in _RAW else ""
    if at < len(text):
        yield Part("text", at, len(text))


def _part(match: re.Match[str]) -> Part:
    start, end = match.span()
    if match["comment"] is not None:
        return Part("comment", start, end)
    if match["other"] is not None:
        return Part("other", start, end)
    name = match["name"].lower()
    if match["close"]:
        return Part("close", start, end, name)
    return Part("empty" if match["attributes"].endswith("/") else "open", start, end, name)


def _raw_end(text: str, at: int, name: str) -> int:
    """Where the text of a raw element ends: at its closing tag."""
    match = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, at)
    return match.start() if match else len(text)
