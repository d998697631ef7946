"""Files from strangers: nothing grows, nothing is fetched, nothing leads out of the file."""

from __future__ import annotations

import io
import random
import stat
import struct
import zipfile

import pytest

from document_samples import docx_sample
from transduce.errors import DataError
from transduce.translate.documents import DocumentOptions, open_document, safety
from transduce.translate.documents.safety import check_archive, parse_xml, read_document

XLIFF = (
    '<xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source>{}</source>'
    "</trans-unit></body></file></xliff>"
)
LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "haha">'
    + "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(12))
    + "]>"
)


@pytest.mark.parametrize(
    "doctype",
    [
        pytest.param(LAUGHS, id="billion laughs"),
        pytest.param('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>', id="a local file"),
        pytest.param('<!DOCTYPE x [<!ENTITY a SYSTEM "http://127.0.0.1:9/x">]>', id="the network"),
        pytest.param('<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>', id="a parameter entity"),
        pytest.param(
            '<!DOCTYPE x SYSTEM "x.dtd" [<!ATTLIST source a CDATA "b">]>', id="an attribute's default"
        ),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_declarations_are_refused(tmp_path, doctype, encoding):
    path = tmp_path / "a.xlf"
    content = f'<?xml version="1.0" encoding="{encoding}"?>{doctype}' + XLIFF.format(
        "&a;" if "ENTITY a" in doctype else "a"
    )
    path.write_bytes(content.encode(encoding))
    with pytest.raises(DataError, match="declares entities"):
        open_document(path)


def test_a_document_type_that_is_only_named_is_not_read(tmp_path):
    """TMX files name their DTD; nothing is loaded from there, wherever it is."""
    (tmp_path / "x.dtd").write_text('<!ENTITY a "from the file">')
    tree = parse_xml(f'<!DOCTYPE xliff SYSTEM "{tmp_path}/x.dtd">{XLIFF.format("a")}'.encode(), "a.xlf")
    assert "from the file" not in "".join(tree.getroot().itertext())


def test_huge_depth_is_refused(tmp_path):
    (tmp_path / "a.xlf").write_text(XLIFF.format("<g>" * 100_000 + "</g>" * 100_000))
    with pytest.raises(DataError, match=r"a\.xlf"):
        open_document(tmp_path / "a.xlf")


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.srt"])
def test_deep_nesting_ends_in_time_and_without_traceback(tmp_path, name):
    text = {
        "a.html": "<b>" * 30_000 + "x",
        "a.md": "> " * 3_000 + "*" * 3_000 + "[" * 3_000 + "x",
        "a.srt": "",
    }[name]
    text = text or "1\n00:00:01,000 --> 00:00:02,000\n" + "<i>" * 30_000 + "x\n"
    (tmp_path / name).write_text(text)
    document = open_document(tmp_path / name)
    assert document.translated(document.segments).decode() == text


@pytest.mark.parametrize("depth", [70, 300, 5_000])
def test_deep_nesting_that_is_closed_is_kept_and_translated(tmp_path, depth):
    text = "<p>a" + "<b>" * depth + "x" + "</b>" * depth + " c</p>"
    (tmp_path / "a.html").write_text(text)
    document = open_document(tmp_path / "a.html")
    assert document.translated(document.segments).decode() == text
    out = document.translated(["Q"]).decode()
    assert out.count("<b>") == out.count("</b>") == depth


def test_a_document_has_a_greatest_size(tmp_path):
    (tmp_path / "a.po").write_bytes(b"#" * 2000)
    with pytest.raises(DataError, match="larger than 0 MiB, the most a document may have"):
        read_document(tmp_path / "a.po", max_bytes=1999)
    assert len(read_document(tmp_path / "a.po", max_bytes=2000)) == 2000


def test_a_compressed_document_is_not_unpacked_further_than_that(tmp_path, monkeypatch):
    import gzip

    (tmp_path / "a.md.gz").write_bytes(gzip.compress(bytes(50_000_000)))
    monkeypatch.setattr(safety, "_SMALL_PART", 0)
    with pytest.raises(DataError, match="larger than"):
        open_document(tmp_path / "a.md.gz", max_bytes=1_000_000)


# --- Archives -----------------------------------------------------------------------------------


def archive(parts, compression=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as writer:
        for name, content in parts:
            writer.writestr(name, content)
    return stream.getvalue()


def test_a_part_that_unpacks_to_far_more_is_refused():
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        check_archive(archive([("word/document.xml", bytes(20_000_000))]), "a.docx")


def test_an_archive_that_unpacks_to_too_much_is_refused():
    parts = [(f"{i}.bin", bytes(1_000_000)) for i in range(4)]
    with pytest.raises(DataError, match="unpacks to 4 MiB, more than the 2 MiB allowed"):
        check_archive(archive(parts), "a.docx", max_unpacked=3_000_000)


def test_a_size_that_is_told_falsely_does_not_help(tmp_path):
    """The central directory says 100 bytes; what is read stops there, and the checksum is wrong."""
    data = bytearray(archive([("word/document.xml", bytes(20_000_000))]))
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.index(signature)
        data[at + offset : at + offset + 4] = struct.pack("<I", 100)
    (tmp_path / "a.docx").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.docx"):
        open_document(tmp_path / "a.docx")


@pytest.mark.parametrize(
    "name", ["../../evil.xml", "/etc/passwd", "word/../../x", "..\\x", "C:\\x", "C:/x", "a/.."]
)
def test_names_that_lead_out_are_refused(name):
    with pytest.raises(DataError, match="leads elsewhere"):
        check_archive(archive([(name, b"<a/>")]), "a.docx")


def test_links_and_doubled_names_are_refused():
    link = zipfile.ZipInfo("word/document.xml")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(DataError, match="leads elsewhere"):
        check_archive(archive([(link, "/etc/passwd")]), "a.docx")
    with pytest.warns(UserWarning, match="Duplicate name"):
        doubled = archive([("a.xml", b"<a/>"), ("a.xml", b"<a/>")])
    with pytest.raises(DataError, match="leads elsewhere"):
        check_archive(doubled, "a.docx")


def test_many_parts_and_encryption_are_refused(monkeypatch):
    monkeypatch.setattr(safety, "_MAX_PARTS", 3)
    with pytest.raises(DataError, match="4 parts, more than 3"):
        check_archive(archive([(f"{i}", b"") for i in range(4)]), "a.docx")
    data = bytearray(archive([("a.xml", b"<a/>")]))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DataError, match="encrypted"):
        check_archive(bytes(data), "a.docx")


def test_entities_in_a_part_are_refused(tmp_path):
    parts = []
    with zipfile.ZipFile(io.BytesIO(docx_sample())) as good:
        for name in good.namelist():
            content = good.read(name)
            if name == "word/document.xml":
                content = content.replace(
                    b"?>", b"?>" + LAUGHS.replace("<!DOCTYPE x", "<!DOCTYPE w:document").encode(), 1
                )
            parts.append((name, content))
    (tmp_path / "a.docx").write_bytes(archive(parts))
    with pytest.raises(DataError, match=r"part word/document\.xml: its document type declares entities"):
        open_document(tmp_path / "a.docx")


def test_parts_that_lie_over_one_another_are_refused():
    """Every part's entry points at the same packed bytes: an archive grows with its list alone."""
    data = archive([("a.xml", b"<a>" + random.Random(0).randbytes(50_000).hex().encode() + b"</a>")])
    entry = data[data.index(b"PK\x01\x02") : data.index(b"PK\x05\x06")]
    more = b"".join(entry.replace(b"a.xml", f"{i}.xml".encode()) for i in range(1, 10))
    end = bytearray(data[data.index(b"PK\x05\x06") :])
    end[8:16] = struct.pack("<HHI", 10, 10, len(entry) + len(more))
    with pytest.raises(DataError, match="lie over one another"):
        check_archive(data[: data.index(b"PK\x05\x06")] + more + bytes(end), "a.docx")


def test_entities_in_a_part_of_another_name_are_refused():
    """What is XML in a DOCX file its list of content types says, not the ending of a name."""
    for name in ("word/document.bin", "word/document", "word/document.XML"):
        with pytest.raises(DataError, match="declares entities"):
            check_archive(archive([("a.xml", b"<a/>"), (name, LAUGHS.encode() + b"<x>&m;</x>")]), "a.docx")


@pytest.mark.parametrize("encoding", ["utf-32", "cp037", "gb18030", "shift_jis"])
def test_entities_in_an_encoding_that_expat_does_not_know_are_refused(encoding):
    declared = "ISO-10646-UCS-4" if encoding == "utf-32" else encoding
    text = f'<?xml version="1.0" encoding="{declared}"?><!DOCTYPE x [<!ENTITY a "b">]><x y="&a;">&a;</x>'
    with pytest.raises(DataError, match=r"declares entities|not well-formed"):
        parse_xml(text.encode(encoding), "a.xlf")


@pytest.mark.parametrize("cut", [10, 500, 5000])
def test_a_damaged_archive_is_told_in_one_line(tmp_path, cut):
    (tmp_path / "a.docx").write_bytes(docx_sample()[:-cut])
    with pytest.raises(DataError, match=r"a\.docx") as caught:
        open_document(tmp_path / "a.docx", options=DocumentOptions())
    assert "\n" not in str(caught.value)
