"""Translation memories (TMX 1.4) as documents: units that lack the target language get it.

To *train* on a TMX file, name it as `--source` of `transduce train`; here it is translated. Formatting
codes (`<bpt>`, `<ph>` …) are copied, each exactly once; `<hi>` goes around what comes from it.
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

__all__ = ["TmxDocument"]

_LANG: Final = "{http://www.w3.org/XML/1998/namespace}lang"


class TmxDocument(Document):
    """A translation memory."""

    def read(self) -> None:
        """Find the units that lack the target language."""
        self._root = parse_xml(self.data, self.name).getroot()
        if etree.QName(self._root).localname != "tmx":
            raise DataError(f"{self.name} is no TMX file (its root is <{etree.QName(self._root).localname}>)")
        if not self.options.target_language:
            raise DataError(
                f"{self.name}: a TMX file needs to know the target language, and the model does not say it"
            )
        self._units: list[int] = []
        self._tables: list[Table] = []
        header = next(self._root.iterchildren("{*}header"), None)
        said = "" if header is None else header.get("srclang", "")
        language = self.options.source_language or ("" if said == "*all*" else said)
        if not language:
            raise DataError(
                f"{self.name}: neither the model nor the file's srclang says which language to translate from"
            )
        for number, unit in enumerate(self._root.iter("{*}tu")):
            source, target = _variant(unit, language), _variant(unit, self.options.target_language)
            if source is None:
                self.notes["skipped"] += 1
            elif target is not None and "".join(target.itertext()).strip() and not self.options.retranslate:
                self.notes["kept"] += 1
            else:
                self._take(number, source)

    def render(self, translations: Sequence[Inline]) -> bytes:
        """The file with the units' new variants."""
        root = parse_xml(self.data, self.name)
        units = list(root.iter("{*}tu"))
        for number, inline, table in zip(self._units, translations, self._tables, strict=True):
            self._set_variant(units[number], inline, table)
        return serialise(root, self.data)

    def _take(self, number: int, source: Any) -> None:
        table: Table = []
        inline = read_inline(source, _role, table)
        if has_words(inline):
            self._units.append(number)
            self._tables.append(table)
            self.inlines.append(inline)

    def _set_variant(self, unit: Any, inline: Inline, table: Table) -> None:
        segment = _variant(unit, self.options.target_language)
        if segment is None:
            last = list(unit.iterchildren("{*}tuv"))[-1]
            space = etree.QName(last).namespace
            variant = etree.Element(etree.QName(space, "tuv"), {_LANG: self.options.target_language})
            segment = etree.SubElement(variant, etree.QName(space, "seg"))
            variant.text, segment.tail, tail = last.text, last[-1].tail, last.tail
            last.addnext(variant)
            variant.tail, last.tail = tail, unit.text  # indented as the others are
        clear(segment)
        fill(segment, inline, table)


def _variant(unit: Any, language: str) -> Any:
    """The <seg> of a unit in a language: `en` takes `en-US`, if there is no `en`."""
    wanted = language.lower().replace("_", "-")
    near = None
    for variant in unit.iterchildren("{*}tuv"):
        name = (variant.get(_LANG) or variant.get("lang") or "").lower().replace("_", "-")
        segment = next(variant.iterchildren("{*}seg"), None)
        if name == wanted:
            return segment
        if near is None and name.startswith(wanted + "-"):
            near = segment
    return near


def _role(element: Any) -> Role:
    return "around" if etree.QName(element).localname == "hi" else "lone"
