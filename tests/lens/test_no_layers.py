"""A stack without layers is a model too: what there is can be looked into, what is not there is said."""

from __future__ import annotations

import pytest

from lens.lens_models import SENTENCE, make_lens
from transduce.errors import ModelError
from transduce.lens.answers import describe_model, describe_trace, lens_rows, step_table
from transduce.lens.saved_page import saved_answers


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_an_encoder_without_layers(tokenizer, norm):
    """Its output is the embedded source. (A decoder without layers cannot be searched with at all.)"""
    lens = make_lens(tokenizer, num_encoder_layers=0, num_decoder_layers=1, norm=norm)
    trace = lens.trace(SENTENCE)
    assert describe_model(lens)["heads"]["enc_self"]["layers"] == 0
    assert describe_trace(trace)["rows"]["decoder"] == trace.num_rows
    assert step_table(trace, 3)["search"][0]["cache"]["rows"] == 1
    assert trace.shapes().entries[-1].name == "probabilities"
    assert [row["layer"] for row in lens_rows(trace, range(-1, 1), 2)["layers"]] == [-1, 0]
    assert trace.occlusion().shape == (trace.num_rows, len(trace.source))
    with pytest.raises(ModelError, match="the model has no enc_self attention: that stack has no layers"):
        trace.overview("enc_self")
    assert trace.overview("cross").statistics.shape == (1, 2, 5)
    assert "enc_self" not in "".join(saved_answers(trace, "x"))
