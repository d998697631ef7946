"""A model directory → encoder.onnx and decoder.onnx: the same network as two graphs.

    encoder.onnx   source [batch, src_len]
                   → memory_visible [batch, src_len], memory_keys.N and memory_values.N
                     [batch, heads, src_len, d_k or d_v]: made once a source, for layer N of the decoder
    decoder.onnx   ids [rows], memory_visible, memory_keys.N, memory_values.N, and past_keys.N,
                   past_values.N [rows, heads, past_len, d_k or d_v] (past_len 0 at first)
                   → logits [rows, vocab], keys.N and values.N [rows, heads, past_len + 1, ·], and
                     attention [rows, src_len]: the cross-attention that alignments are read from

Rows are padded on the right with the padding id. Every configuration is carried. The tables of positions
have a last row: metadata `num_positions` of either file says how many.

Writing needs `onnx` (pip install 'transduce[onnx]'), running ONNX Runtime: translate/onnx_engine.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.errors import ModelError
from transduce.export.onnx_graph import PROTOBUF_LIMIT
from transduce.export.onnx_network import decoder_graph, encoder_graph
from transduce.files import atomic_directory, file_sha256, written_or
from transduce.recipe import Recipe
from transduce.text.tokenizer import save_tokenizers
from transduce.translate.model_directory import ModelDirectory

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["export_onnx"]


def export_onnx(directory: ModelDirectory, out: Path) -> list[str]:
    """Write encoder.onnx and decoder.onnx, and the vocabulary, recipe and card beside them.

    Returns sentences for the user; there are none.

    Raises:
        ModelError: `onnx` is not installed, or the directory cannot be written.
    """
    try:
        import onnx
    except ImportError as error:
        raise ModelError(f"export to onnx needs onnx ({error}): pip install 'transduce[onnx]'") from error
    recipe, target = directory.recipe, directory.tokenizers[1]
    network = directory.load_transformer()
    if not recipe.model.num_decoder_layers:
        raise ModelError("a decoder step without layers keeps no past: export --to onnx needs one layer")
    tensors = network.tensors() | _tables(recipe, network)
    weights = {name: tensor.numpy() for name, tensor in tensors.items()}
    metadata = {
        "num_positions": str(num_positions(recipe)),
        "pad_id": str(recipe.model.pad_id),
        "bos_id": str(target.bos_id),
        "eos_id": str(target.eos_id),
        "weights_sha256": file_sha256(directory.weights),
    }
    with written_or(ModelError, f"the export {out} could not be written"), atomic_directory(out) as place:
        for name, graph in (("encoder", encoder_graph), ("decoder", decoder_graph)):
            model = graph(recipe.model, weights).model(metadata)
            size = sum(array.nbytes for array in weights.values())
            file, beside = f"{name}.onnx", size > PROTOBUF_LIMIT
            onnx.save(model, place / file, save_as_external_data=beside, location=f"{file}.data")
        shutil.copyfile(directory.path / "recipe.toml", place / "recipe.toml")
        save_tokenizers(directory.tokenizers, place)
        (place / "card.md").write_text(directory.card, encoding="utf-8")
    return []


def num_positions(recipe: Recipe) -> int:
    """Positions of either side: what training read, and what the search may write."""
    if recipe.model.position == "learned":
        return recipe.model.max_len
    return max(512, recipe.batch.max_len, recipe.search.limit(recipe.batch.max_len) + 1)


def _tables(recipe: Recipe, network: Any) -> dict[str, Tensor]:
    """The position tables, by the names under which the graphs look them up."""
    from transduce.model.position import sinusoid_table

    config, length = recipe.model, num_positions(recipe)
    if config.position == "learned":
        start = config.position_offset
        tables = {side: getattr(network, f"{side}_position").weight for side in ("source", "target")}
        return {f"{side}_positions": table.detach()[start:] for side, table in tables.items()}
    if config.position == "rotary":
        table = sinusoid_table(length, config.key_width, "interleaved", config.position_offset)
        return {"sines": table[:, 0::2].contiguous(), "cosines": table[:, 1::2].contiguous()}
    table = sinusoid_table(length, config.d_model, config.sinusoid, config.position_offset)
    return {"source_positions": table, "target_positions": table}
