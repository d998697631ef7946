"""Which language: among the models' own, and the confidence says when nobody can tell."""

from __future__ import annotations

import gzip
import random

import pytest

from transduce.serve.detection import CLEAR, detect, is_short

ENGLISH = "The weather was so good that we walked home."
GERMAN = "Das Wetter war so gut, dass wir nach Hause liefen."
FRENCH = "Il faisait si beau que nous sommes rentrés à pied."


def first(text, *languages):
    return detect(text, languages)[0]


def test_sentences_are_told_apart():
    assert first(ENGLISH, "de", "en") == ("en", pytest.approx(1, abs=0.05))
    assert first(GERMAN, "en", "de") == ("de", pytest.approx(1, abs=0.05))


def test_a_language_that_no_model_reads_is_clear_of_nothing():
    assert all(found.confidence < 0.05 for found in detect(FRENCH, ["en", "de"]))
    assert first("看见月亮从山上升起来了", "en", "de").confidence < CLEAR


@pytest.mark.parametrize("text", ["", " ", "1234 + 5 = ?", "😀😀", "\0", "\ud800", "ok", "\u200b"])
def test_what_nobody_can_tell_has_no_confidence(text):
    assert all(found.confidence < CLEAR for found in detect(text, ["en", "de"]))


def test_codes_that_differ_behind_the_hyphen_share():
    found = {d.language: d.confidence for d in detect("看见月亮从山上升起来了", ["zh-Hans", "zh-Hant", "en"])}
    assert found["zh-Hans"] == found["zh-Hant"]
    assert 0.9 < 2 * found["zh-Hans"] <= 1
    assert first("天気が良かったので家まで歩いて帰りました", "ja").confidence > CLEAR
    assert first(GERMAN, "de-AT").confidence > 0.9


def test_unknown_codes_and_doubles():
    assert detect(ENGLISH, ["xx", "en", "en"])[1] == ("xx", 0.0)
    assert detect(ENGLISH, []) == []


def test_short_texts():
    assert is_short("Hello world!")
    assert not is_short(ENGLISH)


def test_on_real_sentences_what_is_clear_is_right(shared_data):
    """The figures of `detection.CLEAR`."""
    for code in ("en", "de"):
        with gzip.open(
            shared_data / "tatoeba-deu-eng" / f"train.{code}.gz", "rt", encoding="utf-8"
        ) as stream:
            lines = random.Random(0).sample(stream.read().split("\n"), 3000)
        lines = [line for line in lines if 20 <= sum(map(str.isalpha, line)) < 40]
        found = [first(line, "en", "de") for line in lines]
        clear = [one for one in found if one.confidence >= CLEAR]
        assert len(clear) > 0.97 * len(lines) > 1000
        assert sum(one.language == code for one in clear) > 0.999 * len(clear)
