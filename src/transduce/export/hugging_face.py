"""A model directory → a directory that `transformers` loads and that generates the same ids.

    post-norm   MarianMTModel
    pre-norm    PegasusForConditionalGeneration: pre-norm, and a LayerNorm on top of each stack

Both add a table of positions, [sin | cos] halves with exponents 2i/d counted from 0 (TRAPS 3). The
paper's interleaved table becomes theirs by an order of the d_model columns, which the whole network is
put into; any other table is written as their position weight. Embeddings are scaled by √d_model.

Writing needs torch and safetensors, not transformers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.errors import ModelError
from transduce.export.hugging_face_names import (
    ACTIVATIONS,
    COLUMNS,
    EMBEDDINGS,
    FINAL_BIAS,
    LAYER_PARTS,
    POSITIONS,
    SHARED,
    STACK_NORM,
)
from transduce.export.hugging_face_text import write_tokenizer_files
from transduce.files import atomic_directory, written_or
from transduce.model.config import TransformerConfig
from transduce.recipe import Recipe
from transduce.translate.model_directory import ModelDirectory

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["export_hugging_face", "layer_name", "refuse_foreign_shapes"]

_LAYER_NORM_EPS = 1e-5  # torch's default, which both classes use
_IMPOSSIBLE = -1e9  # the bias of ids that only fill up a vocabulary
_CLASSES = {"post": ("MarianMTModel", "marian"), "pre": ("PegasusForConditionalGeneration", "pegasus")}


def export_hugging_face(directory: ModelDirectory, out: Path) -> list[str]:
    """Write config.json, generation_config.json, model.safetensors, tokenizer files and a README.md.

    Returns sentences about what differs, for the user.

    Raises:
        ModelError: no class carries the configuration, or the directory cannot be written.
    """
    from safetensors.torch import save

    recipe = directory.recipe
    refuse_foreign_shapes(recipe.model)
    tensors = _tensors(recipe, directory.load_transformer().tensors())
    notes = _notes(recipe)
    with written_or(ModelError, f"the export {out} could not be written"), atomic_directory(out) as place:
        _write_json(place / "config.json", _config(directory))
        _write_json(place / "generation_config.json", _generation(directory))
        (place / "model.safetensors").write_bytes(save(tensors, {"format": "pt"}))
        notes += write_tokenizer_files(directory, place)
        (place / "README.md").write_text(_readme(directory, notes), encoding="utf-8")
    return notes


def refuse_foreign_shapes(config: TransformerConfig) -> None:
    """Refuse what neither class can compute.

    Raises:
        ModelError: naming the setting, and what would do.
    """
    problems = {
        "rotary positions": config.position == "rotary",
        f"activation {config.activation!r}": config.activation not in ACTIVATIONS,
        f"d_k = {config.key_width} and d_v = {config.value_width} (they have d_model / num_heads)": (
            {config.key_width, config.value_width} != {config.d_model // config.num_heads}
            or config.d_model % config.num_heads > 0
        ),
        f"layer_norm_eps = {config.layer_norm_eps} (they have {_LAYER_NORM_EPS})": (
            config.layer_norm_eps != _LAYER_NORM_EPS
        ),
    }
    found = [what for what, there in problems.items() if there]
    if found:
        raise ModelError(
            f"Hugging Face has no encoder-decoder class with {', nor with '.join(found)}: "
            f"export --to onnx carries it"
        )


def _tensors(recipe: Recipe, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under their names, in their order of columns."""
    config = recipe.model
    if _is_reordered(config):
        tensors = {name: _in_halves(name, tensor) for name, tensor in tensors.items()}
    theirs: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.startswith(("encoder.", "decoder.")):
            theirs[layer_name(name)] = tensor.contiguous()
    for name in [name for name in theirs if name.endswith("_proj.weight")]:
        bias = name.removesuffix("weight") + "bias"
        theirs.setdefault(bias, theirs[name].new_zeros(len(theirs[name])))
    theirs.update(_embeddings(config, tensors))
    theirs.update(_position_tables(recipe, tensors))
    theirs[FINAL_BIAS] = _final_bias(config, tensors)
    return theirs


