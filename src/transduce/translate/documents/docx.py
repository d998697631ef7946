"""Word documents (DOCX), by python-docx: the paragraphs of body, tables, headers, footers, notes.

Kept: styles, lists, tables, images, fields, comments and every part of the file that is no text; in a
paragraph the format of each run. The format that most of a sentence has is its own; what deviates
(a bold word, a hyperlink) goes around the words that come from it. A tab or a line break parts two
sentences. Fields, images, footnote marks and deleted text are codes in place, and are not translated.
Not kept: where Word had cut equal formats into several runs, and marks of spelling checks, in
paragraphs that were translated. Inserted text that is still tracked stays tracked.
"""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from lxml import etree

from transduce.errors import DataError
from transduce.translate.documents.document import Document
from transduce.translate.documents.inline import Element, Inline, has_words
from transduce.translate.documents.safety import check_archive

__all__ = ["DocxDocument"]

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE: Final = "{http://www.w3.org/XML/1998/namespace}space"
_TEXT_PARTS: Final = ("document.main", "header", "footer", "footnotes", "endnotes")
_AROUND: Final = frozenset({f"{_W}hyperlink", f"{_W}ins", f"{_W}smartTag"})
_BREAKS: Final = frozenset({f"{_W}tab", f"{_W}br", f"{_W}cr", f"{_W}ptab"})
_DROPPED: Final = frozenset({f"{_W}proofErr", f"{_W}lastRenderedPageBreak"})
_INVISIBLE: Final = frozenset({f"{_W}lang", f"{_W}noProof"})  # of a run's format: they do not part runs
_MARKS: Final = {f"{_W}noBreakHyphen": "\u2011", f"{_W}softHyphen": "\u00ad"}


class DocxDocument(Document):
    """A Word document."""

    binary = True

    def read(self) -> None:
        """Find the sentences of all parts that hold text."""
        check_archive(self.data, self.name, max_unpacked=self.options.max_unpacked)
        self._sentences: list[tuple[int, int, _Sentence]] = []  # paragraph, place in it, what it is made of
        for number, paragraph in enumerate(_paragraphs(self._open()[1])):
            for place_in_it, part in enumerate(_parts(paragraph)):
                if isinstance(part, _Sentence) and has_words(part.inline):
                    self._sentences.append((number, place_in_it, part))
                    self.inlines.append(part.inline)

    def render(self, translations: Sequence[Inline]) -> bytes:
        """The document with the paragraphs that changed built anew."""
        document, roots, plain_parts = self._open()
        changed: dict[int, dict[int, Inline]] = {}
        for (number, at, _), inline, source in zip(self._sentences, translations, self.inlines, strict=True):
            if inline is not source:
                changed.setdefault(number, {})[at] = inline
        # From the end: a text box lies inside the paragraph that holds it, which is copied when rebuilt.
        for number, paragraph in reversed(list(enumerate(_paragraphs(roots)))):
            if number in changed:
                _rebuild(paragraph, changed[number])
        for part, root in plain_parts:
            part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
        stream = io.BytesIO()
        document.save(stream)
        return stream.getvalue()

    def _open(self) -> tuple[Any, list[Any], list[tuple[Any, Any]]]:
        """The document, the roots of its parts with text, and the parts that are bytes to python-docx."""
        import docx
        from docx.opc.exceptions import OpcError

        try:
            document = docx.Document(io.BytesIO(self.data))
        except (OpcError, KeyError, ValueError, etree.XMLSyntaxError, AttributeError) as error:
            raise DataError(
                f"{self.name} is no Word document ({error}): open it in an editor and save it as DOCX"
            ) from error
        roots: list[Any] = []
        plain_parts: list[tuple[Any, Any]] = []
        for part in document.part.package.iter_parts():
            if not any(f".{kind}+xml" in part.content_type for kind in _TEXT_PARTS):
                continue
            root = getattr(part, "element", None)
            if root is None:
                root = etree.fromstring(part.blob, etree.XMLParser(resolve_entities=False, no_network=True))
                plain_parts.append((part, root))
            roots.append(root)
        return document, roots, plain_parts


def _paragraphs(roots: Sequence[Any]) -> list[Any]:
    """All paragraphs of all parts with text; of a text box that is stored twice, only the first."""
    fallback = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
    return [
        paragraph
        for root in roots
        for paragraph in root.iter(f"{_W}p")
        if not any(parent.tag == fallback for parent in paragraph.iterancestors())
    ]


