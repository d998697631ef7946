"""Text to token ids and back, by SentencePiece: the MT standard, read by CTranslate2 and Marian.

In: text; a `tokenizer.model` file, as `vocabulary.py` learns it. Out: ids, text.
Promise: `decode(encode(text)) == normalise(text)` for every `str`, and no text, whatever it looks
like, turns into a control id. Ids 0 to 3 are `<pad> <unk> <s> </s>`, then the 256 byte pieces.
Does not know: batches, models, which language is which.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import sentencepiece

from transduce.errors import RecipeError, TokenizerError
from transduce.files import write_atomic
from transduce.text.segmentation import Segmenter

__all__ = [
    "Normalization",
    "Tokenizer",
    "TokenizerConfig",
    "load_processor",
    "load_tokenizers",
    "normalise",
    "remove_stale",
    "save_tokenizers",
    "trailer",
]

Normalization = Literal["nfc", "nfkc"]

ARCHIVE = b"PK"  # a SentencePiece model begins otherwise
JOINT_FILE = "tokenizer.model"
SIDE_FILES = ("source.model", "target.model")

_FORMS: dict[Normalization, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
_SURROGATES = re.compile("[\ud800-\udfff]")
_SPACES = re.compile(" {2,}")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How to learn a vocabulary."""

    kind: Literal["bpe", "unigram"] = "bpe"
    """Merges of frequent pairs (the paper's), or the pieces of a unigram language model."""
    vocab_size: int = 8000
    """Pieces, with the 4 special and 256 byte pieces; fewer if the text does not give as many."""
    joint: bool = True
    """One vocabulary for both sides, or one each."""
    character_coverage: float | None = None
    """Share of the text whose characters become pieces; the rest is spelt in bytes. Unset, it is
    0.9995 for text in many characters (Chinese, Japanese, Korean), else 0.99995."""
    byte_fallback: bool = True
    """Spell characters without a piece in bytes. Without it they are lost as `<unk>`."""
    normalization: Normalization = "nfc"
    """Unicode form of the text: `nfc` keeps all of it, `nfkc` also folds ligatures, widths, ²."""
    sample_size: int = 200_000
    """Lines of each side that are learnt from, chosen evenly; at most 40 million characters in all
    (20 million for unigram, which needs more memory)."""
    seed: int = 1
    """Chooses the sample."""

    def __post_init__(self) -> None:
        _one_of("kind", self.kind, ("bpe", "unigram"))
        _one_of("normalization", self.normalization, ("nfc", "nfkc"))
        if self.vocab_size < 1 or self.sample_size < 1:
            raise RecipeError("vocab_size and sample_size must be at least 1")
        if self.character_coverage is not None and not 0.98 <= self.character_coverage <= 1:
            raise RecipeError(f"character_coverage must be from 0.98 to 1, got {self.character_coverage}")


def normalise(text: str, form: Normalization = "nfc") -> str:
    """What the tokenizer keeps of a text.

    Lone surrogates become U+FFFD, then Unicode form C (or KC), then U+2581 (SentencePiece's mark
    for a space) a space, runs of U+0020 one, none at the ends. All else stays: TAB, NBSP, NUL.
    """
    if not text.isascii():
        text = unicodedata.normalize(_FORMS[form], _SURROGATES.sub("\ufffd", text))
        text = text.replace("\u2581", " ")
    if "  " in text:
        text = _SPACES.sub(" ", text)
    return text.strip(" ")


