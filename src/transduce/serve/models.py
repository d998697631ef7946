"""One model of a server: what it says of itself unloaded, the version that serves, and what is on disk.

In:  a model directory. Out: `Loaded`, a translator that has translated once; or why there is none.
Does not know: HTTP, other models, who asks. Nothing here needs torch if the model has an export.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from transduce.errors import ModelError, TransduceError
from transduce.serve.settings import ServeSettings
from transduce.translate.engine import ParallelEngine
from transduce.translate.exported import EXPORT_DIRECTORY, usable_export
from transduce.translate.runtime import ComputeType, Runtime
from transduce.translate.threads import available_threads
from transduce.translate.translator import EngineName, Translator

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Fingerprint", "Loaded", "ServedModel"]

Fingerprint: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""Name, bytes, time of change (ns) and inode of each file that makes up a model."""

_EXPORTED = ("auto", "ctranslate2")
_FILES = ("tokenizer.model", "source.model", "target.model", "recipe.toml", "model.safetensors")


@dataclass(eq=False)
class Loaded:
    """One version of a model, ready; it lives as long as a request needs it."""

    translator: Translator
    fingerprint: Fingerprint
    num_bytes: int
    """Of its weights in memory, about."""
    at: float = field(default_factory=time.time)
    """When it was loaded: seconds since 1970."""
    in_use: int = 0
    """Requests under way."""

    @property
    def parallel(self) -> ParallelEngine | None:
        """Its engine, if that takes several calls at once."""
        engine = self.translator.engine
        return engine if isinstance(engine, ParallelEngine) else None


class ServedModel:
    """A model directory on duty."""

    def __init__(self, path: Path, settings: ServeSettings) -> None:
        """Read what the model says of itself; its weights stay where they are.

        Raises:
            ModelError: there is no model, or it cannot be read.
        """
        self.path = path
        self.name = _name(path)
        self._engine = cast(EngineName, settings.engine)
        self._runtime = Runtime(
            # All of them, however busy the machine is at the start: the queue sees later what pays (pace.py).
            threads=settings.threads or available_threads(),
            compute_type=cast(ComputeType, settings.compute_type),
            batch_tokens=settings.batch_tokens,
        )
        self._search = dict(settings.search)
        self.source, self.target = self._languages()
        self.loaded: Loaded | None = None
        self.problem = ""
        """Why what is on disk does not serve."""
        self.last_used = 0.0

    @property
    def pair(self) -> str:
        """Its languages, to be read: `en → de`."""
        return f"{self.source or '?'} → {self.target or '?'}"

    def load(self) -> Loaded:
        """Load what is on disk now, and translate once, so that it is known to work; in any thread.

        Raises:
            ModelError: it cannot be loaded, or has come to be of other languages.
            SearchError: the server's search settings contradict the model's.
        """
        fingerprint = self.fingerprint()
        try:
            translator = Translator.load(self.path, engine=self._engine, runtime=self._runtime)
            translator.config = translator.check(**self._search)
            _try(translator)
        except TransduceError:
            raise
        except Exception as error:  # of whatever a damaged file makes a library do
            raise ModelError(f"the model {self.path} cannot be used ({error}): copy it again") from error
        if translator.languages != (self.source, self.target):
            new = " → ".join(translator.languages)
            raise ModelError(f"{self.path} was {self.pair} and is now {new}: start the server again")
        return Loaded(translator, fingerprint, self.num_bytes(translator))

    def fingerprint(self) -> Fingerprint:
        """What changes when the directory does; empty when it is not there."""
        found = []
        for file in self._files():
            with contextlib.suppress(OSError):
                status = file.stat()
                own = str(file.relative_to(self.path))
                found.append((own, status.st_size, status.st_mtime_ns, status.st_ino))
        return tuple(sorted(found))

    def num_bytes(self, translator: Translator | None = None) -> int:
        """About how much memory its weights take, as `translator` has read them or as they will be read."""
        sizes = {Path(name).name: size for name, size, *_ in self.fingerprint()}
        copies = 2  # see translate/ctranslate2_runtime.py
        if translator is not None:
            engine = translator.engine
            copies = engine.copies if isinstance(engine, ParallelEngine) else 0
        return copies * sizes.get("model.bin", 0) or sizes.get("model.safetensors", 0)

    def describe(self) -> dict[str, Any]:
        """For clients: no path in it."""
        loaded = self.loaded
        return {
            "name": self.name,
            "source": self.source,
            "target": self.target,
            "state": "loaded" if loaded else ("failed" if self.problem else "unloaded"),
            "engine": self._engine_of(loaded) if loaded else None,
            "max_len": loaded.translator.max_len if loaded else None,
            "loaded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(loaded.at)) if loaded else None,
            "problem": self.problem.replace(str(self.path), self.name) or None,
        }

    def _engine_of(self, loaded: Loaded) -> str:
        if loaded.parallel:
            return "ctranslate2"
        return "onnx" if self._engine == "onnx" else "torch"

    def _languages(self) -> tuple[str, str]:
        exported = usable_export(self.path, needed=False) if self._engine in _EXPORTED else None
        if exported is not None:
            return exported.facts.source_language, exported.facts.target_language
        from transduce.translate.model_directory import ModelDirectory

        data = ModelDirectory(self.path).recipe.data
        return data.source_language, data.target_language

    def _files(self) -> Iterator[Path]:
        for place in (self.path, self.path / "model"):
            yield from (place / name for name in _FILES)
            for directory in (place, place / EXPORT_DIRECTORY):
                yield from directory.glob("*.bin")
                yield from directory.glob("*.json")


def _name(path: Path) -> str:
    """The directory's name; a run's, if the model lies in it under its usual name."""
    path = path.resolve()
    if path.name == EXPORT_DIRECTORY:
        path = path.parent
    return path.parent.name if path.name == "model" and path.parent.name else path.name


def _try(translator: Translator) -> None:
    """Translate once in each of the ways that serving needs; weights are read by the first call.

    One sentence with all threads comes first: an engine that had read the weights for many would not read
    them again for one (see ctranslate2_runtime.py).
    """
    engine = translator.engine
    translator.translate("1", details=False, max_extra_len=1)
    if isinstance(engine, ParallelEngine):
        engine.crowd(True)
        translator.translate("1", details=False, max_extra_len=1)
        engine.crowd(False)
