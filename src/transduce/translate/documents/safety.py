"""Files from strangers: sizes are bounded, XML declares nothing, archives unpack to what they say.

Every document is read through here before a library sees it. Does not know: formats' contents.
"""

from __future__ import annotations

import contextlib
import io
import stat
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn
from xml.parsers import expat

from transduce.errors import DataError
from transduce.text.lines import open_bytes

if TYPE_CHECKING:
    from zipfile import ZipInfo

__all__ = ["MAX_BYTES", "check_archive", "parse_xml", "read_document"]

MAX_BYTES: Final = 64 * 2**20
"""Most bytes of a document, as it lies on disk (or unpacked from `.gz` and `.zst`)."""
_MAX_UNPACKED: Final = 512 * 2**20
_MAX_RATIO: Final = 200  # text packs 5 to 20 times, repetitive XML up to 100 times
_SMALL_PART: Final = 2**20  # below this, how well a part was packed does not matter
_MAX_PARTS: Final = 10_000
_BLOCK: Final = 64 * 2**10  # bytes read at once


def read_document(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a file, if it is not larger than a document may be.

    Raises:
        DataError: the file cannot be read, or is too large.
    """
    with open_bytes(path) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise DataError(
            f"{path} is larger than {max_bytes // 2**20} MiB, the most a document may have: split it, or "
            "translate it as lines (--input-format text), whose number does not matter"
        )
    return data


def parse_xml(data: bytes, name: str) -> Any:
    """Parse XML without entities, DTD or network.

    A document type is passed over when it only names a DTD (TMX files do), and refused when it
    declares anything: that is how entities grow a thousandfold or read other files.

    Args:
        data: the file.
        name: for messages.

    Returns:
        An lxml element tree.

    Raises:
        DataError: it is no well-formed XML, or declares entities.
    """
    from lxml import etree

    _refuse_declarations(io.BytesIO(data), name)
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, strip_cdata=False
    )
    try:
        tree = etree.parse(io.BytesIO(data), parser)
    except etree.XMLSyntaxError as error:
        raise DataError(
            f"{name}: not well-formed XML ({error.msg or 'no content'}); mend or export it again"
        ) from None
    # In an encoding that expat does not know and libxml2 does, nothing was seen so far.
    declared = tree.docinfo.internalDTD
    if (
        declared is not None
        and next(chain(declared.iterentities(), declared.iterelements()), None) is not None
    ):
        _refuse(name)
    return tree


class _Seen(Exception):  # noqa: N818 -- no error: it ends the reading
    """The root element has begun: nothing is declared after it."""


def _refuse_declarations(stream: IO[bytes], name: str) -> None:
    """Read up to the root element.

    Raises:
        DataError: the document type declares something.
    """

    def doctype(_name: str, _system: str | None, _public: str | None, declares: int) -> None:
        if declares:
            _refuse(name)

    def root(_name: str, _attributes: object) -> NoReturn:
        raise _Seen

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = root
    # What is malformed or oddly encoded, lxml tells better.
    with contextlib.suppress(_Seen, expat.ExpatError, ValueError, LookupError):
        while block := stream.read(_BLOCK):
            parser.Parse(block, False)


def _refuse(name: str) -> NoReturn:
    raise DataError(
        f"{name}: its document type declares entities, which can blow up or read files: refused; "
        "remove the <!DOCTYPE …[…]> at its beginning"
    )


def check_archive(data: bytes, name: str, *, max_unpacked: int = _MAX_UNPACKED) -> None:
    """Look at a zip archive (DOCX) before anything is unpacked.

    Args:
        data: the archive.
        name: for messages.
        max_unpacked: most bytes of all its parts.

    Raises:
        DataError: it is no zip archive, is encrypted, unpacks to too much, has names that lead out of
            it, or XML parts that declare entities.
    """
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = archive.infolist()
            _check_sizes(parts, name, len(data), max_unpacked)
            for part in parts:  # whatever its name is: the archive's own list says which parts are XML
                with archive.open(part) as stream:
                    _refuse_declarations(stream, f"{name}, part {part.filename}")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise DataError(f"{name} is no readable zip archive ({error}); expected a DOCX file") from error


def _check_sizes(parts: list[ZipInfo], name: str, size: int, max_unpacked: int) -> None:
    if len(parts) > _MAX_PARTS:
        raise DataError(f"{name} holds {len(parts):,} parts, more than {_MAX_PARTS:,}; it is refused")
    total = sum(part.file_size for part in parts)
    if total > max_unpacked:
        raise DataError(
            f"{name} unpacks to {total / 2**20:,.0f} MiB, more than the {max_unpacked // 2**20} MiB "
            "allowed; it is refused"
        )
    if sum(part.compress_size for part in parts) > size:
        raise DataError(
            f"{name}: its parts lie over one another, as in an archive made to grow; it is refused"
        )
    seen: set[str] = set()
    for part in parts:
        if part.flag_bits & 1:
            raise DataError(f"{name} is encrypted: save it without a password")
        if part.file_size > _SMALL_PART and part.file_size > _MAX_RATIO * max(1, part.compress_size):
            raise DataError(
                f"{name}: its part {part.filename} unpacks to more than {_MAX_RATIO} times its size, as an "
                "archive made to fill memory does; it is refused"
            )
        pieces = part.filename.replace("\\", "/").split("/")
        link = stat.S_ISLNK(part.external_attr >> 16)
        if pieces[0] == "" or ".." in pieces or ":" in pieces[0] or link or part.filename in seen:
            raise DataError(f"{name}: the name of its part {part.filename!r} leads elsewhere; it is refused")
        seen.add(part.filename)
