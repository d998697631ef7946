"""Each format: what is read, what comes back unchanged, and what a translation changes and no more."""

from __future__ import annotations

import gzip
import io
import re
import time
import zipfile

import polib
import pysubs2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from document_samples import SAMPLES, docx_sample
from transduce.errors import DataError
from transduce.translate.documents import DocumentOptions, open_document
from transduce.translate.segments import translate_inlines
from word_by_word import WordByWord

OPTIONS = DocumentOptions(source_language="en", target_language="de")
BYTE_EQUAL = ["text", "html", "srt", "vtt", "markdown"]


@pytest.fixture
def opened(tmp_path):
    def open_sample(name, **options):
        file, content, _ = SAMPLES[name]
        path = tmp_path / file
        path.write_bytes(content.encode())
        return open_document(
            path, options=DocumentOptions(source_language="en", target_language="de", **options)
        )

    return open_sample


def of_text(tmp_path, name, content, **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_document(path, options=DocumentOptions(source_language="en", target_language="de", **options))


def by_words(document, **how):
    """The document with its words in capitals and in reversed order."""
    return document.translated([r.inline for r in translate_inlines(WordByWord(**how), document.inlines)])


@pytest.mark.parametrize("name", SAMPLES)
def test_segments_are_the_texts_in_order(name, opened):
    assert opened(name).segments == SAMPLES[name][2]


@pytest.mark.parametrize("name", BYTE_EQUAL)
def test_what_is_not_changed_comes_back_byte_by_byte(name, opened):
    document = opened(name)
    assert document.translated(document.segments) == SAMPLES[name][1].encode()
    assert document.translated(document.inlines) == SAMPLES[name][1].encode()


@pytest.mark.parametrize("name", BYTE_EQUAL)
def test_one_changed_segment_changes_nothing_else(name, opened):
    document = opened(name)
    for index, segment in enumerate(document.segments):
        translations = [*document.segments]
        translations[index] = "Q"
        changed = document.translated(translations).decode()
        source = SAMPLES[name][1]
        first = next(i for i, (a, b) in enumerate(zip(changed, source, strict=False)) if a != b)
        tail = next(i for i, (a, b) in enumerate(zip(changed[::-1], source[::-1], strict=False)) if a != b)
        lost = source[first : len(source) - tail]
        assert first + tail <= len(source)
        assert len(lost) <= 3 * len(segment) + 60, f"{lost!r} was replaced for {segment!r}"


@pytest.mark.parametrize("name", SAMPLES)
def test_tags_stay_whole_in_every_format(name, opened):
    """The same tags as often as before; nesting is the format's parser's to judge below."""
    document = opened(name)
    out = by_words(document).decode()
    tag = re.compile(r"</?[a-z]+\b[^>]*>|\*\*|\{\\an8\}|`[^`]+`|\]\([^)]*\)")
    if name in ("html", "srt", "vtt", "markdown"):
        expected = SAMPLES[name][1].replace('alt="a cat"', 'alt="CAT A"').replace('"A page"', '"PAGE A"')
        assert sorted(tag.findall(out)) == sorted(tag.findall(expected))


def test_a_number_of_translations_that_is_not_that_of_the_segments(opened):
    with pytest.raises(DataError, match="has 3 segments, and 2 translations came"):
        opened("text").translated(["a", "b"])


# --- HTML ---------------------------------------------------------------------------------------


def test_html_tags_follow_their_words(tmp_path):
    document = of_text(tmp_path, "a.html", "<p>Press <b>the red</b> key &amp; <code>go()</code> now</p>")
    assert by_words(document).decode() == "<p>NOW <code>go()</code> &amp; KEY <b>RED THE</b> PRESS</p>"


def test_html_attributes_inside_a_sentence_are_translated_too(tmp_path):
    document = of_text(tmp_path, "a.html", '<p>See <img alt="a &quot;cat&quot;" src="c"> here</p>')
    assert document.segments == ["See  here", 'a "cat"']
    out = document.translated(["Siehe  hier", 'eine "Katze" <x>']).decode()
    assert out == '<p>Siehe  hier<img alt="eine &quot;Katze&quot; &lt;x&gt;" src="c"></p>'
    alone = document.translated(["See  here", "Katze"]).decode()
    assert alone == '<p>See <img alt="Katze" src="c"> here</p>'


def test_html_buttons_are_read_and_other_fields_are_not(tmp_path):
    page = '<input type="submit" value="Send it"><input type=text value="kept"><button>Go on</button>'
    document = of_text(tmp_path, "a.html", page)
    assert document.segments == ["Send it", "Go on"]


def test_html_text_is_escaped(tmp_path):
    document = of_text(tmp_path, "a.html", "<p>one</p>")
    assert document.translated(["a < b & c"]) == b"<p>a &lt; b &amp; c</p>"


def test_html_in_another_encoding(tmp_path):
    page = '<meta charset="iso-8859-1"><p>Grüße</p>'.encode("latin-1")
    document = of_text(tmp_path, "a.html", page)
    assert document.segments == ["Grüße"]
    assert document.translated(["Grüße"]) == page
    assert b"<p>\xfc &#322;</p>" in document.translated(["ü ł"])


@given(st.text(alphabet="ab<>/&;!-\"'= \nip", max_size=60))
def test_any_html_comes_back(text):
    from transduce.translate.documents.html import HtmlDocument

    data = text.encode()
    document = HtmlDocument(data, "any", OPTIONS)
    assert document.translated(document.segments) == data
    by_words(document)


# --- Markdown -----------------------------------------------------------------------------------


def test_markdown_marks_follow_their_words(tmp_path):
    document = of_text(tmp_path, "a.md", "> Press **the red** [key](k.md 'K') and `go()`\n> now\n")
    assert by_words(document).decode() == "> NOW `go()` AND [KEY](k.md 'K') **RED THE** PRESS\n"


def test_markdown_text_cannot_become_markup(tmp_path):
    from markdown_it import MarkdownIt

    for word in (
        "# a",
        "- a",
        "1. a",
        "* x *",
        "[a](b)",
        "`c`",
        "<b>",
        "&amp;",
        "a_b_ _c_",
        "\\*",
        "> q",
        "+ p",
        "===",
    ):
        document = of_text(tmp_path, "a.md", "> 1. one\n")
        out = document.translated([word]).decode()
        (inline,) = [t for t in MarkdownIt("commonmark").parse(out) if t.type == "inline"]
        assert "".join(child.content for child in inline.children) == word, out


@given(st.text(alphabet="ab*_`[]()<>!\\#->|&;~:1. \n\t", max_size=50))
def test_any_markdown_comes_back(text):
    from transduce.translate.documents.markdown import MarkdownDocument

    document = MarkdownDocument(text.encode(), "any", OPTIONS)
    assert document.translated(document.segments) == text.encode()
    by_words(document)


# --- Subtitles ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["srt", "vtt"])
def test_times_and_numbers_stay_and_pysubs2_reads_the_result(name, opened):
    out = by_words(opened(name), reverse=False).decode()
    before, after = (pysubs2.SSAFile.from_string(text, format_=name) for text in (SAMPLES[name][1], out))
    assert [(e.start, e.end) for e in before] == [(e.start, e.end) for e in after]
    assert [e.plaintext.upper() for e in before] == [e.plaintext.upper() for e in after]


def test_a_cue_keeps_its_number_of_lines(tmp_path):
    cue = "1\n00:00:01,000 --> 00:00:02,000\nHello there,\nhow are you today?\n"
    document = of_text(tmp_path, "a.srt", cue)
    out = document.translated(["Eins zwei drei vier fünf sechs"]).decode()
    assert out.endswith("Eins zwei drei\nvier fünf sechs\n")


@pytest.mark.parametrize(("name", "words"), [("a.srt", "no cues"), ("a.vtt", "WEBVTT")])
def test_no_subtitles(tmp_path, name, words):
    with pytest.raises(DataError, match=words):
        of_text(tmp_path, name, "just text\n")


# --- PO -----------------------------------------------------------------------------------------


def catalogue(data):
    return {(e.msgctxt, e.msgid): e for e in polib.pofile(data.decode() + "\n")}


def test_po_fills_what_is_empty_and_marks_it(opened):
    document = opened("po")
    entries = catalogue(document.translated(["Hallo %s", "%d Datei", "%d Dateien", "zwei\nZeilen\n"]))
    hello = entries[None, "Hello %s"]
    assert (hello.msgstr, hello.flags) == ("Hallo %s", ["fuzzy", "python-format"])
    assert entries["x", "%d file"].msgstr_plural == {0: "%d Datei", 1: "%d Dateien", 2: "%d Dateien"}
    assert entries[None, "two\nlines\n"].msgstr == "zwei\nZeilen\n"
    done = entries[None, "done"]
    assert (done.msgstr, done.previous_msgid) == ("fertig", "old")  # somebody's draft is kept
    assert entries[None, "obsolete"].obsolete
    assert document.notes["kept"] == 1


def test_po_without_marks_but_for_what_is_doubtful(opened):
    document = opened("po", fuzzy=False)
    document.doubt(0)
    entries = catalogue(document.translated(document.segments))
    assert "fuzzy" in entries[None, "Hello %s"].flags
    assert "fuzzy" not in entries[None, "two\nlines\n"].flags


def test_po_translates_again_on_request(opened):
    document = opened("po", retranslate=True)
    assert document.segments[1] == "done"
    entries = catalogue(document.translated([s.upper() for s in document.segments]))
    assert entries[None, "done"].msgstr == "DONE"
    assert entries[None, "done"].previous_msgid is None


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("nplurals=1; plural=0;", ["N"]),
        ("nplurals=2; plural=n > 1;", ["1", "N"]),
        ("nplurals=4; plural=(n%100==1 ? 2 : n%100==2 ? 0 : 3);", ["N", "N", "1", "N"]),
        ("nplurals=INTEGER; plural=EXPRESSION;", ["1", "N"]),
        ("nplurals=2; plural=__import__('os');", ["1", "N"]),
        ("nplurals=99999999; plural=0;", ["1", "N"]),
        ("nplurals=2; plural=" + "(" * 300 + "n" + ")" * 300 + ";", ["1", "N"]),
        ("nplurals=2; plural=1/0;", ["1", "N"]),
    ],
)
def test_po_plural_forms_are_those_of_the_header(tmp_path, rule, expected):
    text = f'msgid ""\nmsgstr "Plural-Forms: {rule}\\n"\n\nmsgid "one"\nmsgid_plural "many"\n'
    document = of_text(tmp_path, "a.po", text + 'msgstr[0] ""\nmsgstr[1] ""\n')
    (entry,) = polib.pofile(document.translated(["1", "N"]).decode() + "\n")
    assert list(entry.msgstr_plural.values()) == expected


