"""What one request asks of the translator, beside its texts.

Does not know: HTTP, models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from transduce.errors import SearchError
from transduce.search.config import SearchConfig

if TYPE_CHECKING:
    from transduce.translate.glossary import Glossary
    from transduce.translate.protect import Kind, Protection

__all__ = ["Format", "TranslateOptions"]

Format = Literal["plain", "text", "html"]
"""`plain`: as `Translator.translate` does. `text`: emoji and words of scripts that the model does not know
are carried past it. `html`: tags too."""


@dataclass(frozen=True)
class TranslateOptions:
    """Options that requests may share; equal ones go through the model together.

    Raises:
        SearchError: an unknown field of `SearchConfig`.
        DataError: an unknown kind of protected text.
    """

    search: tuple[tuple[str, Any], ...] = ()
    """Fields of `SearchConfig` that were given, sorted by name: see `of`."""
    alignment: bool = False
    """Find the source token that each target token looked at most."""
    details: bool = False
    """Find each token's probability; an export needs a second pass for it."""
    glossary: tuple[tuple[str, str], ...] = ()
    """Source phrases and how they must be translated."""
    protect: tuple[Kind, ...] = ()
    """Kinds of text that stay as they are (translate/protect.py)."""
    prefixes: tuple[str, ...] | None = None
    """For each text the words that its translation must begin with."""
    format: Format = "plain"
    """How texts are read, see `Format`."""

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        known = SearchConfig.__dataclass_fields__
        for name, _ in self.search:
            if name not in known:
                raise SearchError(f"unknown search setting {name!r}; there are {', '.join(known)}")
        if self.protect:
            _protection(self.protect)

    @classmethod
    def of(
        cls,
        *,
        glossary: Mapping[str, str] | None = None,
        alignment: bool = False,
        details: bool = False,
        protect: tuple[Kind, ...] = (),
        prefixes: tuple[str, ...] | None = None,
        format: Format = "plain",  # noqa: A002 -- the word the request uses
        **search: Any,
    ) -> TranslateOptions:
        """Options from a call's words; fields of `SearchConfig` that are None were not given."""
        given = tuple(sorted((name, value) for name, value in search.items() if value is not None))
        entries = tuple((glossary or {}).items())
        return cls(given, alignment, details, entries, protect, prefixes, format)

    @property
    def is_sample(self) -> bool:
        """Whether translations are drawn: what is drawn may depend on the company, so it has none."""
        return dict(self.search).get("method") == "sample"

    @cached_property
    def shared(self) -> TranslateOptions:
        """These options without what belongs to single texts."""
        return replace(self, prefixes=None, format="plain")

    @property
    def needs(self) -> dict[str, Any]:
        """What the translation must hold, as arguments of `Translator.translate` and `.join`.

        Raises:
            DataError: an entry of the glossary is blank.
        """
        return {
            "glossary": _glossary(self.glossary) if self.glossary else None,
            "protect": _protection(self.protect) if self.protect else False,
        }

    @property
    def arguments(self) -> dict[str, Any]:
        """All but the prefixes, as arguments of `Translator.translate`.

        Raises:
            DataError: an entry of the glossary is blank.
        """
        how = {"alignment": self.alignment, "details": self.details}
        return {**how, **self.needs, **dict(self.search)}


# A request's glossary is needed by each of its batches.
@lru_cache(maxsize=16)
def _glossary(entries: tuple[tuple[str, str], ...]) -> Glossary:
    from transduce.translate.glossary import Glossary

    return Glossary(dict(entries))


@lru_cache(maxsize=16)
def _protection(kinds: tuple[Kind, ...]) -> Protection:
    from transduce.translate.protect import Protection

    return Protection(kinds)
