"""One text's translation, and what is known about it: scores, tokens, alignments, flags.

In:  what the search found, or the translations of a long text's pieces. Out: `Translation`.
Does not know: engines, how it was found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from transduce.translate.alignment import pharaoh, word_alignment, words
from transduce.translate.engine import Alignment
from transduce.translate.quality import is_copied, word_confidences
from transduce.translate.requirements import Needs, Requirements
from transduce.translate.split import Segment, join

__all__ = ["Translation", "checked", "empty", "joined"]


@dataclass(frozen=True, kw_only=True)
class Translation:
    """One text's translation, and what is known about it."""

    text: str
    score: float
    """What the search compared by: log-probability over the length penalty (mean over pieces)."""
    confidence: float
    """Geometric mean of the tokens' probabilities, 0 to 1."""
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    """One for each of `tokens`, and one for each end symbol; empty without `details`."""
    token_confidence: tuple[float, ...] = ()
    """The model's probability of each of `tokens`, 0 to 1; empty without `details`."""
    alignment: Alignment = ()
    """(source token, target token) pairs, when asked for."""
    flags: tuple[str, ...] = ()
    """`truncated`: cut at the length limit. `repeated`: a run of tokens stands several times in a
    row. `copied`: the source again. `length`: one side has over three times as many tokens as the
    other, and ten more. `empty`: no text for a source that has some. `split`: too long for one pass, or
    of several lines, and translated in pieces. `glossary`: see `missing`. `placeholders`: see `lost` and
    `added`."""
    missing: tuple[str, ...] = ()
    """The glossary's target phrases that should be in the text and are not."""
    lost: tuple[str, ...] = ()
    """Protected spans of the source that the text lacks."""
    added: tuple[str, ...] = ()
    """Spans that the text has and the source has not, or not as often."""
    alternatives: tuple[Translation, ...] = ()
    """The next best with other texts, with `n_best` > 1 (not for texts that were split)."""

    @property
    def word_confidence(self) -> tuple[tuple[str, float], ...]:
        """Each word of the text with the geometric mean of its tokens' probabilities; needs `details`."""
        if not self.token_confidence:
            return ()
        return tuple(word_confidences(self.tokens, self.token_confidence))

    @property
    def word_alignment(self) -> Alignment:
        """(source word, target word) pairs, when alignments were asked for (see alignment.py)."""
        return word_alignment(self.alignment, words(self.source_tokens), words(self.tokens))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields: dict[str, Any] = {
            "text": self.text,
            "score": round(self.score, 5),
            "confidence": round(self.confidence, 5),
            "source_tokens": list(self.source_tokens),
            "tokens": list(self.tokens),
            "token_confidence": [round(value, 5) for value in self.token_confidence],
            "words": [word for word, _ in self.word_confidence],
            "word_confidence": [round(value, 5) for _, value in self.word_confidence],
            "flags": list(self.flags),
        }
        for name in ("missing", "lost", "added"):
            if values := getattr(self, name):
                fields[name] = list(values)
        if self.alignment:
            fields["alignment"] = pharaoh(self.alignment)
            fields["source_words"] = [word.text for word in words(self.source_tokens)]
            fields["word_alignment"] = pharaoh(self.word_alignment)
        if self.alternatives:
            fields["alternatives"] = [
                {"text": other.text, "score": round(other.score, 5), "flags": list(other.flags)}
                for other in self.alternatives
            ]
        return fields


def empty() -> Translation:
    """Nothing in, nothing out."""
    return Translation(text="", score=0.0, confidence=1.0, source_tokens=(), tokens=(), token_log_probs=())


def checked(translation: Translation, needs: Needs, requirements: Requirements) -> Translation:
    """Say in the translation what it lacks of what it must hold."""
    missing = needs.missing_terms(translation.text)
    lost, added = requirements.difference(needs, translation.text)
    raised = [name for name, found in (("glossary", missing), ("placeholders", lost + added)) if found]
    if not raised:
        return translation
    flags = (*translation.flags, *raised)
    return replace(translation, missing=missing, lost=lost, added=added, flags=flags)


def joined(
    source: str, parts: Sequence[Translation], segments: Sequence[Segment], requirements: Requirements
) -> Translation:
    """One translation out of the pieces of a text; of a single one with its white space around it."""
    busy = [i for i, segment in enumerate(segments) if segment.text.strip()]
    if len(busy) == 1:
        return _framed(parts[busy[0]], segments, busy[0])
    source_tokens: list[str] = []
    tokens: list[str] = []
    alignment: list[tuple[int, int]] = []
    for part in parts:
        alignment += [(s + len(source_tokens), t + len(tokens)) for s, t in part.alignment]
        source_tokens += part.source_tokens
        tokens += part.tokens
    log_probs = tuple(value for part in parts for value in part.token_log_probs)
    text = join([part.text for part in parts], segments)
    flags = {flag for part in parts for flag in part.flags} | {"split"}
    flags -= {"copied", "glossary", "placeholders"}  # the whole text's own are found below
    if is_copied(source, text):
        flags.add("copied")
    translation = Translation(
        text=text,
        score=sum(part.score for part in parts) / len(parts),
        confidence=math.exp(_mean_log_prob(parts)),
        source_tokens=tuple(source_tokens),
        tokens=tuple(tokens),
        token_log_probs=log_probs,
        token_confidence=tuple(value for part in parts for value in part.token_confidence),
        alignment=tuple(alignment),
        flags=tuple(sorted(flags)),
    )
    return checked(translation, requirements.of(source), requirements)


def _framed(translation: Translation, segments: Sequence[Segment], index: int) -> Translation:
    """The only piece that has text, with all that stands around it."""
    lead = "".join(segment.text + segment.separator for segment in segments[:index])
    trail = segments[index].separator
    trail += "".join(segment.text + segment.separator for segment in segments[index + 1 :])
    others = tuple(replace(other, text=f"{lead}{other.text}{trail}") for other in translation.alternatives)
    return replace(translation, text=f"{lead}{translation.text}{trail}", alternatives=others)


def _mean_log_prob(parts: Sequence[Translation]) -> float:
    """Of all parts' tokens and end symbols, from each part's own mean."""
    busy = [part for part in parts if part.source_tokens and part.confidence > 0]
    counts = [len(part.tokens) + ("truncated" not in part.flags) for part in busy]
    total = sum(count * math.log(part.confidence) for count, part in zip(counts, busy, strict=True))
    return total / max(1, sum(counts))
