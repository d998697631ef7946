"""The segments of a document → their translations, tags in place.

A segment is cut at line ends and between sentences, because models learn from sentences; what stands
around and between them (indents, line ends, spaces) comes back as it was. Equal sentences are
translated once. Tags go where the alignment of the sentences' words says.
Does not know: formats, files, the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from transduce.translate.character_links import character_links
from transduce.translate.documents.inline import Element, Inline, has_words, plain_text
from transduce.translate.documents.placing import Link, place
from transduce.translate.split import Segment, join, split_sentences

if TYPE_CHECKING:
    from transduce.translate.translator import Translation, Translator

__all__ = ["Rendered", "translate_inlines"]

_WINDOW: Final = 1024  # sentences translated together


class Rendered(NamedTuple):
    """A segment's translation."""

    inline: Inline
    flags: frozenset[str]
    """Those of its sentences (see `Translation`), and `tags`: some could only be put at the end."""


def translate_inlines(
    translator: Translator,
    inlines: Sequence[Inline],
    *,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> list[Rendered]:
    """Translate the segments of a document, in order.

    Args:
        translator: does the work.
        inlines: the segments with their tags.
        progress: told the number of sentences done.
        options: for `Translator.translate`.

    Raises:
        SearchError: an unknown search setting, or settings that contradict each other.
    """
    plans = [_plan(plain_text(inline)) for inline in inlines]
    tagged: dict[str, bool] = {}  # every sentence once, and whether its alignment is needed
    for inline, plan in zip(inlines, plans, strict=True):
        has_tags = any(isinstance(part, Element) for part in inline)
        for sentence in plan.sentences():
            tagged[sentence] = tagged.get(sentence, False) or has_tags
    found: dict[str, Translation] = {}
    for wanted in (True, False):
        sentences = [sentence for sentence, tags in tagged.items() if tags == wanted]
        for at in range(0, len(sentences), _WINDOW):
            window = sentences[at : at + _WINDOW]
            found.update(zip(window, translator.translate(window, alignment=wanted, **options), strict=True))
            if progress is not None:
                progress(len(found))
    return [_rendered(inline, plan, found) for inline, plan in zip(inlines, plans, strict=True)]


@dataclass(frozen=True)
class _Plan:
    """A text, as lines of sentences."""

    lines: tuple[_Line, ...]

    def sentences(self) -> Iterator[str]:
        """What is to be translated."""
        for line in self.lines:
            yield from (part.text for part in line.parts if has_words((part.text,)))


class _Line(NamedTuple):
    lead: str
    parts: tuple[Segment, ...]
    trail: str
    """White space, and the line end."""


def _plan(text: str) -> _Plan:
    """Cut a text; put together again, the parts are the text."""
    lines = []
    for line in _kept_lines(text):
        core = line.strip()
        lead = line[: len(line) - len(line.lstrip())] if core else line
        trail = line[len(lead) + len(core) :]
        lines.append(_Line(lead, tuple(split_sentences(core)) if core else (), trail))
    return _Plan(tuple(lines))


def _kept_lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]


def _rendered(inline: Inline, plan: _Plan, found: dict[str, Translation]) -> Rendered:
    """Put a segment's sentences together, and its tags where they belong."""
    flags: set[str] = set()
    links: list[Link] = []
    text, source_at = "", 0
    for line in plan.lines:
        source_at += len(line.lead)
        text += line.lead
        translations = []
        for part in line.parts:
            translation = found.get(part.text)
            flags.update(translation.flags if translation is not None else ())
            translations.append(part.text if translation is None else _one_line(translation.text, part.text))
        target_at = len(text)
        for n, (part, own) in enumerate(zip(line.parts, translations, strict=True)):
            links += _moved(part.text, found.get(part.text), source_at, target_at)
            source_at += len(part.text) + len(part.separator)
            if n + 1 < len(line.parts):
                pair = (Segment(part.text, part.separator), Segment(line.parts[n + 1].text, ""))
                target_at += len(join([own, translations[n + 1]], pair)) - len(translations[n + 1])
        text += join(translations, line.parts) if line.parts else ""
        text += line.trail
        source_at += len(line.trail)
    placed = place(inline, text, links)
    return Rendered(placed.inline, frozenset(flags | {"tags"} if placed.unplaced else flags))


def _one_line(translation: str, source: str) -> str:
    """A translation without line ends, unless its source had some."""
    if "\n" in source or "\r" in source:
        return translation
    return translation.replace("\r", " ").replace("\n", " ")


def _moved(source: str, translation: Translation | None, source_at: int, target_at: int) -> list[Link]:
    """A sentence's links, as places in the whole text; one to one where nothing was translated."""
    if translation is None:
        return [Link((source_at, source_at + len(source)), (target_at, target_at + len(source)))]
    return [
        Link(
            (link.source[0] + source_at, link.source[1] + source_at),
            (link.target[0] + target_at, link.target[1] + target_at),
        )
        for link in character_links(source, translation)
    ]
