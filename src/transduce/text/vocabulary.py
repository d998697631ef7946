"""Learning a vocabulary from text, by SentencePiece's trainer.

In: lines or pairs of text. Out: a `tokenizer.model` file, the same bytes for the same lines, and the
`Tokenizer` that reads it.
"""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

from transduce.errors import TokenizerError
from transduce.files import write_atomic
from transduce.text.pairs import Pair
from transduce.text.sampling import sample_evenly
from transduce.text.tokenizer import (
    JOINT_FILE,
    SIDE_FILES,
    Tokenizer,
    TokenizerConfig,
    normalise,
    remove_stale,
    trailer,
)

__all__ = ["train_tokenizer", "train_tokenizers"]

_LOG = logging.getLogger("transduce")
# Training reads this much of a line; SentencePiece would pass over a longer one in silence.
_MAX_CHARACTERS = 2_000
# Characters learnt from in all, which keeps training under 700 MB (12 and 28 bytes a character).
_SAMPLE_CHARACTERS = {"bpe": 40_000_000, "unigram": 20_000_000}
# Fixed, so that the model file does not depend on the machine.
_TRAINING_THREADS = 4
# A text whose commonest characters (99.95 % of it) are more than this is not alphabetic.
_ALPHABET_SIZE = 500


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
    remove_stale(directory, joint=config.joint)
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
    proto = _run_trainer(lines, config, destination) + trailer(config.normalization)
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
