"""Parallel text on disk to pairs: two text files, TSV, JSON lines, TMX, chosen by suffix.

In: one or two paths (each may end in `.gz` or `.zst`). Out: a `Corpus` of `Pair`s.
Contract 1: line N of both sides belongs together or the walk stops and says where it went wrong.
Does not know: cleaning, tokens, which language is which (only the names a caller gives).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from transduce.errors import DataError
from transduce.text.alignment import first_suspicious_line, sign_lines
from transduce.text.lines import COMPRESSED_SUFFIXES, open_bytes, read_lines
from transduce.text.pairs import Corpus, Pair, files_fingerprint, one_line
from transduce.text.tmx import TmxCorpus

__all__ = ["JsonLinesCorpus", "TsvCorpus", "TwoFileCorpus", "open_corpus"]

_TSV_SUFFIXES = (".tsv", ".tab")
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")


def open_corpus(
    source: Path,
    target: Path | None = None,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    columns: tuple[int, int] | None = None,
    repair: bool = False,
) -> Corpus:
    """Open parallel text; nothing is read before the first walk.

    Two paths are two text files, line by line. One path is read by its suffix: `.tsv` (by default
    exactly two columns, source then target; `columns` chooses others, counted from 1), `.jsonl`,
    or `.tmx`. The languages choose keys of a JSON `translation`, or units of a TMX file.

    Raises:
        DataError: a file is missing or a pipe, one path has no known suffix, or TMX comes without
            languages.
    """
    for path in (source, target):
        if path is not None and path.is_fifo():
            raise DataError(
                f"{path} is a pipe, but a corpus is read more than once; write it to a file first"
            )
        if path is not None:
            open_bytes(path).close()
    if target is not None:
        return TwoFileCorpus(source, target, repair=repair)
    suffix = _format_suffix(source)
    if suffix in _TSV_SUFFIXES:
        return TsvCorpus(source, columns, repair=repair)
    if suffix in _JSON_SUFFIXES:
        return JsonLinesCorpus(source, source_language, target_language, repair=repair)
    if suffix == ".tmx":
        return TmxCorpus(source, source_language, target_language)
    raise DataError(
        f"{source}: one file of pairs must end in .tsv, .jsonl or .tmx (then .gz or .zst); "
        "for two text files, give the target file as well"
    )


class TwoFileCorpus(Corpus):
    """Line N of one file translates line N of the other. Notes: `repaired` lines."""

    def __init__(self, source: Path, target: Path, *, repair: bool = False) -> None:
        super().__init__(f"{source.name} / {target.name}", (source, target))
        self._repair = repair

    def __iter__(self) -> Iterator[Pair]:
        self.notes.clear()
        source, target = (read_lines(file, repair=self._repair, notes=self.notes) for file in self.files)
        for line, (left, right) in enumerate(itertools.zip_longest(source, target), 1):
            if left is None or right is None:
                raise DataError(self._unequal())
            yield Pair(left, right, line)

    def fingerprint(self) -> str:
        """SHA-256 over both files and the choice to repair."""
        return files_fingerprint(self.files, {"format": "text", "repair": self._repair})

    def _unequal(self) -> str:
        """Both counts, and the first line that looks wrong, shown from both files."""
        source, target = (sign_lines(read_lines(f, repair=self._repair)) for f in self.files)
        counts = (
            f"{self.files[0]} has {len(source):,} lines, {self.files[1]} has {len(target):,}; "
            "expected line N of one to translate line N of the other"
        )
        if not len(source) or not len(target):
            return f"{counts}; check which file was cut short"
        line = first_suspicious_line(source, target)
        shown = (self._excerpt(file, line) for file in self.files)
        return (
            f"{counts}; they seem to part near line {line:,}: {' / '.join(shown)}; "
            "mend the files there, or align them again"
        )

    def _excerpt(self, file: Path, line: int) -> str:
        """The beginning of a file's line, quoted."""
        lines = read_lines(file, repair=self._repair)
        text = next(itertools.islice(lines, line - 1, None), None)
        if text is None:
            return "(no such line)"
        return repr(text if len(text) <= 40 else text[:39] + "…")