class _Sentence:
    """Runs between two breaks: their text with formats, and what each element is."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        sizes: Counter[bytes] = Counter()
        for piece in pieces:
            if piece.kind == "text":
                sizes[_look(piece.format)] += len(piece.text)
        self.usual = max(sizes, key=lambda look: sizes[look], default=b"")
        self.format = next(
            (p.format for p in pieces if p.kind == "text" and _look(p.format) == self.usual), None
        )
        self.table: list[tuple[str, Any]] = []
        self.inline = self._read(pieces)

    def _read(self, pieces: Sequence[_Piece]) -> Inline:
        parts: list[str | Element] = []
        last = b""
        for piece in pieces:
            look = _look(piece.format)
            before = parts[-1] if parts else ""
            if piece.kind != "text":
                self.table.append((piece.kind, piece.node))
                key = len(self.table) - 1
                parts.append(Element(key, self._read(piece.inside) if piece.kind == "around" else ()))
            elif look == self.usual:
                if isinstance(before, str) and parts:
                    parts[-1] = before + piece.text
                else:
                    parts.append(piece.text)
            elif isinstance(before, Element) and self.table[before.key][0] == "run" and look == last:
                parts[-1] = Element(before.key, (f"{before.content[0]}{piece.text}",))
            else:
                self.table.append(("run", piece.format))
                parts.append(Element(len(self.table) - 1, (piece.text,)))
            last = look
        return tuple(parts)

    def build(self, inline: Inline, format_: Any = None) -> list[Any]:
        """Elements of a paragraph for a translation."""
        built: list[Any] = []
        format_ = self.format if format_ is None else format_
        for part in inline:
            if isinstance(part, str):
                built.append(_run(part, format_))
                continue
            kind, node = self.table[part.key]
            if kind == "run":
                built += self.build(part.content, node)
            elif kind == "around":
                shell = copy.deepcopy(node)
                for child in list(shell):
                    shell.remove(child)
                shell.extend(self.build(part.content, format_))
                built.append(shell)
            else:
                built.append(copy.deepcopy(node))
        return built


class _Piece:
    """What a paragraph is made of: text of one format, a code, something around pieces, a break."""

    def __init__(self, kind: str, node: Any, text: str = "", inside: Sequence[_Piece] = ()) -> None:
        self.kind, self.node, self.text, self.inside = kind, node, text, inside
        self.format = node.find(f"{_W}rPr") if kind == "text" else None


def _parts(paragraph: Any) -> list[_Sentence | _Piece]:
    """Sentences and the breaks between them."""
    parts: list[_Sentence | _Piece] = []
    pieces: list[_Piece] = []
    for piece in [*_pieces(paragraph), None]:
        if piece is not None and piece.kind != "break":
            pieces.append(piece)
            continue
        if pieces:
            parts.append(_Sentence(pieces))
        if piece is not None:
            parts.append(piece)
        pieces = []
    return parts


def _pieces(parent: Any) -> list[_Piece]:
    """The children of a paragraph, or of what stands around some of its runs."""
    pieces: list[_Piece] = []
    depth = 0  # of fields, whose beginning, text and end are runs of their own
    for child in parent:
        if child.tag == f"{_W}pPr" or child.tag in _DROPPED:
            continue
        if child.tag == f"{_W}r":
            before = depth
            for mark in child.iterchildren(f"{_W}fldChar"):
                depth += {"begin": 1, "end": -1}.get(mark.get(f"{_W}fldCharType"), 0)
            in_field = before > 0 or depth > 0 or child.find(f"{_W}fldChar") is not None
            pieces += [_Piece("code", child)] if in_field else _run_pieces(child)
        elif child.tag in _AROUND and not _has_breaks(child):
            pieces.append(_Piece("around", child, inside=_pieces(child)))
        else:
            pieces.append(_Piece("code", child))
    return pieces


def _has_breaks(element: Any) -> bool:
    """Whether something in it would part a sentence."""
    return any(child.tag in _BREAKS or child.tag == f"{_W}fldChar" for child in element.iter(etree.Element))


def _run_pieces(run: Any) -> list[_Piece]:
    """A run's texts, breaks and codes, each as a run of its own."""
    pieces: list[_Piece] = []
    for child in run:
        if child.tag == f"{_W}rPr" or child.tag in _DROPPED:
            continue
        text = (child.text or "") if child.tag == f"{_W}t" else _MARKS.get(child.tag)
        if text is not None:
            if text:
                pieces.append(_Piece("text", run, text))
            continue
        alone = copy.copy(run)
        for other in list(alone):
            if other.tag != f"{_W}rPr":
                alone.remove(other)
        alone.append(copy.deepcopy(child))
        pieces.append(_Piece("break" if child.tag in _BREAKS else "code", alone))
    return pieces


def _rebuild(paragraph: Any, translations: dict[int, Inline]) -> None:
    """Replace a paragraph's content; sentences without a new translation get their own text again."""
    built: list[Any] = []
    for at, part in enumerate(_parts(paragraph)):
        if isinstance(part, _Sentence):
            built += part.build(translations.get(at, part.inline))
        else:
            built.append(part.node)
    for child in list(paragraph):
        if child.tag != f"{_W}pPr":
            paragraph.remove(child)
    paragraph.extend(built)


def _run(text: str, format_: Any) -> Any:
    """A run of text."""
    run = etree.Element(f"{_W}r")
    if format_ is not None:
        run.append(copy.deepcopy(format_))
    element = etree.SubElement(run, f"{_W}t")
    element.text = "".join(c for c in text if c >= " " and c not in "\ufffe\uffff")
    element.set(_SPACE, "preserve")
    return run


def _look(format_: Any) -> bytes:
    """What tells two formats apart, as far as a reader can see."""
    if format_ is None:
        return b""
    return b"".join(
        sorted(etree.tostring(child, method="c14n") for child in format_ if child.tag not in _INVISIBLE)
    )
