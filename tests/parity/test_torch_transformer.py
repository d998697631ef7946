"""Parity with `torch.nn.Transformer`: the same weights, the same states and gradients.

Two differences are torch's: it puts a LayerNorm on top of post-norm stacks as well (taken off here),
and True in its masks means hidden (negated here).
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transduce.model import Transformer, TransformerConfig, causal_visible

LAYERS, D_MODEL, D_FF, HEADS, VOCAB = 2, 16, 24, 4, 17
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2], [3, 4, 2, 0, 0, 0], [11, 2, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 4, 5, 6], [1, 9, 8, 0], [1, 0, 0, 0]])


def ours_of(norm, activation):
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            source_vocab_size=VOCAB,
            target_vocab_size=VOCAB,
            num_encoder_layers=LAYERS,
            num_decoder_layers=LAYERS,
            d_model=D_MODEL,
            d_ff=D_FF,
            num_heads=HEADS,
            dropout=0.0,
            norm=norm,
            activation=activation,
            layer_norm_eps=1e-4,
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def theirs_of(norm, activation):
    sizes = {"dim_feedforward": D_FF, "dropout": 0.0, "activation": activation}
    both = {**sizes, "layer_norm_eps": 1e-4, "batch_first": True, "norm_first": norm == "pre"}

    def top():
        return nn.LayerNorm(D_MODEL, 1e-4) if norm == "pre" else None

    encoder_layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, **both)
    decoder_layer = nn.TransformerDecoderLayer(D_MODEL, HEADS, **both)
    return nn.Transformer(
        D_MODEL,
        HEADS,
        custom_encoder=nn.TransformerEncoder(encoder_layer, LAYERS, top(), enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(decoder_layer, LAYERS, top()),
        batch_first=True,
    )


SUBLAYERS = {
    "encoder": {"norm1": "self_attention_add_norm", "norm2": "feed_forward_add_norm"},
    "decoder": {
        "norm1": "self_attention_add_norm",
        "norm2": "cross_attention_add_norm",
        "norm3": "feed_forward_add_norm",
    },
}
ATTENTIONS = {
    "encoder": {"self_attn": "self_attention"},
    "decoder": {"self_attn": "self_attention", "multihead_attn": "cross_attention"},
}


def renamed(model, norm):
    """Our weights under torch's names."""
    ours, theirs = model.state_dict(), {}
    for stack in ("encoder", "decoder"):
        for index in range(LAYERS):
            here, there = f"{stack}.layers.{index}", f"{stack}.layers.{index}"
            for kind in ("weight", "bias"):
                for name, attention in ATTENTIONS[stack].items():
                    parts = [ours[f"{here}.{attention}.{w}.{kind}"] for w in ("w_q", "w_k", "w_v")]
                    theirs[f"{there}.{name}.in_proj_{kind}"] = torch.cat(parts)
                    theirs[f"{there}.{name}.out_proj.{kind}"] = ours[f"{here}.{attention}.w_o.{kind}"]
                for name, sublayer in SUBLAYERS[stack].items():
                    theirs[f"{there}.{name}.{kind}"] = ours[f"{here}.{sublayer}.norm.{kind}"]
                for number in (1, 2):
                    linear = ours[f"{here}.feed_forward.w_{number}.{kind}"]
                    theirs[f"{there}.linear{number}.{kind}"] = linear
        if norm == "pre":
            for kind in ("weight", "bias"):
                theirs[f"{stack}.norm.{kind}"] = ours[f"{stack}.norm.{kind}"]
    return theirs


def states_of(ours, theirs, source, target):
    """What both make of the same embedded source and target: memory, states and what they depend on."""
    visible = SOURCE.ne(0)[:, None, None]
    causal = causal_visible(target.shape[1])
    memory = ours.encoder(source, visible)
    our_states = ours.decoder(target, causal, ours.decoder.remember(memory), visible)
    hidden = SOURCE.eq(0)
    their_memory = theirs.encoder(source, src_key_padding_mask=hidden)
    their_states = theirs(
        source,
        target,
        tgt_mask=~causal[0, 0],
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
    )
    return (memory, our_states), (their_memory, their_states)


both_norms = pytest.mark.parametrize("norm", ["post", "pre"])
both_activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


@both_norms
@both_activations
def test_the_stacks_compute_the_same_states(norm, activation):
    ours, theirs = ours_of(norm, activation), theirs_of(norm, activation)
    theirs.load_state_dict(renamed(ours, norm), strict=True)
    source, target = ours.source_embedding(SOURCE), ours.target_embedding(TARGET)
    (memory, states), (their_memory, their_states) = states_of(ours, theirs, source, target)
    assert_close(memory, their_memory, atol=1e-5, rtol=1e-5)
    assert_close(states, their_states, atol=1e-5, rtol=1e-5)


@both_norms
@both_activations
def test_the_whole_model_is_torchs_between_our_embeddings_and_our_output(norm, activation):
    ours, theirs = ours_of(norm, activation), theirs_of(norm, activation)
    theirs.load_state_dict(renamed(ours, norm), strict=True)
    source = ours.source_position(ours.source_embedding(SOURCE))
    target = ours.target_position(ours.target_embedding(TARGET))
    _, (_, their_states) = states_of(ours, theirs, source, target)
    expected = their_states @ ours.output.weight.T
    assert_close(ours(SOURCE, TARGET), expected, atol=1e-5, rtol=1e-5)


@both_norms
def test_the_gradients_are_the_same(norm):
    ours, theirs = ours_of(norm, "relu"), theirs_of(norm, "relu")
    theirs.load_state_dict(renamed(ours, norm), strict=True)
    torch.manual_seed(1)
    source = torch.randn(3, 6, D_MODEL, requires_grad=True)
    target = torch.randn(3, 4, D_MODEL, requires_grad=True)
    towards = torch.randn(3, 4, D_MODEL)
    (_, states), (_, their_states) = states_of(ours, theirs, source, target)
    grads = torch.autograd.grad(states, (source, target), towards, retain_graph=True)
    their_grads = torch.autograd.grad(their_states, (source, target), towards, retain_graph=True)
    for grad, expected in zip(grads, their_grads, strict=True):
        assert_close(grad, expected, atol=1e-5, rtol=1e-4)
    states.backward(towards)
    their_states.backward(towards)
    attention = ours.encoder.layers[0].self_attention
    stacked = torch.cat([w.weight.grad for w in (attention.w_q, attention.w_k, attention.w_v)])
    assert_close(stacked, theirs.encoder.layers[0].self_attn.in_proj_weight.grad, atol=1e-5, rtol=1e-4)


def test_torchs_own_top_norm_is_what_the_paper_does_not_have():
    """Left on, a post-norm stack would be normalised twice: the states would differ by far."""
    ours, theirs = ours_of("post", "relu"), theirs_of("post", "relu")
    theirs.load_state_dict(renamed(ours, "post"), strict=True)
    visible = SOURCE.ne(0)[:, None, None]
    memory = ours.encoder(ours.source_embedding(SOURCE), visible)
    theirs.encoder.norm = nn.LayerNorm(D_MODEL)
    normed = theirs.encoder(ours.source_embedding(SOURCE), src_key_padding_mask=SOURCE.eq(0))
    assert (normed - memory).abs().max() > 1e-2
