"""What-ifs go through the model: compared with models whose weights were changed by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing import assert_close

from lens.lens_models import SENTENCE, make_lens
from transduce.errors import ModelError
from transduce.lens import HeadName, Interventions, MaskChange, Temperature
from transduce.lens.interventions import attention_of
from transduce.search.config import SearchConfig

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def states_of(model, trace):
    with torch.inference_mode():
        return model.decode(trace.done.target[None], model.encode(trace.done.source[None]))[0]


def test_ablating_nothing_gives_the_same_trace_bit_for_bit(trace):
    again = trace.what_if(Interventions())
    assert again.parent is trace
    assert again.hypotheses == trace.hypotheses
    assert again.watched.nodes == trace.watched.nodes
    assert torch.equal(again.done.states, trace.done.states)
    assert again.target == trace.target


@pytest.mark.parametrize(
    "asked",
    [
        {"target": "das Licht"},
        {"force": [300, 301]},
        {"max_len": 5},
        {"search": SearchConfig(method="sample", seed=3, max_extra_len=6)},
        {"search": SearchConfig(beam_size=1, max_extra_len=6)},
    ],
)
def test_however_a_trace_came_about_nothing_changed_is_the_same(lens, asked):
    trace = lens.trace(SENTENCE, **asked)
    again = trace.what_if(Interventions())
    assert again.target == trace.target
    assert again.hypotheses[0] == trace.hypotheses[0]
    assert torch.equal(again.done.states, trace.done.states)
    assert again.what_if().target == trace.target


@pytest.mark.parametrize("kind", ["enc_self", "dec_self", "cross"])
def test_an_ablated_head_is_a_head_whose_output_has_no_weight(trace, kind):
    name = HeadName(kind, 1, 0)
    fixed = trace.what_if(Interventions(ablate=(name,)), fixed=True)
    model = copy.deepcopy(trace.lens.translator.engine.model)
    attention = attention_of(model, kind, 1)
    width = attention.w_o.in_features // attention.num_heads
    with torch.no_grad():
        attention.w_o.weight[:, :width] = 0
    assert fixed.target == trace.target
    assert_close(fixed.done.states, states_of(model, trace), **CLOSE)
    assert not torch.allclose(fixed.done.states, trace.done.states)
    assert fixed.head(kind, 1, 0).ablated
    assert not fixed.head(kind, 1, 1).ablated


@pytest.mark.parametrize("layer", [0, None])
def test_a_temperature_divides_the_scores(trace, layer):
    change = Temperature("cross", layer, 0.5)
    fixed = trace.what_if(Interventions(tau=(change,)), fixed=True)
    model = copy.deepcopy(trace.lens.translator.engine.model)
    for number in [0] if layer == 0 else [0, 1]:
        attention_of(model, "cross", number).temperature = 0.5
    assert_close(fixed.done.states, states_of(model, trace), **CLOSE)
    head = fixed.head("cross", 0, 0)
    assert head.temperature == 0.5
    assert_close(head.weights, (2 * head.q @ head.k.T / head.q.shape[1] ** 0.5).softmax(-1), **CLOSE)
    assert fixed.head("cross", 1, 0).temperature == (1.0 if layer == 0 else 0.5)


def test_a_hidden_source_token_is_as_if_padded(trace):
    """Hidden from all encoder layers and all cross-attention, it is what padding is."""
    last = len(trace.source) - 1
    hide = tuple(MaskChange(kind, None, hide=(last,)) for kind in ("enc_self", "cross"))
    fixed = trace.what_if(Interventions(mask=hide), fixed=True)
    model = trace.lens.translator.engine.model
    source = trace.done.source.clone()
    source[last] = trace.lens.ids.pad_id
    with torch.inference_mode():
        expected = model.decode(trace.done.target[None], model.encode(source[None]))[0]
    assert_close(fixed.done.states, expected, **CLOSE)
    assert bool((fixed.head("cross", 0, 0).weights[:, last] == 0).all())
    assert not fixed.head("cross", 0, 0).mask[:, last].any()


def test_without_the_causal_mask_the_decoder_looks_ahead(trace):
    lifted = trace.what_if(Interventions(mask=(MaskChange("dec_self", 0, causal=False),)), fixed=True)
    assert bool(lifted.head("dec_self", 0, 0).mask.all())
    assert float(lifted.head("dec_self", 0, 0).weights[0, -1]) > 0
    assert float(lifted.head("dec_self", 1, 0).weights[0, -1]) == 0
    assert float(trace.head("dec_self", 0, 0).weights[0, 1:].sum()) == 0


def test_the_search_runs_through_the_changed_model(tokenizer):
    lens = make_lens(tokenizer, seed=3)
    trace = lens.trace(SENTENCE)
    everything = Interventions(ablate=tuple(HeadName("cross", 1, h) for h in range(2)))
    changed = trace.what_if(everything)
    assert changed.hypothesis.log_prob == pytest.approx(sum(changed.scored(everything)), abs=1e-4)
    assert trace.scored(everything) != pytest.approx(list(trace.hypothesis.token_log_probs), abs=1e-4)
    assert trace.scored(Interventions()) == pytest.approx(list(trace.hypothesis.token_log_probs), abs=1e-4)


def test_a_forced_beginning_is_kept_and_the_search_goes_on(trace):
    other = [step for step in trace.watched.nodes if step.step == 0 and step.state != "finished"][1].token
    forced = trace.what_if(force=[other])
    assert forced.hypothesis.ids[0] == other
    assert len(forced.hypothesis.ids) > 1
    assert forced.forced == (other,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ablate": (HeadName("cross", 2, 0),)}, "no layer 2: cross has layers 0 to 1"),
        ({"ablate": (HeadName("enc_self", 0, 2),)}, "no head 2: enc_self has heads 0 to 1"),
        ({"ablate": (HeadName("self", 0, 0),)}, "kind is 'self'"),
        ({"tau": (Temperature("cross", 0, 0.0),)}, "τ is 0.0, expected 0.01 to 100"),
        ({"tau": (Temperature("cross", 9, 1.0),)}, "no layer 9"),
        ({"mask": (MaskChange("cross", 0, causal=False),)}, "cross has no causal mask"),
        ({"mask": (MaskChange("cross", 0, hide=(-1,)),)}, "count from 0, got -1"),
    ],
)
def test_what_the_model_has_not_is_refused(trace, changes, message):
    with pytest.raises(ModelError, match=message):
        trace.what_if(Interventions(**changes))
