"""Which pairs training leaves out, and why: the rules, in one place for the report and for training.

In: a corpus and a `CleaningConfig`. Out: `CleanCorpus`, the pairs that stay, with counts by reason.
The rules compare a pair with what is usual in its own corpus (`profile.py`); they know no language.
Does not know: tokens (a limit in tokens is the batch room's), how a report looks (`check.py`).
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal, NamedTuple

from transduce.errors import RecipeError
from transduce.text.pairs import Corpus, Pair, Side
from transduce.text.profile import Profile, learn_profile
from transduce.text.scripts import LATIN, count_letters, is_latin

__all__ = [
    "REASONS",
    "CleanCorpus",
    "Cleaner",
    "CleaningConfig",
    "CleaningCounts",
    "HashSet",
    "Match",
    "Measured",
    "Reason",
    "clean",
    "measure",
    "text_hash",
]

Reason = Literal[
    "blank", "too_long", "damaged", "copy", "wrong_script", "wrong_language", "ratio", "duplicate"
]

REASONS: dict[Reason, str] = {
    "blank": "a side is blank",
    "too_long": "a side is too long",
    "damaged": "U+FFFD: a character was lost before",
    "copy": "target is the source, untranslated",
    "wrong_script": "a side is in another script",
    "wrong_language": "a side reads like the other's language",
    "ratio": "lengths do not fit each other",
    "duplicate": "the same pair came before",
}
"""Reasons to leave a pair out, in the order in which they are tried, each with its description."""

# Letters of a foreign script that make a line wrong; names and code in Latin stand everywhere.
_MIN_FOREIGN_LETTERS = 2
_MIN_LATIN_LETTERS = 20
_VISIBLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202f\u2060-\u2064\ufeff]")
_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """What training leaves out of a corpus. The defaults drop what can only harm."""

    max_words: int = 200
    """Longest line, in words between spaces, on either side."""
    max_chars: int = 1500
    """Longest line, in characters, on either side (for languages without spaces)."""
    max_ratio: float = 3.0
    """How many times longer or shorter than usual in this corpus a target may be for its source."""
    ratio_slack: int = 10
    """Characters added to both lengths first, so that short lines may differ more."""
    drop_blank: bool = True
    """Drop pairs where a side has no visible character."""
    drop_damaged: bool = True
    """Drop pairs with U+FFFD, the mark of a character lost in an earlier conversion."""
    drop_copies: bool = True
    """Drop pairs whose target is the source, letter for letter."""
    max_copy_letters: int = 24
    """A copy with no more letters than this stays: names, numbers, 'OK'."""
    drop_wrong_script: bool = True
    """Drop pairs with a side in a script that the side is not written in."""
    drop_wrong_language: bool = True
    """Drop pairs with a side that reads clearly like the other side's language (swapped pairs too)."""
    drop_duplicates: bool = True
    """Drop pairs that came before, both sides alike."""
    sample_pairs: int = 10_000
    """Pairs sampled to learn what is usual."""
    seed: int = 1
    """Chooses the sample."""

    def __post_init__(self) -> None:
        for name in ("max_words", "max_chars", "sample_pairs"):
            if getattr(self, name) < 1:
                raise RecipeError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_ratio <= 1:
            raise RecipeError(f"max_ratio must be above 1 (equal lengths), got {self.max_ratio}")
        for name in ("ratio_slack", "max_copy_letters"):
            if getattr(self, name) < 0:
                raise RecipeError(f"{name} must not be negative, got {getattr(self, name)}")

    def drops(self, reason: Reason) -> bool:
        """Whether a pair that matches a reason is left out; too long and ratio always are."""
        flags: dict[Reason, bool] = {
            "blank": self.drop_blank,
            "damaged": self.drop_damaged,
            "copy": self.drop_copies,
            "wrong_script": self.drop_wrong_script,
            "wrong_language": self.drop_wrong_language,
            "duplicate": self.drop_duplicates,
        }
        return flags.get(reason, True)


@dataclass(kw_only=True)
class CleaningCounts:
    """How many pairs stayed, and how many were dropped for which reason (each for the first one)."""

    kept: int = 0
    dropped: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[int]] = field(default_factory=dict)
    """Numbers of the first pairs that were dropped for each reason."""

    @property
    def total(self) -> int:
        """All pairs seen."""
        return self.kept + self.dropped.total()

    def add(self, line: int, reason: Reason | None) -> None:
        """Count one pair: kept, or dropped for a reason."""
        if reason is None:
            self.kept += 1
            return
        self.dropped[reason] += 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(line)

    def summary(self) -> str:
        """One line for a log."""
        reasons = [f"{n:,} ({REASONS[r]})" for r, n in self.dropped.most_common()]
        dropped = f"; dropped {', '.join(reasons)}" if reasons else ""
        return f"kept {self.kept:,} of {self.total:,} pairs{dropped}"


@dataclass(slots=True)
class Measured:
    """A pair and the words of its sides, split once for all rules."""

    pair: Pair
    source_words: list[str]
    target_words: list[str]


class Match(NamedTuple):
    """A reason that a pair matches, and the side that matches it."""

    reason: Reason
    side: Side | Literal["pair"]


