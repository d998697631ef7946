"""Files that are whole or not there: atomic writes and fingerprints.

Every file this package writes for later use goes through here, so that a kill at any moment
leaves the old file or the new one, never half of one (TRAPS 54).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from transduce.errors import TransduceError

__all__ = [
    "atomic_directory",
    "atomic_file",
    "clear_leftovers",
    "file_sha256",
    "what_to_do",
    "write_atomic",
    "written_or",
]

_LEFTOVER = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.(?P<kind>tmp|old)")  # as `tempfile` names them
_REMEDIES = {
    errno.ENOSPC: "the disk is full; make room and run the same command again",
    errno.EDQUOT: "your share of the disk is full; make room and run the same command again",
    errno.EFBIG: "a file may not grow so large here; raise the limit and run the same command again",
    errno.EACCES: "no permission to write there; change it, or choose another directory",
    errno.EPERM: "no permission to write there; change it, or choose another directory",
    errno.EROFS: "that disk can only be read; choose another directory",
    errno.ENOTDIR: "a file stands where a directory is needed; move it away, or choose another directory",
    errno.EEXIST: "a file stands where a directory is needed; move it away, or choose another directory",
    errno.EISDIR: "a directory stands where a file is needed; move it away, or choose another directory",
}


def what_to_do(error: OSError) -> str:
    """What is wrong with a place that cannot be written, and what to do; for the end of a message."""
    known = _REMEDIES.get(error.errno or 0)
    return known or f"{error.strerror or error}; mend it and run the same command again"


@contextlib.contextmanager
def written_or(kind: type[TransduceError], what: str) -> Iterator[None]:
    """Turn an `OSError` of writing into the package's own: `what`, where, and what to do.

    Raises:
        TransduceError: of the given kind.
    """
    try:
        yield
    except OSError as error:
        file = Path(str(error.filename or ""))
        known = not error.filename or str(file) in what or str(file.parent) in what
        where = "" if known else f" ({file})"
        raise kind(f"{what}{where}: {what_to_do(error)}") from error


@contextlib.contextmanager
def atomic_file(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; on success flush it to disk and rename it to `path`.

    Args:
        path: replaced when it exists.
        mode: the file's permissions; None follows the umask.

    Raises:
        OSError: the directory cannot be written, or the disk is full; `path` is then unchanged.
    """
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(0o666 & ~_umask() if mode is None else mode)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)


def write_atomic(path: Path, content: bytes | str, mode: int | None = None) -> None:
    """Write a whole small file atomically (text as UTF-8); `mode` as for `atomic_file`."""
    with atomic_file(path, mode) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Make a temporary directory beside `path`; on success flush it and rename it to `path`.

    An existing `path` is replaced: moved aside first and deleted after the rename. Files get the permissions
    of the umask, also where a library would keep them from everybody else (safetensors does).

    Raises:
        OSError: the parent cannot be written, or the disk is full; `path` is then unchanged.
    """
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"))
        try:
            temporary.chmod(0o777 & ~_umask())
            yield temporary
            for file in sorted(temporary.rglob("*")):
                if file.is_file():
                    file.chmod(0o666 & ~_umask())
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


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let an error of writing name `path`: the system names the temporary file, or none on a full disk."""
    try:
        yield
    except OSError as error:
        hidden = str(path.parent / f".{path.name}.")
        if error.errno is None:  # not the system's
            raise
        if error.filename is None or error.filename2 is not None or str(error.filename).startswith(hidden):
            error.filename, error.filename2 = str(path), None
        raise


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
