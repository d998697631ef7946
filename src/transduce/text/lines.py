r"""Files and streams to lines: the one place that knows where a line ends.

In: a path (plain, `.gz`, `.zst`) or a binary stream. Out: `str` lines without their ends, one by one.
Rule: only ``\n`` ends a line. One ``\r`` before it, and a byte-order mark at the start, are dropped;
everything else is content: U+2028, U+0085, a lone ``\r``, NUL, form feeds (TRAPS, users 27).
Does not know: pairs, languages, what a line means.
"""

from __future__ import annotations

import difflib
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import zstandard

from transduce.errors import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["COMPRESSED_SUFFIXES", "count_lines", "iter_lines", "open_bytes", "read_lines"]

COMPRESSED_SUFFIXES = (".gz", ".zst")

_BOM = b"\xef\xbb\xbf"
_BUFFER_SIZE = 1 << 16
# Compressed bytes handed to zstd at a time: one such block of a hostile file may unpack to 16 MiB.
_ZSTD_BLOCK = 512


def open_bytes(path: Path) -> BinaryIO:
    """Open a plain, `.gz` or `.zst` file for reading its content, all members or frames of it.

    Raises:
        DataError: the file is missing, a directory or not readable; the stream raises it too, at
            the `read` that meets damage (a truncated or corrupt archive).
    """
    try:
        file = path.open("rb", buffering=0)  # a pipe's lines must not wait in a buffer below ours
    except OSError as error:
        raise DataError(_cannot_open(path, error)) from error
    inner: _Readable = file
    if path.suffix == ".gz":
        inner = cast(_Readable, gzip.GzipFile(fileobj=file))
    elif path.suffix == ".zst":
        inner = _ZstdFrames(io.BufferedReader(file))
    return io.BufferedReader(_Checked(inner, file, path), _BUFFER_SIZE)


def iter_lines(
    stream: BinaryIO, name: str, *, repair: bool = False, notes: Counter[str] | None = None
) -> Iterator[str]:
    r"""Yield the lines of an open stream, each as soon as its ``\n`` has arrived.

    A last line without ``\n`` counts; a stream that ends in ``\n`` has no empty line after it.
    `name` stands in messages. With `repair`, bytes that are not UTF-8 become U+FFFD, and
    `notes["repaired"]` counts the lines where that happened.

    Raises:
        DataError: a line is not UTF-8 and `repair` is off.
    """
    for number, raw in enumerate(stream, 1):
        if number == 1 and raw.startswith(_BOM):
            raw = raw[len(_BOM) :]
            if not raw:
                return
        content = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            line = content.decode()
        except UnicodeDecodeError as error:
            if not repair:
                raise DataError(_not_utf8(name, number, content, error)) from None
            line = content.decode(errors="replace")
            if notes is not None:
                notes["repaired"] += 1
        yield line


def read_lines(path: Path, *, repair: bool = False, notes: Counter[str] | None = None) -> Iterator[str]:
    """Yield the lines of a file, as `open_bytes` and `iter_lines` do.

    Raises:
        DataError: the file cannot be read, or a line is not UTF-8 and `repair` is off.
    """
    with open_bytes(path) as stream:
        yield from iter_lines(stream, str(path), repair=repair, notes=notes)


def count_lines(path: Path) -> int:
    """Count the lines that `read_lines` would yield, without decoding them.

    Raises:
        DataError: the file cannot be read.
    """
    count, last = 0, b"\n"
    with open_bytes(path) as stream:
        start = stream.read(len(_BOM))
        block = b"" if start == _BOM else start
        while block or (block := stream.read(_BUFFER_SIZE)):
            count += block.count(b"\n")
            last = block[-1:]
            block = b""
    return count + (last != b"\n")


class _Readable(Protocol):
    """What `_Checked` needs of the stream below it."""

    def readinto(self, buffer: WriteableBuffer, /) -> int | None: ...


class _Checked(io.RawIOBase):
    """A raw stream whose read errors are `DataError`s that name the file."""

    def __init__(self, inner: _Readable, file: io.FileIO, path: Path) -> None:
        self._inner = inner
        self._file = file
        self._path = path

    def readable(self) -> bool:
        """Raw streams say so before a `BufferedReader` takes them."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill `buffer` as far as the stream gives bytes; 0 at its end."""
        try:
            return self._inner.readinto(buffer) or 0
        except EOFError as error:
            message = "is cut short: its compressed data end too early; copy or download it again"
            raise DataError(f"{self._path} {message}") from error
        except (OSError, zlib.error, zstandard.ZstdError) as error:
            raise DataError(
                f"{self._path} cannot be read ({error}): expected "
                f"{_KINDS.get(self._path.suffix, 'a readable file')}; copy or download it again"
            ) from error

    def close(self) -> None:
        """Close the file as well."""
        self._file.close()
        super().close()


_KINDS = {".gz": "whole gzip data, as its name says", ".zst": "whole zstd data, as its name says"}


class _ZstdFrames:
    """The content of all zstd frames of a file; unlike zstandard's own reader it notices a cut."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._compressed = b""
        self._content = memoryview(b"")

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill `buffer` with what is unpacked already, or unpack the next block.

        Raises:
            EOFError: the file ends inside a frame.
            zstandard.ZstdError: the bytes are not zstd data.
        """
        while not self._content:
            self._compressed = self._compressed or self._file.read(_ZSTD_BLOCK)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._unpack()
        target = memoryview(buffer)
        size = min(len(target), len(self._content))
        target[:size] = self._content[:size]
        self._content = self._content[size:]
        return size

    def _unpack(self) -> None:
        """Unpack the bytes at hand; at the end of a frame the rest waits for the next one."""
        self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
        self._content = memoryview(self._frame.decompress(self._compressed))
        self._compressed = self._frame.unused_data if self._frame.eof else b""
        if self._frame.eof:
            self._frame = None


def _cannot_open(path: Path, error: OSError) -> str:
    """Say why a path does not open, and what may have been meant."""
    if isinstance(error, FileNotFoundError):
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, siblings, n=1)
        hint = f"did you mean {path.parent / near[0]}?" if near else "check the path"
        return f"{path}: no such file; {hint}"
    if isinstance(error, IsADirectoryError):
        return f"{path} is a directory; expected a text file"
    return f"{path} cannot be opened ({error.strerror}); expected a readable text file"


def _not_utf8(name: str, number: int, content: bytes, error: UnicodeDecodeError) -> str:
    """Point at the first byte that is not UTF-8."""
    where = f"{name}:{number}: byte 0x{content[error.start]:02x} at column {error.start + 1}"
    if number == 1 and content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"{where} is not UTF-8; the file looks like UTF-16: convert it with iconv first"
    return (
        f"{where} (counted in bytes) is not UTF-8; convert the file with iconv, "
        "or pass --repair to replace what is not UTF-8 with U+FFFD"
    )
