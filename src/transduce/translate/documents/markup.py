"""Tags in running text, by the place where they stand: shared by HTML, Markdown and subtitles.

In: tokens (text, opening, closing and lone tags) that lie one behind the other in a source text.
Out: nodes, `Inline`s over them, and the text of a translation with the tags as the source spells
them. Tags that do not fit together become lone ones, so that nothing a file holds is lost.
Does not know: which tags there are, files, translators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from transduce.translate.documents.inline import Element, Inline

__all__ = ["Node", "Token", "nest", "peel", "spell", "to_inline"]

_MOST_NESTED: Final = 64  # deeper tags are lone ones: nobody reads such text, and recursion has an end
_SPACES = " \t\n\r\f"


@dataclass(frozen=True)
class Token:
    """A stretch of the source text."""

    start: int
    end: int
    kind: Literal["text", "open", "close", "lone", "fixed"]
    """`fixed` is a whole element whose content is shown, and not translated."""
    name: str = ""
    """Of a tag: what opens and what closes must agree."""
    shown: str = ""
    """Of text: what it says (character references resolved)."""


@dataclass(eq=False)
class Node:
    """Text, a lone tag, or a pair of tags with what is between."""

    start: int
    end: int
    kind: Literal["text", "lone", "pair", "fixed"]
    shown: str = ""
    name: str = ""
    inner: tuple[int, int] = (0, 0)
    """Of a pair: from where to where its content goes."""
    children: list[Node] = field(default_factory=list)

    def has_text(self) -> bool:
        """Whether there is text in it."""
        return bool(self.shown.strip()) or any(child.has_text() for child in self.children)


def nest(tokens: Sequence[Token]) -> list[Node]:
    """Pair opening tags with closing ones; a tag without partner is a lone one."""
    waiting: list[tuple[Token, list[Node]]] = []  # opening tags, and what came before each
    names: Counter[str] = Counter()
    level: list[Node] = []
    for token in tokens:
        if token.kind == "open" and len(waiting) < _MOST_NESTED:
            waiting.append((token, level))
            names[token.name] += 1
            level = []
        elif token.kind == "close" and names[token.name]:
            at = max(i for i, (begin, _) in enumerate(waiting) if begin.name == token.name)
            level = _flattened(waiting[at + 1 :], level)
            begin, outer = waiting[at]
            names.subtract(tag.name for tag, _ in waiting[at:])
            del waiting[at:]
            inner = (begin.end, token.start)
            outer.append(Node(begin.start, token.end, "pair", "", token.name, inner, level))
            level = outer
        elif token.kind in ("text", "fixed"):
            kind: Literal["text", "fixed"] = "text" if token.kind == "text" else "fixed"
            level.append(Node(token.start, token.end, kind, token.shown))
        else:
            level.append(Node(token.start, token.end, "lone"))
    return _flattened(waiting, level)


def _flattened(waiting: Sequence[tuple[Token, list[Node]]], level: list[Node]) -> list[Node]:
    """Nothing closes these tags: each stands alone, between what came before and behind it."""
    flat: list[Node] = []
    for token, before in waiting:
        flat += [*before, Node(token.start, token.end, "lone")]
    return flat + level


def peel(nodes: Sequence[Node], source: str) -> list[Node]:
    """Only what has text: tags and spaces at both ends are left outside, pairs around everything too."""
    nodes = list(nodes)
    while True:
        while nodes and not nodes[0].has_text():
            nodes.pop(0)
        while nodes and not nodes[-1].has_text():
            nodes.pop()
        if len(nodes) == 1 and nodes[0].kind == "pair":
            nodes = list(nodes[0].children)
            continue
        break
    if nodes and nodes[0].kind == "text":
        raw = source[nodes[0].start : nodes[0].end]
        nodes[0].start += len(raw) - len(raw.lstrip(_SPACES))
        nodes[0].shown = nodes[0].shown.lstrip(_SPACES)
    if nodes and nodes[-1].kind == "text":
        raw = source[nodes[-1].start : nodes[-1].end]
        nodes[-1].end -= len(raw) - len(raw.rstrip(_SPACES))
        nodes[-1].shown = nodes[-1].shown.rstrip(_SPACES)
    return nodes


def to_inline(nodes: Sequence[Node], table: list[Node]) -> Inline:
    """The nodes as an `Inline`; an element's key is its place in `table`, which is extended."""
    parts: list[str | Element] = []
    for node in nodes:
        if node.kind == "text":
            parts.append(node.shown)
            continue
        table.append(node)
        key = len(table) - 1
        if node.kind == "pair":
            parts.append(Element(key, to_inline(node.children, table)))
        else:
            parts.append(Element(key, (node.shown,) if node.kind == "fixed" else (), node.kind == "fixed"))
    return tuple(parts)


def spell(
    inline: Inline,
    table: Sequence[Node],
    escape: Callable[[str], str],
    raw: Callable[[int, int], str],
    hollow: Collection[str] = (),
) -> str:
    """A translation as it stands in the file.

    Args:
        inline: text and elements.
        table: the elements' nodes.
        escape: writes text so that it means itself.
        raw: the source text from one place to another.
        hollow: names of pairs that mean nothing, or something else, around nothing: left out then.
    """
    parts = []
    for part in inline:
        if isinstance(part, str):
            parts.append(escape(part))
            continue
        node = table[part.key]
        if node.kind == "pair":
            content = spell(part.content, table, escape, raw, hollow)
            if node.name in hollow and not content.strip():
                parts.append(content)
                continue
            parts.append(raw(node.start, node.inner[0]) + content + raw(node.inner[1], node.end))
        else:
            parts.append(raw(node.start, node.end))
    return "".join(parts)
