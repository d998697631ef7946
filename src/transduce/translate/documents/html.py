"""HTML pages: the text of every block, with the tags inside its sentences.

Read in one pass (`html_parts.py`), and written by replacing only the text that changed: doctype,
comments, attributes, scripts and spelling stay byte by byte, and a page that does not keep the rules
keeps its own way of breaking them.

Translated: text of blocks, and the attributes `alt`, `title`, `placeholder`, `aria-label`, `content`
of descriptions, `value` of buttons. Kept: `<script>`, `<style>`, `<pre>`, `<textarea>`, `<svg>`,
`<math>`, whatever has `translate="no"` or the class `notranslate`, and, in place, `<code>`, `<kbd>`,
`<samp>`, `<var>`. `<br>` ends a sentence.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import Final

from transduce.translate.documents.document import RangeDocument
from transduce.translate.documents.html_parts import Part, html_parts
from transduce.translate.documents.inline import Inline, has_words, plain_text
from transduce.translate.documents.markup import Node, Token, nest, peel, spell, to_inline

__all__ = ["HtmlDocument", "HtmlFragment"]

_INLINE: Final = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q rb rp rt ruby s "
    "samp small span strike strong sub sup time tt u var wbr".split()
)
_FIXED: Final = frozenset({"code", "kbd", "samp", "var"})
_SKIPPED: Final = frozenset("script style pre textarea svg math template noscript iframe object xmp".split())
_VOID: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_ATTRIBUTE: Final = re.compile(
    r"\s(?P<name>[a-zA-Z-]+)\s*=\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)')", re.ASCII
)
_SPOKEN: Final = frozenset({"alt", "title", "placeholder", "aria-label"})
_DESCRIBED: Final = re.compile(
    r"(?:name|property)\s*=\s*[\"']?(?:og:|twitter:)?(?:description|title)[\"'\s>/]", re.IGNORECASE
)
_BUTTON: Final = re.compile(r"\stype\s*=\s*[\"']?(?:submit|button|reset)\b", re.IGNORECASE)
_UNTRANSLATED: Final = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)
_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING: Final = re.compile(rb"\A\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
_SPACES: Final = re.compile(r"[ \t\n\r\f]+")


class HtmlDocument(RangeDocument):
    """A page, or a part of one."""

    def declared_encoding(self) -> str | None:
        """What `<meta charset>` or an XML declaration says."""
        match = _CHARSET.search(self.data[:2048]) or _XML_ENCODING.search(self.data[:200])
        return match[1].decode("ascii", "replace").lower() if match else None

    def find(self) -> None:
        """Read the page's tokens, and cut them into segments at every tag that is no inline one."""
        scanner = _Scanner(self.text)
        self._tables: list[list[Node]] = []
        self._attributes: set[int] = set()  # segments that are an attribute's value
        found: list[tuple[tuple[int, int], Inline, list[Node] | None]] = []
        for run in scanner.runs:
            nodes = peel(nest(run), self.text)
            table: list[Node] = []
            inline = to_inline(nodes, table)
            if has_words(inline):
                found.append(((nodes[0].start, nodes[-1].end), inline, table))
        found += [(place, (html.unescape(self.text[slice(*place)]),), None) for place in scanner.attributes]
        found.sort(key=lambda item: item[0])
        for place, inline, nodes_of in found:
            if nodes_of is None:
                self._attributes.add(len(self.ranges))
            self.ranges.append(place)
            self.inlines.append(inline)
            self._tables.append(nodes_of or [])

    def spell(self, index: int, inline: Inline) -> str:
        """Text escaped, tags as they were, but for their own translated attributes."""
        return spell(inline, self._tables[index], lambda text: html.escape(text, quote=False), self._raw)

    def render(self, translations: Sequence[Inline]) -> bytes:
        """Attributes first: a tag inside a sentence may have some."""
        self._spelt = [
            (self.ranges[i], html.escape(plain_text(translations[i])))
            for i in sorted(self._attributes)
            if translations[i] is not self.inlines[i]
        ]
        parts, at = [], 0
        for index, (start, end) in enumerate(self.ranges):
            if index not in self._attributes and translations[index] is not self.inlines[index]:
                parts += [self._raw(at, start), self.spell(index, translations[index])]
                at = end
        parts.append(self._raw(at, len(self.text)))
        return self.encode("".join(parts))

    def encode(self, text: str) -> bytes:
        """Characters that the page's encoding lacks become references."""
        return text.encode(self.encoding, "xmlcharrefreplace")

    def _raw(self, start: int, end: int) -> str:
        """The page from one place to another, with the attributes that are translated."""
        parts, at = [], start
        first = bisect_left(self._spelt, ((start, start), ""))
        for (a, b), value in islice(self._spelt, first, None):
            if b > end:
                break
            parts += [self.text[at:a], value]
            at = b
        parts.append(self.text[at:end])
        return "".join(parts)


