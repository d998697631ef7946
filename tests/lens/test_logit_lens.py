"""The last layer is the model's answer; lower ones are read through the same norm and matrix."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from lens.by_hand import ByHand
from lens.lens_models import FAMILIES, SENTENCE, make_lens, name_of
from transduce.errors import ModelError
from transduce.lens.logit_lens import note


@pytest.mark.parametrize("changes", FAMILIES, ids=name_of)
def test_layers_are_read_as_the_last_one_is(tokenizer, changes):
    trace = make_lens(tokenizer, **changes).trace(SENTENCE)
    model, hand = trace.lens.translator.engine.model, None
    hand = ByHand(model)
    hand.run(trace.done.source.tolist(), trace.done.target.tolist())
    count = trace.lens.config.num_decoder_layers
    assert trace.logit_lens(count - 1, 4) == [
        type(trace.logit_lens(count - 1, 4)[0])(row, figures) for row, figures in enumerate(trace.steps(4))
    ]
    for layer in range(-1, count):
        key = f"decoder.{layer + 1}.input" if layer + 1 < count else "decoder.top"
        x = hand.found[key]
        with torch.inference_mode():
            if trace.lens.config.norm == "pre":
                norm = model.decoder.norm
                x = F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)
            expected = F.linear(x, model.output.weight, model.output.bias).log_softmax(1)
        for row in trace.logit_lens(layer, 3):
            id_, _, logp = row.figures.top[0]
            assert logp == pytest.approx(float(expected[row.row].max()), abs=1e-5)
            assert float(expected[row.row, id_]) == pytest.approx(logp, abs=1e-5)


def test_what_to_think_of_it_depends_on_the_norm(tokenizer):
    assert "the norm above the decoder" in note(make_lens(tokenizer, norm="pre").body)
    assert "a norm of its own" in note(make_lens(tokenizer, norm="post").body)


@pytest.mark.parametrize("layer", [-2, 2])
def test_there_is_no_such_layer(trace, layer):
    with pytest.raises(ModelError, match="the decoder has layers 0 to 1, and -1 is the embedding"):
        trace.logit_lens(layer)
