"""Spans that stay as they are: found where they stand, and only there; losses are told."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import DataError
from transduce.translate.protect import Difference, Protection, compare, find_spans


def texts(source, protection=None):
    return [span.text for span in find_spans(source, protection)]


@pytest.mark.parametrize(
    ("source", "spans"),
    [
        ("Hello {name}, you have {0:.2f} {{ coins }}", ["{name}", "{0:.2f}", "{{ coins }}"]),
        ("${HOME} %{count} #{x} {} {% if a %}", ["${HOME}", "%{count}", "#{x}", "{}", "{% if a %}"]),
        ("%s of %(total)d, %1$s %-5.2f %@ %%", ["%s", "%(total)d", "%1$s", "%-5.2f", "%@", "%%"]),
        ("100% sure, 5%, 20 % discount, 50%off", []),
        ("See https://a.org/b_(c)?d=1#e. Or (www.b.de).", ["https://a.org/b_(c)?d=1#e", "www.b.de"]),
        ("请看https://a.org/b。谢谢", ["https://a.org/b"]),
        ("Write to jo.smith+x@mail.example.org!", ["jo.smith+x@mail.example.org"]),
        ("Run `ls -l {dir}` or ``a`b``", ["`ls -l {dir}`", "``a`b``"]),
        ("{n, plural, one {# item}} stays for the reader of ICU", []),
        ("a { b } c", []),
        ("", []),
    ],
)
def test_what_is_a_span(source, spans):
    assert texts(source) == spans


def test_kinds_are_chosen_and_own_patterns_come_first():
    source = "<b>ACME-12</b> costs 1,000.50 in 2026"
    assert texts(source) == []
    assert texts(source, Protection(("tags",))) == ["<b>", "</b>"]
    assert texts(source, Protection(("numbers",))) == ["12", "1,000.50", "2026"]
    assert texts(source, Protection((), (r"[A-Z]+-\d+",))) == ["ACME-12"]
    (span,) = find_spans("say {x}", Protection(patterns=(r"\{x\}",)))
    assert (span.kind, span.start, span.end) == ("own", 4, 7)
    assert [span.apart for span in find_spans("%s, %dpx 看{x}")] == [True, False, True]


@given(st.text(alphabet="a{}%s`@.:/w(1) <>\n", max_size=30))
def test_spans_are_parts_of_the_text_in_order_and_do_not_overlap(source):
    everything = Protection(("code", "url", "email", "braces", "printf", "tags", "numbers"), ("a+",))
    end = 0
    for span in find_spans(source, everything):
        assert end <= span.start < span.end
        assert source[span.start : span.end] == span.text
        end = span.end
    spans = find_spans(source, everything)
    assert compare(spans, source, everything) == Difference((), ())


@given(st.lists(st.sampled_from(["{a}", "{b}", "%s", "`x`"]), max_size=5), st.data())
def test_what_is_left_out_is_lost_and_what_is_written_twice_is_added(spans, data):
    source = " and ".join(spans)
    found = find_spans(source)
    assert [span.text for span in found] == spans
    kept = data.draw(st.lists(st.sampled_from(spans), unique=True)) if spans else []
    lost, added = compare(found, " und ".join(kept))
    assert sorted([*kept, *lost]) == sorted(spans)
    assert added == ()
    assert compare(found, " und ".join([*spans, *kept])) == ((), tuple(sorted(kept, key=spans.index)))


def test_differences():
    spans = find_spans("Open {file} at https://a.org.")
    assert compare(spans, "Öffne https://a.org!") == (("{file}",), ())
    assert compare(spans, "Öffne {file} {file} auf https://a.org, %s") == ((), ("{file}", "%s"))
    five = Protection(("numbers",))
    assert compare(find_spans("5 men", five), "15 Männer", five) == (("5",), ("15",))


def test_a_bad_pattern_or_kind_says_what_is_right():
    with pytest.raises(DataError, match=re.escape("the pattern '(' is no regular expression")):
        Protection(patterns=("(",))
    with pytest.raises(DataError, match="unknown kind of protected text 'links'; there are code, url"):
        Protection(kinds=("links",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "piece",
    ["`", "`a", "``a`", "{%", "{", "{{a", "%", "%(", "%0", "%1", "0", "a", "a.", "www.", "http://", "a@",
     "a@b.", ")", "1,", "1,1a", "&a", "<a", "{a", "%(a"],
)  # fmt: skip
def test_twenty_thousand_characters_of_anything_take_no_second(piece):
    everything = Protection(kinds=("code", "url", "email", "braces", "printf", "tags", "numbers"))
    for text in (
        piece * (20_000 // len(piece)),
        "http://a" + piece * (20_000 // len(piece)),
        "%" + piece * 9_000,
    ):
        begun = time.process_time()
        find_spans(text, everything)
        assert time.process_time() - begun < 3
