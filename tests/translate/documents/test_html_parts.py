"""A page's parts: put together they are the page; broken ones take no longer than whole ones."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.translate.documents.html_parts import html_parts

PIECES = [
    "<", ">", "/", "!", "--", "<!--", "-->", "<b>", "</b>", "<a href=", '"', "'", "=", " ", "x", "&amp;", "?",
    "<script>", "</script", "<style>", "<br/>", "<![CDATA[", "]]>", "\n", "<p class='a>b'>", "é",
]  # fmt: skip


def kinds(text):
    return [(part.kind, text[part.start : part.end]) for part in html_parts(text)]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_parts_put_together_are_the_page(text):
    parts = list(html_parts(text))
    assert "".join(text[part.start : part.end] for part in parts) == text
    assert all(part.end > part.start for part in parts)
    assert all({a.kind, b.kind} != {"text"} for a, b in pairwise(parts))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a<b>c</b>", [("text", "a"), ("open", "<b>"), ("text", "c"), ("close", "</b>")]),
        ("<BR/>", [("empty", "<BR/>")]),
        ("<a href='x>y' b=\"<i>\">", [("open", "<a href='x>y' b=\"<i>\">")]),
        ("1 < 2 > 0", [("text", "1 < 2 > 0")]),
        ("a<b", [("text", "a<b")]),
        ("<a <b>", [("text", "<a "), ("open", "<b>")]),
        ("<p title=it's>x", [("open", "<p title=it's>"), ("text", "x")]),
        ('<p title="x>y', [("open", '<p title="x>'), ("text", "y")]),
        ("<!-- <b> --!>x", [("comment", "<!-- <b> --!>"), ("text", "x")]),
        ("<!-- never", [("comment", "<!-- never")]),
        ("<!doctype html>x", [("other", "<!doctype html>"), ("text", "x")]),
        ("<?php if (a > b) ?>", [("other", "<?php if (a >"), ("text", " b) ?>")]),
        ("</ x>y", [("other", "</ x>"), ("text", "y")]),
        (
            "<script>if (a<b) '<p>'</SCRIPT >z",
            [("open", "<script>"), ("text", "if (a<b) '<p>'"), ("close", "</SCRIPT >"), ("text", "z")],
        ),
        ("<style>p{}", [("open", "<style>"), ("text", "p{}")]),
    ],
)
def test_what_is_what(text, found):
    assert kinds(text) == found


@pytest.mark.parametrize(
    "piece",
    ["<", "<!--", "<a ", '<a b="', "<a b='\" ", "</", "<!", "<?", "<![CDATA[", "</script", "<script>",
     "<a =\"x>\" ", "<a =' =\"", "--", "<a/", "= ", "</a <", "<!---", '<a b="<a b=\'', "<a" + "\xa0"],
)  # fmt: skip
def test_a_megabyte_of_anything_takes_seconds_at_most(piece):
    text = piece * (10**6 // len(piece))
    begun = time.process_time()
    assert sum(part.end - part.start for part in html_parts(text)) == len(text)
    assert time.process_time() - begun < 10
