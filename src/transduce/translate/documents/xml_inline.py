"""Text with inline elements in XML (XLIFF, TMX), read from lxml and written back.

In: an element whose content is a text with tags. Out: an `Inline`; and the content again, for a
translation, as copies of the same elements. Does not know: files, what an element's name means
beyond the table that its format gives.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from lxml import etree

from transduce.translate.documents.inline import Element, Inline

__all__ = ["Role", "Table", "clear", "fill", "read_inline", "serialise"]

_MOST_NESTED: Final = 64
_DECLARATION: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^>]*\?>\s*")
_FORBIDDEN: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Role: TypeAlias = Literal["around", "lone", "fixed"]
"""What an inline element is: around text that is translated; a code of its own, whatever it holds;
around text that is kept."""


Table: TypeAlias = list[tuple[Any, Role]]
"""The elements of a text; an `Element`'s key is its place here."""


def read_inline(
    element: Any, role: Callable[[Any], Role], table: Table, *, depth: int = _MOST_NESTED
) -> Inline:
    """The content of an element.

    Args:
        element: lxml's.
        role: tells what an element inside it is.
        table: extended by the elements.
        depth: elements nested deeper are taken for codes.
    """
    parts: list[str | Element] = [element.text or ""]
    for child in element:
        kind: Role = role(child) if isinstance(child.tag, str) and depth else "lone"
        table.append((child, kind))
        key = len(table) - 1
        if kind == "around":
            parts.append(Element(key, read_inline(child, role, table, depth=depth - 1)))
        elif kind == "fixed":
            parts.append(Element(key, ("".join(child.itertext()),), fixed=True))
        else:
            parts.append(Element(key))
        parts.append(child.tail or "")
    return tuple(part for part in parts if part != "")


def fill(element: Any, inline: Inline, table: Table) -> None:
    """Write an `Inline` as the content of an element that has none."""
    last: Any = None
    for part in inline:
        if not isinstance(part, str):
            source, kind = table[part.key]
            last = copy.deepcopy(source)
            last.tail = None
            element.append(last)
            if kind == "around":
                clear(last)
                fill(last, part.content, table)
        elif last is None:
            element.text = (element.text or "") + _allowed(part)
        else:
            last.tail = (last.tail or "") + _allowed(part)


def clear(element: Any) -> None:
    """Take everything out of an element but its attributes."""
    element.text = None
    for child in list(element):
        element.remove(child)


def serialise(tree: Any, data: bytes) -> bytes:
    """A tree as a file that begins and ends as `data`, which it was read from, does."""
    declaration = _DECLARATION.match(data)
    body: bytes = etree.tostring(
        tree,
        encoding=tree.docinfo.encoding or "UTF-8",
        xml_declaration=None if declaration is None else False,
    )
    end = b"\n" if data.endswith(b"\n") and not body.endswith(b"\n") else b""
    return (declaration[0] if declaration else b"") + body + end


def _allowed(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return text if text.isprintable() else _FORBIDDEN.sub("", text)
