"""What is usual in a corpus: learnt from an even sample, so that rules need no language names.

In: a corpus, read once. Out: a `Profile`: each side's scripts, the usual length ratio, and a
reader that tells the two sides apart.
Does not know: which rules use it (`cleaning.py`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from transduce.text.language import SideReader
from transduce.text.pairs import Corpus, Pair
from transduce.text.sampling import sample_evenly
from transduce.text.scripts import count_letters, main_script

__all__ = ["Profile", "learn_profile"]

# Sampled lines are cut here: enough to know the script and the language.
_MAX_CHARACTERS = 400
# A script belongs to a side if this share of the side's lines is written in it.
_MIN_SCRIPT_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What is usual in a corpus."""

    pairs: int
    """Pairs in the corpus when it was read."""
    source_scripts: frozenset[str] = field(default_factory=frozenset)
    """Scripts that the source is written in; empty if it has no letters."""
    target_scripts: frozenset[str] = field(default_factory=frozenset)
    """Scripts that the target is written in."""
    target_per_source: float = 1.0
    """Median of target characters per source character."""
    reader: SideReader | None = None
    """Tells the sides' languages apart; None where their scripts already do."""


def learn_profile(corpus: Corpus, *, sample_pairs: int, seed: int) -> Profile:
    """Read a corpus once and learn its profile from `sample_pairs` of its pairs.

    Raises:
        DataError: the corpus cannot be read, or its files are not parallel.
    """
    count = 0

    def short_pairs() -> Iterator[Pair]:
        nonlocal count
        for pair in corpus:
            count += 1
            if len(pair.source) > _MAX_CHARACTERS or len(pair.target) > _MAX_CHARACTERS:
                pair = Pair(pair.source[:_MAX_CHARACTERS], pair.target[:_MAX_CHARACTERS], pair.line)
            yield pair

    sample = sample_evenly(short_pairs(), sample_pairs, seed)
    source_scripts = _scripts([pair.source for pair in sample])
    target_scripts = _scripts([pair.target for pair in sample])
    return Profile(
        pairs=count,
        source_scripts=source_scripts,
        target_scripts=target_scripts,
        target_per_source=_usual_ratio(sample),
        reader=SideReader(sample) if source_scripts & target_scripts else None,
    )


def _scripts(lines: list[str]) -> frozenset[str]:
    """The scripts that a fair share of the lines is written in."""
    votes = Counter(script for line in lines if (script := main_script(count_letters(line))))
    scripts = {script for script, n in votes.items() if n >= _MIN_SCRIPT_SHARE * votes.total()}
    if "Kana" in scripts:  # Japanese, where a line may well be all Han.
        scripts.add("Han")
    return frozenset(scripts)


def _usual_ratio(sample: list[Pair]) -> float:
    """Median of target characters per source character; lines cut for the sample are left out."""
    ratios = [
        len(pair.target) / len(pair.source)
        for pair in sample
        if 0 < len(pair.source) < _MAX_CHARACTERS and 0 < len(pair.target) < _MAX_CHARACTERS
    ]
    return statistics.median(ratios) if ratios else 1.0
