"""Ours against `transformers`, on the same weights: logits, and ids by greedy and beam search."""

from __future__ import annotations

from dataclasses import replace

import pytest
import theirs
import torch
from directories import ids_of, score_of, sentences, torch_engine
from torch.testing import assert_close

from transduce.batch.collate import pad_rows

LIMIT = 30  # more than the vocabulary: no token comes twice, so that every sentence ends before it


@torch.no_grad()
def check_logits(directory, model):
    """Theirs equal ours at every position of padded rows."""
    source, target = directory.tokenizers
    ids = ids_of(directory)
    rows = pad_rows([source.encode(text) for text in sentences(5, seed=3)], ids)
    written = [[ids.bos_id, *target.encode(text)] for text in sentences(5, seed=4)]
    shifted = pad_rows(written, ids)[:, :-1]
    expected = directory.load_transformer()(rows, shifted)
    found = model(input_ids=rows, attention_mask=rows.ne(ids.pad_id).long(), decoder_input_ids=shifted).logits
    size = expected.shape[-1]
    for row, target_row in enumerate(written):
        length = len(target_row) - 1
        assert_close(found[row, :length, :size], expected[row, :length], atol=1e-4, rtol=1e-4)
    assert bool((found[..., size:] < -1e6).all())


def check_ids(directory, model, texts, beam_size) -> None:
    """Theirs equal ours, or have the same score. No id comes twice, so that they vary; all end."""
    source, target = directory.tokenizers
    recipe, ids = directory.recipe, ids_of(directory)
    engine = torch_engine(directory)
    rows = [source.encode(text) for text in texts]
    config = replace(recipe.search, beam_size=beam_size, max_extra_len=LIMIT)
    generated = theirs.generate(model, rows, ids, LIMIT, num_beams=beam_size, no_repeat_ngram_size=1)
    for row, (best, *_), answer in zip(rows, engine.search(rows, config), generated, strict=True):
        found, finished = theirs.before_eos(answer, target.eos_id)
        assert finished
        assert best.finished
        if found != list(best.ids):
            score = score_of(engine.model, recipe, ids, row, found)
            assert score == pytest.approx(best.score, abs=1e-4), (found, best)


def onnx_engine(directory, out, **settings):
    """The engine that `load_onnx` would have, on one thread."""
    from transduce.translate.onnx_engine import OnnxEngine

    target = directory.tokenizers[1]
    return OnnxEngine(out, suppress=[target.unk_id, *target.newline_ids], num_threads=1, **settings)


def check_engines(directory, out, texts, beam_size) -> None:
    """ONNX Runtime's ids equal torch's, or have the same score."""
    source = directory.tokenizers[0]
    rows = [source.encode(text) for text in texts]
    config = replace(directory.recipe.search, beam_size=beam_size, max_extra_len=LIMIT)
    engine = torch_engine(directory)
    other = onnx_engine(directory, out)
    for row, (best, *_), (found, *_) in zip(
        rows, engine.search(rows, config), other.search(rows, config), strict=True
    ):
        assert found.score == pytest.approx(best.score, abs=1e-4)
        assert found.finished
        if found.ids != best.ids:
            score = score_of(engine.model, directory.recipe, ids_of(directory), row, list(found.ids))
            assert score == pytest.approx(best.score, abs=1e-4), (found, best)
