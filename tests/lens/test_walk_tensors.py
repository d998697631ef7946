"""Whole tensors of the pass: the very ones that the walk tells of, and that plain hooks see."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from lens.lens_models import FAMILIES, SENTENCE, make_lens, name_of
from transduce.lens.answers import walk_arrays
from transduce.lens.interventions import HeadName, Interventions, NoSuchPart


@pytest.mark.parametrize("changes", FAMILIES, ids=name_of)
def test_every_tensor_of_the_walk_can_be_had_whole(tokenizer, changes):
    trace = make_lens(tokenizer, **changes).trace(SENTENCE)
    entries = trace.shapes().entries
    tensors = trace.tensors([entry.name for entry in entries])
    assert tensors.keys() == {entry.name for entry in entries}
    for entry in entries:
        tensor = tensors[entry.name]
        assert tuple(tensor.shape) == entry.shape, entry.name
        assert tensor.double().flatten()[:8].tolist() == pytest.approx(list(entry.sample), abs=1e-5), (
            entry.name
        )
        assert float(tensor.double().mean()) == pytest.approx(entry.mean, abs=1e-5), entry.name


def test_the_encoders_tensors_are_those_of_a_plain_pass(trace):
    model = trace.lens.translator.engine.model
    seen = []
    handle = model.encoder.layers[1].feed_forward.register_forward_hook(lambda m, a, out: seen.append(out))
    with torch.inference_mode():
        model.encode(trace.done.source[None])
    handle.remove()
    name = "encoder.layers.1.feed_forward.output"
    assert_close(trace.tensors([name])[name], seen[0], rtol=0, atol=1e-6)


def test_a_changed_model_gives_its_own_tensors(trace):
    name = "encoder.layers.0.self_attention.output"
    head = HeadName("enc_self", 0, 0)
    changed = trace.what_if(Interventions(ablate=(head,)), fixed=True)
    assert not torch.equal(changed.tensors([name])[name], trace.tensors([name])[name])


def test_an_unknown_name_says_where_the_names_are(trace):
    with pytest.raises(NoSuchPart, match=r"no tensor 'encoder\.layers\.9' in this pass; .*shapes"):
        trace.tensors(["encoder.layers.9"])


def test_arrays_keep_to_the_three_kinds(trace):
    names = ["source_embedding.ids", "decoder.layers.0.self_attention.mask", "probabilities"]
    arrays = walk_arrays(trace, names).arrays
    assert [arrays[name].dtype for name in names] == [np.int32, np.uint8, np.float32]
    assert_close(torch.tensor(arrays["probabilities"].sum(-1)), torch.ones(1, trace.num_rows))