class Tokenizer:
    """A trained vocabulary. Safe to share between threads; pickles for worker processes."""

    def __init__(self, proto: bytes, name: str = "tokenizer") -> None:
        self._proto = proto
        self._processor = load_processor(proto, name)
        self.normalization: Normalization = "nfkc" if proto.endswith(trailer("nfkc")) else "nfc"
        """The Unicode form that `encode` brings text to."""
        self.pad_id = self._special("pad_id", name)
        self.unk_id = self._special("unk_id", name)
        self.bos_id = self._special("bos_id", name)
        self.eos_id = self._special("eos_id", name)
        self.vocab_size: int = self._processor.get_piece_size()
        self.newline_ids = tuple(self._ids_with_line_end())
        """Ids whose text holds LF or CR; banned where one line in must be one line out (TRAPS 28)."""

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a model file.

        Raises:
            TokenizerError: the file is missing, or is not a SentencePiece model with all of
                pad, unk, bos and eos.
        """
        try:
            proto = path.read_bytes()
        except OSError as error:
            raise TokenizerError(
                f"{path} cannot be read ({error.strerror}); expected a SentencePiece model"
            ) from error
        return cls.from_bytes(proto, str(path))

    @classmethod
    def from_bytes(cls, proto: bytes, name: str = "tokenizer") -> Tokenizer:
        """Take a model file's content, of either kind.

        Raises:
            TokenizerError: it is not a SentencePiece model with all of pad, unk, bos and eos.
        """
        if proto.startswith(ARCHIVE):
            # Here, because the other kind builds on this one.
            from transduce.text.mapped_tokenizer import MappedTokenizer

            return MappedTokenizer(proto, name)
        return cls(proto, name)

    def to_bytes(self) -> bytes:
        """The model file's content."""
        return self._proto

    def sentencepiece_model(self) -> bytes:
        """The content of a file that SentencePiece itself reads."""
        return self._proto

    def fingerprint(self) -> str:
        """SHA-256 of the model file's content."""
        return hashlib.sha256(self._proto).hexdigest()

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[bytes]]:
        return Tokenizer, (self._proto,)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without bos and eos; none for a text of spaces."""
        ids: list[int] = self._processor.encode(normalise(text, self.normalization))
        return ids

    def encode_batch(self, texts: Sequence[str], num_threads: int = 1) -> list[list[int]]:
        """Ids of many texts, as `encode` gives them; threads change the speed only."""
        prepared = [normalise(text, self.normalization) for text in texts]
        batch: list[list[int]] = self._processor.encode(prepared, num_threads=num_threads)
        return batch

    def encode_sampled(self, text: str, *, alpha: float = 0.1, seed: int) -> list[int]:
        """Ids of one of the text's other segmentations (subword regularisation).

        For BPE `alpha` is the chance to leave a merge out (BPE-dropout); for unigram it is the power
        that segmentations' probabilities are raised to (1: as they are, 0: all alike). The same seed
        gives the same ids, in every process (see segmentation.py).
        """
        return self._segmenter.draw(normalise(text, self.normalization), alpha, seed)

    @cached_property
    def _segmenter(self) -> Segmenter:
        return Segmenter(self._processor)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, in any order: pad, bos and eos are silent, bytes that are not UTF-8 become U+FFFD.

        Raises:
            IndexError: an id is not below `vocab_size`.
        """
        silent = (self.pad_id, self.bos_id, self.eos_id)
        text: str = self._processor.decode([int(i) for i in ids if i not in silent])
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids, as a reader may see them: U+2581 stands for a space.

        Raises:
            IndexError: an id is not below `vocab_size`.
        """
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def _special(self, name: str, file: str) -> int:
        """The id of a special piece."""
        number: int = getattr(self._processor, name)()
        if number < 0:
            raise TokenizerError(
                f"{file}: the model has no {name}; train it with pad, unk, bos and eos pieces, "
                "as train_tokenizer does"
            )
        return number

    def _ids_with_line_end(self) -> Iterator[int]:
        """The byte pieces of LF and CR, and any piece that holds one of them."""
        for i in range(self.vocab_size):
            piece = self._processor.id_to_piece(i)
            if self._processor.is_byte(i):
                if piece in ("<0x0A>", "<0x0D>"):
                    yield i
            elif "\n" in piece or "\r" in piece:
                yield i


def save_tokenizers(tokenizers: tuple[Tokenizer, Tokenizer], directory: Path) -> None:
    """Write vocabularies into `directory` as `train_tokenizers` does; one object twice is a joint one."""
    joint = tokenizers[0] is tokenizers[1]
    for name, tokenizer in zip((JOINT_FILE,) if joint else SIDE_FILES, tokenizers, strict=False):
        write_atomic(directory / name, tokenizer.to_bytes())
    remove_stale(directory, joint=joint)


def remove_stale(directory: Path, *, joint: bool) -> None:
    """Delete the vocabulary files of the other kind."""
    for stale in SIDE_FILES if joint else (JOINT_FILE,):
        (directory / stale).unlink(missing_ok=True)


def load_tokenizers(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """Read the vocabularies that `vocabulary.train_tokenizers` wrote: source and target, or one object twice.

    Raises:
        TokenizerError: a file is missing or is not such a model.
    """
    joint = directory / JOINT_FILE
    if joint.exists():
        tokenizer = Tokenizer.load(joint)
        return tokenizer, tokenizer
    if not any((directory / name).exists() for name in SIDE_FILES):
        raise TokenizerError(
            f"{directory} holds no tokenizer; expected {JOINT_FILE}, or {' and '.join(SIDE_FILES)}"
        )
    source, target = (Tokenizer.load(directory / name) for name in SIDE_FILES)
    return source, target


def trailer(normalization: Normalization) -> bytes:
    """Bytes that, after a model file, name its normaliser.

    A protobuf message continues with what is appended to it: here `normalizer_spec.name`
    (field 3, then field 1), which SentencePiece itself reads for display only.
    """
    name = f"transduce_{normalization}".encode()
    return bytes([0x1A, len(name) + 2, 0x0A, len(name)]) + name


def load_processor(proto: bytes, name: str) -> Any:
    """SentencePiece's own object.

    Raises:
        TokenizerError: the bytes are not a model.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        loaded = bool(proto) and processor.LoadFromSerializedProto(proto)
    except RuntimeError:
        loaded = False
    if not loaded:
        raise TokenizerError(f"{name} is not a SentencePiece model; train or copy it again")
    return processor


def _one_of(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices.

    Raises:
        RecipeError: it is not.
    """
    if value not in choices:
        raise RecipeError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
