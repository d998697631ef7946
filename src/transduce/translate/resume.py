"""What an interrupted translation left, and whether it may be continued.

While `OUTPUT` is being written, `OUTPUT.resume.json` beside it says of what: the model's files, the
settings, the input. It is removed at the end. So a translation that was killed at any moment is
known by that file, is not lost by running the command again, and is only ever continued as what it is.
Does not know: translators, formats.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from transduce import __version__
from transduce.errors import DataError
from transduce.files import file_sha256, write_atomic

__all__ = ["Record", "cut_to_whole_lines", "model_fingerprint", "sidecar"]

_NOT_THE_MODEL: Final = frozenset({"card.md"})


def sidecar(output: Path) -> Path:
    """The file that stands beside an unfinished output."""
    path = Path(os.path.abspath(output))  # noqa: PTH100 -- links stay; `.` gets its name
    return path.parent / f"{path.name}.resume.json"


def model_fingerprint(model: Path) -> str:
    """SHA-256 over all files of a model directory, or of the one in a run, but for its card."""
    directory = model / "model" if (model / "model").is_dir() else model
    total = hashlib.sha256()
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        if file.name not in _NOT_THE_MODEL:
            total.update(f"{file.relative_to(directory).as_posix()} {file_sha256(file)}\n".encode())
    return total.hexdigest()


class Record:
    """What an output is made of."""

    def __init__(self, models: Sequence[Path], settings: dict[str, Any]) -> None:
        """Take the models' fingerprints.

        Args:
            models: model directories, exports or finished runs; several are an ensemble.
            settings: whatever the output depends on, by name; values are compared as text.
        """
        self.facts: dict[str, Any] = {
            "version": ".".join(__version__.split(".")[:2]),
            "model": " ".join(map(model_fingerprint, models)),
            "settings": {name: str(value) for name, value in sorted(settings.items())},
        }

    def of(self, source: Path, **settings: Any) -> Record:
        """The same for an input file, whose content counts too, with further settings."""
        record = Record((), {})
        own = {name: str(value) for name, value in settings.items()}
        record.facts = {
            **self.facts,
            "settings": {**self.facts["settings"], **own},
            "input": file_sha256(source),
        }
        return record

    def begin(self, output: Path) -> None:
        """Write the sidecar; what stood in `output` must be gone by then."""
        write_atomic(sidecar(output), json.dumps(self.facts, ensure_ascii=False, indent=1) + "\n")

    def end(self, output: Path) -> None:
        """The output is whole: remove the sidecar."""
        sidecar(output).unlink(missing_ok=True)

    def check(self, output: Path) -> None:
        """Compare with what the sidecar says.

        Raises:
            DataError: there is none, it is damaged, or it tells of another model, input or setting.
        """
        file = sidecar(output)
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                f"{output} cannot be continued: {file.name}, which says how it was made, is not there; "
                "--overwrite begins anew"
            ) from None
        except (ValueError, OSError) as error:
            raise DataError(f"{file} cannot be read ({error}); --overwrite begins anew") from None
        different = _differences(found if isinstance(found, dict) else {}, self.facts)
        if different:
            raise DataError(
                f"{output} was begun differently ({'; '.join(different)}): give the same again, or "
                "--overwrite to begin anew"
            )


def cut_to_whole_lines(path: Path, most: int | None = None) -> int:
    """Cut off what follows the last line end of a file, or its `most`-th one, and count its lines."""
    lines, whole = 0, 0
    with path.open("rb+") as stream:
        for line in stream:
            if lines == most or not line.endswith(b"\n"):
                break
            lines += 1
            whole += len(line)
        if whole < path.stat().st_size:
            stream.truncate(whole)
            stream.flush()
            os.fsync(stream.fileno())
    return lines


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """What differs, in words."""
    words = {"version": "transduce's version", "model": "the model", "input": "the input's content"}
    different = [what for name, what in words.items() if found.get(name) != wanted.get(name)]
    old, new = found.get("settings"), wanted["settings"]
    old = old if isinstance(old, dict) else {}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            different.append(f"{name} was {old.get(name, 'not given')}, is {new.get(name, 'not given')}")
    return different
