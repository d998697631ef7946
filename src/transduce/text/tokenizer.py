"""Text to token ids and back, by SentencePiece: the MT standard, read by CTranslate2 and Marian.

In: text; a `tokenizer.model` file, or a corpus to learn one from. Out: ids, text, that file.
Promise: `decode(encode(text)) == normalise(text)` for every `str`, and no text, whatever it looks
like, turns into a control id. Ids 0 to 3 are `<pad> <unk> <s> </s>`, then the 256 byte pieces.
Does not know: batches, models, which language is which.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import sentencepiece

from transduce.errors import RecipeError, TokenizerError
from transduce.files import write_atomic
from transduce.text.pairs import Pair
from transduce.text.sampling import sample_evenly
from transduce.text.segmentation import Segmenter

__all__ = [
    "Normalization",
    "Tokenizer",
    "TokenizerConfig",
    "load_tokenizers",
    "normalise",
    "save_tokenizers",
    "train_tokenizer",
    "train_tokenizers",
]

Normalization = Literal["nfc", "nfkc"]

JOINT_FILE = "tokenizer.model"
SIDE_FILES = ("source.model", "target.model")

_LOG = logging.getLogger("transduce")
_FORMS: dict[Normalization, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
# Training reads this much of a line; SentencePiece would pass over a longer one in silence.
_MAX_CHARACTERS = 2_000
# Characters learnt from in all, which keeps training under 700 MB (12 and 28 bytes a character).
_SAMPLE_CHARACTERS = {"bpe": 40_000_000, "unigram": 20_000_000}
# Fixed, so that the model file does not depend on the machine.
_TRAINING_THREADS = 4
# A text whose commonest characters (99.95 % of it) are more than this is not alphabetic.
_ALPHABET_SIZE = 500
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
        self._processor = _load_processor(proto, name)
        self.normalization: Normalization = "nfkc" if proto.endswith(_trailer("nfkc")) else "nfc"
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
        return cls(proto, str(path))

    @classmethod
    def from_bytes(cls, proto: bytes) -> Tokenizer:
        """Take a model file's content.

        Raises:
            TokenizerError: it is not a SentencePiece model with all of pad, unk, bos and eos.
        """
        return cls(proto)

    def to_bytes(self) -> bytes:
        """The model file's content."""
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


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig, destination: Path) -> Tokenizer:
    """Learn a vocabulary from lines of text and write it to `destination`, whole or not at all.

    The same lines and configuration give the same file, byte for byte.

    Raises:
        TokenizerError: there is no text, or `vocab_size` is too small for its characters.
    """
    clipped: Counter[str] = Counter()
    lines = (_training_line(text, config, clipped) for text in texts)
    sample = sample_evenly(
        (line for line in lines if line),
        config.sample_size,
        config.seed,
        weight=len,
        max_weight=_SAMPLE_CHARACTERS[config.kind],
    )
    return _train(sample, config, destination, clipped["lines"])


def train_tokenizers(
    pairs: Iterable[Pair], config: TokenizerConfig, directory: Path
) -> tuple[Tokenizer, Tokenizer]:
    """Learn the vocabularies of both sides and write them into `directory`.

    A joint one is `tokenizer.model`, returned twice; separate ones are `source.model` and
    `target.model`. Files of the other kind are removed.

    Raises:
        TokenizerError: there is no text, or `vocab_size` is too small for its characters.
        DataError: the pairs are read from a corpus that cannot be read.
    """
    clipped: Counter[str] = Counter()
    lines = (
        (_training_line(pair.source, config, clipped), _training_line(pair.target, config, clipped))
        for pair in pairs
    )
    sample = sample_evenly(
        lines,
        config.sample_size,
        config.seed,
        weight=lambda sides: len(sides[0]) + len(sides[1]),
        max_weight=_SAMPLE_CHARACTERS[config.kind],
    )
    sides = [[line for line in side if line] for side in zip(*sample, strict=True)] or [[], []]
    if config.joint:
        source = target = _train(sides[0] + sides[1], config, directory / JOINT_FILE, clipped["lines"])
    else:
        source, target = (
            _train(side, config, directory / name, clipped["lines"])
            for side, name in zip(sides, SIDE_FILES, strict=True)
        )
    _remove_stale(directory, joint=config.joint)
    return source, target


