"""Segments through a translator: sentences, lines and spaces as they were, tags by the alignment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.translate.character_links import character_links, token_places
from transduce.translate.documents.inline import Element, plain_text
from transduce.translate.documents.placing import Link
from transduce.translate.segments import translate_inlines
from transduce.translate.translator import Translator
from word_by_word import WordByWord


def texts(*given, **how):
    return [plain_text(r.inline) for r in translate_inlines(WordByWord(**how), [(text,) for text in given])]


def test_sentences_are_translated_one_by_one_and_joined_as_they_stood():
    assert texts("The red key. Press it  now!\n\n  And go.") == ["KEY. RED THE NOW! IT PRESS\n\n  GO. AND"]


def test_spaces_and_line_ends_around_a_text_stay():
    assert texts("\n one \t\n", "two\r\nthree", "\n", "") == ["\n ONE \t\n", "TWO\r\nTHREE", "\n", ""]


def test_what_has_no_words_is_left_alone():
    translator = WordByWord()
    rendered = translate_inlines(translator, [("42",), ("— 3.5 %",), ("one",)])
    assert translator.asked == ["one"]
    assert [plain_text(r.inline) for r in rendered] == ["42", "— 3.5 %", "ONE"]


def test_equal_sentences_are_asked_for_once():
    translator = WordByWord()
    translate_inlines(translator, [("one two",)] * 5 + [(Element(0, ("one",)), " two")])
    assert translator.asked == ["one two"]


def test_tags_find_their_words_over_several_sentences():
    source = ("Go on. Press ", Element(0, ("the red",)), " key. Stop ", Element(1), "now.")
    (rendered,) = translate_inlines(WordByWord(), [source])
    assert rendered.inline == ("ON. GO KEY. ", Element(0, ("RED THE",)), " PRESS ", Element(1), "NOW. STOP")
    assert rendered.flags == frozenset()


def test_a_tag_without_a_place_is_flagged():
    class Blind(WordByWord):
        def _one(self, text, alignment):
            return super()._one(text, False)

    (rendered,) = translate_inlines(Blind(), [("one ", Element(0, ("two",)), " three")])
    assert rendered.flags == {"tags"}
    assert rendered.inline == ("THREE TWO ONE", Element(0))


def test_flags_of_the_sentences_are_kept():
    class Flagging(WordByWord):
        def _one(self, text, alignment):
            from dataclasses import replace

            return replace(super()._one(text, alignment), flags=("placeholders",))

    (rendered,) = translate_inlines(Flagging(), [("one.",)])
    assert rendered.flags == {"placeholders"}


@given(st.text(alphabet="ab. \n\t\r!?日。", max_size=40))
def test_copies_put_together_are_the_text(text):
    class Copying(WordByWord):
        def _one(self, text, alignment):
            from dataclasses import replace

            return replace(super()._one(text, alignment), text=text)

    (rendered,) = translate_inlines(Copying(), [(text,)])
    assert plain_text(rendered.inline) == text


# --- Tokens to characters -----------------------------------------------------------------------


def test_tokens_have_their_places():
    assert token_places("one  two, x", ["▁one", "▁tw", "o", ",", "▁", "x"]) == [
        (0, 3), (5, 7), (7, 8), (8, 9), (9, 9), (10, 11),
    ]  # fmt: skip
    assert token_places("a ü b", ["▁a", "▁", "<0xC3>", "<0xBC>", "▁b"])[-1] == (4, 5)
    assert token_places("abc", ["▁xyz", "▁abc"])[1] == (0, 3)


def test_links_of_a_real_model(digit_run):
    translator = Translator.load(digit_run)
    text = "three one  four"
    (translation,) = translator.translate([text], alignment=True)
    links = character_links(text, translation)
    assert links
    assert all(isinstance(link, Link) and text[slice(*link.source)].strip() for link in links)
    said = "".join(translation.text[a:b] for a, b in token_places(translation.text, translation.tokens))
    assert said == translation.text.replace(" ", "")
    assert character_links(text, translator.translate([text])[0]) == []


@pytest.mark.parametrize("text", ["x" * 300, "Ünïcödé 日本 🙂 ﬁ", "\ud800 a"])
def test_every_token_of_any_text_has_a_place(digit_run, text):
    translator = Translator.load(digit_run)
    (translation,) = translator.translate([text], alignment=True, max_extra_len=2)
    places = token_places(text, translation.source_tokens)
    assert len(places) == len(translation.source_tokens)
    assert all(0 <= a <= b <= len(text) for a, b in places)
