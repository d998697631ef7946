"""Gettext catalogues (PO, POT), by polib: what has no translation yet gets one.

In: entries without translation, or all with `retranslate`; obsolete ones never. Each line of a
message is a line of its translation (the translator's business). Plural forms: every form of the
catalogue's `Plural-Forms` gets the translation of `msgid_plural`, except the one that it uses for
n = 1, which gets that of `msgid`. Translations are marked fuzzy unless asked otherwise; gettext does
not use them until somebody has looked. Comments, references, contexts and order stay; long lines are
broken anew, as polib does (78 columns).
"""

from __future__ import annotations

import gettext
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from transduce.errors import DataError
from transduce.translate.documents.document import Document, decode
from transduce.translate.documents.inline import Inline, has_words, plain_text

if TYPE_CHECKING:
    import polib

__all__ = ["PoDocument"]

_CHARSET: Final = re.compile(rb"\"Content-Type:[^\n]*?charset=([\w.:-]+)", re.IGNORECASE)
_PLURAL: Final = re.compile(r"nplurals\s*=\s*(?P<count>\d+)\s*;\s*plural\s*=\s*(?P<rule>[^;]+)")
_NO_HEADER: Final = '#\nmsgid ""\nmsgstr ""\n\n'
_MOST_FORMS: Final = 10
_USUAL: Final = (2, "n != 1")


class PoDocument(Document):
    """A catalogue."""

    _encoding = "utf-8"

    def read(self) -> None:
        """Find the entries to translate."""
        self._doubtful: set[int] = set()
        self._slots: list[tuple[int, bool]] = []  # entry, and whether it is its plural text
        for number, entry in enumerate(self._parse()):
            if entry.obsolete:
                continue
            if _is_translated(entry) and not self.options.retranslate:
                self.notes["kept"] += 1
                continue
            texts = [(entry.msgid, False), *([(entry.msgid_plural, True)] if entry.msgid_plural else [])]
            for text, plural in texts:
                if has_words((text,)):
                    self._slots.append((number, plural))
                    self.inlines.append((text,))
        if any(plural for _, plural in self._slots) and self._forms() is None:
            self.notes["plural"] += 1

    def render(self, translations: Sequence[Inline]) -> bytes:
        """The catalogue with new msgstr lines."""
        catalogue = self._parse()
        texts: dict[int, dict[bool, str]] = {}
        for (number, plural), inline in zip(self._slots, translations, strict=True):
            texts.setdefault(number, {})[plural] = plain_text(inline)
        for number, found in texts.items():
            self._fill(catalogue[number], found, fuzzy=self.options.fuzzy or number in self._doubtful)
        try:
            return _written(catalogue).encode(self._encoding)
        except UnicodeEncodeError:  # an old charset that lacks a letter of the target language
            catalogue.metadata["Content-Type"] = "text/plain; charset=UTF-8"
            return _written(catalogue).encode()

    def doubt(self, index: int) -> None:
        """Let the entry be fuzzy in any case."""
        self._doubtful.add(self._slots[index][0])

    def _parse(self) -> polib.POFile:
        import polib

        match = _CHARSET.search(self.data[:8192])
        declared = match[1].decode("ascii").lower() if match and match[1] != b"CHARSET" else None
        text, self._encoding = decode(self.data, self.name, repair=self.options.repair, declared=declared)
        if not text.strip("\ufeff \t\r\n"):
            raise DataError(f"{self.name} is empty; expected a gettext catalogue")
        if "msgid" not in text:
            raise DataError(f"{self.name} has no msgid: expected a gettext catalogue (PO)")
        try:
            # Through a file: a text that polib is given is also cut at U+2028 (TRAPS, users 27).
            with tempfile.TemporaryDirectory() as directory:
                copy = Path(directory) / "catalogue.po"
                copy.write_bytes(text.removeprefix("\ufeff").encode("utf-8", "replace"))
                catalogue = polib.pofile(str(copy), encoding="utf-8")
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise DataError(
                f"{self.name} is no gettext catalogue: {_where(error)}; `msgfmt --check` tells more"
            ) from None
        self._metadata: dict[str, str] = catalogue.metadata
        return catalogue

    def _fill(self, entry: polib.POEntry, texts: dict[bool, str], *, fuzzy: bool) -> None:
        """Write one entry's translation into every form it has."""
        if entry.msgid_plural:
            count, rule = self._forms() or _USUAL
            single = gettext.c2py(rule)(1)
            one = texts.get(False, entry.msgid)
            many = texts.get(True, entry.msgid_plural)
            entry.msgstr_plural = {i: one if i == single and count > 1 else many for i in range(count)}
        else:
            entry.msgstr = texts[False]
        entry.previous_msgid = entry.previous_msgid_plural = entry.previous_msgctxt = None
        if "fuzzy" in entry.flags:
            entry.flags.remove("fuzzy")
        if fuzzy:
            entry.flags.insert(0, "fuzzy")

    def _forms(self) -> tuple[int, str] | None:
        """Number of plural forms and the rule that chooses one, as the header tells them."""
        match = _PLURAL.search(self._metadata.get("Plural-Forms", ""))
        if match is None or not 1 <= int(match["count"]) <= _MOST_FORMS:
            return None
        rule = match["rule"].strip()
        try:
            chosen = gettext.c2py(rule)(1)
        except (ValueError, RecursionError, ZeroDivisionError):
            return None
        return (int(match["count"]), rule) if 0 <= chosen < int(match["count"]) else None


def _is_translated(entry: polib.POEntry) -> bool:
    """Whether something stands in the entry; a fuzzy text is somebody's draft and counts too."""
    if entry.msgid_plural:
        return bool(entry.msgstr_plural) and all(entry.msgstr_plural.values())
    return bool(entry.msgstr)


def _written(catalogue: polib.POFile) -> str:
    """The catalogue's text; a header that it does not have is not made up."""
    text = str(catalogue).rstrip() + "\n"
    return text if catalogue.metadata or catalogue.header else text.removeprefix(_NO_HEADER)


def _where(error: Exception) -> str:
    """Polib's message, without its idea of a file's name."""
    match = re.search(r"line (\d+)", str(error))
    return f"line {match[1]} is not understood" if match else "it is not understood"
