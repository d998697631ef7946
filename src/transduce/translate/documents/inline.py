"""Text with tags inside it: what every document format turns its sentences into, and back.

An `Inline` is a sequence of plain text and elements; an element holds an `Inline` again. What an
element *is* (an HTML `<b>`, a DOCX run, an XLIFF `<x/>`) only its format knows, by the key.
Does not know: formats, translators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, Union

__all__ = ["Element", "Inline", "elements", "has_words", "plain_text"]

Inline: TypeAlias = tuple[Union[str, "Element"], ...]
"""Text and elements in order."""


@dataclass(frozen=True)
class Element:
    """A tag, or a pair of tags with what stands between them."""

    key: int
    """Names it within its segment; a translation holds every key exactly once."""
    content: Inline = ()
    fixed: bool = False
    """The content is not to be translated (code, a key's name): it stands in the translation as it is."""


def plain_text(inline: Inline) -> str:
    """The text without its tags."""
    return "".join(part if isinstance(part, str) else plain_text(part.content) for part in inline)


def elements(inline: Inline) -> Iterator[Element]:
    """All elements, outer ones before what is inside them."""
    for part in inline:
        if isinstance(part, Element):
            yield part
            yield from elements(part.content)


def has_words(inline: Inline) -> bool:
    """Whether there is a letter outside of what is fixed: else there is nothing to translate."""
    return any(
        any(map(str.isalpha, part)) if isinstance(part, str) else not part.fixed and has_words(part.content)
        for part in inline
    )
