"""Which language a text is in, among those that models here read; or that nobody can tell.

In: a text and the languages' codes. Out: for each code how sure we are, 0 to 1, likeliest first. The
confidence is a share among all languages that py3langid knows (140), not only among ours: French text
before an English-German model is English with 0.00, and a single word gives little for anything.
Does not know: HTTP, models.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

__all__ = ["CLEAR", "Detection", "detect", "is_short"]

CLEAR: Final = 0.5
"""From this confidence on a language counts as detected. Of 6,000 English and German lines of Tatoeba
99 % with 20 letters or more pass, 77 % with 10 to 19, and all that pass are right; of 6,000 French and
Czech lines none passes for either."""
_ENOUGH: Final = 2_000  # characters that are looked at
_SHORT: Final = 20  # letters: below, nobody can call a text foreign

# What others count as languages of their own and a model's code means as well.
_INCLUDES: Final = {
    "ar": ("ar", "ary", "arz"),
    "nb": ("no",),
    "no": ("no", "nn"),
    "uz": ("uz", "uzs"),
    "zh": ("zh", "wuu", "yue"),
}


class Detection(NamedTuple):
    """One language, and how likely the text is in it."""

    language: str
    confidence: float


def detect(text: str, languages: Collection[str]) -> list[Detection]:
    """Say how likely a text is in each of some languages.

    Args:
        text: of it, the first 2,000 characters are looked at.
        languages: codes such as en, pt-BR, zh-Hans. Codes that differ only behind the hyphen cannot be
            told apart, and share; a language that py3langid does not know has 0.

    Returns:
        One for each language, likeliest first; equal ones in the order of `languages`.
    """
    shares = dict(_identifier().rank(_told(text))) if any(map(str.isalpha, text)) else {}
    codes = list(dict.fromkeys(languages))
    bases = [code.partition("-")[0].lower() for code in codes]
    found = []
    for code, base in zip(codes, bases, strict=True):
        share = sum(shares.get(label, 0.0) for label in _INCLUDES.get(base, (base,)))
        found.append(Detection(code, min(1.0, share) / bases.count(base)))
    return sorted(found, key=lambda detection: -detection.confidence)


def is_short(text: str) -> bool:
    """Whether a text has too few letters for anybody to say that it is *not* in a language."""
    return sum(map(str.isalpha, text[:_ENOUGH])) < _SHORT


def _told(text: str) -> str:
    """What is looked at; half characters (lone surrogates) cannot be read."""
    return text[:_ENOUGH].encode("utf-8", "replace").decode()


_loading = threading.Lock()


def _identifier() -> LanguageIdentifier:
    with _loading:  # two requests at once would load it twice
        return _loaded()


@lru_cache(maxsize=1)
def _loaded() -> LanguageIdentifier:
    """Loaded at the first question: 0.8 s and 100 MB, which a service that is not asked does not pay."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
