"""A glossary: how certain phrases of the source must be translated.

In:  entries, source phrase and target phrase. Out: for a text, the target phrases that its translation
     must hold, and how often.
Does not know: tokenizers, models, how a search is made to write them.

The rules, which the documentation repeats:

- An entry applies where its source phrase stands as whole words (`words.py`), as often as it stands.
- One written in lower case applies whatever the case in the text ("Light switch", "LIGHT SWITCH"); one
  with a capital applies only as written ("Polish" is not "polish").
- Runs of white space in phrase and text count as one space.
- Where phrases overlap in the text the longest wins; of equally long ones the first in the text.
- The target phrase is written exactly as it stands in the glossary.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import DataError
from transduce.text.lines import read_lines
from transduce.translate.protect import Span
from transduce.translate.words import has_edge, plain

__all__ = ["Glossary"]

_KEY = 3  # characters by which entries are looked up
_BLANK = "\ufffc"  # stands for what is not to be read: no letter, no space


@dataclass(frozen=True)
class _Entry:
    source: str
    target: str
    any_case: bool


class Glossary:
    """Source phrases and their translations. Looking one text up costs little, however many there are."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        """Take the entries.

        Raises:
            DataError: a phrase is blank, or one source phrase has two translations.
        """
        self._entries: dict[str, list[_Entry]] = defaultdict(list)
        seen: dict[str, str] = {}
        for written, translation in entries.items():
            source, target = plain(written), plain(translation)
            if not source or not target:
                raise DataError(
                    f"the glossary entry {written!r} → {translation!r} is blank on one side: "
                    "write both phrases, or leave the entry out"
                )
            if source in seen and seen[source] != target:
                raise DataError(
                    f"the glossary translates {source!r} as {seen[source]!r} and as {target!r}: "
                    "keep one of them"
                )
            if source not in seen:
                seen[source] = target
                entry = _Entry(source, target, any_case=source == _lower(source))
                self._entries[_lower(source)[:_KEY]].append(entry)

    @classmethod
    def load(cls, path: Path) -> Glossary:
        """Read lines `source TAB target` (UTF-8; `.gz` and `.zst` are unpacked; blank lines are passed over).

        Raises:
            DataError: the file cannot be read, a line has not two columns, or the entries contradict
                each other.
        """
        entries: dict[str, str] = {}
        for number, line in enumerate(read_lines(path), 1):
            columns = [plain(column) for column in line.split("\t")]
            if not any(columns):
                continue
            if len(columns) != 2 or not all(columns):
                raise DataError(
                    f"{path}:{number} is {line!r}, expected two columns: source phrase, a tab, target phrase"
                )
            source, target = columns
            if entries.setdefault(source, target) != target:
                raise DataError(
                    f"{path}:{number} translates {source!r} as {target!r}, an earlier line as "
                    f"{entries[source]!r}: keep one of them"
                )
        return cls(entries)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def needed(self, text: str, spans: Sequence[Span] = ()) -> Counter[str]:
        """Return the target phrases that a translation of `text` must hold, and how often each.

        Args:
            text: the source.
            spans: parts of it that are not translated, in order: nothing is looked up in them.
        """
        text = plain(_without(text, spans))
        folded = _lower(text)
        found = []
        for start in range(len(text)):
            if has_edge(text[start - 1 : start], text[start]):
                for entry in self._starting(text, folded, start):
                    found.append((-len(entry.source), start, entry))
        taken: set[int] = set()
        needed: Counter[str] = Counter()
        for length, start, entry in sorted(found, key=lambda match: match[:2]):
            place = range(start, start - length)
            if taken.isdisjoint(place):
                taken.update(place)
                needed[entry.target] += 1
        return needed

    def _starting(self, text: str, folded: str, start: int) -> Iterable[_Entry]:
        """Return the entries whose phrase begins at `start`, first those that ask for their own case."""
        found = []
        for key in {folded[start : start + size] for size in range(1, _KEY + 1)}:
            for entry in self._entries.get(key, ()):
                end = start + len(entry.source)
                whole = folded if entry.any_case else text
                if whole.startswith(entry.source, start) and has_edge(text[end - 1], text[end : end + 1]):
                    found.append(entry)
        return sorted(found, key=lambda entry: entry.any_case)


def _without(text: str, spans: Sequence[Span]) -> str:
    for span in reversed(spans):
        text = text[: span.start] + _BLANK * (span.end - span.start) + text[span.end :]
    return text


def _lower(text: str) -> str:
    """Lower case, character by character, so that places stay where they are."""
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)