def test_po_leaves_a_charset_that_cannot_hold_the_translation(tmp_path):
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n\n'
    text = header + 'msgid "Gr\xfc\xdfe"\nmsgstr ""\n'
    document = of_text(tmp_path, "a.po", text.encode("latin-1"))
    assert document.segments == ["Grüße"]
    assert "Grüße" in document.translated(["Grüße"]).decode("latin-1")
    assert "charset=UTF-8" in document.translated(["Привет"]).decode()


def test_po_only_a_line_feed_ends_a_line(tmp_path):
    document = of_text(tmp_path, "a.po", 'msgid "one\u2028two"\nmsgstr ""\n')
    assert document.segments == ["one\u2028two"]


# --- XLIFF and TMX ------------------------------------------------------------------------------


def test_xliff_1_gets_targets_with_their_tags(opened):
    out = by_words(opened("xliff"))
    root = etree.fromstring(out)
    target = next(root.iter("{*}target"))
    assert (
        etree.tostring(target, encoding="unicode", with_tail=False).split(">", 1)[1]
        == ('NOW <g id="1">BUTTON<x id="2"/> THE</g> PRESS</target>')
        or "".join(target.itertext()) == "NOW BUTTON THE PRESS"
    )
    assert target.get("state") == "needs-review-translation"
    assert [etree.QName(e).localname for e in target.iter()][1:] == ["g", "x"]
    assert next(root.iter("{*}file")).get("target-language") == "de"
    assert out.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n')


