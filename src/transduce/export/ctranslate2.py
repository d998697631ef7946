"""A model directory to a CTranslate2 model: what it translates with where torch is not installed.

In:  a model directory. Out: `MODEL/ct2/`, whole or not at all, with the facts of `translate/exported.py`.
Does not know: how well it agrees (`parity.py` measures that). Needs safetensors, not torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from transduce import __version__
from transduce.errors import ModelError
from transduce.export.ctranslate2_weights import Array, as_specification
from transduce.files import atomic_directory, file_sha256, written_or
from transduce.translate.exported import EXPORT_DIRECTORY, Exported

if TYPE_CHECKING:
    from transduce.model.config import TransformerConfig
    from transduce.text.tokenizer import Tokenizer
    from transduce.translate.model_directory import ModelDirectory

__all__ = ["Quantization", "Vocabulary", "export_ctranslate2", "save_ctranslate2"]

Quantization = Literal["int8", "int16", "float32"]

_LEAST_POSITIONS = 1024
_MOST_POSITIONS = 5000


@dataclass(frozen=True)
class Vocabulary:
    """One side's pieces in the order of their ids, and the special ones among them."""

    pieces: Sequence[str]
    unk_id: int
    bos_id: int
    eos_id: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        """A tokenizer's."""
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        return cls(pieces, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id)


def export_ctranslate2(
    directory: ModelDirectory,
    *,
    quantization: Quantization = "int8",
    out: Path | None = None,
    shortlist: str = "",
) -> Path:
    """Export a model directory; return where it lies now.

    Args:
        directory: the model.
        quantization: number form of the weights: `int8` is a quarter of `float32`, which alone gives
            torch's own answers.
        out: instead of `MODEL/ct2`; what stood there is replaced.
        shortlist: content of a `vmap.txt` (`shortlist.py`), or nothing.

    Raises:
        ModelError: a setting cannot be carried, a file cannot be read, or `out` cannot be written.
    """
    if quantization not in get_args(Quantization):
        known = ", ".join(get_args(Quantization))
        raise ModelError(f"quantization is {quantization!r}, but must be one of {known}")
    _import_ctranslate2()
    path = out or directory.path / EXPORT_DIRECTORY
    recipe = directory.recipe
    num_positions = min(_MOST_POSITIONS, max(_LEAST_POSITIONS, 4 * recipe.batch.max_len))
    source, target = directory.tokenizers
    with (
        written_or(ModelError, f"the export {path} could not be written"),
        atomic_directory(path) as temporary,
    ):
        save_ctranslate2(
            temporary,
            recipe.model,
            _read_weights(directory.weights),
            Vocabulary.of(source),
            Vocabulary.of(target),
            quantization=quantization,
            num_positions=num_positions,
        )
        if shortlist:
            (temporary / "vmap.txt").write_text(shortlist, encoding="utf-8")
        _facts(directory, quantization, num_positions, bool(shortlist)).write(temporary)
    return path


def save_ctranslate2(
    path: Path,
    config: TransformerConfig,
    tensors: Mapping[str, Array],
    source: Vocabulary,
    target: Vocabulary,
    *,
    quantization: Quantization = "float32",
    num_positions: int = _LEAST_POSITIONS,
) -> None:
    """Write CTranslate2's own files into an existing directory.

    Args:
        path: the directory.
        config: the model's.
        tensors: its weights by our names.
        source: the source vocabulary.
        target: the target vocabulary.
        quantization: number form of the weights.
        num_positions: rows of a sinusoidal position table.

    Raises:
        ModelError: CTranslate2 cannot carry a setting, or a vocabulary and the weights differ.
    """
    for side, vocabulary in (("source", source), ("target", target)):
        size = getattr(config, f"{side}_vocab_size")
        if len(vocabulary.pieces) != size:
            raise ModelError(
                f"the {side} vocabulary has {len(vocabulary.pieces)} pieces, the model {size}: "
                "are tokenizer and weights from the same run?"
            )
        if len(set(vocabulary.pieces)) != size:
            raise ModelError(
                f"the {side} vocabulary holds a piece twice, which CTranslate2 cannot tell apart"
            )
    spec = as_specification(config, tensors, num_positions)
    spec.register_source_vocabulary(list(source.pieces))
    spec.register_target_vocabulary(list(target.pieces))
    spec.config.unk_token = target.pieces[target.unk_id]
    spec.config.bos_token = spec.config.decoder_start_token = target.pieces[target.bos_id]
    spec.config.eos_token = target.pieces[target.eos_id]
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(path))


def _facts(
    directory: ModelDirectory, quantization: Quantization, num_positions: int, shortlist: bool
) -> Exported:
    recipe, target = directory.recipe, directory.tokenizers[1]
    status = directory.weights.stat()
    longest = {"learned": recipe.model.max_len, "sinusoidal": num_positions}.get(recipe.model.position, 0)
    return Exported(
        weights_sha256=file_sha256(directory.weights),
        weights_bytes=status.st_size,
        weights_modified=status.st_mtime_ns,
        quantization=quantization,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
        suppress=(target.unk_id, *target.newline_ids),
        max_len=recipe.batch.max_len - 1,
        longest=longest,
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
        search=dataclasses.asdict(recipe.search),
        shortlist=shortlist,
        made_with={"transduce": __version__, "ctranslate2": _import_ctranslate2().__version__},
    )


def _read_weights(file: Path) -> dict[str, Array]:
    """The weights as arrays.

    Raises:
        ModelError: safetensors is not installed, or the file cannot be read.
    """
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as error:
        raise ModelError(
            f"reading {file} needs safetensors, which is not installed: pip install 'transduce[train]'"
        ) from error
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"the weights {file} cannot be read ({error}): copy the directory again") from error


def _import_ctranslate2() -> Any:
    try:
        import ctranslate2
    except ImportError as error:
        raise ModelError(
            f"exporting to CTranslate2 needs ctranslate2, which is not installed ({error}): "
            "pip install ctranslate2"
        ) from error
    return ctranslate2
