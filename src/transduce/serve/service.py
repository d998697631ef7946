"""Translation for many clients at once: texts in, translations out, whatever brought them here.

In:  texts, languages, options. Out: `Translation`s in their order, or a `Problem`.
Does not know: HTTP, routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from transduce.serve.options import TranslateOptions
from transduce.serve.problems import Problem
from transduce.serve.settings import ServeSettings
from transduce.translate.runtime import Runtime
from transduce.translate.translation import Translation
from transduce.translate.translator import Translator

__all__ = ["Service", "TranslateOptions", "TranslationService", "get_service"]


class TranslationService:
    """The models of one server, and the queue before them."""

    def __init__(self, settings: ServeSettings) -> None:
        """Prepare; `start` loads the models."""
        self.settings = settings
        self._translators: list[Translator] = []
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="translate")
        self.ready = False

    async def start(self) -> None:
        """Load the models.

        Raises:
            ModelError: one cannot be loaded.
        """
        loop = asyncio.get_running_loop()
        how = Runtime(threads=self.settings.threads)
        for path in self.settings.models:
            load = partial(Translator.load, path, engine=self.settings.engine, runtime=how)  # type: ignore[arg-type]
            self._translators.append(await loop.run_in_executor(self._pool, load))
        self.ready = True

    async def stop(self) -> None:
        """Let go of everything."""
        self.ready = False
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        options: TranslateOptions = TranslateOptions(),  # noqa: B008 -- it is frozen
    ) -> list[Translation]:
        """Translate texts, each on its own, in their order.

        Args:
            texts: what to translate; empty in, empty out.
            source: its language, if one must be chosen.
            target: the language to translate into, if one must be chosen.
            options: how.

        Raises:
            Problem: no such model, a limit passed, not ready, or too late.
            SearchError, DataError: options that contradict each other, or that the engine has not.
        """
        found = {i: t async for i, t in self.stream(texts, source=source, target=target, options=options)}
        return [found[i] for i in range(len(texts))]

    async def stream(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        options: TranslateOptions = TranslateOptions(),  # noqa: B008
    ) -> AsyncIterator[tuple[int, Translation]]:
        """As `translate`, each text's number and translation as soon as it is ready."""
        translator = self._choose(source, target)
        self._check(texts)
        call = partial(translator.translate, texts, prefixes=options.prefixes, **options.arguments)
        loop = asyncio.get_running_loop()
        for index, translation in enumerate(await loop.run_in_executor(self._pool, call)):
            yield index, translation

    def models(self) -> list[dict[str, Any]]:
        """What there is to choose from."""
        return [
            {"name": path.name, "source": translator.languages[0], "target": translator.languages[1]}
            for path, translator in zip(self.settings.models, self._translators, strict=False)
        ]

    def _choose(self, source: str | None, target: str | None) -> Translator:
        if not self.ready:
            raise Problem(503, "Not ready", "the models are being loaded: try again in a few seconds")
        for translator in self._translators:
            own = translator.languages
            if (source or own[0]) == own[0] and (target or own[1]) == own[1]:
                return translator
        raise Problem(404, "No such model", f"no model translates {source} → {target}", "no-model")

    def _check(self, texts: Sequence[str]) -> None:
        most = self.settings.max_texts
        if len(texts) > most:
            detail = f"{len(texts)} texts came, but at most {most} may come in one request: send fewer"
            raise Problem(413, "Too many texts", detail, "too-many-texts", {"max_texts": most})


def get_service(request: Request) -> TranslationService:
    """The service of the app that a request came to; for `Depends`."""
    return cast(TranslationService, request.app.state.service)


Service = Annotated[TranslationService, Depends(get_service)]