def layer_name(name: str) -> str:
    """`encoder.layers.0.feed_forward.w_1.weight` → `model.encoder.layers.0.fc1.weight`."""
    stack, *place, kind = name.split(".")
    if place == [STACK_NORM[0]]:
        return f"model.{stack}.{STACK_NORM[1]}.{kind}"
    _, index, *part = place
    return f"model.{stack}.layers.{index}.{LAYER_PARTS['.'.join(part)]}.{kind}"


def _embeddings(config: TransformerConfig, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The embeddings, and the output projection where it is a matrix of its own."""
    source = tensors["source_embedding.weight"]
    if config.tie == "all":
        return {SHARED: source}
    target = tensors["target_embedding.weight"]
    matrices = dict(zip(EMBEDDINGS, (source, target, tensors.get("output.weight", target)), strict=True))
    if config.norm == "pre":  # Pegasus has one size for both vocabularies, and an entry for both
        matrices = {name: _filled_up(matrix, _joint_size(config)) for name, matrix in matrices.items()}
    elif config.tie == "target":
        del matrices["output.weight"]
    named = {EMBEDDINGS[name]: matrix.clone().contiguous() for name, matrix in matrices.items()}
    return named | ({SHARED: named[EMBEDDINGS["source_embedding.weight"]].clone()}
                    if config.norm == "pre" else {})  # fmt: skip


def _position_tables(recipe: Recipe, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tables of positions; none for Marian's own, which transformers computes."""
    from transduce.model.position import sinusoid_table

    config, length = recipe.model, _num_positions(recipe)
    if config.position == "learned":
        return {POSITIONS[name]: tensors[name][config.position_offset :].clone() for name in POSITIONS}
    if _has_their_table(config) and config.norm == "post":
        return {}
    variant = "halves" if _is_reordered(config) else config.sinusoid
    table = sinusoid_table(length, config.d_model, variant, config.position_offset)
    return {name: table.clone() for name in POSITIONS.values()}


def _final_bias(config: TransformerConfig, tensors: dict[str, Tensor]) -> Tensor:
    """One row: the output's bias, or zeros; ids that only fill up the vocabulary are impossible."""
    reference = tensors["source_embedding.weight"]
    own = tensors.get("output.bias", reference.new_zeros(config.target_vocab_size))
    size = config.target_vocab_size if config.norm == "post" else _joint_size(config)
    bias = own.new_full((1, size), _IMPOSSIBLE)
    bias[0, : len(own)] = own
    return bias


def _in_halves(name: str, tensor: Tensor) -> Tensor:
    """Bring the d_model axis into the order in which interleaved sinusoids become halves."""
    import torch

    for axis, kind in enumerate(("rows", "columns")):
        if name.endswith(COLUMNS[kind]):
            order = torch.arange(tensor.shape[axis])
            return tensor.index_select(axis, torch.cat((order[0::2], order[1::2])))
    return tensor


def _filled_up(matrix: Tensor, size: int) -> Tensor:
    """The matrix with rows of zeros below."""
    filled = matrix.new_zeros(size, matrix.shape[1])
    filled[: len(matrix)] = matrix
    return filled


def _is_reordered(config: TransformerConfig) -> bool:
    return (config.position, config.sinusoid, config.position_offset) == ("sinusoidal", "interleaved", 0)


def _has_their_table(config: TransformerConfig) -> bool:
    """Whether transformers' own formula gives the table."""
    own = (config.position, config.sinusoid, config.position_offset) == ("sinusoidal", "halves", 0)
    return own or _is_reordered(config)


def _joint_size(config: TransformerConfig) -> int:
    return max(config.source_vocab_size, config.target_vocab_size)


def _num_positions(recipe: Recipe) -> int:
    """Positions of either side: what training read, and what the search may write."""
    if recipe.model.position == "learned":
        return recipe.model.max_len
    return max(512, recipe.batch.max_len, recipe.search.limit(recipe.batch.max_len) + 1)


def _config(directory: ModelDirectory) -> dict[str, Any]:
    """config.json."""
    recipe, target = directory.recipe, directory.tokenizers[1]
    config = recipe.model
    name, model_type = _CLASSES[config.norm]
    common: dict[str, Any] = {
        "architectures": [name],
        "model_type": model_type,
        "d_model": config.d_model,
        "max_position_embeddings": _num_positions(recipe),
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": True,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "pad_token_id": config.pad_id,
        "bos_token_id": target.bos_id,
        "eos_token_id": target.eos_id,
        "decoder_start_token_id": target.bos_id,
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
        "static_position_embeddings": config.position == "sinusoidal",
        "dtype": "float32",
    }
    for side, num_layers in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        common |= {
            f"{side}_layers": num_layers,
            f"{side}_ffn_dim": config.d_ff,
            f"{side}_attention_heads": config.num_heads,
        }
    if config.norm == "pre":
        return common | {"vocab_size": _joint_size(config), "tie_word_embeddings": config.tie == "all"}
    return common | {
        "vocab_size": config.source_vocab_size,
        "decoder_vocab_size": config.target_vocab_size,
        "share_encoder_decoder_embeddings": config.tie == "all",
        "tie_word_embeddings": config.tie != "none",
    }


def _generation(directory: ModelDirectory) -> dict[str, Any]:
    """generation_config.json: our search, in their words."""
    search, target = directory.recipe.search, directory.tokenizers[1]
    suppress = {target.pad_id, target.bos_id, target.unk_id, *target.newline_ids} - {target.eos_id}
    settings: dict[str, Any] = {
        "decoder_start_token_id": target.bos_id,
        "bos_token_id": target.bos_id,
        "eos_token_id": target.eos_id,
        "pad_token_id": directory.recipe.model.pad_id,
        "forced_eos_token_id": None,
        "suppress_tokens": sorted(suppress),
        "max_length": _num_positions(directory.recipe),
        "num_beams": search.beam_size,
        "do_sample": False,
    }
    if search.no_repeat_ngram:
        settings["no_repeat_ngram_size"] = search.no_repeat_ngram
    if search.min_len:
        settings["min_new_tokens"] = search.min_len
    if search.beam_size > 1:
        # "never": only what cannot be beaten ends the search, as here; their default is a guess.
        settings |= {"early_stopping": "never", "length_penalty": _length_penalty(directory.recipe)}
    return settings


def _length_penalty(recipe: Recipe) -> float:
    """The exponent of their len^alpha; for ((5 + len) / 6)^alpha its slope at 20 tokens, 0.8 alpha."""
    search = recipe.search
    return search.alpha if search.length_penalty == "power" else round(0.8 * search.alpha, 4)


def _notes(recipe: Recipe) -> list[str]:
    """What a user should know: where generate differs from translate, and what not to do."""
    config, search, notes = recipe.model, recipe.search, []
    if search.beam_size > 1 and search.length_penalty == "gnmt" and search.alpha:
        notes.append(
            f"transformers has no GNMT length penalty: its length_penalty is set to "
            f"{_length_penalty(recipe)} (for alpha {search.alpha}); with num_beams=1, or with "
            "search.length_penalty = 'power' here, the ids are the same"
        )
    if config.norm == "post" and not _has_their_table(config):
        notes.append(
            "the table of positions is in model.safetensors, where transformers loads it from; its "
            "save_pretrained leaves it out for Marian, so do not save the model again with it"
        )
    return notes


def _readme(directory: ModelDirectory, notes: list[str]) -> str:
    """How to load it, and the model's own card."""
    name = _CLASSES[directory.recipe.model.norm][0]
    usage = [
        f"from transformers import AutoTokenizer, {name}",
        'tokenizer = AutoTokenizer.from_pretrained("DIRECTORY")',
        f'model = {name}.from_pretrained("DIRECTORY")',
        'batch = tokenizer(["..."], return_tensors="pt", padding=True)',
        "print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))",
    ]
    lines = ["```python", *usage, "```", "", *(f"- {note}" for note in notes), "", directory.card]
    return "\n".join(lines)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