@pytest.mark.parametrize("name", ["xliff", "xliff2", "tmx"])
def test_xml_without_the_new_translations_is_the_old_xml(name, opened):
    """What was added taken away again: canonical forms are equal."""
    document = opened(name)
    root = etree.fromstring(document.translated(document.segments))
    for unit in root.iter("{*}trans-unit", "{*}segment", "{*}tu"):
        for child in list(unit):
            new = child.get("state") or child.get("{http://www.w3.org/XML/1998/namespace}lang") == "de"
            if (new or (name == "xliff2" and child.tag.endswith("target"))) and "Fertig" not in "".join(
                child.itertext()
            ):
                assert "".join(child.itertext()).strip() == SAMPLES[name][2][0] or name == "tmx"
                unit.remove(child)
        unit.attrib.pop("state", None)
    for element in root.iter("{*}file", "{*}xliff"):
        element.attrib.pop("target-language", None)
        element.attrib.pop("trgLang", None)
    parser = etree.XMLParser(remove_blank_text=True, load_dtd=False)
    forms = [
        re.sub(rb">\s+<", b"><", etree.tostring(tree, method="c14n"))
        for tree in (root, etree.fromstring(SAMPLES[name][1].encode(), parser))
    ]
    assert forms[0] == forms[1]


def test_xliff_2_keeps_codes_and_what_is_not_to_be_translated(opened):
    out = by_words(opened("xliff2"))
    target = next(etree.fromstring(out).iter("{*}target"))
    assert "".join(target.itertext()) == "Acme THERE YOU HI"
    assert sorted(etree.QName(e).localname for e in target.iter()) == ["mrk", "pc", "ph", "target"]
    assert next(target.iter("{*}pc")).text == "YOU"


