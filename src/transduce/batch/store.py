"""Token ids on disk, memory-mapped: made once, read without loading the corpus (DESIGN, "What lies on disk").

    source.tokens, target.tokens     all ids end to end, uint16 or uint32, no start or end symbols
    source.offsets, target.offsets   int64, one more than there are rows: row i is tokens[o[i]:o[i+1]]
    lines                            int64, of each pair its line in the text (where they were given)
    store.json                       schema, fingerprint of everything the ids depend on, counts

A store may hold several copies of the corpus, each with its own subword sampling; row
c · num_pairs + i is pair i of copy c. Knows: ids, files. Does not know: text, models, losses.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from transduce.errors import DataError
from transduce.files import atomic_directory, written_or

__all__ = ["StoreInfo", "TokenStore", "build_store", "stored_fingerprint"]

_SCHEMA = 1
_SIDES = ("source", "target")
_FLUSH_ROWS = 20_000  # rows kept in memory before they are written


@dataclass(frozen=True)
class StoreInfo:
    """What `store.json` says."""

    schema: int
    fingerprint: str
    """Of text, cleaning and tokenizer: when it is unchanged, the store is still right."""
    num_pairs: int
    num_copies: int
    num_source_tokens: int
    num_target_tokens: int
    dtype: str


class TokenStore:
    """Random access to the ids of a stored corpus; nothing is read before it is asked for."""

    def __init__(self, directory: Path, max_tokens: int | None = None) -> None:
        """Open a store.

        Args:
            directory: of the store.
            max_tokens: rows are cut there, as they are read; None means they are read whole.

        Raises:
            DataError: the directory is no store, is of a newer schema, or is incomplete.
        """
        self.directory = directory
        self._max_tokens = max_tokens if max_tokens is not None else np.iinfo(np.int32).max
        self.info = _read_info(directory)
        rows = self.info.num_pairs * self.info.num_copies
        self._tokens: dict[str, NDArray[Any]] = {}
        self._offsets: dict[str, NDArray[np.int64]] = {}
        for side in _SIDES:
            self._tokens[side] = _map(directory / f"{side}.tokens", self.info.dtype)
            self._offsets[side] = _map(directory / f"{side}.offsets", "int64")
            if len(self._offsets[side]) != rows + 1 or self._offsets[side][-1] != len(self._tokens[side]):
                raise DataError(
                    f"{directory}: the token store is damaged ({side} does not have {rows} rows); delete the "
                    f"directory and run the same command again to rebuild it"
                )

    def __len__(self) -> int:
        """Pairs of the corpus (of one copy)."""
        return self.info.num_pairs

    def lines(self, indices: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Where in the text the pairs of several rows stand; None when the store was not told."""
        file = self.directory / "lines"
        return _map(file, "int64")[indices % len(self)] if file.exists() else None

    def lengths(self, side: str, copy: int = 0) -> NDArray[np.int32]:
        """Tokens of each row of one copy, the end symbol not counted."""
        first = copy * len(self)
        lengths = np.diff(self._offsets[side][first : first + len(self) + 1])
        return np.minimum(lengths, self._max_tokens).astype(np.int32)

    def lengths_of(self, side: str, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens of several rows, the end symbol not counted."""
        offsets = self._offsets[side]
        lengths: NDArray[np.int64] = np.minimum(offsets[indices + 1] - offsets[indices], self._max_tokens)
        return lengths

    def num_longer(self, max_tokens: int) -> int:
        """Pairs (of copy 0) with more tokens than that on either side."""
        lengths = np.maximum(self.lengths("source"), self.lengths("target"))
        return int((lengths > max_tokens).sum())

    def cut_at(self, max_tokens: int) -> TokenStore:
        """The same store, with rows cut at `max_tokens` as they are read."""
        return TokenStore(self.directory, max_tokens)

    def rows(self, side: str, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids of several rows end to end, and the length of each row."""
        starts, lengths = self._offsets[side][indices], self.lengths_of(side, indices)
        ends = np.cumsum(lengths)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return self._tokens[side][np.repeat(starts, lengths) + within].astype(np.int64), lengths


def build_store(
    directory: Path,
    pairs: Iterable[tuple[list[int], list[int]]],
    *,
    vocab_size: int,
    fingerprint: str,
    num_copies: int = 1,
    lines: NDArray[np.int64] | None = None,
) -> StoreInfo:
    """Write a store in one pass, in constant memory; it appears whole or not at all.

    Args:
        directory: replaced when it exists.
        pairs: ids without start and end symbols; all pairs of copy 0, then of copy 1, …
        vocab_size: the larger of both, which decides the number form.
        fingerprint: see `StoreInfo`.
        num_copies: how many copies `pairs` holds.
        lines: of each pair its line in the text, for messages.

    Raises:
        DataError: there are no pairs, or their number is no multiple of `num_copies`; or the directory
            cannot be written, or the disk is full: what stood there is then unchanged.
    """
    dtype = "uint16" if vocab_size <= 1 << 16 else "uint32"
    with (
        written_or(DataError, f"the token store {directory} could not be written"),
        atomic_directory(directory) as temporary,
    ):
        with (
            _SideWriter(temporary, "source", dtype) as source,
            _SideWriter(temporary, "target", dtype) as target,
        ):
            for source_ids, target_ids in pairs:
                source.add(source_ids)
                target.add(target_ids)
        rows = source.num_rows
        if rows == 0:
            raise DataError("no pair is left to train on: run `transduce check` on the files to see why")
        if rows % num_copies:
            raise DataError(
                f"{rows} rows are no multiple of {num_copies} copies: did the text change meanwhile?"
            )
        info = StoreInfo(
            schema=_SCHEMA,
            fingerprint=fingerprint,
            num_pairs=rows // num_copies,
            num_copies=num_copies,
            num_source_tokens=source.num_tokens,
            num_target_tokens=target.num_tokens,
            dtype=dtype,
        )
        if lines is not None:
            (temporary / "lines").write_bytes(lines.astype(np.int64).tobytes())
        (temporary / "store.json").write_text(json.dumps(asdict(info), indent=2) + "\n", encoding="utf-8")
    return info


def stored_fingerprint(directory: Path) -> str | None:
    """The fingerprint of the store in `directory`; None when there is no readable store."""
    try:
        return _read_info(directory).fingerprint
    except DataError:
        return None


class _SideWriter:
    """Appends the rows of one side to its two files."""

    def __init__(self, directory: Path, side: str, dtype: str) -> None:
        self._dtype = dtype
        self._tokens: BinaryIO = (directory / f"{side}.tokens").open("wb")
        self._offsets: BinaryIO = (directory / f"{side}.offsets").open("wb")
        self._rows: list[list[int]] = []
        self.num_rows = 0
        self.num_tokens = 0

    def __enter__(self) -> _SideWriter:
        self._offsets.write(np.zeros(1, np.int64).tobytes())
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with contextlib.ExitStack() as stack:
            if kind is not None:  # the disk may be full, and closing tries to write once more
                stack.enter_context(contextlib.suppress(OSError))
            stack.callback(self._tokens.close)
            stack.callback(self._offsets.close)
            if kind is None:
                self._flush()

    def add(self, ids: list[int]) -> None:
        """One row more."""
        self._rows.append(ids)
        self.num_rows += 1
        if len(self._rows) >= _FLUSH_ROWS:
            self._flush()

    def _flush(self) -> None:
        lengths = np.fromiter((len(row) for row in self._rows), np.int64, len(self._rows))
        flat = np.fromiter((i for row in self._rows for i in row), self._dtype, int(lengths.sum()))
        self._tokens.write(flat.tobytes())
        self._offsets.write((self.num_tokens + np.cumsum(lengths)).tobytes())
        self.num_tokens += len(flat)
        self._rows.clear()


def _read_info(directory: Path) -> StoreInfo:
    """Read and check `store.json`."""
    file = directory / "store.json"
    try:
        info = StoreInfo(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{directory} is not a token store: {file.name} cannot be read ({error})") from error
    if info.schema > _SCHEMA:
        raise DataError(
            f"{file}: schema {info.schema} is newer than this version reads ({_SCHEMA}): upgrade transduce"
        )
    return info


def _map(file: Path, dtype: str) -> NDArray[Any]:
    """A file as a read-only array (an empty file cannot be mapped)."""
    try:
        if file.stat().st_size == 0:
            return np.empty(0, dtype)
        return np.memmap(file, dtype, mode="r")
    except OSError as error:
        raise DataError(
            f"the token store is incomplete: {error}; delete {file.parent} and run again"
        ) from error
