"""Files that are whole or not there: atomic writes and fingerprints.

Every file this package writes for later use goes through here, so that a kill at any moment
leaves the old file or the new one, never half of one (TRAPS 54).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_directory", "atomic_file", "clear_leftovers", "file_sha256", "write_atomic"]

_LEFTOVER = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.(?P<kind>tmp|old)")  # as `tempfile` names them


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; on success flush it to disk and rename it to `path`.

    Raises:
        OSError: the directory cannot be written, or the disk is full; `path` is then unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a whole small file atomically (text as UTF-8)."""
    with atomic_file(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Make a temporary directory beside `path`; on success flush it and rename it to `path`.

    An existing `path` is replaced: moved aside first and deleted after the rename.

    Raises:
        OSError: the parent cannot be written, or the disk is full; `path` is then unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"))
    try:
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                with file.open("rb+") as stream:
                    os.fsync(stream.fileno())
            else:
                _sync_directory(file)
        _sync_directory(temporary)
        if path.exists():
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".old"))
            path.rename(old / path.name)
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_directory(path.parent)


def clear_leftovers(directory: Path) -> None:
    """Remove what writes that were killed left behind, at any depth under `directory`.

    A directory that had been moved aside, with nothing yet in its place, comes back. Nobody else may
    be writing there meanwhile.
    """
    for path in list(directory.rglob(".*")):
        match = _LEFTOVER.fullmatch(path.name)
        if match is None:
            continue
        aside, place = path / match["name"], path.with_name(match["name"])
        if match["kind"] == "old" and aside.exists() and not place.exists():
            aside.rename(place)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # its directory may have been removed before


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _umask() -> int:
    """The process's umask (temporary files are made private; finished ones follow the umask)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_directory(path: Path) -> None:
    """Flush a directory's entries, where the system lets a directory be opened."""
    if os.name == "nt":  # Windows cannot open a directory for fsync; renames are journaled there.
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
