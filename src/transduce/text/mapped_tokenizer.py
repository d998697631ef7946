"""SentencePiece with a list of ids of its own: how OPUS-MT and Marian models write text.

SentencePiece cuts the text into pieces, a table (Marian's vocab.yml, Hugging Face's vocab.json) gives
each its id. One SentencePiece model for each language, often one table for both. The file is a ZIP
archive, so that a vocabulary stays one file like any other:

    sentencepiece.model   cuts the text; it also brings it to its Unicode form (often nmt_nfkc)
    vocabulary.json       pad, unk, bos (what the decoder starts from) and eos, and the pieces by id

A target language in front of the text (`>>fra<<`) is one token, if the table has it.
Does not know: batches, models, which language is which.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from transduce.errors import TokenizerError
from transduce.text.tokenizer import Tokenizer, load_processor

__all__ = ["MappedTokenizer"]

_PROTO, _TABLE = "sentencepiece.model", "vocabulary.json"
_SPECIALS = ("pad", "unk", "bos", "eos")
_LANGUAGE = re.compile(r">>[^<>]+<<")
_SURROGATES = re.compile("[\ud800-\udfff]")
_LINE_ENDS = ("<0x0A>", "<0x0D>")


class MappedTokenizer(Tokenizer):
    """A SentencePiece model and a table of ids; else like any `Tokenizer`."""

    def __init__(self, archive: bytes, name: str = "tokenizer") -> None:
        """Read an archive.

        Raises:
            TokenizerError: it is damaged, or the table lacks what it must have.
        """
        self._archive = archive
        self._proto, table = _opened(archive, name)
        self._processor = load_processor(self._proto, f"{_PROTO} in {name}")
        self.normalization = "nfkc"  # or what else SentencePiece's own rules say: nothing is done before
        self._pieces: list[str | None] = table["pieces"]
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if piece is not None}
        self.vocab_size = len(self._pieces)
        self.pad_id, self.unk_id, self.bos_id, self.eos_id = (table[special] for special in _SPECIALS)
        self._by_processor = [
            self._ids.get(self._processor.id_to_piece(i), self.unk_id)
            for i in range(self._processor.get_piece_size())
        ]
        self.newline_ids = tuple(
            i for piece, i in self._ids.items() if piece in _LINE_ENDS or "\n" in piece or "\r" in piece
        )

    @classmethod
    def build(
        cls, proto: bytes, ids: Mapping[str, int], *, size: int, name: str = "tokenizer", **specials: int
    ) -> MappedTokenizer:
        """Put a tokenizer together.

        Args:
            proto: the SentencePiece model's content.
            ids: piece → id.
            size: how many ids the model has; at least one more than the largest of `ids`.
            name: for messages.
            specials: `pad`, `unk`, `bos` and `eos`: ids.

        Raises:
            TokenizerError: an id is not below `size`, two pieces have the same, or `proto` is no model.
        """
        for special in _SPECIALS:
            if not 0 <= specials[special] < size:
                raise TokenizerError(
                    f"{name}: {special} is {specials[special]}, but the model has ids 0 to {size - 1}"
                )
        pieces: list[str | None] = [None] * size
        for piece, i in ids.items():
            if not (isinstance(i, int) and 0 <= i < size):
                raise TokenizerError(
                    f"{name}: piece {piece!r} has id {i!r}, but the model has ids 0 to {size - 1}"
                )
            if pieces[i] is not None:
                raise TokenizerError(f"{name}: {pieces[i]!r} and {piece!r} both have id {i}")
            pieces[i] = piece
        table = {**{special: specials[special] for special in _SPECIALS}, "pieces": pieces}
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:  # ZipInfo's fixed date: the same bytes every time
            archive.writestr(zipfile.ZipInfo(_PROTO), proto)
            archive.writestr(zipfile.ZipInfo(_TABLE), json.dumps(table, ensure_ascii=False, indent=0))
        return cls(content.getvalue(), name)

    def to_bytes(self) -> bytes:
        """The archive."""
        return self._archive

    def fingerprint(self) -> str:
        """SHA-256 of the archive."""
        return hashlib.sha256(self._archive).hexdigest()

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[bytes]]:
        return MappedTokenizer, (self._archive,)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without bos and eos; a language code that the table knows is one of them."""
        code, rest = self._language_code(text)
        cut: list[int] = self._processor.encode(rest)
        return code + [self._by_processor[i] for i in cut]

    def encode_batch(self, texts: Sequence[str], num_threads: int = 1) -> list[list[int]]:
        """Ids of many texts, as `encode` gives them; threads change the speed only."""
        prepared = [self._language_code(text) for text in texts]
        rests = [rest for _, rest in prepared]
        cuts: list[list[int]] = self._processor.encode(rests, num_threads=num_threads)
        return [
            code + [self._by_processor[i] for i in cut] for (code, _), cut in zip(prepared, cuts, strict=True)
        ]

    def encode_sampled(self, text: str, *, alpha: float = 0.1, seed: int) -> list[int]:
        """Ids of one of the text's other segmentations, as in `Tokenizer.encode_sampled`."""
        code, rest = self._language_code(text)
        return code + [self._by_processor[i] for i in self._segmenter.draw(rest, alpha, seed)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids: pad, bos, eos and language codes are silent.

        Raises:
            IndexError: an id is not below `vocab_size`.
        """
        silent = (self.pad_id, self.bos_id, self.eos_id)
        pieces = self.pieces([i for i in ids if i not in silent])
        written = [piece for piece in pieces if piece and not _LANGUAGE.fullmatch(piece)]
        text: str = self._processor.decode_pieces(written) if written else ""
        return text.replace("\u2581", " ").strip(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids; an id that the table does not name is an empty one.

        Raises:
            IndexError: an id is not below `vocab_size`.
        """
        return [self._pieces[int(i)] or "" for i in ids]

    def sentencepiece_model(self) -> bytes:
        """The SentencePiece model's content."""
        return self._proto

    def _language_code(self, text: str) -> tuple[list[int], str]:
        """The id of the code that a text begins with, if there is one, and the rest."""
        text = _SURROGATES.sub("\ufffd", text)
        found = _LANGUAGE.match(text)
        if found is None or found[0] not in self._ids:
            return [], text
        return [self._ids[found[0]]], text[found.end() :]


def _opened(archive: bytes, name: str) -> tuple[bytes, dict[str, Any]]:
    """The two files of an archive, the table checked.

    Raises:
        TokenizerError: one is missing, damaged, or not in the form that `build` writes.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            proto, table = opened.read(_PROTO), json.loads(opened.read(_TABLE))
        pieces, size = table["pieces"], len(table["pieces"])
        sound = all(piece is None or isinstance(piece, str) for piece in pieces)
        sound &= all(isinstance(table[special], int) and 0 <= table[special] < size for special in _SPECIALS)
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError, NotImplementedError) as error:
        raise TokenizerError(
            f"{name} is not a vocabulary archive ({error}): import or copy it again"
        ) from error
    if not sound:
        raise TokenizerError(f"{name} holds a table of pieces that is not sound: import or copy it again")
    return proto, table
