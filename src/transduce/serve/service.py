"""Translation for many clients at once: texts in, translations out, whatever brought them here.

In:  texts, languages, options. Out: `Translation`s in their order, or a `Problem`.
Does not know: routes. Long texts go through the queue in pieces, so that they can be shared out too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from transduce.serve.batching import Batcher, BatcherClosed
from transduce.serve.kept_texts import KeptText, kept_text
from transduce.serve.lanes import Lane, Text, cut
from transduce.serve.metrics import Metrics
from transduce.serve.models import Loaded
from transduce.serve.options import TranslateOptions
from transduce.serve.problems import Problem
from transduce.serve.registry import Registry
from transduce.serve.settings import ServeSettings
from transduce.translate.threads import available_threads
from transduce.translate.translation import Translation

__all__ = ["Service", "TranslateOptions", "TranslationService", "get_service"]

_log = logging.getLogger(__name__)

_FEW = 5_000  # characters that are cut in the event loop's own thread: a millisecond or two
_DEFAULT = TranslateOptions()


class TranslationService:
    """The models of one server, and the queue before them."""

    def __init__(self, settings: ServeSettings, metrics: Metrics | None = None) -> None:
        """Read what the models say of themselves; `start` loads them.

        Raises:
            ModelError: one is missing or cannot be read.
            ServeError: there are none, or two for one pair of languages.
        """
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.registry = Registry(settings)
        self._batcher = Batcher(
            slots=settings.threads or available_threads(),
            window_seconds=settings.batch_window_seconds,
            told=self.metrics.batch,
        )
        self.metrics.watch_queue(
            pieces=lambda: self._batcher.waiting_pieces, tokens=lambda: self._batcher.waiting_tokens
        )
        self.metrics.watch_models(lambda: sum(model.loaded is not None for model in self.registry.models))
        self._cutter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cut")
        self._numbers = itertools.count()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def ready(self) -> bool:
        """Whether requests are taken."""
        return self.registry.ready and not self._stopping

    async def start(self) -> None:
        """Begin to load the models, unless that is left to the first requests; watch for changes.

        What fails is told by `models`, and by `loading`, for who waits for it.
        """
        if not self.settings.lazy:
            self._tasks.append(asyncio.create_task(self.registry.load_all()))
        if self.settings.watch_seconds:
            self._tasks.append(asyncio.create_task(self.registry.watch()))

    async def loading(self) -> None:
        """Wait until what is loaded at the start is.

        Raises:
            ModelError: it cannot be loaded.
        """
        if not self.settings.lazy:
            await asyncio.shield(self._tasks[0])

    async def stop(self) -> None:
        """Take nothing new, finish what is under way, let go of everything."""
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_seconds):
                await self._batcher.drain()
        self._batcher.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.registry.close()
        self._cutter.shutdown(wait=False, cancel_futures=True)

    async def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        options: TranslateOptions = _DEFAULT,
    ) -> list[Translation]:
        """Translate texts, each on its own, in their order; cancel it to free its place.

        Args:
            texts: what to translate; empty in, empty out.
            source: its language, if one must be chosen.
            target: the language to translate into, if one must be chosen.
            options: how.

        Raises:
            Problem: no such model, a limit passed, no room, not ready, or too late.
            SearchError, DataError: options that contradict each other, or that the engine has not.
            ModelError: the model cannot be loaded.
        """
        found: dict[int, Translation] = {}
        stream = self.stream(texts, source=source, target=target, options=options)
        async with contextlib.aclosing(stream):
            async for index, translation in stream:
                found[index] = translation
        return [found[i] for i in range(len(texts))]

    async def stream(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        options: TranslateOptions = _DEFAULT,
    ) -> AsyncGenerator[tuple[int, Translation], None]:
        """As `translate`, but yield each text's number and translation as soon as it is there.

        What is wrong with the request is raised before the first; `contextlib.aclosing` frees its place.
        """
        deadline = time.monotonic() + self.settings.request_seconds
        self._check_ready()
        model = self.registry.choose(source, target)
        self.check(texts, options)
        loaded = await self.registry.loaded(model)
        with self.registry.lease(model, loaded):
            whole = await self._cut(loaded, texts, options)
            shared = options.shared
            if any(isinstance(text, KeptText) and text.aligned for text in whole):
                shared = replace(shared, alignment=True)
            lane = Lane(loaded, shared, next(self._numbers) if options.is_sample else -1)
            pieces = [piece for text in whole for piece in text.pieces]
            self._admit(len(pieces), sum(piece.tokens for piece in pieces))
            owners = [(text, place) for text in whole for place in range(len(text.pieces))]
            results = self._batcher.stream(lane, pieces, deadline)
            try:
                async with contextlib.aclosing(results):
                    async for number, result in results:
                        text, place = owners[number]
                        if text.put(place, result):
                            self.metrics.texts.inc()
                            translation = text.whole(loaded.translator, options)
                            if self.settings.log_text:
                                told = {"text": text.text, "translation": translation.text}
                                _log.info("translated", extra={"fields": told})
                            yield text.index, translation
            except TimeoutError as error:
                raise self._too_late() from error
            except BatcherClosed as error:
                raise _not_ready() from error

    async def knows(self, source: str | None, target: str | None) -> Callable[[str], bool]:
        """Whether the model between these languages has a piece for a character (see translate/kept.py).

        Raises:
            Problem: no such model, or not ready.
            ModelError: the model cannot be loaded.
        """
        self._check_ready()
        loaded = await self.registry.loaded(self.registry.choose(source, target))
        return loaded.translator.knows

    def models(self) -> list[dict[str, Any]]:
        """What there is to choose from, for clients."""
        return [model.describe() for model in self.registry.models]

    # --- Limits -----------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        if not self.ready:
            raise _not_ready()

    def check(self, texts: Sequence[str], options: TranslateOptions = _DEFAULT) -> None:
        """Refuse what is over a limit, before anything is done for it.

        Raises:
            Problem: 413 or 422.
        """
        limits, search = self.settings, dict(options.search)
        longest = max((len(text) for text in texts), default=0)
        entries = len(options.glossary)
        checks = [
            (413, "max_texts", len(texts), "texts in one request", "send fewer at once"),
            (413, "max_text_characters", longest, "characters in one text", "cut it at paragraphs"),
            (422, "max_beam_size", search.get("beam_size", 1), "as `beam_size`", "ask for less"),
            (422, "max_beam_size", search.get("n_best", 1), "as `n_best`", "ask for less"),
            (422, "max_glossary", entries, "entries in a glossary", "leave out what does not occur"),
        ]
        for status, name, value, what, remedy in checks:
            most = getattr(limits, name)
            if value > most:
                detail = f"{value} {what}, but at most {most} are allowed here: {remedy}"
                raise Problem(status, "A limit is passed", detail, name.replace("_", "-"), {name: most})

    def admit(self) -> None:
        """Refuse a request of which nothing is known yet, if not one more may wait.

        Raises:
            Problem: 429.
        """
        self._admit(pieces=0, tokens=0)

    def _admit(self, pieces: int, tokens: int) -> None:
        """Refuse what finds no room in the queue; an empty queue has room for every request."""
        queue, limits = self._batcher, self.settings
        for what, waiting, own, most in (
            ("requests", queue.waiting_jobs, 1, limits.max_queue_requests),
            ("texts", queue.waiting_pieces, pieces, limits.max_queue_texts),
            ("tokens", queue.waiting_tokens, tokens, limits.max_queue_tokens),
        ):
            if waiting and waiting + own > most:
                seconds = max(1, math.ceil(queue.seconds_to_wait()))
                detail = (
                    f"{waiting} {what} are waiting and {own} came, but at most {most} may wait here: "
                    f"try again in about {seconds} s"
                )
                extra = {f"max_queue_{what}": most, "retry_after": seconds}
                # Who is to come back later must not hold a connection meanwhile: there are only so many.
                headers = {"Retry-After": str(seconds), "Connection": "close"}
                raise Problem(429, "The queue is full", detail, "queue-full", extra, headers)

    def _too_late(self) -> Problem:
        most = self.settings.request_seconds
        detail = (
            f"the translation was not done within {most:g} s: send fewer texts at once, or try again later"
        )
        extra, headers = {"request_seconds": most}, {"Retry-After": str(self._seconds_to_wait())}
        return Problem(503, "Too late", detail, "too-late", extra, headers)

    def _seconds_to_wait(self) -> int:
        return max(1, math.ceil(self._batcher.seconds_to_wait()))

    async def _cut(self, loaded: Loaded, texts: Sequence[str], options: TranslateOptions) -> list[Text]:
        """The texts in pieces; where that takes a while, other clients are served meanwhile."""
        read = kept_text if options.format != "plain" else None
        if sum(map(len, texts)) <= _FEW:
            return cut(loaded.translator, texts, options, read)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._cutter, cut, loaded.translator, texts, options, read)


def _not_ready() -> Problem:
    detail = "the models are being loaded, or the server is being stopped: try again in a few seconds"
    return Problem(503, "Not ready", detail, "not-ready", headers={"Retry-After": "2"})


async def get_service(request: Request) -> TranslationService:
    """The service of the app that a request came to; for `Depends`."""
    return cast(TranslationService, request.app.state.service)


Service = Annotated[TranslationService, Depends(get_service)]
