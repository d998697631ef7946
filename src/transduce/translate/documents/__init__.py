"""Documents: files in other people's formats ⇄ segments to translate.

    document = open_document(path)              a `Document` of the format that the name tells
    document.segments                           list[str], in order
    document.write(path, translations)          the same file, with one translation for each segment

One file a format; `registry.py` lists them, `safety.py` reads what strangers send, `inline.py` and
`placing.py` keep the tags inside a sentence in place. The libraries of some formats are the extra
`documents`; nothing is imported before a format is asked for. Knows no translator and no model.
"""

from __future__ import annotations

from transduce.translate.documents.document import Document, DocumentOptions
from transduce.translate.documents.inline import Element, Inline, plain_text
from transduce.translate.documents.placing import Link, Placed, place
from transduce.translate.documents.registry import FORMATS, document_of, format_of, open_document

__all__ = [
    "FORMATS",
    "Document",
    "DocumentOptions",
    "Element",
    "Inline",
    "Link",
    "Placed",
    "document_of",
    "format_of",
    "open_document",
    "place",
    "plain_text",
]
