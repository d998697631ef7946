"""Every number of a trace is the model's: compared with the model computed by hand."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from lens.by_hand import ByHand
from lens.lens_models import FAMILIES, SENTENCE, TEXTS, make_lens, name_of
from transduce.lens.forward import run_pass, second_body
from transduce.lens.interventions import Interventions

KINDS = ("enc_self", "dec_self", "cross")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def by_hand(trace) -> tuple[ByHand, torch.Tensor]:
    hand = ByHand(trace.lens.translator.engine.model)
    return hand, hand.run(trace.done.source.tolist(), trace.done.target.tolist())


def name_by_hand(kind: str, layer: int) -> str:
    return {"enc_self": f"encoder.{layer}.self", "dec_self": f"decoder.{layer}.self"}.get(
        kind, f"decoder.{layer}.cross"
    )


@pytest.mark.parametrize("changes", FAMILIES, ids=name_of)
def test_every_head_is_the_models(tokenizer, changes):
    trace = make_lens(tokenizer, **changes).trace(SENTENCE)
    hand, logits = by_hand(trace)
    assert_close(trace.steps(1)[0].logsumexp, float(logits[0].logsumexp(0)), **CLOSE)
    config = trace.lens.config
    for kind in KINDS:
        layers = config.num_encoder_layers if kind == "enc_self" else config.num_decoder_layers
        for layer in range(layers):
            for number in range(config.num_heads):
                head, name = trace.head(kind, layer, number), name_by_hand(kind, layer)
                for part in ("scores", "weights", "q", "k", "v"):
                    assert_close(getattr(head, part), hand.found[f"{name}.{part}"][number], **CLOSE)
                assert torch.equal(head.mask, hand.found[f"{name}.mask"])


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_labels_are_as_many_as_rows_and_columns(lens, text):
    trace = lens.trace(text)
    for kind in KINDS:
        head = trace.head(kind, 0, 1)
        assert head.weights.shape == (len(head.q_tokens), len(head.k_tokens))
        assert [token.i for token in head.q_tokens] == list(range(len(head.q_tokens)))
        assert_close(head.weights.sum(1), torch.ones(len(head.q_tokens)))
        assert bool((head.weights[~head.mask] == 0).all())
        assert_close(head.q @ head.k.T / head.q.shape[1] ** 0.5, head.scores, **CLOSE)
    assert trace.head("cross", 0, 0).weights.shape == (trace.num_rows, len(trace.source))
    assert trace.head("cross", 0, 0).q_tokens[0].kind == "bos"
    assert trace.head("cross", 0, 0).k_tokens[-1].kind == "eos"


def test_keys_and_queries_of_cross_attention_need_not_be_equally_many(lens):
    trace = lens.trace(SENTENCE, target="das Licht")
    head = trace.head("cross", 1, 0)
    assert head.weights.shape[0] != head.weights.shape[1]
    assert head.weights.shape == (trace.num_rows, len(trace.source))


@pytest.mark.parametrize("changes", FAMILIES[:3], ids=name_of)
def test_the_explicit_pass_is_the_fused_one(tokenizer, changes):
    lens = make_lens(tokenizer, **changes)
    trace = lens.trace(SENTENCE)
    model = lens.translator.engine.model
    with torch.inference_mode():
        fused = model.decode(trace.done.target[None], model.encode(trace.done.source[None]))[0]
    assert_close(trace.done.states, fused, **CLOSE)


def test_the_translation_is_the_translators(lens):
    for text in TEXTS[:4]:
        expected = lens.translator.translate(text)[0]
        trace = lens.trace(text)
        assert trace.translation == expected.text
        assert trace.hypothesis.score == pytest.approx(expected.score, abs=1e-4)


def test_looking_leaves_the_translators_model_alone(tokenizer):
    lens = make_lens(tokenizer)
    model = lens.translator.engine.model
    before = {name: tensor.clone() for name, tensor in model.tensors().items()}
    lens.trace(SENTENCE).overview("cross")
    assert all(torch.equal(before[name], tensor) for name, tensor in model.tensors().items())
    for module in (*model.modules(), *lens.body.modules()):
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert getattr(module, "observer", None) is None
        assert getattr(module, "temperature", 1.0) == 1.0


def test_the_second_body_has_the_same_weights_not_copies(lens):
    model = lens.translator.engine.model
    body = second_body(model)
    assert body is not model
    assert body.encoder.layers[0] is not model.encoder.layers[0]
    own, shared = dict(model.named_parameters()), dict(body.named_parameters())
    assert own.keys() == shared.keys()
    assert all(own[name] is shared[name] for name in own)


def test_a_pass_keeps_every_layers_input(trace):
    hand, _ = by_hand(trace)
    for name, inputs in (("encoder", trace.done.encoder_inputs), ("decoder", trace.done.decoder_inputs)):
        for number, kept in enumerate(inputs[:-1]):
            assert_close(kept, hand.found[f"{name}.{number}.input"], **CLOSE)
        assert_close(inputs[-1], hand.found[f"{name}.top"], **CLOSE)


def test_nothing_as_large_as_an_attention_matrix_is_kept(lens):
    trace = lens.trace("the light " * 40)
    matrices = 3 * lens.config.num_heads * len(trace.source) ** 2
    kept = sum(t.numel() for t in (*trace.done.encoder_inputs, *trace.done.decoder_inputs))
    assert all(t.dim() == 2 and t.shape[1] == lens.config.d_model for t in trace.done.encoder_inputs)
    assert kept < matrices


def test_a_pass_can_be_repeated_bit_for_bit(trace):
    with trace.lens.changed(Interventions()) as model:
        again = run_pass(model, trace.done.source.tolist(), trace.done.target.tolist())
    assert torch.equal(again.states, trace.done.states)
