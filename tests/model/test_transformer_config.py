"""The configuration: the paper's base by default, and errors that name both values."""

from __future__ import annotations

import dataclasses

import pytest
from tiny_models import config_of

from transduce.errors import ModelError
from transduce.model import Transformer, TransformerConfig


def test_the_defaults_are_the_papers_base_model():
    config = TransformerConfig()
    assert (config.num_encoder_layers, config.num_decoder_layers) == (6, 6)
    assert (config.d_model, config.d_ff, config.num_heads) == (512, 2048, 8)
    assert (config.key_width, config.value_width) == (64, 64)
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.1, 0.0, 0.0)
    assert (config.norm, config.activation, config.tie) == ("post", "relu", "all")
    assert (config.position, config.sinusoid, config.position_offset) == ("sinusoidal", "interleaved", 0)
    assert (config.bias, config.output_bias, config.max_len) == (True, False, 5000)
    assert (config.pad_id, config.layer_norm_eps) == (0, 1e-5)
    assert (config.source_vocab_size, config.target_vocab_size) == (0, 0)  # the tokenizer's


def test_widths_follow_d_model_unless_given():
    assert config_of(d_model=12, num_heads=3).key_width == 4
    assert config_of(d_model=12, num_heads=3).value_width == 4
    assert config_of(d_model=12, num_heads=3, d_k=5).key_width == 5
    assert config_of(d_model=12, num_heads=3, d_k=5).value_width == 5
    assert config_of(d_model=12, num_heads=3, d_v=7).key_width == 4
    assert config_of(d_model=12, num_heads=3, d_v=7).value_width == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"d_model": 10, "num_heads": 4},
            r"d_model \(10\) must be a multiple of num_heads \(4\).*change one of the two, or set d_k",
        ),
        (
            {"d_model": 12, "num_heads": 4, "position": "rotary"},
            r"rotary .* width must be even; it is 3: change num_heads or set d_k",
        ),
        ({"position": "rotary", "d_k": 5}, r"rotary .* it is 5"),
        (
            {"source_vocab_size": 19, "target_vocab_size": 23},
            r"tie = 'all' .* 19 pieces and the target's 23: .* tie = 'target'",
        ),
        *[
            ({name: 0}, rf"^{name} must be at least 1, got 0$")
            for name in ("d_model", "d_ff", "num_heads", "max_len")
        ],
        *[
            ({name: -1}, rf"^{name} must not be negative, got -1$")
            for name in (
                "num_encoder_layers",
                "num_decoder_layers",
                "d_k",
                "d_v",
                "position_offset",
                "pad_id",
            )
        ],
        *[
            ({name: value}, rf"^{name} must be at least 0 and below 1, got {value}$")
            for name in ("dropout", "attention_dropout", "activation_dropout")
            for value in (1.0, -0.1, 7.0)
        ],
    ],
)
def test_what_does_not_fit_is_refused_with_both_values(changes, message):
    with pytest.raises(ModelError, match=message):
        config_of(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"d_model": 10, "num_heads": 4, "d_k": 3},
        {"d_model": 12, "num_heads": 4, "position": "rotary", "d_k": 2},
        {"d_model": 12, "num_heads": 4, "position": "sinusoidal"},
        {"source_vocab_size": 19, "target_vocab_size": 23, "tie": "target"},
        {"source_vocab_size": 19, "target_vocab_size": 23, "tie": "none"},
        {"num_encoder_layers": 0, "num_decoder_layers": 0},
        {"d_model": 1, "d_ff": 1, "num_heads": 1, "max_len": 1},
        {"dropout": 0.0, "attention_dropout": 0.999, "activation_dropout": 0.5},
    ],
)
def test_what_fits_is_taken(changes):
    config = config_of(**changes)
    assert {name: getattr(config, name) for name in changes} == changes


def test_it_is_frozen_and_every_field_is_named():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config_of().d_model = 3
    with pytest.raises(TypeError):
        TransformerConfig(512)
    with pytest.raises(TypeError, match="d_modl"):
        TransformerConfig(d_modl=512)


def test_a_padding_id_outside_the_vocabulary_is_refused():
    config = TransformerConfig(source_vocab_size=9, target_vocab_size=5, tie="none", d_model=8, pad_id=5)
    with pytest.raises(ModelError, match=r"pad_id \(5\) lies outside.*target_vocab_size = 5"):
        Transformer(config)
