"""Lenses over the server's models, the traces that were made, and a short queue before them.

In:  model directories, what a request asks. Out: traces, or a `Problem`.
Does not know: HTTP. torch and the room `lens` are loaded when the first trace is asked for.

One thing is computed at a time; what finds the queue full gets 429. Traces are kept for a while (the
latest, up to a number, a size and an age), so that a page can ask about them head by head.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, cast

from fastapi import Depends, Request

from transduce.errors import ModelError
from transduce.serve.problems import Problem
from transduce.translate.exported import EXPORT_DIRECTORY, usable_export

if TYPE_CHECKING:
    from transduce.lens import Lens, Trace

__all__ = ["Kept", "LensService", "LensSettings", "Lenses", "get_lenses"]

_Found = TypeVar("_Found")
_Fingerprint: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class LensSettings:
    """What looking inside may cost; each limit is told in `GET /api/v1/model` and in the error it causes."""

    text_characters: int = 2000
    source_tokens: int = 256
    target_tokens: int = 256
    beam: int = 8
    top_k: int = 50
    traces: int = 16
    """Traces kept; the least lately used goes first."""
    trace_bytes: int = 64 * 2**20
    """Memory of all of them."""
    trace_seconds: float = 1800.0
    """How long one is kept after it was last asked about."""
    queue: int = 8
    """Requests that may wait."""
    json_values: int = 65_536
    """Most numbers of an array sent as JSON; as safetensors there is no limit."""
    positions: int = 5000


@dataclass
class Kept:
    """A trace with its address."""

    id: str
    trace: Trace
    described: dict[str, Any]
    """What was answered when it was made. A trace that is kept holds no parent, which would never go."""
    used: float


class LensService:
    """What the routes of the page ask."""

    def __init__(
        self, models: Sequence[Path] = (), settings: LensSettings | None = None, engine: str = "auto"
    ) -> None:
        """Prepare; nothing is loaded yet.

        Args:
            models: model directories, or finished runs; none: an untrained small model stands in.
            settings: limits.
            engine: what translates here; where that is not torch, looking inside takes one thread.
        """
        self._engine = engine
        self.models = {name_of(path): path for path in models}
        self.settings = settings or LensSettings()
        self._lenses: dict[str, tuple[_Fingerprint, Lens]] = {}
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lens")
        self._waiting = 0
        self._lock = threading.Lock()  # of what is kept: routes and the pool look there

    @property
    def limits(self) -> dict[str, Any]:
        """What a client must know."""
        return asdict(self.settings)

    async def run(self, work: Callable[[], _Found]) -> _Found:
        """Compute something when it is its turn.

        Raises:
            Problem: 429, too many wait already.
        """
        if self._waiting > self.settings.queue:
            detail = f"{self.settings.queue} requests wait to look inside, which is the limit: try again soon"
            extra = {"limit": self.settings.queue}
            raise Problem(429, "Too many traces at once", detail, "lens-busy", extra, {"Retry-After": "1"})
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """Let go of everything."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._kept.clear()
        self._lenses.clear()

    def path(self, name: str | None) -> Path | None:
        """Where a model lies: the one of that name, or the first; None where an untrained one stands in.

        Raises:
            Problem: there is none of that name.
        """
        if name is None or (name == "untrained" and not self.models):
            return next(iter(self.models.values()), None)
        if name not in self.models:
            known = ", ".join(self.models) or "untrained"
            raise Problem(404, "No such model", f"there is no model {name!r}; there are {known}", "no-model")
        return self.models[name]

    def lens(self, name: str | None) -> Lens:
        """The lens over a model; loaded now if it was not, or if its files changed. Runs in the pool.

        Raises:
            Problem: 501, there are no weights or there is no torch; 404, there is no such model.
        """
        path = self.path(name)
        key = "untrained" if path is None else name_of(path)
        stands = _fingerprint(path)
        found = self._lenses.get(key)
        if found is None or found[0] != stands:
            found = stands, self._load(path)
            self._lenses[key] = found
        return found[1]

    def _load(self, path: Path | None) -> Lens:
        limits = {name: getattr(self.settings, name) for name in _LENS_LIMITS}
        try:
            from transduce.lens import Lens, LensLimits
            from transduce.lens.untrained import untrained_lens

            self._take_one_thread()
            if path is None:
                return untrained_lens(limits=LensLimits(**limits))
            return Lens.load(path, limits=LensLimits(**limits))
        except ImportError as error:
            raise _unavailable(_WITHOUT_TORCH) from error
        except ModelError as error:
            if path is not None and not _has_weights(path):
                raise _unavailable(
                    f"{name_of(path)} lies here as an export only; looking inside needs its own weights "
                    "(model.safetensors, as `transduce train` writes it): serve that directory"
                ) from error
            if "needs torch" in str(error):
                raise _unavailable(_WITHOUT_TORCH) from error
            raise

    def _take_one_thread(self) -> None:
        """Where nobody else computes in torch.

        For one sentence one thread is as fast, and threads that wait for each other while other work has
        the cores are far slower (27 s instead of 1 s, measured on two cores with twelve busy processes).
        """
        if self._engine != "torch" and all(
            usable_export(path, needed=False) for path in self.models.values()
        ):
            import torch

            torch.set_num_threads(1)

    def keep(self, trace: Trace, describe: Callable[[str], dict[str, Any]]) -> Kept:
        """Give a trace an address, and let older ones go.

        Args:
            trace: new.
            describe: what to answer, from the new address.
        """
        trace_id = uuid.uuid4().hex
        kept = Kept(trace_id, replace(trace, parent=None), describe(trace_id), time.monotonic())
        with self._lock:
            self._kept[trace_id] = kept
            while len(self._kept) > self.settings.traces or self._size() > self.settings.trace_bytes:
                if len(self._kept) == 1:  # never the one just made
                    break
                self._kept.popitem(last=False)
        return kept

    def find(self, trace_id: str) -> Kept:
        """A trace by its address.

        Raises:
            Problem: 404, it was never there or is kept no longer.
        """
        now = time.monotonic()
        with self._lock:
            for old in [
                kept for kept in self._kept.values() if now - kept.used > self.settings.trace_seconds
            ]:
                del self._kept[old.id]
            kept = self._kept.get(trace_id)
            if kept is not None:
                kept.used = now
                self._kept.move_to_end(trace_id)
        if kept is None:
            limits = self.settings
            detail = (
                f"there is no such trace (any more): the last {limits.traces} are kept for "
                f"{limits.trace_seconds / 60:.0f} minutes; post the text to /api/v1/traces again"
            )
            raise Problem(404, "No such trace", detail, "no-trace")
        return kept

    def forget(self, trace_id: str) -> None:
        """Let a trace go.

        Raises:
            Problem: 404, it is not there.
        """
        self.find(trace_id)
        with self._lock:
            self._kept.pop(trace_id, None)

    def _size(self) -> int:
        return sum(kept.trace.num_bytes for kept in self._kept.values())


_WITHOUT_TORCH = (
    "looking inside a model needs torch, which is not installed here: pip install 'transduce[train]'"
)
_LENS_LIMITS = ("text_characters", "source_tokens", "target_tokens", "beam")


def name_of(path: Path) -> str:
    """A model's name: its directory's, or the run's around a directory called `model`."""
    resolved = path.resolve()
    if resolved.name == EXPORT_DIRECTORY:
        resolved = resolved.parent
    return resolved.parent.name if resolved.name == "model" else resolved.name


def _fingerprint(path: Path | None) -> _Fingerprint:
    """What changes when the model's files do."""
    places = () if path is None else (path, path / "model")
    files = [place / name for place in places for name in ("model.safetensors", "alignment.json")]
    return tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists())


def _has_weights(path: Path) -> bool:
    return any((place / "model.safetensors").exists() for place in (path, path / "model"))


def _unavailable(detail: str) -> Problem:
    return Problem(501, "Cannot look inside", detail, "lens-unavailable")


async def get_lenses(request: Request) -> LensService:
    """The service of the app that a request came to; for `Depends`."""
    return cast(LensService, request.app.state.lenses)


Lenses = Annotated[LensService, Depends(get_lenses)]
