"""One inline text of Markdown: markdown-it's children, found again in the source one after the other.

markdown-it does not say where an inline token stands. Its raw form is known, though (a `**`, an
escape, a link's end), so a walk through the source that expects each in turn finds them all, or
notices that it is lost; a text is used only when the walk ends exactly at its end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from transduce.translate.documents.markup import Token

if TYPE_CHECKING:
    from markdown_it.token import Token as MarkdownToken

__all__ = ["LostError", "read_children"]

_TAG: Final = re.compile(r"<(?P<slash>/?)(?P<name>[A-Za-z][\w-]*)[^>]*?(?P<lone>/?)>", re.DOTALL)
_VOID: Final = frozenset({"br", "img", "wbr", "hr", "input"})
_TITLE: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\((?:\\.|[^()\\])*\)", re.DOTALL)
_LABEL: Final = re.compile(r"\[(?:\\.|[^\[\]\\])*\]", re.DOTALL)


class LostError(Exception):
    """The source does not say what markdown-it said: leave this text as it is."""


def read_children(
    token: MarkdownToken, text: str, places: list[tuple[int, int]], *, in_cell: bool = False
) -> list[Token]:
    """Tokens of an inline token's children, with their places in `text`.

    Args:
        token: markdown-it's, of type `inline`.
        text: the whole source.
        places: where each line of the token's content stands in it.
        in_cell: whether a vertical bar is spelt with a backslash there.

    Raises:
        LostError: a child is not found where it must be.
    """
    walk = _Walk(text, places, in_cell)
    for child in token.children or []:
        walk.take(child)
    if walk.at != places[-1][1]:
        raise LostError
    return walk.tokens


class _Walk:
    """A place in the source, and the tokens found up to it."""

    def __init__(self, text: str, places: list[tuple[int, int]], in_cell: bool) -> None:
        self.text, self.places, self.in_cell = text, places, in_cell
        self.at, self.end, self.line = places[0][0], places[-1][1], 0
        self.tokens: list[Token] = []
        self._in_autolink = False

    def take(self, child: MarkdownToken) -> None:
        """Find one child at the place, and go behind it."""
        kind = child.type
        if child.markup == "autolink":
            self._autolink(child)
        elif self._in_autolink:
            return
        elif kind == "text":
            self._say(child.content, child.content)
        elif kind == "text_special":
            self._say(child.markup, child.content)
        elif kind in ("softbreak", "hardbreak"):
            self._break(hard=kind == "hardbreak")
        elif kind == "code_inline":
            self._code(child)
        elif kind == "html_inline":
            self._html(child.content)
        elif kind == "image":
            self._image(child)
        elif kind == "link_open":
            self._tag("[", "open", "link")
        elif kind == "link_close":
            start = self.at
            self._expect("]")
            self.at = self._link_end(self.at)
            self._add(start, "close", "link")
        elif child.nesting and child.markup:
            self._tag(child.markup, "open" if child.nesting > 0 else "close", kind.rpartition("_")[0])
        else:
            raise LostError

    def _expect(self, raw: str) -> None:
        if not self.text.startswith(raw, self.at) or self.at + len(raw) > self.end:
            raise LostError
        self.at += len(raw)

    def _add(self, start: int, kind: str, name: str = "", shown: str = "") -> None:
        self.tokens.append(Token(start, self.at, kind, name, shown))  # type: ignore[arg-type]

    def _say(self, raw: str, shown: str) -> None:
        """Text; what stands before a line end may have lost its spaces."""
        if not raw:
            return
        start = self.at
        if self.in_cell and "|" in raw and not self.text.startswith(raw, self.at):
            raw = raw.replace("|", "\\|")
        self._expect(raw)
        last = self.tokens[-1] if self.tokens else None
        if last is not None and last.kind == "text" and last.end == start:
            self.tokens[-1] = Token(last.start, self.at, "text", "", last.shown + shown)
        else:
            self._add(start, "text", "", shown)

    def _tag(self, raw: str, kind: str, name: str) -> None:
        start = self.at
        self._expect(raw)
        self._add(start, kind, name)

    def _break(self, *, hard: bool) -> None:
        """To the beginning of the next line's content."""
        start, end = self.at, self.places[self.line][1]
        between = self.text[start:end]
        if between.strip(" \t").removeprefix("\\"):
            raise LostError
        self.line += 1
        if self.line >= len(self.places):
            raise LostError
        self.at = self.places[self.line][0]
        if hard:
            self._add(start, "lone", "break")
            return
        last = self.tokens[-1] if self.tokens else None
        if last is not None and last.kind == "text":
            self.tokens[-1] = Token(last.start, self.at, "text", "", last.shown + " ")
        else:
            self._add(start, "text", "", " ")

    def _code(self, child: MarkdownToken) -> None:
        """From a run of backticks to the next one of the same length."""
        start = self.at
        self._expect(child.markup)
        ticks = re.compile(rf"(?<!`){re.escape(child.markup)}(?!`)").search(self.text, self.at, self.end)
        if ticks is None:
            raise LostError
        self._jump(ticks.end())
        self._add(start, "fixed", "code", child.content.strip())

    def _html(self, raw: str) -> None:
        """A tag, or something else between angle brackets."""
        start = self.at
        if "\n" in raw:
            raise LostError
        self._expect(raw)
        match = _TAG.fullmatch(raw)
        if match is None or match["lone"] or match["name"].lower() in _VOID:
            self._add(start, "lone", "break" if match and match["name"].lower() == "br" else "")
        else:
            self._add(start, "close" if match["slash"] else "open", f"<{match['name'].lower()}")

    def _image(self, child: MarkdownToken) -> None:
        start = self.at
        if "\n" in child.content:
            raise LostError
        self._expect(f"![{child.content}]")
        self.at = self._link_end(self.at)
        self._add(start, "lone")

    def _autolink(self, child: MarkdownToken) -> None:
        """`<https://…>`: three children, taken together at the first."""
        self._in_autolink = child.type == "link_open"
        if not self._in_autolink:
            return
        start = self.at
        close = self.text.find(">", start, self.end)
        if close < 0 or self.text[start] != "<":
            raise LostError
        self.at = close + 1
        self._add(start, "fixed", "", self.text[start + 1 : close])

    def _link_end(self, at: int) -> int:
        """Behind `(target "title")`, `[reference]` or nothing."""
        if self.text.startswith("(", at):
            end = self._target_end(at)
            if end is not None:
                return self._jump(end)
        label = _LABEL.match(self.text, at, self.end)
        return self._jump(label.end()) if label else at

    def _target_end(self, at: int) -> int | None:
        """Behind the closing bracket of an inline link's target, by markdown-it's own reading."""
        from markdown_it.helpers import parseLinkDestination

        at = self._spaces(at + 1)
        found = parseLinkDestination(self.text, at, self.end)
        if not found.ok:
            return at + 1 if self.text.startswith(")", at) else None
        at = self._spaces(found.pos)
        title = _TITLE.match(self.text, at, self.end)
        if title:
            at = self._spaces(title.end())
        return at + 1 if self.text.startswith(")", at) and at < self.end else None

    def _spaces(self, at: int) -> int:
        while at < self.end and self.text[at] in " \t\r\n>":
            at += 1
        return at

    def _jump(self, at: int) -> int:
        """Go on at a place that may lie on a later line."""
        while self.line + 1 < len(self.places) and at > self.places[self.line][1]:
            self.line += 1
        self.at = at
        return at