class Cleaner:
    """Judges pairs in the order of the corpus; remembers them, to know the ones that came before."""

    def __init__(self, config: CleaningConfig, profile: Profile) -> None:
        self.config = config
        self.profile = profile
        self._seen = HashSet(profile.pairs)

    def judge(self, pair: Pair) -> Reason | None:
        """Why a pair is dropped, or None if it stays."""
        return self.charge(self.matches(measure(pair)))

    def charge(self, matches: list[Match]) -> Reason | None:
        """The first reason, in the order of `REASONS`, that drops a pair; None if the pair stays."""
        reasons = {match.reason for match in matches if self.config.drops(match.reason)}
        return next((reason for reason in REASONS if reason in reasons), None) if reasons else None

    def matches(self, measured: Measured) -> list[Match]:
        """Every reason that a pair matches, whether the configuration drops it or not."""
        pair, profile, reader = measured.pair, self.profile, self.profile.reader
        found = self._line_matches("source", pair.source, measured.source_words, profile.source_scripts)
        found += self._line_matches("target", pair.target, measured.target_words, profile.target_scripts)
        if reader is not None and reader.reads_like_target(measured.source_words):
            found.append(Match("wrong_language", "source"))
        if reader is not None and reader.reads_like_source(measured.target_words):
            found.append(Match("wrong_language", "target"))
        if self._is_copy(measured):
            found.append(Match("copy", "pair"))
        if self._has_odd_ratio(pair):
            found.append(Match("ratio", "pair"))
        if not self._seen.add(text_hash(f"{pair.source}\n{pair.target}")):
            found.append(Match("duplicate", "pair"))
        return found

    def _line_matches(self, side: Side, line: str, words: list[str], scripts: frozenset[str]) -> list[Match]:
        """The reasons that one line matches by itself."""
        found = []
        if not _VISIBLE.search(line):
            found.append(Match("blank", side))
        if len(words) > self.config.max_words or len(line) > self.config.max_chars:
            found.append(Match("too_long", side))
        if "\ufffd" in line:
            found.append(Match("damaged", side))
        if _is_foreign(line, scripts):
            found.append(Match("wrong_script", side))
        return found

    def _is_copy(self, measured: Measured) -> bool:
        """Whether the target is the source, and too much text to be a name."""
        if measured.source_words != measured.target_words:
            return False
        return count_letters(measured.pair.source).total() > self.config.max_copy_letters

    def _has_odd_ratio(self, pair: Pair) -> bool:
        """Whether a side is much longer than the other calls for, as this corpus goes."""
        source = len(pair.source) + self.config.ratio_slack
        target = len(pair.target) / self.profile.target_per_source + self.config.ratio_slack
        return target > self.config.max_ratio * source or source > self.config.max_ratio * target


class CleanCorpus(Corpus):
    """The pairs of a corpus that training keeps, under their own line numbers."""

    def __init__(self, corpus: Corpus, config: CleaningConfig, profile: Profile | None = None) -> None:
        super().__init__(corpus.name, corpus.files)
        self._corpus = corpus
        self._config = config
        self._profile = profile
        self.notes = corpus.notes
        self.counts = CleaningCounts()
        """What the latest walk kept and dropped."""

    def __iter__(self) -> Iterator[Pair]:
        cleaner = Cleaner(self._config, self.profile())
        self.counts = counts = CleaningCounts()
        for pair in self._corpus:
            reason = cleaner.judge(pair)
            counts.add(pair.line, reason)
            if reason is None:
                yield pair

    def profile(self) -> Profile:
        """What is usual in the corpus; learnt at the first call, which reads the corpus once.

        Raises:
            DataError: the corpus cannot be read, or its files are not parallel.
        """
        if self._profile is None:
            self._profile = learn_profile(
                self._corpus, sample_pairs=self._config.sample_pairs, seed=self._config.seed
            )
        return self._profile

    def where(self, line: int, side: Side | None = None) -> str:
        """The pair's place in the corpus that was cleaned."""
        return self._corpus.where(line, side)

    def fingerprint(self) -> str:
        """SHA-256 over the corpus's fingerprint and the rules' settings."""
        settings = f"{self._corpus.fingerprint()} {sorted(asdict(self._config).items())}"
        return hashlib.sha256(settings.encode()).hexdigest()


def clean(corpus: Corpus, config: CleaningConfig, profile: Profile | None = None) -> CleanCorpus:
    """The corpus as training sees it. Nothing is read yet; `.counts` fills while it is walked."""
    return CleanCorpus(corpus, config, profile)


def measure(pair: Pair) -> Measured:
    """Split a pair's sides into words."""
    return Measured(pair, pair.source.split(), pair.target.split())


def _is_foreign(line: str, scripts: frozenset[str]) -> bool:
    """Whether a line is written in scripts that its side is not written in."""
    if not scripts or (LATIN in scripts and is_latin(line)):
        return False
    letters = count_letters(line)
    own = sum(letters[script] for script in scripts)
    latin = 0 if LATIN in scripts else letters[LATIN]
    foreign = letters.total() - own - latin
    if foreign > own:
        return foreign >= _MIN_FOREIGN_LETTERS
    return own == 0 and latin >= _MIN_LATIN_LETTERS


def text_hash(text: str) -> int:
    """A number of 64 bits for a text: the same in every process, never 0."""
    raw = text.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little") or 1


class HashSet:
    """A set of 64-bit numbers other than 0, in 12 to 24 bytes each (open addressing)."""

    def __init__(self, expected: int = 0) -> None:
        slots = max(1024, 1 << (3 * expected // 2).bit_length())
        self._table = array("Q", bytes(8 * slots))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, number: int) -> bool:
        """Add a number; False if it was there."""
        table = self._table
        mask = len(table) - 1
        slot = number & mask
        while found := table[slot]:
            if found == number:
                return False
            slot = (slot + 1) & mask
        table[slot] = number
        self._count += 1
        if 3 * self._count > 2 * len(table):
            self._grow()
        return True

    def _grow(self) -> None:
        """Double the table."""
        old = self._table
        self._table = array("Q", bytes(8 * 2 * len(old)))
        self._count = 0
        for number in old:
            if number:
                self.add(number)
