"""What a word is, for whoever must not find one inside another.

A word character is a letter, a digit, a mark or the underscore. Chinese, Japanese, Thai, Lao, Burmese,
Khmer are written without spaces, and Korean particles touch the word before them: there a word
has no visible edge, so any place counts as one.
Does not know: tokenizers, translations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["has_edge", "is_unspaced", "occurrences", "plain"]

_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\uac00-\ud7ff]"
)


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script where words touch."""
    return bool(_UNSPACED.match(character))


def has_edge(left: str, right: str) -> bool:
    """Whether a word may end or begin between two characters; an empty one is the text's own edge."""
    return not (left and right and _is_word(left) and _is_word(right))


def _is_word(character: str) -> bool:
    if character < "\x80":
        return character.isalnum() or character == "_"
    return not is_unspaced(character) and unicodedata.category(character)[0] in "LNM"


def plain(text: str) -> str:
    """The text in Unicode form C, with one space for each run of white space and none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def occurrences(phrase: str, text: str, *, whole_words: bool = True) -> Iterator[int]:
    """Yield where a phrase stands in a text, from left to right, without overlaps.

    Args:
        phrase: not empty; found exactly as written.
        text: where to look.
        whole_words: leave out places where the phrase is a part of a longer word.
    """
    start = text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        if not whole_words or (has_edge(before, phrase[0]) and has_edge(phrase[-1], after)):
            yield start
            start = text.find(phrase, end)
        else:
            start = text.find(phrase, start + 1)
