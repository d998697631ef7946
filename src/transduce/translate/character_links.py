"""From aligned tokens to linked characters: what tags and highlights are moved by.

In: a text, its `Translation` with an alignment. Out: `Link`s between characters of both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from transduce.translate.documents.placing import Link

if TYPE_CHECKING:
    from transduce.translate.translator import Translation

__all__ = ["character_links", "token_places"]

_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE_MARK: Final = "\u2581"
_AHEAD: Final = 8  # characters that normalisation may have added or taken away between two tokens


def character_links(text: str, translation: Translation) -> list[Link]:
    """Which characters of `translation.text` come from which of `text`.

    Args:
        text: what was translated.
        translation: with an alignment; without one there are no links.
    """
    if not translation.alignment:
        return []
    source = token_places(text, translation.source_tokens)
    target = token_places(translation.text, translation.tokens)
    links = []
    for s, t in translation.alignment:
        if (
            s < len(source)
            and t < len(target)
            and source[s][1] > source[s][0]
            and target[t][1] > target[t][0]
        ):
            links.append(Link(source[s], target[t]))
    return links


def token_places(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end of every token in the text that they spell; spaces belong to none.

    A token that is not found where it is expected (the text was normalised there) has an empty place.
    """
    places: list[tuple[int, int]] = []
    at = 0
    spelt = bytearray()  # of a character that is spelt in bytes
    for token in tokens:
        byte = _BYTE.fullmatch(token)
        if byte:
            spelt.append(int(byte[1], 16))
            found = _whole(spelt)
            start = _skipped(text, at)
            end = (
                start + 1
                if text[start : start + 1].encode("utf-8", "replace").startswith(bytes(spelt))
                else start
            )
            places.append((start, end))
            if found is not None:
                spelt.clear()
                at = max(at, end)
            continue
        spelt.clear()
        word = token.replace(_SPACE_MARK, " ").strip(" ")
        start = at if word[:1].isspace() else _skipped(text, at)
        if word and not text.startswith(word, start):
            start = text.find(word, start, start + len(word) + _AHEAD)
        if not word or start < 0:
            places.append((at, at))
            continue
        at = start + len(word)
        places.append((start, at))
    return places


def _skipped(text: str, at: int) -> int:
    """The next place that is no white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _whole(spelt: bytearray) -> str | None:
    """The character that bytes spell, if they are complete."""
    try:
        return spelt.decode()
    except UnicodeDecodeError:
        return None if len(spelt) < 4 else "\ufffd"
