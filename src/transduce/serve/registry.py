"""All models of a server: which one translates what, and which of them are in memory.

In:  settings; languages. Out: a `Loaded` version, for as long as the caller needs it.
Does not know: HTTP, batches.

A directory that changes is loaded beside the version that serves, and takes its place at once; requests
under way keep the version that they began with. What cannot be loaded changes nothing but `problem`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from transduce.errors import ModelError, ServeError, TransduceError
from transduce.serve.models import Fingerprint, Loaded, ServedModel
from transduce.serve.problems import Problem
from transduce.serve.settings import ServeSettings
from transduce.train.memory import format_bytes, give_back_freed_memory, resident_bytes

__all__ = ["Registry"]

_log = logging.getLogger(__name__)


class Registry:
    """The models, by the languages they translate."""

    def __init__(self, settings: ServeSettings) -> None:
        """Read what the models say of themselves.

        Raises:
            ModelError: one is missing or cannot be read.
            ServeError: there are two for one pair of languages.
        """
        self._settings = settings
        self.models = [ServedModel(path, settings) for path in settings.models]
        _check_pairs(self.models)
        self._loader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="load")
        self._loading: dict[ServedModel, asyncio.Task[Loaded]] = {}
        self._failed: dict[ServedModel, Fingerprint] = {}

    @property
    def ready(self) -> bool:
        """Whether all that is to be in memory from the start is."""
        return self._settings.lazy or all(model.loaded or model.problem for model in self.models)

    async def load_all(self) -> None:
        """Load every model.

        Raises:
            ModelError: one cannot be loaded.
        """
        for model in self.models:
            await self._load(model)

    def choose(self, source: str | None, target: str | None) -> ServedModel:
        """The one model that translates between these languages, as far as they are named.

        Raises:
            Problem: there is none, or more than one.
        """
        found = [
            model
            for model in self.models
            if _suits(source, model.source, self.models) and _suits(target, model.target, self.models)
        ]
        if not self.models:
            detail = "no model is served: start with one, as in `transduce serve runs/en-de`"
            raise Problem(404, "No model", detail, "no-model", {"pairs": []})
        there = ", ".join(model.pair for model in self.models)
        asked = f"{source or 'any language'} → {target or 'any language'}"
        extra = {"pairs": [[model.source, model.target] for model in self.models]}
        if not found:
            detail = f"no model translates {asked}; there are {there}"
            raise Problem(404, "No such model", detail, "no-model", extra)
        if len(found) > 1:
            pairs = ", ".join(model.pair for model in found)
            detail = f"{asked} could be {pairs}: name `source` and `target`"
            raise Problem(422, "Which model", detail, "ambiguous-model", extra)
        return found[0]

    @contextlib.contextmanager
    def lease(self, model: ServedModel, loaded: Loaded) -> Iterator[None]:
        """Keep a version in memory meanwhile."""
        loaded.in_use += 1
        try:
            yield
        finally:
            loaded.in_use -= 1
            model.last_used = time.monotonic()

    async def loaded(self, model: ServedModel) -> Loaded:
        """The model's version in memory; load it if there is none.

        Raises:
            ModelError: it cannot be loaded, or could not be and has not changed.
            Problem: there is no memory for it now.
        """
        model.last_used = time.monotonic()
        if model.loaded is None and self._failed.get(model) == model.fingerprint():
            raise ModelError(model.problem)
        return model.loaded or await self._load(model)

    async def watch(self) -> None:
        """For ever: load what has changed on disk, and unload what rests when memory is short."""
        seen = {model: model.fingerprint() for model in self.models}
        while self.models:
            await asyncio.sleep(self._settings.watch_seconds)
            for model in self.models:
                try:
                    await self._look(model, seen)
                except (TransduceError, Problem):
                    pass  # it has been told
                except Exception:
                    _log.exception("looking for changes of model %s failed", model.name)
            self._make_room(0, keep=max(self.models, key=lambda model: model.last_used))

    async def _look(self, model: ServedModel, seen: dict[ServedModel, Fingerprint]) -> None:
        """Load a model again if it has changed, and has stopped changing."""
        # Not in the loop's thread: a disk may be far away.
        now = await asyncio.get_running_loop().run_in_executor(None, model.fingerprint)
        if now != seen[model]:
            seen[model] = now
        elif model.loaded and now not in (model.loaded.fingerprint, self._failed.get(model)):
            await self._load(model)

    def close(self) -> None:
        """Let go of everything."""
        for task in self._loading.values():
            task.cancel()
        self._loader.shutdown(wait=False, cancel_futures=True)
        for model in self.models:
            model.loaded = None

    # --- Loading ----------------------------------------------------------------------------------

    async def _load(self, model: ServedModel) -> Loaded:
        """One load at a time; who asks for the same model waits for the same load."""
        task = self._loading.get(model)
        if task is None:
            task = asyncio.create_task(self._load_now(model))
            self._loading[model] = task
            task.add_done_callback(lambda done: self._loaded_or_failed(model, done))
        return await asyncio.shield(task)  # one client that goes away does not stop it

    def _loaded_or_failed(self, model: ServedModel, done: asyncio.Task[Loaded]) -> None:
        self._loading.pop(model, None)
        if not done.cancelled():
            done.exception()  # those who wait get it; there may be none left

    async def _load_now(self, model: ServedModel) -> Loaded:
        again = model.loaded is not None
        if not again:
            self._make_room(model.num_bytes(), keep=model, needed=True)
        fingerprint = model.fingerprint()
        begun = time.monotonic()
        try:
            loaded = await asyncio.get_running_loop().run_in_executor(self._loader, model.load)
        except TransduceError as error:
            model.problem = str(error)
            self._failed[model] = fingerprint
            what = "the version in memory goes on serving" if again else "it does not serve"
            _log.error("model %s cannot be loaded, %s: %s", model.name, what, error)
            raise
        model.loaded, model.problem = loaded, ""
        self._failed.pop(model, None)
        seconds = time.monotonic() - begun
        _log.info("model %s (%s) %s in %.2f s", model.name, model.pair, _LOADED[again], seconds)
        return loaded

    # --- Memory -----------------------------------------------------------------------------------

    def _make_room(self, needed_bytes: int, *, keep: ServedModel, needed: bool = False) -> None:
        """Unload what rests, the longest first, until the limit is kept.

        Raises:
            Problem: what is in use leaves no room, and the room is `needed`.
        """
        if not self._settings.memory:
            return
        excess = resident_bytes() + needed_bytes - self._settings.memory
        others = [model for model in self.models if model.loaded and model is not keep]
        for model in sorted(others, key=lambda model: model.last_used):
            if excess <= 0:
                break
            if model.loaded and not model.loaded.in_use:
                excess -= model.loaded.num_bytes
                model.loaded = None
                _log.info("model %s is unloaded: memory is short", model.name)
        if len(others) > sum(model.loaded is not None for model in others):
            gc.collect()
            give_back_freed_memory()
        if needed and excess > 0 and any(model.loaded for model in others):
            detail = (
                f"the model {keep.name} needs about {format_bytes(needed_bytes)}, and models in use leave no "
                f"room below the limit of {format_bytes(self._settings.memory)}: try again in a few seconds"
            )
            raise Problem(503, "No memory for the model", detail, "no-memory", headers={"Retry-After": "5"})


_LOADED = {False: "is loaded", True: "was replaced by what is on disk"}


def _check_pairs(models: list[ServedModel]) -> None:
    for what, count in Counter((model.source, model.target) for model in models).items():
        if count > 1:
            same = [str(model.path) for model in models if (model.source, model.target) == what]
            pair = " → ".join(what) if all(what) else "languages that they do not tell"
            raise ServeError(f"{' and '.join(same)} both translate {pair}: serve one of them on another port")


def _suits(asked: str | None, own: str, models: list[ServedModel]) -> bool:
    """Whether a language is the model's; a region (en-US) may be left out if no model names it."""
    if asked is None:
        return True
    asked, own = _plain(asked), _plain(own)
    if asked == own:
        return True
    known = {_plain(language) for model in models for language in (model.source, model.target)}
    language, _, region = asked.partition("-")
    return asked not in known and language == own and len(region) in (2, 3)  # `Hant` is no region


def _plain(language: str) -> str:
    return language.replace("_", "-").casefold()
