"""Flags: loops and copies are seen, style is not."""

from __future__ import annotations

import pytest

from transduce.translate.quality import is_copied, is_repeated


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
