"""How well an export agrees with the model: both translate the same sentences, and score each other's.

In:  a model directory, an export of it, sentences or none. Out: `Parity`, which can be read and kept.
Needs torch: the model itself is what is compared with.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.text.lines import read_lines

if TYPE_CHECKING:
    from transduce.translate.model_directory import ModelDirectory

__all__ = ["Parity", "measure_parity", "sample_sources"]

_MOST_SENTENCES = 500
_RANDOM_SENTENCES = 100
_SHORTEST, _LONGEST = 3, 25  # tokens of a random sentence
_FIRST_ID = 4 + 256  # after the special and the byte pieces


@dataclass(frozen=True, kw_only=True)
class Parity:
    """What was compared, and what came out."""

    sentences: int
    of_text: bool
    """The sentences were text; else random ids, on which a model is less sure of itself."""
    equal_ids: int
    """Translations that are equal, token for token."""
    bleu: float
    """Of the export's translations, torch's being the reference: 100 where all are equal."""
    signature: str
    worst_log_prob: float
    """Largest difference of a token's log-probability, in torch's own translations."""
    mean_log_prob: float
    """Mean difference, without sign."""

    def lines(self) -> list[str]:
        """Sentences about it, for the card and for a reader."""
        of = "sentences of text" if self.of_text else "sentences of random tokens"
        return [
            f"compared with torch (float32) on {self.sentences:,} {of}, by the model's own search",
            f"same ids: {self.equal_ids:,} of {self.sentences:,} ({self.equal_ids / self.sentences:.1%})",
            f"BLEU against torch's translations: {self.bleu:.1f} ({self.signature})",
            f"log-probability of a token: differs by {self.mean_log_prob:.2g} on average, "
            f"{self.worst_log_prob:.2g} at most",
        ]


def sample_sources(directory: ModelDirectory, sample: Path | None) -> list[list[int]]:
    """Source ids to compare on: the first sentences of a file, or random ones.

    Raises:
        DataError: the file cannot be read.
    """
    tokenizer, longest = directory.tokenizers[0], directory.recipe.batch.max_len - 1
    if sample is not None:
        rows = (tokenizer.encode(line)[:longest] for line in read_lines(sample))
        filled = (row for row in rows if row)
        return [row for _, row in zip(range(_MOST_SENTENCES), filled, strict=False)]
    rng = random.Random(0)
    first = min(_FIRST_ID, tokenizer.vocab_size - 1)
    return [
        [
            rng.randrange(first, tokenizer.vocab_size)
            for _ in range(rng.randint(_SHORTEST, min(_LONGEST, longest)))
        ]
        for _ in range(_RANDOM_SENTENCES)
    ]


def measure_parity(
    directory: ModelDirectory,
    export: Path,
    sources: Sequence[Sequence[int]],
    *,
    of_text: bool,
    with_shortlist: bool = True,
) -> Parity:
    """Run both.

    Args:
        directory: the model.
        export: its export.
        sources: at least one sentence.
        of_text: whether they are text.
        with_shortlist: use the export's shortlist, if it has one.

    Raises:
        ModelError: torch is not installed, or either cannot be run.
    """
    from transduce.evaluate.scores import score
    from transduce.translate.ctranslate2_engine import CTranslate2Engine
    from transduce.translate.exported import ExportedModel
    from transduce.translate.translator import Translator

    model, tokenizer = directory.load_transformer(), directory.tokenizers[1]
    torch_engine = Translator.over_torch(model, directory.recipe, *directory.tokenizers).engine
    engine = CTranslate2Engine(ExportedModel(export), shortlist=with_shortlist)
    config = directory.recipe.search
    ours = [found[0] for found in torch_engine.search(sources, config)]
    theirs = [found[0] for found in engine.search(sources, config, details=False)]
    rescored = engine.log_probs(sources, [h.ids for h in ours])
    gaps = [
        abs(own - other)
        for h, row in zip(ours, rescored, strict=True)
        for own, other in zip(h.token_log_probs, row, strict=False)
    ]
    scores = score(
        [tokenizer.decode(h.ids) for h in theirs],
        [(tokenizer.decode(h.ids),) for h in ours],
        target_language=directory.recipe.data.target_language or None,
    )
    return Parity(
        sentences=len(sources),
        of_text=of_text,
        equal_ids=sum(a.ids == b.ids for a, b in zip(ours, theirs, strict=True)),
        bleu=scores.bleu.value,
        signature=scores.bleu.signature,
        worst_log_prob=max(gaps, default=0.0),
        mean_log_prob=sum(gaps) / max(1, len(gaps)),
    )
