"""What is in a corpus, what is odd about it, where, and what training will do about it.

In: a corpus and the cleaning rules. Out: `CheckReport`, as data or as text. One pass after the
sample pass; memory grows by 36 to 72 bytes a pair, to know repeats. What is dropped is decided by
`cleaning.Cleaner`, as in training.
Does not know: tokens, terminals, how long training takes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from transduce.text.cleaning import (
    REASONS,
    Cleaner,
    CleaningConfig,
    CleaningCounts,
    HashSet,
    Match,
    Measured,
    Reason,
    measure,
    text_hash,
)
from transduce.text.oddities import NOT_COMPOSED, ODDITIES, find_oddities
from transduce.text.pairs import Corpus, Pair, Side
from transduce.text.profile import Profile, learn_profile

__all__ = ["CheckReport", "Example", "Finding", "Lengths", "SideReport", "check_corpus"]

Place = Side | Literal["pair"]
"""The side that a finding concerns, or both together."""

_PROGRESS_EVERY = 10_000
_PLACES: tuple[Place, ...] = ("source", "target", "pair")
_EXCERPT = 60
_LOST = re.compile("\ufffd")

_PAIR_KINDS = {
    "swapped": "source and target seem to be swapped",
    "short_copy": "target is the source, but short (a name, a number)",
    "several_targets": "source came before with another target",
}
_NOTES = {
    "repaired": "lines had bytes that are not UTF-8, replaced with U+FFFD",
    "joined": "texts had a line end inside, replaced with a space",
    "skipped": "units lack one of the languages and were passed over",
}


@dataclass(frozen=True, kw_only=True)
class Example:
    """A place and what stands there; characters that cannot be seen are escaped."""

    where: str
    excerpt: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something odd: how often, what training does with it, and the first places."""

    kind: str
    title: str
    side: Place
    lines: int
    """Lines (or pairs) that have it."""
    occurrences: int
    """How often it stands in them in all."""
    fate: str
    """`dropped`, or `kept` and how."""
    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long the lines of a side are."""

    mean: float
    p50: int
    p95: int
    p99: int
    max: int


@dataclass(frozen=True, kw_only=True)
class SideReport:
    """One side of the corpus."""

    words: Lengths
    """Words between spaces."""
    characters: Lengths
    different: int
    """Different lines."""
    scripts: tuple[str, ...]
    """Scripts that the side is written in."""


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """What `check_corpus` found."""

    name: str
    pairs: int
    source: SideReport
    target: SideReport
    target_per_source: float
    """Median of target characters per source character."""
    kept: int
    """Pairs that training keeps."""
    dropped: dict[Reason, int]
    """Pairs that training drops, each counted for the first reason."""
    findings: tuple[Finding, ...]
    notes: dict[str, int]
    """What the reader of the files mended or passed over."""

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return asdict(self)

    def render(self) -> str:
        """The report as plain text."""
        return "\n".join(_render(self)) + "\n"


def check_corpus(
    corpus: Corpus,
    config: CleaningConfig,
    *,
    examples: int = 3,
    progress: Callable[[int], None] | None = None,
) -> CheckReport:
    """Read a corpus twice and report on it.

    `progress` hears now and then how many pairs have been looked at (in the second reading).

    Raises:
        DataError: the corpus cannot be read, or its files are not parallel.
    """
    profile = learn_profile(corpus, sample_pairs=config.sample_pairs, seed=config.seed)
    survey = _Survey(corpus, Cleaner(config, profile), examples)
    for count, pair in enumerate(corpus, 1):
        survey.add(measure(pair))
        if progress is not None and count % _PROGRESS_EVERY == 0:
            progress(count)
    if progress is not None:
        progress(profile.pairs)
    return survey.report()


class _SideSurvey:
    """Lengths and different lines of one side, while they are counted."""

    def __init__(self, pairs: int) -> None:
        self.words: Counter[int] = Counter()
        self.characters: Counter[int] = Counter()
        self.different = HashSet(pairs)

    def add(self, line: str, words: list[str]) -> bool:
        """Count a line; False if it came before."""
        self.words[len(words)] += 1
        self.characters[len(line)] += 1
        return self.different.add(text_hash(line))

    def report(self, scripts: frozenset[str]) -> SideReport:
        """What was counted."""
        return SideReport(
            words=_lengths(self.words),
            characters=_lengths(self.characters),
            different=len(self.different),
            scripts=tuple(sorted(scripts)),
        )


class _Survey:
    """A report while it is made."""

    def __init__(self, corpus: Corpus, cleaner: Cleaner, examples: int) -> None:
        self._corpus = corpus
        self._cleaner = cleaner
        self._max_examples = examples
        self._sides: dict[Side, _SideSurvey] = {
            "source": _SideSurvey(cleaner.profile.pairs),
            "target": _SideSurvey(cleaner.profile.pairs),
        }
        self._counts = CleaningCounts()
        self._lines: Counter[tuple[str, Place]] = Counter()
        self._occurrences: Counter[tuple[str, Place]] = Counter()
        self._examples: dict[tuple[str, Place], list[Example]] = {}

    def add(self, measured: Measured) -> None:
        """Look at one pair."""
        pair = measured.pair
        matches = self._cleaner.matches(measured)
        self._counts.add(pair.line, self._cleaner.charge(matches))
        for kind, side in _pair_kinds(matches):
            self._note(kind, side, pair, _LOST if kind == "damaged" else None)
        self._look_for_oddities("source", pair.source, pair)
        self._look_for_oddities("target", pair.target, pair)
        new_source = self._sides["source"].add(pair.source, measured.source_words)
        self._sides["target"].add(pair.target, measured.target_words)
        reasons = {match.reason for match in matches}
        if not new_source and not reasons & {"duplicate", "blank"}:
            self._note("several_targets", "pair", pair)
        if pair.source == pair.target and not reasons & {"copy", "blank"}:
            self._note("short_copy", "pair", pair)

    def report(self) -> CheckReport:
        """What was seen."""
        profile: Profile = self._cleaner.profile
        return CheckReport(
            name=self._corpus.name,
            pairs=self._counts.total,
            source=self._sides["source"].report(profile.source_scripts),
            target=self._sides["target"].report(profile.target_scripts),
            target_per_source=profile.target_per_source,
            kept=self._counts.kept,
            dropped={r: self._counts.dropped[r] for r in REASONS if self._counts.dropped[r]},
            findings=tuple(self._findings()),
            notes=dict(self._corpus.notes),
        )

    def _look_for_oddities(self, side: Side, line: str, pair: Pair) -> None:
        """Note the odd characters of one line."""
        for oddity in find_oddities(line):
            self._note(oddity.kind, side, pair, oddity.pattern)

    def _note(self, kind: str, side: Place, pair: Pair, pattern: re.Pattern[str] | None = None) -> None:
        """Count a kind at a pair, and keep the first few as examples, shown where the pattern is."""
        line = pair.target if side == "target" else pair.source
        starts = [match.start() for match in pattern.finditer(line)] if pattern else []
        self._lines[kind, side] += 1
        self._occurrences[kind, side] += max(1, len(starts))
        examples = self._examples.setdefault((kind, side), [])
        if len(examples) < self._max_examples:
            where = self._corpus.where(pair.line, None if side == "pair" else side)
            shown = _visible(line, starts[0] if starts else 0)
            if side == "pair":
                shown = f"{shown} | {_visible(pair.target, 0)}"
            examples.append(Example(where=where, excerpt=shown))

    def _findings(self) -> Iterator[Finding]:
        """Everything noted: first what is dropped, then what is kept, each in a fixed order."""
        rows = list(_kinds(self._cleaner.config))
        for kind, title, fate in sorted(rows, key=lambda row: row[2] != "dropped"):
            for side in _PLACES:
                if lines := self._lines[kind, side]:
                    yield Finding(
                        kind=kind,
                        title=title,
                        side=side,
                        lines=lines,
                        occurrences=self._occurrences[kind, side],
                        fate=fate,
                        examples=tuple(self._examples[kind, side]),
                    )


def _pair_kinds(matches: list[Match]) -> list[tuple[str, Place]]:
    """The matches as findings: a pair whose two sides read like each other is swapped."""
    kinds: list[tuple[str, Place]] = [(m.reason, m.side) for m in matches]
    languages = [kind for kind in kinds if kind[0] == "wrong_language"]
    if len(languages) == 2:
        kinds = [kind for kind in kinds if kind not in languages]
        kinds.append(("swapped", "pair"))
    return kinds


def _kinds(config: CleaningConfig) -> Iterator[tuple[str, str, str]]:
    """Every kind of finding: its name, its title and what training does with it."""
    for reason, title in REASONS.items():
        yield reason, title, "dropped" if config.drops(reason) else "kept"
    swapped = "dropped" if config.drops("wrong_language") else "kept"
    for kind, title in _PAIR_KINDS.items():
        yield kind, title, swapped if kind == "swapped" else "kept"
    for oddity in (*ODDITIES, NOT_COMPOSED):
        yield oddity.kind, oddity.title, oddity.fate


def _lengths(histogram: Counter[int]) -> Lengths:
    """Mean and quantiles of counted lengths (nearest rank); zeros for none."""
    total = histogram.total()
    if not total:
        return Lengths(mean=0.0, p50=0, p95=0, p99=0, max=0)
    lengths = sorted(histogram)

    def quantile(percent: int) -> int:
        rank, seen = -(-total * percent // 100), 0
        for length in lengths:
            seen += histogram[length]
            if seen >= rank:
                return length
        raise AssertionError("a rank is at most the total")

    mean = sum(length * count for length, count in histogram.items()) / total
    return Lengths(mean=mean, p50=quantile(50), p95=quantile(95), p99=quantile(99), max=lengths[-1])


def _visible(text: str, place: int) -> str:
    """A stretch of a text around a place, with what cannot be seen escaped."""
    start = max(0, min(place - _EXCERPT // 2, len(text) - _EXCERPT))
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text[start : start + _EXCERPT]
    )
    return f"{'…' * (start > 0)}{shown}{'…' * (start + _EXCERPT < len(text))}"


def _render(report: CheckReport) -> Iterator[str]:
    """The lines of the report."""
    yield f"Corpus   {report.name}"
    yield f"Pairs    {report.pairs:,}"
    for side, part in (("Source", report.source), ("Target", report.target)):
        scripts = f"{', '.join(part.scripts)} script" if part.scripts else "no letters"
        yield f"{side}   {scripts}, {part.different:,} different lines"
    yield f"Ratio    {report.target_per_source:.2f} target characters per source character (median)"
    yield from (f"Note     {count:,} {_NOTES.get(kind, kind)}" for kind, count in report.notes.items())
    yield ""
    yield f"{'':20}{'mean':>9}{'p50':>9}{'p95':>9}{'p99':>9}{'max':>9}"
    for side, part in (("source", report.source), ("target", report.target)):
        for unit, n in (("words", part.words), ("characters", part.characters)):
            yield f"{side:8}{unit:12}{n.mean:9,.1f}{n.p50:9,}{n.p95:9,}{n.p99:9,}{n.max:9,}"
    yield ""
    if report.dropped:
        yield f"Training keeps {report.kept:,} pairs and drops {report.pairs - report.kept:,}:"
        yield from (f"{count:10,}  {REASONS[reason]}" for reason, count in report.dropped.items())
    else:
        yield f"Training keeps all {report.kept:,} pairs."
    yield ""
    yield "Found, by lines:" if report.findings else "Found nothing odd."
    for finding in report.findings:
        yield from _render_finding(finding)


def _render_finding(finding: Finding) -> Iterator[str]:
    """A line for the finding and one for each example."""
    times = f", {finding.occurrences:,} times" if finding.occurrences > finding.lines else ""
    side = "" if finding.side == "pair" else f" in the {finding.side}"
    yield f"{finding.lines:10,}  {finding.title}{side}{times}: {finding.fate}"
    width = max((len(example.where) for example in finding.examples), default=0)
    yield from (f"{'':14}{example.where:{width}}  {example.excerpt}" for example in finding.examples)
