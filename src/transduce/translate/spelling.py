"""How a phrase may be spelt in a tokenizer's ids inside a longer text.

In:  a phrase. Out: a `Phrase` for the search: its ids at the beginning of a word (with SentencePiece's
     mark for a space) and after something that is no letter, `(` or a quotation mark for instance;
     with the ids that may stand before and after, so that it is not a part of a longer word.
Does not know: models, glossaries, searches.

Only the tokenizer's own segmentation of the phrase is asked for: it is what the model has learnt to
write. A text that holds it in another one holds it all the same, and whoever checks the text sees that.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from transduce.search.phrases import Phrase, Spelling
from transduce.text.tokenizer import Tokenizer
from transduce.translate.words import has_edge

__all__ = ["Edges", "Speller", "has_piece"]

Edges: TypeAlias = Literal["words", "apart", "any"]
"""`words`: no letter touches a letter of the phrase; `apart`: none touches the phrase; `any`: all may."""

_SPACE = "\u2581"
_BYTE = re.compile("<0x[0-9A-F]{2}>")
# First bytes of characters that end a word: no-break space and « »; quotation marks, dashes and other
# punctuation; Chinese and Japanese; emoji. The few letters among them are seen when the text is checked.
_BYTES_THAT_END_A_WORD = frozenset([0xC2, *range(0xE2, 0xEA), 0xF0])
# Merges with nothing that follows: what follows it is spelt as inside a text (see text/piece_map.py).
_BEFORE = "\n"


class Speller:
    """Spells phrases for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._before = tokenizer.encode(_BEFORE)
        silent = {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id}
        # An edge beside a letter of any alphabet.
        edges = [
            (id_, _shown(piece))
            for id_, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))
            if id_ not in silent
        ]
        self._after_word = frozenset(id_ for id_, text in edges if text and has_edge("a", text[0]))
        self._before_word = frozenset(id_ for id_, text in edges if text and has_edge(text[-1], "a"))

    def phrase(self, text: str, count: int = 1, *, edges: Edges = "words") -> Phrase | None:
        """Return the phrase for the search; None if the vocabulary cannot spell it.

        Args:
            text: not blank.
            count: how often it must come.
            edges: what may touch it.
        """
        begins_word = edges == "apart" or (edges == "words" and not has_edge("a", text[0]))
        ends_word = edges == "apart" or (edges == "words" and not has_edge(text[-1], "a"))
        after = self._before_word if begins_word else None
        before = self._after_word if ends_word else None
        spelt = {
            (tuple(self._tokenizer.encode(text)), None),
            (tuple(self._inside(text)), after),
        }
        spellings = [
            Spelling(ids, left, before)
            for ids, left in sorted(spelt, key=lambda item: (len(item[0]), item[0]))
            if ids and self._tokenizer.unk_id not in ids
        ]
        return Phrase(tuple(spellings), count) if spellings else None

    def _inside(self, text: str) -> list[int]:
        """Ids of a text that no space stands before."""
        ids = self._tokenizer.encode(_BEFORE + text)
        return ids[len(self._before) :] if ids[: len(self._before)] == self._before else []


def _shown(piece: str) -> str:
    """The text of a piece; of a byte above 0x7F, one that tells only whether it ends a word before it."""
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        value = int(piece[3:5], 16)
        if value >= 0x80:
            return "\u2014a" if value in _BYTES_THAT_END_A_WORD else "a"
        return chr(value)
    return piece.replace(_SPACE, " ")


def has_piece(tokenizer: Tokenizer, character: str) -> bool:
    """Whether a tokenizer spells a character otherwise than in bytes or as unknown."""
    pieces = tokenizer.pieces(tokenizer.encode(character))
    return not any(piece == "<unk>" or _BYTE.fullmatch(piece) for piece in pieces)
