"""The languages of a service's models, and which of them a text is in.

In: the models' pairs, texts. Out: pairs, a source language for each text, or a problem that says that
nobody can tell. Does not know: HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from transduce.serve.detection import CLEAR, Detection, detect, is_short
from transduce.serve.problems import Problem

if TYPE_CHECKING:
    from transduce.serve.service import TranslationService

__all__ = ["Pair", "detect_all", "detect_one", "pairs", "sources_of", "told_languages"]


class Pair(NamedTuple):
    """What a model translates from and into."""

    source: str
    target: str


def pairs(service: TranslationService) -> list[Pair]:
    """The pairs of all models that say theirs, each once."""
    found = [Pair(model["source"], model["target"]) for model in service.models()]
    return list(dict.fromkeys(pair for pair in found if pair.source and pair.target))


def told_languages(service: TranslationService) -> list[str]:
    """Languages that a model reads, then those that models only write."""
    known = pairs(service)
    return list(dict.fromkeys([pair.source for pair in known] + [pair.target for pair in known]))


def sources_of(service: TranslationService, target: str) -> list[str]:
    """What can be translated into `target`.

    Raises:
        Problem: nothing can.
    """
    known = pairs(service)
    found = [pair.source for pair in known if pair.target == target]
    if not found:
        there = (
            ", ".join(f"{pair.source} → {pair.target}" for pair in known) or "none that says its languages"
        )
        raise Problem(
            404, "No such model", f"no model translates into {target!r}; there are {there}", "no-model"
        )
    return found


async def detect_one(text: str, languages: Sequence[str]) -> list[Detection]:
    """How likely a text is in each of some languages, likeliest first."""
    return await asyncio.to_thread(detect, text, languages)


async def detect_all(texts: Sequence[str], languages: Sequence[str]) -> list[Detection]:
    """The language that each text is in.

    Short texts that tell nothing alone are taken as the others of the request are; if that tells nothing
    and there is only one language that they could be in, for that one: its low confidence says so.

    Args:
        texts: of one request.
        languages: that they may be in.

    Raises:
        Problem: nobody can tell.
    """
    return await asyncio.to_thread(_detect_all, texts, languages)


def _detect_all(texts: Sequence[str], languages: Sequence[str]) -> list[Detection]:
    together: Detection | None = None
    found = []
    for n, text in enumerate(texts):
        best = detect(text, languages)[0]
        if best.confidence < CLEAR and is_short(text):
            together = together or detect("\n".join(texts), languages)[0]
            if together.confidence >= CLEAR:
                best = together
            elif len(languages) > 1 and text.strip():
                raise _unclear(n, best, languages, "is too short to tell its language")
        elif best.confidence < CLEAR:
            raise _unclear(n, best, languages, "is not clearly in any language that can be read here")
        found.append(best)
    return found


def _unclear(number: int, best: Detection, languages: Sequence[str], why: str) -> Problem:
    return Problem(
        422,
        "The language cannot be told",
        f"text {number} {why} (the likeliest is {best.language} with a confidence of {best.confidence:.2f}): "
        f"name it in `source`; there are {', '.join(languages)}",
        "language-unclear",
        {"text": number, "languages": list(languages), "confidence": round(best.confidence, 3)},
    )
