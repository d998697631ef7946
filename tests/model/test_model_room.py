"""The room's door: the public names, and no torch until one of them needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import transduce.model


@pytest.mark.parametrize("name", transduce.model.__all__)
def test_every_public_name_is_found_and_knows_its_file(name):
    found = getattr(transduce.model, name)
    assert found.__name__ == name
    assert found.__module__.startswith("transduce.model.")
    assert getattr(transduce.model, name) is found


@pytest.mark.parametrize("name", ["Transformers", "Linear", "torch", "_additive_position"])
def test_an_unknown_name_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"module 'transduce.model' has no attribute '{name}'"):
        getattr(transduce.model, name)


def test_the_public_names_are_these():
    assert transduce.model.__all__ == [
        "AttentionRecord",
        "DecoderCache",
        "KeysValues",
        "Memory",
        "MultiHeadAttention",
        "Transformer",
        "TransformerConfig",
        "causal_visible",
        "explicit_attention",
        "fused_attention",
        "padding_visible",
        "sinusoid_table",
        "target_visible",
    ]


def run(code: str) -> str:
    """What a new Python prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_configuration_can_be_read_without_torch():
    told = "print('torch' in sys.modules, 'numpy' in sys.modules)"
    code = f"""
import sys
import transduce.model
{told}
from transduce.model.config import TransformerConfig
{told}
from transduce.model import TransformerConfig as again
print(again is TransformerConfig, again().d_model)
{told}
from transduce.model import Transformer
{told}
"""
    assert run(code).splitlines() == [
        "False False",
        "False False",
        "True 512",
        "False False",
        "True True",
    ]
