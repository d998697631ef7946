"""XLIFF 1.2 and 2.x: every source that has no target yet gets one.

Inline elements are copied into the target, each exactly once: `<g>`, `<pc>`, `<mrk>` around the words
that come from theirs, codes (`<x/>`, `<ph>`, `<bpt>`, `<ept>`, `<sc/>`, `<ec/>` …) where they belong;
what is marked as not to be translated stays as it is. A target that stands is kept, unless
`retranslate`. New targets are marked: `needs-review-translation` (1.2, unless not wanted),
`translated` (2.x).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lxml import etree

from transduce.errors import DataError
from transduce.translate.documents.document import Document
from transduce.translate.documents.inline import Inline, has_words
from transduce.translate.documents.safety import parse_xml
from transduce.translate.documents.xml_inline import Role, Table, clear, fill, read_inline, serialise

__all__ = ["XliffDocument"]

_AROUND: Final = frozenset({"g", "pc", "mrk"})
_BEFORE_TARGET: Final = ("{*}source", "{*}seg-source")


class XliffDocument(Document):
    """A translation project's exchange file."""

    def read(self) -> None:
        """Find the units to translate."""
        self._root = parse_xml(self.data, self.name).getroot()
        name = etree.QName(self._root)
        version = self._root.get("version", "")
        if name.localname != "xliff" or version.partition(".")[0] not in ("1", "2"):
            raise DataError(f"{self.name} is no XLIFF 1.x or 2.x file (its root is <{name.localname}>)")
        self._second = version.startswith("2")
        self._numbers: list[int] = []  # of the sources to translate, among all of the file
        self._tables: list[Table] = []
        wanted = "segment" if self._second else "trans-unit"
        for number, source in enumerate(self._root.iter("{*}source")):
            unit = source.getparent()
            if etree.QName(unit).localname == wanted and _translatable(unit):
                self._take(number, unit, source)

    def render(self, translations: Sequence[Inline]) -> bytes:
        """The file with targets."""
        root = parse_xml(self.data, self.name)
        sources = list(root.iter("{*}source"))
        for number, inline, table in zip(self._numbers, translations, self._tables, strict=True):
            self._set_target(sources[number], inline, table)
        self._set_language(root.getroot())
        return serialise(root, self.data)

    def _take(self, number: int, unit: Any, source: Any) -> None:
        target = next(unit.iterchildren("{*}target"), None)
        if target is not None and "".join(target.itertext()).strip() and not self.options.retranslate:
            self.notes["kept"] += 1
            return
        table: Table = []
        inline = read_inline(source, _role, table)
        if has_words(inline):
            self._numbers.append(number)
            self._tables.append(table)
            self.inlines.append(inline)

    def _set_target(self, source: Any, inline: Inline, table: Table) -> None:
        """Replace the target beside `source`, or make one behind it."""
        unit = source.getparent()
        target = next(unit.iterchildren("{*}target"), None)
        if target is None:
            target = etree.Element(etree.QName(etree.QName(source).namespace, "target"))
            last = list(unit.iterchildren(*_BEFORE_TARGET))[-1]
            tail = last.tail
            last.addnext(target)
            target.tail = tail
            last.tail = unit.text  # the same indent as the source has
        clear(target)
        fill(target, inline, table)
        if self._second:
            unit.set("state", "translated")
        elif self.options.fuzzy:
            target.set("state", "needs-review-translation")

    def _set_language(self, root: Any) -> None:
        """Name the target language where the file leaves it open."""
        language = self.options.target_language
        places = (
            [(root, "trgLang")]
            if self._second
            else [(file, "target-language") for file in root.iter("{*}file")]
        )
        for element, attribute in places:
            if language and not element.get(attribute):
                element.set(attribute, language)


def _translatable(unit: Any) -> bool:
    """Whether neither the unit nor what it is in says translate="no"; the nearest word counts."""
    for element in (unit, *unit.iterancestors()):
        said = element.get("translate")
        if said is not None:
            return bool(said == "yes")
    return True


def _role(element: Any) -> Role:
    name = etree.QName(element).localname
    if name == "mrk" and (element.get("translate") == "no" or element.get("mtype") == "protected"):
        return "fixed"
    return "around" if name in _AROUND else "lone"
