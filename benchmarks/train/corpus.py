"""The text that all systems train on, made once: Multi30k en-de with 8,000 joint BPE pieces.

    train.en, train.de      raw text                      (for `transduce train`)
    spm.model, spm.vocab    joint SentencePiece BPE
    pieces.en, pieces.de    the same text in pieces       (for the peers' command lines)
    store/                  the same text in ids          (for the loops in this process)
    counts.json             tokens of one pass, and its FLOPs per token for each shape

Everybody gets the same pieces, so a token is a token.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

from shapes import SHAPES, model_config

__all__ = ["EOS_ID", "PAD_ID", "START_ID", "VOCAB_SIZE", "Corpus", "prepare_corpus"]

VOCAB_SIZE = 8000
PAD_ID, UNK_ID, START_ID, EOS_ID = 0, 1, 2, 3
_LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class Corpus:
    """Where the prepared text is, and its size."""

    directory: Path
    num_pairs: int
    num_source_tokens: int
    """Of one pass, end symbols counted."""
    num_target_tokens: int
    flops_per_token: dict[str, float]
    """By shape: training FLOPs of one pass / its source and target tokens."""

    @property
    def num_tokens(self) -> int:
        """Source and target tokens of one pass."""
        return self.num_source_tokens + self.num_target_tokens


def prepare_corpus(data: Path, work: Path) -> Corpus:
    """Make the files above in `work`, or take those that are there.

    Args:
        data: directory with train.en.gz and train.de.gz.
        work: kept between runs.
    """
    counts = work / "counts.json"
    if not counts.exists():
        work.mkdir(parents=True, exist_ok=True)
        counts.write_text(json.dumps(_prepare(data, work)), encoding="utf-8")
    return Corpus(work, **json.loads(counts.read_text(encoding="utf-8")))


def _prepare(data: Path, work: Path) -> dict[str, object]:
    """Unpack, learn the pieces, write text and ids in pieces; return what `Corpus` wants to know."""
    import sentencepiece

    from transduce.batch.store import build_store
    from transduce.train.flops import Work, training_flops

    for language in _LANGUAGES:
        with gzip.open(data / f"train.{language}.gz") as packed:
            (work / f"train.{language}").write_bytes(packed.read())
    sentencepiece.SentencePieceTrainer.train(
        input=[str(work / f"train.{language}") for language in _LANGUAGES],
        model_prefix=str(work / "spm"),
        model_type="bpe",
        vocab_size=VOCAB_SIZE,
        character_coverage=1.0,
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=START_ID,
        eos_id=EOS_ID,
        minloglevel=1,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(work / "spm.model"))
    sides = []
    for language in _LANGUAGES:
        lines = (work / f"train.{language}").read_text(encoding="utf-8").removesuffix("\n").split("\n")
        sides.append(processor.encode(lines))
        pieces = (" ".join(row) for row in processor.encode(lines, out_type=str))
        (work / f"pieces.{language}").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    pairs = list(zip(*sides, strict=True))
    build_store(work / "store", pairs, vocab_size=VOCAB_SIZE, fingerprint="benchmarks/train")
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    work_of_a_pass = Work(
        num_source_tokens=sum(source for source, _ in lengths),
        num_target_tokens=sum(target for _, target in lengths),
        num_source_pairs=sum(source**2 for source, _ in lengths),
        num_target_pairs=sum(target**2 for _, target in lengths),
        num_cross_pairs=sum(source * target for source, target in lengths),
    )
    num_source, num_target = work_of_a_pass.num_source_tokens, work_of_a_pass.num_target_tokens
    return {
        "num_pairs": len(pairs),
        "num_source_tokens": num_source,
        "num_target_tokens": num_target,
        "flops_per_token": {
            name: training_flops(model_config(shape, VOCAB_SIZE, PAD_ID), work_of_a_pass)
            / (num_source + num_target)
            for name, shape in SHAPES.items()
        },
    }
