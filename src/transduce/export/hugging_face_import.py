"""A Marian directory of Hugging Face (OPUS-MT's form, or our own export) → a model directory.

    config.json                              which network; generation_config.json: which search
    model.safetensors or pytorch_model.bin   its weights
    source.spm, target.spm                   SentencePiece models that cut the text
    vocab.json (target_vocab.json)           piece → id
    tokenizer_config.json                    names of the special pieces, languages

The decoder starts from `decoder_start_token_id` (`<pad>` in OPUS-MT, TRAPS 15); positions count from 0 in
[sin | cos] halves (TRAPS 3), unless the weights hold another table. `pytorch_model.bin` is a pickle: it is
read with torch's `weights_only`, which builds tensors and runs no code. transformers is not needed.
"""

from __future__ import annotations

import math
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from transduce import __version__
from transduce.batch.config import BatchConfig
from transduce.errors import ModelError
from transduce.export.hugging_face import layer_name
from transduce.export.hugging_face_config import TheirConfig, our_config, read_config, tying
from transduce.export.hugging_face_names import EMBEDDINGS, FINAL_BIAS, POSITIONS, SHARED
from transduce.export.hugging_face_text import read_tokenizer_config, read_tokenizers
from transduce.files import file_sha256
from transduce.model.config import SinusoidVariant, TransformerConfig
from transduce.recipe import DataConfig, Recipe
from transduce.search.config import SearchConfig
from transduce.text.tokenizer import TokenizerConfig, save_tokenizers
from transduce.translate.model_directory import write_model_directory

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["import_hugging_face"]

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_SAME = 1e-5  # how far a table of positions may be from a formula's that is taken for it
_MAX_LEN_RATIO = 2.0  # of a translation; theirs is one number for all, up to 512


def import_hugging_face(path: Path, out: Path) -> list[str]:
    """Write the model directory `out`; return sentences that its user should know.

    Raises:
        ModelError: a file is missing or damaged, or the network is not one that we have.
        TokenizerError: the vocabulary is damaged, or does not belong to the weights.
    """
    theirs = read_config(path)
    weights = _weights_file(path)
    tensors = _read_weights(weights)
    position = _positions(theirs, tensors)
    tie = "none" if not theirs.scale_embedding else tying(theirs)
    config = our_config(theirs, tie=tie, output_bias=_has_bias(tensors), **position)
    source, target = read_tokenizers(
        path,
        sizes=(config.source_vocab_size, config.target_vocab_size),
        pad=theirs.pad_token_id,
        eos=theirs.eos_token_id,
        bos=theirs.decoder_start_token_id,
    )
    ours = _our_tensors(theirs, config, tensors, weights)
    recipe = _recipe(path, theirs, config)
    origin = f"{theirs.model_type}, {weights.name} {file_sha256(weights)}"
    recipe = replace(recipe, made_with={"imported_from": origin, "transduce": __version__})
    with tempfile.TemporaryDirectory(prefix="transduce") as text:
        save_tokenizers((source, target), Path(text))
        write_model_directory(out, recipe, Path(text), ours, _card(path, recipe))
    if theirs.normalize_embedding:
        return [
            "normalize_embedding is set, but the weights hold no such norm: left out, as transformers does"
        ]
    return []


def _weights_file(path: Path) -> Path:
    for name in _WEIGHTS:
        if (path / name).exists():
            return path / name
    raise ModelError(f"{path} holds no weights; expected {' or '.join(_WEIGHTS)}")


def _read_weights(file: Path) -> dict[str, Tensor]:
    """The tensors of either kind of file, in float32."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if file.suffix == ".safetensors":
            tensors = load_file(file)
        else:
            tensors = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"the weights {file} cannot be read ({reason}): copy the file again") from error
    if not isinstance(tensors, dict) or not all(isinstance(t, torch.Tensor) for t in tensors.values()):
        raise ModelError(f"{file} holds no table of tensors: expected a model's state_dict")
    return {name: tensor.float() for name, tensor in tensors.items()}


def _has_bias(tensors: dict[str, Tensor]) -> bool:
    return FINAL_BIAS in tensors and bool(tensors[FINAL_BIAS].any())


def _positions(theirs: TheirConfig, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Which of our kinds of position theirs is: by formula, or a table to be taken as learned."""
    max_len = min(theirs.max_position_embeddings, TransformerConfig.max_len)  # a table grows by itself
    tables = {name: tensors[name] for name in POSITIONS.values() if name in tensors}
    for name, table in tables.items():
        if table.dim() != 2 or table.shape[1] != theirs.d_model:
            raise ModelError(f"{name} has shape {tuple(table.shape)}, but d_model is {theirs.d_model}")
    if not tables:
        return {"position": "sinusoidal", "sinusoid": "halves", "max_len": max_len}
    for variant in get_args(SinusoidVariant):
        for offset in (0, 1, 2):
            if all(_is_table(table, variant, offset) for table in tables.values()):
                found = {"position": "sinusoidal", "sinusoid": variant, "position_offset": offset}
                return found | {"max_len": max_len}
    return {"position": "learned", "max_len": min(map(len, tables.values()))}


def _is_table(table: Tensor, variant: SinusoidVariant, offset: int) -> bool:
    """Whether a table is the one that a formula gives."""
    from transduce.model.position import sinusoid_table

    formula = sinusoid_table(len(table), table.shape[1], variant, offset)
    return bool((table - formula).abs().max() < _SAME)