def save_tokenizers(tokenizers: tuple[Tokenizer, Tokenizer], directory: Path) -> None:
    """Write vocabularies into `directory` as `train_tokenizers` does; one object twice is a joint one."""
    joint = tokenizers[0] is tokenizers[1]
    for name, tokenizer in zip((JOINT_FILE,) if joint else SIDE_FILES, tokenizers, strict=False):
        write_atomic(directory / name, tokenizer.to_bytes())
    _remove_stale(directory, joint=joint)


def _remove_stale(directory: Path, *, joint: bool) -> None:
    """Delete the vocabulary files of the other kind."""
    for stale in SIDE_FILES if joint else (JOINT_FILE,):
        (directory / stale).unlink(missing_ok=True)


def load_tokenizers(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """Read the vocabularies that `train_tokenizers` wrote: source and target, or one object twice.

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


def _training_line(text: str, config: TokenizerConfig, clipped: Counter[str]) -> str:
    """A line as training reads it: normalised, without line ends, not too long."""
    if len(text) > _MAX_CHARACTERS:
        clipped["lines"] += 1
        text = text[:_MAX_CHARACTERS]
    text = text.replace("\n", " ").replace("\r", " ")
    return normalise(text, config.normalization)


def _train(lines: list[str], config: TokenizerConfig, destination: Path, clipped: int) -> Tokenizer:
    """Learn a vocabulary from a sample and write it."""
    if not lines:
        raise TokenizerError(f"{destination}: no text to learn a vocabulary from; every line is blank")
    if clipped:
        _LOG.warning(
            "%s: of %d lines only the first %d characters were learnt from",
            destination, clipped, _MAX_CHARACTERS,
        )  # fmt: skip
    proto = _run_trainer(lines, config, destination) + _trailer(config.normalization)
    tokenizer = Tokenizer(proto, str(destination))
    if tokenizer.vocab_size < config.vocab_size:
        _LOG.warning(
            "%s: the text gives %d pieces, not the %d asked for",
            destination, tokenizer.vocab_size, config.vocab_size,
        )  # fmt: skip
    write_atomic(destination, proto)
    return tokenizer


def _run_trainer(lines: list[str], config: TokenizerConfig, destination: Path) -> bytes:
    """Run SentencePiece's trainer.

    Raises:
        TokenizerError: `vocab_size` is too small, or SentencePiece says something else.
    """
    output = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=output,
            model_type=config.kind,
            vocab_size=config.vocab_size,
            hard_vocab_limit=False,
            character_coverage=config.character_coverage or _usual_coverage(lines),
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity",
            max_sentence_length=4 * _MAX_CHARACTERS,
            shuffle_input_sentence=False,
            num_threads=_TRAINING_THREADS,
            minloglevel=2,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
        )
    except (RuntimeError, OSError) as error:
        needed = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        if needed:
            raise TokenizerError(
                f"{destination}: vocab_size ({config.vocab_size}) is too small: the special pieces, "
                f"the bytes and the characters of this text need {needed[1]}; ask for more pieces "
                "or lower character_coverage"
            ) from None
        raise TokenizerError(f"{destination}: SentencePiece could not train: {error}") from error
    return output.getvalue()


def _usual_coverage(lines: list[str]) -> float:
    """Character coverage by the size of the writing system, rare characters left aside."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    common, total = 0, 0.9995 * counts.total()
    for _, count in counts.most_common(_ALPHABET_SIZE):
        common += count
    return 0.99995 if common >= total else 0.9995


def _trailer(normalization: Normalization) -> bytes:
    """Bytes that, after a model file, name its normaliser.

    A protobuf message continues with what is appended to it: here `normalizer_spec.name`
    (field 3, then field 1), which SentencePiece itself reads for display only.
    """
    name = f"transduce_{normalization}".encode()
    return bytes([0x1A, len(name) + 2, 0x0A, len(name)]) + name


def _load_processor(proto: bytes, name: str) -> Any:
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
