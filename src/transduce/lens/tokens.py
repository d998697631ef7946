"""Tokens with all that a reader needs to place them: text, kind, characters, word, bytes.

In:  a text and its token ids. Out: `Token`s, in order.
Does not know: models.

A label travels with each token, so that nobody has to guess from SentencePiece's marks where a word
begins, or what three byte pieces spell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from transduce.text.tokenizer import Tokenizer
from transduce.translate.alignment import Word, words
from transduce.translate.character_links import token_places

__all__ = ["Bytes", "Token", "TokenKind", "Vocabulary", "label"]

TokenKind: TypeAlias = Literal["text", "byte", "bos", "eos", "unk", "pad"]
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"


@dataclass(frozen=True)
class Bytes:
    """Which pieces spell a character in bytes, and which of them this one is."""

    first: int
    count: int
    part: int
    whole: bool
    """Whether they spell one."""


@dataclass(frozen=True)
class Token:
    """One token of a text."""

    i: int
    id: int
    piece: str
    """As the vocabulary names it; U+2581 stands for a space."""
    text: str
    """As a reader may see it: spaces as spaces, bytes joined to their character."""
    kind: TokenKind
    span: tuple[int, int] | None
    """From which to before which character of the text; None for start and end symbol."""
    word: int | None
    """Number of the word that it belongs to."""
    bytes: Bytes | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Vocabulary:
    """Names single ids, where there is no text around."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._kinds: dict[int, TokenKind] = {
            tokenizer.unk_id: "unk",
            tokenizer.pad_id: "pad",
            tokenizer.bos_id: "bos",
            tokenizer.eos_id: "eos",
        }

    def kind(self, token_id: int) -> TokenKind:
        """What sort of token it is."""
        if token_id in self._kinds:
            return self._kinds[token_id]
        return "byte" if _BYTE.fullmatch(self.piece(token_id)) else "text"

    def piece(self, token_id: int) -> str:
        """As the vocabulary names it."""
        return self._tokenizer.pieces([token_id])[0]

    def text(self, token_id: int) -> str:
        """As a reader may see it; a byte by its hexadecimal number."""
        kind, piece = self.kind(token_id), self.piece(token_id)
        if kind == "byte":
            byte = int(piece[3:5], 16)
            return chr(byte) if 0x20 < byte < 0x7F else piece[3:5]
        return {"bos": "<s>", "eos": "</s>"}.get(kind, piece.replace(_SPACE, " "))

    def named(self, token_id: int) -> dict[str, Any]:
        """Id, piece, text and kind, for JSON."""
        return {
            "id": token_id,
            "piece": self.piece(token_id),
            "text": self.text(token_id),
            "kind": self.kind(token_id),
        }


def label(
    text: str, ids: Sequence[int], tokenizer: Tokenizer, *, bos: bool = False, eos: bool = False
) -> tuple[tuple[Token, ...], tuple[Word, ...]]:
    """Label the tokens of a text.

    Args:
        text: what the ids were made from, or decode to.
        ids: without start and end symbol.
        tokenizer: the ids' own.
        bos: put the start symbol first.
        eos: put the end symbol last.

    Returns:
        The tokens, and the words that their `word` counts. A word's `first` and `end` count tokens
        from the start symbol, if there is one.
    """
    vocabulary, pieces, shift = Vocabulary(tokenizer), tokenizer.pieces(ids), int(bos)
    found = [Word(word.text, word.first + shift, word.end + shift) for word in words(pieces)]
    owner = {i: number for number, word in enumerate(found) for i in range(word.first, word.end)}
    spelt = _spelt_in_bytes(pieces)
    tokens = [Token(0, tokenizer.bos_id, "<s>", "<s>", "bos", None, None)] if bos else []
    for place, (token_id, span) in enumerate(zip(ids, token_places(text, pieces), strict=True)):
        i, shown, own_bytes = place + shift, vocabulary.text(token_id), None
        if place in spelt:
            first, count, character = spelt[place]
            own_bytes = Bytes(first + shift, count, place - first, character is not None)
            shown = character or shown
        tokens.append(
            Token(i, token_id, pieces[place], shown, vocabulary.kind(token_id), span, owner.get(i), own_bytes)
        )
    if eos:
        tokens.append(Token(len(tokens), tokenizer.eos_id, "</s>", "</s>", "eos", None, None))
    return tuple(tokens), tuple(found)


def _spelt_in_bytes(pieces: Sequence[str]) -> dict[int, tuple[int, int, str | None]]:
    """For each byte piece: the first of its character's, how many there are, and the character if whole."""
    found: dict[int, tuple[int, int, str | None]] = {}
    at = 0
    while at < len(pieces):
        if not (byte := _BYTE.fullmatch(pieces[at])):
            at += 1
            continue
        spelt, character = bytearray([int(byte[1], 16)]), None
        for following in pieces[at + 1 : at + _length(spelt[0])]:
            if not (byte := _BYTE.fullmatch(following)):
                break
            spelt.append(int(byte[1], 16))
        try:
            character = spelt.decode()
        except UnicodeDecodeError:
            del spelt[1:]  # each for itself
        for place in range(at, at + len(spelt)):
            found[place] = (at, len(spelt), character)
        at += len(spelt)
    return found


def _length(first: int) -> int:
    """Bytes of the UTF-8 character that begins so."""
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
