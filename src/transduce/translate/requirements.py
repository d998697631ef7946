"""What a translation must hold: the glossary's terms and the protected spans of its source.

In:  a source text. Out: phrases for the search; and for a translation, what it lacks.
Does not know: engines, beams.

A term that is a part of another one ("Licht" in "Licht aus") must come once more for each time the
other one does: the occurrences inside it are not its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from transduce.search.phrases import Phrase
from transduce.translate.glossary import Glossary
from transduce.translate.protect import Difference, Protection, Span, compare, find_spans
from transduce.translate.spelling import Edges, Speller
from transduce.translate.words import occurrences, plain

__all__ = ["Needs", "Requirements", "requirements_of"]


@dataclass(frozen=True)
class Needs:
    """What the translation of one text must hold."""

    terms: Counter[str] = field(default_factory=Counter)
    spans: tuple[Span, ...] = ()

    def missing_terms(self, translation: str) -> tuple[str, ...]:
        """Return the glossary's target phrases that a translation lacks, each as often as it does."""
        if not self.terms:
            return ()
        text = plain(translation)
        needed = _with_parts((term, count, "words") for term, count in self.terms.items())
        return tuple(
            term
            for (term, _), count in needed.items()
            for _ in range(count - sum(1 for _ in occurrences(term, text)))
        )


class Requirements:
    """The glossary and the protection of one call."""

    def __init__(self, glossary: Glossary | None = None, protection: Protection | None = None) -> None:
        self._glossary, self._protection = glossary, protection

    @property
    def forces(self) -> bool:
        """Whether the search has to write anything."""
        return self._glossary is not None or (self._protection is not None and self._protection.force)

    def of(self, source: str) -> Needs:
        """Return what the translation of a text must hold."""
        spans = find_spans(source, self._protection) if self._protection is not None else ()
        terms = self._glossary.needed(source, spans) if self._glossary is not None else Counter()
        return Needs(terms, spans)

    def phrases(self, needs: Needs, speller: Speller) -> list[Phrase]:
        """Return what the search must write; what the vocabulary cannot spell is left out."""
        wanted: list[_Wanted] = [(term, count, "words") for term, count in needs.terms.items()]
        if self._protection is not None and self._protection.force:
            spans = Counter((span.text, span.apart) for span in needs.spans if span.text.strip())
            wanted += [(text, count, "apart" if apart else "any") for (text, apart), count in spans.items()]
        found = (
            speller.phrase(text, count, edges=edges) for (text, edges), count in _with_parts(wanted).items()
        )
        return [phrase for phrase in found if phrase is not None]

    def difference(self, needs: Needs, translation: str) -> Difference:
        """Return which spans a translation lost, and which it has too many of."""
        if self._protection is None:
            return Difference((), ())
        return compare(needs.spans, translation, self._protection)


_Wanted: TypeAlias = tuple[str, int, Edges]


def _with_parts(wanted: Iterable[_Wanted]) -> Counter[tuple[str, Edges]]:
    """Return how often each (phrase, edges) must be found, occurrences inside others counted."""
    own = list(wanted)
    total: Counter[tuple[str, Edges]] = Counter()
    for text, count, edges in own:
        total[text, edges] += count
        for other, times, _ in own:
            if other != text:
                inside = occurrences(text, other, whole_words=edges != "any")
                total[text, edges] += times * sum(1 for _ in inside)
    return total


def requirements_of(
    glossary: Glossary | Mapping[str, str] | None, protect: Protection | bool
) -> Requirements:
    """What a call asks for, in the form that the rest of this room knows."""
    if glossary is not None and not isinstance(glossary, Glossary):
        glossary = Glossary(glossary)
    if isinstance(protect, bool):
        return Requirements(glossary, Protection() if protect else None)
    return Requirements(glossary, protect)
