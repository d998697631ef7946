r"""Subtitles (SRT, WebVTT): the words of every cue; times, numbers, settings and notes stay.

Only the words of a cue are replaced, so headers, styles, notes, cue settings and line ends stay byte
by byte (pysubs2, which our tests read the result with, would drop what other formats lack). The lines
of a cue are translated together and broken again into as many; lines that begin with a dash are two
people's and stay apart. Tags (`<i>`, `<c.yellow>`, `{\an8}`) stay in place. A sentence that runs over
several cues is translated cue by cue: its times would mean nothing otherwise.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from typing import Final

from transduce.errors import DataError
from transduce.translate.documents.document import RangeDocument
from transduce.translate.documents.inline import Inline, has_words
from transduce.translate.documents.markup import Node, Token, nest, peel, spell, to_inline

__all__ = ["SubtitleDocument", "VttDocument"]

_TIMES: Final = re.compile(
    r"^[ \t]*(?:\d+:)?\d{1,2}:\d{1,2}[.,]\d{1,3}[ \t]*-->[ \t]*(?:\d+:)?\d{1,2}:\d{1,2}[.,]\d{1,3}[^\n]*$",
    re.MULTILINE,
)
_TAG: Final = re.compile(
    r"<(?P<slash>/?)(?P<name>[A-Za-z]\w*)(?:[^<>\n]*)>|<[\d:.]+>|\{\\[^{}\n]*\}", re.ASCII
)
_SPEAKER: Final = re.compile(r"[ \t]*[-–—‐][ \t]*")


class SubtitleDocument(RangeDocument):
    """An SRT file."""

    references = False

    def find(self) -> None:
        """Look behind every line of times, up to the next blank one or the next times."""
        self._tables: list[list[Node]] = []
        times = list(_TIMES.finditer(self.text))
        if not times and self.text.strip("\ufeff \t\r\n"):
            raise DataError(f"{self.name} has no cues: expected lines such as 00:00:01,000 --> 00:00:02,500")
        stops = [match.start() for match in times[1:]] + [len(self.text)]
        for match, stop in zip(times, stops, strict=True):
            for start, end in self._speeches(match.end() + 1, stop):
                self._add(start, end)

    def spell(self, index: int, inline: Inline) -> str:
        """As many lines as there were, of nearly equal length."""
        start, end = self.ranges[index]
        source = self.text[start:end]
        breaks = source.count("\n")
        text = spell(
            inline, self._tables[index], self._escaped, lambda a, b: self.text[a:b].replace("\n", " ")
        )
        return _broken(text, breaks, "\r\n" if "\r\n" in source else "\n")

    def _escaped(self, text: str) -> str:
        return html.escape(text, quote=False) if self.references else text

    def _speeches(self, at: int, stop: int) -> list[tuple[int, int]]:
        """Where each person's words of a cue begin and end, before the next cue's times at `stop`."""
        found: list[list[int]] = []
        while at < stop:
            end = self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
            line = self.text[at:end].rstrip("\r")
            number = stop < len(self.text) and end + 1 == stop and line.strip().isdigit()
            if not line.strip() or number:  # the next cue's number, where the blank line is missing
                break
            dash = _SPEAKER.match(line)
            if dash or not found:
                found.append([at + (dash.end() if dash else 0), at + len(line)])
            else:
                found[-1][1] = at + len(line)
            at = end + 1
        return [(start, end) for start, end in found]

    def _add(self, start: int, end: int) -> None:
        """A segment, if there is anything to translate."""
        tokens, at = [], start
        for tag in _TAG.finditer(self.text, start, end):
            tokens += self._said(at, tag.start())
            kind = "lone" if tag["name"] is None else "close" if tag["slash"] else "open"
            tokens.append(
                Token(tag.start(), tag.end(), kind, tag["name"] or "")  # type: ignore[arg-type]
            )
            at = tag.end()
        nodes = peel(nest([*tokens, *self._said(at, end)]), self.text)
        table: list[Node] = []
        inline = to_inline(nodes, table)
        if has_words(inline):
            self.ranges.append((nodes[0].start, nodes[-1].end))
            self.inlines.append(inline)
            self._tables.append(table)

    def _said(self, start: int, end: int) -> list[Token]:
        """Text on one line."""
        text = re.sub(r"[ \t]*\r?\n[ \t]*", " ", self.text[start:end])
        return (
            [Token(start, end, "text", "", html.unescape(text) if self.references else text)] if text else []
        )


class VttDocument(SubtitleDocument):
    """A WebVTT file."""

    references = True

    def find(self) -> None:
        """It says what it is."""
        if not self.text.lstrip("\ufeff").startswith("WEBVTT"):
            raise DataError(f"{self.name} is no WebVTT file: its first line does not begin with WEBVTT")
        super().find()


def _broken(text: str, breaks: int, line_end: str) -> str:
    """`text` with `breaks` of its spaces turned into line ends, so that the lines are nearly equal."""
    inside = [False] * len(text)  # of a tag
    for tag in _TAG.finditer(text):
        inside[tag.start() : tag.end()] = [True] * (tag.end() - tag.start())
    spaces = [at for at, character in enumerate(text) if character == " " and not inside[at]]
    at: list[int] = []
    for number in range(1, breaks + 1):
        wanted = len(text) * number / (breaks + 1)
        left = spaces[bisect_right(spaces, at[-1]) if at else 0 :]
        if left:
            near = bisect_right(left, wanted)
            at.append(min(left[max(0, near - 1) : near + 1], key=lambda space: abs(space - wanted)))
    for space in reversed(at):
        text = text[:space] + line_end + text[space + 1 :]
    return text
