"""Flags: loops and copies are seen, style is not."""

from __future__ import annotations

import pytest
from random_translators import make_tokenizer, make_translator

from transduce.translate.quality import is_copied, is_repeated, is_unlikely_length, word_confidences


@pytest.mark.parametrize(
    "tokens",
    [["a"] * 6, ["x", "y", *"abcabcabcabc", "z"], list("ab" * 4), list("abcdefghijkl" * 4)],
)
def test_loops_are_seen(tokens):
    assert is_repeated(tokens)


@pytest.mark.parametrize(
    "tokens", [[], ["a"], ["a"] * 5, list("abcabcabc"), list("abcdefgh"), ["."] * 3, list("ab" * 3 + "a")]
)
def test_style_is_not(tokens):
    assert not is_repeated(tokens)


def test_copies():
    assert is_copied("This is the source.", " this is the source. ")
    assert not is_copied("This is the source.", "Das ist die Quelle.")
    assert not is_copied("HTTP 404", "HTTP 404")
    assert not is_copied("", "")


@pytest.mark.parametrize(
    ("source_len", "target_len", "unlikely"),
    [(0, 0, False), (5, 25, False), (5, 26, True), (26, 5, True), (100, 310, False), (100, 311, True)],
)
def test_lengths_that_do_not_go_together(source_len, target_len, unlikely):
    assert is_unlikely_length(source_len, target_len) == unlikely


def test_a_word_is_as_sure_as_its_tokens_on_average():
    tokens = ["\u2581Li", "cht", "\u2581an"]
    found = word_confidences(tokens, [0.9, 0.4, 0.5])
    assert [word for word, _ in found] == ["Licht", "an"]
    assert [value for _, value in found] == pytest.approx([0.6, 0.5])
    assert word_confidences([], []) == []
    assert word_confidences(["\u2581a"], [0.0]) == [("a", pytest.approx(0.0, abs=1e-299))]


def test_a_translation_tells_of_its_tokens_and_words(tmp_path):
    translator = make_translator(make_tokenizer(tmp_path))
    long = "turn on the light. " * 20
    for found in translator.translate(["the light", "", long], alignment=True):
        assert len(found.token_confidence) == len(found.tokens)
        assert all(0 <= value <= 1 for value in found.token_confidence)
        fields = found.to_dict()
        assert len(fields["words"]) == len(fields["word_confidence"])
        if "split" not in found.flags and found.text.isascii():
            assert fields["words"] == found.text.split()
        if found.tokens:
            assert fields["word_alignment"]
            for pair in fields["word_alignment"].split():
                s, t = map(int, pair.split("-"))
                assert s < len(fields["source_words"])
                assert t < len(fields["words"])


def test_an_empty_translation_of_something_is_flagged(tmp_path):
    translator = make_translator(make_tokenizer(tmp_path))
    (found,) = translator.translate(["the light"], max_len_ratio=0.0, max_extra_len=0)
    assert found.text == ""
    assert "empty" in found.flags
    assert "length" not in found.flags
    assert translator.translate([""])[0].flags == ()