def _our_tensors(
    theirs: TheirConfig, config: TransformerConfig, tensors: dict[str, Tensor], file: Path
) -> dict[str, Tensor]:
    """Their tensors under our names, each of the shape that the configuration asks for."""
    found = _our_embeddings(theirs, tensors, file)
    wanted = _shapes(config, tensors, file)
    used = {*EMBEDDINGS.values(), *POSITIONS.values(), SHARED, FINAL_BIAS}
    for name in wanted:
        if name.startswith(("encoder.", "decoder.")):
            used.add(layer_name(name))
            found[name] = _taken(tensors, file, layer_name(name))
    if config.output_bias:
        found["output.bias"] = tensors[FINAL_BIAS].flatten()
    if config.position == "learned":
        found |= {ours: _taken(tensors, file, name)[: config.max_len] for ours, name in POSITIONS.items()}
    for name, shape in wanted.items():
        if found[name].shape != shape:
            raise ModelError(
                f"{file}: {name} has shape {tuple(found[name].shape)}, and config.json asks for "
                f"{tuple(shape)}"
            )
    unknown = sorted(tensors.keys() - used)
    if unknown:
        raise ModelError(f"{file} holds {len(unknown)} weights that this network lacks, such as {unknown[0]}")
    return {name: found[name].contiguous() for name in wanted}


def _shapes(config: TransformerConfig, tensors: dict[str, Tensor], file: Path) -> dict[str, torch.Size]:
    """Every parameter that the configuration asks for; a damaged one takes neither memory nor time."""
    import torch

    from transduce.model.transformer import Transformer

    stacks = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
    for stack, num_layers in stacks.items():
        if num_layers:
            _taken(tensors, file, f"model.{stack}.layers.{num_layers - 1}.fc1.weight")
    try:
        with torch.device("meta"):
            return {name: parameter.shape for name, parameter in Transformer(config).named_parameters()}
    except RuntimeError as error:
        raise ModelError(f"config.json asks for a network that cannot be: {error}") from error


def _our_embeddings(theirs: TheirConfig, tensors: dict[str, Tensor], file: Path) -> dict[str, Tensor]:
    """The matrices that our configuration has of its own.

    Ours are always scaled by √d_model: what is not scaled there is divided by it here, and then the
    output projection, which is not, is a matrix of its own.
    """
    tie = tying(theirs)
    if tie == "all":
        _refuse_unequal(tensors, file)
    matrices = {}
    for ours, name in EMBEDDINGS.items():
        names = (SHARED, *EMBEDDINGS.values()) if tie == "all" else (name, SHARED)
        if (tie, ours) == ("target", "output.weight"):
            names = (EMBEDDINGS["target_embedding.weight"], name)
        matrices[ours] = _taken(tensors, file, *names)
    for name, matrix in matrices.items():
        if matrix.dim() != 2 or matrix.shape[1] != theirs.d_model:
            raise ModelError(
                f"{file}: {name} has shape {tuple(matrix.shape)}, and config.json's d_model is "
                f"{theirs.d_model}"
            )
    if not theirs.scale_embedding:
        down = 1 / math.sqrt(theirs.d_model)
        for ours in ("source_embedding.weight", "target_embedding.weight"):
            matrices[ours] = matrices[ours] * down
    return matrices


def _refuse_unequal(tensors: dict[str, Tensor], file: Path) -> None:
    """A matrix that is one must be the same under each name that it has."""
    names = [name for name in (SHARED, *EMBEDDINGS.values()) if name in tensors]
    for name in names[1:]:
        first, other = tensors[names[0]], tensors[name]
        if first.shape != other.shape or not bool((first == other).all()):
            raise ModelError(
                f"{file}: {names[0]} and {name} differ, but config.json says that they are one matrix"
            )


def _taken(tensors: dict[str, Tensor], file: Path, *names: str) -> Tensor:
    """The tensor of the first of the names that is there."""
    for name in names:
        if name in tensors:
            return tensors[name]
    raise ModelError(f"{file} lacks {names[0]}: are these the weights of this config.json?")


def _recipe(path: Path, theirs: TheirConfig, config: TransformerConfig) -> Recipe:
    """What a model directory says of itself."""
    names = read_tokenizer_config(path)
    longest = min(config.max_len, theirs.max_position_embeddings)
    source, target = (str(names.get(f"{side}_lang") or "") for side in ("source", "target"))
    separate = bool(names.get("separate_vocabs"))
    return Recipe(
        description=f"Imported from a {theirs.model_type} directory.",
        data=DataConfig(source_language=source, target_language=target),
        tokenizer=TokenizerConfig(kind="unigram", vocab_size=config.source_vocab_size, joint=not separate),
        batch=replace(BatchConfig(), max_len=longest),
        model=config,
        search=SearchConfig(
            beam_size=theirs.num_beams,
            length_penalty="power",
            alpha=theirs.length_penalty,
            max_len_ratio=_MAX_LEN_RATIO,
            no_repeat_ngram=theirs.no_repeat_ngram_size,
            min_len=theirs.min_new_tokens,
        ),
    )


def _card(path: Path, recipe: Recipe) -> str:
    """A short card: where it came from, and what it is."""
    model, data = recipe.model, recipe.data
    return "\n".join(
        [
            f"# Translation model {data.source_language or 'source'} → {data.target_language or 'target'}",
            "",
            f"Imported from `{path.name}` ({recipe.made_with['imported_from']}). Its makers' licence holds.",
            "",
            f"- {model.num_encoder_layers} + {model.num_decoder_layers} layers, d_model {model.d_model}, "
            f"d_ff {model.d_ff}, {model.num_heads} heads, {model.norm}-norm, {model.activation}",
            f"- vocabulary: {model.source_vocab_size:,} source and {model.target_vocab_size:,} target pieces",
            f"- search: beam_size {recipe.search.beam_size}, length_penalty power with alpha "
            f"{recipe.search.alpha}",
            "",
        ]
    )
