"""Tokens to words, and their alignments with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text import TokenizerConfig, normalise, train_tokenizer
from transduce.translate.alignment import pharaoh, word_alignment, words

SPACE = "\u2581"


def texts(*tokens):
    return [word.text for word in words([token.replace("_", SPACE) for token in tokens])]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["_Turn", "_on", "_the", "_li", "ght", "."], ["Turn", "on", "the", "light."]),
        (["_", "Turn", "_", "_on"], ["Turn", "on"]),
        (["_caf", "<0xC3>", "<0xA9>", "s"], ["cafés"]),
        (["_我", "爱", "，", "你"], ["我", "爱", "，", "你"]),
        (["_", "我", "<0xE7>", "<0x88>", "<0xB1>", "_ok", "ay"], ["我", "爱", "okay"]),
        (["_a", "<0xFF>", "<0xE7>"], ["a\ufffd\ufffd"]),
        ([], []),
        (["_"], []),
    ],
)
def test_words(tokens, expected):
    assert texts(*tokens) == expected


def test_every_token_belongs_to_one_word():
    found = words([f"{SPACE}a", "b", SPACE, SPACE, f"{SPACE}c", SPACE])
    assert [(word.first, word.end) for word in found] == [(0, 2), (2, 6)]


def test_pairs_are_joined_each_once():
    source, target = words([f"{SPACE}li", "ght", f"{SPACE}on"]), words([f"{SPACE}L", "icht", f"{SPACE}an"])
    assert word_alignment([(0, 0), (1, 1), (2, 2)], source, target) == ((0, 0), (1, 1))
    assert pharaoh(word_alignment([(2, 0), (0, 1), (1, 2)], source, target)) == "0-0 1-0 0-1"
    assert pharaoh([]) == ""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    lines = ["the light of the switch", "größe über naïve cafés", "no one knows", "a b c d e f"] * 20
    path = tmp_path_factory.mktemp("text") / "tokenizer.model"
    return train_tokenizer(lines, TokenizerConfig(vocab_size=320), path)


@given(st.text(alphabet="theligß é,.!\U0001f642x", max_size=30))
def test_words_of_real_tokens_are_the_texts_own(tokenizer, text):
    shown = normalise(text)
    found = words(tokenizer.pieces(tokenizer.encode(text)))
    assert [word.text for word in found] == (shown.split(" ") if shown else [])
