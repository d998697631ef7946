"""Stands for a translator where a test is about files: words in capitals, in reversed order, aligned."""

from __future__ import annotations

from transduce.search.config import SearchConfig
from transduce.translate.translator import Translation

__all__ = ["WordByWord"]


class WordByWord:
    """`press the key` → `KEY THE PRESS`; or in the same order."""

    def __init__(self, *, reverse: bool = True, languages: tuple[str, str] = ("en", "de")) -> None:
        self.reverse, self.languages = reverse, languages
        self.config = SearchConfig()
        self.engine = object()  # one that cannot be made to write anything
        self.asked: list[str] = []

    def translate(self, texts, *, alignment=False, **options):
        self.asked += texts
        return [self._one(text, alignment) for text in texts]

    def _one(self, text, alignment):
        words = text.split()
        order = list(range(len(words)))[:: -1 if self.reverse else 1]
        out = [words[i].upper() for i in order]
        return Translation(
            text=" ".join(out),
            score=-1.0,
            confidence=0.5,
            source_tokens=tuple("\u2581" + word for word in words),
            tokens=tuple("\u2581" + word for word in out),
            token_log_probs=(0.0,) * (len(out) + 1),
            alignment=tuple((source, target) for target, source in enumerate(order)) if alignment else (),
        )