def test_tmx_gets_a_variant_and_keeps_its_codes(opened):
    out = by_words(opened("tmx"))
    units = list(etree.fromstring(out).iter("tu"))
    new = units[0].findall("tuv")[1]
    assert new.get("{http://www.w3.org/XML/1998/namespace}lang") == "de"
    assert [child.tag for child in new.find("seg")] in (["bpt", "ept"], ["ept", "bpt"])
    assert len(units[1].findall("tuv")) == 2
    assert b'<!DOCTYPE tmx SYSTEM "tmx14.dtd">' in out


# --- DOCX ---------------------------------------------------------------------------------------


@pytest.fixture
def word(tmp_path):
    path = tmp_path / "a.docx"
    path.write_bytes(docx_sample())
    return open_document(path)


def parts_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_docx_segments_and_an_unchanged_round_trip(word):
    assert word.segments[:6] == [
        "A heading",
        "Press the bold key now.",
        "First",
        "second",
        "third",
        "Cell one",
    ]
    assert sorted(word.segments[6:]) == ["Footer text", "Header text"]
    assert parts_of(word.translated(word.segments)) == parts_of(word.data)


def test_docx_formats_follow_their_words(word):
    import docx

    before, after = parts_of(word.data), parts_of(by_words(word))
    assert {name for name in before if before[name] != after[name]} <= {
        "word/document.xml", "word/header1.xml", "word/footer1.xml",
    }  # fmt: skip
    document = docx.Document(io.BytesIO(by_words(word)))
    heading, sentence, tabbed = document.paragraphs
    assert (heading.text, heading.style.name) == ("HEADING A", "Heading 1")
    assert [(run.text, run.bold) for run in sentence.runs] == [
        ("NOW. KEY ", None), ("BOLD", True), (" THE PRESS", None),
    ]  # fmt: skip
    assert tabbed.text == "FIRST\tSECOND\nTHIRD"
    assert document.tables[0].cell(0, 0).text == "ONE CELL"
    assert document.sections[0].header.paragraphs[0].text == "TEXT HEADER"


