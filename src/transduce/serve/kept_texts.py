"""Texts of `POST /api/v1/translate` that hold what a model cannot write: emoji, unknown scripts, HTML tags.

In: a text; whether it is HTML. Out: a `Text` whose sentences go through the batches like any other, and
whose whole is put together by `translate/segments.py`. Texts without any of it are none of this file's.
Does not know: the queue, engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from transduce.serve.batching import Piece
from transduce.serve.lanes import Content, Text
from transduce.translate.documents.inline import Inline, plain_text
from transduce.translate.kept import unknown_runs
from transduce.translate.segments import Plan
from transduce.translate.split import Segment

if TYPE_CHECKING:
    from transduce.serve.options import TranslateOptions
    from transduce.translate.documents.html import HtmlFragment
    from transduce.translate.translation import Translation
    from transduce.translate.translator import Translator

__all__ = ["KeptText", "fragment", "kept_text"]


def kept_text(
    translator: Translator, index: int, text: str, prefix: str, options: TranslateOptions
) -> KeptText | None:
    """A text of which something must be carried past the model; None where nothing must.

    Args:
        translator: knows which characters the model has pieces for.
        index: the text's place in its request.
        text: the whole.
        prefix: what the translation of its first sentence must begin with.
        options: `format` says whether it is HTML.
    """
    page = fragment(text) if options.format == "html" else None
    if page is None and not unknown_runs(text, translator.knows):
        return None
    plan = Plan(page.inlines if page is not None else [(text,)], knows=translator.knows)
    wanted = list(plan.wanted())
    sentences = [sentence for part, _ in wanted for sentence in part] or [""]
    pieces = [
        Piece(Content(sentence, "" if place else prefix), translator.num_tokens(sentence) + 1)
        for place, sentence in enumerate(sentences)
    ]
    segments = [Segment(sentence, " ") for sentence in sentences]
    segments[-1] = Segment(sentences[-1], "")
    return KeptText(index, text, segments, pieces, plan=plan, page=page, aligned=any(a for _, a in wanted))


@dataclass
class KeptText(Text):
    """A text in sentences, and how they become a whole again."""

    plan: Plan | None = None
    page: HtmlFragment | None = None
    """Where the text is HTML."""
    aligned: bool = False
    """Whether an alignment is needed to put something back."""

    def whole(self, translator: Translator, options: TranslateOptions) -> Translation:
        """The text's translation, with all that was kept."""
        base = super().whole(translator, options)
        found = {segment.text: self._parts[place] for place, segment in enumerate(self.segments)}
        text, flags = self._rendered(found)
        others: tuple[Translation, ...] = ()
        if len(found) == 1:  # alternatives of several sentences are no alternatives of the whole
            sentence = self.segments[0].text
            others = tuple(
                replace(other, text=self._rendered({sentence: other})[0]) for other in base.alternatives
            )
        return replace(
            base,
            text=text,
            flags=tuple(dict.fromkeys([*base.flags, *sorted(flags)])),
            alignment=base.alignment if options.alignment else (),
            alternatives=others,
        )

    def _rendered(self, found: Mapping[str, Translation]) -> tuple[str, frozenset[str]]:
        assert self.plan is not None, "kept_text has made it"
        rendered = self.plan.rendered(found)
        inlines: list[Inline] = [one.inline for one in rendered]
        flags = frozenset().union(*(one.flags & {"tags", "placeholders"} for one in rendered))
        if self.page is not None:
            return self.page.translated(inlines).decode(), flags
        return "".join(map(plain_text, inlines)), flags


def fragment(text: str) -> HtmlFragment:
    """A part of an HTML page, read."""
    from transduce.translate.documents.document import DocumentOptions
    from transduce.translate.documents.html import HtmlFragment

    return HtmlFragment(text.encode(), "the text", DocumentOptions())
