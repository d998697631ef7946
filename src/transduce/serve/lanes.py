"""A request's texts as pieces for the batches, and back.

In:  texts and options; a loaded model. Out: `Text`s, whose pieces go through a `Lane` in any company.
Does not know: the queue, who waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from transduce.errors import DataError
from transduce.serve.batching import Piece
from transduce.serve.models import Loaded
from transduce.serve.options import TranslateOptions
from transduce.translate.split import Segment
from transduce.translate.translation import Translation
from transduce.translate.translator import Translator

__all__ = ["Content", "Lane", "Special", "Text", "cut"]

_BATCH_TOKENS = 2048  # of an engine that cuts its own batches: enough for it to choose from


@dataclass(frozen=True)
class Content:
    """What goes through the model as one."""

    text: str
    prefix: str


@dataclass(frozen=True)
class Lane:
    """A version of a model, and how it is asked; see batching.py."""

    loaded: Loaded
    options: TranslateOptions
    number: int
    """Of the request, where it must have no company; else -1."""

    @property
    def budget(self) -> int:
        """As `batching.Lane`."""
        engine = self.loaded.parallel
        return engine.batch_tokens if engine else _BATCH_TOKENS

    @property
    def parallel(self) -> bool:
        """As `batching.Lane`."""
        return self.loaded.parallel is not None

    @cached_property
    def together(self) -> int:
        """As `batching.Lane`.

        Raises:
            SearchError: the options contradict each other.
        """
        engine, asked = self.loaded.parallel, dict(self.options.search)
        return engine.together(self.loaded.translator.configured(**asked).beam_size) if engine else 0

    @property
    def alone(self) -> bool:
        """As `batching.Lane`."""
        return self.number >= 0

    def run(self, pieces: Sequence[Content], crowded: bool) -> list[Translation]:
        """As `batching.Lane`.

        Raises:
            TransduceError: as `Translator.translate`.
        """
        if self.loaded.parallel:
            self.loaded.parallel.crowd(crowded)
        prefixes = [piece.prefix for piece in pieces]
        return self.loaded.translator.translate(
            [piece.text for piece in pieces],
            prefixes=prefixes if any(prefixes) else None,
            **self.options.arguments,
        )

    def written(self, results: Sequence[Translation]) -> int:
        """As `batching.Lane`."""
        return sum(len(result.tokens) + 1 for result in results)


@dataclass
class Text:
    """One text of a request, and what of it is translated."""

    index: int
    text: str
    segments: list[Segment]
    pieces: list[Piece[Content]]
    _parts: dict[int, Translation] = field(default_factory=dict)

    def put(self, place: int, translation: Translation) -> bool:
        """Take a piece's translation; True if it was the last to come."""
        self._parts[place] = translation
        return len(self._parts) == len(self.segments)

    def whole(self, translator: Translator, options: TranslateOptions) -> Translation:
        """The text's translation."""
        parts = [self._parts[place] for place in range(len(self.segments))]
        return translator.join(self.text, parts, self.segments, **options.needs)


Special = Callable[["Translator", int, str, str, TranslateOptions], "Text | None"]
"""Makes a `Text` of one that needs more than cutting, or None."""


def cut(
    translator: Translator, texts: Sequence[str], options: TranslateOptions, special: Special | None = None
) -> list[Text]:
    """The texts in pieces, measured.

    Args:
        translator: measures and cuts.
        texts: of one request.
        options: of that request.
        special: asked first for each text (see kept_texts.py).

    Raises:
        SearchError: the options contradict each other, or the engine lacks them.
        DataError: there are more or fewer prefixes than texts, or a glossary's entry is blank.
    """
    translator.check(**options.needs, **dict(options.search))
    prefixes = options.prefixes or [""] * len(texts)
    if len(prefixes) != len(texts):
        raise DataError(f"{len(texts)} texts came with {len(prefixes)} prefixes: give one for each")
    found = []
    for index, (text, prefix) in enumerate(zip(texts, prefixes, strict=True)):
        own = special(translator, index, text, prefix, options) if special is not None else None
        if own is not None:
            found.append(own)
            continue
        segments = translator.segments(text)
        pieces = [
            Piece(
                Content(segment.text, prefix if place == 0 else ""), translator.num_tokens(segment.text) + 1
            )
            for place, segment in enumerate(segments)
        ]
        found.append(Text(index, text, segments, pieces))
    return found