class HtmlFragment(HtmlDocument):
    """A part of a page that came as characters, in UTF-8 here whatever it says about itself."""

    def declared_encoding(self) -> str | None:
        """Nothing."""
        return None


class _Scanner:
    """Cuts a page into runs of inline tokens, and finds attributes that are read to people."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._run: list[Token] = []
        self._inside: list[tuple[str, int, bool]] = []  # skipped elements: name, where, in place
        self._depth = 0
        self.runs: list[list[Token]] = []
        self.attributes: list[tuple[int, int]] = []
        for part in html_parts(text):
            self._take(part)
        self._flush()

    def _take(self, part: Part) -> None:
        if part.kind == "close":
            self._close(part)
        elif self._inside:
            if part.kind == "open":
                self._depth += part.name == self._inside[-1][0] and part.name not in _VOID
        elif part.kind == "text":
            shown = _SPACES.sub(" ", html.unescape(self._text[part.start : part.end]))
            self._run.append(Token(part.start, part.end, "text", "", shown))
        elif part.kind in ("open", "empty"):
            self._open(part)
        elif part.kind == "comment":  # inside a sentence it stays there
            self._run.append(Token(part.start, part.end, "lone"))
        else:  # a doctype; or an instruction such as PHP's: what it makes is not known, so a sentence ends
            self._flush()

    def _open(self, part: Part) -> None:
        """An opening tag; void elements are lone ones. In HTML the slash of `<br/>` means nothing."""
        tag, raw = part.name, self._text[part.start : part.end]
        hidden = bool(_UNTRANSLATED.search(raw))
        in_place = tag in _INLINE
        if (hidden or tag in _FIXED or tag in _SKIPPED) and tag not in _VOID:
            if not in_place:
                self._flush()
            self._inside.append((tag, part.start, in_place))
            self._depth = 1
            return
        if not hidden:
            self._read_attributes(tag, raw, part.start)
        if in_place:
            self._run.append(Token(part.start, part.end, "lone" if tag in _VOID else "open", tag))
        else:
            self._flush()

    def _close(self, part: Part) -> None:
        """A closing tag."""
        if self._inside:
            name, begin, in_place = self._inside[-1]
            self._depth -= part.name == name
            if self._depth == 0:
                self._inside.pop()
                if in_place:
                    self._run.append(Token(begin, part.end, "fixed", name, self._said(begin, part.end)))
        elif part.name in _INLINE:
            self._run.append(Token(part.start, part.end, "close", part.name))
        else:
            self._flush()

    def _said(self, start: int, end: int) -> str:
        """The text of an element that is kept."""
        return _SPACES.sub(" ", html.unescape(re.sub(r"<[^>]*>", "", self._text[start:end])))

    def _read_attributes(self, tag: str, raw: str, start: int) -> None:
        """Values that are shown or read aloud."""
        for match in _ATTRIBUTE.finditer(raw):
            group = "double" if match["double"] is not None else "single"
            name = match["name"].lower()
            button = tag == "input" and name == "value" and _BUTTON.search(raw)
            described = tag == "meta" and name == "content" and _DESCRIBED.search(raw)
            if (name in _SPOKEN or described or button) and has_words((match[group],)):
                self.attributes.append((start + match.start(group), start + match.end(group)))

    def _flush(self) -> None:
        """A sentence ends here."""
        if self._run:
            self.runs.append(self._run)
            self._run = []
