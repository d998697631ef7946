"""What a Marian directory's config.json says, checked, and the same network in our words.

Fields that are missing have MarianConfig's defaults. Does not know: weights, text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from transduce.errors import ModelError
from transduce.export.hugging_face_names import ACTIVATIONS, SILU
from transduce.model.config import TransformerConfig, Tying

__all__ = ["TheirConfig", "our_config", "read_config", "tying"]

_GENERATION = ("num_beams", "length_penalty", "no_repeat_ngram_size", "min_new_tokens")


@dataclass(frozen=True, kw_only=True)
class TheirConfig:
    """What config.json and generation_config.json say, with MarianConfig's defaults."""

    model_type: str = ""
    vocab_size: int
    decoder_vocab_size: int | None = None
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    max_position_embeddings: int = 1024
    activation_function: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    normalize_before: bool = False
    normalize_embedding: bool = False
    add_final_layer_norm: bool = False
    num_beams: int = 1
    length_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    min_new_tokens: int = 0


def read_config(path: Path) -> TheirConfig:
    """Read config.json, with generation_config.json over it.

    Raises:
        ModelError: a file is missing or damaged, or asks for what our network does not have.
    """
    file = path / "config.json"
    table = _read_json(file)
    if table.get("model_type") not in ("marian", "pegasus"):
        raise ModelError(
            f"{file} says model_type {table.get('model_type')!r}; import reads marian (OPUS-MT), and pegasus "
            f"as `transduce export --to hf` writes it"
        )
    end = table.get("eos_token_id")
    if isinstance(end, list) and len(end) == 1:
        table["eos_token_id"] = end[0]
    generation = path / "generation_config.json"
    if generation.exists():
        own = _read_json(generation)
        table |= {name: own[name] for name in _GENERATION if own.get(name) is not None}
    known = {field.name for field in fields(TheirConfig)}
    try:
        theirs = TypeAdapter(TheirConfig).validate_python(
            {name: value for name, value in table.items() if name in known and value is not None}
        )
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ModelError(f"{file}: {problems}") from error
    _refuse_foreign_networks(theirs, file)
    return theirs


def _refuse_foreign_networks(theirs: TheirConfig, file: Path) -> None:
    """Refuse what our network does not compute."""
    problems = {
        "other numbers of heads in encoder and decoder": (
            theirs.encoder_attention_heads != theirs.decoder_attention_heads
        ),
        "other ffn_dim in encoder and decoder": theirs.encoder_ffn_dim != theirs.decoder_ffn_dim,
        f"activation_function {theirs.activation_function!r}": (
            theirs.activation_function not in (*ACTIVATIONS.values(), SILU)
        ),
        "normalize_before": theirs.normalize_before and theirs.model_type == "marian",
        "add_final_layer_norm": theirs.add_final_layer_norm and theirs.model_type == "marian",
    }
    found = [what for what, there in problems.items() if there]
    if found:
        raise ModelError(f"{file} asks for {' and '.join(found)}, which this network does not have")


def our_config(theirs: TheirConfig, **rest: Any) -> TransformerConfig:
    """The same network in our words."""
    shared = theirs.share_encoder_decoder_embeddings or theirs.model_type == "pegasus"
    target_size = theirs.vocab_size if shared else theirs.decoder_vocab_size or theirs.vocab_size
    activation = theirs.activation_function
    return TypeAdapter(TransformerConfig).validate_python(
        {
            "source_vocab_size": theirs.vocab_size,
            "target_vocab_size": target_size,
            "pad_id": theirs.pad_token_id,
            "num_encoder_layers": theirs.encoder_layers,
            "num_decoder_layers": theirs.decoder_layers,
            "d_model": theirs.d_model,
            "d_ff": theirs.encoder_ffn_dim,
            "num_heads": theirs.encoder_attention_heads,
            "dropout": theirs.dropout,
            "attention_dropout": theirs.attention_dropout,
            "activation_dropout": theirs.activation_dropout,
            "norm": "pre" if theirs.model_type == "pegasus" else "post",
            "activation": "swish" if activation == SILU else activation,
            **rest,
        }
    )


def tying(theirs: TheirConfig) -> Tying:
    """Which matrices are one."""
    if not theirs.tie_word_embeddings:
        return "none"
    return "all" if theirs.share_encoder_decoder_embeddings or theirs.model_type == "pegasus" else "target"


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise ModelError(
            f"{file} cannot be read ({error.strerror}); expected a Marian directory of Hugging Face"
        ) from error
    except ValueError as error:
        raise ModelError(f"{file} is not JSON ({error}): copy it again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} holds no table of settings, but {type(content).__name__}: copy it again")
    return content