def test_docx_codes_and_links_stay(tmp_path):
    """A field, a hyperlink, a footnote's mark: each once; the field's own text is not translated."""
    import docx
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    document = docx.Document()
    paragraph = document.add_paragraph("See ")
    for xml in (
        '<w:hyperlink {} w:anchor="a"><w:r><w:t>the page</w:t></w:r></w:hyperlink>',
        '<w:r {}><w:t xml:space="preserve"> number </w:t></w:r>',
        '<w:r {}><w:fldChar w:fldCharType="begin"/></w:r>',
        "<w:r {}><w:instrText>PAGE</w:instrText></w:r>",
        '<w:r {}><w:fldChar w:fldCharType="separate"/></w:r>',
        "<w:r {}><w:t>7</w:t></w:r>",
        '<w:r {}><w:fldChar w:fldCharType="end"/></w:r>',
        '<w:r {}><w:t xml:space="preserve"> today</w:t></w:r>',
    ):
        paragraph._p.append(parse_xml(xml.format(nsdecls("w"))))
    document.save(tmp_path / "a.docx")
    opened = open_document(tmp_path / "a.docx")
    assert opened.segments == ["See the page number  today"]
    out = docx.Document(io.BytesIO(by_words(opened)))
    (link,) = out.paragraphs[0].hyperlinks
    assert link.text == "PAGE THE"
    xml = out.paragraphs[0]._p.xml
    order = list(re.findall(r'fldCharType="(\w+)"|<w:(instrText)', xml))
    assert order == [("begin", ""), ("", "instrText"), ("separate", ""), ("end", "")]
    assert xml.count(">7<") == 1


# --- Any format ---------------------------------------------------------------------------------


def test_compressed_and_marked_files(tmp_path):
    document = of_text(tmp_path, "a.md.gz", gzip.compress(b"\xef\xbb\xbf# Hello\r\n"))
    assert document.segments == ["Hello"]
    assert document.translated(["Hallo"]) == b"\xef\xbb\xbf# Hallo\r\n"


def test_utf_16(tmp_path):
    data = "\ufeffone\r\ntwo\r\n".encode("utf-16-le")
    document = of_text(tmp_path, "a.txt", data)
    assert document.segments == ["one", "two"]
    assert document.translated(document.segments) == data


def test_paragraphs_become_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("A text that is\nas wide as a page.\n\n  Another\n  one.\n")
    document = open_document(path, "paragraphs")
    assert document.segments == ["A text that is as wide as a page.", "Another one."]
    assert document.translated(document.segments) == path.read_bytes()
    assert document.translated(["A.", "B."]) == b"A.\n\n  B.\n"


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polib", None)
    with pytest.raises(DataError, match=r"pip install 'transduce\[documents\]'"):
        of_text(tmp_path, "a.po", 'msgid "a"\nmsgstr ""\n')


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.xlf", "<xliff", "not well-formed XML"),
        ("a.xlf", "<html/>", "no XLIFF"),
        ("a.xlf", '<xliff version="3.0"/>', "no XLIFF"),
        ("a.tmx", "<html/>", "no TMX file"),
        ("a.po", "", "is empty"),
        ("a.po", "hello\n", "has no msgid"),
        ("a.po", 'msgid "a"\nmsgstr ""\nnonsense\n', "line 3"),
        ("a.docx", "no zip", "no readable zip archive"),
        ("a.docx", b"PK\x05\x06" + bytes(18), "no Word document"),
        ("a.html", b"<p>\xff</p>", "a.html:1: byte 0xff is not UTF-8"),
        ("a.html", b"<meta charset=klingon><p>a</p>", "klingon"),
        ("a.md", b"a\n\xe4\n", "a.md:2: byte 0xe4"),
    ],
)
def test_what_is_no_such_document_is_told_in_one_line(tmp_path, name, content, words):
    with pytest.raises(DataError, match=re.escape(words)) as caught:
        of_text(tmp_path, name, content)
    assert "\n" not in str(caught.value)


def test_bytes_are_repaired_on_request(tmp_path):
    assert of_text(tmp_path, "a.md", b"a\xff\n", repair=True).segments == ["a\ufffd"]


def test_cues_without_a_blank_line_between_them_stay_apart(tmp_path):
    times = "00:00:01,000 --> 00:00:02,000"
    text = f"1\n{times}\none\n2\n{times}\ntwo\nthree\n{times}\n3\n\n9\n{times}\nfour"
    (tmp_path / "a.srt").write_text(text)
    document = open_document(tmp_path / "a.srt")
    assert document.segments == ["one", "two three", "four"]
    assert document.translated(["A", "B C", "D"]).decode() == (
        f"1\n{times}\nA\n2\n{times}\nB\nC\n{times}\n3\n\n9\n{times}\nD"
    )


def test_many_times_without_text_take_no_time(tmp_path):
    (tmp_path / "a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\n- a\n" * 20_000)
    begun = time.process_time()
    document = open_document(tmp_path / "a.srt")
    assert len(document.segments) == 20_000
    assert time.process_time() - begun < 10
