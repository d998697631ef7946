"""Documents over HTTP: they come back valid, with every tag and placeholder, or a problem says why not."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile

import polib
import pysubs2
import pytest
from lxml import etree

from document_samples import SAMPLES, docx_sample
from transduce.serve.documents import DocumentDesk
from transduce.serve.problems import Problem
from transduce.translate.documents import DocumentOptions, document_of

URL = "/api/v1/documents"


def send(client, name, content, **fields):
    content = content.encode() if isinstance(content, str) else content
    return client.post(URL, files={"file": (name, content)}, data={"target": "de", **fields})


def translated(client, name, content, **fields):
    answer = send(client, name, content, **fields)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_format_comes_back_as_it_is_written(client, kind):
    name, content, segments = SAMPLES[kind]
    answer = translated(client, name, content)
    report = json.loads(answer.headers["transduce-report"])
    assert report["segments"] == len(segments)
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
    # A network that has learnt nothing may write no letter; the file is whole all the same.
    options = DocumentOptions(target_language="xx")
    document_of(answer.content, name, {"xliff2": "xliff"}.get(kind, kind), options=options)


def test_a_po_file_keeps_its_placeholders_and_is_fuzzy(client):
    texts = ["%(n)d lights in {user}'s house", "see https://example.org/a?b=1 for `ls -l`"]
    content = "".join(f'msgid "{text}"\nmsgstr ""\n\n' for text in texts)
    catalogue = polib.pofile(translated(client, "app.po", content).content.decode())
    for entry, kept in zip(
        catalogue, [("%(n)d", "{user}"), ("https://example.org/a?b=1", "`ls -l`")], strict=True
    ):
        assert entry.fuzzy
        assert [entry.msgstr.count(one) for one in kept] == [1, 1]
    content = 'msgid "one"\nmsgstr ""\n'
    plain = polib.pofile(translated(client, "app.po", content, fuzzy="false").content.decode())
    assert not plain[0].fuzzy


def test_an_xliff_file_keeps_its_tags(client):
    name, content, _ = SAMPLES["xliff"]
    root = etree.fromstring(translated(client, name, content).content)
    target = root.find(".//{*}target")
    assert [element.get("id") for element in target.iter("{*}g", "{*}x")] == ["1", "2"]
    assert root.find(".//{*}file").get("target-language") == "de"


def test_subtitles_keep_their_times(client):
    name, content, _ = SAMPLES["srt"]
    before, after = (
        pysubs2.SSAFile.from_string(text)
        for text in (content, translated(client, name, content).content.decode())
    )
    assert [(e.start, e.end) for e in after] == [(e.start, e.end) for e in before]


def test_a_word_document_keeps_its_parts(client):
    sample = docx_sample()
    answer = translated(client, "a.docx", sample)
    before, after = (zipfile.ZipFile(io.BytesIO(data)) for data in (sample, answer.content))
    assert sorted(after.namelist()) == sorted(before.namelist())
    assert "wordprocessingml" in answer.headers["content-type"]


def test_a_page_is_answered_as_a_file_that_runs_nothing(client):
    answer = translated(client, "a.html", "<p>one <b>two</b></p><script>alert(1)</script>")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.text.endswith("<script>alert(1)</script>")


def test_the_format_can_be_named(client):
    assert translated(client, "page", "<p>one</p>", format="html").text.startswith("<p>")
    assert translated(client, "page.txt", "<p>", format="text", source="en").status_code == 200


def bomb(ratio=1):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("word/document.xml", bytes(ratio * 1_000_000))
    return stream.getvalue()


LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><xliff version="1.2"><source>&b;</source></xliff>'
)
UNIT = (
    '<xliff version="1.2"><file><body><trans-unit id="1"><source>{}</source></trans-unit></body></file>'
    "</xliff>"
)


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        pytest.param("a.xlf", LAUGHS, 422, "declares entities", id="billion laughs"),
        pytest.param("a.xlf", "<xliff", 422, "not well-formed", id="half a file"),
        pytest.param("a.xlf", UNIT.format("<g>" * 5000 + "</g>" * 5000), 422, "a.xlf", id="deep"),
        pytest.param("a.docx", bomb(50), 422, "more than 200 times", id="a zip bomb"),
        pytest.param("a.docx", b"PK\x03\x04 no zip", 422, "no readable zip", id="no zip"),
        pytest.param("a.docx", "text", 422, "no readable zip", id="no docx"),
        pytest.param("a.po", "", 422, "the file is empty", id="empty"),
        pytest.param("a.po", "hello", 422, "has no msgid", id="no catalogue"),
        pytest.param("a.srt", b"\xff\xfa", 422, "UTF-8", id="no UTF-8"),
        pytest.param("a.pdf", "x", 415, "format", id="unknown"),
        pytest.param("a.po.gz", "x", 415, "not compressed", id="compressed"),
        pytest.param("", "x", 422, "#/file", id="no name"),
        pytest.param("../../etc/passwd", "x", 415, "'passwd'", id="a path"),
        pytest.param("..\\..\\a.po", 'msgid "one"\nmsgstr ""', 200, "", id="a path of Windows"),
        pytest.param("a.txt", "one two. " * 60_000, 413, "500000", id="too much text"),
        pytest.param("a.txt", "x" * 10_000_001, 413, "10000000", id="too large"),
    ],
)
def test_files_from_strangers(client, name, content, status, words):
    answer = send(client, name, content)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert words in answer.json()["detail"]
        assert not re.search(r"/work|/tmp|site-packages|Traceback", answer.text)


@pytest.mark.parametrize(
    ("request_of", "status"),
    [
        pytest.param(lambda c: c.post(URL), 415, id="nothing"),
        pytest.param(lambda c: c.post(URL, json={"file": "x"}), 415, id="JSON"),
        pytest.param(lambda c: c.post(URL, data={"target": "de"}), 415, id="a form without files"),
        pytest.param(lambda c: c.post(URL, files={"document": ("a.po", b"x")}), 422, id="another name"),
        pytest.param(
            lambda c: c.post(URL, files=[("file", ("a.po", b"x")), ("file", ("b.po", b"y"))]), 400, id="two"
        ),
        pytest.param(lambda c: send(c, "a.po", "x", target="xx"), 404, id="no such language"),
        pytest.param(lambda c: send(c, "a.po", "x", fuzzy="perhaps"), 422, id="no boolean"),
        pytest.param(lambda c: send(c, "a.po", "x", fuzy="true"), 422, id="an unknown field"),
        pytest.param(lambda c: send(c, "a.po", "x", format="pdf"), 415, id="an unknown format"),
        pytest.param(
            lambda c: c.post(URL, content=b"x", headers={"content-type": "multipart/form-data"}),
            400,
            id="no boundary",
        ),
        pytest.param(
            lambda c: c.post(
                URL, content=b"--a\r\nx", headers={"content-type": "multipart/form-data; boundary=a"}
            ),
            422,
            id="half a form",
        ),
    ],
)
def test_wrong_forms(client, request_of, status):
    answer = request_of(client)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_detection_says_when_it_cannot_tell(client):
    found = client.post(
        "/api/v1/detect", json={"text": "The bus leaves from the corner of the street."}
    ).json()
    assert found["language"] == "en"
    assert found["candidates"][0]["confidence"] > 0.9
    assert client.post("/api/v1/detect", json={"text": "ok"}).json()["language"] is None
    assert client.post("/api/v1/detect", json={"text": 3}).status_code == 422


def test_too_many_documents_at_once_are_told_to_come_back():
    """Two are worked on, six may wait, the next is refused; places are freed, also by who gives up."""

    async def scenario():
        desk = DocumentDesk(max_bytes=1000, max_characters=1000)
        done = asyncio.Event()

        async def hand_in():
            async with desk._place():
                await done.wait()

        tasks = [asyncio.create_task(hand_in()) for _ in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as caught:
            await hand_in()
        assert (caught.value.status, caught.value.headers["Retry-After"]) == (429, "5")
        tasks[7].cancel()
        await asyncio.sleep(0.01)
        tasks[7] = asyncio.create_task(hand_in())
        done.set()
        await asyncio.gather(*tasks)
        await hand_in()

    asyncio.run(scenario())
