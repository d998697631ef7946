"""Text in, translations out: contracts 1 and 3 on a model that was really trained."""

from __future__ import annotations

import random

import pytest

import transduce
from digits import digit_pairs
from transduce.errors import DataError, ModelError, SearchError
from transduce.translate.translator import Translator


@pytest.fixture(scope="module")
def translator(digit_run) -> Translator:
    return transduce.load(digit_run / "model")


def test_it_learnt(translator):
    pairs = digit_pairs(50, seed=2)
    texts = [t.text for t in translator.translate([source for source, _ in pairs])]
    right = sum(text == target for text, (_, target) in zip(texts, pairs, strict=True))
    assert right >= 45


def test_same_answer_whatever_the_company(translator):
    """Contract 3: order, batch and neighbours do not matter."""
    sources = [source for source, _ in digit_pairs(40, seed=3)] + ["nine", "", "one " * 20]
    together = translator.translate(sources)
    alone = [translator.translate(source)[0] for source in sources]
    shuffled = list(range(len(sources)))
    random.Random(1).shuffle(shuffled)
    mixed = translator.translate([sources[i] for i in shuffled])
    for i, source in enumerate(sources):
        assert together[i].tokens == alone[i].tokens, source
        assert mixed[shuffled.index(i)].tokens == alone[i].tokens, source
        assert together[i].score == pytest.approx(alone[i].score, abs=1e-4)


def test_empty_in_empty_out(translator):
    for blank in ("", " ", "   "):
        (translation,) = translator.translate([blank])
        assert translation.text == ""
        assert translation.tokens == ()
    assert translator.translate([]) == []


def test_a_long_text_is_split_and_nothing_is_lost(translator):
    words = [source for source, _ in digit_pairs(30, seed=4)]
    text = ". ".join(words) + "."
    (translation,) = translator.translate([text])
    assert "split" in translation.flags
    given = sum(len(word.split()) for word in words)
    assert len(translation.text.split()) > 0.8 * given


def test_line_ends_and_blank_lines_stay(translator):
    one, two = (t.text for t in translator.translate(["one two", "three"]))
    (whole,) = translator.translate(["\n one two\r\n\n\tthree \n"])
    assert whole.text == f"\n {one}\r\n\n\t{two} \n"
    assert "split" in whole.flags
    (framed,) = translator.translate(["one two\n"], n_best=2)
    assert framed.text == f"{one}\n"
    assert framed.alternatives[0].text.endswith("\n")
    assert "split" not in framed.flags
    assert [t.text for t in translator.translate(["\n", "\n\n\u2028"])] == ["\n", "\n\n\u2028"]


def test_n_best_are_sorted_and_different(translator):
    (best,) = translator.translate(["one two three"], n_best=4)
    scores = [best.score, *(other.score for other in best.alternatives)]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert len({best.tokens, *(other.tokens for other in best.alternatives)}) == 4


def test_prefix_begins_the_translation(translator):
    (free,) = translator.translate(["one two three"])
    (forced,) = translator.translate(["one two three"], prefixes=["neun"])
    assert not free.text.startswith("neun")
    assert forced.text.startswith("neun")


def test_sampling_repeats_with_its_seed(translator):
    settings = {"method": "sample", "temperature": 2.0, "n_best": 3}

    def samples(texts, seed):
        drawn = translator.translate(texts, seed=seed, **settings)[-1]
        return [drawn.tokens, *(other.tokens for other in drawn.alternatives)]

    first = samples(["four five six seven"], seed=1)
    assert len(first) == 3
    assert samples(["one", "four five six seven"], seed=1) == first  # whatever the company
    assert samples(["four five six seven"], seed=2) != first


def test_alignment_follows_the_words(translator):
    """Word by word: the diagonal, up to pieces."""
    (t,) = translator.translate(["seven four nine one"], alignment=True)
    assert [target for _, target in t.alignment] == list(range(len(t.tokens)))
    assert all(0 <= source < len(t.source_tokens) for source, _ in t.alignment)
    assert translator.translate(["seven"])[0].alignment == ()


def test_cut_translations_are_flagged(translator):
    (t,) = translator.translate(["one two three four"], max_extra_len=0, max_len_ratio=0.1)
    assert "truncated" in t.flags


def test_confidence_is_a_probability(translator):
    for t in translator.translate([source for source, _ in digit_pairs(10, seed=5)]):
        assert 0 < t.confidence <= 1
        assert len(t.token_log_probs) == len(t.tokens) + 1


def test_wrong_requests_say_what_is_right(translator):
    with pytest.raises(SearchError, match=r"unknown search setting 'beam'; there are method, beam_size"):
        translator.translate(["one"], beam=3)
    with pytest.raises(DataError, match="2 texts came with 1 prefixes"):
        translator.translate(["one", "two"], prefixes=["x"])


def test_odd_text_never_breaks_a_translation(translator):
    odd = [
        "\0",
        "a\u2028b",
        "\r",
        "🙂" * 40,
        "</s> <pad>",
        "<0x0A>",
        "ﷺ",
        "\ud800",
        "א" * 50,
        "one\ntwo",
        "\t",
        "\x85",
    ]
    translations = translator.translate(odd)
    assert len(translations) == len(odd)
    for translation in translations:
        assert "\n" not in translation.text or "split" in translation.flags


def test_a_directory_that_is_no_model(tmp_path, digit_run):
    with pytest.raises(ModelError, match="there is no model directory"):
        transduce.load(tmp_path / "none")
    with pytest.raises(ModelError, match="is no model directory: it lacks"):
        transduce.load(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ModelError, match="has no finished model yet"):
        transduce.load(tmp_path)
    assert transduce.load(digit_run).languages == ("en", "de")


@pytest.mark.parametrize("file", ["recipe.toml", "tokenizer.model", "model.safetensors"])
def test_a_damaged_model_is_one_line(tmp_path, digit_run, file):
    import shutil

    broken = tmp_path / "model"
    shutil.copytree(digit_run / "model", broken)
    (broken / file).write_bytes(b"\xff" * 40)
    with pytest.raises(ModelError, match="cannot be read") as caught:
        transduce.load(broken)
    assert "\n" not in str(caught.value)


def test_a_line_break_is_never_generated(translator):
    """TRAPS 28: byte pieces can spell one, and it would shift every line after it."""
    newline_ids = translator._target.newline_ids
    assert len(newline_ids) >= 2
    settings = {"method": "sample", "temperature": 1e6, "n_best": 4, "max_extra_len": 100}
    for drawn in translator.translate(["one two", "three"] * 3, **settings):
        for text in (drawn.text, *(other.text for other in drawn.alternatives)):
            assert "\n" not in text
            assert "\r" not in text
