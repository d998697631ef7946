"""Emoji, unknown scripts and placeholders come back, whatever a model makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.translate.documents.inline import Element, plain_text
from transduce.translate.kept import Keeper
from transduce.translate.protect import Protection
from transduce.translate.segments import Plan, translate_inlines
from translate.random_translators import make_tokenizer, make_translator
from word_by_word import WordByWord

BY_HAND = Protection(force=False)


class Latin(WordByWord):
    """Knows Latin letters; writes no symbol, and spells placeholders wrongly."""

    def knows(self, character):
        return character.isascii() or "À" <= character <= "ž"

    def _one(self, text, alignment):
        found = super()._one(text, alignment)
        broken = tuple(t.replace("{", "(").replace("}", ")").replace("%", "% ") for t in found.tokens)
        return replace(found, tokens=broken, text="".join(broken).replace("\u2581", " ").strip())


def texts(*given, translator=None, **options):
    rendered = translate_inlines(translator or Latin(), [(text,) for text in given], **options)
    return [plain_text(r.inline) for r in rendered]


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ("one two 😀", "TWO ONE 😀"),
        ("😀 one two", "😀 TWO ONE"),
        ("one 😀 two", "TWO ONE 😀"),  # behind ONE, as it stood
        ("one two 👍🏽!", "TWO! 👍🏽 ONE"),
        ("one two. 👩‍👩‍👧‍👦 🇩🇪", "TWO. ONE 👩‍👩‍👧‍👦 🇩🇪"),
        ("one two.\n😀\n😀 one two 😀\n", "TWO. ONE\n😀\n😀 TWO ONE 😀\n"),
        ("one😀two", "ONE😀TWO"),
        ("☎ one", "☎ ONE"),
        ("one → two", "TWO ONE →"),
        ("😀😀\n\n\t😀", "😀😀\n\n\t😀"),
        ("one привет мир two", "TWO ONE привет мир"),
        ("привет мир", "привет мир"),
        ("你好 one", "你好 ONE"),
        ("one שלום", "ONE שלום"),
        ("Erdős", "ERDŐS"),  # one rare letter makes no foreign word
    ],
)
def test_emoji_and_unknown_scripts_stay(text, translation):
    assert texts(text) == [translation]


def test_the_model_does_not_see_them():
    translator = Latin()
    texts("one 😀 привет two", translator=translator)
    assert translator.asked == ["one two"]


@pytest.mark.parametrize(
    "kept", ["{name}", "%s", "%(n)d", "https://example.org/a?b={c}", "`ls -l`", "a@b.de"]
)
def test_placeholders_are_put_where_the_model_broke_them(kept):
    (found,) = translate_inlines(Latin(), [(f"one {kept} two",)], protect=BY_HAND)
    assert found.inline == (f"TWO {kept} ONE",)
    assert not found.flags


def test_a_placeholder_that_the_model_doubles_is_flagged():
    class Twice(Latin):
        def _one(self, text, alignment):
            found = super()._one(text, alignment)
            return replace(found, text="%s ONE and %s", flags=("placeholders",))

    (found,) = translate_inlines(Twice(), [("one %s",)], protect=BY_HAND)
    assert plain_text(found.inline).count("%s") == 2
    assert found.flags == {"placeholders"}


def test_one_without_a_place_stands_at_the_end_and_is_flagged():
    class Blind(Latin):
        def _one(self, text, alignment):
            return super()._one(text, False)

    (found,) = translate_inlines(Blind(), [("one %s two",)], protect=BY_HAND)
    assert plain_text(found.inline).endswith(" %s")
    assert found.flags == {"placeholders"}


def test_own_tags_and_kept_ones_together():
    source = ("one ", Element(0, ("{a} 😀",)), " two")
    (found,) = translate_inlines(Latin(), [source], protect=BY_HAND)
    assert found.inline == ("TWO ", Element(0, ("{a} 😀",)), " ONE")


def test_fixed_text_of_a_format_is_left_alone():
    source = ("one ", Element(0, ("😀",), fixed=True))
    assert Keeper(source, None, None).inline == source


SAMPLE = "ab {x} %s😀👍🏽 \n\tжЖ漢é"


@given(st.text(alphabet=SAMPLE, max_size=30))
def test_tagged_and_restored_is_the_text(text):
    for knows in (None, Latin().knows):
        keeper = Keeper((text,), knows, BY_HAND)
        assert plain_text(keeper.restored(keeper.inline)) == text
        assert keeper.restored(keeper.inline) == ((text,) if text else ())


@given(st.text(alphabet=SAMPLE, max_size=30))
def test_nothing_kept_is_ever_lost(text):
    (found,) = texts(text, protect=BY_HAND)
    for kept in "😀👍🏽жЖ漢":
        assert found.count(kept) >= text.count(kept) or kept in "жЖ漢"
    assert found.count("{x}") >= text.count("{x}")
    assert [c for c in found if c in "\n\t"] == [c for c in text if c in "\n\t"]


def test_a_real_translator_says_what_it_knows(tmp_path):
    translator = make_translator(make_tokenizer(tmp_path))
    assert [translator.knows(c) for c in "aü灯%😀жa"] == [True, True, True, True, False, False, True]
    for text in ("turn on the light 😀", "привет", "the light привет is broken", "\U0001f1e9\U0001f1ea"):
        plan = Plan([(text,)], knows=translator.knows)
        found = {}
        for sentences, alignment in plan.wanted():
            found.update(zip(sentences, translator.translate(sentences, alignment=alignment), strict=True))
        (rendered,) = plan.rendered(found)
        for kept in ("😀", "привет", "\U0001f1e9\U0001f1ea"):
            assert plain_text(rendered.inline).count(kept) == text.count(kept)
