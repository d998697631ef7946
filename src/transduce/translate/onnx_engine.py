"""The engine over ONNX Runtime: encoder.onnx and decoder.onnx, as `transduce export --to onnx` writes them.

Sentences are sorted by length and cut into batches; our own search asks for one step after the other, so
that a model gives the same translations as in torch. Axes: rows, heads, past_len, src_len.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from transduce.batch.collate import SpecialIds, pad_rows
from transduce.errors import ModelError, RecipeError, TokenizerError
from transduce.files import file_sha256
from transduce.recipe import read_recipe
from transduce.search.step import Step
from transduce.text.tokenizer import load_tokenizers
from transduce.translate.engine import Alignment
from transduce.translate.exported import WEIGHTS_FILE
from transduce.translate.runtime import Runtime
from transduce.translate.step_engine import StepEngine
from transduce.translate.threads import available_threads
from transduce.translate.translator import Translator

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

__all__ = ["OnnxEngine", "load_onnx"]

_EXPORT_DIRECTORY = "onnx"
_BATCH_TOKENS = 4096


def load_onnx(model: str | Path, *, runtime: Runtime | None = None) -> Translator:
    """A translator over what `transduce export --to onnx` wrote.

    Args:
        model: that directory; or the model directory or the run that holds it.
        runtime: threads and size of batches; the number form is that of the weights.

    Raises:
        ModelError: a file is missing, damaged or foreign; the export was made from other weights than those
            beside it; or another number form was asked for.
    """
    place, runtime = _place(Path(model)), runtime or Runtime()
    if runtime.compute_type not in ("default", "float32"):
        raise ModelError(
            f"the ONNX engine computes in float32, not in {runtime.compute_type}: "
            "leave --compute-type out, or take --engine ctranslate2"
        )
    try:
        recipe, (source, target) = read_recipe(place / "recipe.toml"), load_tokenizers(place)
    except (RecipeError, TokenizerError) as error:
        raise ModelError(f"the export {place} cannot be read: {error}") from error
    engine = OnnxEngine(
        place,
        suppress=[target.unk_id, *target.newline_ids],
        num_threads=runtime.threads or available_threads(),
        batch_tokens=runtime.batch_tokens or _BATCH_TOKENS,
    )
    _refuse_stale(place, engine.weights_sha256)
    languages = (recipe.data.source_language, recipe.data.target_language)
    max_len = recipe.batch.max_len - 1
    return Translator(engine, source, target, recipe.search, max_len=max_len, languages=languages)


@dataclass
class _State:
    """What the decoder's graph is fed with besides the newest ids; rows as `search.step.State` says."""

    memory: dict[str, Tensor]
    past: dict[str, Tensor]

    def select(self, rows: Tensor) -> _State:
        """Row i becomes what row rows[i] was."""
        return _State(
            {name: tensor[rows] for name, tensor in self.memory.items()},
            {name: tensor[rows] for name, tensor in self.past.items()},
        )