class TsvCorpus(Corpus):
    """One pair a line, in columns that a TAB separates; there is no quoting. Notes: `repaired`."""

    def __init__(self, file: Path, columns: tuple[int, int] | None = None, *, repair: bool = False) -> None:
        super().__init__(file.name, (file,))
        self._columns = columns
        self._repair = repair

    def __iter__(self) -> Iterator[Pair]:
        self.notes.clear()
        source, target = self._columns or (1, 2)
        expected = 2 if self._columns is None else None
        lines = read_lines(self.files[0], repair=self._repair, notes=self.notes)
        for number, line in enumerate(lines, 1):
            cells = line.split("\t")
            expected = expected or len(cells)
            if len(cells) != expected or max(source, target) > expected:
                raise DataError(self._wrong_columns(number, len(cells), expected))
            yield Pair(cells[source - 1], cells[target - 1], number)

    def fingerprint(self) -> str:
        """SHA-256 over the file, the columns and the choice to repair."""
        reading = {"format": "tsv", "columns": self._columns or (1, 2), "repair": self._repair}
        return files_fingerprint(self.files, reading)

    def _wrong_columns(self, number: int, found: int, expected: int) -> str:
        """Say how many columns were expected, and why."""
        where = f"{self.files[0]}:{number}: {found} column{'s' * (found != 1)}"
        if self._columns is None:
            return f"{where}, expected 2 (source TAB target); choose the two with columns="
        if max(self._columns) > found:
            return f"{where}, expected at least {max(self._columns)}, the highest one chosen"
        return f"{where}, expected {expected} as in line 1; a TAB inside a text must be a space"


class JsonLinesCorpus(Corpus):
    """One JSON object a line: `source` and `target`, or `translation` with languages as keys.

    Notes: `repaired` lines, and texts `joined` because a line end stood inside them.
    """

    def __init__(
        self,
        file: Path,
        source_language: str | None = None,
        target_language: str | None = None,
        *,
        repair: bool = False,
    ) -> None:
        super().__init__(file.name, (file,))
        self._languages = (source_language, target_language)
        self._repair = repair

    def __iter__(self) -> Iterator[Pair]:
        self.notes.clear()
        lines = read_lines(self.files[0], repair=self._repair, notes=self.notes)
        for number, line in enumerate(lines, 1):
            source, target = self._texts(line, f"{self.files[0]}:{number}")
            yield Pair(one_line(source, self.notes), one_line(target, self.notes), number)

    def fingerprint(self) -> str:
        """SHA-256 over the file, the languages and the choice to repair."""
        reading = {"format": "jsonl", "languages": self._languages, "repair": self._repair}
        return files_fingerprint(self.files, reading)

    def _texts(self, line: str, where: str) -> tuple[str, str]:
        """The two texts of one line.

        Raises:
            DataError: the line is not such an object.
        """
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}); expected one object a line") from None
        keys: tuple[str | None, str | None] = ("source", "target")
        if isinstance(record, dict) and "translation" in record:
            record, keys = record["translation"], self._languages
            if None in keys:
                known = ", ".join(sorted(record)) if isinstance(record, dict) else "none"
                raise DataError(
                    f"{where}: choose the languages of `translation` with source_language= and "
                    f"target_language=; this line has: {known}"
                )
        texts = [record.get(key) if isinstance(record, dict) else None for key in keys]
        if not (isinstance(texts[0], str) and isinstance(texts[1], str)):
            raise DataError(f"{where}: expected an object with the texts {keys[0]!r}, {keys[1]!r}")
        return texts[0], texts[1]


def _format_suffix(path: Path) -> str:
    """The suffix that says the format, below `.gz` or `.zst`, in lower case."""
    inner = path.with_suffix("") if path.suffix in COMPRESSED_SUFFIXES else path
    return inner.suffix.lower()
