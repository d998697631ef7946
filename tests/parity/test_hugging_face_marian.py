"""Parity with Hugging Face `MarianMTModel`, randomly initialised: the same weights, the same logits.

Marian there is post-norm, its sinusoids are "halves", its embeddings tied three ways and scaled, its
output has a bias, and the decoder starts from the padding id (TRAPS 15). Nothing is downloaded.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from transduce.model import Transformer, TransformerConfig, sinusoid_table

transformers = pytest.importorskip("transformers", minversion="5")

LAYERS, D_MODEL, D_FF, HEADS, VOCAB, PAD = 2, 16, 24, 4, 29, 28
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 0], [3, 4, 0, PAD, PAD, PAD], [11, 0, PAD, PAD, PAD, PAD]])
LABELS = torch.tensor([[4, 5, 6, 3, 0], [9, 8, 0, PAD, PAD], [2, 0, PAD, PAD, PAD]])
STARTED = torch.cat((torch.full((3, 1), PAD), LABELS[:, :-1]), dim=1)


@pytest.fixture(scope="module", params=["relu", "gelu"])
def pair(request):
    """Theirs, and ours with the same weights."""
    torch.manual_seed(0)
    theirs = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=VOCAB,
            d_model=D_MODEL,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=D_FF,
            decoder_ffn_dim=D_FF,
            max_position_embeddings=32,
            activation_function=request.param,
            scale_embedding=True,
            pad_token_id=PAD,
            decoder_start_token_id=PAD,
            eos_token_id=0,
            forced_eos_token_id=None,
            init_std=0.3,
        )
    ).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
        theirs.final_logits_bias.normal_(std=0.1)
    ours = Transformer(
        TransformerConfig(
            source_vocab_size=VOCAB,
            target_vocab_size=VOCAB,
            pad_id=PAD,
            num_encoder_layers=LAYERS,
            num_decoder_layers=LAYERS,
            d_model=D_MODEL,
            d_ff=D_FF,
            num_heads=HEADS,
            activation=request.param,
            sinusoid="halves",
            output_bias=True,
            max_len=8,
        )
    ).eval()
    ours.load_tensors(renamed(theirs, ours))
    return theirs, ours


PLACES = {
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "self_attention_add_norm.norm": "self_attn_layer_norm",
    "cross_attention_add_norm.norm": "encoder_attn_layer_norm",
    "feed_forward_add_norm.norm": "final_layer_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
}
PROJECTIONS = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}


def renamed(theirs, ours):
    """Their weights under our names."""
    state = theirs.state_dict()
    tensors = {
        "source_embedding.weight": state["model.shared.weight"],
        "output.bias": state["final_logits_bias"][0],
    }
    for name in ours.tensors():
        if name in tensors:
            continue
        stack, _, index, *place, kind = name.split(".")
        projection = [PROJECTIONS[place.pop()]] if place[-1] in PROJECTIONS else []
        there = ".".join([PLACES[".".join(place)], *projection, kind])
        tensors[name] = state[f"model.{stack}.layers.{index}.{there}"]
    return tensors


@torch.no_grad()
def test_the_encoders_output_is_the_same(pair):
    theirs, ours = pair
    expected = theirs.get_encoder()(input_ids=SOURCE, attention_mask=SOURCE.ne(PAD).long())
    memory = ours.encode(SOURCE)
    assert_close(memory.states, expected.last_hidden_state, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_the_logits_are_the_same_from_the_padding_id_on(pair):
    theirs, ours = pair
    expected = theirs(
        input_ids=SOURCE, attention_mask=SOURCE.ne(PAD).long(), decoder_input_ids=STARTED
    ).logits
    assert_close(ours(SOURCE, STARTED), expected, atol=1e-4, rtol=1e-4)
    shifted = theirs(input_ids=SOURCE, attention_mask=SOURCE.ne(PAD).long(), labels=LABELS).logits
    assert_close(ours(SOURCE, STARTED), shifted, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_step_by_step_is_the_same(pair):
    theirs, ours = pair
    expected = theirs(
        input_ids=SOURCE, attention_mask=SOURCE.ne(PAD).long(), decoder_input_ids=STARTED
    ).logits
    cache = ours.start(ours.encode(SOURCE))
    for step in range(STARTED.shape[1]):
        logits, _ = ours.step(STARTED[:, step], cache)
        assert_close(logits, expected[:, step], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_greedy_decoding_by_their_own_generate_is_the_same(pair):
    theirs, ours = pair
    steps = 6
    generated = theirs.generate(
        input_ids=SOURCE[:1],
        attention_mask=torch.ones_like(SOURCE[:1]),
        generation_config=transformers.GenerationConfig(
            num_beams=1,
            do_sample=False,
            max_new_tokens=steps,
            decoder_start_token_id=PAD,
            pad_token_id=PAD,
            eos_token_id=None,
        ),
    )
    cache, ids = ours.start(ours.encode(SOURCE[:1])), torch.tensor([PAD])
    for step in range(steps):
        logits, _ = ours.step(ids, cache)
        ids = logits.argmax(-1)
        assert ids.tolist() == generated[:, step + 1].tolist()


def test_their_position_table_is_our_halves(pair):
    theirs, _ = pair
    table = theirs.get_encoder().embed_positions.weight
    assert_close(table.detach(), sinusoid_table(32, D_MODEL, "halves"))
    assert_close(table[1, 1].item(), math.sin(1 / 10000 ** (2 / D_MODEL)))
