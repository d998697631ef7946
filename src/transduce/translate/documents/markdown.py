"""Markdown (CommonMark, with tables and strikethrough): the words of paragraphs, headings and cells.

markdown-it says what every line is; the words are found again in the source and replaced there, so
that front matter, code, link targets, HTML blocks, references, list marks and spacing stay byte by
byte. Inline code, images and autolinks stay in place as they are. A paragraph that is translated
becomes one line; a hard line break ends a sentence and stays. What cannot be found again in the source
(odd nesting of tabs and quotes) is left as it is, and counted as `skipped`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from transduce.translate.documents.document import RangeDocument
from transduce.translate.documents.inline import Inline, has_words
from transduce.translate.documents.markdown_inline import LostError, read_children
from transduce.translate.documents.markup import Node, Token, nest, peel, spell, to_inline

if TYPE_CHECKING:
    from markdown_it.token import Token as MarkdownToken

__all__ = ["MarkdownDocument"]

_FRONT_MATTER: Final = re.compile(
    r"\ufeff?(?P<fence>---|\+\+\+)[ \t]*\r?\n.*?\n(?P=fence)[ \t]*\r?(?:\n|\Z)", re.DOTALL
)
_TASK: Final = re.compile(r"\[[ xX]\][ \t]+")
_BEFORE: Final = re.compile(r"\ufeff?(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*")  # of a block's first words
_HOLLOW: Final = frozenset({"strong", "em", "s"})
_ALWAYS: Final = re.compile(r"[\\`*\[\]]|<(?=[A-Za-z/!?])|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|~(?=~)|(?<=~)~")
_AT_START: Final = re.compile(r"\A(?:#{1,6}(?=\s|$)|[-+>](?=\s|$)|={3,}\s*$|\d{1,9}(?=[.)](?:\s|$)))")


class MarkdownDocument(RangeDocument):
    """A Markdown file."""

    def find(self) -> None:
        """Let markdown-it parse what follows the front matter, and find each inline text's place."""
        from markdown_it import MarkdownIt

        self._tables: list[list[Node]] = []
        self._in_cell: list[bool] = []
        front = _FRONT_MATTER.match(self.text)
        begin = front.end() if front else len(self.text) - len(self.text.lstrip("\ufeff"))
        parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
        # markdown-it changes line ends and NUL before it counts lines: its lines are ours.
        self._lines = _line_places(self.text, begin)
        cell_at = (-1, 0)  # line of the last cell, and where it ended
        kind = ""
        for token in parser.parse(self.text[begin:]):
            if token.type != "inline":
                kind = token.type
                continue
            in_cell = kind in ("th_open", "td_open")
            try:
                after = cell_at[1] if in_cell and token.map and cell_at[0] == token.map[0] else 0
                places = self._places(token, after)
                if in_cell and token.map:
                    cell_at = (token.map[0], places[-1][1])
                self._add(read_children(token, self.text, places, in_cell=in_cell), in_cell)
            except LostError:
                self.notes["skipped"] += 1

    def spell(self, index: int, inline: Inline) -> str:
        """Text with its special characters escaped, marks as they were."""
        in_cell = self._in_cell[index]

        def escape(text: str) -> str:
            text = _ALWAYS.sub(lambda match: "\\" + match.group(), text.replace("\r", " ").replace("\n", " "))
            return text.replace("|", "\\|") if in_cell else text

        text = spell(inline, self._tables[index], escape, lambda a, b: self.text[a:b], _HOLLOW)
        start = self.ranges[index][0]
        if not in_cell and _BEFORE.fullmatch(self.text[self.text.rfind("\n", 0, start) + 1 : start]):
            text = _AT_START.sub(_escaped_start, text)
        return text

    def _places(self, token: MarkdownToken, after: int) -> list[tuple[int, int]]:
        """Where each line of an inline token's content stands in the source."""
        assert token.map is not None, "markdown-it gives every inline token of a block its lines"
        places, line = [], token.map[0]
        for content in token.content.split("\n"):
            if line >= len(self._lines):
                raise LostError
            start, end = self._lines[line]
            wanted = content.replace("|", "\\|") if "\\|" in self.text[start:end] else content
            at = self.text.find(wanted, max(start, after), end)
            if at < 0:
                at, wanted = self.text.find(content, max(start, after), end), content
            if at < 0 or not content:
                raise LostError
            places.append((at, at + len(wanted)))
            line += 1
        return places

    def _add(self, tokens: Sequence[Token], in_cell: bool) -> None:
        """The segments of an inline text: hard breaks, which have a name here, part them."""
        sentence: list[Token] = []
        for token in [*tokens, Token(0, 0, "lone", "break")]:
            if token.name != "break":
                sentence.append(token)
                continue
            nodes = peel(nest(sentence), self.text)
            task = _TASK.match(nodes[0].shown) if nodes and nodes[0].kind == "text" else None
            if task:  # the box of a list of things to do
                nodes[0].start += task.end()
                nodes[0].shown = nodes[0].shown[task.end() :]
            table: list[Node] = []
            inline = to_inline(nodes, table)
            if has_words(inline):
                self.ranges.append((nodes[0].start, nodes[-1].end))
                self.inlines.append(inline)
                self._tables.append(table)
                self._in_cell.append(in_cell)
            sentence = []


def _line_places(text: str, begin: int) -> list[tuple[int, int]]:
    """Start and end of every line from `begin` on, as markdown-it counts them."""
    places, at = [], begin
    for match in re.finditer(r"\r\n|\n|\r", text[begin:]):
        places.append((at, begin + match.start()))
        at = begin + match.end()
    places.append((at, len(text)))
    return places


def _escaped_start(match: re.Match[str]) -> str:
    """What would make a line a heading, a list or a quote, made plain."""
    return match.group() + "\\" if match.group().isdigit() else "\\" + match.group()
