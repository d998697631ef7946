"""Alignments of tokens to alignments of words, in Pharaoh's form: `0-0 1-2`.

In:  the tokens of both sides, and which token belongs to which. Out: words of both sides, and pairs.
Does not know: models, how the pairs were found.

A word is what stands between spaces, so that the numbers count what `text.split(" ")` gives. Where a
script is written without spaces, each token is a word of its own (see `words.py`); tokens that spell
one character in bytes stay together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.translate.words import is_unspaced

__all__ = ["Word", "pharaoh", "word_alignment", "words"]

_SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class Word:
    """A word, and the tokens that spell it: from `first` to before `end`."""

    text: str
    first: int
    end: int


def words(tokens: Sequence[str]) -> list[Word]:
    """Put tokens together to words.

    Args:
        tokens: pieces as SentencePiece names them; U+2581 stands for a space, `<0xE2>` for a byte.
    """
    found: list[Word] = []
    last = ""  # the character before
    for text, first, end in _characters(tokens):
        begins = text.startswith(_SPACE)
        touching = text.lstrip(_SPACE)[:1]
        unspaced = is_unspaced(touching) or is_unspaced(last)
        shown = text.replace(_SPACE, " ").strip(" ")
        if not found or begins or (unspaced and found[-1].text and shown):
            found.append(Word(shown, first, end))
        else:
            found[-1] = Word(found[-1].text + shown, found[-1].first, end)
        last = text[-1:]
    return _without_blanks(found)


def word_alignment(
    pairs: Iterable[tuple[int, int]], source: Sequence[Word], target: Sequence[Word]
) -> tuple[tuple[int, int], ...]:
    """Join (source token, target token) pairs to (source word, target word) pairs, in order, each once."""
    of_source, of_target = _owners(source), _owners(target)
    return tuple(
        sorted(
            {(of_source[s], of_target[t]) for s, t in pairs if s in of_source and t in of_target},
            key=lambda pair: (pair[1], pair[0]),
        )
    )


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """Write pairs as `0-0 1-2`."""
    return " ".join(f"{s}-{t}" for s, t in pairs)


def _characters(tokens: Sequence[str]) -> Iterable[tuple[str, int, int]]:
    """Yield tokens as text, with their range; those that spell a character in bytes as one."""
    at = 0
    while at < len(tokens):
        end, spelt = at, bytearray()
        while end < len(tokens) and (byte := _BYTE.fullmatch(tokens[end])):
            value = int(byte[1], 16)
            if spelt and not 0x80 <= value < 0xC0:  # no continuation: another character begins
                break
            spelt.append(value)
            end += 1
        if spelt:
            yield spelt.decode("utf-8", "replace"), at, end
            at = end
        else:
            yield tokens[at], at, at + 1
            at += 1


def _without_blanks(found: Sequence[Word]) -> list[Word]:
    """Leave no word without text: its tokens go to the next word, or to the last."""
    result: list[Word] = []
    first = None
    for word in found:
        begin = word.first if first is None else first
        if word.text:
            result.append(Word(word.text, begin, word.end))
            first = None
        else:
            first = begin
    if first is not None and result:
        result[-1] = Word(result[-1].text, result[-1].first, found[-1].end)
    return result


def _owners(found: Sequence[Word]) -> dict[int, int]:
    return {token: number for number, word in enumerate(found) for token in range(word.first, word.end)}
