"""Several networks as one translator."""

from __future__ import annotations

import shutil

import pytest
from random_translators import make_engine, make_tokenizer, make_translator

from transduce.errors import ModelError
from transduce.translate.ensemble import EnsembleEngine
from transduce.translate.translator import Translator

TEXTS = ["turn on the light", "hello {name}", "", "the light switch is broken (see page 12)"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("text"))


@pytest.mark.parametrize("mean", ["probability", "log_probability"])
def test_a_model_with_itself_is_the_model(tokenizer, mean):
    engine = make_engine(tokenizer)
    alone = make_translator(tokenizer, engine)
    together = make_translator(tokenizer, EnsembleEngine([engine, engine], mean))
    for one, other in zip(alone.translate(TEXTS), together.translate(TEXTS), strict=True):
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_models_of_other_shapes_in_any_order_also_with_terms(tokenizer):
    engines = [make_engine(tokenizer), make_engine(tokenizer, seed=1, d_model=16, num_decoder_layers=1)]
    one = make_translator(tokenizer, EnsembleEngine(engines))
    other = make_translator(tokenizer, EnsembleEngine(engines[::-1]))
    for settings in ({"beam_size": 1}, {"n_best": 2}, {"glossary": {"light": "Licht"}}):
        for a, b in zip(one.translate(TEXTS, **settings), other.translate(TEXTS, **settings), strict=True):
            assert a.tokens == b.tokens
            assert a.score == pytest.approx(b.score, abs=1e-4)
    assert "Licht" in one.translate("the light", glossary={"light": "Licht"})[0].text
    assert one.translate(TEXTS) != make_translator(tokenizer, engines[0]).translate(TEXTS)
    assert one.translate(TEXTS, alignment=True)[0].alignment


def test_the_shortest_bounds_the_length(tokenizer):
    engines = [make_engine(tokenizer), make_engine(tokenizer, position="learned", max_len=9)]
    for order in (engines, engines[::-1]):
        translator = make_translator(tokenizer, EnsembleEngine(order), max_extra_len=40)
        (found,) = translator.translate(["the light"], min_len=7)
        assert len(found.tokens) <= 8


def test_directories(digit_run, tmp_path):
    one = Translator.load(digit_run)
    both = Translator.load([digit_run, digit_run / "model"])
    texts = ["one two three", "seven"]
    assert [t.text for t in both.translate(texts)] == [t.text for t in one.translate(texts)]
    assert (both.languages, both.max_len) == (one.languages, one.max_len)
    other = tmp_path / "other"
    shutil.copytree(digit_run / "model", other)
    make_tokenizer(tmp_path)
    shutil.copyfile(tmp_path / "bpe.model", other / "tokenizer.model")
    with pytest.raises(ModelError, match=r"another source vocabulary .420 pieces. than .* .320 pieces."):
        Translator.load([digit_run, other])
    with pytest.raises(ModelError, match="there is no model directory"):
        Translator.load([digit_run, tmp_path / "none"])
