"""Texts as people send them, through the service: lines, spaces, tags, emoji and placeholders kept.

In: texts with or without HTML tags, or the inlines of a document. Out: the same, translated.
Does not know: HTTP, formats other than HTML.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from transduce.serve.kept_texts import fragment
from transduce.serve.options import TranslateOptions
from transduce.translate.documents.inline import Inline, plain_text
from transduce.translate.protect import Protection
from transduce.translate.segments import Plan, Rendered

if TYPE_CHECKING:
    from transduce.serve.service import TranslationService
    from transduce.translate.translation import Translation

__all__ = ["Way", "translate_inlines", "translate_texts"]

_WINDOW: Final = 128  # sentences of one call: others get their turn between two


class Way:
    """From which language to which, through which service, and how."""

    def __init__(
        self,
        service: TranslationService,
        source: str | None,
        target: str | None,
        options: TranslateOptions | None = None,
    ) -> None:
        """Remember it.

        Args:
            service: translates.
            source: language, if one must be chosen.
            target: the same.
            options: `alignment` is asked for where it is needed.
        """
        self.service, self.source, self.target = service, source, target
        self.options = options or TranslateOptions()

    async def sentences(self, sentences: Sequence[str], *, alignment: bool) -> dict[str, Translation]:
        """Each sentence's translation.

        Raises:
            Problem: as `TranslationService.translate`.
        """
        found: dict[str, Translation] = {}
        options = replace(self.options, alignment=alignment)
        window = min(_WINDOW, self.service.settings.max_texts)
        for at in range(0, len(sentences), window):
            part = sentences[at : at + window]
            translations = await self.service.translate(
                part, source=self.source, target=self.target, options=options
            )
            found.update(zip(part, translations, strict=True))
        return found


async def translate_inlines(way: Way, inlines: Sequence[Inline], *, protect: bool = True) -> list[Rendered]:
    """Translate texts with tags, in order.

    Args:
        way: how.
        inlines: the texts.
        protect: keep placeholders, URLs, addresses and code as they are.

    Raises:
        Problem: as `TranslationService.translate`.
    """
    plan, found = await _found(way, inlines, protect)
    return await asyncio.to_thread(plan.rendered, found)


async def translate_texts(way: Way, texts: Sequence[str], *, html: bool = False) -> list[list[str]]:
    """Translate texts, each on its own; several ways, the best first, where the options ask for them.

    Args:
        way: how; `n_best` of its options is how many ways.
        texts: what to translate.
        html: they are parts of HTML pages, whose tags stay in place.

    Returns:
        For each text its translations, different from each other.

    Raises:
        Problem: as `TranslationService.translate`.
    """
    pages = [fragment(text) for text in texts] if html else []
    parts: list[list[Inline]] = [page.inlines for page in pages] if html else [[(text,)] for text in texts]
    plan, found = await _found(way, [inline for part in parts for inline in part], protect=True)
    ranks = 1 + max((len(translation.alternatives) for translation in found.values()), default=0)
    results: list[list[str]] = [[] for _ in texts]
    for rank in range(ranks):
        rendered = iter(plan.rendered({sentence: _ranked(t, rank) for sentence, t in found.items()}))
        for n, part in enumerate(parts):
            inlines = [next(rendered).inline for _ in part]
            text = pages[n].translated(inlines).decode() if html else plain_text(inlines[0])
            if text not in results[n]:
                results[n].append(text)
    return results


async def _found(
    way: Way, inlines: Sequence[Inline], protect: bool
) -> tuple[Plan, Mapping[str, Translation]]:
    knows = await way.service.knows(way.source, way.target)
    protection = Protection(force=False) if protect else None
    plan = await asyncio.to_thread(Plan, inlines, knows=knows, protection=protection)
    found: dict[str, Translation] = {}
    for sentences, alignment in plan.wanted():
        found.update(await way.sentences(sentences, alignment=alignment))
    return plan, found


def _ranked(translation: Translation, rank: int) -> Translation:
    """The translation of that rank, or the last there is."""
    return ([translation, *translation.alternatives])[min(rank, len(translation.alternatives))]
