"""Translation memories (TMX 1.4) to pairs, in constant memory and without trusting the file.

In: a `.tmx` path and two languages. Out: a `Corpus`; a pair's line is the number of its unit.
Safe: no entity is expanded, no DTD or network read, no huge node accepted; each unit is freed.
Does not know: other XML formats (the `translate` room owns documents).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml import etree

from transduce.errors import DataError
from transduce.text.lines import open_bytes
from transduce.text.pairs import Corpus, Pair, files_fingerprint, one_line

__all__ = ["TmxCorpus"]

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# Inline elements that hold native formatting codes (TMX 1.4b, section 4.6), not text.
_CODES = frozenset({"bpt", "ept", "ph", "it", "ut"})
_LANGUAGES_SHOWN = 12


class TmxCorpus(Corpus):
    """The units of a TMX file that have both languages.

    A language matches by its beginning: `en` takes `en-US` and `EN_gb`, `en-US` only itself.
    Notes: units `skipped` because a language is missing; texts `joined` (a line end inside).
    """

    _unit = "unit "

    def __init__(self, file: Path, source_language: str | None, target_language: str | None) -> None:
        super().__init__(file.name, (file,))
        if source_language is None or target_language is None:
            raise DataError(
                f"{file}: a TMX file may hold many languages; choose two with source_language= "
                "and target_language= (for example en and de)"
            )
        self._languages = (source_language, target_language)

    def __iter__(self) -> Iterator[Pair]:
        self.notes.clear()
        seen: Counter[str] = Counter()
        found = False
        for number, unit in enumerate(_units(self.files[0]), 1):
            texts = _segments(unit)
            seen.update(list(texts))
            source, target = (_choose(texts, language) for language in self._languages)
            if source is None or target is None:
                self.notes["skipped"] += 1
                continue
            found = True
            yield Pair(one_line(source, self.notes), one_line(target, self.notes), number)
        if not found:
            known = ", ".join(name for name, _ in seen.most_common(_LANGUAGES_SHOWN)) or "none"
            raise DataError(
                f"{self.files[0]}: no unit has both {self._languages[0]} and "
                f"{self._languages[1]}; languages in the file: {known}"
            )

    def fingerprint(self) -> str:
        """SHA-256 over the file and the languages."""
        return files_fingerprint(self.files, {"format": "tmx", "languages": self._languages})


def _units(path: Path) -> Iterator[Any]:
    """Yield each <tu> element, and free it afterwards.

    Raises:
        DataError: the file cannot be read or is not well-formed XML.
    """
    with open_bytes(path) as stream:
        try:
            parser = etree.iterparse(
                stream,
                tag="{*}tu",
                resolve_entities=False,
                load_dtd=False,
                no_network=True,
                huge_tree=False,
                remove_comments=True,
                remove_pis=True,
            )
            for _, unit in parser:
                yield unit
                unit.clear(keep_tail=False)
                while unit.getprevious() is not None:
                    del unit.getparent()[0]
        except etree.XMLSyntaxError as error:
            problem = error.msg or "no content"
            raise DataError(f"{path}: not well-formed XML ({problem}); expected TMX") from None


def _segments(unit: Any) -> dict[str, str]:
    """Texts of a unit's languages, named in lower case with hyphens; the first one of each."""
    texts: dict[str, str] = {}
    for variant in unit.iterchildren("{*}tuv"):
        language = variant.get(_XML_LANG) or variant.get("lang") or ""
        segment = next(variant.iterchildren("{*}seg"), None)
        if segment is not None:
            texts.setdefault(language.lower().replace("_", "-"), "".join(_text(segment)))
    return texts


def _text(element: Any) -> Iterator[str]:
    """The text of a segment: that of highlights too, but not of formatting codes."""
    yield element.text or ""
    for child in element.iterchildren(tag=etree.Element):
        if etree.QName(child).localname not in _CODES:
            yield from _text(child)
        yield child.tail or ""


def _choose(texts: dict[str, str], language: str) -> str | None:
    """The text whose language is `language`, or else begins with it."""
    wanted = language.lower().replace("_", "-")
    if wanted in texts:
        return texts[wanted]
    return next((text for name, text in texts.items() if name.startswith(wanted + "-")), None)
