"""What a corpus is: pairs of lines that can be walked again and again, and say where they stand.

In: nothing. Out: `Pair`, the `Corpus` base class, and `MemoryCorpus` for text already in memory.
Does not know: files' formats (`corpus.py`, `tmx.py`), what is wrong with a pair (`cleaning.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from transduce.files import file_sha256
from transduce.text.lines import open_bytes

__all__ = ["Corpus", "MemoryCorpus", "Pair", "Side", "files_fingerprint", "one_line"]

Side = Literal["source", "target"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A source line, the target line that translates it, and their number in the corpus."""

    source: str
    target: str
    line: int
    """Counted from 1: the line of a text file, the unit of a TMX file."""


class Corpus(ABC):
    """Pairs in order. Iterating twice reads twice; memory does not grow with the corpus."""

    _unit: ClassVar[str] = ""
    """What stands before a pair's number, where it does not count lines."""

    def __init__(self, name: str, files: Sequence[Path] = ()) -> None:
        self.name = name
        """What messages call the corpus."""
        self.files = tuple(files)
        """The files it is read from, if any."""
        self.notes: Counter[str] = Counter()
        """What the latest walk had to mend or pass over, by kind; each reader says its kinds."""

    @abstractmethod
    def __iter__(self) -> Iterator[Pair]:
        """Walk the pairs from the first.

        Raises:
            DataError: the files cannot be read, or are not what they should be.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 over the files' content and over the way they are read.

        Raises:
            DataError: a file cannot be read.
        """

    def where(self, line: int, side: Side | None = None) -> str:
        """Name a pair's place, or one side's, as `file:line`."""
        names = [str(file) for file in self.files]
        if len({Path(name).name for name in names}) == len(names):
            names = [Path(name).name for name in names]
        if len(names) == 2 and side is not None:
            names = [names[0 if side == "source" else 1]]
        return " / ".join(f"{name}:{self._unit}{line}" for name in names or [self.name])


class MemoryCorpus(Corpus):
    """Pairs that are in memory already: for tests, the quickstart and short experiments."""

    def __init__(self, pairs: Iterable[tuple[str, str]], name: str = "memory") -> None:
        super().__init__(name)
        self._pairs = [Pair(source, target, n) for n, (source, target) in enumerate(pairs, 1)]

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def fingerprint(self) -> str:
        """SHA-256 over the pairs."""
        digest = hashlib.sha256()
        for pair in self._pairs:
            digest.update(json.dumps([pair.source, pair.target]).encode())
        return digest.hexdigest()


def files_fingerprint(files: Sequence[Path], reading: dict[str, object]) -> str:
    """SHA-256 over the files' bytes and the options that they are read with.

    Raises:
        DataError: a file cannot be read.
    """
    for file in files:
        open_bytes(file).close()
    digests = [file_sha256(file) for file in files]
    return hashlib.sha256(json.dumps([digests, reading], sort_keys=True).encode()).hexdigest()


_LINE_END = re.compile("\r?\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


def one_line(text: str, notes: Counter[str]) -> str:
    r"""Make a line of text that came from inside a JSON string or a TMX segment.

    Line ends become spaces (`notes["joined"]`), and lone surrogates, which only JSON's ``\ud800``
    can bring in, become U+FFFD (`notes["repaired"]`).
    """
    if "\n" in text:
        text = _LINE_END.sub(" ", text)
        notes["joined"] += 1
    if not text.isascii() and _SURROGATE.search(text):
        text = _SURROGATE.sub("\ufffd", text)
        notes["repaired"] += 1
    return text