class OnnxEngine(StepEngine):
    """Runs an exported model on the CPU."""

    def __init__(
        self,
        directory: Path,
        *,
        suppress: Sequence[int] = (),
        num_threads: int = 0,
        batch_tokens: int = _BATCH_TOKENS,
    ) -> None:
        """Open both graphs.

        Args:
            directory: holds encoder.onnx and decoder.onnx.
            suppress: ids that are never generated.
            num_threads: of ONNX Runtime; 0 means one for each of the machine's cores.
            batch_tokens: most source cells, times the beam, computed at once.

        Raises:
            ModelError: onnxruntime is not installed, or a file is missing, damaged or foreign.
        """
        self._encoder = _session(directory / "encoder.onnx", num_threads)
        self._decoder = _session(directory / "decoder.onnx", num_threads)
        facts = self._decoder.get_modelmeta().custom_metadata_map
        try:
            ids = SpecialIds(*(int(facts[name]) for name in ("pad_id", "bos_id", "eos_id")))
            self._num_positions = int(facts["num_positions"])
            self.weights_sha256 = facts["weights_sha256"]
        except (KeyError, ValueError) as error:
            raise ModelError(
                f"{directory / 'decoder.onnx'} was not written by `transduce export`: it lacks its {error}"
            ) from error
        super().__init__(ids, suppress, batch_tokens)
        shapes = {value.name: value.shape for value in self._decoder.get_inputs()}
        self._pasts = {name: shape for name, shape in shapes.items() if name.startswith("past_")}
        self._memories = [name for name in shapes if name.startswith("memory_")]

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Alignment]:
        """As `Engine.align`: the given target is fed token by token, and the graph says where it looked."""
        aligned: list[Alignment] = []
        for source, target in zip(sources, targets, strict=True):
            (_, state), pairs = self._start(pad_rows([list(source)], self._ids)), []
            for index, token in enumerate([self._ids.bos_id, *target][: len(target) if source else 0]):
                attention, state = self._run(torch.tensor([token]), state, "attention")
                pairs.append((int(attention[0, : len(source)].argmax()), index))
            aligned.append(tuple(pairs))
        return aligned

    @property
    def _longest(self) -> int:
        return self._num_positions

    def _start(self, source: Tensor) -> tuple[Step, _State]:
        if source.shape[1] > self._longest:
            raise ModelError(
                f"a source of {source.shape[1]} tokens came, but this export has {self._longest} positions: "
                f"split the text, or export a model with a larger batch.max_len"
            )
        outputs = self._encoder.run(self._memories, {"source": source.numpy()})
        memory = {name: torch.from_numpy(array) for name, array in zip(self._memories, outputs, strict=True)}
        past = {name: torch.zeros(len(source), shape[1], 0, shape[3]) for name, shape in self._pasts.items()}
        return cast(Step, self._step), _State(memory, past)

    def _step(self, ids: Tensor, state: _State) -> tuple[Tensor, _State]:
        """As `search.step.Step`."""
        return self._run(ids, state, "logits")

    def _run(self, ids: Tensor, state: _State, wanted: str) -> tuple[Tensor, _State]:
        """Feed one token a row."""
        feed: dict[str, Any] = {name: tensor.numpy() for name, tensor in (state.memory | state.past).items()}
        names = [name.removeprefix("past_") for name in self._pasts]
        first, *present = self._decoder.run([wanted, *names], feed | {"ids": ids.numpy()})
        past = {name: torch.from_numpy(array) for name, array in zip(self._pasts, present, strict=True)}
        return torch.from_numpy(np.asarray(first)), _State(state.memory, past)


def _place(model: Path) -> Path:
    """The export: `model` itself, or inside it.

    Raises:
        ModelError: there is none.
    """
    places = (model / _EXPORT_DIRECTORY, model / "model" / _EXPORT_DIRECTORY, model)
    found = next((place for place in places if (place / "decoder.onnx").exists()), None)
    if found is None:
        raise ModelError(f"{model} has no ONNX export: make one with `transduce export {model} --to onnx`")
    return found


def _refuse_stale(place: Path, weights_sha256: str) -> None:
    """Raise ModelError where the weights beside the export are not those that it was made from."""
    weights = place.parent / WEIGHTS_FILE
    if place.name == _EXPORT_DIRECTORY and weights.exists() and file_sha256(weights) != weights_sha256:
        raise ModelError(
            f"the export {place} was made from other weights than {weights}: "
            f"make it again with `transduce export {place.parent} --to onnx`"
        )


def _session(file: Path, num_threads: int) -> InferenceSession:
    """Open one graph."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            f"running {file} needs onnxruntime ({error}): pip install 'transduce[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.log_severity_level = 3  # errors only
    if not file.exists():
        raise ModelError(f"there is no {file}: make it with `transduce export MODEL --to onnx`")
    try:
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common class of their own
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{file} cannot be read ({reason}): export it again") from error
