"""One small file of each format, with everything in it that must survive."""

from __future__ import annotations

import io

__all__ = ["SAMPLES", "docx_sample"]

SAMPLES: dict[str, tuple[str, str, list[str]]] = {
    # name, content, segments
    "text": ("a.txt", "One line.\r\n\r\n   two\nthree\n\n", ["One line.", "two", "three"]),
    "html": (
        "a.html",
        """<!DOCTYPE html>
<html lang=en><head><title>My &amp; page</title><meta name="description" content="A page">
<meta name=viewport content="width=1"><style>p{}</style></head>
<body><p CLASS='x' >Hello <b>big</b> world<br>second line <code>x = 1</code> here.
<p>Unclosed <i>tag <img alt="a cat" src=c.png> and </p><!-- c --><ul>
<li><a href="x">Link only</a></li><li>2</ul>
<script>if (a < b) document.write("<p>no</p>")</script><pre>code here</pre><div translate=no>Not me</div>
<p>But <span class="notranslate">ACME</span> rules &copy; 2020&nbsp;ok</p></body></html>
""",
        [
            "My & page",
            "A page",
            "Hello big world",
            "second line x = 1 here.",
            "Unclosed tag  and",
            "a cat",
            "Link only",
            "But ACME rules © 2020\xa0ok",
        ],
    ),
    "srt": (
        "a.srt",
        "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Hello there,\r\nhow are you?</i>\r\n\r\n2\r\n"
        "00:00:03,000 --> 00:00:04,000 X1:3\r\n- Fine {\\an8}thanks\r\n- Good\r\n\r\n3\r\n"
        "00:00:05,000 --> 00:00:06,000\r\n42\r\n",
        ["Hello there, how are you?", "Fine thanks", "Good"],
    ),
    "vtt": (
        "a.vtt",
        "WEBVTT - title\n\nNOTE a note\n\nSTYLE\n::cue{}\n\nid1\n00:01.000 --> 00:02.000 align:start\n"
        "<v Roger>Hi &amp; <c.yellow>bye</c> now\n\n",
        ["Hi & bye now"],
    ),
    "markdown": (
        "a.md",
        """---
title: x
---
# A *b* c #

> One **two words**
> three\\
> four [x y](http://a.b "t") and `co` &amp; \\* <b>hi</b> ![al](i.png) end

| a | b |
|---|---|
| c \\| d | e *f* |

- item
  more
1. [ ] task
   - nested __strong__

Set
ext
===

    code

```py
x = 1
```

[ref]: http://x
[ref] and [t *u*][ref] <http://auto.link> ok [1] (foo)

<div>
html
</div>
""",
        [
            "A b c",
            "One two words three",
            "four x y and co & * hi  end",
            "a",
            "b",
            "c | d",
            "e f",
            "item more",
            "task",
            "nested strong",
            "Set ext",
            "ref and t u http://auto.link ok [1] (foo)",
        ],
    ),
    "po": (
        "a.po",
        """# c
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n<5 ? 1 : 2);\\n"

#: a.py:1
#, python-format
msgid "Hello %s"
msgstr ""

#, fuzzy
#| msgid "old"
msgid "done"
msgstr "fertig"

msgctxt "x"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgid "two\\n"
"lines\\n"
msgstr ""

#~ msgid "obsolete"
#~ msgstr "x"
""",
        ["Hello %s", "%d file", "%d files", "two\nlines\n"],
    ),
    "xliff": (
        "a.xlf",
        """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file source-language="en" original="a" datatype="x"><body>
    <trans-unit id="1">
      <source>Press <g id="1">the <x id="2"/>button</g> now</source>
      <note>a note</note>
    </trans-unit>
    <trans-unit id="2"><source>Done</source><target>Fertig</target></trans-unit>
    <trans-unit id="3" translate="no"><source>Nope</source></trans-unit>
    <group translate="no"><trans-unit id="4"><source>Nope</source></trans-unit></group>
  </body></file>
</xliff>
""",
        ["Press the button now"],
    ),
    "xliff2": (
        "b.xlf",
        """<?xml version="1.0"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file id="f">
<unit id="u"><segment>
<source>Hi <pc id="1">you</pc><ph id="2"/> there <mrk id="m" translate="no">Acme</mrk></source>
</segment></unit></file></xliff>
""",
        ["Hi you there Acme"],
    ),
    "tmx": (
        "a.tmx",
        """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
  <tu>
    <tuv xml:lang="en-US">
      <seg>Hi <bpt i="1">&lt;b&gt;</bpt>you<ept i="1">&lt;/b&gt;</ept> there</seg>
    </tuv>
  </tu>
  <tu><tuv xml:lang="en"><seg>Done</seg></tuv><tuv xml:lang="de"><seg>Fertig</seg></tuv></tu>
</body></tmx>
""",
        ["Hi you there"],
    ),
}


def docx_sample() -> bytes:
    """A heading, formats inside a sentence, a tab, a table, a header, a footer."""
    import docx

    document = docx.Document()
    document.add_heading("A heading")
    paragraph = document.add_paragraph("Press the ")
    paragraph.add_run("bold").bold = True
    paragraph.add_run(" key now.")
    document.add_paragraph().add_run("First\tsecond\nthird")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Cell one", "42"
    document.sections[0].header.paragraphs[0].text = "Header text"
    document.sections[0].footer.paragraphs[0].text = "Footer text"
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()
