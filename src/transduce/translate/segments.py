"""The segments of a document or a text → their translations, tags and white space in place.

A segment is cut at line ends, tabs and between sentences, because models learn from sentences; what
stands around and between them (indents, line ends, spaces) comes back as it was. Equal sentences are
translated once. Tags go where the alignment of the sentences' words says, and so does what a model
cannot write (`kept.py`).

    plan = Plan(inlines)                        what is to be translated, in any way one likes
    for sentences, alignment in plan.wanted():  found.update(zip(sentences, ...))
    plan.rendered(found)                        a `Rendered` for each inline

Does not know: formats, files, the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from transduce.translate.character_links import character_links
from transduce.translate.documents.inline import Element, Inline, has_words, plain_text
from transduce.translate.documents.placing import Link, place
from transduce.translate.kept import LINE, Keeper, Knows, line_core, unknown_runs
from transduce.translate.protect import Protection, compare, find_spans
from transduce.translate.split import Segment, join, split_sentences

if TYPE_CHECKING:
    from transduce.translate.translator import Translation, Translator

__all__ = ["Plan", "Rendered", "translate_inlines"]

_WINDOW: Final = 1024  # sentences translated together


class Rendered(NamedTuple):
    """A segment's translation."""

    inline: Inline
    flags: frozenset[str]
    """Those of its sentences (see `Translation`); `tags`: some could only be put at the end;
    `placeholders`: one is lost or doubled, or could only be put at the end."""


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
        options: for `Translator.translate`. Placeholders that `protect` names and the search does not
            force (`Protection(force=False)`) are put where they belong afterwards.

    Raises:
        SearchError: an unknown search setting, or settings that contradict each other.
    """
    protect = options.get("protect")
    by_hand = protect if isinstance(protect, Protection) and not protect.force else None
    plan = Plan(inlines, knows=getattr(translator, "knows", None), protection=by_hand)
    found: dict[str, Translation] = {}
    for sentences, alignment in plan.wanted():
        found.update(
            zip(sentences, translator.translate(sentences, alignment=alignment, **options), strict=True)
        )
        if progress is not None:
            progress(len(found))
    return plan.rendered(found)


class Plan:
    """Texts, cut into sentences, and how their translations are put together."""

    def __init__(
        self, inlines: Sequence[Inline], *, knows: Knows | None = None, protection: Protection | None = None
    ) -> None:
        """Cut the texts.

        Args:
            inlines: the texts with their tags.
            knows: whether the model has a piece for a character.
            protection: what is kept as it is, by tags, whatever the model writes.
        """
        self._protection = protection
        # Lines of plain text are planned apart: what is put back then never leaves its line.
        parts = [_plain_lines(inline) for inline in inlines]
        self._counts = [len(part) for part in parts]
        self._inlines = [line for part in parts for line in part]
        self._keepers = [Keeper(inline, knows, protection) for inline in self._inlines]
        self._layouts = [_layout(plain_text(keeper.inline), knows) for keeper in self._keepers]

    def wanted(self) -> Iterator[tuple[list[str], bool]]:
        """Every sentence once, some at a time, and whether their alignments are needed."""
        tagged: dict[str, bool] = {}
        for keeper, layout in zip(self._keepers, self._layouts, strict=True):
            has_tags = any(isinstance(part, Element) for part in keeper.inline)
            for sentence in layout.sentences():
                tagged[sentence] = tagged.get(sentence, False) or has_tags
        for wanted in (True, False):
            sentences = [sentence for sentence, tags in tagged.items() if tags == wanted]
            for at in range(0, len(sentences), _WINDOW):
                yield sentences[at : at + _WINDOW], wanted

    def rendered(self, found: Mapping[str, Translation]) -> list[Rendered]:
        """The texts' translations, in order.

        Args:
            found: what `wanted` named, and its translations.
        """
        lines = (
            self._checked(inline, keeper, _rendered(keeper.inline, layout, found))
            for inline, keeper, layout in zip(self._inlines, self._keepers, self._layouts, strict=True)
        )
        return [_together(list(islice(lines, count))) for count in self._counts]

    def _checked(self, source: Inline, keeper: Keeper, rendered: Rendered) -> Rendered:
        """Take the keeper's tags out, and look at the placeholders of the whole."""
        inline, flags = keeper.restored(rendered.inline), set(rendered.flags)
        if self._protection is not None:
            flags.discard("placeholders")  # the sentences' own, before any was put back
            spans = find_spans(plain_text(source), self._protection)
            difference = compare(spans, plain_text(inline), self._protection)
            if difference.lost or difference.added:
                flags.add("placeholders")
        if keeper.keeps and "tags" in flags and not any(isinstance(part, Element) for part in source):
            flags = flags - {"tags"} | {"placeholders"}
        return Rendered(inline, frozenset(flags))


def _plain_lines(inline: Inline) -> list[Inline]:
    """The lines of a text without tags; else the whole."""
    if len(inline) == 1 and isinstance(inline[0], str) and inline[0]:
        return [(line,) for line in LINE.findall(inline[0]) if line]
    return [inline]


def _together(lines: Sequence[Rendered]) -> Rendered:
    """One text again."""
    if len(lines) == 1:
        return lines[0]
    text = "".join(plain_text(line.inline) for line in lines)
    return Rendered((text,), frozenset().union(*(line.flags for line in lines)))


@dataclass(frozen=True)
class _Layout:
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
    """White space, the line end, and as in `lead` what the model cannot write."""


def _layout(text: str, knows: Knows | None) -> _Layout:
    """Cut a text; put together again, the parts are the text."""
    lines = []
    for line in filter(None, LINE.findall(text)):
        start, end = line_core(line, unknown_runs(line, knows))
        core = line[start:end]
        lines.append(_Line(line[:start], tuple(split_sentences(core)) if core else (), line[end:]))
    return _Layout(tuple(lines))


def _rendered(inline: Inline, layout: _Layout, found: Mapping[str, Translation]) -> Rendered:
    """Put a segment's sentences together, and its tags where they belong."""
    flags: set[str] = set()
    links: list[Link] = []
    text, source_at = "", 0
    for line in layout.lines:
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
